//! Throttling, clocks and temperatures: whether an accelerator could do its best.

use wattrace_schema::{AcceleratorSamples, Flag, FlagSet, Interval};

/// What one accelerator went through in one window.
#[derive(Debug, Clone, PartialEq)]
pub struct HealthRow {
    /// The run.
    pub run_id: String,
    /// The device.
    pub device: String,
    /// Samples in the window.
    pub samples: usize,
    /// Times at which throttling set in; `None` where no sample says whether it did.
    pub throttle_events: Option<usize>,
    /// Samples that report throttling.
    pub throttled_samples: usize,
    /// Names of the reasons that were reported, in the order of their bits.
    pub throttle_reasons: Vec<&'static str>,
    /// Lowest clock, MHz.
    pub sm_clock_min_mhz: Option<u32>,
    /// Highest clock, MHz.
    pub sm_clock_max_mhz: Option<u32>,
    /// Lowest temperature, °C.
    pub temperature_min_c: Option<f32>,
    /// Highest temperature, °C.
    pub temperature_max_c: Option<f32>,
    /// [`Flag::Throttled`], if it was.
    pub flags: FlagSet,
}

/// NVML's reasons (nvml.h, `nvmlClocksEventReason*`) that slow an accelerator down. Idling, a clock
/// that the user set, and keeping step with other boards or a display (bits 0, 1, 4 and 8) are none.
const THROTTLING: [(u64, &str); 5] = [
    (0x04, "sw-power-cap"),
    (0x08, "hw-slowdown"),
    (0x20, "sw-thermal-slowdown"),
    (0x40, "hw-thermal-slowdown"),
    (0x80, "hw-power-brake"),
];

/// Summarises the samples with start <= t <= end of one accelerator.
#[must_use]
pub fn accelerator_health(
    run_id: &str,
    samples: &AcceleratorSamples,
    window: Interval,
) -> HealthRow {
    let inside: Vec<usize> = (0..samples.t_ns.len())
        .filter(|&row| (window.start_ns..=window.end_ns).contains(&samples.t_ns[row]))
        .collect();
    let any_throttling = THROTTLING.iter().fold(0, |mask, (bit, _)| mask | bit);
    let masks: Vec<u64> = inside.iter().filter_map(|&row| samples.throttle_reasons[row]).collect();
    let throttled: Vec<bool> = masks.iter().map(|mask| mask & any_throttling != 0).collect();
    let sets_in = |index: usize| throttled[index] && (index == 0 || !throttled[index - 1]);
    let seen = masks.iter().fold(0, |all, mask| all | mask);
    let clocks = || inside.iter().filter_map(|&row| samples.sm_clock_mhz[row]);
    let temperatures =
        || inside.iter().filter_map(|&row| samples.temperature_c[row]).filter(|t| t.is_finite());
    let throttled_samples = throttled.iter().filter(|throttled| **throttled).count();
    let mut flags = FlagSet::EMPTY;
    flags.insert_if(throttled_samples > 0, Flag::Throttled);
    HealthRow {
        run_id: run_id.to_owned(),
        device: samples.device.clone(),
        samples: inside.len(),
        throttle_events: (!masks.is_empty())
            .then(|| (0..throttled.len()).filter(|&index| sets_in(index)).count()),
        throttled_samples,
        throttle_reasons: THROTTLING
            .iter()
            .filter(|(bit, _)| seen & bit != 0)
            .map(|(_, name)| *name)
            .collect(),
        sm_clock_min_mhz: clocks().min(),
        sm_clock_max_mhz: clocks().max(),
        temperature_min_c: temperatures().min_by(f32::total_cmp),
        temperature_max_c: temperatures().max_by(f32::total_cmp),
        flags,
    }
}
