//! Tables of any tool by a declared mapping: which column is what, in which unit.

mod cell;
mod rows;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use jiff::fmt::strtime;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;
use wattrace_schema::{
    ClockBase, GraphMode, InputClock, Interpolation, PowerSource, Reading, RequestStage,
    RequestStatus, Scope, TimestampNs,
};

use super::archive_sink::ArchiveSink;
use super::clock::{LocalZone, Stamp};
use super::{Anchor, ImportOptions, ImportSummary, Input, Part, Sink, quantity};
use crate::{PowerRow, RequestRow, StepRow, TraceError};
use cell::Cell;
use rows::{MapRow, MapRows};

/// A declared mapping, read from a TOML file.
#[derive(Debug, Clone)]
pub struct Mapping {
    path: PathBuf,
    file: MapFile,
}

/// A mapping of the columns of any table to those of an archive, as TOML.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct MapFile {
    /// What a row is.
    table: TargetTable,
    /// Between cells of a delimited table; told by the header where absent.
    separator: Option<char>,
    /// Lines before the header of a delimited table.
    #[serde(default)]
    skip_lines: u64,
    /// Zone of local times; `--tz` where absent.
    zone: Option<String>,
    /// The source of power rows.
    source: Option<SourceKeys>,
    /// What is known of the run.
    #[serde(default)]
    run: RunKeys,
    /// Columns of the archive's table.
    columns: BTreeMap<String, Column>,
}

/// Tables that rows can be mapped to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
enum TargetTable {
    Power,
    Requests,
    Steps,
}

impl TargetTable {
    const ALL: [Self; 3] = [Self::Power, Self::Requests, Self::Steps];

    const fn name(self) -> &'static str {
        match self {
            Self::Power => "power",
            Self::Requests => "requests",
            Self::Steps => "steps",
        }
    }
}

/// The source of power rows, as `power_sources` of `run.json` holds it.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct SourceKeys {
    id: String,
    scope: Scope,
    reading: Reading,
    nominal_interval_ms: f64,
    averaging_window_ms: Option<f64>,
    counter_wrap_j: Option<f64>,
    counter_refresh_ms: Option<f64>,
    accuracy_percent: Option<f64>,
    #[serde(default)]
    interpolation: Interpolation,
}

/// What is known of the run.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct RunKeys {
    model: Option<String>,
    accelerator: Option<String>,
    accelerators: Option<u32>,
    node: Option<String>,
    engine: Option<String>,
    engine_version: Option<String>,
    configuration: Option<String>,
    task: Option<String>,
    dataset: Option<String>,
    request_rate: Option<f64>,
}

/// Where a column of the archive comes from.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Column {
    /// Name of a column of the input; a path such as `metrics.latency` in JSON.
    column: Option<String>,
    /// A value for every row.
    #[schemars(with = "Option<serde_json::Value>")]
    constant: Option<toml::Value>,
    /// Unit of the input's values.
    unit: Option<String>,
    /// How a time is written: `rfc3339`, `local` (year first), or a pattern such as `%d.%m.%Y %H:%M:%S`.
    format: Option<String>,
    /// From when a time in a unit counts.
    #[serde(default)]
    since: Since,
    /// Put before the text, such as `gpu` before an index.
    #[serde(default)]
    prefix: String,
}

/// From when times count.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
enum Since {
    /// 1970.
    #[default]
    Epoch,
    /// An instant that only the anchor of an import (`--anchor`) places on the calendar.
    Anchor,
}

/// The JSON Schema of a mapping, for editors. Which units a column takes is checked on reading.
#[must_use]
pub fn mapping_json_schema() -> serde_json::Value {
    let mut schema = schemars::schema_for!(MapFile).to_value();
    let of_tables: Vec<_> = TargetTable::ALL
        .into_iter()
        .map(|table| {
            let (columns, required) = targets(table);
            let names: Vec<&str> = columns.iter().map(|(name, _)| *name).collect();
            let source = match table {
                TargetTable::Power => json!({ "required": ["source"] }),
                TargetTable::Requests | TargetTable::Steps => {
                    json!({ "not": { "required": ["source"] } })
                }
            };
            json!({
                "if": { "properties": { "table": { "const": table.name() } } },
                "then": { "allOf": [source, { "properties": { "columns": {
                    "propertyNames": { "enum": names },
                    "required": names[..required],
                } } }] },
            })
        })
        .collect();
    schema["allOf"] = of_tables.into();
    schema
}

