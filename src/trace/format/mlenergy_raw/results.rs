//! `results.json`.

use std::fmt;

use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::Value;
use wattrace_schema::{
    Claim, Engine, InputClock, Interpolation, PowerSource, Reading, RequestStatus, Scope,
    TimestampNs, Unit,
};

use super::super::cadence::Cadence;
use super::super::clock::epoch_clock;
use super::super::json::{Elements, Failure, Fields, Object};
use super::super::json_objects::objects;
use super::super::request_row::bare_request;
use super::super::token_count::{TokenCount, count};
use super::super::{Head, ImportOptions, Input, Part, Sink, quantity};
use crate::{PowerRow, RequestRow, TraceError};

/// Times are floats of seconds since 1970, which step by this.
const RESOLUTION_NS: u64 = 238;

/// Whether the file begins like one of these.
pub(super) fn matches(head: &Head) -> bool {
    let paths = head.json_paths();
    let has = |key: &str| paths.iter().any(|path| path == key);
    has("steady_state_energy") && (has("timeline") || has("power_timeline") || has("results"))
}

/// How the power monitor read the boards.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Domain {
    DeviceInstant,
    DeviceAverage,
}

impl Domain {
    const ALL: [Self; 2] = [Self::DeviceInstant, Self::DeviceAverage];

    fn find(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|domain| domain.name() == name)
    }

    const fn name(self) -> &'static str {
        match self {
            Self::DeviceInstant => "device_instant",
            Self::DeviceAverage => "device_average",
        }
    }

    fn source(self, cadence: &Cadence) -> PowerSource {
        let (reading, averaging_window_ms) = match self {
            Self::DeviceInstant => (Reading::Instant, None),
            Self::DeviceAverage => (Reading::Average, Some(1000.0)),
        };
        PowerSource {
            id: self.name().into(),
            scope: Scope::GpuBoard,
            reading,
            averaging_window_ms,
            nominal_interval_ms: cadence.interval_ms(),
            counter_wrap_j: None,
            counter_refresh_ms: None,
            accuracy_percent: None,
            clock_offset_ns: None,
            clock_offset_uncertainty_ns: None,
            interpolation: Interpolation::Hold,
        }
    }
}

#[derive(Debug, Deserialize)]
struct Request {
    input_len: Option<TokenCount>,
    output_len: Option<TokenCount>,
    latency: Option<f64>,
    ttft: Option<f64>,
    itl: Option<Vec<f64>>,
    success: Option<bool>,
    error: Option<String>,
}

impl Request {
    fn row(self, index: usize) -> Result<RequestRow, String> {
        let mut row = bare_request(format!("request-{index}"));
        let error = self.error.filter(|error| !error.is_empty());
        // Old files say it by the error alone.
        if !self.success.unwrap_or(error.is_none()) {
            let words = error.as_deref().unwrap_or_default();
            let timeout =
                ["timeout", "Timeout", "timed out"].iter().any(|word| words.contains(word));
            row.status = if timeout { RequestStatus::Timeout } else { RequestStatus::Error };
            row.error = Some(error.unwrap_or_else(|| "unnamed error".into()));
        }
        let is_ok = row.status == RequestStatus::Ok;
        let duration = |key: &str, seconds: Option<f64>| {
            // Failed requests keep zeros in place of times.
            let seconds = seconds.filter(|seconds| is_ok || *seconds > 0.0);
            let convert = |seconds| {
                quantity::duration_ns(seconds, "s").map_err(|problem| format!("{key}: {problem}"))
            };
            seconds.map(convert).transpose()
        };
        row.ttft_ns = duration("ttft", self.ttft)?;
        row.e2e_ns = duration("latency", self.latency)?;
        row.input_tokens = count(self.input_len);
        row.output_tokens = count(self.output_len).filter(|tokens| is_ok || *tokens > 0);
        if let Some(gaps) = self.itl {
            let gaps: Result<Vec<u64>, String> =
                gaps.iter().map(|gap| quantity::duration_ns(*gap, "s")).collect();
            row.itl_ns = Some(gaps.map_err(|problem| format!("itl: {problem}"))?);
        }
        Ok(row)
    }
}

#[derive(Debug, Default, Deserialize)]
struct Measurement {
    time: Option<f64>,
    gpu_energy: Option<std::collections::BTreeMap<String, f64>>,
}

