//! `amd-smi metric`, as CSV (`--csv`) or as JSON (`--json`), once or watched (`-w`).
//!
//! Stamps are whole seconds. CSV repeats its header, puts blank lines between ticks and quotes lists.

use std::borrow::Cow;

use serde_json::{Map, Value};
use wattrace_schema::Scope;

use super::power_log::{
    self, Columns, Found, Piece, Pieces, PowerLog, Problem, Rows, Settings, Source, clock_cell,
    energy_cell, number_cell, parse_stamp, power_cell, split_cells,
};
use super::{Format, Reader, quantity};
use crate::PowerRow;

/// Names of the power of a socket, and whether it is an average of unknown length.
const POWER: [(&str, bool); 5] = [
    ("current_socket_power", false),
    ("socket_power", false),
    ("current_power", false),
    ("average_socket_power", true),
    ("average_power", true),
];
const ENERGY: &str = "total_energy_consumption";
/// What the tool prints before it watches.
const PREAMBLE: &str = "'CTRL' + 'C' to stop";

pub(super) const FORMAT: Format = Format {
    name: "amd-smi",
    title: "amd-smi metric, as CSV or JSON",
    recovers: "socket power, energy counters, clocks, temperature, memory",
    lacks: "requests; times finer than a second",
    reader: Reader::Parts {
        detect: |head| recognise(head.text()),
        read: |input, options, sink| {
            power_log::read(input, options, sink, |settings| Box::new(AmdSmi::new(settings)))
        },
    },
};

/// Says why a text is such a log.
fn recognise(text: &str) -> Option<String> {
    let lines = || {
        text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with(PREAMBLE))
    };
    let first = lines().next()?;
    if first.starts_with(['{', '[']) {
        let key = |name: &str| text.contains(&format!("\"{name}\""));
        let power = POWER.iter().map(|(name, _)| *name).chain([ENERGY]).find(|name| key(name))?;
        return key("gpu").then(|| format!("it is JSON with the keys \"gpu\" and \"{power}\""));
    }
    let columns = Columns::parse(first, ',');
    let names: Vec<&str> = POWER.iter().map(|(name, _)| *name).chain([ENERGY]).collect();
    let power = columns.find(&names)?;
    columns.find(&["gpu"])?;
    Some(format!("its header has the columns \"gpu\" and \"{}\"", columns.name(power)))
}

/// Reads such a log.
#[derive(Debug)]
pub(super) struct AmdSmi {
    settings: Settings,
    header: Option<Header>,
    pieces: Pieces,
    is_json: Option<bool>,
}

/// Where the columns of CSV stand.
#[derive(Debug)]
struct Header {
    columns: Columns,
    time: Option<usize>,
    gpu: usize,
    power: Vec<(usize, &'static str)>,
    energy: Option<usize>,
}

/// What one GPU says at one time.
#[derive(Debug, Default)]
struct Metric {
    gpu: u16,
    /// Source and power.
    power: Vec<(&'static str, Option<f64>)>,
    energy_j: Option<Option<f64>>,
    state: PowerRow,
}

impl AmdSmi {
    pub(super) fn new(settings: Settings) -> Self {
        Self { settings, header: None, pieces: Pieces::default(), is_json: None }
    }

    fn time(&self, cell: Option<&str>) -> Result<i64, Problem> {
        match cell {
            Some(cell) => {
                let stamp = parse_stamp(cell).ok_or_else(|| {
                    format!("\"timestamp\" is \"{cell}\"; expected seconds since 1970")
                })?;
                self.settings.resolve(stamp)
            }
            None => self.settings.anchor.map(|anchor| anchor.nanos()).ok_or_else(|| {
                Problem::Stop(
                    "has no \"timestamp\", as amd-smi writes without -w: one reading; give its time (--anchor)"
                        .into(),
                )
            }),
        }
    }

    fn csv(&mut self, line: &str, rows: &mut Rows) -> Result<(), Problem> {
        if is_header(line) {
            self.header = Some(Header::parse(line).map_err(Problem::Stop)?);
            return Ok(());
        }
        let Some(header) = &self.header else {
            return Err(Problem::Stop(
                "does not begin with a header; expected \"timestamp,gpu,…\" as amd-smi writes"
                    .into(),
            ));
        };
        let cells = split_cells(line, ',');
        header.columns.check_cells(cells.len())?;
        let t_ns = self.time(header.time.map(|place| cells[place].as_ref()))?;
        add(t_ns, header.metric(&cells)?, rows);
        Ok(())
    }

