//! Power of NVIDIA boards by DCGM's exporter: scrapes of its text, one after the other, or the JSON that
//! Prometheus answers to range queries.
//!
//! Scrapes have no time of their own: each needs a line that holds nothing but one (`# scrape TIME`), or
//! samples with times, or the anchor and the interval. With MIG every instance repeats the power of the
//! whole board, and exporters repeat rows per container, so boards are told apart by their UUID.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess};
use wattrace_schema::Scope;

use super::json::{self, Elements, Failure, Fields, Object};
pub use super::nvidia_smi::AVERAGE_MS;
use super::power_log::{
    self, PollClock, PowerLog, Problem, Rows, Settings, Source, Stamp, epoch_stamp, stamp_line,
};
use super::scrape::Sample;
use super::{Format, ImportOptions, Input, Reader, Sink, Skipped, quantity};
use crate::{PowerRow, TraceError};

const AVERAGE: &str = "dcgm";
const INSTANT: &str = "dcgm-instant";
/// Points of Prometheus that are held to join the metrics of a board; a query gives 11,000 a series.
const MAX_POINTS: usize = 1_000_000;

/// What a metric measures.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Metric {
    Power,
    InstantPower,
    Energy,
    Temperature,
    SmClock,
    MemClock,
    Memory,
    Utilization,
    Throttle,
}

const METRICS: [(&str, Metric); 13] = [
    ("DCGM_FI_DEV_POWER_USAGE", Metric::Power),
    ("DCGM_FI_DEV_POWER_USAGE_INSTANT", Metric::InstantPower),
    ("DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION", Metric::Energy),
    ("DCGM_FI_DEV_GPU_TEMP", Metric::Temperature),
    ("DCGM_FI_DEV_SM_CLOCK", Metric::SmClock),
    ("DCGM_FI_DEV_MEM_CLOCK", Metric::MemClock),
    ("DCGM_FI_DEV_FB_USED", Metric::Memory),
    ("DCGM_FI_DEV_GPU_UTIL", Metric::Utilization),
    ("DCGM_FI_DEV_CLOCK_THROTTLE_REASONS", Metric::Throttle),
    ("DCGM_FI_DEV_CLOCKS_EVENT_REASONS", Metric::Throttle),
    ("dcgm_power_usage", Metric::Power),
    ("dcgm_total_energy_consumption", Metric::Energy),
    ("dcgm_gpu_temp", Metric::Temperature),
];

fn metric(name: &str) -> Option<Metric> {
    METRICS.iter().find(|(known, _)| *known == name).map(|(_, metric)| *metric)
}

pub(super) const FORMAT: Format = Format {
    name: "dcgm",
    title: "DCGM exporter: text scrapes, or Prometheus' JSON answers to range queries",
    recovers: "board power (mean and instant), energy counters, clocks, temperature, memory",
    lacks: "requests, node power; the times of samples (the scrapes' are taken)",
    reader: Reader::Parts { detect: |head| recognise(head.text()), read },
};

fn read(input: &Input, options: &ImportOptions, sink: &mut dyn Sink) -> Result<(), TraceError> {
    if !input.head().is_json() {
        return power_log::read(input, options, sink, |settings| Box::new(Dcgm::new(settings)));
    }
    let settings = Settings::of(options)?;
    let mut dcgm = Dcgm::new(settings.clone());
    let mut rows = Rows::default();
    sink.begin(&input.stem())?;
    dcgm.answers(input, &mut rows)?;
    while let Some(((t_ns, board), reading)) = dcgm.readings.pop_first() {
        reading.rows(t_ns, &dcgm.boards.names[board], &mut rows);
        for row in rows.take() {
            sink.power(row)?;
        }
    }
    dcgm.note(&mut rows);
    sink.end(power_log::part(input, &settings, &dcgm, &rows, Skipped::default())?)
}

/// Says why a text is such a log.
fn recognise(text: &str) -> Option<String> {
    let trimmed = text.trim_start();
    let measures = |name: &str| {
        matches!(metric(name), Some(Metric::Power | Metric::InstantPower | Metric::Energy))
    };
    if trimmed.starts_with(['{', '[']) {
        let (name, _) = METRICS
            .iter()
            .find(|(name, _)| measures(name) && text.contains(&format!("\"{name}\"")))?;
        return text
            .contains("\"matrix\"")
            .then(|| format!("it is an answer of Prometheus to a range query, with \"{name}\""));
    }
    let name = text.lines().find_map(|line| {
        let name = line.split(['{', ' ']).next()?;
        measures(name).then_some(name)
    })?;
    Some(format!("it has samples of \"{name}\" in Prometheus text"))
}

