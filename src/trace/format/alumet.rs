//! Alumet's CSV output: one row a measurement, with its metric, time, value, resource and consumer.
//!
//! Energy is the difference since the row before, not a counter; zero differences are dropped. It is added
//! up here to a counter. A line that cannot be read loses energy, so the counter then starts again at zero.

use std::collections::BTreeMap;

use wattrace_schema::Scope;

use super::power_log::{
    self, Columns, PowerLog, Problem, Rows, Settings, Source, energy_cell, parse_stamp, power_cell,
    split_cells,
};
use super::{Format, Reader};
use crate::PowerRow;

pub(super) const FORMAT: Format = Format {
    name: "alumet",
    title: "Alumet CSV output",
    recovers: "energy of boards, packages and memory, board power",
    lacks: "requests, model; energy before the first row",
    reader: Reader::Parts {
        detect: |head| head.lines().next().and_then(recognise),
        read: |input, options, sink| {
            power_log::read(input, options, sink, |settings| Box::new(Alumet::new(settings)))
        },
    },
};

/// Says why a first line is the header of such a log.
fn recognise(line: &str) -> Option<String> {
    let columns = Columns::parse(line, separator(line));
    let needed = ["metric", "timestamp", "value", "resource_kind", "consumer_kind"];
    needed
        .iter()
        .all(|name| columns.find(&[name]).is_some())
        .then(|| format!("its header has the columns {}", needed.join(", ")))
}

/// Semicolons unless the output was set otherwise.
fn separator(header: &str) -> char {
    [';', ',', '\t']
        .into_iter()
        .max_by_key(|separator| (header.matches(*separator).count(), *separator == ';'))
        .unwrap_or(';')
}

/// Metrics of power and energy without their unit, and what each measures.
const METRICS: [(&str, Quantity); 5] = [
    ("nvml_energy_consumption", Quantity::Energy),
    ("nvml_instant_power", Quantity::Power),
    ("nvml_average_power", Quantity::AveragePower),
    ("rapl_consumed_energy", Quantity::Energy),
    ("amd_gpu_energy_consumption", Quantity::Energy),
];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Quantity {
    Energy,
    Power,
    AveragePower,
}

/// The metric, its quantity and its unit in a name such as `nvml_energy_consumption_mJ`.
fn metric(name: &str) -> Option<(&'static str, Quantity, &str)> {
    METRICS.iter().find_map(|(known, quantity)| {
        let unit = name.strip_prefix(known)?;
        let unit = unit.strip_prefix('_').or(unit.is_empty().then_some(""))?;
        Some((*known, *quantity, unit))
    })
}

/// Reads such a log.
#[derive(Debug)]
pub(super) struct Alumet {
    settings: Settings,
    header: Option<Header>,
    counters: BTreeMap<(&'static str, String), f64>,
    /// The last row of each device: energy and power of one time are two lines and one row.
    pending: BTreeMap<String, PowerRow>,
    boards: Vec<String>,
    breaks: u64,
}

#[derive(Debug)]
struct Header {
    columns: Columns,
    separator: char,
    metric: usize,
    time: usize,
    value: usize,
    resource_kind: usize,
    resource_id: usize,
    consumer_kind: usize,
    domain: Option<usize>,
    attributes: Option<usize>,
}

impl Alumet {
    pub(super) fn new(settings: Settings) -> Self {
        let (counters, pending) = (BTreeMap::new(), BTreeMap::new());
        Self { settings, header: None, counters, pending, boards: Vec::new(), breaks: 0 }
    }

    /// Device and scope of a resource; `None`, counted, where it is contained in another.
    fn device(&mut self, cells: &Cells<'_>, rows: &mut Rows) -> Option<(Scope, String)> {
        match cells.resource_kind {
            "gpu" => Some((Scope::GpuBoard, self.board(cells.resource_id))),
            "cpu_package" if matches!(cells.domain, "package" | "") => {
                Some((Scope::Cpu, format!("cpu{}", cells.resource_id)))
            }
            "dram" => Some((Scope::Dram, format!("dram{}", cells.resource_id))),
            "cpu_package" if cells.domain == "dram" => {
                Some((Scope::Dram, format!("dram{}", cells.resource_id)))
            }
            _ => {
                let what = if cells.domain.is_empty() { cells.resource_kind } else { cells.domain };
                rows.leave_out(&format!("energy of \"{what}\", which overlaps with the packages"));
                None
            }
        }
    }

    /// A board by its number, or by the order in which addresses come.
    fn board(&mut self, id: &str) -> String {
        if id.len() <= 3 && id.parse::<u16>().is_ok() {
            return format!("gpu{id}");
        }
        let known = self.boards.iter().position(|board| board == id);
        let place = known.unwrap_or_else(|| {
            self.boards.push(id.to_owned());
            self.boards.len() - 1
        });
        format!("gpu{place}")
    }

