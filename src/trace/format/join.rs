//! Joins several inputs into one run, each keeping its clock.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use wattrace_schema::{ImportedInput, PowerSource, Scope, TimestampNs};

use super::archive_sink::{manifest, no_part_open, window};
use super::part::RequestSpan;
use super::{
    Format, ImportOptions, ImportSummary, Input, Mapping, Part, Reader, Sink, quantity, require,
    safe_run_id,
};
use crate::geometry::{ConfigOptions, read_config};
use crate::{AccuracyWriteRow, EngineRow, PowerRow, RequestRow, RunWriter, StepRow, TraceError};

/// What an input gives to a joined run. Rows of another kind are left out, and a note counts them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Role {
    /// Requests.
    Requests,
    /// Steps and engine metrics.
    Steps,
    /// Power.
    Power,
}

impl Role {
    /// Every role.
    pub const ALL: &'static [Self] = &[Self::Requests, Self::Steps, Self::Power];

    /// The name in `run.json` and on the command line.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Requests => "requests",
            Self::Steps => "steps",
            Self::Power => "power",
        }
    }
}

/// A difference of clocks that the caller knows: add `nanos` to an input's times to get the run's clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClockOffset {
    /// The inputs that it is about.
    pub role: Role,
    /// What is added.
    pub nanos: i64,
    /// How well that is known.
    pub uncertainty_ns: Option<u64>,
}

impl ClockOffset {
    /// Parses `ROLE=DURATION[±DURATION]`, such as `power=-1.5s±20ms`.
    ///
    /// # Errors
    /// What is wrong, and what would be right.
    pub fn parse(text: &str) -> Result<Self, String> {
        let expected = "expected an input and a duration, such as power=-1.5s±20ms";
        let (role, rest) = text.split_once('=').ok_or(expected)?;
        let role = Role::ALL.iter().find(|known| known.name() == role.trim());
        let role = *role.ok_or_else(|| format!("\"{text}\" names no input; {expected}"))?;
        let (offset, uncertainty) = match rest.split_once('±').or_else(|| rest.split_once("+-")) {
            Some((offset, uncertainty)) => (offset, Some(uncertainty)),
            None => (rest, None),
        };
        let (value, unit) = quantity::split_unit(offset)?;
        let uncertainty_ns = uncertainty
            .map(|text| {
                let (value, unit) = quantity::split_unit(text)?;
                quantity::duration_ns(value, unit)
            })
            .transpose()?;
        Ok(Self { role, nanos: quantity::nanos(value, unit)?, uncertainty_ns })
    }
}

/// One input of a join.
#[derive(Debug, Clone)]
pub struct JoinInput {
    /// What it gives.
    pub role: Role,
    /// Name of its format; told by content where none is named.
    pub format: Option<String>,
    /// The file.
    pub path: PathBuf,
}

impl JoinInput {
    /// Parses `[FORMAT:]FILE` or `map=MAP.toml:FILE`. What stands before the first colon is a format only
    /// if there is one of that name.
    #[must_use]
    pub fn parse(role: Role, text: &str) -> Self {
        let is_format = |name: &str| super::find(name).is_some() || name.starts_with(MAP_PREFIX);
        let (format, path) = match text.split_once(':') {
            Some((name, path)) if is_format(name) => (Some(name.to_owned()), path),
            _ => (None, text),
        };
        Self { role, format, path: path.into() }
    }

    fn source(&self) -> Result<Source, TraceError> {
        if let Some(map) = self.format.as_deref().and_then(|name| name.strip_prefix(MAP_PREFIX)) {
            return Mapping::read(Path::new(map)).map(|mapping| Source::Map(Box::new(mapping)));
        }
        let format = self.format()?;
        match format.reader {
            Reader::Parts { read, .. } => Ok(Source::Format { name: format.name, read }),
            Reader::Runs { .. } => Err(TraceError::Other(format!(
                "{} finds its runs in folders and cannot be joined; import it on its own",
                format.name
            ))),
        }
    }

    fn format(&self) -> Result<&'static Format, TraceError> {
        if let Some(name) = &self.format {
            return require(name);
        }
        let role = self.role.name();
        let path = self.path.display();
        let mut found = super::detect(&self.path);
        found.retain(|found| matches!(found.format.reader, Reader::Parts { .. }));
        match found.as_slice() {
            [one] => Ok(one.format),
            [] => Err(TraceError::Other(format!(
                "\"{path}\" looks like no format that can be joined; name one, such as --{role} FORMAT:{path}"
            ))),
            several => {
                let names: Vec<&str> = several.iter().map(|found| found.format.name).collect();
                Err(TraceError::Other(format!(
                    "\"{path}\" looks like {}; name one, such as --{role} {}:{path}",
                    names.join(" and like "),
                    names[0]
                )))
            }
        }
    }
}

