//! InferenceX: `gpu_metrics.csv` (by nvidia-smi or amd-smi) with what lies beside it, and the multi-node
//! packages of srt-slurm (`power/samples.csv`, `manifest.json`, `windows/*.json`).
//!
//! The benchmark's window comes from `power_validation_*.json` or from the package's windows. With several
//! windows each is a run of its own, with the samples from a minute before it to a minute after.

mod package;
mod sidecar;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use wattrace_schema::{Claim, Interval, RunManifest, TimestampNs, Unit};

use super::amd_smi::AmdSmi;
use super::folders::{self, Folder};
use super::nvidia_smi::NvidiaSmi;
use super::power_log::{self, PowerLog, Rows, Settings};
use super::{
    Format, ImportOptions, ImportSummary, Input, Part, Reader, archive_sink, file_name, safe_run_id,
};
use crate::{RunWriter, TraceError};
use package::Package;
use sidecar::{Accumulators, Identity, Validation};

const NAME: &str = "inferencex";

pub(super) const FORMAT: Format = Format {
    name: NAME,
    title: "InferenceX gpu_metrics.csv with its sidecars, or a power package of srt-slurm",
    recovers: "board power, the benchmark's window, the energy that was published with it (claims)",
    lacks: "requests (import the benchmark's own result), start-up and release, model",
    reader: Reader::Runs { detect, import },
};

/// Samples kept on either side of a window where a file holds several windows.
const MARGIN_NS: i64 = 60_000_000_000;

/// Looks for a package, or for a log of boards that has a sidecar beside it.
fn detect(input: &Path) -> Option<String> {
    if input.is_file() {
        let head = Input::new(input).head();
        if package::is_samples(head.lines().next()?) {
            return Some("its header is that of a power package's samples.csv".into());
        }
        return sidecar::is_validation(head.text())
            .then(|| "it has \"power_valid\" and \"benchmark_window\"".into());
    }
    let sites = sites(input).ok()?.0;
    sites.first().map(|site| match &site.kind {
        Kind::Package(_) => format!("\"{}\" is a power package's samples.csv", site.log.display()),
        Kind::Node(_) => format!("\"{}\" has sidecars of InferenceX beside it", site.log.display()),
    })
}

/// A log of power with what belongs to it.
struct Site {
    log: PathBuf,
    kind: Kind,
}

enum Kind {
    /// One node, read by nvidia-smi or amd-smi.
    Node(Sidecars),
    Package(Package),
}

/// Files beside the log of one node.
#[derive(Default)]
struct Sidecars {
    is_amd: bool,
    validations: Vec<PathBuf>,
    identity: Option<PathBuf>,
    accumulators: Option<(PathBuf, PathBuf)>,
}

impl Sidecars {
    fn is_empty(&self) -> bool {
        self.validations.is_empty() && self.identity.is_none() && self.accumulators.is_none()
    }
}

/// Every log below `input`, and notes on what was passed over.
fn sites(input: &Path) -> Result<(Vec<Site>, Vec<String>), TraceError> {
    std::fs::metadata(input).map_err(TraceError::io("read", input))?;
    let (root, only) = match input.is_dir() {
        true => (input, None),
        false => (input.parent().unwrap_or(Path::new("")), Some(file_name(input))),
    };
    let (mut sites, mut notes) = (Vec::new(), Vec::new());
    let folders = match only {
        None => folders::walk(root)?,
        Some(_) => folders::walk(root)?.into_iter().take(1).collect(),
    };
    for folder in &folders {
        sites_in(folder, only.as_deref(), &mut sites, &mut notes);
    }
    Ok((sites, notes))
}

fn sites_in(folder: &Folder, only: Option<&str>, sites: &mut Vec<Site>, notes: &mut Vec<String>) {
    let mut sidecars = Sidecars::default();
    let mut logs: Vec<(PathBuf, bool)> = Vec::new();
    let (mut starts, mut ends) = (Vec::new(), Vec::new());
    for name in &folder.files {
        let path = folder.path.join(name);
        if name.ends_with("_energy_start.csv") {
            starts.push(path);
        } else if name.ends_with("_energy_end.csv") {
            ends.push(path);
        } else if name.ends_with(".csv") || name.ends_with(".csv.gz") || name.ends_with(".csv.zst")
        {
            let head = Input::new(&path).head();
            let first = head.lines().next().unwrap_or_default();
            if package::is_samples(first) {
                sites.push(Site { kind: Kind::Package(Package::beside(&path)), log: path });
            } else if super::amd_smi::FORMAT.detect(&path).is_some() {
                logs.push((path, true));
            } else if super::nvidia_smi::FORMAT.detect(&path).is_some() {
                logs.push((path, false));
            }
        } else if name.ends_with(".json") {
            let head = Input::new(&path).head();
            if sidecar::is_validation(head.text()) {
                sidecars.validations.push(path);
            } else if sidecar::is_identity(head.text()) {
                sidecars.identity = Some(path);
            }
        }
    }
    if let (Some(start), Some(end)) = (starts.first(), ends.first()) {
        sidecars.accumulators = Some((start.clone(), end.clone()));
    }
    // What lies beside a log of its own belongs to another format, unless it was named.
    match logs.len() {
        0 => {}
        1 if only.is_some() || !sidecars.is_empty() => {
            let (log, is_amd) = logs.remove(0);
            sidecars.is_amd = is_amd;
            sites.push(Site { log, kind: Kind::Node(sidecars) });
        }
        1 => {}
        _ if sidecars.is_empty() => {}
        count => notes.push(format!(
            "\"{}\" passed over: {count} logs of boards lie there, and the sidecars do not tell whose they \
             are",
            folder.path.display()
        )),
    }
}