/// What kind of value a column of the archive takes, and so which units may stand for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Time,
    Duration,
    Durations,
    Power,
    Energy,
    Temperature,
    Frequency,
    Memory,
    Percent,
    Count,
    Counts,
    Number,
    Text,
}

/// Columns of a table with their kinds; the first `required` of them must be mapped.
fn targets(table: TargetTable) -> (&'static [(&'static str, Kind)], usize) {
    match table {
        TargetTable::Power => (
            &[
                ("t", Kind::Time),
                ("power_w", Kind::Power),
                ("device", Kind::Text),
                ("energy_j", Kind::Energy),
                ("temperature_c", Kind::Temperature),
                ("sm_clock_mhz", Kind::Frequency),
                ("mem_clock_mhz", Kind::Frequency),
                ("memory_used_bytes", Kind::Memory),
                ("utilization_percent", Kind::Percent),
            ],
            1,
        ),
        TargetTable::Requests => (
            &[
                ("request_id", Kind::Text),
                ("t_send", Kind::Time),
                ("t_first_token", Kind::Time),
                ("t_end", Kind::Time),
                ("ttft_ns", Kind::Duration),
                ("e2e_ns", Kind::Duration),
                ("stage", Kind::Text),
                ("status", Kind::Text),
                ("error", Kind::Text),
                ("input_tokens", Kind::Count),
                ("output_tokens", Kind::Count),
                ("reasoning_tokens", Kind::Count),
                ("itl_ns", Kind::Durations),
                ("itl_tokens", Kind::Counts),
            ],
            0,
        ),
        TargetTable::Steps => (
            &[
                ("t_end", Kind::Time),
                ("active_sequences", Kind::Count),
                ("new_tokens", Kind::Count),
                ("t_start", Kind::Time),
                ("step", Kind::Count),
                ("replica", Kind::Count),
                ("history_tokens", Kind::Number),
                ("max_sequence_tokens", Kind::Count),
                ("prefill_tokens", Kind::Count),
                ("iterations", Kind::Count),
                ("active_experts", Kind::Number),
                ("graph_mode", Kind::Text),
            ],
            3,
        ),
    }
}

impl Mapping {
    /// Reads a mapping from a TOML file.
    ///
    /// # Errors
    /// The file cannot be read, or says something that a mapping does not; the message names the key.
    pub fn read(path: &Path) -> Result<Self, TraceError> {
        let text = std::fs::read_to_string(path).map_err(TraceError::io("read", path))?;
        Self::parse(path, &text)
    }

    /// Reads a mapping from TOML text; `path` names it in messages.
    ///
    /// # Errors
    /// As [`Mapping::read`].
    pub fn parse(path: &Path, text: &str) -> Result<Self, TraceError> {
        let error =
            |message: String| TraceError::Format { path: path.to_owned(), line: None, message };
        let file: MapFile = toml::from_str(text)
            .map_err(|cause| error(format!("is no mapping: {}", cause.to_string().trim_end())))?;
        let mapping = Self { path: path.to_owned(), file };
        mapping.check().map_err(error)?;
        Ok(mapping)
    }

