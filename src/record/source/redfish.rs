//! A board controller, by Redfish: the power of the node, or of whatever resource the address names.
//!
//! A chassis is asked by the newest resource that has a value: `EnvironmentMetrics`, then the sensor that
//! this names, then `PowerControl` of the older `Power`, then the input power of all power supplies. Means
//! over minutes (`PowerMetrics`) are never taken. A controller dates its readings badly or not at all, so
//! rows are dated by this machine's clock at the middle of the question.

use std::time::{Duration, Instant};

use serde_json::{Map, Value};
use wattrace_schema::{Reading as ReadingKind, Scope};
use wattrace_trace::format::redfish::{Resource, number};

use super::remote_clock::{Observation, Offset, RemoteTime, offset};
use super::{COARSEST_COUNT_J, PowerSource, Reading, Sample, SourceOptions, Stream, refresh_ms};
use crate::clock::{Clock, Span, SystemClock};
use crate::http::{Answer, Client, Failure};

const ROOT: &str = "/redfish/v1/";

/// Members of a collection that are looked at.
const MOST_MEMBERS: usize = 64;

/// Questions for the service's clock, and the time between them. Its times are whole seconds as a rule,
/// and questions at several places of a second narrow them down.
const CLOCK_QUESTIONS: u32 = 8;
const BETWEEN_QUESTIONS: Duration = Duration::from_millis(125);

type Object = Map<String, Value>;

/// Where values are read from.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Target {
    /// One resource.
    Resource(String),
    /// Metrics of the power supplies, whose input power is added.
    Supplies(Vec<String>),
}

impl Target {
    fn first(&self) -> &str {
        match self {
            Self::Resource(path) => path,
            Self::Supplies(paths) => paths.first().map_or(ROOT, String::as_str),
        }
    }
}

/// What a target gives.
#[derive(Debug, Clone, PartialEq)]
struct Values {
    scope: Scope,
    /// Name of a part of the node.
    owner: String,
    power_w: Option<f64>,
    energy_j: Option<f64>,
    /// What the counter can tell apart, as far as its digits show.
    step_j: Option<f64>,
}

/// A target that was found, and what it gave.
#[derive(Debug)]
struct Found {
    target: Target,
    values: Values,
    /// The sensor behind the value, which may say more about it.
    sensor: Option<Object>,
}

/// One resource of a service.
#[derive(Debug)]
pub(super) struct Redfish {
    client: Client,
    target: Target,
    streams: Vec<Stream>,
    has_power: bool,
    has_counter: bool,
    notes: Vec<String>,
}

impl Redfish {
    pub(super) fn open(url: &str, id: &str, options: &SourceOptions) -> Result<Self, String> {
        let login = options.redfish_login.as_ref();
        let client = Client::new(url, "application/json", &options.http, login)?;
        let found = Search { client: &client }.at(client.path())?;
        let Found { target, values, sensor } = found;
        let (id, device) = match values.scope {
            Scope::Node => (id.to_owned(), "node".to_owned()),
            Scope::Cpu => (format!("{id}-cpu"), values.owner.clone()),
            Scope::Dram => (format!("{id}-dram"), values.owner.clone()),
            _ => (format!("{id}-gpu"), values.owner.clone()),
        };
        let mut stream = Stream::new(&id, values.scope, ReadingKind::Instant);
        stream.devices.push(device);
        if let Some(sensor) = &sensor {
            describe(&mut stream, sensor);
        }
        let mut source = Self {
            client,
            target,
            streams: vec![stream],
            has_power: values.power_w.is_some() || values.energy_j.is_none(),
            has_counter: false,
            notes: Vec::new(),
        };
        let is_unverified = options.http.insecure && source.client.address().is_encrypted();
        source.note_target(is_unverified);
        source.settle_counter(&values);
        source.measure_clock();
        Ok(source)
    }

    fn host(&self) -> &str {
        self.client.host()
    }