/// Reads such a log.
#[derive(Debug)]
pub(super) struct Dcgm {
    clock: PollClock,
    boards: Boards,
    /// Samples of the scrape so far, by board and time.
    readings: BTreeMap<(i64, usize), Reading>,
    scrape: Current,
    /// Points taken from Prometheus.
    points: usize,
}

/// The scrape that is being read.
#[derive(Debug, Default)]
struct Current {
    time: Option<i64>,
    /// Series seen in it, so that a series that comes again begins another scrape.
    series: BTreeSet<(String, String)>,
}

/// Values of one board at one time.
#[derive(Debug, Clone, Copy, Default)]
struct Reading {
    power_w: Option<f64>,
    instant_w: Option<Option<f64>>,
    energy_j: Option<f64>,
    seen: [bool; 9],
    state: State,
}

/// What explains power.
#[derive(Debug, Clone, Copy, Default)]
struct State {
    temperature_c: Option<f32>,
    sm_clock_mhz: Option<u32>,
    mem_clock_mhz: Option<u32>,
    memory_used_bytes: Option<u64>,
    utilization_percent: Option<f32>,
    throttle_reasons: Option<u64>,
}

/// Boards by UUID, with the names that rows give them.
#[derive(Debug, Default)]
struct Boards {
    places: BTreeMap<String, usize>,
    names: Vec<String>,
}

impl Boards {
    fn place(&mut self, labels: &BTreeMap<String, String>) -> Result<usize, String> {
        let label =
            |names: &[&str]| names.iter().find_map(|name| labels.get(*name).map(String::as_str));
        let uuid = label(&["UUID", "uuid", "gpu_uuid"]).filter(|uuid| !uuid.is_empty());
        let uuid = uuid.ok_or("has no label \"UUID\", which tells boards apart")?;
        if let Some(place) = self.places.get(uuid) {
            return Ok(*place);
        }
        let gpu = label(&["gpu", "GPU"]).unwrap_or(uuid);
        let host = label(&["Hostname", "hostname", "instance"]).unwrap_or_default();
        let candidates = [format!("gpu{gpu}"), format!("{host}-gpu{gpu}"), uuid.to_owned()];
        let is_free = |name: &&String| !self.names.contains(*name);
        let name = candidates.iter().find(is_free).unwrap_or(&candidates[2]).clone();
        self.names.push(name);
        self.places.insert(uuid.to_owned(), self.names.len() - 1);
        Ok(self.names.len() - 1)
    }
}

/// Reads a sample of the exporter's text.
fn parse(line: &str) -> Result<Sample<'_>, String> {
    Sample::parse(line).ok_or_else(|| {
        "is no sample of Prometheus text; expected \"name{label=\"value\"} 1.5\"".to_owned()
    })
}

#[derive(Debug, Deserialize)]
struct Series {
    metric: BTreeMap<String, String>,
    #[serde(default)]
    values: Vec<(serde_json::Number, String)>,
}

impl Dcgm {
    pub(super) fn new(settings: Settings) -> Self {
        let what = "DCGM's text without a line of time before each scrape";
        Self {
            clock: PollClock::new(settings, what),
            boards: Boards::default(),
            readings: BTreeMap::new(),
            scrape: Current::default(),
            points: 0,
        }
    }

