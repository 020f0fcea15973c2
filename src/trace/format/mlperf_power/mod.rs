//! MLPerf Inference power results: PTDaemon's samples of the wall power (`spl.txt`) with the logs of the
//! load generator, as published below `results/SYSTEM/BENCHMARK/SCENARIO/performance/`, or with the
//! path below the scenario flattened into file names.
//!
//! A run has node power and the formal window; there are no requests, and what the summary says of
//! throughput and latencies becomes claims.

mod clock;
mod files;
mod loadgen;
mod session;
mod spl;

use std::path::{Path, PathBuf};

use jiff::tz::TimeZone;
use wattrace_schema::{
    Claim, Hardware, Interpolation, Model, PowerSource, Reading, RunKind, RunManifest, Scope,
    Stages, TimestampNs, Workload,
};

use super::folders;
use super::{Format, ImportOptions, ImportSummary, Reader, file_name, head, local_time};
use crate::{PowerRow, RunWriter, TraceError};
use clock::{Clock, Evidence};
use files::{Place, RunFiles};
use loadgen::{Detail, Summary};
use session::Session;
use spl::{Survey, Tally};

pub(super) const FORMAT: Format = Format {
    name: "mlperf-power",
    title: "MLPerf Inference power results: PTDaemon spl.txt with loadgen logs",
    recovers: "node power, the formal window, claimed token rate and latencies",
    lacks: "requests, accelerator power, start-up and release, model geometry",
    reader: Reader::Runs { detect, import },
};

const NAME: &str = "mlperf-power";
/// Id of the power source, and name of its one device.
const SOURCE: &str = "ptdaemon";
const DEVICE: &str = "node";
/// PTDaemon's interval unless the session names another.
const INTERVAL_MS: f64 = 1000.0;

/// Looks for a file whose first line is a sample of PTDaemon.
fn detect(input: &Path) -> Option<String> {
    let is_spl = |path: &Path| {
        let bytes = head(path, 4096);
        let text = String::from_utf8_lossy(&bytes);
        text.trim_start().lines().next().is_some_and(|line| spl::parse_line(line).is_ok())
    };
    let reason =
        |path: &Path| format!("the first line of \"{}\" is a sample of PTDaemon", path.display());
    if input.is_file() {
        return is_spl(input).then(|| reason(input));
    }
    let folders = folders::walk(input).ok()?;
    let mut files =
        folders.iter().flat_map(|folder| folder.files.iter().map(|file| folder.path.join(file)));
    files.find(|path| is_spl(path)).map(|path| reason(&path))
}

fn import(
    input: &Path,
    archive: &Path,
    options: &ImportOptions,
) -> Result<ImportSummary, TraceError> {
    let (runs, notes) = files::find(input)?;
    if runs.is_empty() {
        return Err(TraceError::Format {
            path: input.to_owned(),
            line: None,
            message: "holds no spl.txt of a measured run; expected the folder of a power result"
                .into(),
        });
    }
    let mut summary = ImportSummary { notes, ..ImportSummary::default() };
    for files in &runs {
        match import_run(files, archive, options) {
            Ok((folder, notes)) => {
                let run = file_name(&folder);
                summary.notes.extend(notes.into_iter().map(|note| format!("{run}: {note}")));
                summary.runs.push(folder);
            }
            Err(error) => summary.fail(&error),
        }
    }
    Ok(summary)
}

/// Imports one run; gives its folder and what was decided.
fn import_run(
    files: &RunFiles,
    archive: &Path,
    options: &ImportOptions,
) -> Result<(PathBuf, Vec<String>), TraceError> {
    let session_files: Vec<&Path> = files.sessions.iter().map(PathBuf::as_path).collect();
    let session = Session::read(&session_files)?;
    let detail = Detail::read(&files.detail, options.strict)?;
    let summary = files.summary.as_deref().map(Summary::read).transpose()?;
    let scenario = scenario(&detail, summary.as_ref())?;
    let place = files.place(&scenario);

    let mut notes = Vec::new();
    notes.extend(detail.skipped.notes(&files.detail));
    let samples = Samples::survey(&files.spl, &session, options)?;
    let clocks = decide_clocks(&session, &samples, &detail, options)?;
    notes.extend(
        [&clocks.samples, &clocks.window]
            .map(|clock| format!("{}; dates are {}", clock.reason, clock.order.name())),
    );
    let claims = summary.as_ref().map(Summary::claims).transpose()?.unwrap_or_default();
    notes.extend(check_claims(&detail, summary.as_ref(), &claims));

    let mut writer = RunWriter::create(archive, &place.id)?;
    let written = samples.write(&clocks.samples, &mut writer, options.strict)?;
    notes.extend(written.notes(&samples, &session));

    let mut manifest = manifest(&place, &scenario, &detail, &mut notes);
    manifest.stages = clocks.stages;
    manifest.power_sources = vec![power_source(&session)];
    manifest.claims = claims;
    notes.push(source_note(&session));
    let mut inputs = vec![files.spl.as_path(), files.detail.as_path()];
    inputs.extend(files.summary.as_deref());
    inputs.extend(session_files);
    manifest.provenance = super::provenance(NAME, &inputs, options, notes.clone())?;
    Ok((writer.finish(manifest)?, notes))
}