    fn check(&self) -> Result<(), String> {
        let (known, required) = targets(self.file.table);
        for name in self.file.columns.keys() {
            if !known.iter().any(|(known, _)| known == name) {
                let names: Vec<&str> = known.iter().map(|(name, _)| *name).collect();
                let names = names.join(", ");
                return Err(format!(
                    "key \"columns.{name}\" is no column; expected one of {names}"
                ));
            }
        }
        for (name, _) in &known[..required] {
            if !self.file.columns.contains_key(*name) {
                return Err(format!("key \"columns.{name}\" is missing; such rows need it"));
            }
        }
        match self.file.table {
            TargetTable::Power => {
                if self.file.source.is_none() {
                    return Err(
                        "key \"source\" is missing; power rows need its id, scope, reading and \
                                nominal_interval_ms"
                            .into(),
                    );
                }
                let columns = &self.file.columns;
                if !columns.contains_key("power_w") && !columns.contains_key("energy_j") {
                    return Err("keys \"columns.power_w\" and \"columns.energy_j\" are missing; expected one \
                                of them"
                        .into());
                }
            }
            TargetTable::Requests | TargetTable::Steps if self.file.source.is_some() => {
                return Err("key \"source\" is given; only power rows have a source".into());
            }
            TargetTable::Requests | TargetTable::Steps => {}
        }
        for (name, kind) in known {
            if let Some(column) = self.file.columns.get(*name) {
                column.check(name, *kind)?;
            }
        }
        Ok(())
    }

    /// Reads `input` and gives its rows to `sink`.
    pub(super) fn read_input(
        &self,
        input: &Input,
        options: &ImportOptions,
        sink: &mut dyn Sink,
    ) -> Result<(), TraceError> {
        let mut options = options.clone();
        if let Some(zone) = &self.file.zone {
            options.time_zone = Some(zone.clone());
        }
        let zone = if self.has_local_times() {
            Some(LocalZone::required(&options, input)?)
        } else {
            LocalZone::of(&options)?
        };
        let anchored = self.anchored(&options, input)?;
        let read = ReadRow {
            mapping: self,
            zone: zone.as_ref(),
            anchor_offset_ns: anchored.map_or(0, |(_, offset_ns)| offset_ns),
            negative: std::cell::Cell::new(0),
        };
        let mut rows = self.open(input)?;
        let mut part = self.part(zone.as_ref());
        if let Some((anchor, offset_ns)) = anchored {
            part.clock = anchor.clock(ClockBase::Relative, offset_ns, 1);
        }
        sink.begin(&input.stem())?;
        let mut count = 0_u64;
        while let Some(row) = rows.next_row()? {
            let line = row.line;
            let given = row.cells.and_then(|row| match self.file.table {
                TargetTable::Power => read.power(&row).map(Target::Power),
                TargetTable::Requests => {
                    read.request(&row, count).map(|row| Target::Request(Box::new(row)))
                }
                TargetTable::Steps => read.step(&row, count).map(Target::Step),
            });
            match given {
                Ok(Target::Power(row)) => sink.power(row)?,
                Ok(Target::Request(row)) => sink.request(*row)?,
                Ok(Target::Step(row)) => sink.step(row)?,
                Err(message) => {
                    part.skipped.add(options.strict, input.path(), line, "rows", message)?;
                    continue;
                }
            }
            count += 1;
        }
        if count == 0 {
            let skipped = part.skipped.notes(input.path()).join("; ");
            let because = if skipped.is_empty() { String::new() } else { format!(": {skipped}") };
            return Err(
                input.error(None, format!("holds no row that the mapping can read{because}"))
            );
        }
        if read.negative.get() > 0 {
            part.notes.push(format!("negative readings, null: {}", read.negative.get()));
        }
        sink.end(part)
    }

    fn open(&self, input: &Input) -> Result<MapRows, TraceError> {
        let mut rows = MapRows::open(input, self.file.separator, self.file.skip_lines)?;
        let used = self.file.columns.values().filter_map(|column| column.column.as_deref());
        rows.require_columns(used)?;
        Ok(rows)
    }