    fn note_target(&mut self, is_unverified: bool) {
        let host = self.host().to_owned();
        let what = match &self.target {
            Target::Resource(path) => format!("Redfish: power is read from {host}{path}"),
            Target::Supplies(paths) => format!(
                "Redfish: node power is the sum of the input power of {} power supplies of {host}, read one \
                 after the other",
                paths.len()
            ),
        };
        self.notes.push(format!(
            "{what}; the controller may refresh its reading less often than it is read"
        ));
        if is_unverified {
            self.notes.push(format!(
                "Redfish: what {host} answered was not verified by its certificate (--insecure)"
            ));
        }
    }

    /// Decides whether the counter is fine enough to be of use.
    fn settle_counter(&mut self, values: &Values) {
        let (Some(_), Some(step_j)) = (values.energy_j, values.step_j) else { return };
        if step_j > COARSEST_COUNT_J {
            self.notes.push(format!(
                "Redfish: the energy counter is not recorded: its steps of {:.1} kWh are too coarse for a run",
                step_j / 3.6e6
            ));
            return;
        }
        self.has_counter = true;
        self.streams[0].entry.counter_refresh_ms = refresh_ms(step_j, values.power_w);
    }

    /// Measures how far the service's clock is off, and how long an answer takes.
    fn measure_clock(&mut self) {
        let manager = self.manager_with_fine_clock();
        let path = manager.as_deref().unwrap_or_else(|| self.target.first()).to_owned();
        let mut observations = Vec::new();
        let mut longest_ns = 0;
        let begin = Instant::now();
        for question in 0..CLOCK_QUESTIONS {
            let due = BETWEEN_QUESTIONS * question;
            std::thread::sleep(due.saturating_sub(begin.elapsed()));
            let asked_ns = SystemClock.wall_ns();
            let answer = self.client.get(&path);
            let answered_ns = SystemClock.wall_ns();
            let Ok(answer) = answer else { continue };
            longest_ns = longest_ns.max(answered_ns.saturating_sub(asked_ns));
            let remote = match &manager {
                Some(_) => object(&answer).ok().and_then(|body| date_time(&body)),
                None => answer.date.as_deref().and_then(RemoteTime::http_date),
            };
            observations.extend(remote.map(|remote| Observation { asked_ns, answered_ns, remote }));
        }
        self.streams[0].answers_within(Duration::from_nanos(longest_ns.unsigned_abs()));
        let host = self.host();
        let note = match offset(&observations) {
            Some(offset) => clock_note(host, offset, observations.len()),
            None => format!("Redfish: {host} does not tell its time"),
        };
        self.notes.push(note);
    }

    /// The manager whose clock has parts of a second, if there is one.
    fn manager_with_fine_clock(&self) -> Option<String> {
        let search = Search { client: &self.client };
        let managers = link(&search.object(ROOT).ok()?, "Managers")?;
        let manager = members(&search.object(&managers).ok()?).into_iter().next()?;
        let time = date_time(&search.object(&manager).ok()?)?;
        time.has_parts_of_a_second().then_some(manager)
    }

    /// Asks once.
    fn ask(&self) -> Result<Values, Failure> {
        match &self.target {
            Target::Resource(path) => {
                let body = object(&self.client.get(path)?)?;
                let values = values(&body, path);
                values.map_err(|_| Failure::new("the answer tells no power in a known way"))
            }
            Target::Supplies(paths) => supplies(&self.client, paths),
        }
    }

    fn sample(&self, values: &Values, failures: &mut Vec<String>) -> Sample {
        let ceiling_w = values.scope.power_ceiling_w();
        let power_w = match values.power_w {
            Some(0.0) => Err("power: 0 W, which a machine that runs does not draw"),
            Some(power_w) if power_w > ceiling_w => Err("power: more than is possible"),
            Some(power_w) => Ok(power_w),
            None => Err("power: the reading is null"),
        };
        let mut sample = Sample { energy_j: values.energy_j, ..Sample::default() };
        match power_w {
            Ok(power_w) => sample.power_w = Some(power_w),
            Err(cause) if self.has_power => failures.push(cause.to_owned()),
            Err(_) => (),
        }
        if !self.has_counter {
            sample.energy_j = None;
        } else if sample.energy_j.is_none() {
            failures.push("energy: the reading is null".to_owned());
        }
        sample
    }
}