/// The scenario, which both logs must agree on.
fn scenario(detail: &Detail, summary: Option<&Summary>) -> Result<String, TraceError> {
    let of_detail = detail.text("effective_scenario");
    let of_summary = summary.and_then(|summary| summary.text("Scenario"));
    match (of_detail, of_summary) {
        (Some(detailed), Some(summarised)) if detailed != summarised => Err(TraceError::Format {
            path: detail.path.clone(),
            line: None,
            message: format!(
                "is of scenario \"{detailed}\", the summary beside it of \"{summarised}\"; expected the \
                 logs of one run"
            ),
        }),
        (Some(scenario), _) | (None, Some(scenario)) => Ok(scenario.to_owned()),
        (None, None) => Err(TraceError::Format {
            path: detail.path.clone(),
            line: None,
            message: "has no \"effective_scenario\"; expected a detail log of the load generator"
                .into(),
        }),
    }
}

/// The samples of one session, looked through once.
struct Samples {
    path: PathBuf,
    mark: Option<String>,
    survey: Survey,
}

impl Samples {
    fn survey(path: &Path, session: &Session, options: &ImportOptions) -> Result<Self, TraceError> {
        let mut mark = session.name.as_ref().map(|name| format!("{name}_testing"));
        let mut survey = Survey::default();
        let tally = spl::each_sample(path, options.strict, &mut mark, |sample, _| {
            survey.add(sample.time);
            Ok(())
        })?;
        if tally.kept > 0 {
            return Ok(Self { path: path.to_owned(), mark, survey });
        }
        let mut message = match &mark {
            Some(mark) => format!("holds no sample of session \"{mark}\""),
            None => "holds no sample of PTDaemon".to_owned(),
        };
        if tally.other + tally.ranging > 0 {
            message += &format!(
                ", but {} of the ranging run and {} of other sessions",
                tally.ranging, tally.other
            );
        }
        for note in tally.skipped.notes(path) {
            message += &format!("; {note}");
        }
        Err(TraceError::Format { path: path.to_owned(), line: None, message })
    }

    /// Writes every sample of the session.
    fn write(
        &self,
        clock: &Clock,
        writer: &mut RunWriter,
        strict: bool,
    ) -> Result<Written, TraceError> {
        let mut written = Written::default();
        let mut mark = self.mark.clone();
        written.tally = spl::each_sample(&self.path, strict, &mut mark, |sample, line| {
            let error =
                |message| TraceError::Format { path: self.path.clone(), line: Some(line), message };
            let local = sample
                .time
                .date_time(clock.order)
                .ok_or_else(|| error(format!("has no date {}", clock.order.name())))?;
            let time = clock.timestamp(local).map_err(error)?;
            let watts = sample.valid_watts();
            written.count(watts, sample.channels_disagree(), line);
            writer.power(PowerRow {
                t_ns: time.nanos(),
                source: SOURCE.into(),
                device: DEVICE.into(),
                power_w: watts,
                ..PowerRow::default()
            })
        })?;
        Ok(written)
    }
}

/// What was written, for the notes.
#[derive(Default)]
struct Written {
    tally: Tally,
    valid: u64,
    sum_w: f64,
    /// Readings that are none: how many, and the line of the first.
    absent: (u64, u64),
    /// Samples whose channels add up to another power, likewise.
    disagree: (u64, u64),
}

