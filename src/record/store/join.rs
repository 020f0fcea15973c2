//! From segments and journal to a run.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::BufReader;
use std::path::{Path, PathBuf};

use wattrace_schema::tables::{POWER, REQUESTS};
use wattrace_schema::{RunKind, RunManifest, Table, TimestampNs};
use wattrace_trace::{RunWriter, segment_entry};

use super::journal::{self, JOURNAL, Recorded};
use super::segments::SegmentName;
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
    /// Whether it had to end before its time, since it could not be written on.
    pub ended_early: bool,
    /// What was lost: an early end, segments that could not be read, damaged lines, devices without a value.
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
        std::io::ErrorKind::NotFound if finished_manifest(path).is_some() => {
            remove_retired(path);
            StoreError::Finished { path: path.run() }
        }
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
    let recorded = File::open(&journal)
        .and_then(|file| journal::read(BufReader::new(file)))
        .map_err(StoreError::io("read", &journal))?
        .ok_or(StoreError::NoStart { path: journal })?;
    let mut losses = Vec::new();
    if recorded.damaged_lines > 0 {
        losses
            .push(format!("{} damaged lines of the journal were left out", recorded.damaged_lines));
    }
    losses.extend(
        recorded.ended_early.iter().map(|cause| format!("the recording ended early: {cause}")),
    );
    losses.extend(recorded.losses.iter().cloned());
    let segments = usable_segments(&folder, &recorded, &mut losses)?;
    if segments.is_empty() {
        return Err(StoreError::Empty { path: folder });
    }
    if finished_manifest(path).is_some_and(|run| is_of(&run, &recorded)) {
        // It was cut off between giving the run its name and removing this folder.
        retire(path)?;
    } else {
        let manifest = manifest(&recorded, &losses, last_time(&segments, &recorded)?);
        write_run(path, &folder, &segments, manifest)?;
    }
    let manifest = finished_manifest(path).ok_or(StoreError::NoRecording { path: path.run() })?;
    let (was_cut_off, ended_early) = (recorded.end.is_none(), recorded.ended_early.is_some());
    Ok(Joined { run: path.run(), manifest, was_cut_off, ended_early, losses })
}

/// Segments by table, in the order in which they were written.
type Segments = BTreeMap<&'static str, (&'static Table, Vec<PathBuf>)>;

/// Segments that are whole, and of which no two hold the same rows. A small one that was renamed but not
/// yet noted in the journal counts too; a merged one does not, since its rows lie in small ones still.
fn usable_segments(
    folder: &Path,
    recorded: &Recorded,
    losses: &mut Vec<String>,
) -> Result<Segments, StoreError> {
    let mut found = BTreeSet::new();
    for entry in fs::read_dir(folder).map_err(StoreError::io("list", folder))? {
        let entry = entry.map_err(StoreError::io("list", folder))?;
        found.extend(entry.file_name().to_str().and_then(SegmentName::parse));
    }
    let missing = recorded.segments.keys().filter(|name| !found.contains(name));
    losses.extend(missing.map(|name| format!("segment {name} is missing")));
    let (merged, small): (Vec<_>, Vec<_>) = found.into_iter().partition(|name| name.is_merged);
    let mut usable = |name: &SegmentName| {
        let noted = recorded.segments.get(name);
        if name.is_merged && noted.is_none() {
            return false;
        }
        match segment_entry(&folder.join(name.to_string())) {
            Ok(entry) if noted.is_none_or(|sha256| *sha256 == entry.sha256) => return true,
            Ok(_) => losses.push(format!("segment {name} is not as it was written; left out")),
            Err(error) => losses.push(format!("segment {name} left out: {}", error.with_causes())),
        }
        false
    };
    let merged: Vec<_> = merged.into_iter().filter(|name| usable(name)).collect();
    let is_covered = |name: &SegmentName| {
        // They are sorted, and those of one table do not overlap.
        let before = merged.partition_point(|merged| merged < name);
        before.checked_sub(1).is_some_and(|index| merged[index].covers(name))
            || merged.get(before).is_some_and(|merged| merged.covers(name))
    };
    let small: Vec<_> =
        small.into_iter().filter(|name| !is_covered(name) && usable(name)).collect();
    let names: BTreeSet<SegmentName> = merged.into_iter().chain(small).collect();
    let mut segments = Segments::new();
    for name in names {
        let of_table =
            segments.entry(name.table().name).or_insert_with(|| (name.table(), Vec::new()));
        of_table.1.push(folder.join(name.to_string()));
    }
    Ok(segments)
}