/// Before the mapping of an input without a format of its own.
const MAP_PREFIX: &str = "map=";

/// What reads an input.
enum Source {
    Format {
        name: &'static str,
        read: fn(&Input, &ImportOptions, &mut dyn Sink) -> Result<(), TraceError>,
    },
    Map(Box<Mapping>),
}

impl Source {
    const fn name(&self) -> &'static str {
        match self {
            Self::Format { name, .. } => name,
            Self::Map(_) => "map",
        }
    }

    fn read(
        &self,
        input: &Input,
        options: &ImportOptions,
        sink: &mut dyn Sink,
    ) -> Result<(), TraceError> {
        match self {
            Self::Format { read, .. } => read(input, options, sink),
            Self::Map(mapping) => mapping.read_input(input, options, sink),
        }
    }
}

/// What is joined besides the options of every import.
#[derive(Debug, Clone, Default)]
pub struct Join {
    /// The inputs.
    pub inputs: Vec<JoinInput>,
    /// A Hugging Face `config.json` that gives the model's geometry.
    pub model_config: Option<PathBuf>,
    /// Known differences of clocks.
    pub offsets: Vec<ClockOffset>,
}

/// Joins inputs into the one run `options.run_id` below `archive`.
///
/// # Errors
/// An input cannot be read or holds more than one run, two inputs measure the same, or the run exists.
pub fn join(
    join: &Join,
    archive: &Path,
    options: &ImportOptions,
) -> Result<ImportSummary, TraceError> {
    if join.inputs.is_empty() {
        return Err(TraceError::Other(
            "a join needs inputs; expected --power, --requests or --steps".into(),
        ));
    }
    let named = options.run_id.as_deref().ok_or_else(|| {
        TraceError::Other("a join needs a name for its run; expected --run-id".into())
    })?;
    let run_id = safe_run_id(named);
    let mut inputs: Vec<&JoinInput> = join.inputs.iter().collect();
    // Requests say best which model and workload it was, and power least.
    inputs.sort_by_key(|input| input.role);
    let geometry = join
        .model_config
        .as_deref()
        .map(|config| read_config(config, ConfigOptions::default()))
        .transpose()?;

    let mut sink = JoinSink {
        writer: RunWriter::create(archive, &run_id)?,
        span: RequestSpan::default(),
        merged: Part::default(),
        sources: BTreeMap::new(),
        seen: Vec::new(),
        current: None,
    };
    for input in inputs {
        let source = input.source()?;
        let opened = Input::new(&input.path).with_progress(options.progress.clone());
        let offset = join.offsets.iter().find(|offset| offset.role == input.role).copied();
        sink.current = Some(Current::new(input.role, source.name(), opened.clone(), offset));
        source.read(&opened, options, &mut sink)?;
    }
    sink.refuse_overlaps()?;
    sink.finish(&run_id, geometry, join.model_config.as_deref(), options)
}

/// The input that is being read.
struct Current {
    role: Role,
    format: &'static str,
    input: Input,
    offset: Option<ClockOffset>,
    parts: u32,
    /// Rows that its role takes, and those that it does not.
    taken: u64,
    left_out: u64,
    /// Names of its sources in the run.
    renamed: BTreeMap<String, String>,
}

impl Current {
    fn new(role: Role, format: &'static str, input: Input, offset: Option<ClockOffset>) -> Self {
        Self {
            role,
            format,
            input,
            offset,
            parts: 0,
            taken: 0,
            left_out: 0,
            renamed: BTreeMap::new(),
        }
    }
}

/// A power source of the run: which input it is from and what it measures.
struct JoinedSource {
    file: String,
    /// Number of its input among those joined, since two inputs may have one name.
    input: usize,
    devices: BTreeSet<String>,
    scope: Option<Scope>,
}

/// Takes the rows of every input into one run.
struct JoinSink {
    writer: RunWriter,
    span: RequestSpan,
    merged: Part,
    sources: BTreeMap<String, JoinedSource>,
    seen: Vec<ImportedInput>,
    current: Option<Current>,
}