impl Written {
    fn count(&mut self, watts: Option<f64>, disagree: bool, line: u64) {
        let first = |counted: &mut (u64, u64)| {
            *counted = (counted.0 + 1, if counted.0 == 0 { line } else { counted.1 });
        };
        match watts {
            Some(watts) => {
                self.valid += 1;
                self.sum_w += watts;
            }
            None => first(&mut self.absent),
        }
        if disagree {
            first(&mut self.disagree);
        }
    }

    fn notes(&self, samples: &Samples, session: &Session) -> Vec<String> {
        let file = file_name(&samples.path);
        let mut notes = Vec::new();
        notes.extend(self.tally.skipped.notes(&samples.path));
        let (absent, line) = self.absent;
        if absent > 0 {
            notes.push(format!(
                "{file}: readings of no valid power (zero, negative or not a number), null: {absent}, the \
                 first on line {line}"
            ));
        }
        let (disagree, line) = self.disagree;
        if disagree > 0 {
            notes.push(format!(
                "{file}: samples whose channels do not add up to the total, which is used: {disagree}, the \
                 first on line {line}"
            ));
        }
        for (count, what) in [
            (self.tally.ranging, "samples of the ranging run, left out"),
            (self.tally.other, "samples of other sessions, left out"),
            (self.tally.unmarked, "samples without a mark, kept"),
        ] {
            if count > 0 {
                notes.push(format!("{file}: {what}: {count}"));
            }
        }
        let backward = samples.survey.readings().first().map_or(0, |reading| reading.backward);
        if backward > 0 {
            notes.push(format!("{file}: samples earlier than the one before: {backward}"));
        }
        notes.extend(self.compare_with_daemon(session, &file));
        notes
    }

    /// PTDaemon itself averages all samples of the session: the file must hold the same ones.
    fn compare_with_daemon(&self, session: &Session, file: &str) -> Option<String> {
        const ROUNDING_W: f64 = 0.01;
        let (mean_w, samples) = session.mean_watts.filter(|_| self.valid > 0)?;
        let own_mean_w = self.sum_w / self.valid as f64;
        let agrees = samples == self.tally.kept && (own_mean_w - mean_w).abs() <= ROUNDING_W;
        (!agrees).then(|| {
            format!(
                "{file} holds {} samples of {own_mean_w:.4} W on average, PTDaemon counted {samples} of \
                 {mean_w:.4} W",
                self.tally.kept
            )
        })
    }
}

/// How the times of the samples and of the window are read, and the window.
struct Clocks {
    samples: Clock,
    window: Clock,
    stages: Stages,
}

fn decide_clocks(
    session: &Session,
    samples: &Samples,
    detail: &Detail,
    options: &ImportOptions,
) -> Result<Clocks, TraceError> {
    let zone: Option<TimeZone> = options
        .time_zone
        .as_deref()
        .map(local_time::parse_zone)
        .transpose()
        .map_err(TraceError::Other)?;
    let evidence = Evidence { session, zone };
    let error = |path: &Path, line| {
        let path = path.to_owned();
        move |message| TraceError::Format { path, line, message }
    };
    let what = format!("the times of {}", file_name(&samples.path));
    let of_samples =
        evidence.decide(&what, &samples.survey.readings()).map_err(error(&samples.path, None))?;

    let (begin, begin_line) = detail.boundary("power_begin")?;
    let (end, end_line) = detail.boundary("power_end")?;
    let mut survey = Survey::default();
    survey.add(begin);
    survey.add(end);
    let of_window = evidence
        .decide("power_begin and power_end", &survey.readings())
        .map_err(error(&detail.path, Some(begin_line)))?;
    let stamp = |time: local_time::LoggedTime, line| {
        let local = time.date_time(of_window.order);
        let local = local.ok_or_else(|| format!("has no date {}", of_window.order.name()));
        local.and_then(|local| of_window.timestamp(local)).map_err(error(&detail.path, Some(line)))
    };
    let (start, end) = (stamp(begin, begin_line)?, stamp(end, end_line)?);
    if end <= start {
        let message =
            format!("\"power_end\" is {end}; expected a time after \"power_begin\", {start}");
        return Err(error(&detail.path, Some(end_line))(message));
    }
    check_overlap(detail, begin_line, (start, end), of_samples.span)?;
    let stages = Stages { formal_start: Some(start), formal_end: Some(end), ..Stages::default() };
    Ok(Clocks { samples: of_samples, window: of_window, stages })
}

