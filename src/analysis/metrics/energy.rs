//! Energy and power of the accelerators, stage by stage.

use wattrace_schema::{EnergyMethod, FlagSet, Interval, Reason, Run};

use super::attribution::Attribution;
use super::release::Release;
use super::{BENCHMARK, Context, MetricRow, PROJECT, Stage, declare, windows};
use crate::outcome::{Metric, Outcome, Value};
use crate::series::{DeviceSet, StageEnergy, stage_energy};

declare! {
    IDLE_POWER_W "idle_power_w" F64 Watt Accelerators BENCHMARK,
        "Energy of all accelerators over [idle_start, idle_end] by trapezoid, divided by its duration.";
    STARTUP_ENERGY_J "startup_energy_j" F64 Joule Accelerators BENCHMARK,
        "Energy of all accelerators over [launch, formal_start]; idle power is not subtracted.";
    FORMAL_ENERGY_J "formal_energy_j" F64 Joule Accelerators BENCHMARK,
        "Energy of all accelerators over [formal_start, formal_end]; idle power is not subtracted.";
    RELEASE_ENERGY_J "release_energy_j" F64 Joule Accelerators BENCHMARK,
        "Energy of all accelerators over [formal_end, release_end]; idle power is not subtracted.";
    LIFECYCLE_ENERGY_J "lifecycle_energy_j" F64 Joule Accelerators BENCHMARK,
        "Start-up, formal and release energy together.";
    FORMAL_J_PER_TOKEN "formal_j_per_token" F64 JoulePerToken AcceleratorsAndClient BENCHMARK,
        "Formal energy divided by the output tokens of successful formal requests.";
    LIFECYCLE_J_PER_TOKEN "lifecycle_j_per_token" F64 JoulePerToken AcceleratorsAndClient BENCHMARK,
        "Lifecycle energy divided by the output tokens of successful formal requests.";
    FORMAL_POWER_W "formal_power_w" F64 Watt Accelerators BENCHMARK,
        "Formal energy divided by the duration of the formal window, all accelerators together.";
    LIFECYCLE_POWER_W "lifecycle_power_w" F64 Watt Accelerators BENCHMARK,
        "Lifecycle energy divided by the time from launch to release_end, all accelerators together.";
    UNATTRIBUTED_ENERGY_J "unattributed_energy_j" F64 Joule AcceleratorsAndClient BENCHMARK,
        "Formal energy of the intervals in which no successful request generated a token.";
    STARTUP_ENERGY_TRAPEZOID_J "startup_energy_trapezoid_j" F64 Joule Accelerators PROJECT,
        "Start-up energy as the integral of sampled power.";
    STARTUP_ENERGY_COUNTER_J "startup_energy_counter_j" F64 Joule Accelerators PROJECT,
        "Start-up energy as the rise of the energy counters.";
    STARTUP_ENERGY_METHOD_DIFFERENCE "startup_energy_method_difference" F64 Ratio Accelerators PROJECT,
        "(counter - trapezoid) / trapezoid of the start-up energy.";
    FORMAL_ENERGY_TRAPEZOID_J "formal_energy_trapezoid_j" F64 Joule Accelerators PROJECT,
        "Formal energy as the integral of sampled power.";
    FORMAL_ENERGY_COUNTER_J "formal_energy_counter_j" F64 Joule Accelerators PROJECT,
        "Formal energy as the rise of the energy counters.";
    FORMAL_ENERGY_METHOD_DIFFERENCE "formal_energy_method_difference" F64 Ratio Accelerators PROJECT,
        "(counter - trapezoid) / trapezoid of the formal energy.";
    RELEASE_ENERGY_TRAPEZOID_J "release_energy_trapezoid_j" F64 Joule Accelerators PROJECT,
        "Release energy as the integral of sampled power.";
    RELEASE_ENERGY_COUNTER_J "release_energy_counter_j" F64 Joule Accelerators PROJECT,
        "Release energy as the rise of the energy counters.";
    RELEASE_ENERGY_METHOD_DIFFERENCE "release_energy_method_difference" F64 Ratio Accelerators PROJECT,
        "(counter - trapezoid) / trapezoid of the release energy.";
}

/// Energy of the formal stage: the counter where every device has one, unless the run names a method.
pub(super) fn formal_energy(
    run: &Run,
    accelerators: &Result<DeviceSet<'_>, Reason>,
    formal: Result<Interval, Reason>,
) -> StageEnergy {
    stage_energy(accelerators, formal, run.manifest.energy_method.formal, EnergyMethod::Counter)
}

/// The three columns that show both methods of a stage beside each other.
pub(super) fn fill_both_methods(
    row: &mut MetricRow,
    stage: &StageEnergy,
    [trapezoid, counter, difference]: [&Metric; 3],
) {
    let outcome = |energy: &Result<crate::series::WindowEnergy, Reason>| match energy {
        Ok(energy) => energy.outcome(),
        Err(reason) => Outcome::missing(*reason),
    };
    row.set(trapezoid, outcome(&stage.trapezoid));
    row.set(counter, outcome(&stage.counter));
    row.set(difference, stage.method_difference());
}

