//! When iterations ended, from a log whose stamps have whole seconds.
//!
//! An iteration printed in second `s` ended in `[s, s + 1)`, and no later than its line was seen.
//! Iterations of one engine follow each other, so each ends at least its own duration after the one before.
//! Going forward gives the earliest time that keeps both, going backward the latest; the middle of the two
//! keeps the order and is never further from the truth than half their distance.

use std::collections::VecDeque;

use super::dating::Written;

/// Iterations that are held until enough later ones are known; a minute and more of fast decoding.
const HELD: usize = 16_384;

/// The end of an iteration, as well as it can be known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct StepTime {
    pub(super) t_start_ns: i64,
    pub(super) t_end_ns: i64,
    /// Half the distance between the earliest and the latest end.
    pub(super) uncertainty_ns: u64,
}

/// One iteration whose time is not settled yet, with what is carried along.
#[derive(Debug)]
struct Held<T> {
    earliest_ns: i64,
    latest_ns: i64,
    elapsed_ns: i64,
    carried: T,
}

/// Settles the times of one engine's iterations, in the order of the log.
#[derive(Debug)]
pub(super) struct StepTimes<T> {
    held: VecDeque<Held<T>>,
    last_earliest_ns: Option<i64>,
    last_end_ns: Option<i64>,
    /// Iterations whose durations do not fit between the stamps around them.
    pub(super) overlapping: u64,
}

impl<T> Default for StepTimes<T> {
    fn default() -> Self {
        Self { held: VecDeque::new(), last_earliest_ns: None, last_end_ns: None, overlapping: 0 }
    }
}

impl<T> StepTimes<T> {
    /// Takes an iteration that took `elapsed_ns` and was then printed. Gives iterations whose times are
    /// settled by now.
    pub(super) fn push(
        &mut self,
        printed: Written,
        elapsed_ns: i64,
        carried: T,
    ) -> Vec<(StepTime, T)> {
        let Written { earliest_ns, latest_ns, .. } = printed;
        let after = self.last_earliest_ns.map(|last| last.saturating_add(elapsed_ns));
        let earliest_ns = after.map_or(earliest_ns, |after| after.max(earliest_ns));
        if earliest_ns > latest_ns {
            self.overlapping += 1;
        }
        let earliest_ns = earliest_ns.min(latest_ns);
        self.last_earliest_ns = Some(earliest_ns);
        self.held.push_back(Held { earliest_ns, latest_ns, elapsed_ns, carried });
        if self.held.len() >= HELD { self.settle(HELD / 2) } else { Vec::new() }
    }

    /// Gives the iterations that ended before `horizon_ns`, for a caller that cannot wait for the end of
    /// the log. What comes later says little of them if the horizon lies a few seconds back.
    pub(super) fn settle_before(&mut self, horizon_ns: i64) -> Vec<(StepTime, T)> {
        self.settle(self.held.iter().take_while(|held| held.latest_ns < horizon_ns).count())
    }

    /// Gives all iterations that are still held.
    pub(super) fn finish(&mut self) -> Vec<(StepTime, T)> {
        self.settle(self.held.len())
    }