impl JoinSink {
    fn current(&mut self) -> Result<&mut Current, TraceError> {
        self.current.as_mut().ok_or_else(|| no_part_open("a join"))
    }

    /// Whether rows of a kind are taken from the input at hand; counts those that are not.
    fn takes(&mut self, role: Role) -> Result<bool, TraceError> {
        let current = self.current()?;
        let takes = current.role == role;
        current.taken += u64::from(takes);
        current.left_out += u64::from(!takes);
        Ok(takes)
    }

    /// What is added to times of requests and steps; those of power keep theirs, and `run.json` has the
    /// offset.
    fn shift(&mut self, times: &mut [&mut Option<i64>]) -> Result<(), TraceError> {
        let Some(offset) = self.current()?.offset else { return Ok(()) };
        for nanos in times.iter_mut().filter_map(|time| time.as_mut()) {
            *nanos = nanos.checked_add(offset.nanos).ok_or_else(|| {
                TraceError::Other(format!("time {nanos} ns cannot be moved by {} ns", offset.nanos))
            })?;
        }
        Ok(())
    }

    /// The name of a source in the run: its own, with a number where another input has it already.
    fn source_name(&mut self, source: &str) -> Result<String, TraceError> {
        let current = self.current.as_mut().ok_or_else(|| no_part_open("a join"))?;
        if let Some(name) = current.renamed.get(source) {
            return Ok(name.clone());
        }
        let numbered = |number: u32| format!("{source}_{number}");
        let mut name = source.to_owned();
        let mut number = 2;
        while self.sources.contains_key(&name) {
            name = numbered(number);
            number += 1;
        }
        current.renamed.insert(source.to_owned(), name.clone());
        let file = current.input.file_name();
        let input = self.seen.len();
        self.sources.insert(
            name.clone(),
            JoinedSource { file, input, devices: BTreeSet::new(), scope: None },
        );
        Ok(name)
    }

    /// Two inputs that measure one device in one scope would count its energy twice. Two sources of one
    /// input are readings that the tool logged beside each other, listed as its importer prefers them:
    /// both are kept, as by an import of its own, and a note says that they are never added.
    fn refuse_overlaps(&mut self) -> Result<(), TraceError> {
        let sources: Vec<(&String, &JoinedSource)> = self.sources.iter().collect();
        let mut notes = Vec::new();
        for (place, (first_id, first)) in sources.iter().enumerate() {
            for (second_id, second) in &sources[place + 1..] {
                let (Some(first_scope), Some(second_scope)) = (first.scope, second.scope) else {
                    continue;
                };
                let shared = first.devices.intersection(&second.devices).next();
                let one_input = first.input == second.input;
                if let (true, true, Some(_)) = (one_input, first_scope == second_scope, shared) {
                    notes.push(format!(
                        "\"{first_id}\" and \"{second_id}\" of {} measure the same devices in scope {}: they \
                         are kept apart and never added",
                        first.file,
                        first_scope.name()
                    ));
                    continue;
                }
                if let (true, Some(device)) = (first_scope == second_scope, shared) {
                    return Err(TraceError::Other(format!(
                        "\"{device}\" is measured by \"{first_id}\" ({}) and by \"{second_id}\" ({}), both of \
                         scope {}; expected one of them, since they cannot be added",
                        first.file,
                        second.file,
                        first_scope.name()
                    )));
                }
                if let Some((outer, inner)) = nested(first_scope, second_scope) {
                    notes.push(format!(
                        "\"{first_id}\" and \"{second_id}\" overlap, since {} contains {}: they are kept apart \
                         and never added",
                        outer.name(),
                        inner.name()
                    ));
                }
            }
        }
        self.merged.notes.extend(notes);
        Ok(())
    }

    fn finish(
        mut self,
        run_id: &str,
        geometry: Option<crate::geometry::Geometry>,
        config: Option<&Path>,
        options: &ImportOptions,
    ) -> Result<ImportSummary, TraceError> {
        let mut merged = std::mem::take(&mut self.merged);
        let mut notes = std::mem::take(&mut merged.notes);
        if let (Some(geometry), Some(config)) = (geometry, config) {
            let name = std::mem::take(&mut merged.model.name);
            let dtype = merged.model.dtype.take();
            merged.model = geometry.model;
            if !name.is_empty() {
                merged.model.name = name;
            }
            merged.model.dtype = merged.model.dtype.or(dtype);
            notes.push(format!("geometry from \"{}\"", config.display()));
            notes.extend(geometry.notes);
        }
        let mut manifest = manifest(run_id, merged, &mut notes);
        window(&mut manifest, self.span, options, &mut notes)?;
        let sources: Vec<String> = self
            .seen
            .iter()
            .map(|input| {
                let digest = input.sha256.as_deref().unwrap_or_default();
                format!("{}: {} (SHA-256 {digest})", input.format, input.file)
            })
            .collect();
        manifest.provenance = super::wattrace_provenance(options);
        manifest.provenance.imported_from = Some(sources.join("; "));
        manifest.provenance.inputs = self.seen;
        manifest.provenance.notes.clone_from(&notes);
        let folder = self.writer.finish(manifest)?;
        Ok(ImportSummary { runs: vec![folder], notes, failed: Vec::new() })
    }
}