    fn sample(&mut self, line: &str, rows: &mut Rows) -> Result<(), Problem> {
        let sample = parse(line)?;
        let Some(metric) = metric(sample.name) else { return Ok(()) };
        let labels = sample.label_texts();
        let time_ns = sample.time.map(|cell| quantity::decimal_nanos(cell, "ms")).transpose()?;
        let series = (sample.name.to_owned(), sample.labels.unwrap_or_default().to_owned());
        if self.scrape.series.contains(&series) {
            self.end_scrape(rows);
        }
        if is_instance(&labels) {
            rows.note("MIG instances repeat the readings of their board, which are taken once");
        }
        let board = self.boards.place(&labels)?;
        if let Some(name) = labels.get("modelName").filter(|name| !name.is_empty()) {
            rows.accelerator(name);
        }
        if let Some(version) = labels.get("DCGM_FI_DRIVER_VERSION") {
            rows.driver(version);
        }
        let t_ns = match (time_ns, self.scrape.time) {
            (Some(t_ns), _) | (None, Some(t_ns)) => t_ns,
            (None, None) => *self.scrape.time.insert(self.clock.answer()?),
        };
        self.scrape.series.insert(series);
        let reading = self.readings.entry((t_ns, board)).or_default();
        reading.set(metric, sample.name, sample.value)?;
        Ok(())
    }

    fn end_scrape(&mut self, rows: &mut Rows) {
        for ((t_ns, board), reading) in std::mem::take(&mut self.readings) {
            reading.rows(t_ns, &self.boards.names[board], rows);
        }
        self.scrape = Current::default();
    }

    /// Reads answers of Prometheus, one after the other.
    fn answers(&mut self, input: &Input, rows: &mut Rows) -> Result<(), TraceError> {
        let failure = Failure::default();
        let state = RefCell::new((self, rows));
        let answer = Answer { state: &state, input, failure: &failure };
        json::documents(input, &failure, |_| answer)?;
        Ok(())
    }

    fn note(&self, rows: &mut Rows) {
        if rows.is_empty() {
            return;
        }
        super::nvidia_smi::settle_power_draw(AVERAGE, rows);
        rows.note(
            "times are those of the scrapes; the exporter refreshes its values at its own interval (30 s \
             unless set otherwise)",
        );
    }

    fn series(&mut self, series: &Series, rows: &mut Rows) -> Result<(), Problem> {
        let Some(name) = series.metric.get("__name__") else {
            return Err(
                "a series has no \"__name__\": it was computed; expected the metric itself".into(),
            );
        };
        let Some(metric) = metric(name) else { return Ok(()) };
        self.points += series.values.len();
        if self.points > MAX_POINTS {
            return Err(Problem::Stop(format!(
                "more than {MAX_POINTS} points; expected a shorter range in each file"
            )));
        }
        if let Some(name) = series.metric.get("modelName").filter(|name| !name.is_empty()) {
            rows.accelerator(name);
        }
        let board = self.boards.place(&series.metric)?;
        for (time, value) in &series.values {
            let text = time.to_string();
            let Some(Stamp::Instant(t_ns)) = epoch_stamp(&text) else {
                return Err(format!("a time is {text}; expected seconds since 1970").into());
            };
            self.readings.entry((t_ns, board)).or_default().set(metric, name, value)?;
        }
        Ok(())
    }
}

/// Takes one answer of Prometheus, series by series.
#[derive(Clone, Copy)]
struct Answer<'a, 'b> {
    state: &'a RefCell<(&'b mut Dcgm, &'b mut Rows)>,
    input: &'a Input,
    failure: &'a Failure,
}

impl Answer<'_, '_> {
    /// An error about the input, for serde.
    fn fail<T, E: serde::de::Error>(&self, message: String) -> Result<T, E> {
        self.failure.keep(Err(self.input.error(None, message)))
    }
}

impl<'de> DeserializeSeed<'de> for Answer<'_, '_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(mut self, json: D) -> Result<(), D::Error> {
        Object(&mut self).deserialize(json)
    }
}

impl Fields for Answer<'_, '_> {
    /// The keys of the answer and of its `data` differ, so one reader serves both.
    fn field<'de, A: MapAccess<'de>>(&mut self, key: &str, map: &mut A) -> Result<(), A::Error> {
        match key {
            "data" => map.next_value_seed(Object(self)),
            "error" => {
                let error: String = map.next_value()?;
                self.fail(format!("Prometheus answered with an error: {error}"))
            }
            "resultType" => match map.next_value::<String>()?.as_str() {
                "matrix" => Ok(()),
                other => self.fail(format!(
                    "\"resultType\" is \"{other}\"; expected \"matrix\", the answer to a range query"
                )),
            },
            "result" => {
                let Self { state, input, failure } = *self;
                map.next_value_seed(Elements::new(failure, |place, series: Series| {
                    let (dcgm, rows) = &mut *state.borrow_mut();
                    dcgm.series(&series, rows).map_err(|problem| {
                        let (Problem::Skip(message) | Problem::Stop(message)) = problem;
                        input.error(None, format!("series {place} of \"result\": {message}"))
                    })
                }))
            }
            _ => map.next_value::<IgnoredAny>().map(drop),
        }
    }
}