    fn json(&self, json: &str, rows: &mut Rows) -> Result<(), Problem> {
        let value: Value =
            serde_json::from_str(json).map_err(|error| format!("is not valid JSON: {error}"))?;
        for gpu in gpus(&value).ok_or("is JSON without a list of objects with \"gpu\"")? {
            let time = gpu.get("timestamp").map(scalar_text);
            add(self.time(time.as_deref())?, json_metric(gpu)?, rows);
        }
        Ok(())
    }
}

fn is_header(line: &str) -> bool {
    let cells = split_cells(line, ',');
    let named = |name: &str| cells.iter().any(|cell| cell == name);
    named("gpu") && (cells.len() > 1)
}

impl Header {
    fn parse(line: &str) -> Result<Self, String> {
        let columns = Columns::parse(line, ',');
        let power: Vec<_> =
            POWER.iter().filter_map(|(name, _)| Some((columns.find(&[name])?, *name))).collect();
        let energy = columns.find(&[ENERGY]);
        if power.is_empty() && energy.is_none() {
            return Err(format!(
                "has neither \"socket_power\" nor \"{ENERGY}\"; expected amd-smi metric with -p or -E"
            ));
        }
        let gpu = columns.find(&["gpu"]).ok_or("has no column \"gpu\"")?;
        Ok(Self { time: columns.find(&["timestamp"]), gpu, power, energy, columns })
    }