fn clock_note(host: &str, offset: Offset, count: usize) -> String {
    format!(
        "Redfish: the clock of {host} is {} this machine's, by the tightest bounds of {count} questions; rows \
         are dated by this machine's clock",
        offset.words()
    )
}

impl PowerSource for Redfish {
    fn streams(&self) -> &[Stream] {
        &self.streams
    }

    fn default_interval_ms(&self) -> f64 {
        1000.0
    }

    fn read(&mut self, clock: &dyn Clock, readings: &mut Vec<Reading>) {
        let (span, result) = Span::of(clock, || self.ask());
        let mut failures = Vec::new();
        let sample = match result {
            Ok(values) => self.sample(&values, &mut failures),
            Err(failure) => {
                failures.push(failure.cause);
                Sample::default()
            }
        };
        readings.push(Reading { stream: 0, device: 0, span, sample, failures });
    }

    fn notes(&self) -> Vec<String> {
        self.notes.clone()
    }
}

/// Looks for something that measures power.
#[derive(Debug, Clone, Copy)]
struct Search<'a> {
    client: &'a Client,
}

impl Search<'_> {
    fn object(self, path: &str) -> Result<Object, String> {
        let answer = self.client.get(path).and_then(|answer| object(&answer));
        answer.map_err(|failure| format!("\"{path}\": {}", failure.message()))
    }

    /// What is measured at an address: of the service, a chassis or one resource.
    fn at(self, path: &str) -> Result<Found, String> {
        let path = match path.trim_end_matches('/') {
            "" | "/redfish" | "/redfish/v1" => ROOT,
            _ => path,
        };
        let body = self.object(path)?;
        if let Some(collection) = link(&body, "Chassis") {
            return self.of_collection(&self.object(&collection)?);
        }
        if body.contains_key("Members") {
            return self.of_collection(&body);
        }
        if is_chassis(&body) {
            return self.of_chassis(&body);
        }
        self.of_resource(path, body)
    }

    /// The one chassis of a service that is the node.
    fn of_collection(self, collection: &Object) -> Result<Found, String> {
        let mut found = Vec::new();
        let mut problems = Vec::new();
        for path in members(collection) {
            let chassis = self.object(&path).and_then(|body| {
                if has_links(&body, "ContainedBy") {
                    return Ok(None);
                }
                Ok(Some((has_links(&body, "ComputerSystems"), self.of_chassis(&body)?)))
            });
            match chassis {
                Ok(Some((has_system, of_chassis))) => found.push((path, has_system, of_chassis)),
                Ok(None) => (),
                Err(problem) => problems.push(problem),
            }
        }
        let systems = found.iter().filter(|(_, has_system, _)| *has_system).count();
        if systems == 1 {
            found.retain(|(_, has_system, _)| *has_system);
        }
        let names: Vec<String> = found.iter().map(|(path, ..)| path.clone()).collect();
        match found.pop() {
            Some((_, _, only)) if found.is_empty() => Ok(only),
            Some(_) => Err(format!(
                "several chassis tell their power, and one may contain another: {}; expected the address of \
                 one of them",
                names.join(", ")
            )),
            None if problems.is_empty() => Err("it lists no chassis of its own".into()),
            None => Err(format!("no chassis tells its power: {}", problems.join("; "))),
        }
    }

    /// The newest resource of a chassis that has a value.
    fn of_chassis(self, chassis: &Object) -> Result<Found, String> {
        let kind = chassis.get("ChassisType").and_then(Value::as_str).unwrap_or_default();
        if ["Component", "Module", "Card", "Drive", "Cartridge", "Zone"].contains(&kind) {
            return Err(format!(
                "a chassis of type {kind} is a part of a node; expected the chassis of the node, or the \
                 EnvironmentMetrics of a processor"
            ));
        }
        let mut without_value = None;
        let mut problems = Vec::new();
        for name in ["EnvironmentMetrics", "Power"] {
            let Some(path) = link(chassis, name) else { continue };
            match self.object(&path).and_then(|body| self.of_resource(&path, body)) {
                Ok(found) if found.values.power_w.is_some_and(|power_w| power_w > 0.0) => {
                    return Ok(found);
                }
                Ok(found) => without_value = without_value.or(Some(found)),
                Err(problem) => problems.push(problem),
            }
        }
        match self.of_supplies(chassis) {
            Some(Ok(found)) => return Ok(found),
            Some(Err(problem)) => problems.push(problem),
            None => (),
        }
        // A value may come later; until then every reading is null.
        without_value.ok_or_else(|| {
            if problems.is_empty() {
                problems
                    .push("a chassis without EnvironmentMetrics, Power and PowerSubsystem".into());
            }
            problems.join("; ")
        })
    }

    fn of_resource(self, path: &str, body: Object) -> Result<Found, String> {
        let values = values(&body, path).map_err(|problem| format!("\"{path}\": {problem}"))?;
        let source = body.get("PowerWatts").and_then(|power| power.get("DataSourceUri"));
        let source = source.and_then(Value::as_str).map(str::to_owned);
        let sensor = match &source {
            Some(path) => self.object(path).ok(),
            None => body.contains_key("ReadingType").then_some(body),
        };
        if let (None, Some(path), Some(sensor)) = (values.power_w, &source, &sensor)
            && let Ok(of_sensor) = self::values(sensor, path)
            && of_sensor.power_w.is_some()
            && of_sensor.scope == values.scope
        {
            let target = Target::Resource(path.clone());
            return Ok(Found { target, values: of_sensor, sensor: Some(sensor.clone()) });
        }
        Ok(Found { target: Target::Resource(path.to_owned()), values, sensor })
    }

    /// The power supplies of a chassis, if it lists any.
    fn of_supplies(self, chassis: &Object) -> Option<Result<Found, String>> {
        let subsystem = link(chassis, "PowerSubsystem")?;
        let find = || {
            let subsystem = self.object(&subsystem)?;
            let Some(collection) = link(&subsystem, "PowerSupplies") else { return Ok(None) };
            let mut paths = Vec::new();
            for path in members(&self.object(&collection)?) {
                let supply = self.object(&path)?;
                let state = supply.get("Status").and_then(|status| status.get("State"));
                if state.and_then(Value::as_str) != Some("Absent") {
                    paths.extend(link(&supply, "Metrics"));
                }
            }
            if paths.is_empty() {
                return Ok(None);
            }
            let values = supplies(self.client, &paths)
                .map_err(|failure| format!("power supplies: {}", failure.message()))?;
            Ok(Some(Found { target: Target::Supplies(paths), values, sensor: None }))
        };
        find().transpose()
    }
}

