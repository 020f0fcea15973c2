//! What the sampled power says while the recording goes on: the idle baseline, and whether the machine
//! is back at it.

use std::sync::{Mutex, MutexGuard};

use wattrace_schema::Scope;

use crate::lock::lock;
use crate::source::Sample;

/// A device is back at its idle power within this share of it, as the release rule of the analysis says.
const RELEASE_BAND: f64 = 0.05;

/// Memory counts as released within this share of what was used when idle, or within
/// [`MEMORY_ROOM_BYTES`], whichever is more.
const MEMORY_BAND: f64 = 0.05;

/// Drivers keep some memory of their own that moves a little.
const MEMORY_ROOM_BYTES: f64 = 64.0 * 1024.0 * 1024.0;

/// The latest of every device.
#[derive(Debug, Default)]
pub struct Live {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    devices: Vec<Device>,
    is_idle_window: bool,
}

#[derive(Debug)]
struct Device {
    scope: Scope,
    name: String,
    idle: IdleMean,
    last: Option<(i64, f64)>,
    /// Since when power has been within the band, on the monotonic clock.
    calm_since_ns: Option<i64>,
    memory_bytes: Option<u64>,
    idle_memory_bytes: Option<u64>,
}

/// Time-weighted mean of power over the idle window.
#[derive(Debug, Default)]
struct IdleMean {
    energy_w_ns: f64,
    time_ns: f64,
}

impl IdleMean {
    fn mean_w(&self) -> Option<f64> {
        (self.time_ns > 0.0).then(|| self.energy_w_ns / self.time_ns)
    }
}

/// How far the release has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Release {
    /// No device has an idle baseline, so nothing can be said.
    Unknown,
    /// Some device is not within 5 % of its idle power, or not for long enough.
    Waiting,
    /// Every device has been for long enough.
    Held,
}

impl Live {
    /// Registers a device and gives its number. A device that an earlier source measures in the same
    /// scope is `None`: the analysis takes the source listed first, and so does the release.
    pub fn register(&self, scope: Scope, name: &str) -> Option<usize> {
        let mut state = self.lock();
        if state.devices.iter().any(|device| device.scope == scope && device.name == name) {
            return None;
        }
        state.devices.push(Device {
            scope,
            name: name.to_owned(),
            idle: IdleMean::default(),
            last: None,
            calm_since_ns: None,
            memory_bytes: None,
            idle_memory_bytes: None,
        });
        Some(state.devices.len() - 1)
    }

    /// Takes a sample of a registered device, read at `monotonic_ns`.
    #[inline(always)]
    pub fn observe(&self, number: usize, monotonic_ns: i64, sample: &Sample) {
        let mut state = self.lock();
        let is_idle_window = state.is_idle_window;
        let device = &mut state.devices[number];
        if let Some(bytes) = sample.memory_used_bytes {
            device.memory_bytes = Some(bytes);
            if is_idle_window {
                device.idle_memory_bytes = Some(bytes);
            }
        }
        // A device that cannot be read is not known to be calm.
        let Some(power_w) = sample.power_w else {
            device.calm_since_ns = None;
            device.last = None;
            return;
        };
        if let (true, Some((before_ns, before_w))) = (is_idle_window, device.last) {
            let time_ns = (monotonic_ns - before_ns) as f64;
            device.idle.energy_w_ns += time_ns * (power_w + before_w) / 2.0;
            device.idle.time_ns += time_ns;
        }
        device.last = Some((monotonic_ns, power_w));
        let is_calm = device
            .idle
            .mean_w()
            .is_some_and(|idle_w| (power_w - idle_w).abs() <= RELEASE_BAND * idle_w);
        device.calm_since_ns =
            if is_calm { device.calm_since_ns.or(Some(monotonic_ns)) } else { None };
    }

    /// Begins or ends the idle window.
    pub fn set_idle_window(&self, is_idle_window: bool) {
        self.lock().is_idle_window = is_idle_window;
    }

    /// Begins the wait for the release: calm counts from here on.
    pub fn begin_release(&self) {
        for device in &mut self.lock().devices {
            device.calm_since_ns = None;
        }
    }

