//! What the tests of all importers share: a sink that collects, mutated inputs, and units.

use std::path::{Path, PathBuf};

use proptest::prelude::*;
use wattrace_schema::{RunManifest, TimestampNs};

use super::{FORMATS, ImportOptions, Input, Part, Reader, Sink, find, import};
use crate::{
    AccuracyWriteRow, EngineRow, LoadedRun, PowerRow, ReadOptions, RequestRow, StepRow, TraceError,
    read_run,
};

/// A minimal input of a format, written by us, that imports without a word left out.
#[derive(Debug, Clone, Copy)]
pub(super) struct Case {
    /// Name of the format.
    pub(super) format: &'static str,
    /// The bytes of the file.
    pub(super) bytes: &'static [u8],
}

/// Everything that one reader gave, in order.
#[derive(Debug, Default)]
pub(super) struct Collected {
    pub(super) names: Vec<String>,
    pub(super) power: Vec<PowerRow>,
    pub(super) requests: Vec<RequestRow>,
    pub(super) steps: Vec<StepRow>,
    pub(super) engine: Vec<EngineRow>,
    pub(super) accuracy: Vec<AccuracyWriteRow>,
    pub(super) parts: Vec<Part>,
}

impl Sink for Collected {
    fn begin(&mut self, name: &str) -> Result<(), TraceError> {
        assert_eq!(self.names.len(), self.parts.len(), "a part is begun inside another");
        self.names.push(name.to_owned());
        Ok(())
    }

    fn power(&mut self, row: PowerRow) -> Result<(), TraceError> {
        self.power.push(row);
        Ok(())
    }

    fn request(&mut self, row: RequestRow) -> Result<(), TraceError> {
        self.requests.push(row);
        Ok(())
    }

    fn step(&mut self, row: StepRow) -> Result<(), TraceError> {
        self.steps.push(row);
        Ok(())
    }

    fn engine(&mut self, row: EngineRow) -> Result<(), TraceError> {
        self.engine.push(row);
        Ok(())
    }

    fn accuracy(&mut self, row: AccuracyWriteRow) -> Result<(), TraceError> {
        self.accuracy.push(row);
        Ok(())
    }

    fn end(&mut self, part: Part) -> Result<(), TraceError> {
        assert_eq!(self.names.len(), self.parts.len() + 1, "a part is ended that was not begun");
        self.parts.push(part);
        Ok(())
    }
}

/// Options under which every minimal case imports.
pub(super) fn options() -> ImportOptions {
    ImportOptions {
        time_zone: Some("UTC".into()),
        year: Some(2025),
        date_order: Some(super::DateOrder::MonthFirst),
        ..ImportOptions::default()
    }
}

/// A file of those bytes in a folder that goes away with the first value.
pub(super) fn file(bytes: &[u8]) -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("input");
    std::fs::write(&path, bytes).unwrap();
    (folder, path)
}

/// Reads `bytes` as `format`. An error is given without the path of the file.
pub(super) fn collect(
    format: &str,
    bytes: &[u8],
    options: &ImportOptions,
) -> Result<Collected, String> {
    let (_folder, path) = file(bytes);
    let Reader::Parts { read, .. } = find(format).unwrap().reader else {
        panic!("{format} does not read parts");
    };
    let mut collected = Collected::default();
    match read(&Input::new(&path), options, &mut collected) {
        Ok(()) => Ok(collected),
        Err(error) => Err(without_path(&error, &path)),
    }
}

/// Why `bytes` look like `format`, if they do.
pub(super) fn detected(format: &str, bytes: &[u8]) -> Option<String> {
    let (_folder, path) = file(bytes);
    let reason = find(format).unwrap().detect(&path)?;
    Some(reason.replace(&path.display().to_string(), "input"))
}

/// Imports `bytes` as `format` and reads the runs back; an error or note is given without the path.
pub(super) fn imported(
    format: &str,
    bytes: &[u8],
    options: &ImportOptions,
) -> (Vec<LoadedRun>, Vec<String>, Vec<String>) {
    let (folder, path) = file(bytes);
    let archive = folder.path().join("archive");
    let summary = import(format, std::slice::from_ref(&path), &archive, options).unwrap();
    let runs = summary.runs.iter().map(|run| load(&archive, run)).collect();
    let without = |texts: Vec<String>| -> Vec<String> {
        texts.into_iter().map(|text| text.replace(&path.display().to_string(), "input")).collect()
    };
    (runs, without(summary.notes), without(summary.failed))
}

fn load(archive: &Path, run: &Path) -> LoadedRun {
    let listing = crate::list_archive(archive).unwrap();
    let location = listing.runs.iter().find(|location| location.folder == run).unwrap();
    read_run(location, ReadOptions::default()).unwrap()
}

