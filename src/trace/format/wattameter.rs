//! WattAMeter's logs: a table between blanks whose header, after `#`, names a device and a unit for each
//! column: `gpu-0[mW]`, `cpu-0[uJ]`, `gpu-0[C]`. Stamps are local time, the middle of each reading.
//!
//! Where a device has a counter, its column of power is the counter's own difference towards the next
//! row: the same measurement, a row early. It is left out.

use wattrace_schema::{Reading, Scope};

use super::power_log::{
    self, PowerLog, Problem, Rows, Settings, Source, energy_cell, number_cell, parse_stamp,
    power_cell,
};
use super::{Format, Reader};
use crate::PowerRow;

pub(super) const FORMAT: Format = Format {
    name: "wattameter",
    title: "WattAMeter (NVML and RAPL logs)",
    recovers: "board power, package energy counters, temperature, how long each read took",
    lacks: "requests, model; the zone of its times (--tz)",
    reader: Reader::Parts {
        detect: |head| recognise(head.text()),
        read: |input, options, sink| {
            power_log::read(input, options, sink, |settings| Box::new(WattAMeter::new(settings)))
        },
    },
};

/// Says why the first lines are those of such a log.
fn recognise(text: &str) -> Option<String> {
    text.lines()
        .take_while(|line| line.starts_with('#'))
        .find(|line| header_names(line).is_some())
        .map(|_| {
            "a line of its head names the columns \"timestamp\" and \"reading-time[ns]\"".into()
        })
}

/// Names in the header; `None` if the line is another comment.
fn header_names(line: &str) -> Option<Vec<&str>> {
    let names: Vec<&str> = line.strip_prefix('#')?.split_whitespace().collect();
    let is_header =
        names.first() == Some(&"timestamp") && names.get(1)?.starts_with("reading-time");
    is_header.then_some(names)
}

/// Kinds of devices: prefix of the name, scope, id of the source, and the names that archives use.
const KINDS: [(&str, Scope, &str, &str); 3] = [
    ("gpu-", Scope::GpuBoard, "wattameter-gpu", "gpu"),
    ("cpu-", Scope::Cpu, "wattameter-cpu", "cpu"),
    ("dram-", Scope::Dram, "wattameter-dram", "dram"),
];

/// Reads such a log.
#[derive(Debug)]
pub(super) struct WattAMeter {
    settings: Settings,
    columns: Vec<Column>,
    /// Places of the devices' rows, in the order of the header.
    devices: Vec<(usize, String)>,
}

/// What a column holds.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Column {
    Time,
    ReadingTime,
    /// Of the device at this place of the list.
    Power(usize, String),
    Energy(usize, String),
    Temperature(usize),
    Other,
}

impl WattAMeter {
    pub(super) const fn new(settings: Settings) -> Self {
        Self { settings, columns: Vec::new(), devices: Vec::new() }
    }

    fn header(&mut self, names: &[&str], rows: &mut Rows) -> Result<(), Problem> {
        self.devices.clear();
        self.columns.clear();
        for name in names {
            let column = self.column(name, rows);
            self.columns.push(column);
        }
        let metered: Vec<usize> = self
            .columns
            .iter()
            .filter_map(
                |column| if let Column::Energy(device, _) = column { Some(*device) } else { None },
            )
            .collect();
        for column in &mut self.columns {
            if matches!(column, Column::Power(device, _) if metered.contains(device)) {
                *column = Column::Other;
                rows.note(
                    "power columns beside a counter are the counter's own differences, a row early, and are \
                     left out",
                );
            }
        }
        let measures = |column: &Column| matches!(column, Column::Power(..) | Column::Energy(..));
        if !self.columns.iter().any(measures) {
            return Err(Problem::Stop(
                "has no column of power or energy in its header; expected such as \"gpu-0[mW]\""
                    .into(),
            ));
        }
        for (kind, _) in &self.devices {
            let (_, scope, id, _) = KINDS[*kind];
            rows.declare(Source::instant(id, scope));
            if scope == Scope::GpuBoard {
                rows.set_reading(id, Reading::Average, Some(super::nvidia_smi::AVERAGE_MS));
                rows.note(
                    "board power is taken for NVML's mean over one second, as on Ampere and later; the log does \
                     not name the boards",
                );
            }
        }
        Ok(())
    }

