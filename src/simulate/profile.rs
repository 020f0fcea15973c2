//! True power as a function of time: pieces of straight lines, whose integral is exact.

use crate::nanoseconds_to_seconds;

/// Power over a span of time, piecewise linear, with jumps between the pieces.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct PowerProfile {
    /// Where each piece begins; the next one begins where it ends.
    piece_start_ns: Vec<i64>,
    power_at_start_w: Vec<f64>,
    power_at_end_w: Vec<f64>,
    /// Energy of all pieces before each one.
    energy_before_j: Vec<f64>,
    end_ns: i64,
    energy_j: f64,
}

impl PowerProfile {
    /// An empty profile that begins at `start_ns`.
    pub(crate) const fn starting_at(start_ns: i64) -> Self {
        Self {
            piece_start_ns: Vec::new(),
            power_at_start_w: Vec::new(),
            power_at_end_w: Vec::new(),
            energy_before_j: Vec::new(),
            end_ns: start_ns,
            energy_j: 0.0,
        }
    }

    /// Where the last piece ends.
    pub(crate) const fn end_ns(&self) -> i64 {
        self.end_ns
    }

    /// Adds constant power until `end_ns`; nothing when that is not after the end so far.
    pub(crate) fn hold(&mut self, end_ns: i64, power_w: f64) {
        self.ramp(end_ns, power_w, power_w);
    }

    /// Adds a straight line until `end_ns`; nothing when that is not after the end so far.
    pub(crate) fn ramp(&mut self, end_ns: i64, from_w: f64, to_w: f64) {
        if end_ns <= self.end_ns {
            return;
        }
        self.piece_start_ns.push(self.end_ns);
        self.power_at_start_w.push(from_w);
        self.power_at_end_w.push(to_w);
        self.energy_before_j.push(self.energy_j);
        self.energy_j += 0.5 * (from_w + to_w) * nanoseconds_to_seconds(end_ns - self.end_ns);
        self.end_ns = end_ns;
    }

    /// The pieces as (start, end, power at start, power at end).
    pub(crate) fn pieces(&self) -> impl Iterator<Item = (i64, i64, f64, f64)> {
        (0..self.piece_start_ns.len()).map(|index| {
            let end_ns = self.piece_start_ns.get(index + 1).copied().unwrap_or(self.end_ns);
            let (from_w, to_w) = (self.power_at_start_w[index], self.power_at_end_w[index]);
            (self.piece_start_ns[index], end_ns, from_w, to_w)
        })
    }

    /// The piece that holds `t_ns`, the later one at a joint, with the time and the share passed in it.
    fn locate(&self, t_ns: i64) -> Option<(usize, f64, f64)> {
        let t_ns = t_ns.min(self.end_ns);
        let index = self.piece_start_ns.partition_point(|start| *start <= t_ns).checked_sub(1)?;
        let start_ns = self.piece_start_ns[index];
        let end_ns = self.piece_start_ns.get(index + 1).copied().unwrap_or(self.end_ns);
        let passed_s = nanoseconds_to_seconds(t_ns - start_ns);
        Some((index, passed_s, passed_s / nanoseconds_to_seconds(end_ns - start_ns)))
    }

    /// Power at an instant; outside the profile, that of its nearest end.
    pub(crate) fn power_w(&self, t_ns: i64) -> f64 {
        match self.locate(t_ns) {
            Some((index, _, share)) => {
                let from_w = self.power_at_start_w[index];
                from_w + (self.power_at_end_w[index] - from_w) * share
            }
            None => self.power_at_start_w.first().copied().unwrap_or(0.0),
        }
    }

    /// Energy from the beginning of the profile to `t_ns`, which is held within the profile.
    pub(crate) fn energy_until_j(&self, t_ns: i64) -> f64 {
        match self.locate(t_ns) {
            Some((index, passed_s, share)) => {
                let from_w = self.power_at_start_w[index];
                let now_w = from_w + (self.power_at_end_w[index] - from_w) * share;
                self.energy_before_j[index] + 0.5 * (from_w + now_w) * passed_s
            }
            None => 0.0,
        }
    }

    /// Energy between two times.
    pub(crate) fn energy_j(&self, from_ns: i64, to_ns: i64) -> f64 {
        self.energy_until_j(to_ns) - self.energy_until_j(from_ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: i64 = 1_000_000_000;

    /// 10 W for 2 s, then from 20 W to 40 W in 4 s.
    fn step_and_ramp() -> PowerProfile {
        let mut profile = PowerProfile::starting_at(100 * SECOND);
        profile.hold(102 * SECOND, 10.0);
        profile.ramp(106 * SECOND, 20.0, 40.0);
        profile
    }

    #[test]
    fn energy_is_the_area() {
        let profile = step_and_ramp();
        // 10·2 + (20 + 40)/2·4 = 140 J.
        assert_eq!(profile.energy_j(100 * SECOND, 106 * SECOND), 140.0);
        // From 101 s: 10 J; to 104 s, where power is 30 W: (20 + 30)/2·2 = 50 J.
        assert_eq!(profile.energy_j(101 * SECOND, 104 * SECOND), 60.0);
        // Nothing lies outside.
        assert_eq!(profile.energy_j(0, 200 * SECOND), 140.0);
    }

    #[test]
    fn power_jumps_at_a_joint_and_holds_outside() {
        let profile = step_and_ramp();
        assert_eq!(profile.power_w(102 * SECOND - 1), 10.0);
        assert_eq!(profile.power_w(102 * SECOND), 20.0);
        assert_eq!(profile.power_w(105 * SECOND), 35.0);
        assert_eq!(profile.power_w(0), 10.0);
        assert_eq!(profile.power_w(i64::MAX), 40.0);
    }

    #[test]
    fn a_piece_without_length_is_left_out() {
        let mut profile = step_and_ramp();
        profile.hold(106 * SECOND, 1e9);
        assert_eq!(profile, step_and_ramp());
    }
}