    fn add(&mut self, line: &str, rows: &mut Rows) -> Result<(), Problem> {
        let Some(header) = &self.header else { return Ok(()) };
        let cells = split_cells(line, header.separator);
        header.columns.check_cells(cells.len())?;
        let attributes = header.attributes.map_or("", |place| cells[place].as_ref());
        let cells = Cells {
            metric: &cells[header.metric],
            time: &cells[header.time],
            value: &cells[header.value],
            resource_kind: &cells[header.resource_kind],
            resource_id: &cells[header.resource_id],
            consumer_kind: &cells[header.consumer_kind],
            domain: header
                .domain
                .map_or_else(|| late_domain(attributes), |place| cells[place].as_ref()),
        };
        let Some((name, quantity, unit)) = metric(cells.metric) else {
            rows.leave_out("rows of other metrics than power and energy");
            return Ok(());
        };
        if cells.consumer_kind != "local_machine" && !cells.consumer_kind.is_empty() {
            rows.leave_out("rows that attribute a share to a process or a group");
            return Ok(());
        }
        let t_ns = time(cells.time, &self.settings)?;
        let value = match quantity {
            Quantity::Energy => energy_cell(&cells.metric, cells.value, unit)?,
            Quantity::Power | Quantity::AveragePower => {
                power_cell(&cells.metric, cells.value, unit)?
            }
        };
        let Some((scope, device)) = self.device(&cells, rows) else { return Ok(()) };
        let mut row = PowerRow { t_ns, device, ..PowerRow::default() };
        match quantity {
            Quantity::Energy => {
                let energy_j = value.map(|joules| self.counter(name, &row.device, joules));
                row.energy_j = energy_j.transpose()?;
            }
            Quantity::Power => row.power_w = value,
            Quantity::AveragePower => {
                rows.declare(Source::average(name, scope, None));
                rows.push(PowerRow { source: name.into(), power_w: value, ..row });
                return Ok(());
            }
        }
        let source = match scope {
            Scope::GpuBoard => "alumet-gpu",
            Scope::Dram => "alumet-dram",
            _ => "alumet-cpu",
        };
        rows.declare(Source::instant(source, scope));
        row.source = source.to_owned();
        self.merge(row, rows);
        Ok(())
    }

    /// Joins a row with the one of the same device and time, or lets that one go.
    fn merge(&mut self, row: PowerRow, rows: &mut Rows) {
        let Some(before) = self.pending.get_mut(&row.device) else {
            self.pending.insert(row.device.clone(), row);
            return;
        };
        let differ = before.power_w.is_some() && row.power_w.is_some()
            || before.energy_j.is_some() && row.energy_j.is_some();
        if before.t_ns == row.t_ns && !differ {
            before.power_w = before.power_w.or(row.power_w);
            before.energy_j = before.energy_j.or(row.energy_j);
        } else {
            rows.push(std::mem::replace(before, row));
        }
    }

    /// The counter after another difference. After a break it is zero: what came before is not known.
    fn counter(&mut self, metric: &'static str, device: &str, joules: f64) -> Result<f64, String> {
        if joules < 0.0 {
            return Err(format!("the difference is {joules} J; expected no energy below 0"));
        }
        let key = (metric, device.to_owned());
        let counter =
            self.counters.entry(key).and_modify(|counter| *counter += joules).or_insert(0.0);
        Ok(*counter)
    }
}

/// Cells of a row.
struct Cells<'a> {
    metric: &'a str,
    time: &'a str,
    value: &'a str,
    resource_kind: &'a str,
    resource_id: &'a str,
    consumer_kind: &'a str,
    domain: &'a str,
}

fn time(cell: &str, settings: &Settings) -> Result<i64, Problem> {
    let stamp = parse_stamp(cell).ok_or_else(|| {
        format!(
            "\"timestamp\" is \"{cell}\"; expected RFC 3339 such as \"2025-01-31T12:34:56.789Z\""
        )
    })?;
    settings.resolve(stamp)
}

/// The domain among attributes that came after the header: `domain=package,…`.
fn late_domain(attributes: &str) -> &str {
    attributes
        .split([',', ';'])
        .find_map(|attribute| attribute.trim().strip_prefix("domain="))
        .map_or("", str::trim)
}

impl Header {
    fn parse(line: &str) -> Result<Self, String> {
        let separator = separator(line);
        let columns = Columns::parse(line, separator);
        let find = |name: &str| {
            columns.find(&[name]).ok_or_else(|| {
                format!(
                    "has no column \"{name}\" in its first line; expected \
                     \"metric;timestamp;value;resource_kind;resource_id;consumer_kind;…\" as Alumet writes"
                )
            })
        };
        Ok(Self {
            separator,
            metric: find("metric")?,
            time: find("timestamp")?,
            value: find("value")?,
            resource_kind: find("resource_kind")?,
            resource_id: find("resource_id")?,
            consumer_kind: find("consumer_kind")?,
            domain: columns.find(&["domain"]),
            attributes: columns.find(&["__late_attributes"]),
            columns,
        })
    }
}

impl PowerLog for Alumet {
    fn line(&mut self, line: &str, rows: &mut Rows) -> Result<(), Problem> {
        if self.header.is_none() {
            self.header = Some(Header::parse(line).map_err(Problem::Stop)?);
            return Ok(());
        }
        self.add(line, rows)
    }