    fn metric(&self, cells: &[Cow<'_, str>]) -> Result<Metric, String> {
        let cell = |name: &str| self.columns.find(&[name]).map(|place| cells[place].as_ref());
        let number = |name: &str| cell(name).and_then(number_cell);
        let mut power = Vec::new();
        for (place, name) in &self.power {
            power.push((*name, power_cell(name, &cells[*place], self.columns.unit(*place, "W"))?));
        }
        let energy_j = self
            .energy
            .map(|place| energy_cell(&ENERGY, &cells[place], self.columns.unit(place, "J")))
            .transpose()?;
        let graphics = self
            .columns
            .iter()
            .filter(|(_, name, _)| name.strip_prefix("gfx_").is_some_and(is_clock))
            .filter_map(|(place, ..)| clock_cell(&cells[place]));
        let state = PowerRow {
            temperature_c: number("hotspot").or(number("edge")).map(|value| value as f32),
            sm_clock_mhz: mean(graphics),
            mem_clock_mhz: cell("mem_0_clk").and_then(clock_cell),
            memory_used_bytes: number("used_vram")
                .and_then(|used| quantity::bytes(used, "MiB").ok()),
            utilization_percent: number("gfx_activity").map(|value| value as f32),
            ..PowerRow::default()
        };
        Ok(Metric { gpu: gpu_number(&cells[self.gpu])?, power, energy_j, state })
    }
}

/// Whether this follows `gfx_` in the name of a clock: `0_clk`.
fn is_clock(rest: &str) -> bool {
    rest.strip_suffix("_clk").is_some_and(|number| number.bytes().all(|byte| byte.is_ascii_digit()))
}

fn gpu_number(cell: &str) -> Result<u16, String> {
    cell.parse().map_err(|_| format!("\"gpu\" is \"{cell}\"; expected the number of a GPU"))
}

/// The mean of the clocks of all dies.
fn mean(clocks: impl Iterator<Item = u32>) -> Option<u32> {
    let (count, sum) =
        clocks.fold((0_u64, 0_u64), |(count, sum), clock| (count + 1, sum + u64::from(clock)));
    let mean = (sum + count / 2).checked_div(count)?;
    u32::try_from(mean).ok()
}

/// The objects that each describe a GPU, in any of the layouts.
fn gpus(value: &Value) -> Option<Vec<&Map<String, Value>>> {
    let list = match value {
        Value::Array(list) => list.iter().collect(),
        Value::Object(object) => match object.get("gpu_data") {
            Some(Value::Array(list)) => list.iter().collect(),
            Some(_) => return None,
            None => vec![value],
        },
        _ => return None,
    };
    // A list of ticks is a list of lists.
    let mut gpus = Vec::new();
    for entry in list {
        match entry {
            Value::Object(object) if object.contains_key("gpu") => gpus.push(object),
            Value::Array(_) | Value::Object(_) if !std::ptr::eq(entry, value) => {
                gpus.extend(self::gpus(entry)?);
            }
            _ => return None,
        }
    }
    Some(gpus)
}

/// A JSON value as a cell of CSV would write it: `{"value": 238, "unit": "W"}` as `238 W`.
fn cell_text(value: &Value) -> String {
    match value {
        Value::Object(object) => {
            let part = |key: &str| object.get(key).map(scalar_text).unwrap_or_default();
            format!("{} {}", part("value"), part("unit"))
        }
        other => scalar_text(other),
    }
}

fn scalar_text(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

fn json_metric(gpu: &Map<String, Value>) -> Result<Metric, String> {
    let at = |path: &[&str]| -> Option<String> {
        let mut value = gpu.get(path[0])?;
        for key in &path[1..] {
            value = value.get(key)?;
        }
        Some(cell_text(value).trim().to_owned())
    };
    let number = |path: &[&str]| at(path).and_then(|text| number_cell(&text));
    let mut power = Vec::new();
    for (name, _) in POWER {
        if let Some(text) = at(&["power", name]) {
            power.push((name, power_cell(&name, &text, "W")?));
        }
    }
    let energy = at(&["energy", ENERGY]);
    let energy_j = energy.map(|text| energy_cell(&ENERGY, &text, "J")).transpose()?;
    let clocks = gpu.get("clock").and_then(Value::as_object);
    let graphics = clocks.into_iter().flatten().filter_map(|(name, clock)| {
        is_clock(&format!("{}_clk", name.strip_prefix("gfx_")?)).then_some(())?;
        clock_cell(&cell_text(clock.get("clk")?))
    });
    let temperature = number(&["temperature", "hotspot"]).or(number(&["temperature", "edge"]));
    let memory =
        number(&["mem_usage", "used_vram"]).and_then(|used| quantity::bytes(used, "MiB").ok());
    let state = PowerRow {
        temperature_c: temperature.map(|value| value as f32),
        sm_clock_mhz: mean(graphics),
        mem_clock_mhz: at(&["clock", "mem_0", "clk"]).and_then(|text| clock_cell(&text)),
        memory_used_bytes: memory,
        utilization_percent: number(&["usage", "gfx_activity"]).map(|value| value as f32),
        ..PowerRow::default()
    };
    let gpu = gpu.get("gpu").map(scalar_text).unwrap_or_default();
    Ok(Metric { gpu: gpu_number(&gpu)?, power, energy_j, state })
}

/// Adds the rows of one GPU at one time. The counter goes with the first source of power; a counter of 0
/// joules is one that is not supported.
fn add(t_ns: i64, metric: Metric, rows: &mut Rows) {
    let device = format!("gpu{}", metric.gpu);
    let mut energy_j = metric.energy_j.flatten().filter(|joules| *joules > 0.0);
    let mut state = metric.state;
    let mut power = metric.power;
    if power.is_empty() && metric.energy_j.is_some() {
        power.push((ENERGY, None));
    }
    for (name, power_w) in power {
        let average = POWER.iter().any(|(known, average)| *known == name && *average);
        rows.declare(match average {
            true => Source::average(name, Scope::GpuBoard, None),
            false => Source::instant(name, Scope::GpuBoard),
        });
        let source = name.to_owned();
        rows.push(PowerRow { t_ns, source, device: device.clone(), power_w, energy_j, ..state });
        energy_j = None;
        state = PowerRow::default();
    }
}

impl PowerLog for AmdSmi {
    fn line(&mut self, line: &str, rows: &mut Rows) -> Result<(), Problem> {
        if line.trim_start().starts_with(PREAMBLE) {
            return Ok(());
        }
        if !*self.is_json.get_or_insert_with(|| line.trim_start().starts_with(['{', '['])) {
            return self.csv(line, rows);
        }
        let pieces = self.pieces.line(line)?;
        Piece::each(&pieces, |found| match found {
            Found::Json(json) => self.json(json, rows),
            Found::Text(text) => Err(format!("\"{text}\" is no JSON").into()),
        })
    }

    fn end(&mut self, rows: &mut Rows) -> Result<(), Problem> {
        if !rows.is_empty() {
            rows.note("amd-smi stamps whole seconds: each time is uncertain by one second");
        }
        self.pieces.end()
    }
}

#[cfg(test)]
pub(super) mod tests {
    use wattrace_schema::{Reading, TimestampNs};

    use super::super::power_log::testing::{read, show};
    use super::*;

    pub(in super::super) const MINIMAL: &str = r#"'CTRL' + 'C' to stop watching output:
timestamp,gpu,gfx_activity,xcp_list,socket_power,gfx_0_clk,gfx_1_clk,gfx_0_min_clk,mem_0_clk,edge,hotspot
1736944496,0,98,"['N/A', 0]",750,2101,2104,500,2000,N/A,61
1736944496,1,97,"['N/A', 0]",N/A,2100,2100,500,2000,N/A,60

timestamp,gpu,gfx_activity,xcp_list,socket_power,gfx_0_clk,gfx_1_clk,gfx_0_min_clk,mem_0_clk,edge,hotspot
1736944497,0,98,"['N/A', 0]",751,2101,2104,500,2000,N/A,61
"#;

    const JSON: &str = r#"[{"timestamp": 1736944496, "gpu": 0,
  "power": {"socket_power": {"value": 238, "unit": "W"}, "gfx_voltage": "N/A"},
  "energy": {"total_energy_consumption": {"value": 1000000.5, "unit": "J"}},
  "clock": {"gfx_0": {"clk": {"value": 2101, "unit": "MHz"}}, "gfx_1": {"clk": "N/A"}},
  "usage": {"gfx_activity": {"value": 98, "unit": "%"}}}]
{"gpu_data": [{"timestamp": 1736944497, "gpu": 0, "power": {"socket_power": "N/A"},
  "energy": {"total_energy_consumption": {"value": 1000.2385, "unit": "kJ"}}}]},
"#;