    fn column(&mut self, name: &str, rows: &mut Rows) -> Column {
        let (name, unit) = match name.strip_suffix(']').and_then(|name| name.split_once('[')) {
            Some((name, unit)) => (name, unit),
            None => (name, ""),
        };
        match name {
            "timestamp" => return Column::Time,
            "reading-time" if unit == "ns" => return Column::ReadingTime,
            _ => {}
        }
        let kind = KINDS.iter().position(|(prefix, ..)| name.starts_with(prefix));
        let Some(kind) = kind else { return Column::Other };
        let (prefix, .., short) = KINDS[kind];
        let number = &name[prefix.len()..];
        let measures_power = unit.ends_with('W');
        let measures_energy = unit.ends_with('J') || unit.ends_with("Wh");
        if number.parse::<u16>().is_err() {
            if measures_power || measures_energy {
                rows.note(format!("\"{name}\" is a part of its package and is left out"));
            }
            return Column::Other;
        }
        let device = format!("{short}{number}");
        let known = self.devices.iter().position(|(_, known)| *known == device);
        let place = known.unwrap_or(self.devices.len());
        let column = match unit {
            _ if measures_power => Column::Power(place, unit.to_owned()),
            _ if measures_energy => Column::Energy(place, unit.to_owned()),
            "C" => Column::Temperature(place),
            _ => return Column::Other,
        };
        if known.is_none() {
            self.devices.push((kind, device));
        }
        column
    }
}