    /// The anchor and what it adds to times that count from it; `None` where no column does. The input is
    /// read once through for its first and last time.
    fn anchored(
        &self,
        options: &ImportOptions,
        input: &Input,
    ) -> Result<Option<(Anchor, i64)>, TraceError> {
        let columns = self.file.columns.iter();
        let counted: Vec<&String> = columns
            .filter_map(|(name, column)| (column.since == Since::Anchor).then_some(name))
            .collect();
        let Some(first) = counted.first() else { return Ok(None) };
        let anchor = options.anchor.ok_or_else(|| {
            let message = format!(
                "columns.{first} counts from an unknown instant; name its time (--anchor), such as \
                 zero=2026-01-31T12:00:00Z"
            );
            input.error(None, message)
        })?;
        let read = ReadRow {
            mapping: self,
            zone: None,
            anchor_offset_ns: 0,
            negative: std::cell::Cell::new(0),
        };
        let mut ends: Option<(i64, i64)> = None;
        let mut rows = self.open(input)?;
        while let Some(row) = rows.next_row()? {
            // What is wrong with a row is said when its values are read.
            let Ok(row) = row.cells else { continue };
            for time in counted.iter().filter_map(|name| read.time(&row, name).ok().flatten()) {
                let (first, last) = ends.unwrap_or((time, time));
                ends = Some((first.min(time), last.max(time)));
            }
        }
        let (first, last) = ends.unwrap_or_default();
        let offset_ns =
            anchor.offset_ns(first, last).map_err(|message| input.error(None, message))?;
        Ok(Some((anchor, offset_ns)))
    }

    fn has_local_times(&self) -> bool {
        self.file.columns.values().any(|column| column.is_local())
    }

    fn part(&self, zone: Option<&LocalZone>) -> Part {
        let run = &self.file.run;
        let mut part = Part {
            configuration: run.configuration.clone(),
            accelerator: run.accelerator.clone(),
            accelerators: run.accelerators,
            node: run.node.clone(),
            power_sources: self.file.source.iter().map(SourceKeys::source).collect(),
            clock: match zone.filter(|_| self.has_local_times()) {
                Some(zone) => zone.clock(1),
                None => InputClock { base: ClockBase::Epoch, ..InputClock::default() },
            },
            ..Part::default()
        };
        part.model.name = run.model.clone().unwrap_or_default();
        part.engine.name.clone_from(&run.engine);
        part.engine.version.clone_from(&run.engine_version);
        part.workload.task.clone_from(&run.task);
        part.workload.dataset.clone_from(&run.dataset);
        part.workload.request_rate = run.request_rate;
        part.notes.push(format!("columns as \"{}\" declares them", super::file_name(&self.path)));
        part
    }
}

impl SourceKeys {
    fn source(&self) -> PowerSource {
        PowerSource {
            id: self.id.clone(),
            scope: self.scope,
            reading: self.reading,
            averaging_window_ms: self.averaging_window_ms,
            nominal_interval_ms: self.nominal_interval_ms,
            counter_wrap_j: self.counter_wrap_j,
            counter_refresh_ms: self.counter_refresh_ms,
            accuracy_percent: self.accuracy_percent,
            clock_offset_ns: None,
            clock_offset_uncertainty_ns: None,
            interpolation: self.interpolation,
        }
    }
}

/// A row of the archive.
enum Target {
    Power(PowerRow),
    Request(Box<RequestRow>),
    Step(StepRow),
}

impl Column {
    fn is_local(&self) -> bool {
        self.format.as_deref().is_some_and(|format| format != "rfc3339")
    }

    /// Whether unit and format are what the kind of value takes.
    fn check(&self, name: &str, kind: Kind) -> Result<(), String> {
        let key = format!("columns.{name}");
        if self.column.is_some() == self.constant.is_some() {
            return Err(format!("key \"{key}\" needs either a column or a constant"));
        }
        let unit = self.unit.as_deref();
        let known = |convert: fn(f64, &str) -> Result<f64, String>| match unit {
            Some(unit) => {
                convert(0.0, unit).map(|_| ()).map_err(|why| format!("key \"{key}.unit\": {why}"))
            }
            None => Err(format!("key \"{key}.unit\" is missing; it is never guessed")),
        };
        if self.format.is_some() && kind != Kind::Time {
            return Err(format!("key \"{key}.format\" is given; only times have a format"));
        }
        if self.since == Since::Anchor && (kind != Kind::Time || unit.is_none()) {
            return Err(format!(
                "key \"{key}.since\" is \"anchor\"; only times with a unit count from an anchor"
            ));
        }
        match kind {
            Kind::Time if self.format.is_some() && unit.is_some() => Err(format!(
                "key \"{key}\" has both a unit and a format; expected a unit for times since 1970 or a format \
                 for written ones"
            )),
            Kind::Time if self.format.is_some() => Ok(()),
            Kind::Time => match unit {
                Some(unit) => quantity::decimal_nanos("0", unit)
                    .map(|_| ())
                    .map_err(|why| format!("key \"{key}.unit\": {why}")),
                None => Err(format!(
                    "key \"{key}\" needs a unit (s, ms, us, ns since 1970) or a format (rfc3339, local, or a \
                     pattern)"
                )),
            },
            Kind::Duration | Kind::Durations => {
                known(|value, unit| quantity::nanos(value, unit).map(|nanos| nanos as f64))
            }
            Kind::Power => known(quantity::power_w),
            Kind::Energy => known(quantity::energy_j),
            Kind::Memory => {
                known(|value, unit| quantity::bytes(value, unit).map(|bytes| bytes as f64))
            }
            Kind::Frequency => known(|value, unit| quantity::megahertz(value, unit).map(f64::from)),
            Kind::Temperature => known(celsius),
            Kind::Percent => known(percent),
            Kind::Count | Kind::Counts | Kind::Number | Kind::Text if unit.is_some() => {
                Err(format!("key \"{key}.unit\" is given; such values have no unit"))
            }
            Kind::Count | Kind::Counts | Kind::Number | Kind::Text => Ok(()),
        }
    }
}