/// The manifest of a loaded run.
pub(super) fn manifest(run: &LoadedRun) -> &RunManifest {
    &run.run.manifest
}

pub(super) fn nanos(text: &str) -> i64 {
    TimestampNs::parse(text).unwrap().nanos()
}

fn without_path(error: &TraceError, path: &Path) -> String {
    error.with_causes().replace(&path.display().to_string(), "input")
}

/// One way in which bytes are damaged.
#[derive(Debug, Clone)]
enum Damage {
    Cut(prop::sample::Index),
    Replace(prop::sample::Index, u8),
    Insert(prop::sample::Index, Vec<u8>),
    Remove(prop::sample::Index, usize),
    Repeat(prop::sample::Index, usize),
}

fn damage() -> impl Strategy<Value = Damage> {
    let place = any::<prop::sample::Index>;
    // Bytes that mean something to most formats come more often than others.
    let byte = prop_oneof![
        3 => prop::sample::select(b"\n,;:.-+\"'[]{}() 0123456789eENaT/\\\t\r\0".to_vec()),
        1 => any::<u8>(),
    ];
    prop_oneof![
        place().prop_map(Damage::Cut),
        (place(), byte.clone()).prop_map(|(at, byte)| Damage::Replace(at, byte)),
        (place(), prop::collection::vec(byte, 1..8))
            .prop_map(|(at, bytes)| Damage::Insert(at, bytes)),
        (place(), 1_usize..40).prop_map(|(at, length)| Damage::Remove(at, length)),
        (place(), 1_usize..200).prop_map(|(at, length)| Damage::Repeat(at, length)),
    ]
}

fn damaged(bytes: &[u8], damages: &[Damage]) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    for damage in damages {
        let place = |at: &prop::sample::Index, bytes: &[u8]| at.index(bytes.len() + 1);
        match damage {
            Damage::Cut(at) => bytes.truncate(place(at, &bytes)),
            Damage::Replace(at, byte) => {
                let at = place(at, &bytes);
                if let Some(slot) = bytes.get_mut(at) {
                    *slot = *byte;
                }
            }
            Damage::Insert(at, more) => {
                let at = place(at, &bytes);
                bytes.splice(at..at, more.iter().copied());
            }
            Damage::Remove(at, length) => {
                let at = place(at, &bytes);
                let end = (at + length).min(bytes.len());
                bytes.drain(at..end);
            }
            Damage::Repeat(at, length) => {
                let at = place(at, &bytes);
                let end = (at + length).min(bytes.len());
                let again = bytes[at..end].to_vec();
                bytes.splice(at..at, again);
            }
        }
    }
    bytes
}

/// Damages each case in many ways, by a fixed seed: detection and import may refuse the input, but never
/// panic, and never give a value that is not a number.
pub(super) fn mutated_inputs_never_panic(cases: &[Case]) {
    let config =
        ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() };
    for case in cases {
        let seed = proptest::test_runner::TestRng::deterministic_rng(
            proptest::test_runner::RngAlgorithm::ChaCha,
        );
        let mut runner = proptest::test_runner::TestRunner::new_with_rng(config.clone(), seed);
        let damages = prop::collection::vec(damage(), 1..5);
        let result = runner.run(&damages, |damages| {
            let bytes = damaged(case.bytes, &damages);
            let _ = detected(case.format, &bytes);
            for options in [options(), ImportOptions::default()] {
                if let Ok(collected) = collect(case.format, &bytes, &options) {
                    for row in &collected.power {
                        let values = [row.power_w, row.energy_j];
                        prop_assert!(values.into_iter().flatten().all(f64::is_finite), "{row:?}");
                    }
                }
            }
            Ok(())
        });
        if let Err(error) = result {
            panic!("{}: {error}", case.format);
        }
    }
}