/// A window without a single sample in it is a conflict of clocks, not a measurement.
fn check_overlap(
    detail: &Detail,
    line: u64,
    window: (TimestampNs, TimestampNs),
    samples: (TimestampNs, TimestampNs),
) -> Result<(), TraceError> {
    if window.0 <= samples.1 && samples.0 <= window.1 {
        return Ok(());
    }
    Err(TraceError::Format {
        path: detail.path.clone(),
        line: Some(line),
        message: format!(
            "power_begin to power_end is {} to {}, but the samples lie from {} to {}; expected samples in \
             the window, so name the zone of the logs (--tz)",
            window.0, window.1, samples.0, samples.1
        ),
    })
}

/// What the logs say against their own claims.
fn check_claims(detail: &Detail, summary: Option<&Summary>, claims: &[Claim]) -> Vec<String> {
    let Some(summary) = summary else {
        return vec!["there is no mlperf_log_summary.txt, so nothing is claimed".into()];
    };
    let mut notes = Vec::new();
    match claims.iter().find(|claim| claim.metric == "output_throughput_tok_s") {
        Some(claim) => notes.extend(detail.compare_token_rate(claim)),
        None => notes.push(format!("{} states no token rate", file_name(&summary.path))),
    }
    if summary.text("Scenario") == Some("Offline") {
        notes.push(
            "latencies of the Offline scenario count from the one query that holds all samples, so they \
             are not claimed for requests"
                .into(),
        );
    }
    let result = summary.text("Result is");
    if result != Some("VALID") {
        notes.push(format!("the load generator calls the result {}", result.unwrap_or("nothing")));
    }
    for mode in [detail.text("effective_test_mode"), summary.text("Mode")].into_iter().flatten() {
        if mode != "PerformanceOnly" {
            notes.push(format!("the test mode is {mode}, not PerformanceOnly"));
        }
    }
    notes
}

/// The manifest but for stamps, power and claims. Only what names and logs say is filled in.
fn manifest(
    place: &Place,
    scenario: &str,
    detail: &Detail,
    notes: &mut Vec<String>,
) -> RunManifest {
    let unknown = || "unknown".to_owned();
    let benchmark = place.benchmark.clone();
    if benchmark.is_none() {
        notes.push("the path does not name the benchmark, so the model is unknown".into());
    }
    let system = place.system.as_ref();
    let accelerators = system.and_then(|system| system.accelerators.clone());
    if accelerators.is_none() {
        notes.push(
            "neither path nor logs name the accelerators: hardware.accelerator is \"unknown\" and its \
             count, 1, stands for the node that was measured"
                .into(),
        );
    }
    let (accelerator, count) = accelerators.unwrap_or_else(|| (unknown(), 1));
    // Server draws its queries from a Poisson process of this rate; Offline has one query.
    let request_rate = detail
        .number("effective_target_qps")
        .filter(|rate| scenario == "Server" && rate.is_finite() && *rate > 0.0);
    let model = Model { name: benchmark.clone().unwrap_or_else(unknown), ..Model::default() };
    let node = system.map(|system| system.name.clone());
    let hardware = Hardware { accelerator, count, node, ..Hardware::default() };
    let mut manifest = RunManifest::new(place.id.clone(), RunKind::Serving, model, hardware);
    manifest.configuration = Some(scenario.to_owned());
    manifest.workload = Workload { task: benchmark, request_rate, ..Workload::default() };
    manifest
}

/// PTDaemon asks the analyser for the average since its last question, so a reading is a trailing
/// average over the interval.
fn power_source(session: &Session) -> PowerSource {
    let interval_ms = session.interval_ms.unwrap_or(INTERVAL_MS);
    PowerSource {
        id: SOURCE.into(),
        scope: Scope::Node,
        reading: Reading::Average,
        averaging_window_ms: Some(interval_ms),
        nominal_interval_ms: interval_ms,
        counter_wrap_j: None,
        counter_refresh_ms: None,
        accuracy_percent: session.uncertainty_percent,
        clock_offset_ns: None,
        clock_offset_uncertainty_ns: None,
        interpolation: Interpolation::Linear,
    }
}

fn source_note(session: &Session) -> String {
    let analyser = session.analyser.as_deref().unwrap_or("an analyser that is not named");
    let accuracy = match session.uncertainty_percent {
        Some(_) => {
            "; accuracy_percent is the mean uncertainty that PTDaemon computed for the session"
        }
        None => "",
    };
    format!("wall power by {analyser}, averaged over each interval{accuracy}")
}

#[cfg(test)]
pub(super) mod tests;
