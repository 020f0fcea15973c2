//! `gpu_telemetry_export.jsonl`.

use std::collections::BTreeMap;

use serde::Deserialize;
use wattrace_schema::{Interpolation, PowerSource, Reading, Scope};

use super::super::cadence::Cadence;
use super::super::clock::epoch_clock;
use super::super::{ImportOptions, Input, Part, Sink, json, quantity};
use crate::{PowerRow, TraceError};

/// What tells a line of this file.
pub(super) const KEYS: &[&str] = &["timestamp_ns", "gpu_index", "telemetry_data"];

#[derive(Debug, Deserialize)]
struct Record {
    timestamp_ns: i64,
    dcgm_url: Option<String>,
    gpu_index: u32,
    gpu_model_name: Option<String>,
    hostname: Option<String>,
    telemetry_data: Telemetry,
}

/// Fields that are absent or null were not measured. Names differ by version and vendor.
#[derive(Debug, Deserialize)]
struct Telemetry {
    gpu_power_usage: Option<f64>,
    nvidia_power_usage: Option<f64>,
    amd_power: Option<f64>,
    energy_consumption: Option<f64>,
    nvidia_energy_consumption: Option<f64>,
    amd_energy_consumption: Option<f64>,
    gpu_utilization: Option<f64>,
    gpu_memory_used: Option<f64>,
    gpu_temperature: Option<f64>,
}

/// How the exporter was asked, which names the source.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Exporter {
    Dcgm,
    Pynvml,
    Amdsmi,
}

impl Exporter {
    fn of(url: Option<&str>) -> Self {
        match url.map(|url| url.split_once("://").map_or(url, |(scheme, _)| scheme)) {
            Some("pynvml") => Self::Pynvml,
            Some("amdsmi") => Self::Amdsmi,
            _ => Self::Dcgm,
        }
    }

    const fn source(self) -> &'static str {
        match self {
            Self::Dcgm => "dcgm",
            Self::Pynvml => "pynvml",
            Self::Amdsmi => "amdsmi",
        }
    }
}

/// What the lines have in common.
#[derive(Debug, Default)]
struct Seen {
    rows: u64,
    absent_power: u64,
    absent_energy: u64,
    /// Cadence and model name, by source.
    sources: BTreeMap<&'static str, (Cadence, Option<String>)>,
    /// The first host's devices go by their plain names.
    host: Option<String>,
    devices: std::collections::BTreeSet<String>,
}

pub(super) fn read(
    input: &Input,
    options: &ImportOptions,
    sink: &mut dyn Sink,
) -> Result<(), TraceError> {
    sink.begin(&input.stem())?;
    let mut part = Part { clock: epoch_clock(1), ..Part::default() };
    let mut seen = Seen::default();
    json::lines::<Record>(input, |line, record| {
        match record.and_then(|record| record.row(&mut seen)) {
            Ok(row) => sink.power(row),
            Err(message) => part.skipped.add(options.strict, input.path(), line, "lines", message),
        }
    })?;
    if seen.rows == 0 {
        let mut message = "holds no telemetry of AIPerf".to_owned();
        for note in part.skipped.notes(input.path()) {
            message += &format!("; {note}");
        }
        return Err(input.error(None, message));
    }
    seen.describe(&mut part);
    sink.end(part)
}

impl Record {
    fn row(self, seen: &mut Seen) -> Result<PowerRow, String> {
        let data = &self.telemetry_data;
        let exporter = Exporter::of(self.dcgm_url.as_deref());
        let power = data.gpu_power_usage.or(data.nvidia_power_usage).or(data.amd_power);
        let energy = data
            .energy_consumption
            .or(data.nvidia_energy_consumption)
            .or(data.amd_energy_consumption);
        // A board that draws nothing, or a counter at zero, is a field that the part does not support.
        let power_w = power.filter(|watts| *watts > 0.0);
        let energy_mj = energy.filter(|megajoules| *megajoules > 0.0);
        let row = PowerRow {
            t_ns: self.timestamp_ns,
            source: exporter.source().into(),
            device: seen.device(self.hostname.as_deref(), self.gpu_index),
            power_w,
            energy_j: energy_mj.map(|value| quantity::energy_j(value, "MJ")).transpose()?,
            temperature_c: data.gpu_temperature.map(|celsius| celsius as f32),
            memory_used_bytes: data
                .gpu_memory_used
                .map(|value| quantity::bytes(value, "GB"))
                .transpose()?,
            utilization_percent: data.gpu_utilization.map(|percent| percent as f32),
            ..PowerRow::default()
        };
        seen.rows += 1;
        seen.absent_power += u64::from(power.is_some() && power_w.is_none());
        seen.absent_energy += u64::from(energy.is_some() && energy_mj.is_none());
        let (cadence, model) = seen.sources.entry(exporter.source()).or_default();
        cadence.add(&row.device, row.t_ns);
        if model.is_none() {
            *model = self.gpu_model_name;
        }
        Ok(row)
    }
}

impl Seen {
    fn device(&mut self, host: Option<&str>, index: u32) -> String {
        let first = self.host.get_or_insert_with(|| host.unwrap_or_default().to_owned());
        let name = match host {
            Some(host) if host != first => format!("{host}/gpu{index}"),
            _ => format!("gpu{index}"),
        };
        if !self.devices.contains(&name) {
            self.devices.insert(name.clone());
        }
        name
    }

    fn describe(&self, part: &mut Part) {
        for (source, (cadence, model)) in &self.sources {
            part.power_sources.push(power_source(
                source,
                cadence,
                model.as_deref(),
                &mut part.notes,
            ));
            if part.accelerator.is_none() {
                part.accelerator.clone_from(model);
            }
        }
        part.accelerators = u32::try_from(self.devices.len()).ok();
        part.node = self.host.clone().filter(|host| !host.is_empty());
        for (count, what) in
            [(self.absent_power, "power"), (self.absent_energy, "an energy counter")]
        {
            if count > 0 {
                part.notes
                    .push(format!("readings of {what} that are zero or negative, null: {count}"));
            }
        }
    }
}

/// NVIDIA boards report a trailing average of one second, except those before Ampere and GA100.
fn power_source(
    id: &str,
    cadence: &Cadence,
    model: Option<&str>,
    notes: &mut Vec<String>,
) -> PowerSource {
    let instant = id == Exporter::Amdsmi.source()
        || model.is_some_and(|name| {
            ["A100", "A30", "V100", "T4", "P100"].iter().any(|old| name.contains(old))
        });
    let (reading, averaging_window_ms, word) = if instant {
        (Reading::Instant, None, "an instant")
    } else {
        (Reading::Average, Some(1000.0), "an average of the second before")
    };
    let model = model.unwrap_or("a board that is not named");
    notes.push(format!(
        "power of {id} is taken for {word}, as usual for {model}; the file does not say"
    ));
    PowerSource {
        id: id.to_owned(),
        scope: Scope::GpuBoard,
        reading,
        averaging_window_ms,
        nominal_interval_ms: cadence.interval_ms(),
        counter_wrap_j: None,
        counter_refresh_ms: None,
        accuracy_percent: None,
        clock_offset_ns: None,
        clock_offset_uncertainty_ns: None,
        interpolation: Interpolation::Linear,
    }
}