/// The values of one resource.
fn values(body: &Object, path: &str) -> Result<Values, String> {
    match Resource::parse(body, Some(path))? {
        Resource::Measures(reading) => Ok(Values {
            scope: reading.scope,
            owner: reading.owner,
            power_w: reading.power_w,
            energy_j: reading.energy_j,
            step_j: counter_step_j(body),
        }),
        Resource::LeftOut(what) => Err(format!("is one of {what}")),
    }
}

/// The input power of all supplies. One that cannot be read leaves no sum.
fn supplies(client: &Client, paths: &[String]) -> Result<Values, Failure> {
    let mut sum_w = 0.0;
    for path in paths {
        let body = object(&client.get(path)?)?;
        let reading = body.get("InputPowerWatts").and_then(|power| power.get("Reading"));
        let power_w = number("InputPowerWatts", reading)
            .map_err(|_| Failure::new("the answer tells no power in a known way"))?;
        sum_w +=
            power_w.ok_or_else(|| Failure::new("power: the reading of a power supply is null"))?;
    }
    let owner = "node".to_owned();
    Ok(Values { scope: Scope::Node, owner, power_w: Some(sum_w), energy_j: None, step_j: None })
}

fn object(answer: &Answer) -> Result<Object, Failure> {
    match serde_json::from_str(&answer.text) {
        Ok(Value::Object(body)) => Ok(body),
        _ => Err(Failure::new("the answer is no JSON object")),
    }
}

