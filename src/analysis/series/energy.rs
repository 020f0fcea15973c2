//! Energy of a set of devices over a window, by both methods.

use wattrace_schema::{
    DevicePower, EnergyMethod, FlagSet, Interpolation, Interval, PowerSource, Reason,
};

use super::counter::CounterSource;
use super::devices::DeviceSet;
use super::integral::EnergyCurve;
use crate::outcome::{Evidence, Outcome, Value};

const NANOS_PER_MILLISECOND: f64 = 1e6;

/// A device as `power.parquet` names it, and how its rows are read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MeasuredDevice {
    /// Id of its power source.
    pub source: String,
    /// Its name within the source.
    pub device: String,
    /// What is added to the file's times to get the run's clock, ns.
    pub clock_offset_ns: i64,
    /// How power runs between samples.
    pub interpolation: Interpolation,
}

impl MeasuredDevice {
    fn of(device: &DevicePower, source: &PowerSource) -> Self {
        Self {
            source: source.id.clone(),
            device: device.device.clone(),
            clock_offset_ns: source.clock_offset_ns.unwrap_or_default(),
            interpolation: source.interpolation,
        }
    }
}

/// Energy of all devices of a set over a window, by one method.
#[derive(Debug, Clone)]
pub struct WindowEnergy {
    /// The window.
    pub window: Interval,
    /// The method.
    pub method: EnergyMethod,
    /// One curve a device.
    pub curves: Vec<EnergyCurve>,
    /// Whose curves they are.
    pub devices: Vec<MeasuredDevice>,
    /// What a reader must know.
    pub flags: FlagSet,
}

impl WindowEnergy {
    /// Energy of all devices together, J.
    #[must_use]
    pub fn total_j(&self) -> f64 {
        self.curves.iter().map(EnergyCurve::total_j).sum()
    }

    /// Energy of all devices from the window's start to each of `times_ns` (sorted, within the
    /// window), J.
    #[must_use]
    pub fn energy_until(&self, times_ns: &[i64]) -> Vec<f64> {
        let mut sums_j = vec![0.0; times_ns.len()];
        for curve in &self.curves {
            curve.add_energy_until(times_ns, &mut sums_j);
        }
        sums_j
    }

    /// The energy as an outcome with its window, method, flags and evidence.
    #[must_use]
    pub fn outcome(&self) -> Outcome {
        let device_seconds = self.window.duration_s() * self.curves.len() as f64;
        let gap_s: f64 = self.curves.iter().map(|curve| curve.gap_s).sum();
        let lost_s: f64 = self.curves.iter().map(|curve| curve.counter_lost_s).sum();
        let rows: usize = self.curves.iter().map(|curve| curve.samples).sum();
        Outcome {
            value: Ok(Value::F64(self.total_j())),
            flags: self.flags,
            method: Some(self.method),
            window: Some(self.window),
            evidence: Evidence {
                gap_share: (device_seconds > 0.0).then(|| gap_s / device_seconds),
                counter_lost_s: (self.method == EnergyMethod::Counter).then_some(lost_s),
                rows: Some(rows as u64),
            },
        }
    }
}

/// Energy of `set` over `window` by `method`; every device must be covered.
///
/// # Errors
/// The reason why one device has no value.
pub fn window_energy(
    set: &DeviceSet<'_>,
    window: Interval,
    method: EnergyMethod,
) -> Result<WindowEnergy, Reason> {
    let mut flags = set.flags;
    let mut curves = Vec::with_capacity(set.devices.len());
    let mut devices = Vec::with_capacity(set.devices.len());
    for (device, source) in &set.devices {
        let nominal_interval_ns = source.nominal_interval_ms * NANOS_PER_MILLISECOND;
        let curve = match method {
            EnergyMethod::Trapezoid => EnergyCurve::from_power(
                &device.power_w,
                source.interpolation,
                window,
                nominal_interval_ns,
            )?,
            EnergyMethod::Counter => EnergyCurve::from_counter(
                &device.energy_j,
                &device.power_w,
                window,
                &CounterSource {
                    nominal_interval_ns,
                    refresh_ns: source.counter_refresh_ms.map(|ms| ms * NANOS_PER_MILLISECOND),
                    wrap_j: source.counter_wrap_j,
                    scope: source.scope,
                },
            )?,
        };
        flags.extend(curve.flags);
        curves.push(curve);
        devices.push(MeasuredDevice::of(device, source));
    }
    Ok(WindowEnergy { window, method, curves, devices, flags })
}

/// Energy of one stage by both methods.
#[derive(Debug, Clone)]
pub struct StageEnergy {
    /// The method whose value counts.
    pub method: EnergyMethod,
    /// By the integral of power.
    pub trapezoid: Result<WindowEnergy, Reason>,
    /// By the counters.
    pub counter: Result<WindowEnergy, Reason>,
}

impl StageEnergy {
    /// A stage that has no energy for one reason.
    #[must_use]
    pub const fn missing(reason: Reason) -> Self {
        Self { method: EnergyMethod::Trapezoid, trapezoid: Err(reason), counter: Err(reason) }
    }

    /// The energy by the method that counts.
    ///
    /// # Errors
    /// Why that method has no value.
    pub fn chosen(&self) -> Result<&WindowEnergy, Reason> {
        let energy = match self.method {
            EnergyMethod::Trapezoid => &self.trapezoid,
            EnergyMethod::Counter => &self.counter,
        };
        energy.as_ref().map_err(|reason| *reason)
    }

    /// The energy by the method that counts, as an outcome.
    #[must_use]
    pub fn outcome(&self) -> Outcome {
        match self.chosen() {
            Ok(energy) => energy.outcome(),
            Err(reason) => Outcome { method: Some(self.method), ..Outcome::missing(reason) },
        }
    }

    /// (counter − trapezoid) / trapezoid.
    #[must_use]
    pub fn method_difference(&self) -> Outcome {
        let both = || {
            let trapezoid = self.trapezoid.as_ref().map_err(|reason| *reason)?;
            let counter = self.counter.as_ref().map_err(|reason| *reason)?;
            Ok((trapezoid, counter))
        };
        match both() {
            Ok((trapezoid, counter)) => {
                let trapezoid_j = trapezoid.total_j();
                Outcome::number(Ok((counter.total_j() - trapezoid_j) / trapezoid_j))
                    .with_flags(trapezoid.flags.union(counter.flags))
                    .over(trapezoid.window)
            }
            Err(reason) => Outcome::missing(reason),
        }
    }
}

/// Energy of a stage by both methods. The method that counts is the one that the run names, else
/// `default`; a default of counter needs a counter on every device.
#[must_use]
pub fn stage_energy(
    set: &Result<DeviceSet<'_>, Reason>,
    window: Result<Interval, Reason>,
    named: Option<EnergyMethod>,
    default: EnergyMethod,
) -> StageEnergy {
    let (set, window) = match (set, window) {
        (Ok(set), Ok(window)) => (set, window),
        (Err(reason), _) => return StageEnergy::missing(*reason),
        (_, Err(reason)) => return StageEnergy::missing(reason),
    };
    let all_have_counters = set.devices.iter().all(|(device, _)| !device.energy_j.is_empty());
    let method = named.unwrap_or(match default {
        EnergyMethod::Counter if all_have_counters => EnergyMethod::Counter,
        _ => EnergyMethod::Trapezoid,
    });
    StageEnergy {
        method,
        trapezoid: window_energy(set, window, EnergyMethod::Trapezoid),
        counter: window_energy(set, window, EnergyMethod::Counter),
    }
}