/// What one answer of the exporter says of one board. What it does not say, or says is missing, is `None`;
/// so are counters and power of zero, which are not supported.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct BoardReading {
    /// `DCGM_FI_DEV_POWER_USAGE`, W: what [`plain_power_is_instant`] says.
    pub power_w: Option<f64>,
    /// `DCGM_FI_DEV_POWER_USAGE_INSTANT`, W.
    pub instant_power_w: Option<f64>,
    /// The counter, J.
    pub energy_j: Option<f64>,
    /// Temperature, degrees Celsius.
    pub temperature_c: Option<f32>,
    /// Clock of the multiprocessors, MHz.
    pub sm_clock_mhz: Option<u32>,
    /// Clock of the memory, MHz.
    pub mem_clock_mhz: Option<u32>,
    /// Memory in use, B.
    pub memory_used_bytes: Option<u64>,
    /// Share of time in which something ran, %.
    pub utilization_percent: Option<f32>,
    /// Reasons of a lowered clock, a bit mask.
    pub throttle_reasons: Option<u64>,
}

/// One answer of the exporter.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Scrape {
    /// What it says of each board that it names, by place in [`Exporter::names`].
    pub boards: BTreeMap<usize, BoardReading>,
    /// Whether it has rows of MIG instances, which repeat the values of their board.
    pub has_instances: bool,
    /// Lines that are no Prometheus text, and values that are no number.
    pub unreadable: usize,
}

/// Reads answers of one exporter as they come. A board keeps its place and its name from one answer to
/// the next.
#[derive(Debug, Default)]
pub struct Exporter {
    boards: Boards,
    models: BTreeSet<String>,
    driver: Option<String>,
}

impl Exporter {
    /// Names of the boards seen so far, as rows give them.
    #[must_use]
    pub fn names(&self) -> &[String] {
        &self.boards.names
    }

    /// Models of the boards seen so far.
    #[must_use]
    pub const fn models(&self) -> &BTreeSet<String> {
        &self.models
    }

    /// Version of the driver, where the exporter tells it.
    #[must_use]
    pub fn driver(&self) -> Option<&str> {
        self.driver.as_deref()
    }

    /// Reads one answer.
    pub fn read(&mut self, text: &str) -> Scrape {
        let mut readings: BTreeMap<usize, Reading> = BTreeMap::new();
        let mut scrape = Scrape::default();
        let lines = text.lines().map(str::trim);
        for line in lines.filter(|line| !line.is_empty() && !line.starts_with('#')) {
            let taken = parse(line).and_then(|sample| {
                let Some(metric) = metric(sample.name) else { return Ok(()) };
                let labels = sample.label_texts();
                let board = self.boards.place(&labels)?;
                scrape.has_instances |= is_instance(&labels);
                self.models.extend(labels.get("modelName").filter(|n| !n.is_empty()).cloned());
                self.driver = labels.get("DCGM_FI_DRIVER_VERSION").cloned().or(self.driver.take());
                readings.entry(board).or_default().set(metric, sample.name, sample.value)
            });
            scrape.unreadable += usize::from(taken.is_err());
        }
        scrape.boards =
            readings.into_iter().map(|(board, reading)| (board, reading.of_board())).collect();
        scrape
    }
}

/// Whether `DCGM_FI_DEV_POWER_USAGE` is of an instant on boards of this model, as on GA100 and what came
/// before Ampere. On others it is the mean over [`AVERAGE_MS`].
#[must_use]
pub fn plain_power_is_instant(model: &str) -> bool {
    super::nvidia_smi::reads_instant(model)
}

fn is_instance(labels: &BTreeMap<String, String>) -> bool {
    labels.get("GPU_I_ID").is_some_and(|id| !id.is_empty())
}