impl Measurement {
    /// Joules of all boards; none where there is no board.
    fn gpu_energy_j(&self) -> Option<f64> {
        let boards = self.gpu_energy.as_ref().filter(|boards| !boards.is_empty())?;
        Some(boards.values().sum())
    }
}

/// Keys whose values are claims under another name.
const CLAIMS: &[(&str, &str, Unit)] = &[
    ("steady_state_energy_per_token", "steady_j_per_token", Unit::JoulePerToken),
    ("steady_state_energy", "steady_energy_j", Unit::Joule),
    ("output_throughput", "output_throughput_tok_s", Unit::TokenPerSecond),
    ("request_throughput", "request_throughput_req_s", Unit::RequestPerSecond),
    ("total_output_tokens", "output_tokens", Unit::Token),
];

/// A latency statistic such as `median_itl_ms` under our name. Their deviation divides by n.
fn latency_metric(key: &str) -> Option<String> {
    let (statistic, rest) = key.split_once('_')?;
    let quantity = rest.strip_suffix("_ms")?;
    let quantity = match quantity {
        "ttft" | "tpot" | "itl" => quantity,
        "e2el" => "e2e",
        _ => return None,
    };
    let statistic = match statistic {
        "mean" => "mean",
        "median" => "p50",
        "std" => "std_population",
        "p90" | "p95" | "p99" => statistic,
        _ => return None,
    };
    Some(format!("{quantity}_{statistic}_ms"))
}

struct Document<'a> {
    input: &'a Input,
    options: &'a ImportOptions,
    sink: &'a mut dyn Sink,
    failure: Failure,
    part: Part,
    /// The first domain of boards in the file; any other measures the same boards once more.
    domain: Option<Domain>,
    cadence: Cadence,
    left_out: Vec<String>,
    temperatures: u64,
    requests: u64,
    succeeded: u64,
    completed: Option<u64>,
    power_rows: u64,
    absent_power: u64,
    steady: Measurement,
    window: [Option<f64>; 2],
}

pub(super) fn read(
    input: &Input,
    options: &ImportOptions,
    sink: &mut dyn Sink,
) -> Result<(), TraceError> {
    sink.begin(&input.stem())?;
    let failure = Failure::default();
    let mut document = Document {
        input,
        options,
        sink,
        failure: failure.clone(),
        part: Part::default(),
        domain: None,
        cadence: Cadence::default(),
        left_out: Vec::new(),
        temperatures: 0,
        requests: 0,
        succeeded: 0,
        completed: None,
        power_rows: 0,
        absent_power: 0,
        steady: Measurement::default(),
        window: [None; 2],
    };
    let documents = objects(input, &failure, &mut document)?;
    if documents != 1 {
        return Err(
            input.error(None, format!("holds {documents} JSON documents; expected one object"))
        );
    }
    document.finish()
}

impl Fields for Document<'_> {
    fn field<'de, A: MapAccess<'de>>(&mut self, key: &str, map: &mut A) -> Result<(), A::Error> {
        let failure = self.failure.clone();
        match key {
            "results" => {
                return map.next_value_seed(Elements::new(&failure, |index, request: Request| {
                    self.request(index, request)
                }));
            }
            "timeline" | "power_timeline" => {
                return map.next_value_seed(Object(&mut Timeline(self)));
            }
            "model_id" => self.part.model.name = text(map)?.unwrap_or_default(),
            "gpu_model" => self.part.accelerator = text(map)?,
            "num_gpus" => {
                let gpus: Option<u32> = map.next_value()?;
                self.part.accelerators = gpus;
            }
            "max_num_seqs" => {
                let sequences: Option<u64> = map.next_value()?;
                self.part.engine = Engine {
                    flags: sequences.map(|count| serde_json::json!({ "max_num_seqs": count })),
                    ..Engine::default()
                };
                self.part.configuration = sequences.map(|count| format!("max_num_seqs={count}"));
            }
            "completed" => self.completed = map.next_value()?,
            "steady_state_measurement" => {
                self.steady = map.next_value::<Option<_>>()?.unwrap_or_default();
            }
            "entire_benchmark_measurement" => {
                let whole: Option<Measurement> = map.next_value()?;
                let joules = whole.and_then(|whole| whole.gpu_energy_j());
                self.claim(
                    "formal_energy_j",
                    joules,
                    Unit::Joule,
                    &format!("{key}.gpu_energy, summed"),
                );
            }
            key => self.number(key, map)?,
        }
        Ok(())
    }
}