/// What a minimal input in a given unit must come to.
#[derive(Debug, Clone, Copy)]
pub(super) enum Expected {
    /// The first power reading, W.
    PowerW(f64),
    /// The first energy counter, J.
    EnergyJ(f64),
    /// The last energy counter, J, of a format whose counters begin at zero.
    LastEnergyJ(f64),
    /// From the sending of the first request to its first token, ns.
    TtftNs(u64),
    /// The time of the first request's first gap between tokens, ns.
    GapNs(u64),
    /// Length of the first step, ns.
    StepNs(i64),
    /// Tokens that the first step yielded, where a rate and times give them.
    StepTokens(u32),
    /// The first memory in use, bytes.
    MemoryBytes(u64),
    /// The first claim of that metric.
    Claim(&'static str, f64),
    /// The whole error, without the path of the file.
    Refused(&'static str),
}

/// One row of the table of units.
#[derive(Debug, Clone, Copy)]
pub(super) struct UnitCase {
    pub(super) format: &'static str,
    /// What is tested, such as `"counter in MJ"`.
    pub(super) what: &'static str,
    pub(super) bytes: &'static [u8],
    pub(super) expected: Expected,
}

/// A row of the table of units for a format whose runs lie in a folder of several files.
#[derive(Debug, Clone, Copy)]
pub(super) struct FolderUnitCase {
    pub(super) format: &'static str,
    pub(super) what: &'static str,
    /// Names and texts of the files.
    pub(super) files: &'static [(&'static str, &'static str)],
    pub(super) expected: Expected,
}

/// Reads every input and compares the first value: no unit may be taken for another.
pub(super) fn units_are_told_apart(cases: &[UnitCase]) {
    for case in cases {
        let what = format!("{}, {}", case.format, case.what);
        match (collect(case.format, case.bytes, &options()), case.expected) {
            (Err(error), Expected::Refused(message)) => assert_eq!(error, message, "{what}"),
            (Err(error), _) => panic!("{what}: {error}"),
            (Ok(collected), expected) => expected.check(&collected, &what),
        }
    }
}

/// The same for formats that lie in folders.
pub(super) fn units_in_folders_are_told_apart(cases: &[FolderUnitCase]) {
    for case in cases {
        let what = format!("{}, {}", case.format, case.what);
        let folder = tempfile::tempdir().unwrap();
        let input = folder.path().join("input");
        std::fs::create_dir(&input).unwrap();
        for (name, text) in case.files {
            std::fs::write(input.join(name), text).unwrap();
        }
        let archive = folder.path().join("archive");
        let summary = import(case.format, &[input], &archive, &options()).unwrap();
        assert_eq!(summary.failed, [""; 0], "{what}");
        let run = load(&archive, &summary.runs[0]).run;
        let claims = run.manifest.claims;
        let power = run.power.into_iter().flat_map(|device| device.power_w.value);
        let collected = Collected {
            power: power
                .map(|watts| PowerRow { power_w: Some(watts), ..PowerRow::default() })
                .collect(),
            parts: vec![Part { claims, ..Part::default() }],
            ..Collected::default()
        };
        case.expected.check(&collected, &what);
    }
}

impl Expected {
    fn check(self, collected: &Collected, what: &str) {
        let power = &collected.power;
        let request = collected.requests.first();
        let step = collected.steps.first();
        match self {
            Self::PowerW(watts) => {
                let first = power.iter().find_map(|row| row.power_w);
                assert_eq!(first, Some(watts), "{what}");
            }
            Self::EnergyJ(joules) => {
                let first = power.iter().find_map(|row| row.energy_j);
                assert_eq!(first, Some(joules), "{what}");
            }
            Self::LastEnergyJ(joules) => {
                let last = power.iter().rev().find_map(|row| row.energy_j);
                assert_eq!(last, Some(joules), "{what}");
            }
            Self::MemoryBytes(bytes) => {
                let found = power.iter().find_map(|row| row.memory_used_bytes);
                assert_eq!(found, Some(bytes), "{what}");
            }
            Self::TtftNs(nanos) => {
                let between = |row: &RequestRow| {
                    let nanos = row.t_first_token_ns?.checked_sub(row.t_send_ns?)?;
                    u64::try_from(nanos).ok()
                };
                let ttft = request.and_then(|row| row.ttft_ns.or_else(|| between(row)));
                assert_eq!(ttft, Some(nanos), "{what}");
            }
            Self::GapNs(nanos) => {
                let gaps = request.and_then(|row| row.itl_ns.as_ref());
                assert_eq!(gaps.and_then(|gaps| gaps.first()), Some(&nanos), "{what}");
            }
            Self::StepNs(nanos) => {
                let length = step.and_then(|row| Some(row.t_end_ns - row.t_start_ns?));
                assert_eq!(length, Some(nanos), "{what}");
            }
            Self::StepTokens(tokens) => {
                assert_eq!(step.map(|row| row.new_tokens), Some(tokens), "{what}");
            }
            Self::Claim(metric, value) => {
                let mut claims = collected.parts.iter().flat_map(|part| &part.claims);
                let found = claims.find(|claim| claim.metric == metric);
                assert_eq!(found.map(|claim| claim.value), Some(value), "{what}");
            }
            Self::Refused(message) => panic!("{what}: expected {message}"),
        }
    }
}

/// Formats that read parts, by name.
pub(super) fn part_formats() -> Vec<&'static str> {
    let parts = FORMATS.iter().filter(|format| matches!(format.reader, Reader::Parts { .. }));
    parts.map(|format| format.name).collect()
}