    /// Whether every accelerator has been calm for `hold_ns` up to its latest sample; without
    /// accelerators, every device of the node.
    #[must_use]
    pub fn release(&self, hold_ns: i64) -> Release {
        let state = self.lock();
        let judged: Vec<_> =
            judged(&state.devices).filter(|device| device.idle.mean_w().is_some()).collect();
        if judged.is_empty() {
            return Release::Unknown;
        }
        // The hold is one window for all: from when the last became calm to the sample that all have.
        let since_ns = judged.iter().map(|device| device.calm_since_ns).collect::<Option<Vec<_>>>();
        let since_ns = since_ns.and_then(|since_ns| since_ns.into_iter().max());
        let last_ns = judged.iter().filter_map(|device| Some(device.last?.0)).min();
        let held =
            since_ns.zip(last_ns).is_some_and(|(since_ns, last_ns)| last_ns - since_ns >= hold_ns);
        if held { Release::Held } else { Release::Waiting }
    }

    /// Whether memory is back at its idle use; `None` if no device says how much it uses.
    #[must_use]
    pub fn memory_released(&self) -> Option<bool> {
        let state = self.lock();
        let mut known = judged(&state.devices)
            .filter_map(|device| {
                Some((device.memory_bytes? as f64, device.idle_memory_bytes? as f64))
            })
            .peekable();
        known.peek()?;
        Some(known.all(|(now, idle)| now <= idle + (MEMORY_BAND * idle).max(MEMORY_ROOM_BYTES)))
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }
}

/// The devices that decide: boards if there are any, else modules, else all others.
fn judged(devices: &[Device]) -> impl Iterator<Item = &Device> {
    let has = |scope| devices.iter().any(|device| device.scope == scope);
    let only = if has(Scope::GpuBoard) {
        Some(Scope::GpuBoard)
    } else if has(Scope::GpuModule) {
        Some(Scope::GpuModule)
    } else {
        None
    };
    devices.iter().filter(move |device| only.is_none_or(|scope| device.scope == scope))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND_NS: i64 = 1_000_000_000;

    fn watts(power_w: f64) -> Sample {
        Sample { power_w: Some(power_w), ..Sample::default() }
    }

    #[test]
    fn the_release_holds_once_every_board_was_near_its_idle_mean_for_long_enough() {
        let live = Live::default();
        let board = live.register(Scope::GpuBoard, "gpu0").unwrap();
        let node = live.register(Scope::Node, "node").unwrap();
        assert_eq!(live.register(Scope::GpuBoard, "gpu0"), None);
        assert_eq!(live.release(0), Release::Unknown);
        live.set_idle_window(true);
        // Trapezoid of 90, 110, 100 W over 0, 1, 3 s: (100 + 2 x 105) / 3 = 310 / 3 W.
        for (second, power_w) in [(0, 90.0), (1, 110.0), (3, 100.0)] {
            live.observe(board, second * SECOND_NS, &watts(power_w));
            live.observe(node, second * SECOND_NS, &watts(500.0));
        }
        live.set_idle_window(false);
        live.begin_release();
        live.observe(board, 10 * SECOND_NS, &watts(400.0));
        assert_eq!(live.release(SECOND_NS), Release::Waiting);
        // The band is 103.33 W +- 5 %: 98.17 to 108.5 W. The node, still at 900 W, has no say.
        live.observe(node, 10 * SECOND_NS, &watts(900.0));
        live.observe(board, 11 * SECOND_NS, &watts(108.4));
        live.observe(board, 12 * SECOND_NS, &watts(98.2));
        assert_eq!(live.release(SECOND_NS), Release::Held);
        assert_eq!(live.release(2 * SECOND_NS), Release::Waiting);
        live.observe(board, 13 * SECOND_NS, &watts(108.6));
        live.observe(board, 14 * SECOND_NS, &watts(100.0));
        assert_eq!(live.release(SECOND_NS), Release::Waiting);
    }

    #[test]
    fn memory_is_judged_only_where_it_is_known() {
        let live = Live::default();
        let board = live.register(Scope::GpuBoard, "gpu0").unwrap();
        assert_eq!(live.memory_released(), None);
        let using = |bytes| Sample { memory_used_bytes: Some(bytes), ..Sample::default() };
        live.set_idle_window(true);
        live.observe(board, 0, &using(2 << 30));
        live.set_idle_window(false);
        live.observe(board, SECOND_NS, &using(70 << 30));
        assert_eq!(live.memory_released(), Some(false));
        // 5 % of 2 GiB are 102.4 MiB.
        live.observe(board, 2 * SECOND_NS, &using((2 << 30) + (102 << 20)));
        assert_eq!(live.memory_released(), Some(true));
    }
}