/// A text, or nothing where it is null.
fn text<'de, A: MapAccess<'de>>(map: &mut A) -> Result<Option<String>, A::Error> {
    let text: Option<String> = map.next_value()?;
    Ok(text.filter(|text| !text.trim().is_empty()))
}

impl Document<'_> {
    /// Any other key: a claim, or nothing of ours.
    fn number<'de, A: MapAccess<'de>>(&mut self, key: &str, map: &mut A) -> Result<(), A::Error> {
        let named = CLAIMS.iter().find(|(name, ..)| *name == key);
        let latency = latency_metric(key);
        if named.is_none() && latency.is_none() {
            map.next_value::<IgnoredAny>()?;
            return Ok(());
        }
        let value: Value = map.next_value()?;
        let value = value.as_f64();
        if let Some((_, metric, unit)) = named {
            self.claim(metric, value, *unit, key);
        } else if let Some(metric) = latency {
            self.claim(&metric, value, Unit::Millisecond, key);
        }
        Ok(())
    }

    fn claim(&mut self, metric: &str, value: Option<f64>, unit: Unit, key: &str) {
        let Some(value) = value.filter(|value| value.is_finite()) else { return };
        self.part.claims.push(Claim {
            metric: metric.into(),
            value,
            unit: unit.symbol().into(),
            source: format!("{} {key}", self.input.file_name()),
        });
    }

    fn request(&mut self, index: usize, request: Request) -> Result<(), TraceError> {
        match request.row(index) {
            Ok(row) => {
                self.requests += 1;
                self.succeeded += u64::from(row.status == RequestStatus::Ok);
                self.sink.request(row)
            }
            Err(message) => self.part.skipped.add(
                self.options.strict,
                self.input.path(),
                index as u64 + 1,
                "requests, counted from 1,",
                message,
            ),
        }
    }

    fn power(&mut self, path: &[String], point: &Point) -> Result<(), TraceError> {
        let [domain, gpu] = path else {
            let path = path.join(".");
            let message = format!("timeline.power.{path} is a list; expected domains with boards");
            return Err(self.input.error(None, message));
        };
        let Some(kept) =
            Domain::find(domain).filter(|found| *self.domain.get_or_insert(*found) == *found)
        else {
            if !self.left_out.contains(domain) {
                self.left_out.push(domain.clone());
            }
            return Ok(());
        };
        let t_ns = point.time().map_err(|message| {
            self.input.error(None, format!("timeline.power.{domain}.{gpu}: {message}"))
        })?;
        let device = format!("gpu{gpu}");
        self.cadence.add(&device, t_ns);
        let power_w = point.1.filter(|watts| watts.is_finite() && *watts > 0.0);
        self.power_rows += 1;
        self.absent_power += u64::from(power_w.is_none());
        self.sink.power(PowerRow {
            t_ns,
            source: kept.name().into(),
            device,
            power_w,
            ..PowerRow::default()
        })
    }

    fn temperature(&mut self, path: &[String], point: &Point) -> Result<(), TraceError> {
        let Some(gpu) = path.last() else { return Ok(()) };
        let t_ns = point.time().map_err(|message| {
            self.input.error(None, format!("timeline.temperature.{gpu}: {message}"))
        })?;
        // Without power there is no source that they could belong to.
        let Some(domain) = self.domain else {
            self.temperatures += 1;
            return Ok(());
        };
        self.sink.power(PowerRow {
            t_ns,
            source: domain.name().into(),
            device: format!("gpu{gpu}"),
            temperature_c: point.1.map(|celsius| celsius as f32),
            ..PowerRow::default()
        })
    }

    fn finish(mut self) -> Result<(), TraceError> {
        if self.requests == 0 && self.power_rows == 0 {
            let message = "holds neither requests nor power; expected \"results\" and \"timeline\"";
            return Err(self.input.error(None, message));
        }
        let joules = self.steady.gpu_energy_j();
        let seconds = self.steady.time.filter(|seconds| *seconds > 0.0);
        if let (Some(joules), Some(seconds)) = (joules, seconds) {
            let key = "steady_state_measurement.gpu_energy / time";
            self.claim("steady_power_w", Some(joules / seconds), Unit::Watt, key);
        }
        let stamp = |seconds: Option<f64>| {
            let ns = seconds.map(quantity::epoch_seconds).transpose();
            ns.map(|ns| ns.map(TimestampNs::from_nanos))
        };
        let [start, end] = self.window.map(stamp);
        let error = |message| self.input.error(None, format!("timeline: {message}"));
        self.part.stages.formal_start = start.map_err(error)?;
        self.part.stages.formal_end = end.map_err(error)?;
        if let Some(domain) = self.domain {
            self.part.power_sources.push(domain.source(&self.cadence));
        }
        self.part.clock =
            if self.power_rows > 0 { epoch_clock(RESOLUTION_NS) } else { InputClock::default() };
        self.notes();
        self.sink.end(self.part)
    }

    fn notes(&mut self) {
        let notes = &mut self.part.notes;
        if self.requests > 0 {
            notes.push(
                "requests have no times, only durations; their \"energy\" is derived from the steady \
                 energy per token, so it is not taken"
                    .into(),
            );
        }
        if self.power_rows > 0 {
            notes.push(
                "the power monitor drops repeated readings: power holds until the next".into(),
            );
        }
        for domain in &self.left_out {
            notes.push(format!(
                "timeline.power.{domain} left out: it measures the same boards, or a part of them"
            ));
        }
        if self.temperatures > 0 {
            notes.push(format!(
                "temperatures before any power of boards, left out: {}",
                self.temperatures
            ));
        }
        if self.absent_power > 0 {
            notes.push(format!(
                "readings of no power (null, zero or negative), null: {}",
                self.absent_power
            ));
        }
        if let Some(completed) = self.completed.filter(|completed| *completed != self.succeeded) {
            notes.push(format!(
                "\"completed\" is {completed}, but {} requests of {} succeeded",
                self.succeeded, self.requests
            ));
        }
    }
}

