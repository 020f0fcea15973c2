//! Polls of a Redfish service: one JSON object a line, with the time of the poll and the resource that
//! was answered: `{"time": …, "uri": …, "latency_ms": …, "body": {…}}`.
//!
//! A BMC's own times are not trusted: rows are stamped at the poll, less half the latency where it is
//! known. Node power comes from `PowerControl`, from a chassis' `EnvironmentMetrics` or from a sensor of
//! it; power supplies are parts of the node and stay out.

use std::collections::BTreeSet;

use serde_json::{Map, Value};
use wattrace_schema::Scope;

use super::power_log::{self, PowerLog, Problem, Record, Rows, Settings, Source};
use super::{Format, Reader, quantity};
use crate::PowerRow;

const NODE: &str = "redfish";
/// Sources of what lies inside the node, by scope.
const INSIDE: [(Scope, &str); 3] =
    [(Scope::GpuBoard, "redfish-gpu"), (Scope::Cpu, "redfish-cpu"), (Scope::Dram, "redfish-dram")];

/// Keys that only resources of power have.
const POWER_KEYS: [&str; 4] = ["PowerControl", "PowerWatts", "InputPowerWatts", "ReadingType"];

pub(super) const FORMAT: Format = Format {
    name: "redfish",
    title: r#"Redfish resources, polled: JSON lines of {"time": …, "body": {…}}"#,
    recovers: "power and energy counters of the node, of processors and memory",
    lacks: "requests; the times of readings (the polls' are taken)",
    reader: Reader::Parts {
        detect: |head| recognise(head.text()),
        read: |input, options, sink| {
            power_log::read(input, options, sink, |settings| Box::new(Redfish::new(settings)))
        },
    },
};

/// Says why a text is such a log.
fn recognise(text: &str) -> Option<String> {
    let line = text.lines().map(str::trim).find(|line| !line.is_empty())?;
    if !line.starts_with('{') {
        return None;
    }
    let key = POWER_KEYS.iter().find(|key| text.contains(&format!("\"{key}\"")))?;
    let has = |keys: &[&str]| keys.iter().any(|key| text.contains(&format!("\"{key}\"")));
    let is_poll = has(&["body", "response", "data", "json"])
        && has(&["time", "timestamp", "poll_time", "t", "time_unix"]);
    (is_poll && text.contains("\"@odata."))
        .then(|| format!("its lines are polls of a Redfish resource with \"{key}\""))
}

/// Reads such a log.
#[derive(Debug)]
pub(super) struct Redfish {
    settings: Settings,
    /// The resource that node power is taken from.
    node: Option<String>,
    left_out: BTreeSet<&'static str>,
}

/// What a resource says of power.
#[derive(Debug, Clone, PartialEq)]
pub struct Reading {
    /// What is measured.
    pub scope: Scope,
    /// The resource of the node, or the name of what is inside it: a processor, a sensor.
    pub owner: String,
    /// Power, W.
    pub power_w: Option<f64>,
    /// Cumulative counter, J.
    pub energy_j: Option<f64>,
}

/// A resource, as far as power is concerned.
#[derive(Debug, Clone, PartialEq)]
pub enum Resource {
    /// It measures something.
    Measures(Reading),
    /// It measures something that is not taken, for this reason.
    LeftOut(&'static str),
}

const SUPPLIES: &str = "power supplies, which are parts of the node";

impl Resource {
    /// Reads the body of a resource: `Power`, `EnvironmentMetrics`, a sensor or a power supply. `address`
    /// is where it was asked for, in case that it does not name itself.
    ///
    /// # Errors
    /// It has none of these shapes, or does not tell what it measures.
    pub fn parse(body: &Map<String, Value>, address: Option<&str>) -> Result<Self, String> {
        let address = body.get("@odata.id").and_then(Value::as_str).or(address).unwrap_or("");
        if let Some(controls) = body.get("PowerControl").and_then(Value::as_array) {
            let control = node_control(controls)?;
            let power_w = number("PowerConsumedWatts", control.get("PowerConsumedWatts"))?;
            let owner = address.split('#').next().unwrap_or(address).to_owned();
            return Ok(Self::Measures(Reading {
                scope: Scope::Node,
                owner,
                power_w,
                energy_j: None,
            }));
        }
        if body.contains_key("InputPowerWatts") || body.contains_key("OutputPowerWatts") {
            return Ok(Self::LeftOut(SUPPLIES));
        }
        if body.contains_key("PowerWatts")
            || body.contains_key("EnergyJoules")
            || body.contains_key("EnergykWh")
        {
            return environment(body, address).map(Self::Measures);
        }
        if let Some(kind) = body.get("ReadingType").and_then(Value::as_str) {
            return sensor(kind, body, address);
        }
        Err("is a resource without power; expected PowerControl, EnvironmentMetrics or a sensor"
            .into())
    }
}

impl Redfish {
    pub(super) fn new(settings: Settings) -> Self {
        Self { settings, node: None, left_out: BTreeSet::new() }
    }