    fn settle(&mut self, count: usize) -> Vec<(StepTime, T)> {
        let mut latest_ns = vec![0; self.held.len()];
        let mut bound = i64::MAX;
        for (latest, held) in latest_ns.iter_mut().zip(&self.held).rev() {
            *latest = bound.min(held.latest_ns).max(held.earliest_ns);
            bound = latest.saturating_sub(held.elapsed_ns);
        }
        let mut settled = Vec::with_capacity(count);
        for latest in latest_ns.into_iter().take(count) {
            let Some(held) = self.held.pop_front() else { break };
            let slack_ns = held.earliest_ns.abs_diff(latest);
            let middle_ns = held.earliest_ns.saturating_add((slack_ns / 2) as i64);
            // Rows given earlier did not know of later stamps; the order is kept all the same.
            let end_ns = self.last_end_ns.map_or(middle_ns, |last| middle_ns.max(last));
            self.last_end_ns = Some(end_ns);
            let time = StepTime {
                t_start_ns: end_ns.saturating_sub(held.elapsed_ns),
                t_end_ns: end_ns,
                uncertainty_ns: slack_ns.div_ceil(2),
            };
            settled.push((time, held.carried));
        }
        settled
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::clock::SECOND_NS;
    use super::*;

    fn settled(iterations: &[(i64, i64)]) -> (Vec<StepTime>, u64) {
        let mut times = StepTimes::default();
        let mut all = Vec::new();
        for (second_ns, elapsed_ns) in iterations {
            all.extend(times.push(Written::within(*second_ns), *elapsed_ns, ()));
        }
        all.extend(times.finish());
        (all.into_iter().map(|(time, ())| time).collect(), times.overlapping)
    }

    #[test]
    fn a_second_full_of_iterations_pins_them() {
        // Ten iterations of 0.1 s in second 5, then one of 0.1 s in second 6: the tenth ended before 6.0, so
        // the first before 5.1, and after 5.0. With the next one after 6.0, the middle is 5.05 for the first.
        let mut iterations = vec![(5 * SECOND_NS, SECOND_NS / 10); 10];
        iterations.push((6 * SECOND_NS, SECOND_NS / 10));
        let (times, overlapping) = settled(&iterations);
        assert_eq!(overlapping, 0);
        assert!((times[0].t_end_ns - 5_050_000_000).abs() <= 1, "{times:?}");
        assert!((times[9].t_end_ns - 5_950_000_000).abs() <= 1, "{times:?}");
        assert_eq!(times[0].uncertainty_ns, 50_000_000);
        assert_eq!(times[0].t_end_ns - times[0].t_start_ns, SECOND_NS / 10);
    }

    #[test]
    fn iterations_longer_than_their_second_are_counted() {
        let (times, overlapping) = settled(&[(0, SECOND_NS), (0, SECOND_NS), (0, SECOND_NS)]);
        assert_eq!((times.len(), overlapping), (3, 2));
        assert!(times.is_sorted_by_key(|time| time.t_end_ns));
    }

    #[test]
    fn a_line_seen_early_in_its_second_is_known_better() {
        let mut times = StepTimes::default();
        // Ended in [5.0, 5.2] s.
        let latest_ns = 5 * SECOND_NS + SECOND_NS / 5;
        let seen = Written { latest_ns, ..Written::within(5 * SECOND_NS) };
        assert!(times.push(seen, SECOND_NS / 10, ()).is_empty());
        assert!(times.settle_before(latest_ns).is_empty());
        let settled = times.settle_before(6 * SECOND_NS);
        assert_eq!(
            (settled[0].0.t_end_ns, settled[0].0.uncertainty_ns),
            (5_100_000_000, 100_000_000)
        );
        assert!(times.finish().is_empty());
    }

    proptest! {
        /// Times drawn at random and printed as whole seconds come back within the stated uncertainty.
        #[test]
        fn the_truth_lies_within_the_uncertainty(
            steps in prop::collection::vec((1_i64..300_000_000, 0_i64..200_000_000), 1..300),
        ) {
            let mut clock_ns = 0;
            let mut truth = Vec::new();
            for (elapsed_ns, idle_ns) in steps {
                clock_ns += idle_ns + elapsed_ns;
                truth.push((clock_ns, elapsed_ns));
            }
            let printed: Vec<(i64, i64)> =
                truth.iter().map(|(end, elapsed)| (end / SECOND_NS * SECOND_NS, *elapsed)).collect();
            let (times, overlapping) = settled(&printed);
            prop_assert_eq!(overlapping, 0);
            for ((end_ns, _), time) in truth.iter().zip(&times) {
                prop_assert!(end_ns.abs_diff(time.t_end_ns) <= time.uncertainty_ns + 1);
            }
        }
    }
}