/// The object `timeline`.
struct Timeline<'d, 'a>(&'d mut Document<'a>);

impl Fields for Timeline<'_, '_> {
    fn field<'de, A: MapAccess<'de>>(&mut self, key: &str, map: &mut A) -> Result<(), A::Error> {
        let failure = self.0.failure.clone();
        match key {
            "benchmark_start_time" => self.0.window[0] = map.next_value()?,
            "benchmark_end_time" => self.0.window[1] = map.next_value()?,
            "power" => {
                let document = &mut *self.0;
                let mut take = |path: &[String], point: Point| document.power(path, &point);
                map.next_value_seed(Series {
                    failure: &failure,
                    path: Vec::new(),
                    take: &mut take,
                })?;
            }
            "temperature" => {
                let document = &mut *self.0;
                let mut take = |path: &[String], point: Point| document.temperature(path, &point);
                map.next_value_seed(Series {
                    failure: &failure,
                    path: Vec::new(),
                    take: &mut take,
                })?;
            }
            _ => _ = map.next_value::<IgnoredAny>()?,
        }
        Ok(())
    }
}

/// Seconds since 1970, and a value.
#[derive(Debug, Deserialize)]
struct Point(f64, Option<f64>);

impl Point {
    fn time(&self) -> Result<i64, String> {
        quantity::epoch_seconds(self.0)
    }
}

/// What is done with a point below its names.
type TakePoint<'s> = dyn FnMut(&[String], Point) -> Result<(), TraceError> + 's;

/// A seed for lists of points, below one or more levels of names.
struct Series<'s> {
    failure: &'s Failure,
    path: Vec<String>,
    take: &'s mut TakePoint<'s>,
}

impl<'de> DeserializeSeed<'de> for Series<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Series<'_> {
    type Value = ();

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("lists of [seconds, value], by board")
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some(key) = map.next_key::<String>()? {
            let mut path = self.path.clone();
            path.push(key);
            map.next_value_seed(Series { failure: self.failure, path, take: &mut *self.take })?;
        }
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut points: A) -> Result<(), A::Error> {
        while let Some(point) = points.next_element()? {
            self.failure.keep((self.take)(&self.path, point))?;
        }
        Ok(())
    }
}