    fn skipped(&mut self) {
        if !self.counters.is_empty() {
            self.breaks += 1;
            self.counters.clear();
        }
    }

    fn end(&mut self, rows: &mut Rows) -> Result<(), Problem> {
        for row in std::mem::take(&mut self.pending).into_values() {
            rows.push(row);
        }
        if !rows.is_empty() {
            rows.note(
                "energy differences of each interval are added up to a counter that begins at 0",
            );
        }
        if self.breaks > 0 {
            rows.note(format!(
                "lines that could not be read lose energy: the counters start again at 0 after each, {} times",
                self.breaks
            ));
        }
        for (place, board) in self.boards.iter().enumerate() {
            rows.note(format!("gpu{place} is \"{}\"", board.escape_debug()));
        }
        Ok(())
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::super::power_log::testing::{Log, read, show};
    use super::*;

    pub(in super::super) const MINIMAL: &str = "\
metric;timestamp;value;resource_kind;resource_id;consumer_kind;consumer_id;domain;__late_attributes
nvml_energy_consumption_mJ;2025-01-15T12:34:56.000000001Z;412340;gpu;00000000:01:00.0;local_machine;;;
nvml_instant_power_mW;2025-01-15T12:34:56.000000001Z;412340;gpu;00000000:01:00.0;local_machine;;;
rapl_consumed_energy_J;2025-01-15T12:34:56.5Z;55.5;cpu_package;0;local_machine;;package;
rapl_consumed_energy_J;2025-01-15T12:34:56.5Z;33.25;cpu_package;0;local_machine;;pp0;
nvml_energy_consumption_mJ;2025-01-15T12:34:57Z;400000;gpu;00000000:01:00.0;local_machine;;;
nvml_energy_consumption_mJ;2025-01-15T12:34:57Z;90000;gpu;00000000:01:00.0;process;77;;
mem_total_kB;2025-01-15T12:34:57Z;1000;local_machine;;local_machine;;;
rapl_consumed_energy_J;2025-01-15T12:34:58.5Z;100.5;cpu_package;0;local_machine;;package;
";

    fn log(text: &str) -> Log {
        read(Alumet::new(Settings::default()), text).unwrap()
    }

    #[test]
    fn differences_become_a_counter_and_shares_stay_out() {
        let log = log(MINIMAL);
        insta::assert_snapshot!(show(&log.rows), @"
        0.000000001s alumet-gpu gpu0 412.34 W 0 J
        0.5s alumet-cpu cpu0 - 0 J
        2.5s alumet-cpu cpu0 - 100.5 J
        1s alumet-gpu gpu0 - 400 J
        ");
        insta::assert_snapshot!(log.findings.notes.join("\n"), @r#"
        energy differences of each interval are added up to a counter that begins at 0
        gpu0 is "00000000:01:00.0"
        energy of "pp0", which overlaps with the packages, left out: 1
        rows of other metrics than power and energy, left out: 1
        rows that attribute a share to a process or a group, left out: 1
        "#);
    }

    #[test]
    fn a_line_that_cannot_be_read_breaks_the_counter() {
        let row = |second: u32, value: &str| {
            format!(
                "nvml_energy_consumption_mJ;2025-01-15T12:34:{second}Z;{value};gpu;0;local_machine;\n"
            )
        };
        let header = "metric;timestamp;value;resource_kind;resource_id;consumer_kind;consumer_id\n";
        let text =
            [header.to_owned(), row(56, "1000"), row(57, "2000"), row(58, "x"), row(59, "8000")]
                .concat();
        let log = log(&text);
        let joules: Vec<f64> = log.rows.iter().filter_map(|row| row.energy_j).collect();
        assert_eq!(joules, [0.0, 2.0, 0.0], "the last difference may hold more than its interval");
        assert!(log.findings.notes[1].ends_with("start again at 0 after each, 1 times"));
    }

    #[test]
    fn broken_lines_say_what_is_wrong() {
        let text = format!(
            "{MINIMAL}a;b\nnvml_instant_power_mW;noon;1;gpu;0;local_machine;;;\nnvml_instant_power_K;2025-01-15T12:34:57Z;1;gpu;0;local_machine;;;\nnvml_energy_consumption_mJ;2025-01-15T12:34:57Z;-5;gpu;0;local_machine;;;\nnvml_instant_power_mW;2025-01-15T12:34:57Z;41"
        );
        insta::assert_snapshot!(log(&text).skipped.join("\n"), @r#"
        line 10: has 2 cells; expected 9 as in the header
        line 11: "timestamp" is "noon"; expected RFC 3339 such as "2025-01-31T12:34:56.789Z"
        line 12: "nvml_instant_power_K" is "1": "K" is no unit of power; expected one of W, Watt, Watts, watts, mW, uW, µW, kW, MW
        line 13: the difference is -0.005 J; expected no energy below 0
        line 14: was cut off
        "#);
        let error = read(Alumet::new(Settings::default()), "metric;value\n").unwrap_err();
        insta::assert_snapshot!(error, @r#"line 1: has no column "timestamp" in its first line; expected "metric;timestamp;value;resource_kind;resource_id;consumer_kind;…" as Alumet writes"#);
    }
}
