//! What each device contributes to each energy, and from which samples: what a sceptic redoes.

use wattrace_schema::{EnergyMethod, FlagSet, Interval};

use crate::series::{MeasuredDevice, SamplesRead, StageEnergy, WindowEnergy};

/// A window over which energy is computed, with the devices that it is computed for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    /// [idle_start, idle_end], accelerators.
    Idle,
    /// [launch, formal_start], accelerators.
    Startup,
    /// [formal_start, formal_end], accelerators.
    Formal,
    /// [steady_start, formal_end], accelerators.
    Steady,
    /// [formal_end, release_end], accelerators.
    Release,
    /// [decode_start, decode_end], accelerators.
    Decode,
    /// [formal_start, formal_end], the node.
    Node,
}

impl Stage {
    /// Every stage.
    pub const ALL: &'static [Self] = &[
        Self::Idle,
        Self::Startup,
        Self::Formal,
        Self::Steady,
        Self::Release,
        Self::Decode,
        Self::Node,
    ];

    /// The name in result tables.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Idle => "idle",
            Self::Startup => "startup",
            Self::Formal => "formal",
            Self::Steady => "steady",
            Self::Release => "release",
            Self::Decode => "decode",
            Self::Node => "formal-node",
        }
    }

    /// The window and the devices in words.
    #[must_use]
    pub const fn meaning(self) -> &'static str {
        match self {
            Self::Idle => "[idle_start, idle_end], accelerators",
            Self::Startup => "[launch, formal_start], accelerators",
            Self::Formal => "[formal_start, formal_end], accelerators",
            Self::Steady => "[steady_start, formal_end], accelerators",
            Self::Release => "[formal_end, release_end], accelerators",
            Self::Decode => "[decode_start, decode_end], accelerators",
            Self::Node => "[formal_start, formal_end], node",
        }
    }
}

/// Energy of one device over one stage by one method.
#[derive(Debug, Clone, PartialEq)]
pub struct DeviceEnergy {
    /// The stage.
    pub stage: Stage,
    /// The device.
    pub device: MeasuredDevice,
    /// The method.
    pub method: EnergyMethod,
    /// Whether this method's value is the stage's energy; the other one is a cross-check.
    pub counts: bool,
    /// The window.
    pub window: Interval,
    /// The energy, J.
    pub energy_j: f64,
    /// Samples inside the window.
    pub samples: usize,
    /// Which samples were read.
    pub read: SamplesRead,
    /// Seconds of the window that lie in sampling gaps.
    pub gap_s: f64,
    /// Seconds of the window in which the counter was reset.
    pub counter_lost_s: f64,
    /// What a reader must know.
    pub flags: FlagSet,
}

impl DeviceEnergy {
    /// Both methods of a stage, as far as each has a value.
    pub(super) fn of_stage(stage: Stage, energy: &StageEnergy) -> Vec<Self> {
        [&energy.counter, &energy.trapezoid]
            .into_iter()
            .flatten()
            .flat_map(|by_method| Self::of_window(stage, by_method, energy.method))
            .collect()
    }

    /// One row a device; `counting` is the method whose value is the stage's energy.
    pub(super) fn of_window(
        stage: Stage,
        energy: &WindowEnergy,
        counting: EnergyMethod,
    ) -> Vec<Self> {
        let row = |(device, curve): (&MeasuredDevice, &crate::series::EnergyCurve)| Self {
            stage,
            device: device.clone(),
            method: energy.method,
            counts: energy.method == counting,
            window: energy.window,
            energy_j: curve.total_j(),
            samples: curve.samples,
            read: curve.read,
            gap_s: curve.gap_s,
            counter_lost_s: curve.counter_lost_s,
            flags: curve.flags,
        };
        energy.devices.iter().zip(&energy.curves).map(row).collect()
    }
}