impl Reading {
    fn of_board(self) -> BoardReading {
        let positive = |value: Option<f64>| value.filter(|v| v.is_finite() && *v > 0.0);
        let state = self.state;
        BoardReading {
            power_w: positive(self.power_w),
            instant_power_w: positive(self.instant_w.flatten()),
            energy_j: self.energy_j,
            temperature_c: state.temperature_c,
            sm_clock_mhz: state.sm_clock_mhz,
            mem_clock_mhz: state.mem_clock_mhz,
            memory_used_bytes: state.memory_used_bytes,
            utilization_percent: state.utilization_percent,
            throttle_reasons: state.throttle_reasons,
        }
    }

    /// Takes a value; of repeated ones the first counts.
    fn set(&mut self, metric: Metric, name: &str, text: &str) -> Result<(), String> {
        if std::mem::replace(&mut self.seen[metric as usize], true) {
            return Ok(());
        }
        let value = match quantity::is_absent(text) {
            true => None,
            false => Some(
                text.parse::<f64>()
                    .map_err(|_| format!("\"{name}\" is \"{text}\"; expected a number"))?,
            ),
        };
        let finite = value.filter(|value| value.is_finite());
        let whole = |most: f64| finite.filter(|value| (0.0..most).contains(value));
        match metric {
            Metric::Power => self.power_w = value,
            Metric::InstantPower => self.instant_w = Some(value),
            // The counter is in millijoules; a counter of zero is one that is not supported.
            Metric::Energy => {
                let energy_j = finite.map(|value| quantity::energy_j(value, "mJ")).transpose()?;
                self.energy_j = energy_j.filter(|joules| *joules > 0.0);
            }
            Metric::Temperature => self.state.temperature_c = finite.map(|value| value as f32),
            Metric::SmClock => self.state.sm_clock_mhz = whole(1e6).map(|value| value as u32),
            Metric::MemClock => self.state.mem_clock_mhz = whole(1e6).map(|value| value as u32),
            Metric::Memory => {
                self.state.memory_used_bytes =
                    finite.and_then(|value| quantity::bytes(value, "MiB").ok());
            }
            Metric::Utilization => {
                self.state.utilization_percent = finite.map(|value| value as f32);
            }
            Metric::Throttle => self.state.throttle_reasons = whole(1e18).map(|value| value as u64),
        }
        Ok(())
    }

    /// Adds the rows of a board at one time.
    fn rows(self, t_ns: i64, device: &str, rows: &mut Rows) {
        let measured = [Metric::Power, Metric::InstantPower, Metric::Energy];
        if !measured.iter().any(|metric| self.seen[*metric as usize]) {
            return;
        }
        let State {
            temperature_c,
            sm_clock_mhz,
            mem_clock_mhz,
            memory_used_bytes,
            utilization_percent,
            throttle_reasons,
        } = self.state;
        rows.declare(Source::average(AVERAGE, Scope::GpuBoard, Some(AVERAGE_MS)));
        rows.push(PowerRow {
            t_ns,
            source: AVERAGE.into(),
            device: device.to_owned(),
            power_w: self.power_w,
            energy_j: self.energy_j,
            temperature_c,
            sm_clock_mhz,
            mem_clock_mhz,
            memory_used_bytes,
            utilization_percent,
            throttle_reasons,
            read_ns: None,
        });
        if let Some(power_w) = self.instant_w {
            rows.declare(Source::instant(INSTANT, Scope::GpuBoard));
            let (source, device) = (INSTANT.into(), device.to_owned());
            rows.push(PowerRow { t_ns, source, device, power_w, ..PowerRow::default() });
        }
    }
}

impl PowerLog for Dcgm {
    fn line(&mut self, line: &str, rows: &mut Rows) -> Result<(), Problem> {
        if let Some(stamp) = stamp_line(line) {
            self.end_scrape(rows);
            self.clock.stamp(stamp)?;
            return Ok(());
        }
        if line.starts_with('#') {
            return Ok(());
        }
        self.sample(line, rows)
    }

    fn end(&mut self, rows: &mut Rows) -> Result<(), Problem> {
        self.end_scrape(rows);
        self.note(rows);
        Ok(())
    }
}

#[cfg(test)]
pub(super) mod tests {
    use wattrace_schema::TimestampNs;

    use super::super::power_log::testing::{Log, read, show};
    use super::super::testing::collect;
    use super::*;

