//! Names of devices across the power sources of a recording.
//!
//! Devices of one scope and one name are the same device, which counts once; so two controllers that both
//! call theirs `node` must not keep that name.

use std::time::Duration;

use wattrace_schema::Scope;

use super::{HardwareFacts, PowerSource, Reading, SourceSpecification, Stream};
use crate::clock::Clock;

/// A source of the recording and the devices that it gives.
#[derive(Debug)]
struct Given<'a> {
    specification: &'a SourceSpecification,
    devices: Vec<(Scope, String)>,
}

/// The devices that have a name already.
#[derive(Debug, Default)]
pub(crate) struct Devices<'a> {
    given: Vec<Given<'a>>,
}

impl<'a> Devices<'a> {
    /// Takes a source in: a name that another device has is replaced, which is noted.
    ///
    /// # Errors
    /// The earlier source and the scope, where both may measure the same device under two names.
    pub(crate) fn admit(
        &mut self,
        specification: &'a SourceSpecification,
        id: &str,
        source: Box<dyn PowerSource>,
    ) -> Result<Box<dyn PowerSource>, (&'a SourceSpecification, Scope)> {
        let mut streams = source.streams().to_vec();
        if let Some(conflict) = self.conflict(specification, &streams) {
            return Err(conflict);
        }
        let mut notes = Vec::new();
        let mut own = Vec::new();
        for stream in &mut streams {
            let scope = stream.entry.scope;
            for device in &mut stream.devices {
                if self.is_of_another(specification, scope, device) {
                    let name = self.free_name(id, scope, device);
                    notes.push(format!(
                        "{} calls its {} {device}, as another source does; it is {name} here",
                        stream.entry.id,
                        scope.name()
                    ));
                    *device = name;
                }
                own.push((scope, device.clone()));
            }
        }
        self.given.push(Given { specification, devices: own });
        Ok(if notes.is_empty() { source } else { Box::new(Renamed { source, streams, notes }) })
    }

    /// An earlier source that may measure the same devices, and nothing says which is which.
    fn conflict(
        &self,
        specification: &SourceSpecification,
        streams: &[Stream],
    ) -> Option<(&'a SourceSpecification, Scope)> {
        // Replayed files stand for no machine.
        if is_replay(specification) {
            return None;
        }
        self.given.iter().filter(|given| !is_replay(given.specification)).find_map(|given| {
            let other = given.specification;
            let is_other_kind = other.name() != specification.name();
            // A controller by its address may be that of this machine.
            let may_be_this_machine = other.place().is_none() != specification.place().is_none();
            let is_own = |scope| streams.iter().any(|stream| stream.entry.scope == scope);
            let mut scopes = given.devices.iter().map(|(scope, _)| *scope);
            let scope = scopes.find(|scope| {
                is_own(*scope)
                    && (is_accelerator(*scope) && is_other_kind
                        || *scope == Scope::Node && may_be_this_machine)
            })?;
            Some((other, scope))
        })
    }

    /// Whether an earlier source gives another device this name. Sources of several kinds at one address,
    /// or on this machine, mean one device by one name.
    fn is_of_another(&self, own: &SourceSpecification, scope: Scope, name: &str) -> bool {
        self.given.iter().any(|given| {
            let other = given.specification;
            let has_name = given.devices.iter().any(|(of, device)| *of == scope && device == name);
            let are_replays = is_replay(own) && is_replay(other);
            let is_same = own.name() != other.name() && own.place() == other.place();
            has_name && !are_replays && !is_same
        })
    }

    /// `node1` after `node`, `pdu1` after `pdu0`; boards and the like get the id of their source.
    fn free_name(&self, id: &str, scope: Scope, name: &str) -> String {
        let base = match scope {
            Scope::Node | Scope::Pdu => name.trim_end_matches(|c: char| c.is_ascii_digit()),
            _ => return format!("{id}-{name}"),
        };
        let is_taken = |candidate: &String| {
            let mut devices = self.given.iter().flat_map(|given| &given.devices);
            devices.any(|(of, device)| *of == scope && device == candidate)
        };
        let mut candidates = (1_u32..).map(|number| format!("{base}{number}"));
        candidates
            .find(|candidate| !is_taken(candidate))
            .expect("a recording has fewer devices than there are numbers")
    }
}

const fn is_replay(specification: &SourceSpecification) -> bool {
    matches!(specification, SourceSpecification::Replay { .. })
}

const fn is_accelerator(scope: Scope) -> bool {
    matches!(scope, Scope::GpuBoard | Scope::GpuModule)
}

/// A source whose devices are called otherwise than it calls them.
#[derive(Debug)]
struct Renamed {
    source: Box<dyn PowerSource>,
    streams: Vec<Stream>,
    notes: Vec<String>,
}

impl PowerSource for Renamed {
    fn streams(&self) -> &[Stream] {
        &self.streams
    }

    fn default_interval_ms(&self) -> f64 {
        self.source.default_interval_ms()
    }

