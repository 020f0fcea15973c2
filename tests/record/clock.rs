//! A wall clock that is stepped while a run is recorded.

use std::sync::{Arc, Mutex};

use wattrace_record::clock::{Clock, Span};
use wattrace_record::live::Live;
use wattrace_record::sampler::{Punctuality, Sampler};
use wattrace_record::source::{PowerSource, Reading, Sample, Stream};
use wattrace_record::store::{RunPath, Stage, Store};
use wattrace_record::{Context, Cost, Stop};
use wattrace_schema::{Hardware, Model, Reading as ReadingKind, RunKind, RunManifest, Scope};

use crate::support::Place;

const SECOND_NS: i64 = 1_000_000_000;

/// 2026-01-31T12:00:00Z.
const T0: i64 = 1_769_860_800_000_000_000;

/// Clocks that move only when something waits, and a wall clock that jumps at given moments.
#[derive(Debug)]
struct FakeClock {
    monotonic_ns: Mutex<i64>,
    /// Moments on the monotonic clock, and the jump at each.
    steps: Vec<(i64, i64)>,
}

impl Clock for FakeClock {
    fn monotonic_ns(&self) -> i64 {
        *self.monotonic_ns.lock().unwrap()
    }

    fn wall_ns(&self) -> i64 {
        let now_ns = self.monotonic_ns();
        let jumps = self.steps.iter().filter(|(at_ns, _)| *at_ns <= now_ns);
        T0 + now_ns + jumps.map(|(_, jump_ns)| jump_ns).sum::<i64>()
    }

    fn wait(&self, stop: &Stop, until_ns: i64) -> bool {
        let mut now_ns = self.monotonic_ns.lock().unwrap();
        *now_ns = until_ns.max(*now_ns);
        stop.is_raised()
    }
}

/// A board that draws 250 W, and whose read takes 4 ms.
#[derive(Debug)]
struct Steady {
    streams: Vec<Stream>,
    clock: Arc<FakeClock>,
}

impl PowerSource for Steady {
    fn streams(&self) -> &[Stream] {
        &self.streams
    }

    fn read(&mut self, clock: &dyn Clock, readings: &mut Vec<Reading>) {
        let (span, ()) = Span::of(clock, || *self.clock.monotonic_ns.lock().unwrap() += 4_000_000);
        let sample = Sample { power_w: Some(250.0), ..Sample::default() };
        readings.push(Reading { stream: 0, device: 0, span, sample, failures: Vec::new() });
    }
}

#[test]
fn durations_stay_right_and_the_steps_are_in_run_json() {
    let place = Place::new();
    // Forward by 30 s after 20.05 s, and back after 40.05 s.
    let at_ns = |seconds: f64| (seconds * 1e9) as i64;
    let steps = vec![(at_ns(20.05), 30 * SECOND_NS), (at_ns(40.05), -30 * SECOND_NS)];
    let clock = Arc::new(FakeClock { monotonic_ns: Mutex::new(0), steps });
    let mut stream = Stream::new("steady", Scope::GpuBoard, ReadingKind::Instant);
    stream.entry.nominal_interval_ms = 100.0;
    stream.devices.push("gpu0".to_owned());

    let model = Model { name: "m".into(), ..Model::default() };
    let hardware = Hardware { accelerator: "x".into(), count: 1, ..Hardware::default() };
    let mut manifest = RunManifest::new("run".into(), RunKind::Serving, model, hardware);
    manifest.power_sources.push(stream.entry.clone());
    let context = Arc::new(Context::new(clock.clone()));
    let path = RunPath::new(&place.path("archive/run")).unwrap();
    let mut store = Store::create(path, &manifest, context.clock.first(), 10.0, 0).unwrap();

    let source = Box::new(Steady { streams: vec![stream], clock: clock.clone() });
    let mut sampler = Sampler::new(
        source,
        SECOND_NS / 10,
        0,
        context.clone(),
        Arc::new(Live::default()),
        Arc::new(Mutex::new(Punctuality::default())),
    );
    store.stamp(Stage::FormalStart, context.clock.now()).unwrap();
    for tick in 1..=600 {
        assert!(sampler.next_tick());
        if tick % 100 == 0 {
            store.flush(context.sink.take(), &context, Cost::default()).unwrap();
        }
    }
    store.stamp(Stage::FormalEnd, context.clock.now()).unwrap();
    let joined = store.finish(context.clock.now()).unwrap();

    // 600 reads, one each 100 ms, each dated 2 ms after its tick; the last ends at 59.904 s.
    let run = place.run("run");
    let times = &run.power[0].power_w.t_ns;
    let expected: Vec<i64> = (0..600).map(|tick| T0 + tick * SECOND_NS / 10 + 2_000_000).collect();
    assert_eq!(*times, expected);
    let stages = joined.manifest.stages;
    let length_ns = stages.formal_end.unwrap().nanos() - stages.formal_start.unwrap().nanos();
    assert_eq!(length_ns, 59_904_000_000);
    let json = std::fs::read_to_string(place.path("archive/run/run.json")).unwrap();
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    // Each step lies between the ticks around it.
    insta::assert_snapshot!(serde_json::to_string_pretty(&json["clock_events"]).unwrap(), @r#"
    [
      {
        "after": "2026-01-31T12:00:20Z",
        "before": "2026-01-31T12:00:20.1Z",
        "event": "wall-step",
        "step_ns": 30000000000
      },
      {
        "after": "2026-01-31T12:00:40Z",
        "before": "2026-01-31T12:00:40.1Z",
        "event": "wall-step",
        "step_ns": -30000000000
      }
    ]
    "#);
    assert!(place.broken_rules().is_empty(), "{:?}", place.broken_rules());
}
