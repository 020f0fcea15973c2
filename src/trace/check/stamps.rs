//! Rules about the stamps of a run.

use wattrace_schema::{RunKind, RunManifest, TimestampNs};

use super::{Place, Report};
use crate::manifest::RUN_JSON;

/// A window between two stamps, in nanoseconds on the clock of the run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Window {
    pub(super) name: &'static str,
    pub(super) start_ns: i64,
    pub(super) end_ns: i64,
}

/// Pairs of stamps that bound a window, with the window's name.
const BOUNDS: [(&str, &str, &str); 5] = [
    ("idle", "idle_start", "idle_end"),
    ("startup", "launch", "formal_start"),
    ("formal", "formal_start", "formal_end"),
    ("release", "formal_end", "monitor_end"),
    ("decode", "decode_start", "decode_end"),
];

/// The windows of a run whose stamps are both there and in order.
pub(super) fn windows(manifest: &RunManifest) -> Vec<Window> {
    BOUNDS
        .iter()
        .filter_map(|(name, start, end)| {
            let (start_ns, end_ns) =
                (stamp(manifest, start)?.nanos(), stamp(manifest, end)?.nanos());
            (start_ns < end_ns).then_some(Window { name, start_ns, end_ns })
        })
        .collect()
}

fn stamp(manifest: &RunManifest, key: &str) -> Option<TimestampNs> {
    manifest.stages.in_order().iter().find(|(name, _)| *name == key)?.1
}

/// The stamps among `keys` that are null.
fn absent(manifest: &RunManifest, keys: &[&'static str]) -> Vec<&'static str> {
    keys.iter().copied().filter(|key| stamp(manifest, key).is_none()).collect()
}

pub(super) fn present(manifest: &RunManifest, report: &mut Report) {
    let keys: &[&str] = match manifest.kind {
        RunKind::Serving => &["formal_start", "formal_end"],
        RunKind::Decode => &["decode_start", "decode_end"],
        RunKind::Summary => &[],
    };
    let absent = absent(manifest, keys);
    if !absent.is_empty() {
        let message = format!(
            "key \"stages\" lacks {}, which would bound the measured window of a {} run",
            absent.join(" and "),
            manifest.kind.name()
        );
        report.add(Place::file(RUN_JSON), message);
    }
}

/// Runs imported from benchmark logs often have the formal window alone.
pub(super) fn lifecycle(manifest: &RunManifest, report: &mut Report) {
    if manifest.kind != RunKind::Serving {
        return;
    }
    let absent = absent(
        manifest,
        &["idle_start", "idle_end", "launch", "process_exit", "memory_released", "monitor_end"],
    );
    if !absent.is_empty() {
        let message = format!(
            "key \"stages\" lacks {}, of what bounds the idle, startup, release and lifecycle values",
            absent.join(", ")
        );
        report.add(Place::file(RUN_JSON), message);
    }
}

pub(super) fn order(manifest: &RunManifest, report: &mut Report) {
    let stamps = manifest.stages.in_order();
    let given: Vec<_> =
        stamps.iter().filter_map(|(key, time)| time.map(|time| (*key, time))).collect();
    for pair in given.windows(2) {
        let ((before, earlier), (after, later)) = (pair[0], pair[1]);
        if later < earlier {
            let message = format!(
                "\"stages.{after}\" is {later}, before \"stages.{before}\" at {earlier}; \
                 expected it to follow"
            );
            report.add(Place::file(RUN_JSON), message);
        }
    }
}

pub(super) fn window_length(manifest: &RunManifest, report: &mut Report) {
    for (name, start, end) in BOUNDS {
        let (Some(from), Some(to)) = (stamp(manifest, start), stamp(manifest, end)) else {
            continue;
        };
        if from == to {
            let message = format!(
                "the {name} window has no length: \"stages.{start}\" and \"stages.{end}\" are both {from}"
            );
            report.add(Place::file(RUN_JSON), message);
        }
    }
}