    fn poll(&mut self, json: &str, rows: &mut Rows) -> Result<(), Problem> {
        let value: Value =
            serde_json::from_str(json).map_err(|error| format!("is not valid JSON: {error}"))?;
        let record = value.as_object().and_then(Record::parse).ok_or(
            "is no poll; expected an object with \"time\" and \"body\", the resource that was answered",
        )??;
        let polled = self.settings.resolve(record.stamp)?;
        let latency_ns = record.latency_ns;
        // The reading was taken between the question, at the poll's time, and the answer.
        let half = latency_ns.and_then(|latency| i64::try_from(latency / 2).ok()).unwrap_or(0);
        let t_ns = polled.saturating_add(half);
        let Some(body) = record.body.as_object() else { return Ok(()) };
        let reading = match Resource::parse(body, record.address)? {
            Resource::Measures(reading) => reading,
            Resource::LeftOut(what) => {
                self.left_out.insert(what);
                return Ok(());
            }
        };
        self.check_node(&reading)?;
        let (source, device) = match reading.scope {
            Scope::Node => (NODE, "node".to_owned()),
            scope => {
                let inside = INSIDE.iter().find(|(known, _)| *known == scope);
                (inside.map_or(NODE, |(_, id)| id), reading.owner)
            }
        };
        rows.declare(Source::instant(source, reading.scope));
        let Reading { power_w, energy_j, .. } = reading;
        let source = source.to_owned();
        let read_ns = latency_ns;
        rows.push(PowerRow {
            t_ns,
            source,
            device,
            power_w,
            energy_j,
            read_ns,
            ..PowerRow::default()
        });
        Ok(())
    }

