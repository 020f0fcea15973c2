//! What power does once the formal stage is over, and when a perfect instrument sees it back at idle.

use crate::plan::ReleasePlan;
use crate::profile::PowerProfile;
use crate::{nanoseconds_to_seconds, seconds_to_ns};

/// How far from its idle baseline a board may be, as a share.
const BAND: f64 = 0.05;
/// How long it must stay there.
const HOLD_NS: i64 = 30_000_000_000;

/// When things happen after the formal stage.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ReleaseTimes {
    pub(super) exit_ns: i64,
    pub(super) memory_released_ns: i64,
    pub(super) monitor_end_ns: i64,
}

impl ReleaseTimes {
    pub(super) fn new(plan: &ReleasePlan, formal_end_ns: i64) -> Self {
        let exit_ns = formal_end_ns + seconds_to_ns(plan.exit_s.get());
        Self {
            exit_ns,
            memory_released_ns: exit_ns + seconds_to_ns(plan.memory_s.get()),
            monitor_end_ns: formal_end_ns + seconds_to_ns(plan.monitor_s.get()),
        }
    }
}

/// Appends the power of one nominal board from the end of the profile, which is the end of the formal
/// stage, until `until_ns`. The decay is exponential at ten points per time constant and straight
/// between them; after twelve time constants it is over.
pub(super) fn append_release(
    profile: &mut PowerProfile,
    plan: &ReleasePlan,
    times: ReleaseTimes,
    ready_w: f64,
    idle_w: f64,
    until_ns: i64,
) {
    let formal_end_ns = profile.end_ns();
    let final_w = idle_w + plan.residual_w.get();
    let decay_s = plan.decay_s.get();
    let decayed_ns = times.exit_ns + seconds_to_ns(12.0 * decay_s);
    let without_bump_w = |t_ns: i64| {
        if t_ns <= times.exit_ns {
            ready_w
        } else if t_ns >= decayed_ns {
            final_w
        } else {
            let passed = nanoseconds_to_seconds(t_ns - times.exit_ns) / decay_s;
            final_w + (ready_w - final_w) * (-passed).exp()
        }
    };
    let bump = plan.bump.as_ref().map(|bump| {
        let start_ns = formal_end_ns + seconds_to_ns(bump.after_s.get());
        (start_ns, start_ns + seconds_to_ns(bump.seconds.get()), bump.power_w.get())
    });
    let mut points: Vec<i64> = (0..=120)
        .map(|tenth| times.exit_ns + seconds_to_ns(f64::from(tenth) * decay_s / 10.0))
        .collect();
    points.extend(bump.into_iter().flat_map(|(start_ns, end_ns, _)| [start_ns, end_ns]));
    points.extend([decayed_ns, until_ns]);
    points.sort_unstable();
    for end_ns in points.into_iter().filter(|point| *point <= until_ns) {
        let start_ns = profile.end_ns();
        let extra_w = match bump {
            Some((from_ns, to_ns, power_w)) if from_ns <= start_ns && start_ns < to_ns => power_w,
            _ => 0.0,
        };
        profile.ramp(end_ns, without_bump_w(start_ns) + extra_w, without_bump_w(end_ns) + extra_w);
    }
}

/// The first instant from `earliest_ns` at which power is within ±5% of `idle_w` and stays there for 30 s,
/// all before `monitor_end_ns`. Every board draws the nominal board's power times a factor of its own, so one
/// band holds for all.
pub(super) fn release_end_ns(
    profile: &PowerProfile,
    idle_w: f64,
    earliest_ns: i64,
    monitor_end_ns: i64,
) -> Option<i64> {
    // A hair wider than the rule, which rounding must not decide.
    let band = BAND * idle_w * (1.0 + 1e-12);
    let inside = |power_w: f64| (power_w - idle_w).abs() <= band;
    let mut since_ns = None;
    for (piece_start_ns, piece_end_ns, piece_from_w, piece_to_w) in profile.pieces() {
        let (start_ns, end_ns) =
            (piece_start_ns.max(earliest_ns), piece_end_ns.min(monitor_end_ns));
        if start_ns >= end_ns {
            continue;
        }
        let slope = (piece_to_w - piece_from_w) / (piece_end_ns - piece_start_ns) as f64;
        let power_w = |t_ns: i64| piece_from_w + slope * (t_ns - piece_start_ns) as f64;
        let (from_w, to_w) = (power_w(start_ns), power_w(end_ns));
        match (inside(from_w), inside(to_w)) {
            (true, true) => since_ns = since_ns.or(Some(start_ns)),
            (false, true) => {
                let edge_w = if from_w > idle_w { idle_w + band } else { idle_w - band };
                let share = (from_w - edge_w) / (from_w - to_w);
                since_ns = Some(start_ns + (share * (end_ns - start_ns) as f64).ceil() as i64);
            }
            // Power leaves the band, or crosses it in far less than the hold.
            (_, false) => since_ns = None,
        }
        if let Some(since) = since_ns.filter(|since| end_ns - since >= HOLD_NS) {
            return Some(since);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: i64 = 1_000_000_000;

    #[test]
    fn the_end_is_where_the_ramp_enters_the_band() {
        // Idle 100 W; from 200 W to 100 W in 100 s: within 105 W after 95 s.
        let mut profile = PowerProfile::starting_at(0);
        profile.ramp(100 * SECOND, 200.0, 100.0);
        profile.hold(200 * SECOND, 100.0);
        assert_eq!(release_end_ns(&profile, 100.0, 0, 200 * SECOND), Some(95 * SECOND));
        // The stamps may come later.
        assert_eq!(release_end_ns(&profile, 100.0, 99 * SECOND, 200 * SECOND), Some(99 * SECOND));
        // The hold must end by the end of monitoring.
        assert_eq!(release_end_ns(&profile, 100.0, 0, 125 * SECOND), Some(95 * SECOND));
        assert_eq!(release_end_ns(&profile, 100.0, 0, 125 * SECOND - 1), None);
    }

    #[test]
    fn a_bump_needs_a_second_attempt() {
        let mut profile = PowerProfile::starting_at(0);
        profile.hold(20 * SECOND, 100.0);
        profile.hold(30 * SECOND, 140.0);
        profile.hold(90 * SECOND, 100.0);
        assert_eq!(release_end_ns(&profile, 100.0, 0, 90 * SECOND), Some(30 * SECOND));
    }

    #[test]
    fn the_bump_and_the_residue_of_the_plan_are_in_the_power() {
        let plan: ReleasePlan = toml::from_str(
            "exit_s = 1\ndecay_s = 2\nresidual_w = 10\nbump = { after_s = 40, seconds = 5, power_w = 50 }",
        )
        .unwrap();
        let mut profile = PowerProfile::starting_at(0);
        let times = ReleaseTimes::new(&plan, 0);
        append_release(&mut profile, &plan, times, 120.0, 70.0, 100 * SECOND);
        assert_eq!(profile.end_ns(), 100 * SECOND);
        assert_eq!(profile.power_w(SECOND / 2), 120.0);
        // One time constant after the exit: 80 + 40/e.
        let expected = 80.0 + 40.0 / std::f64::consts::E;
        assert!((profile.power_w(3 * SECOND) - expected).abs() < 1e-9);
        assert_eq!(profile.power_w(42 * SECOND), 130.0);
        assert_eq!(profile.power_w(99 * SECOND), 80.0);
    }
}
