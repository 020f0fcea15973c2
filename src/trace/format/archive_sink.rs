//! Writes every part of an input as a run of its own.

use std::collections::BTreeMap;
use std::path::Path;

use wattrace_schema::{Hardware, RunKind, RunManifest, TimestampNs};

use super::part::RequestSpan;
use super::{ImportOptions, ImportSummary, Input, Part, Sink, safe_run_id};
use crate::{AccuracyWriteRow, EngineRow, PowerRow, RequestRow, RunWriter, StepRow, TraceError};

/// A sink whose parts become runs of an archive.
pub(super) struct ArchiveSink<'a> {
    format: &'a str,
    input: &'a Input,
    archive: &'a Path,
    options: &'a ImportOptions,
    /// Ids given so far in this import.
    ids: &'a mut BTreeMap<String, u32>,
    open: Option<OpenRun>,
    summary: ImportSummary,
}

struct OpenRun {
    writer: RunWriter,
    run_id: String,
    span: RequestSpan,
}

impl<'a> ArchiveSink<'a> {
    pub(super) fn new(
        format: &'a str,
        input: &'a Input,
        archive: &'a Path,
        options: &'a ImportOptions,
        ids: &'a mut BTreeMap<String, u32>,
    ) -> Self {
        let summary = ImportSummary::default();
        Self { format, input, archive, options, ids, open: None, summary }
    }

    /// What was written. Runs that were finished stay, whatever happened to a later one.
    pub(super) fn into_summary(self) -> ImportSummary {
        self.summary
    }

    fn run(&mut self) -> Result<&mut OpenRun, TraceError> {
        self.open.as_mut().ok_or_else(|| no_part_open(self.format))
    }

    /// The name, with a number where this import gave it before.
    fn unique(&mut self, name: &str) -> String {
        let named = self.options.run_id.as_deref().unwrap_or(name);
        let id = safe_run_id(named);
        let count = self.ids.entry(id.clone()).or_default();
        *count += 1;
        if *count == 1 { id } else { format!("{id}_{count}") }
    }
}

/// Rows outside a part are a mistake of an importer, not of the input.
pub(super) fn no_part_open(format: &str) -> TraceError {
    TraceError::Other(format!("the importer of {format} gave rows without beginning a part"))
}

impl Sink for ArchiveSink<'_> {
    fn begin(&mut self, name: &str) -> Result<(), TraceError> {
        if self.open.is_some() {
            return Err(TraceError::Other(format!(
                "the importer of {} began a part inside another",
                self.format
            )));
        }
        let run_id = self.unique(name);
        let writer = RunWriter::create(self.archive, &run_id)?;
        self.open = Some(OpenRun { writer, run_id, span: RequestSpan::default() });
        Ok(())
    }

    fn power(&mut self, row: PowerRow) -> Result<(), TraceError> {
        self.run()?.writer.power(row)
    }

    fn request(&mut self, row: RequestRow) -> Result<(), TraceError> {
        let run = self.run()?;
        run.span.add(&row);
        run.writer.request(row)
    }

    fn step(&mut self, row: StepRow) -> Result<(), TraceError> {
        self.run()?.writer.step(row)
    }

    fn engine(&mut self, row: EngineRow) -> Result<(), TraceError> {
        self.run()?.writer.engine(row)
    }

    fn accuracy(&mut self, row: AccuracyWriteRow) -> Result<(), TraceError> {
        self.run()?.writer.accuracy(row)
    }

    fn end(&mut self, part: Part) -> Result<(), TraceError> {
        let run = self.open.take().ok_or_else(|| no_part_open(self.format))?;
        let path = self.input.path();
        let source = part.imported_input(None, self.format, self.input)?;
        let mut notes = part.all_notes(path);
        let uncertainty_ns = part.clock.uncertainty_ns;
        let mut manifest = manifest(&run.run_id, part, &mut notes);
        for source in &mut manifest.power_sources {
            source.clock_offset_uncertainty_ns =
                source.clock_offset_uncertainty_ns.or(uncertainty_ns);
        }
        window(&mut manifest, run.span, self.options, &mut notes)?;
        let digest = source.sha256.clone().unwrap_or_default();
        let file = source.file.clone();
        manifest.provenance = super::wattrace_provenance(self.options);
        manifest.provenance.imported_from =
            Some(format!("{}: {file} (SHA-256 {digest})", self.format));
        manifest.provenance.inputs = vec![source];
        manifest.provenance.notes.clone_from(&notes);
        let folder = run.writer.finish(manifest)?;
        let name = run.run_id;
        self.summary.notes.extend(notes.into_iter().map(|note| format!("{name}: {note}")));
        self.summary.runs.push(folder);
        Ok(())
    }
}