    pub(in super::super) const MINIMAL: &str = r#"# scrape 2025-01-15T12:34:56Z
# HELP DCGM_FI_DEV_POWER_USAGE Power draw (in W).
# TYPE DCGM_FI_DEV_POWER_USAGE gauge
DCGM_FI_DEV_POWER_USAGE{gpu="0",UUID="GPU-a",device="nvidia0",modelName="NVIDIA H100",GPU_I_ID="1",Hostname="n1"} 412.340000
DCGM_FI_DEV_POWER_USAGE{gpu="0",UUID="GPU-a",device="nvidia0",modelName="NVIDIA H100",GPU_I_ID="2",Hostname="n1"} 412.340000
DCGM_FI_DEV_POWER_USAGE{gpu="1",UUID="GPU-b",device="nvidia1",modelName="NVIDIA H100",Hostname="n1"} 0
DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION{gpu="0",UUID="GPU-a"} 5000000500
DCGM_FI_DEV_SM_CLOCK{gpu="0",UUID="GPU-a"} 1980
DCGM_FI_DEV_FB_USED{gpu="0",UUID="GPU-a"} 70000
# scrape 2025-01-15T12:34:57Z
DCGM_FI_DEV_POWER_USAGE{gpu="0",UUID="GPU-a"} 413
DCGM_FI_DEV_POWER_USAGE_INSTANT{gpu="0",UUID="GPU-a"} 498.1
"#;

    const JSON: &str = r#"{"status": "success", "data": {"resultType": "matrix", "result": [
 {"metric": {"__name__": "DCGM_FI_DEV_POWER_USAGE", "gpu": "0", "UUID": "GPU-a", "Hostname": "n1", "GPU_I_ID": "1"}, "values": [[1736944496, "412.34"], [1736944496.5, "NaN"]]},
 {"metric": {"__name__": "DCGM_FI_DEV_POWER_USAGE", "gpu": "0", "UUID": "GPU-a", "Hostname": "n1", "GPU_I_ID": "2"}, "values": [[1736944496, "412.34"]]},
 {"metric": {"__name__": "DCGM_FI_DEV_POWER_USAGE", "gpu": "0", "UUID": "GPU-c", "Hostname": "n2"}, "values": [[1736944496, "300"]]},
 {"metric": {"__name__": "up"}, "values": [[1736944496, "1"]]}]}}
{"status": "success", "data": {"resultType": "matrix", "result": [
 {"metric": {"__name__": "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION", "gpu": "0", "UUID": "GPU-a"}, "values": [[1736944496, "5000000500"]]}]}}