    /// Node power is that of one resource: two of them may contain each other.
    fn check_node(&mut self, reading: &Reading) -> Result<(), Problem> {
        if reading.scope != Scope::Node {
            return Ok(());
        }
        match &self.node {
            Some(known) if *known != reading.owner => Err(Problem::Stop(format!(
                "node power is read from \"{known}\" and from \"{}\", and one may contain the other; expected \
                 the polls of one of them",
                reading.owner
            ))),
            Some(_) => Ok(()),
            None => {
                self.node = Some(reading.owner.clone());
                Ok(())
            }
        }
    }
}

fn sensor(kind: &str, body: &Map<String, Value>, address: &str) -> Result<Resource, String> {
    let context = body.get("PhysicalContext").and_then(Value::as_str).unwrap_or("");
    let scope = match context {
        "Chassis" | "SystemBoard" | "Room" | "PowerSubsystem" => Scope::Node,
        "CPU" | "CPUSubsystem" => Scope::Cpu,
        "GPU" | "GPUSubsystem" | "Accelerator" => Scope::GpuBoard,
        "Memory" | "MemorySubsystem" => Scope::Dram,
        "PowerSupply" | "PowerSupplyBay" => {
            return Ok(Resource::LeftOut(SUPPLIES));
        }
        _ => {
            return Err(format!(
                "\"PhysicalContext\" is \"{context}\", which does not tell what the sensor measures"
            ));
        }
    };
    let reading = body.get("Reading");
    let unit = body.get("ReadingUnits").and_then(Value::as_str);
    let (mut power_w, mut energy_j) = (None, None);
    match kind {
        "Power" => {
            let value = number("Reading", reading)?;
            power_w =
                value.map(|value| quantity::power_w(value, unit.unwrap_or("W"))).transpose()?;
        }
        "EnergykWh" => energy_j = counter("Reading", reading, "kWh")?,
        "EnergyJoules" => energy_j = counter("Reading", reading, "J")?,
        "EnergyWh" => energy_j = counter("Reading", reading, "Wh")?,
        _ => {
            return Ok(Resource::LeftOut("sensors of other things than power and energy"));
        }
    }
    let id = body.get("Id").and_then(Value::as_str).unwrap_or(address);
    let owner = if scope == Scope::Node { address.to_owned() } else { id.to_owned() };
    Ok(Resource::Measures(Reading { scope, owner, power_w, energy_j }))
}

/// The member of `PowerControl` that is the node: the only one, or the only one whose name or context says
/// so. Others are parts of it.
fn node_control(controls: &[Value]) -> Result<&Map<String, Value>, String> {
    let objects: Vec<&Map<String, Value>> = controls.iter().filter_map(Value::as_object).collect();
    if let [only] = objects.as_slice() {
        return Ok(only);
    }
    let text = |object: &Map<String, Value>, key: &str| {
        object.get(key).and_then(Value::as_str).unwrap_or_default().to_owned()
    };
    let is_node = |object: &&&Map<String, Value>| {
        let name = text(object, "Name").to_lowercase();
        ["system", "chassis", "server", "node", "total"].iter().any(|word| name.contains(word))
            || text(object, "PhysicalContext") == "Chassis"
    };
    let nodes: Vec<_> = objects.iter().filter(is_node).collect();
    match nodes.as_slice() {
        [node] => Ok(node),
        _ => {
            let names: Vec<String> =
                objects.iter().map(|object| format!("\"{}\"", text(object, "Name"))).collect();
            Err(format!(
                "\"PowerControl\" has the members {}; expected one of them to be the system or the chassis",
                names.join(", ")
            ))
        }
    }
}

/// `EnvironmentMetrics` of a chassis or of a processor.
fn environment(body: &Map<String, Value>, address: &str) -> Result<Reading, String> {
    let part = |folder: &str| {
        let (_, after) = address.split_once(folder)?;
        after.split('/').next().filter(|name| !name.is_empty()).map(str::to_owned)
    };
    let (scope, owner) = match (part("/Processors/"), part("/Memory/"), part("/Chassis/")) {
        (Some(name), ..) if name.to_uppercase().contains("CPU") => (Scope::Cpu, name),
        (Some(name), ..) => (Scope::GpuBoard, name),
        (None, Some(name), _) => (Scope::Dram, name),
        (None, None, Some(_)) => (Scope::Node, address.to_owned()),
        (None, None, None) => {
            return Err(format!(
                "the address \"{address}\" does not tell what the metrics are of; expected \
                 \"@odata.id\" or \"uri\" with the chassis or the processor"
            ));
        }
    };
    let reading = |key: &str| body.get(key).and_then(|value| value.get("Reading"));
    let power_w = number("PowerWatts", reading("PowerWatts"))?;
    let mut energy_j = counter("EnergyJoules", reading("EnergyJoules"), "J")?;
    if energy_j.is_none() {
        energy_j = counter("EnergykWh", reading("EnergykWh"), "kWh")?;
    }
    Ok(Reading { scope, owner, power_w, energy_j })
}

/// A number, which some services write as text; null where there is none.
///
/// # Errors
/// It is neither a number nor a text that says that there is none; the message names `key`.
pub fn number(key: &str, value: Option<&Value>) -> Result<Option<f64>, String> {
    let wrong = |text: &str| Err(format!("\"{key}\" is {text}; expected a number"));
    match value {
        None | Some(Value::Null) => Ok(None),
        Some(Value::Number(number)) => Ok(number.as_f64()),
        Some(Value::String(text)) if quantity::is_absent(text) => Ok(None),
        Some(Value::String(text)) => match text.trim().parse() {
            Ok(number) => Ok(Some(number)),
            Err(_) => wrong(&format!("\"{text}\"")),
        },
        Some(other) => wrong(&other.to_string()),
    }
}

/// A counter in joules; one of zero is not supported.
fn counter(key: &str, value: Option<&Value>, unit: &str) -> Result<Option<f64>, String> {
    let Some(value) = number(key, value)?.filter(|value| *value > 0.0) else { return Ok(None) };
    quantity::energy_j(value, unit).map(Some)
}

impl PowerLog for Redfish {
    fn line(&mut self, line: &str, rows: &mut Rows) -> Result<(), Problem> {
        self.poll(line, rows)
    }

