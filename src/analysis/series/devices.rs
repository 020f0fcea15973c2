//! Which devices a value is about.

use wattrace_schema::{DevicePower, Flag, FlagSet, PowerSource, Reading, Reason, Run, Scope};

/// The devices whose energies are added, and what a reader must know about the choice.
#[derive(Debug, Clone)]
pub struct DeviceSet<'run> {
    /// Each device with its source.
    pub devices: Vec<(&'run DevicePower, &'run PowerSource)>,
    /// What a reader must know about the choice.
    pub flags: FlagSet,
}

/// The accelerators: devices of the `gpu-board` sources, or of the `gpu-module` sources where there is
/// no board source.
///
/// # Errors
/// [`Reason::NoGpuPower`].
pub fn accelerators(run: &Run) -> Result<DeviceSet<'_>, Reason> {
    let mut set = devices_of(run, Scope::GpuBoard)
        .or_else(|| {
            let mut modules = devices_of(run, Scope::GpuModule)?;
            modules.flags.insert(Flag::ModuleScope);
            Some(modules)
        })
        .ok_or(Reason::NoGpuPower)?;
    let expected = usize::try_from(run.manifest.hardware.count).unwrap_or(usize::MAX);
    set.flags.insert_if(set.devices.len() != expected, Flag::DeviceCountMismatch);
    Ok(set)
}

/// The node: devices of the `node` sources, or of the `pdu` sources where there is no node source.
///
/// # Errors
/// [`Reason::NoNodePower`].
pub fn node(run: &Run) -> Result<DeviceSet<'_>, Reason> {
    devices_of(run, Scope::Node)
        .or_else(|| {
            let mut outlets = devices_of(run, Scope::Pdu)?;
            outlets.flags.insert(Flag::PduScope);
            Some(outlets)
        })
        .ok_or(Reason::NoNodePower)
}

/// The devices of one scope, each once: where two sources measure the same device, the source listed
/// first in run.json is used, since adding both would count the device twice.
fn devices_of(run: &Run, scope: Scope) -> Option<DeviceSet<'_>> {
    let mut devices: Vec<(&DevicePower, &PowerSource)> = Vec::new();
    let mut flags = FlagSet::EMPTY;
    for device in &run.power {
        let source = run.manifest.power_sources.get(device.source)?;
        if source.scope != scope {
            continue;
        }
        if devices.iter().any(|(known, _)| known.device == device.device) {
            flags.insert(Flag::OverlappingSources);
            continue;
        }
        flags.insert_if(source.reading == Reading::Average, Flag::AverageReading);
        let ceiling_w = scope.power_ceiling_w();
        let above = device.power_w.value.iter().any(|power_w| *power_w > ceiling_w);
        flags.insert_if(above, Flag::AboveCeiling);
        flags.insert_if(device.duplicate_times > 0, Flag::DuplicateTime);
        flags.insert_if(device.invalid_samples > 0, Flag::InvalidSamples);
        devices.push((device, source));
    }
    (!devices.is_empty()).then_some(DeviceSet { devices, flags })
}