fn celsius(value: f64, unit: &str) -> Result<f64, String> {
    match unit {
        "C" | "°C" => Ok(value),
        "mC" => Ok(value / 1e3),
        "K" => Ok(value - 273.15),
        _ => Err(format!("\"{unit}\" is no unit of temperature; expected C, mC or K")),
    }
}

fn percent(value: f64, unit: &str) -> Result<f64, String> {
    match unit {
        "%" => Ok(value),
        "1" => Ok(value * 100.0),
        _ => Err(format!("\"{unit}\" is no unit of utilization; expected % or 1")),
    }
}

/// Reads rows of one mapping.
struct ReadRow<'a> {
    mapping: &'a Mapping,
    zone: Option<&'a LocalZone>,
    /// Added to times that count from an anchor.
    anchor_offset_ns: i64,
    /// Negative readings so far: they say that there is none.
    negative: std::cell::Cell<u64>,
}

impl ReadRow<'_> {
    /// The column and its cell; `None` where it is not mapped or the cell says that there is no value.
    fn cell<'r>(
        &self,
        row: &'r MapRow,
        name: &str,
    ) -> Option<(&Column, std::borrow::Cow<'r, Cell>)> {
        let column = self.mapping.file.columns.get(name)?;
        let cell = match (&column.column, &column.constant) {
            (Some(source), _) => std::borrow::Cow::Borrowed(row.get(source)?),
            (None, Some(constant)) => std::borrow::Cow::Owned(Cell::of_toml(constant)),
            (None, None) => return None,
        };
        (!cell.is_absent()).then_some((column, cell))
    }

    fn read<T>(
        &self,
        row: &MapRow,
        name: &str,
        read: impl FnOnce(&Column, &Cell) -> Result<T, String>,
    ) -> Result<Option<T>, String> {
        let Some((column, cell)) = self.cell(row, name) else { return Ok(None) };
        read(column, &cell).map(Some).map_err(|problem| {
            let source = column.column.as_deref().unwrap_or("constant");
            format!("column \"{}\": {problem}", source.escape_debug())
        })
    }

    fn quantity<T>(
        &self,
        row: &MapRow,
        name: &str,
        convert: fn(f64, &str) -> Result<T, String>,
    ) -> Result<Option<T>, String> {
        self.read(row, name, |column, cell| {
            convert(cell.number()?, column.unit.as_deref().unwrap_or_default())
        })
    }

    fn time(&self, row: &MapRow, name: &str) -> Result<Option<i64>, String> {
        self.read(row, name, |column, cell| self.time_of(column, cell))
    }

    fn time_of(&self, column: &Column, cell: &Cell) -> Result<i64, String> {
        if let Cell::Time(nanos) = cell {
            return Ok(*nanos);
        }
        let text = cell.text();
        let local = |stamp: Stamp| match (stamp, self.zone) {
            (Stamp::Instant(nanos), _) => Ok(nanos),
            (stamp, Some(zone)) => zone.stamp(stamp),
            (_, None) => Err("has no zone; name it (--tz)".into()),
        };
        match (column.format.as_deref(), column.unit.as_deref()) {
            (Some("rfc3339"), _) => {
                TimestampNs::parse(&text).map(TimestampNs::nanos).map_err(|error| error.to_string())
            }
            (Some("local"), _) => match Stamp::parse(&text) {
                Some(stamp) => local(stamp),
                None => Err(format!(
                    "\"{}\" is no time; expected such as \"2025-01-15 12:34:56.789\"",
                    text.escape_debug()
                )),
            },
            (Some(pattern), _) => match strtime::parse(pattern, text.trim()) {
                Ok(broken_down) => match broken_down.to_timestamp() {
                    Ok(time) => i64::try_from(time.as_nanosecond())
                        .map_err(|_| format!("\"{text}\" lies outside the years 1678 to 2261")),
                    Err(_) => broken_down
                        .to_datetime()
                        .map_err(|error| error.to_string())
                        .and_then(|time| local(Stamp::Local(time))),
                },
                Err(_) => Err(format!(
                    "\"{}\" is no time of the format \"{pattern}\"",
                    text.escape_debug()
                )),
            },
            (None, unit) => {
                let nanos = quantity::decimal_nanos(&text, unit.unwrap_or_default())?;
                match column.since {
                    Since::Epoch => Ok(nanos),
                    Since::Anchor => nanos
                        .checked_add(self.anchor_offset_ns)
                        .ok_or_else(|| format!("\"{text}\" lies outside the years 1678 to 2261")),
                }
            }
        }
    }

    fn count(&self, row: &MapRow, name: &str) -> Result<Option<u32>, String> {
        self.read(row, name, |_, cell| cell.count())
    }

    fn text(&self, row: &MapRow, name: &str) -> Result<Option<String>, String> {
        self.read(row, name, |column, cell| Ok(format!("{}{}", column.prefix, cell.text())))
    }

    fn power(&self, row: &MapRow) -> Result<PowerRow, String> {
        let absent = || "has no time".to_owned();
        let source = self.mapping.file.source.as_ref().ok_or("has no source")?;
        let valid = |value: f64| {
            self.negative.set(self.negative.get() + u64::from(value < 0.0));
            Some(value).filter(|value| *value >= 0.0)
        };
        Ok(PowerRow {
            t_ns: self.time(row, "t")?.ok_or_else(absent)?,
            source: source.id.clone(),
            device: self.text(row, "device")?.unwrap_or_else(|| source.scope.name().to_owned()),
            power_w: self.quantity(row, "power_w", quantity::power_w)?.and_then(valid),
            energy_j: self.quantity(row, "energy_j", quantity::energy_j)?.and_then(valid),
            temperature_c: self.quantity(row, "temperature_c", celsius)?.map(|value| value as f32),
            sm_clock_mhz: self.quantity(row, "sm_clock_mhz", quantity::megahertz)?,
            mem_clock_mhz: self.quantity(row, "mem_clock_mhz", quantity::megahertz)?,
            memory_used_bytes: self.quantity(row, "memory_used_bytes", quantity::bytes)?,
            utilization_percent: self
                .quantity(row, "utilization_percent", percent)?
                .map(|value| value as f32),
            ..PowerRow::default()
        })
    }

    fn request(&self, row: &MapRow, index: u64) -> Result<RequestRow, String> {
        let id = self.text(row, "request_id")?;
        let stage = self.text(row, "stage")?;
        let status = self.text(row, "status")?;
        let error = self.text(row, "error")?;
        let default = if error.is_some() { RequestStatus::Error } else { RequestStatus::Ok };
        Ok(RequestRow {
            request_id: id.unwrap_or_else(|| index.to_string()),
            stage: named(
                stage.as_deref(),
                RequestStage::ALL,
                RequestStage::name,
                RequestStage::Formal,
            )?,
            t_send_ns: self.time(row, "t_send")?,
            t_first_token_ns: self.time(row, "t_first_token")?,
            t_end_ns: self.time(row, "t_end")?,
            status: named(status.as_deref(), RequestStatus::ALL, RequestStatus::name, default)?,
            error,
            input_tokens: self.count(row, "input_tokens")?,
            output_tokens: self.count(row, "output_tokens")?,
            reasoning_tokens: self.count(row, "reasoning_tokens")?,
            itl_ns: self.read(row, "itl_ns", |column, cell| {
                let unit = column.unit.as_deref().unwrap_or_default();
                cell.list()?.into_iter().map(|value| quantity::duration_ns(value, unit)).collect()
            })?,
            itl_tokens: self.read(row, "itl_tokens", |_, cell| {
                cell.list()?.into_iter().map(|value| Cell::Number(value).count()).collect()
            })?,
            ttft_ns: self.quantity(row, "ttft_ns", quantity::duration_ns)?,
            e2e_ns: self.quantity(row, "e2e_ns", quantity::duration_ns)?,
        })
    }

    fn step(&self, row: &MapRow, index: u64) -> Result<StepRow, String> {
        let needed = |name: &str, value: Option<u32>| value.ok_or_else(|| format!("has no {name}"));
        let graph_mode = self.text(row, "graph_mode")?;
        let replica = self.count(row, "replica")?.unwrap_or(0);
        let whole = |value: f64| {
            let whole = value.fract() == 0.0 && (0.0..1e18).contains(&value);
            if whole { Ok(value as u64) } else { Err(format!("{value} is no number of tokens")) }
        };
        Ok(StepRow {
            step: self.count(row, "step")?.map_or(index, u64::from),
            replica: u16::try_from(replica).map_err(|_| format!("{replica} is no replica"))?,
            t_start_ns: self.time(row, "t_start")?,
            t_end_ns: self.time(row, "t_end")?.ok_or("has no t_end")?,
            active_sequences: needed("active_sequences", self.count(row, "active_sequences")?)?,
            new_tokens: needed("new_tokens", self.count(row, "new_tokens")?)?,
            history_tokens: self.read(row, "history_tokens", |_, cell| whole(cell.number()?))?,
            max_sequence_tokens: self.count(row, "max_sequence_tokens")?,
            prefill_tokens: self.count(row, "prefill_tokens")?.unwrap_or(0),
            iterations: self.count(row, "iterations")?.unwrap_or(1),
            active_experts: self
                .read(row, "active_experts", |_, cell| cell.number())?
                .map(|value| value as f32),
            graph_mode: match graph_mode {
                Some(mode) => {
                    Some(named(Some(&mode), GraphMode::ALL, GraphMode::name, GraphMode::Graph)?)
                }
                None => None,
            },
        })
    }
}

