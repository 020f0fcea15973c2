//! A recording that goes on for long: few files, little memory, every row once.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex};

use wattrace_record::clock::{Clock, Span};
use wattrace_record::live::Live;
use wattrace_record::sampler::{Punctuality, Sampler};
use wattrace_record::source::{PowerSource, Reading, Sample, Stream};
use wattrace_record::store::{RunPath, Stage, Store, convert};
use wattrace_record::{Context, Cost, Stop};
use wattrace_schema::{Hardware, Model, Reading as ReadingKind, RunKind, RunManifest, Scope};

use crate::support::Place;

const SECOND_NS: i64 = 1_000_000_000;

/// 2026-01-31T12:00:00Z.
const T0: i64 = 1_769_860_800_000_000_000;

/// A clock that moves only when something waits, and whose machine sleeps when it is told to.
#[derive(Debug, Default)]
struct SetClock {
    now_ns: AtomicI64,
    suspended_ns: AtomicI64,
}

impl SetClock {
    fn suspend(&self, time_ns: i64) {
        self.now_ns.fetch_add(time_ns, Ordering::Relaxed);
        self.suspended_ns.fetch_add(time_ns, Ordering::Relaxed);
    }
}

impl Clock for SetClock {
    fn monotonic_ns(&self) -> i64 {
        self.now_ns.load(Ordering::Relaxed)
    }

    fn wall_ns(&self) -> i64 {
        T0 + self.monotonic_ns()
    }

    fn suspended_ns(&self) -> i64 {
        self.suspended_ns.load(Ordering::Relaxed)
    }

    fn wait(&self, stop: &Stop, until_ns: i64) -> bool {
        self.now_ns.fetch_max(until_ns, Ordering::Relaxed);
        stop.is_raised()
    }
}

/// Three boards; each read gives one more watt, and every fiftieth fails in another way.
#[derive(Debug)]
struct Counting {
    streams: Vec<Stream>,
    reads: u32,
}

impl PowerSource for Counting {
    fn streams(&self) -> &[Stream] {
        &self.streams
    }

    fn read(&mut self, clock: &dyn Clock, readings: &mut Vec<Reading>) {
        self.reads += 1;
        for device in 0..3 {
            let (span, ()) = Span::of(clock, || ());
            let fails = self.reads.is_multiple_of(50);
            let power_w = (!fails).then_some(f64::from(self.reads));
            let sample = Sample { power_w, ..Sample::default() };
            let failures = if fails { vec![format!("cause {}", self.reads)] } else { Vec::new() };
            readings.push(Reading { stream: 0, device, span, sample, failures });
        }
    }
}

/// A recording that is driven by hand.
struct Driven {
    place: Place,
    path: RunPath,
    clock: Arc<SetClock>,
    context: Arc<Context>,
    sampler: Sampler,
    store: Store,
    flushes: usize,
}

impl Driven {
    fn new() -> Self {
        let place = Place::new();
        let mut stream = Stream::new("counting", Scope::GpuBoard, ReadingKind::Instant);
        stream.entry.nominal_interval_ms = 5000.0;
        stream.devices = (0..3).map(|device| format!("gpu{device}")).collect();
        let model = Model { name: "m".into(), ..Model::default() };
        let hardware = Hardware { accelerator: "x".into(), count: 3, ..Hardware::default() };
        let mut manifest = RunManifest::new("run".into(), RunKind::Serving, model, hardware);
        manifest.power_sources.push(stream.entry.clone());
        let clock = Arc::new(SetClock::default());
        let context = Arc::new(Context::new(clock.clone()));
        let path = RunPath::new(&place.path("archive/run")).unwrap();
        let mut store =
            Store::create(path.clone(), &manifest, context.clock.first(), 10.0, 0).unwrap();
        let sampler = Sampler::new(
            Box::new(Counting { streams: vec![stream], reads: 0 }),
            5 * SECOND_NS,
            0,
            context.clone(),
            Arc::new(Live::default()),
            Arc::new(Mutex::new(Punctuality::default())),
        );
        store.stamp(Stage::FormalStart, context.clock.now()).unwrap();
        Self { place, path, clock, context, sampler, store, flushes: 0 }
    }

    /// Two reads, 5 s apart, and a write.
    fn flush(&mut self) {
        assert!(self.sampler.next_tick() && self.sampler.next_tick());
        self.store.flush(self.context.sink.take(), &self.context, Cost::default()).unwrap();
        self.flushes += 1;
    }

    fn merge(&mut self) {
        while let Some(merge) = self.store.take_due_merge() {
            let merged = merge.write().unwrap();
            self.store.merged(&merge, &merged).unwrap();
        }
    }

    fn segments(&self) -> Vec<PathBuf> {
        let entries = fs::read_dir(self.path.partial()).unwrap();
        let mut paths: Vec<_> = entries
            .map(|entry| entry.unwrap().path())
            .filter(|path| path.extension().is_some_and(|extension| extension == "parquet"))
            .collect();
        paths.sort();
        paths
    }

    /// Finishes the run as if it had been cut off, and says what was lost. Every row must be there once.
    fn convert(self) -> (Place, Vec<String>) {
        let reads = 2 * self.flushes;
        drop(self.store);
        let joined = convert(&self.path).unwrap();
        assert!(joined.was_cut_off);
        let run = self.place.run("run");
        assert_eq!(run.manifest.files["power.parquet"].rows, 3 * reads as u64);
        let expected: Vec<f64> =
            (1..=reads as u32).filter(|read| !read.is_multiple_of(50)).map(f64::from).collect();
        assert_eq!(run.power.len(), 3);
        for device in &run.power {
            let values: Vec<f64> =
                device.power_w.value.iter().copied().filter(|value| value.is_finite()).collect();
            assert_eq!(values, expected);
            assert!(device.power_w.t_ns.is_sorted());
        }
        assert!(!self.path.partial().exists());
        (self.place, joined.losses)
    }
}