/// The outer and the inner of two scopes of which one contains the other.
const fn nested(a: Scope, b: Scope) -> Option<(Scope, Scope)> {
    match (a, b) {
        (Scope::Pdu, Scope::Pdu) | (Scope::Node, Scope::Node) => None,
        (Scope::Pdu, inner) | (inner, Scope::Pdu) => Some((Scope::Pdu, inner)),
        (Scope::Node, inner) | (inner, Scope::Node) => Some((Scope::Node, inner)),
        (Scope::GpuModule, Scope::GpuBoard) | (Scope::GpuBoard, Scope::GpuModule) => {
            Some((Scope::GpuModule, Scope::GpuBoard))
        }
        _ => None,
    }
}

impl Sink for JoinSink {
    fn begin(&mut self, _: &str) -> Result<(), TraceError> {
        let current = self.current()?;
        current.parts += 1;
        if current.parts > 1 {
            return Err(current.input.error(
                None,
                "holds more than one run; expected one (import it on its own, or keep the run that is meant)",
            ));
        }
        Ok(())
    }

    fn power(&mut self, mut row: PowerRow) -> Result<(), TraceError> {
        if !self.takes(Role::Power)? {
            return Ok(());
        }
        row.source = self.source_name(&row.source)?;
        if let Some(source) = self.sources.get_mut(&row.source)
            && !source.devices.contains(&row.device)
        {
            source.devices.insert(row.device.clone());
        }
        self.writer.power(row)
    }

    fn request(&mut self, mut row: RequestRow) -> Result<(), TraceError> {
        if !self.takes(Role::Requests)? {
            return Ok(());
        }
        self.shift(&mut [&mut row.t_send_ns, &mut row.t_first_token_ns, &mut row.t_end_ns])?;
        self.span.add(&row);
        self.writer.request(row)
    }

    fn step(&mut self, mut row: StepRow) -> Result<(), TraceError> {
        if !self.takes(Role::Steps)? {
            return Ok(());
        }
        let mut end_ns = Some(row.t_end_ns);
        self.shift(&mut [&mut row.t_start_ns, &mut end_ns])?;
        row.t_end_ns = end_ns.unwrap_or(row.t_end_ns);
        self.writer.step(row)
    }

    fn engine(&mut self, mut row: EngineRow) -> Result<(), TraceError> {
        if !self.takes(Role::Steps)? {
            return Ok(());
        }
        let mut t_ns = Some(row.t_ns);
        self.shift(&mut [&mut t_ns])?;
        row.t_ns = t_ns.unwrap_or(row.t_ns);
        self.writer.engine(row)
    }

    fn accuracy(&mut self, row: AccuracyWriteRow) -> Result<(), TraceError> {
        if self.takes(Role::Requests)? { self.writer.accuracy(row) } else { Ok(()) }
    }

    fn end(&mut self, mut part: Part) -> Result<(), TraceError> {
        let sources = std::mem::take(&mut part.power_sources);
        for mut source in sources {
            if !self.current()?.renamed.contains_key(&source.id) {
                continue;
            }
            source.id = self.source_name(&source.id)?;
            self.place_source(&mut source, &part);
            self.merged.power_sources.push(source);
        }
        let current = self.current.as_ref().ok_or_else(|| no_part_open("a join"))?;
        let (role, file) = (current.role.name(), current.input.file_name());
        let offset = current.offset;
        if current.taken == 0 && current.left_out > 0 {
            let message =
                format!("holds no {role}; expected an input of --{role} ({})", current.format);
            return Err(current.input.error(None, message));
        }
        let mut notes = part.all_notes(current.input.path());
        if current.left_out > 0 {
            notes.push(format!("{} rows were left out: they are no {role}", current.left_out));
        }
        if let Some(offset) = offset {
            part.clock.offset_ns =
                Some(part.clock.offset_ns.unwrap_or(0).saturating_add(offset.nanos));
            part.clock.uncertainty_ns = sum(part.clock.uncertainty_ns, offset.uncertainty_ns);
            for stamp in stamps(&mut part.stages) {
                *stamp = stamp
                    .map(|time| TimestampNs::from_nanos(time.nanos().saturating_add(offset.nanos)));
            }
        }
        let entry = part.imported_input(Some(role), current.format, &current.input)?;
        self.seen.push(entry);
        notes.extend(merge(&mut self.merged, part));
        self.merged.notes.extend(notes.into_iter().map(|note| format!("{role} ({file}): {note}")));
        Ok(())
    }
}

