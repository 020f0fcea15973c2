//! Rules about which source measures what.

use std::collections::{BTreeMap, BTreeSet};

use wattrace_schema::tables::{POWER, power_column};
use wattrace_schema::{RunManifest, Scope};

use super::device::devices;
use super::{Place, Report};
use crate::manifest::RUN_JSON;
use crate::reader::power::PowerRows;

pub(super) fn source_used(manifest: &RunManifest, power: &PowerRows, report: &mut Report) {
    let used: BTreeSet<_> = power.devices.iter().map(|device| device.source).collect();
    for (index, source) in manifest.power_sources.iter().enumerate() {
        if !used.contains(&index) {
            let message = format!(
                "no row names source \"{}\"; expected rows, or no such entry in power_sources",
                source.id
            );
            report.add(Place::file(POWER.file).column(power_column::source), message);
        }
    }
}

pub(super) fn overlap(manifest: &RunManifest, power: &PowerRows, report: &mut Report) {
    let mut first: BTreeMap<(Scope, &str), &str> = BTreeMap::new();
    for device in devices(manifest, power) {
        let key = (device.source.scope, device.rows.device.as_str());
        let id = device.source.id.as_str();
        let listed_first = *first.entry(key).or_insert(id);
        if listed_first != id {
            let message = format!(
                "device \"{}\" is measured by \"{listed_first}\" and by \"{id}\", both of scope {}; \
                 expected one source, and \"{listed_first}\", listed first, is used",
                key.1,
                key.0.name()
            );
            report.add(Place::file(POWER.file).column(power_column::source), message);
        }
    }
}

pub(super) fn board_and_module(manifest: &RunManifest, power: &PowerRows, report: &mut Report) {
    let scopes: BTreeSet<_> = devices(manifest, power).map(|device| device.source.scope).collect();
    if scopes.contains(&Scope::GpuBoard) && scopes.contains(&Scope::GpuModule) {
        let message = "both gpu-board and gpu-module are measured; boards are used, since a module \
                       contains its board";
        report.add(Place::file(RUN_JSON), message.to_owned());
    }
}

pub(super) fn device_count(manifest: &RunManifest, power: &PowerRows, report: &mut Report) {
    let names = |scope: Scope| -> BTreeSet<&str> {
        devices(manifest, power)
            .filter(|device| device.source.scope == scope)
            .map(|device| device.rows.device.as_str())
            .collect()
    };
    let boards = names(Scope::GpuBoard);
    let (scope, measured) = if boards.is_empty() {
        (Scope::GpuModule, names(Scope::GpuModule))
    } else {
        (Scope::GpuBoard, boards)
    };
    let count = manifest.hardware.count as usize;
    if !measured.is_empty() && measured.len() != count {
        let message = format!(
            "{} devices of scope {} are measured, but key \"hardware.count\" is {count}; expected as many",
            measured.len(),
            scope.name()
        );
        report.add(Place::file(POWER.file).column(power_column::device), message);
    }
}