/// The value of that name, or the default where there is none.
fn named<T: Copy>(
    text: Option<&str>,
    all: &[T],
    name: impl Fn(T) -> &'static str,
    default: T,
) -> Result<T, String> {
    let Some(text) = text else { return Ok(default) };
    all.iter().copied().find(|value| name(*value) == text).ok_or_else(|| {
        let names: Vec<&str> = all.iter().map(|value| name(*value)).collect();
        format!("\"{}\" is none of {}", text.escape_debug(), names.join(", "))
    })
}

/// Imports every input by a declared mapping into `archive`. An input that cannot be read is listed in
/// [`ImportSummary::failed`] and does not stop the others.
///
/// # Errors
/// When the mapping cannot be read.
pub fn import_mapped(
    map: &Path,
    inputs: &[PathBuf],
    archive: &Path,
    options: &ImportOptions,
) -> Result<ImportSummary, TraceError> {
    let mapping = Mapping::read(map)?;
    let mut summary = ImportSummary::default();
    let mut ids = BTreeMap::new();
    for path in inputs {
        let input = Input::new(path).with_progress(options.progress.clone());
        let mut sink = ArchiveSink::new("map", &input, archive, options, &mut ids);
        let result = mapping.read_input(&input, options, &mut sink);
        summary.extend(sink.into_summary());
        if let Err(error) = result {
            summary.fail(&error);
        }
    }
    Ok(summary)
}

#[cfg(test)]
mod tests;