    fn set_interval_ms(&mut self, interval_ms: f64) {
        self.source.set_interval_ms(interval_ms);
    }

    fn read(&mut self, clock: &dyn Clock, readings: &mut Vec<Reading>) {
        self.source.read(clock, readings);
    }

    fn take_helper_cpu(&mut self) -> Duration {
        self.source.take_helper_cpu()
    }

    fn hardware(&self) -> HardwareFacts {
        self.source.hardware()
    }

    fn is_synthetic(&self) -> bool {
        self.source.is_synthetic()
    }

    fn notes(&self) -> Vec<String> {
        let mut notes = self.source.notes();
        notes.extend(self.notes.iter().cloned());
        notes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug)]
    struct Fixed(Vec<Stream>);

    impl PowerSource for Fixed {
        fn streams(&self) -> &[Stream] {
            &self.0
        }

        fn read(&mut self, _clock: &dyn Clock, _readings: &mut Vec<Reading>) {}
    }

    /// Names that the devices of sources get, or the two sources that exclude each other.
    fn names(sources: &[(&str, &str, Scope, &str)]) -> Vec<String> {
        let specifications: Vec<SourceSpecification> =
            sources.iter().map(|(text, ..)| text.parse().unwrap()).collect();
        let mut devices = Devices::default();
        let admit = |(index, (_, id, scope, device)): (usize, &(&str, &str, Scope, &str))| {
            let mut stream = Stream::new(id, *scope, wattrace_schema::Reading::Instant);
            stream.devices.push((*device).to_owned());
            let source = Box::new(Fixed(vec![stream]));
            match devices.admit(&specifications[index], id, source) {
                Ok(source) => source.streams()[0].devices[0].clone(),
                Err((other, scope)) => format!("{} of {other} already", scope.name()),
            }
        };
        sources.iter().enumerate().map(admit).collect()
    }

    #[test]
    fn every_device_of_every_host_has_a_name_of_its_own() {
        let node = Scope::Node;
        assert_eq!(
            names(&[
                ("redfish=https://a", "redfish", node, "node"),
                ("redfish=https://b", "redfish-2", node, "node"),
                ("ipmi=c", "ipmi", node, "node"),
                ("ipmi=d", "ipmi-2", node, "node"),
            ]),
            ["node", "node1", "node2", "node3"]
        );
        assert_eq!(
            names(&[
                ("snmp=pdu,1.3.6.1", "snmp", Scope::Pdu, "pdu0"),
                ("snmp=pdu,1.3.6.2", "snmp-2", Scope::Pdu, "pdu0"),
                ("snmp=pdu,1.3.6.3", "snmp-3", Scope::Pdu, "pdu0"),
            ]),
            ["pdu0", "pdu1", "pdu2"]
        );
        assert_eq!(
            names(&[
                ("dcgm=http://a:9400", "dcgm", Scope::GpuBoard, "gpu0"),
                ("dcgm=http://b:9400", "dcgm-2", Scope::GpuBoard, "gpu0"),
            ]),
            ["gpu0", "dcgm-2-gpu0"]
        );
    }

    #[test]
    fn one_device_by_two_ways_keeps_one_name() {
        assert_eq!(
            names(&[
                ("redfish=https://BMC:443/redfish/v1/Chassis/1", "redfish", Scope::Node, "node"),
                ("ipmi=bmc", "ipmi", Scope::Node, "node"),
                ("rapl", "rapl", Scope::Cpu, "cpu0"),
                ("hwmon", "hwmon", Scope::Cpu, "cpu0"),
                ("replay=a.csv", "replay", Scope::GpuBoard, "gpu0"),
                ("replay=b.csv", "replay-2", Scope::GpuBoard, "gpu0"),
            ]),
            ["node", "node", "cpu0", "cpu0", "gpu0", "gpu0"]
        );
        // Two chassis of one service are two nodes.
        assert_eq!(
            names(&[
                ("redfish=https://bmc/redfish/v1/Chassis/1", "redfish", Scope::Node, "node"),
                ("redfish=https://bmc/redfish/v1/Chassis/2", "redfish-2", Scope::Node, "node"),
            ]),
            ["node", "node1"]
        );
    }

    #[test]
    fn what_may_be_one_device_under_two_names_is_refused() {
        let gpu = "redfish=https://bmc/redfish/v1/Systems/1/Processors/GPU_0/EnvironmentMetrics";
        assert_eq!(
            names(&[
                ("nvml", "nvml", Scope::GpuBoard, "gpu0"),
                (gpu, "redfish", Scope::GpuBoard, "GPU_0"),
            ]),
            ["gpu0", "gpu-board of nvml already"]
        );
        assert_eq!(
            names(&[
                ("ipmi", "ipmi", Scope::Node, "node"),
                ("redfish=https://bmc", "redfish", Scope::Node, "node"),
            ]),
            ["node", "node of ipmi already"]
        );
    }
}