    fn end(&mut self, rows: &mut Rows) -> Result<(), Problem> {
        if let Some(node) = &self.node {
            rows.note(format!("node power is that of \"{}\"", node.escape_debug()));
        }
        for what in &self.left_out {
            rows.note(format!("{what}, left out"));
        }
        if !rows.is_empty() {
            rows.note("times are those of the polls; a BMC may refresh its reading less often");
        }
        Ok(())
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::super::power_log::testing::{Log, read, show};
    use super::*;

    pub(in super::super) const MINIMAL: &str = r#"{"time": "2025-01-15T12:34:56Z", "latency_ms": 200, "body": {"@odata.id": "/redfish/v1/Chassis/1/Power", "PowerControl": [{"Name": "GPU tray", "PowerConsumedWatts": 2000}, {"Name": "System Power", "PowerConsumedWatts": 3000, "PowerMetrics": {"AverageConsumedWatts": 1}}], "PowerSupplies": [{"PowerInputWatts": 1500}]}}
{"time": "2025-01-15T12:34:57Z", "body": {"@odata.id": "/redfish/v1/Chassis/1/Power", "PowerControl": [{"Name": "System Power", "PowerConsumedWatts": "3001.5"}]}}
{"time": "2025-01-15T12:34:58Z", "body": {"@odata.id": "/redfish/v1/Chassis/1/Power", "PowerControl": [{"Name": "System Power", "PowerConsumedWatts": null}]}}
{"time": "2025-01-15T12:34:59Z", "body": {"@odata.id": "/redfish/v1/Chassis/1/Power", "PowerControl": [{"Name": "System Power", "PowerConsumedWatts": 0}]}}
"#;

    fn log(text: &str) -> Log {
        read(Redfish::new(Settings::default()), text).unwrap()
    }

    fn poll(body: &str) -> String {
        format!("{{\"t\": 1736944496, \"body\": {body}}}\n")
    }

    #[test]
    fn the_node_is_taken_not_its_trays_or_averages() {
        let log = log(MINIMAL);
        insta::assert_snapshot!(show(&log.rows), @"
        0.1s redfish node 3000 W
        1s redfish node 3001.5 W
        2s redfish node -
        3s redfish node -
        ");
        assert_eq!(log.rows[0].read_ns, Some(200_000_000));
        insta::assert_snapshot!(log.findings.notes.join("\n"), @r#"
        node power is that of "/redfish/v1/Chassis/1/Power"
        times are those of the polls; a BMC may refresh its reading less often
        readings of 0, which a device that runs does not draw, null: 1
        "#);
    }

    #[test]
    fn metrics_and_sensors_have_their_scope_and_unit() {
        let text = [
            poll(r#"{"@odata.id": "/redfish/v1/Chassis/1/EnvironmentMetrics", "PowerWatts": {"Reading": 374}, "EnergykWh": {"Reading": 2.5}}"#),
            poll(r#"{"@odata.id": "/redfish/v1/Systems/1/Processors/GPU_0/EnvironmentMetrics", "PowerWatts": {"Reading": 500}, "EnergyJoules": {"Reading": 12.5}}"#),
            poll(r#"{"@odata.id": "/redfish/v1/Chassis/1/Sensors/CPU1Power", "Id": "CPU1Power", "ReadingType": "Power", "Reading": 90, "ReadingUnits": "W", "PhysicalContext": "CPU"}"#),
            poll(r#"{"@odata.id": "/x", "Id": "PS1", "ReadingType": "EnergykWh", "Reading": 7855, "PhysicalContext": "PowerSupply"}"#),
            poll(r#"{"@odata.id": "/y", "InputPowerWatts": {"Reading": 937.4}}"#),
        ]
        .concat();
        let log = log(&text);
        insta::assert_snapshot!(show(&log.rows), @"
        0s redfish node 374 W 9000000 J
        0s redfish-gpu GPU_0 500 W 12.5 J
        0s redfish-cpu CPU1Power 90 W
        ");
        assert!(
            log.findings
                .notes
                .contains(&"power supplies, which are parts of the node, left out".to_owned())
        );
    }

    #[test]
    fn two_resources_of_the_node_are_asked_about() {
        let text = [
            poll(r#"{"@odata.id": "/redfish/v1/Chassis/A/EnvironmentMetrics", "PowerWatts": {"Reading": 374}}"#),
            poll(r#"{"@odata.id": "/redfish/v1/Chassis/B/EnvironmentMetrics", "PowerWatts": {"Reading": 374}}"#),
        ]
        .concat();
        insta::assert_snapshot!(read(Redfish::new(Settings::default()), &text).unwrap_err(), @r#"line 2: node power is read from "/redfish/v1/Chassis/A/EnvironmentMetrics" and from "/redfish/v1/Chassis/B/EnvironmentMetrics", and one may contain the other; expected the polls of one of them"#);
    }

    #[test]
    fn broken_lines_say_what_is_wrong() {
        let text = [
            MINIMAL.to_owned(),
            "{\"PowerControl\": []}\n".into(),
            poll(r#"{"PowerControl": [{"Name": "a"}, {"Name": "b"}]}"#),
            poll(r#"{"PowerControl": [{"Name": "a", "PowerConsumedWatts": "much"}]}"#),
            poll(r#"{"Temperatures": []}"#),
            poll(r#"{"ReadingType": "Power", "Reading": 5}"#),
            poll(r#"{"PowerWatts": {"Reading": 5}}"#),
            "{\"t\": 1736944496, \"body\": {".into(),
        ]
        .concat();
        insta::assert_snapshot!(log(&text).skipped.join("\n"), @r#"
        line 5: is no poll; expected an object with "time" and "body", the resource that was answered
        line 6: "PowerControl" has the members "a", "b"; expected one of them to be the system or the chassis
        line 7: "PowerConsumedWatts" is "much"; expected a number
        line 8: is a resource without power; expected PowerControl, EnvironmentMetrics or a sensor
        line 9: "PhysicalContext" is "", which does not tell what the sensor measures
        line 10: the address "" does not tell what the metrics are of; expected "@odata.id" or "uri" with the chassis or the processor
        line 11: was cut off
        "#);
    }
}