#[test]
fn a_long_recording_has_few_files_and_every_row_once() {
    let mut driven = Driven::new();
    // A bit more than two hours: 12 merged segments of 60 writes, and 30 small ones.
    for flush in 1..=750 {
        driven.flush();
        driven.merge();
        let segments = driven.segments().len();
        assert_eq!(segments, flush / 60 + flush % 60, "after {flush} writes");
    }
    assert!(driven.context.sink.take().is_empty());
    // 30 of the 1500 reads of 3 boards failed, each in its own way; 32 causes of one source are kept.
    assert_eq!(driven.context.failures().len(), 33);
    let journal = fs::metadata(driven.path.partial().join("journal.jsonl")).unwrap().len();
    assert!(journal < 750 * 1000, "{journal} bytes of journal");
    let (place, losses) = driven.convert();
    assert_eq!(losses, [""; 0]);
    let cost = place.run("run").manifest.recorder_cost.unwrap();
    let failures = cost["failures"].as_array().unwrap();
    let counted: u64 = failures.iter().map(|failure| failure["count"].as_u64().unwrap()).sum();
    assert_eq!(counted, 90);
}

/// A copy of the small segments, as they are there when a merge is cut off before it removed them.
fn copied(driven: &Driven) -> Vec<(PathBuf, Vec<u8>)> {
    driven.segments().into_iter().map(|path| (path.clone(), fs::read(path).unwrap())).collect()
}

fn put_back(copies: &[(PathBuf, Vec<u8>)]) {
    copies.iter().for_each(|(path, bytes)| fs::write(path, bytes).unwrap());
}

#[test]
fn a_merge_that_is_cut_off_anywhere_neither_loses_nor_doubles_a_row() {
    // Before the merged segment counts.
    let mut driven = Driven::new();
    (0..60).for_each(|_| driven.flush());
    let merge = driven.store.take_due_merge().unwrap();
    merge.write().unwrap();
    assert_eq!(driven.segments().len(), 61);
    assert_eq!(driven.convert().1, [""; 0]);

    // While it is written.
    let mut driven = Driven::new();
    (0..60).for_each(|_| driven.flush());
    fs::write(driven.path.partial().join("power-00000001-00000060.writing"), "PAR1").unwrap();
    assert_eq!(driven.convert().1, [""; 0]);

    // Before the small ones are removed, all or some.
    for removed in [0, 17] {
        let mut driven = Driven::new();
        (0..60).for_each(|_| driven.flush());
        let small = copied(&driven);
        driven.merge();
        assert_eq!(driven.segments().len(), 1);
        put_back(&small[removed..]);
        driven.flush();
        assert_eq!(driven.convert().1, [""; 0]);
    }
}

#[test]
fn a_merged_segment_that_was_damaged_is_replaced_by_small_ones_that_are_left() {
    let mut driven = Driven::new();
    (0..60).for_each(|_| driven.flush());
    let small = copied(&driven);
    driven.merge();
    put_back(&small);
    let merged = driven.path.partial().join("power-00000001-00000060.parquet");
    damage(&merged);
    let (_, losses) = driven.convert();
    assert_eq!(losses.len(), 1);
    assert!(losses[0].starts_with("segment power-00000001-00000060.parquet"), "{losses:?}");
}

fn damage(path: &Path) {
    let mut bytes = fs::read(path).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 0xff;
    fs::write(path, bytes).unwrap();
}

#[test]
fn what_is_missing_is_in_the_run_and_said_also_where_convert_makes_it() {
    let mut driven = Driven::new();
    driven.flush();
    let text = "bmc node gave neither power nor energy";
    // However many notes there were before.
    (0..2000).for_each(|number| driven.context.note(format!("note {number}")));
    driven.context.lose(text.to_owned());
    driven.flush();
    let (place, losses) = driven.convert();
    assert_eq!(losses, [text]);
    let notes = place.run("run").manifest.provenance.notes;
    assert_eq!(notes.iter().filter(|note| *note == text).count(), 1);
}

#[test]
fn a_suspended_machine_leaves_a_gap_and_is_said() {
    let mut driven = Driven::new();
    (0..3).for_each(|_| driven.flush());
    driven.clock.suspend(3600 * SECOND_NS);
    (0..3).for_each(|_| driven.flush());
    let (place, _) = driven.convert();
    let run = place.run("run");
    let gaps = run.power[0].power_w.t_ns.windows(2).map(|pair| (pair[1] - pair[0]) / SECOND_NS);
    // Reads at 0, 5, …, 25 s; the next was due at 30 s and came after the hour, at 3625 s.
    assert_eq!(gaps.collect::<Vec<_>>(), [5, 5, 5, 5, 5, 3600, 5, 5, 5, 5, 5]);
    insta::assert_snapshot!(
        serde_json::to_string(&run.manifest.clock_events).unwrap(),
        @r#"[{"after":"2026-01-31T12:00:25Z","before":"2026-01-31T13:00:25Z","event":"suspended","length_ns":3600000000000}]"#
    );
}