/// An energy divided by its window's duration.
pub(super) fn mean_power(energy: Outcome) -> Outcome {
    let duration_s = energy.window.map(Interval::duration_s).ok_or(Reason::NoStamp);
    energy.divided_by(duration_s)
}

pub(super) fn fill(context: &Context<'_>, release: Result<Release, Reason>, row: &mut MetricRow) {
    let manifest = &context.run.manifest;
    let trapezoid = EnergyMethod::Trapezoid;

    let idle = windows::idle(&manifest.stages);
    let idle = stage_energy(&context.accelerators, idle, Some(trapezoid), trapezoid);
    row.set(&IDLE_POWER_W, mean_power(idle.outcome()));
    row.record(Stage::Idle, &idle);

    let startup_window = windows::startup(&manifest.stages);
    let named = manifest.energy_method.startup;
    let startup = stage_energy(&context.accelerators, startup_window, named, trapezoid);
    row.set(&STARTUP_ENERGY_J, startup.outcome());
    row.record(Stage::Startup, &startup);
    fill_both_methods(
        row,
        &startup,
        [&STARTUP_ENERGY_TRAPEZOID_J, &STARTUP_ENERGY_COUNTER_J, &STARTUP_ENERGY_METHOD_DIFFERENCE],
    );

    let formal = context.formal_energy.outcome();
    row.set(&FORMAL_ENERGY_J, formal);
    row.record(Stage::Formal, &context.formal_energy);
    row.set(&FORMAL_POWER_W, mean_power(formal));
    row.set(
        &FORMAL_J_PER_TOKEN,
        formal.divided_by(context.log.tokens_for_ratio()).with_flags(context.log.flags),
    );
    fill_both_methods(
        row,
        &context.formal_energy,
        [&FORMAL_ENERGY_TRAPEZOID_J, &FORMAL_ENERGY_COUNTER_J, &FORMAL_ENERGY_METHOD_DIFFERENCE],
    );

    let release_flags = release.as_ref().map_or(FlagSet::EMPTY, |release| release.flags);
    let release_window = release.and_then(|release| release.window());
    let named = manifest.energy_method.release;
    let release = stage_energy(&context.accelerators, release_window, named, trapezoid);
    row.set(&RELEASE_ENERGY_J, release.outcome().with_flags(release_flags));
    row.record(Stage::Release, &release);
    fill_both_methods(
        row,
        &release,
        [&RELEASE_ENERGY_TRAPEZOID_J, &RELEASE_ENERGY_COUNTER_J, &RELEASE_ENERGY_METHOD_DIFFERENCE],
    );

    let lifecycle = lifecycle(&startup, &context.formal_energy, &release).with_flags(release_flags);
    row.set(&LIFECYCLE_ENERGY_J, lifecycle);
    row.set(&LIFECYCLE_POWER_W, mean_power(lifecycle));
    row.set(
        &LIFECYCLE_J_PER_TOKEN,
        lifecycle.divided_by(context.log.tokens_for_ratio()).with_flags(context.log.flags),
    );
}

/// The sum of the three stages, over the time from launch to release_end.
fn lifecycle(startup: &StageEnergy, formal: &StageEnergy, release: &StageEnergy) -> Outcome {
    let stages = || match (startup.chosen(), formal.chosen(), release.chosen()) {
        // A release that did not close is the reason that counts, whatever else is missing.
        (_, _, Err(Reason::ReleaseNotClosed)) => Err(Reason::ReleaseNotClosed),
        (startup, formal, release) => Ok((startup?, formal?, release?)),
    };
    match stages() {
        Ok((startup, formal, release)) => {
            let total_j = startup.total_j() + formal.total_j() + release.total_j();
            let same_method = startup.method == formal.method && formal.method == release.method;
            let flags = startup.flags.union(formal.flags).union(release.flags);
            Outcome {
                method: same_method.then_some(startup.method),
                ..Outcome::of(Value::F64(total_j))
                    .with_flags(flags)
                    .over(Interval::new(startup.window.start_ns, release.window.end_ns))
            }
        }
        Err(reason) => Outcome::missing(reason),
    }
}

pub(super) fn fill_unattributed(
    context: &Context<'_>,
    attribution: &Result<Attribution, Reason>,
    row: &mut MetricRow,
) {
    let outcome = match attribution {
        Ok(attribution) => Outcome {
            value: Ok(Value::F64(attribution.unattributed_j)),
            ..context.formal_energy.outcome()
        }
        .with_flags(attribution.flags),
        Err(reason) => Outcome::missing(*reason),
    };
    row.set(&UNATTRIBUTED_ENERGY_J, outcome);
}