impl PowerLog for WattAMeter {
    fn line(&mut self, line: &str, rows: &mut Rows) -> Result<(), Problem> {
        if let Some(names) = header_names(line) {
            return self.header(&names, rows);
        }
        if line.starts_with('#') {
            return Ok(());
        }
        if self.columns.is_empty() {
            return Err(Problem::Stop(
                "has no header before its first row; expected \"# timestamp reading-time[ns] …\" as \
                 WattAMeter writes"
                    .into(),
            ));
        }
        let cells: Vec<&str> = line.split_whitespace().collect();
        if cells.len() != self.columns.len() {
            let expected = self.columns.len();
            return Err(format!(
                "has {} values; expected {expected} as in the header",
                cells.len()
            )
            .into());
        }
        let mut readings: Vec<PowerRow> = self
            .devices
            .iter()
            .map(|(kind, device)| PowerRow {
                source: KINDS[*kind].2.into(),
                device: device.clone(),
                ..PowerRow::default()
            })
            .collect();
        let (mut time, mut read_ns) = (None, None);
        for (column, cell) in self.columns.iter().zip(&cells) {
            match column {
                Column::Time => time = parse_stamp(cell),
                Column::ReadingTime => read_ns = cell.parse::<u64>().ok(),
                Column::Power(device, unit) => {
                    readings[*device].power_w = power_cell(&readings[*device].device, cell, unit)?;
                }
                Column::Energy(device, unit) => {
                    let energy_j = energy_cell(&readings[*device].device, cell, unit)?;
                    readings[*device].energy_j = energy_j.filter(|joules| *joules > 0.0);
                }
                Column::Temperature(device) => {
                    readings[*device].temperature_c = number_cell(cell).map(|value| value as f32);
                }
                Column::Other => {}
            }
        }
        let stamp = time.ok_or_else(|| {
            format!(
                "\"timestamp\" is \"{}\"; expected a time such as \"2025-01-31_12:34:56.789\"",
                cells.first().unwrap_or(&"")
            )
        })?;
        let t_ns = self.settings.resolve(stamp)?;
        for reading in readings {
            rows.push(PowerRow { t_ns, read_ns, ..reading });
        }
        Ok(())
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::super::power_log::testing::{Log, read, show, zone};
    use super::*;

    pub(in super::super) const MINIMAL: &str = "\
# 2025-01-15_12:34:56.000000 - Tracking started
# timestamp                  reading-time[ns] gpu-0[mW] gpu-1[mW] gpu-0[C] gpu-1[C]
  2025-01-15_12:34:56.100000 45560 75832 74362 41 42
  2025-01-15_12:34:56.200000 37227 75871 0 41 42
";

    const RAPL: &str = "\
# timestamp                  reading-time[ns] cpu-0[uJ] cpu-0-core[uJ] dram-0[mJ] cpu-0[W] cpu-0-core[W]
  2025-01-15_12:34:56.100000 65530 23803563318 268204101 5000 82.9 0.02
  2025-01-15_12:34:56.200000 81655 23811878287 268206069 6000 57.4 0.02
";

    fn log(text: &str) -> Log {
        read(WattAMeter::new(zone("UTC")), text).unwrap()
    }

    #[test]
    fn boards_have_power_in_the_unit_of_the_header() {
        let log = log(MINIMAL);
        insta::assert_snapshot!(show(&log.rows), @"
        0.1s wattameter-gpu gpu0 75.832 W
        0.1s wattameter-gpu gpu1 74.362 W
        0.2s wattameter-gpu gpu0 75.871 W
        0.2s wattameter-gpu gpu1 -
        ");
        assert_eq!((log.rows[1].temperature_c, log.rows[1].read_ns), (Some(42.0), Some(45_560)));
        assert_eq!(log.findings.accelerators, 2);
    }

    #[test]
    fn counters_go_before_the_power_derived_from_them_and_cores_are_in_their_package() {
        let log = log(RAPL);
        insta::assert_snapshot!(show(&log.rows), @"
        0.1s wattameter-cpu cpu0 - 23803.563318 J
        0.1s wattameter-dram dram0 - 5 J
        0.2s wattameter-cpu cpu0 - 23811.878287 J
        0.2s wattameter-dram dram0 - 6 J
        ");
        insta::assert_snapshot!(log.findings.notes.join("\n"), @r#"
        "cpu-0-core" is a part of its package and is left out
        power columns beside a counter are the counter's own differences, a row early, and are left out
        "#);
        let scopes: Vec<Scope> = log.findings.sources.iter().map(|source| source.scope).collect();
        assert_eq!(scopes, [Scope::Cpu, Scope::Dram]);
    }

    #[test]
    fn broken_lines_say_what_is_wrong() {
        let text = format!(
            "{MINIMAL}  2025-01-15_12:34 1 1 1 1 1\n  2025-01-15_12:34:57.0 1 1 1 1\n  2025-01-15_12:34:57.0 1 x 1 1 1\n  2025-01-15_12:34:57.0 1 1 1 1 4"
        );
        insta::assert_snapshot!(log(&text).skipped.join("\n"), @r#"
        line 5: "timestamp" is "2025-01-15_12:34"; expected a time such as "2025-01-31_12:34:56.789"
        line 6: has 5 values; expected 6 as in the header
        line 7: "gpu0" is "x"; expected a number such as "412.34 W"
        line 8: was cut off
        "#);
        let error = |text: &str, settings| read(WattAMeter::new(settings), text).unwrap_err();
        insta::assert_snapshot!(error("1 2 3\n", zone("UTC")), @r##"line 1: has no header before its first row; expected "# timestamp reading-time[ns] …" as WattAMeter writes"##);
        insta::assert_snapshot!(error("# timestamp reading-time[ns] gpu-0[C]\n", zone("UTC")), @r#"line 1: has no column of power or energy in its header; expected such as "gpu-0[mW]""#);
        assert!(error(MINIMAL, Settings::default()).contains("name the zone of the log (--tz)"));
    }
}