    fn log(text: &str) -> super::super::power_log::testing::Log {
        read(AmdSmi::new(Settings::default()), text).unwrap()
    }

    #[test]
    fn csv_repeats_headers_quotes_lists_and_stamps_whole_seconds() {
        let log = log(MINIMAL);
        insta::assert_snapshot!(show(&log.rows), @"
        0s socket_power gpu0 750 W
        0s socket_power gpu1 -
        1s socket_power gpu0 751 W
        ");
        let row = &log.rows[0];
        // (2101 + 2104) / 2 = 2102.5
        assert_eq!(
            (row.sm_clock_mhz, row.mem_clock_mhz, row.temperature_c),
            (Some(2103), Some(2000), Some(61.0))
        );
        assert_eq!(log.findings.sources[0].clock_offset_uncertainty_ns, Some(1_000_000_000));
        assert_eq!((log.findings.accelerators, log.skipped.len()), (2, 0));
    }

    #[test]
    fn json_has_its_units_beside_the_values() {
        let log = log(JSON);
        insta::assert_snapshot!(show(&log.rows), @"
        0s socket_power gpu0 238 W 1000000.5 J
        1s socket_power gpu0 - 1000238.5 J
        ");
        assert_eq!(
            (log.rows[0].sm_clock_mhz, log.rows[0].utilization_percent),
            (Some(2101), Some(98.0))
        );
    }

    #[test]
    fn one_reading_without_a_time_asks_for_it() {
        let text = "gpu,total_energy_consumption\n0,339360563.211\n1,N/A\n";
        let error = read(AmdSmi::new(Settings::default()), text).unwrap_err();
        insta::assert_snapshot!(error, @r#"line 2: has no "timestamp", as amd-smi writes without -w: one reading; give its time (--anchor)"#);
        let anchor = TimestampNs::parse("2025-01-15T12:34:56Z").ok();
        let log = read(AmdSmi::new(Settings { anchor, ..Settings::default() }), text).unwrap();
        insta::assert_snapshot!(show(&log.rows), @"
        0s total_energy_consumption gpu0 - 339360563.211 J
        0s total_energy_consumption gpu1 -
        ");
    }

    #[test]
    fn averages_are_sources_of_their_own() {
        let log =
            log("timestamp,gpu,current_socket_power,average_socket_power\n1736944496,0,300,N/A\n");
        let readings: Vec<Reading> =
            log.findings.sources.iter().map(|source| source.reading).collect();
        assert_eq!(readings, [Reading::Instant, Reading::Average]);
    }

    #[test]
    fn broken_lines_say_what_is_wrong() {
        let text = format!(
            "{MINIMAL}now,0,98,\"[]\",751,1,1,1,1,1,1\n1736944498,0,98\n1736944498,0,98,\"[]\",much,1,1,1,1,1,1\n1736944499,0,98,\"['N/"
        );
        insta::assert_snapshot!(log(&text).skipped.join("\n"), @r#"
        line 8: "timestamp" is "now"; expected seconds since 1970
        line 9: has 3 cells; expected 11 as in the header
        line 10: "socket_power" is "much"; expected a number such as "412.34 W"
        line 11: was cut off
        "#);
        insta::assert_snapshot!(log(&JSON[..JSON.len() - 9]).skipped.join("\n"), @"the last JSON value, of 2 lines, was cut off");
        let error = |text: &str| read(AmdSmi::new(Settings::default()), text).unwrap_err();
        insta::assert_snapshot!(error("1736944496,0,98\n"), @r#"line 1: does not begin with a header; expected "timestamp,gpu,…" as amd-smi writes"#);
        insta::assert_snapshot!(error("timestamp,gpu,edge\n"), @r#"line 1: has neither "socket_power" nor "total_energy_consumption"; expected amd-smi metric with -p or -E"#);
    }
}