/// A manifest of what a part knows, without provenance.
pub(super) fn manifest(run_id: &str, part: Part, notes: &mut Vec<String>) -> RunManifest {
    let unknown = || "unknown".to_owned();
    let mut model = part.model;
    if model.name.trim().is_empty() {
        model.name = unknown();
        notes.push("the model is not named: model.name is \"unknown\"".into());
    }
    if part.accelerators.is_none() {
        notes.push(
            "the number of accelerators is not known: hardware.count, 1, stands for what was measured"
                .into(),
        );
    }
    let hardware = Hardware {
        accelerator: part.accelerator.unwrap_or_else(unknown),
        count: part.accelerators.filter(|count| *count > 0).unwrap_or(1),
        node: part.node,
        driver: part.driver,
        ..Hardware::default()
    };
    let kind = part.kind.unwrap_or(RunKind::Serving);
    let mut manifest = RunManifest::new(run_id.to_owned(), kind, model, hardware);
    manifest.configuration = part.configuration;
    manifest.engine = part.engine;
    manifest.workload = part.workload;
    manifest.stages = part.stages;
    manifest.power_sources = part.power_sources;
    manifest.claims = part.claims;
    manifest
}

/// Fills the formal window: the stamps that the caller names, then those of the inputs, then the span of
/// the requests.
pub(super) fn window(
    manifest: &mut RunManifest,
    span: RequestSpan,
    options: &ImportOptions,
    notes: &mut Vec<String>,
) -> Result<(), TraceError> {
    for (stage, time) in &options.stages {
        *stage_slot(&mut manifest.stages, stage)? = Some(*time);
    }
    let stages = &mut manifest.stages;
    if let (None, None, Some((start, end))) =
        (stages.formal_start, stages.formal_end, span.window())
    {
        stages.formal_start = Some(TimestampNs::from_nanos(start));
        stages.formal_end = Some(TimestampNs::from_nanos(end));
        notes.push(
            "no formal window is stated: it is the first sending to the last end of formal requests"
                .into(),
        );
    }
    Ok(())
}

/// The stamp of that name.
fn stage_slot<'a>(
    stages: &'a mut wattrace_schema::Stages,
    name: &str,
) -> Result<&'a mut Option<TimestampNs>, TraceError> {
    let names = stages.in_order().map(|(name, _)| name);
    let slot = match name {
        "idle_start" => &mut stages.idle_start,
        "idle_end" => &mut stages.idle_end,
        "launch" => &mut stages.launch,
        "ready" => &mut stages.ready,
        "warmup_start" => &mut stages.warmup_start,
        "formal_start" => &mut stages.formal_start,
        "formal_end" => &mut stages.formal_end,
        "process_exit" => &mut stages.process_exit,
        "memory_released" => &mut stages.memory_released,
        "monitor_end" => &mut stages.monitor_end,
        "decode_start" => &mut stages.decode_start,
        "decode_end" => &mut stages.decode_end,
        _ => {
            return Err(TraceError::Other(format!(
                "\"{name}\" is no stage; expected one of {}",
                names.join(", ")
            )));
        }
    };
    Ok(slot)
}
