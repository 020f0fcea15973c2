//! From segments and journal to a run.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::{Path, PathBuf};

use wattrace_schema::tables::{ENGINE, POWER, REQUESTS, STEPS};
use wattrace_schema::{RunKind, RunManifest, Table, TimestampNs};
use wattrace_trace::{RunWriter, segment_entry};

use super::journal::{self, JOURNAL, Recorded};
use super::{LOGS, RunPath, StoreError};

/// A run that was written.
#[derive(Debug, Clone, PartialEq)]
pub struct Joined {
    /// Its folder.
    pub run: PathBuf,
    /// What `run.json` says.
    pub manifest: RunManifest,
    /// Whether the recording had been cut off.
    pub was_cut_off: bool,
    /// What was lost: segments that could not be read, damaged lines.
    pub losses: Vec<String>,
}

/// Finishes a run that was cut off.
///
/// # Errors
/// When there is no unfinished run, a recorder still writes it, or a file cannot be written. What was
/// recorded stays as it is then.
pub fn convert(path: &RunPath) -> Result<Joined, StoreError> {
    let folder = path.partial();
    let journal = folder.join(JOURNAL);
    let file = File::open(&journal).map_err(|source| match source.kind() {
        std::io::ErrorKind::NotFound => StoreError::NoRecording { path: folder.clone() },
        _ => StoreError::io("open", &journal)(source),
    })?;
    journal::lock(&file).map_err(|_| StoreError::InUse { path: folder })?;
    // The lock lasts as long as `file` does.
    let joined = join(path);
    drop(file);
    joined
}

/// Joins what lies in the folder of an unfinished run, whose journal is locked by the caller.
pub(crate) fn join(path: &RunPath) -> Result<Joined, StoreError> {
    let folder = path.partial();
    let journal = folder.join(JOURNAL);
    let text = fs::read(&journal).map_err(StoreError::io("read", &journal))?;
    let recorded = journal::read(&text).ok_or(StoreError::NoStart { path: journal })?;
    let mut losses = Vec::new();
    if recorded.damaged_lines > 0 {
        losses.push(format!("{} damaged lines of the journal were left out", recorded.damaged_lines));
    }
    let segments = usable_segments(&folder, &recorded, &mut losses)?;
    let manifest = manifest(&recorded, &losses, last_times(&segments)?);
    if was_joined(path, &recorded) {
        // It was cut off between giving the run its name and removing this folder.
        remove(&folder)?;
    } else {
        write_run(path, &folder, &segments, manifest.clone())?;
    }
    let was_cut_off = recorded.end.is_none();
    Ok(Joined { run: path.run(), manifest, was_cut_off, losses })
}

/// Segments by table, in the order in which they were written.
type Segments = BTreeMap<&'static str, (&'static Table, Vec<PathBuf>)>;

/// Segments that are whole. One that was renamed but not yet noted in the journal counts too.
fn usable_segments(
    folder: &Path,
    recorded: &Recorded,
    losses: &mut Vec<String>,
) -> Result<Segments, StoreError> {
    let mut names = Vec::new();
    for entry in fs::read_dir(folder).map_err(StoreError::io("list", folder))? {
        let entry = entry.map_err(StoreError::io("list", folder))?;
        names.extend(entry.file_name().into_string());
    }
    for (noted, ..) in &recorded.segments {
        if !names.contains(noted) {
            losses.push(format!("segment {noted} is missing"));
        }
    }
    // Numbers in names have one width, so this is the order of writing.
    names.sort();
    let digests: BTreeMap<&str, &str> = recorded
        .segments
        .iter()
        .map(|(file, sha256, _)| (file.as_str(), sha256.as_str()))
        .collect();
    let mut segments = Segments::new();
    for name in names {
        let Some(table) = table_of(&name) else { continue };
        let path = folder.join(&name);
        match segment_entry(&path) {
            Ok(entry) if digests.get(name.as_str()).is_none_or(|digest| *digest == entry.sha256) => {
                segments.entry(table.name).or_insert_with(|| (table, Vec::new())).1.push(path);
            }
            Ok(_) => losses.push(format!("segment {name} is not as it was written; left out")),
            Err(error) => losses.push(format!("segment {name} left out: {}", error.with_causes())),
        }
    }
    Ok(segments)
}

/// The table of a file named like `power-00000001.parquet`.
fn table_of(name: &str) -> Option<&'static Table> {
    let (table, number) = name.strip_suffix(".parquet")?.rsplit_once('-')?;
    let is_number = number.bytes().all(|byte| byte.is_ascii_digit());
    [&POWER, &REQUESTS, &STEPS, &ENGINE].into_iter().find(|known| is_number && known.name == table)
}

