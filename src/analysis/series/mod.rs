//! Energy over windows from power samples and from cumulative counters (metrics definition, section 1).

mod counter;
mod devices;
mod energy;
mod integral;

pub use devices::{DeviceSet, accelerators, node};
pub use energy::{MeasuredDevice, StageEnergy, WindowEnergy, stage_energy, window_energy};
pub(crate) use integral::value_between;
pub use integral::{EnergyCurve, SamplesRead, max_gap_ns};

#[cfg(test)]
mod tests;