fn import(
    input: &Path,
    archive: &Path,
    options: &ImportOptions,
) -> Result<ImportSummary, TraceError> {
    let (sites, notes) = sites(input)?;
    if sites.is_empty() {
        return Err(TraceError::Format {
            path: input.to_owned(),
            line: None,
            message:
                "holds no gpu_metrics.csv with its sidecars and no samples.csv of a power package"
                    .into(),
        });
    }
    let mut summary = ImportSummary { notes, ..ImportSummary::default() };
    for site in &sites {
        if let Err(error) = site.import(archive, options, &mut summary) {
            summary.fail(&error);
        }
    }
    Ok(summary)
}

/// A window of a benchmark and what was said of it.
#[derive(Debug, Clone, Default)]
struct Window {
    name: String,
    interval: Option<Interval>,
    claims: Vec<Claim>,
    notes: Vec<String>,
    file: Option<PathBuf>,
}

impl Site {
    fn import(
        &self,
        archive: &Path,
        options: &ImportOptions,
        summary: &mut ImportSummary,
    ) -> Result<(), TraceError> {
        let mut shared = Part::default();
        let mut files = vec![self.log.clone()];
        let mut windows = match &self.kind {
            Kind::Package(package) => package.windows(&mut shared, &mut files, &self.log)?,
            Kind::Node(sidecars) => node_windows(sidecars, &mut shared, &mut files, options)?,
        };
        if windows.is_empty() {
            shared
                .notes
                .push("no window of a benchmark is stated, so the run has no formal window".into());
            windows.push(Window::default());
        }
        let margin = (windows.len() > 1).then_some(MARGIN_NS);
        for window in windows {
            match self.import_window(&window, margin, &shared, &files, archive, options) {
                Ok((folder, notes)) => {
                    let name = file_name(&folder);
                    summary.notes.extend(notes.into_iter().map(|note| format!("{name}: {note}")));
                    summary.runs.push(folder);
                }
                Err(error) => summary.fail(&error),
            }
        }
        Ok(())
    }

    fn log(&self, settings: Settings) -> Box<dyn PowerLog> {
        match &self.kind {
            Kind::Package(_) => Box::new(package::Samples::new()),
            Kind::Node(sidecars) if sidecars.is_amd => Box::new(AmdSmi::new(settings)),
            Kind::Node(_) => Box::new(NvidiaSmi::new(settings)),
        }
    }

    fn run_id(&self, window: &Window) -> String {
        let mut folder = self.log.parent().unwrap_or(Path::new(""));
        // A package lies in a folder of a fixed name.
        if matches!(self.kind, Kind::Package(_)) && file_name(folder) == "power" {
            folder = folder.parent().unwrap_or(folder);
        }
        let absolute = std::path::absolute(folder).unwrap_or_else(|_| folder.to_owned());
        let id = match window.name.as_str() {
            "" => file_name(&absolute),
            name => format!("{}_{name}", file_name(&absolute)),
        };
        safe_run_id(&id)
    }