impl JoinSink {
    /// Gives a source the clock of its input, and remembers what it measures.
    fn place_source(&mut self, source: &mut PowerSource, part: &Part) {
        let offset = self.current.as_ref().and_then(|current| current.offset);
        if let Some(offset) = offset {
            let own = source.clock_offset_ns.unwrap_or(0);
            source.clock_offset_ns = Some(own.saturating_add(offset.nanos));
        }
        source.clock_offset_uncertainty_ns = sum(
            source.clock_offset_uncertainty_ns.or(part.clock.uncertainty_ns),
            offset.and_then(|offset| offset.uncertainty_ns),
        );
        if let Some(joined) = self.sources.get_mut(&source.id) {
            joined.scope = Some(source.scope);
        }
    }
}

/// Uncertainties that add up; what is not known is left out of the sum.
fn sum(first: Option<u64>, second: Option<u64>) -> Option<u64> {
    match (first, second) {
        (Some(first), Some(second)) => Some(first.saturating_add(second)),
        (one, other) => one.or(other),
    }
}

/// Stamps of a server's log or a benchmark.
fn stamps(stages: &mut wattrace_schema::Stages) -> [&mut Option<TimestampNs>; 12] {
    [
        &mut stages.idle_start,
        &mut stages.idle_end,
        &mut stages.launch,
        &mut stages.ready,
        &mut stages.warmup_start,
        &mut stages.formal_start,
        &mut stages.formal_end,
        &mut stages.process_exit,
        &mut stages.memory_released,
        &mut stages.monitor_end,
        &mut stages.decode_start,
        &mut stages.decode_end,
    ]
}

/// Fills what is not known yet. Gives a note where two inputs name different models or accelerators.
fn merge(merged: &mut Part, part: Part) -> Vec<String> {
    let mut notes = Vec::new();
    let mut differs = |what: &str, known: &str, other: &str| {
        if !known.is_empty() && !other.is_empty() && known != other {
            notes.push(format!("{what} is \"{other}\" here and \"{known}\" before, which is kept"));
        }
    };
    differs("the model", &merged.model.name, &part.model.name);
    let name = |name: &Option<String>| name.clone().unwrap_or_default();
    differs("the accelerator", &name(&merged.accelerator), &name(&part.accelerator));
    differs("the engine", &name(&merged.engine.name), &name(&part.engine.name));

    if merged.model.name.is_empty() {
        merged.model.name = part.model.name;
    }
    fill(&mut merged.model.dtype, part.model.dtype);
    fill(&mut merged.configuration, part.configuration);
    fill(&mut merged.accelerator, part.accelerator);
    fill(&mut merged.accelerators, part.accelerators);
    fill(&mut merged.node, part.node);
    fill(&mut merged.driver, part.driver);
    fill(&mut merged.engine.name, part.engine.name);
    fill(&mut merged.engine.version, part.engine.version);
    fill(&mut merged.engine.flags, part.engine.flags);
    fill(&mut merged.engine.tensor_parallel, part.engine.tensor_parallel);
    fill(&mut merged.engine.replicas, part.engine.replicas);
    fill(&mut merged.workload.task, part.workload.task);
    fill(&mut merged.workload.dataset, part.workload.dataset);
    fill(&mut merged.workload.trace, part.workload.trace);
    fill(&mut merged.workload.request_rate, part.workload.request_rate);
    let mut stages = part.stages;
    for (known, new) in stamps(&mut merged.stages).into_iter().zip(stamps(&mut stages)) {
        fill(known, *new);
    }
    merged.claims.extend(part.claims);
    notes
}

fn fill<T>(known: &mut Option<T>, new: Option<T>) {
    if known.is_none() {
        *known = new;
    }
}

#[cfg(test)]
mod tests;