"#;

    fn log(text: &str) -> Log {
        read(Dcgm::new(Settings::default()), text).unwrap()
    }

    #[test]
    fn mig_rows_repeat_their_board_and_zero_is_absent() {
        let log = log(MINIMAL);
        insta::assert_snapshot!(show(&log.rows), @"
        0s dcgm gpu0 412.34 W 5000000.5 J
        0s dcgm gpu1 -
        1s dcgm gpu0 413 W
        1s dcgm-instant gpu0 498.1 W
        ");
        assert_eq!(log.rows[0].sm_clock_mhz, Some(1980));
        assert_eq!(log.rows[0].memory_used_bytes, Some(70_000 << 20));
        assert_eq!(log.findings.accelerator.as_deref(), Some("NVIDIA H100"));
        assert_eq!((log.findings.accelerators, log.skipped.len()), (2, 0));
        assert!(
            log.findings.notes[0].starts_with("MIG instances repeat"),
            "{:?}",
            log.findings.notes
        );
    }

    #[test]
    fn range_queries_are_joined_by_board_and_time() {
        let read = |text: &str| collect("dcgm", text.as_bytes(), &ImportOptions::default());
        insta::assert_snapshot!(show(&read(JSON).unwrap().power), @"
        0s dcgm gpu0 412.34 W 5000000.5 J
        0s dcgm n2-gpu0 300 W
        0.5s dcgm gpu0 -
        ");
        let error = |from: &str, to: &str| read(&JSON.replacen(from, to, 1)).unwrap_err();
        insta::assert_snapshot!(error("\"__name__\": \"DCGM_FI_DEV_POWER_USAGE\", ", ""), @r#""input": series 0 of "result": a series has no "__name__": it was computed; expected the metric itself"#);
        insta::assert_snapshot!(error("matrix", "vector"), @r#""input": "resultType" is "vector"; expected "matrix", the answer to a range query"#);
        insta::assert_snapshot!(error("\"412.34\"", "\"much\""), @r#""input": series 0 of "result": "DCGM_FI_DEV_POWER_USAGE" is "much"; expected a number"#);
        let cut = read(&JSON[..JSON.len() / 2]).unwrap_err();
        assert!(cut.contains("ends inside its JSON"), "{cut}");
    }

    #[test]
    fn times_of_samples_and_labels_with_escapes() {
        let text = "dcgm_power_usage{gpu=\"0\",uuid=\"a\\\"b\"} 50 1736944496500\ndcgm_power_usage{gpu=\"0\",uuid=\"a\\\"b\"} 51 1736944497500\n";
        insta::assert_snapshot!(show(&log(text).rows), @"
        0.5s dcgm gpu0 50 W
        1.5s dcgm gpu0 51 W
        ");
    }

    #[test]
    fn without_times_it_needs_an_anchor_and_an_interval() {
        let text: String = MINIMAL
            .lines()
            .filter(|line| !line.starts_with("# scrape"))
            .map(|line| format!("{line}\n"))
            .collect();
        let error = read(Dcgm::new(Settings::default()), &text).unwrap_err();
        insta::assert_snapshot!(error, @"line 3: DCGM's text without a line of time before each scrape has no times; give the time of its first reading (--anchor) and the time between readings (--interval)");
        let twice = "dcgm_power_usage{gpu=\"0\",uuid=\"a\"} 50\ndcgm_power_usage{gpu=\"0\",uuid=\"a\"} 51\n";
        let anchor = TimestampNs::parse("2025-01-15T12:34:56Z").ok();
        let settings = Settings { anchor, interval_ns: Some(1_000_000_000), ..Settings::default() };
        insta::assert_snapshot!(show(&read(Dcgm::new(settings), twice).unwrap().rows), @"
        0s dcgm gpu0 50 W
        1s dcgm gpu0 51 W
        ");
    }

    #[test]
    fn answers_are_read_one_by_one_and_boards_keep_their_place() {
        let mut exporter = Exporter::default();
        let (first, second) = MINIMAL.split_at(MINIMAL.rfind("# scrape").unwrap());
        let scrape = exporter.read(first);
        assert!(scrape.has_instances);
        assert_eq!(exporter.names(), ["gpu0", "gpu1"]);
        let board = scrape.boards[&0];
        // 5,000,000,500 mJ; 70,000 MiB.
        assert_eq!((board.power_w, board.energy_j), (Some(412.34), Some(5_000_000.5)));
        assert_eq!(board.memory_used_bytes, Some(70_000 << 20));
        assert_eq!(scrape.boards[&1], BoardReading::default());
        let scrape = exporter.read(second);
        assert_eq!(scrape.boards.keys().collect::<Vec<_>>(), [&0]);
        assert_eq!(scrape.boards[&0].instant_power_w, Some(498.1));
        assert_eq!(exporter.models().iter().collect::<Vec<_>>(), ["NVIDIA H100"]);
        let page = exporter.read("<html>\nNot found\n</html>\n");
        // "Not found" has the shape of a metric and its value.
        assert_eq!((page.boards.len(), page.unreadable), (0, 2));
    }

    #[test]
    fn broken_lines_say_what_is_wrong() {
        let text = format!(
            "{MINIMAL}DCGM_FI_DEV_POWER_USAGE\ndcgm_power_usage{{gpu=\"0\"}} 1\ndcgm_gpu_temp{{UUID=\"GPU-a\"}} hot\ndcgm_power_usage{{UUID=\"x\"}} 1\ndcgm_power_usage{{UUID=\"x\"}} 4"
        );
        insta::assert_snapshot!(log(&text).skipped.join("\n"), @r#"
        line 13: is no sample of Prometheus text; expected "name{label="value"} 1.5"
        line 14: has no label "UUID", which tells boards apart
        line 15: "dcgm_gpu_temp" is "hot"; expected a number
        line 17: was cut off
        "#);
    }
}