/// The run's manifest: what was known at the start, and all that the journal says since.
fn manifest(recorded: &Recorded, losses: &[String], last: Option<TimestampNs>) -> RunManifest {
    let mut manifest = recorded.manifest.clone();
    manifest.clock_events = recorded.events.iter().map(|event| serde_json::json!(event)).collect();
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
        let note = "the formal window ends with the last sample that every power source has, or with the \
                    last request that ended before the next";
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

/// The end of what a cut-off recording measured: the last time up to which every power source has samples. A
/// request that ended after it, but before the next sample was due, is measured still.
fn last_time(segments: &Segments, recorded: &Recorded) -> Result<Option<TimestampNs>, StoreError> {
    let Some(power_ns) = last_power_time(segments, recorded)? else { return Ok(None) };
    let sources = recorded.manifest.power_sources.iter();
    let slowest_ms = sources.map(|source| source.nominal_interval_ms).fold(0.0, f64::max);
    let next_ns = power_ns.saturating_add((slowest_ms * 1e6) as i64);
    let mut end_ns = power_ns;
    let requests = segments.get(REQUESTS.name).map_or(&[][..], |(_, files)| files);
    for file in requests.iter().rev().take(SEGMENTS_LOOKED_AT) {
        let last_ns = wattrace_trace::last_formal_end(file)?;
        end_ns = end_ns.max(last_ns.map_or(end_ns, |last_ns| last_ns.min(next_ns)));
    }
    Ok(Some(TimestampNs::from_nanos(end_ns)))
}

/// The last time up to which every power source has samples. One that had none for long before the end does
/// not count: it had stopped.
fn last_power_time(segments: &Segments, recorded: &Recorded) -> Result<Option<i64>, StoreError> {
    let Some((_, files)) = segments.get(POWER.name) else { return Ok(None) };
    let sources = &recorded.manifest.power_sources;
    let mut last: BTreeMap<String, i64> = BTreeMap::new();
    for file in files.iter().rev().take(SEGMENTS_LOOKED_AT) {
        for (source, t_ns) in wattrace_trace::last_power_times(file)? {
            let latest = last.entry(source).or_insert(t_ns);
            *latest = (*latest).max(t_ns);
        }
        if last.len() == sources.len() {
            break;
        }
    }
    let Some(latest) = last.values().max().copied() else { return Ok(None) };
    let goes_on = |(source, t_ns): &(&String, &i64)| {
        let entry = sources.iter().find(|entry| entry.id == **source);
        let interval_s = entry.map_or(0.0, |entry| entry.nominal_interval_ms / 1e3);
        let allowed_s = STOPPED_AFTER * interval_s.max(recorded.flush_s);
        (latest - **t_ns) as f64 / 1e9 <= allowed_s
    };
    Ok(last.iter().filter(goes_on).map(|(_, t_ns)| *t_ns).min())
}

/// Segments in which the last sample of every source is looked for.
const SEGMENTS_LOOKED_AT: usize = 64;

/// Flush intervals, or intervals of its own, after which a source without samples counts as stopped.
const STOPPED_AFTER: f64 = 3.0;

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
    let mut writer = RunWriter::create(&path.archive, &path.run_id)?.sparing_memory();
    let mut used = BTreeSet::new();
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
    let retired = retired(path);
    if fs::symlink_metadata(&retired).is_ok() {
        remove(&retired)?;
    }
    fs::rename(&folder, &retired).map_err(StoreError::io("rename", &folder))?;
    match remove(&retired) {
        // A `convert` that saw it has removed it at the same time.
        Err(StoreError::Io { source, .. }) if source.kind() == std::io::ErrorKind::NotFound => {
            Ok(())
        }
        other => other,
    }
}

/// What the folder of a run that is finished is called while it is removed.
fn retired(path: &RunPath) -> PathBuf {
    path.archive.join(format!(".{}.retired", path.run_id))
}

/// Removes what was left of such a folder when its removal was cut off, unless that still goes on.
fn remove_retired(path: &RunPath) {
    let retired = retired(path);
    let is_in_use =
        File::open(retired.join(JOURNAL)).is_ok_and(|file| journal::lock(&file).is_err());
    if !is_in_use {
        // Nothing depends on it, and the next attempt may succeed.
        let _ = fs::remove_dir_all(retired);
    }
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
