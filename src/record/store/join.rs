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
    /// What was lost: an early end, segments that could not be read, damaged lines.
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
        losses
            .push(format!("{} damaged lines of the journal were left out", recorded.damaged_lines));
    }
    losses.extend(
        recorded.ended_early.iter().map(|cause| format!("the recording ended early: {cause}")),
    );
    let segments = usable_segments(&folder, &recorded, &mut losses)?;
    if segments.is_empty() {
        return Err(StoreError::Empty { path: folder });
    }
    if finished_manifest(path).is_some_and(|run| is_of(&run, &recorded)) {
        // It was cut off between giving the run its name and removing this folder.
        retire(path)?;
    } else {
        let manifest = manifest(&recorded, &losses, last_times(&segments)?);
        write_run(path, &folder, &segments, manifest)?;
    }
    let manifest = finished_manifest(path).ok_or(StoreError::NoRecording { path: path.run() })?;
    Ok(Joined { run: path.run(), manifest, was_cut_off: recorded.end.is_none(), losses })
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
            Ok(entry)
                if digests.get(name.as_str()).is_none_or(|digest| *digest == entry.sha256) =>
            {
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
            "after": step.after, "before": step.before, "event": "wall-step", "step_ns": step.step_ns,
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

/// What `run.json` under the final name says, if it is there.
fn finished_manifest(path: &RunPath) -> Option<RunManifest> {
    serde_json::from_slice(&fs::read(path.run().join("run.json")).ok()?).ok()
}

/// Whether a run was made from this recording.
fn is_of(run: &RunManifest, recorded: &Recorded) -> bool {
    run.provenance.notes.contains(&recording_note(recorded))
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
    let run = writer.finish(manifest)?;
    // The segments go only when what replaces them lies on the disk.
    sync(&run)?;
    retire(path)
}

/// Waits until the files of a folder, those in its folders and their names lie on the disk.
fn sync(folder: &Path) -> Result<(), StoreError> {
    for entry in fs::read_dir(folder).map_err(StoreError::io("list", folder))? {
        let path = entry.map_err(StoreError::io("list", folder))?.path();
        if path.is_dir() {
            sync(&path)?;
        } else {
            let synced = File::open(&path).and_then(|file| file.sync_all());
            synced.map_err(StoreError::io("write to disk", &path))?;
        }
    }
    let synced = File::open(folder).and_then(|folder| folder.sync_all());
    synced.map_err(StoreError::io("write to disk", folder))
}

/// Removes the folder of a run that is finished. It loses its name first, so that whenever this is cut off
/// there is either a whole unfinished run or none.
fn retire(path: &RunPath) -> Result<(), StoreError> {
    let folder = path.partial();
    let retired = path.archive.join(format!(".{}.retired", path.run_id));
    if fs::symlink_metadata(&retired).is_ok() {
        remove(&retired)?;
    }
    fs::rename(&folder, &retired).map_err(StoreError::io("rename", &folder))?;
    remove(&retired)
}

/// Names of the raw logs that have something in them, sorted.
fn logs(folder: &Path) -> Result<Vec<String>, StoreError> {
    let folder = folder.join(LOGS);
    let mut names = Vec::new();
    for entry in fs::read_dir(&folder).map_err(StoreError::io("list", &folder))? {
        let entry = entry.map_err(StoreError::io("list", &folder))?;
        let has_bytes =
            entry.metadata().is_ok_and(|metadata| metadata.is_file() && metadata.len() > 0);
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