    fn import_window(
        &self,
        window: &Window,
        margin: Option<i64>,
        shared: &Part,
        files: &[PathBuf],
        archive: &Path,
        options: &ImportOptions,
    ) -> Result<(PathBuf, Vec<String>), TraceError> {
        let input = Input::new(&self.log).with_progress(options.progress.clone());
        let settings = Settings::of(options)?;
        let mut log = self.log(settings.clone());
        let mut rows = Rows::default();
        let run_id = self.run_id(window);
        let mut writer = RunWriter::create(archive, &run_id)?;
        let mut span = Span::default();
        let kept = window.interval.zip(margin).map(|(interval, margin)| {
            interval.start_ns.saturating_sub(margin)..=interval.end_ns.saturating_add(margin)
        });
        let skipped =
            power_log::each_line(&input, options.strict, log.as_mut(), &mut rows, &mut |row| {
                span.add(row.t_ns, window.interval);
                match &kept {
                    Some(kept) if !kept.contains(&row.t_ns) => Ok(()),
                    _ => writer.power(row),
                }
            })?;
        span.check(&input, window.interval)?;
        let mut part = power_log::part(&input, &settings, log.as_ref(), &rows, skipped)?;
        part.notes.extend(shared.notes.iter().chain(&window.notes).cloned());
        part.accelerator = part.accelerator.or_else(|| shared.accelerator.clone());
        part.driver = part.driver.or_else(|| shared.driver.clone());
        part.claims = window.claims.iter().chain(&shared.claims).cloned().collect();
        if let Some(interval) = window.interval {
            part.stages.formal_start = Some(TimestampNs::from_nanos(interval.start_ns));
            part.stages.formal_end = Some(TimestampNs::from_nanos(interval.end_ns));
        }
        let mut notes = part.all_notes(input.path());
        let mut manifest: RunManifest = archive_sink::manifest(&run_id, part, &mut notes);
        let mut inputs: Vec<&Path> = files.iter().map(PathBuf::as_path).collect();
        inputs.extend(window.file.as_deref());
        manifest.provenance = super::provenance(NAME, &inputs, options, notes.clone())?;
        Ok((writer.finish(manifest)?, notes))
    }
}

/// First and last sample, and how many lie in the window.
#[derive(Debug, Default)]
struct Span {
    ends: Option<(i64, i64)>,
    inside: u64,
}

impl Span {
    fn add(&mut self, t_ns: i64, window: Option<Interval>) {
        let (first, last) = self.ends.unwrap_or((t_ns, t_ns));
        self.ends = Some((first.min(t_ns), last.max(t_ns)));
        let inside = window.is_some_and(|window| (window.start_ns..=window.end_ns).contains(&t_ns));
        self.inside += u64::from(inside);
    }

    /// A window without a single sample in it is a conflict of clocks, not a measurement.
    fn check(&self, input: &Input, window: Option<Interval>) -> Result<(), TraceError> {
        let (Some((first, last)), Some(window), 0) = (self.ends, window, self.inside) else {
            return Ok(());
        };
        let time = TimestampNs::from_nanos;
        Err(input.error(
            None,
            format!(
                "has no sample in the benchmark's window, {} to {}: its samples lie from {} to {}; expected \
                 samples in the window, so name the zone of the log (--tz) if its times are local",
                time(window.start_ns),
                time(window.end_ns),
                time(first),
                time(last)
            ),
        ))
    }
}

/// The windows of one node's sidecars.
fn node_windows(
    sidecars: &Sidecars,
    shared: &mut Part,
    files: &mut Vec<PathBuf>,
    options: &ImportOptions,
) -> Result<Vec<Window>, TraceError> {
    if let Some(path) = &sidecars.identity {
        let identity = Identity::read(path)?;
        shared.accelerator = identity.accelerator;
        shared.driver = identity.driver;
        files.push(path.clone());
    }
    if let Some((start, end)) = &sidecars.accumulators {
        match Accumulators::read(start, end, options)? {
            Accumulators::Delta { joules, boards } => {
                shared.claims.push(Claim {
                    metric: "accumulator_delta_j".into(),
                    value: joules,
                    unit: Unit::Joule.symbol().into(),
                    source: format!("{}, {} ({boards} boards)", file_name(start), file_name(end)),
                });
            }
            Accumulators::Broken(note) => shared.notes.push(note),
        }
        files.extend([start.clone(), end.clone()]);
    }
    let mut windows = Vec::new();
    for path in &sidecars.validations {
        windows.push(Validation::read(path)?.window(path));
    }
    let several = windows.len() > 1;
    let mut names = BTreeSet::new();
    for window in &mut windows {
        if !several {
            window.name.clear();
        } else if !names.insert(window.name.clone()) {
            window.name.push_str("_again");
        }
    }
    Ok(windows)
}

/// Reads a small JSON file of a run.
fn read_json<T: serde::de::DeserializeOwned>(path: &Path) -> Result<T, TraceError> {
    let reader = Input::new(path).open()?;
    serde_json::from_reader(reader).map_err(|error| TraceError::Format {
        path: path.to_owned(),
        line: Some(error.line() as u64),
        message: format!("is not the JSON expected: {error}"),
    })
}

/// A window between two times in seconds since 1970, as a double holds them.
fn window_of(path: &Path, start: f64, end: f64) -> Result<Interval, TraceError> {
    let error = |message| TraceError::Format { path: path.to_owned(), line: None, message };
    let nanos = |seconds| super::quantity::epoch_seconds(seconds).map_err(error);
    let interval = Interval::new(nanos(start)?, nanos(end)?);
    if interval.end_ns <= interval.start_ns {
        return Err(error(format!(
            "its window ends at {end}; expected a time after its start, {start}"
        )));
    }
    Ok(interval)
}

#[cfg(test)]
pub(super) mod tests;