/// The run's manifest: what was known at the start, and all that the journal says since.
fn manifest(recorded: &Recorded, losses: &[String], last: Option<TimestampNs>) -> RunManifest {
    let mut manifest = recorded.manifest.clone();
    manifest.clock_events = recorded.steps.iter().map(|step| {
        serde_json::json!({
            "event": "wall-step", "after": step.after, "before": step.before, "step_ns": step.step_ns,
        })
    }).collect();
    manifest.recorder_cost = Some(cost(recorded));
    let notes = &mut manifest.provenance.notes;
    notes.push(recording_note(recorded));
    notes.extend(recorded.notes.iter().cloned());
    notes.extend(losses.iter().cloned());
    if recorded.end.is_none() {
        notes.push("the recording was cut off, and finished by convert".to_owned());
        end_formal_window(&mut manifest, last);
    }
    manifest
}

/// A recording that was cut off in its formal window measured it up to its last sample.
fn end_formal_window(manifest: &mut RunManifest, last: Option<TimestampNs>) {
    let stages = &mut manifest.stages;
    let (start, end) = match manifest.kind {
        RunKind::Decode => (stages.decode_start, &mut stages.decode_end),
        _ => (stages.formal_start, &mut stages.formal_end),
    };
    if let (Some(start), None, Some(last)) = (start, &end, last)
        && start < last
    {
        *end = Some(last);
        let note = "the formal window ends with the last sample that every power source has";
        manifest.provenance.notes.push(note.to_owned());
    }
}

/// Tells one recording from all others.
fn recording_note(recorded: &Recorded) -> String {
    format!("recorded from {}", recorded.recording)
}

fn cost(recorded: &Recorded) -> serde_json::Value {
    let mut cost = serde_json::json!(recorded.cost);
    if let Some(cost) = cost.as_object_mut() {
        cost.insert("flush_s".into(), recorded.flush_s.into());
        cost.insert("failures".into(), serde_json::json!(recorded.failures));
        cost.insert(
            "clock".into(),
            serde_json::json!({
                "first": recorded.first_clock,
                "last": recorded.last_clock,
                "pairs": recorded.clock_pairs,
            }),
        );
    }
    cost
}

/// The last time up to which every power source has samples.
fn last_times(segments: &Segments) -> Result<Option<TimestampNs>, StoreError> {
    let Some((_, files)) = segments.get(POWER.name) else { return Ok(None) };
    let mut last: BTreeMap<String, i64> = BTreeMap::new();
    // Each source has samples in the last segments, unless it stopped long before.
    for file in files.iter().rev().take(SEGMENTS_LOOKED_AT) {
        for (source, t_ns) in wattrace_trace::last_power_times(file)? {
            let latest = last.entry(source).or_insert(t_ns);
            *latest = (*latest).max(t_ns);
        }
    }
    Ok(last.values().min().copied().map(TimestampNs::from_nanos))
}

/// Segments in which the last sample of every source is looked for.
const SEGMENTS_LOOKED_AT: usize = 3;

/// Whether the run under the final name is this recording.
fn was_joined(path: &RunPath, recorded: &Recorded) -> bool {
    let text = fs::read(path.run().join("run.json"));
    let manifest = text.ok().and_then(|text| serde_json::from_slice::<RunManifest>(&text).ok());
    manifest.is_some_and(|run| run.provenance.notes.contains(&recording_note(recorded)))
}

fn write_run(
    path: &RunPath,
    folder: &Path,
    segments: &Segments,
    mut manifest: RunManifest,
) -> Result<(), StoreError> {
    // Left by a join that was cut off; the journal's lock says that none is at work.
    let hidden = path.archive.join(format!(".{}.partial", path.run_id));
    if fs::symlink_metadata(&hidden).is_ok() {
        remove(&hidden)?;
    }
    let mut writer = RunWriter::create(&path.archive, &path.run_id)?;
    let mut used = std::collections::BTreeSet::new();
    for (table, files) in segments.values() {
        used.extend(writer.append_segments(table, files)?.sources);
    }
    manifest.power_sources.retain(|source| {
        let is_used = used.contains(&source.id);
        if !is_used {
            let note = format!("power source {} gave no row", source.id);
            manifest.provenance.notes.push(note);
        }
        is_used
    });
    for log in logs(folder)? {
        writer.copy_extra_file(&format!("{LOGS}/{log}"), &folder.join(LOGS).join(&log))?;
    }
    writer.finish(manifest)?;
    remove(folder)
}

/// Names of the raw logs that have something in them, sorted.
fn logs(folder: &Path) -> Result<Vec<String>, StoreError> {
    let folder = folder.join(LOGS);
    let mut names = Vec::new();
    for entry in fs::read_dir(&folder).map_err(StoreError::io("list", &folder))? {
        let entry = entry.map_err(StoreError::io("list", &folder))?;
        let has_bytes = entry.metadata().is_ok_and(|metadata| metadata.is_file() && metadata.len() > 0);
        if let (true, Ok(name)) = (has_bytes, entry.file_name().into_string()) {
            names.push(name);
        }
    }
    names.sort();
    Ok(names)
}

fn remove(folder: &Path) -> Result<(), StoreError> {
    fs::remove_dir_all(folder).map_err(StoreError::io("remove", folder))
}