/// The address that a property links to.
fn link(body: &Object, name: &str) -> Option<String> {
    let path = body.get(name)?.get("@odata.id")?.as_str()?;
    // An address of another host is not followed.
    path.starts_with('/').then(|| path.to_owned())
}

fn members(collection: &Object) -> Vec<String> {
    let members = collection.get("Members").and_then(Value::as_array);
    let paths = members.into_iter().flatten().filter_map(|member| {
        let path = member.get("@odata.id")?.as_str()?;
        path.starts_with('/').then(|| path.to_owned())
    });
    paths.take(MOST_MEMBERS).collect()
}

fn is_chassis(body: &Object) -> bool {
    let kind = body.get("@odata.type").and_then(Value::as_str).unwrap_or_default();
    kind.starts_with("#Chassis.") || body.contains_key("ChassisType")
}

/// Whether `Links` of a resource names another one, or several, under `name`.
fn has_links(body: &Object, name: &str) -> bool {
    match body.get("Links").and_then(|links| links.get(name)) {
        Some(Value::Array(items)) => !items.is_empty(),
        Some(Value::Object(item)) => !item.is_empty(),
        _ => false,
    }
}

fn date_time(manager: &Object) -> Option<RemoteTime> {
    RemoteTime::rfc3339(manager.get("DateTime")?.as_str()?)
}

/// What the digits of a counter tell apart, J.
fn counter_step_j(body: &Object) -> Option<f64> {
    let kind = body.get("ReadingType").and_then(Value::as_str).unwrap_or_default();
    [("EnergyJoules", 1.0), ("EnergyWh", 3600.0), ("EnergykWh", 3.6e6)].into_iter().find_map(
        |(name, unit_j)| {
            let reading =
                if kind == name { body.get("Reading")? } else { body.get(name)?.get("Reading")? };
            let text = match reading {
                Value::Number(number) => number.to_string(),
                Value::String(text) => text.trim().to_owned(),
                _ => return None,
            };
            let digits = text.split_once('.').map_or(
                0,
                |(_, parts)| {
                    if parts == "0" { 0 } else { parts.len() }
                },
            );
            Some(unit_j / 10_f64.powi(i32::try_from(digits).ok()?))
        },
    )
}

/// Takes over what a sensor says of its values.
fn describe(stream: &mut Stream, sensor: &Object) {
    let entry = &mut stream.entry;
    let accuracy = sensor.get("Accuracy").and_then(Value::as_f64);
    entry.accuracy_percent = accuracy.filter(|percent| *percent > 0.0 && *percent < 100.0);
    let window = sensor.get("AveragingInterval").and_then(Value::as_str).and_then(duration_ms);
    if window.is_some() {
        entry.reading = ReadingKind::Average;
        entry.averaging_window_ms = window;
    }
}

/// A length of time such as `PT0.5S`, above zero.
fn duration_ms(text: &str) -> Option<f64> {
    let (days, clock) = text.strip_prefix('P')?.split_once('T')?;
    if !days.is_empty() {
        return None;
    }
    let mut total_ms = 0.0;
    let mut rest = clock;
    while !rest.is_empty() {
        let (value, after) = rest.split_at(rest.find(|c: char| c.is_ascii_alphabetic())?);
        let unit_ms = match &after[..1] {
            "H" => 3_600_000.0,
            "M" => 60_000.0,
            "S" => 1000.0,
            _ => return None,
        };
        total_ms += value.parse::<f64>().ok()? * unit_ms;
        rest = &after[1..];
    }
    (total_ms > 0.0 && total_ms.is_finite()).then_some(total_ms)
}

#[cfg(test)]
mod tests;
