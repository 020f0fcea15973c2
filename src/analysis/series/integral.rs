//! Energy of one device as a curve over a window: the integral of its power, or its counter.

use wattrace_schema::{Flag, FlagSet, Interpolation, Interval, NANOS_PER_SECOND, Reason, Series};

use super::counter;

/// Gaps up to this many median sample intervals count as ordinary sampling.
const GAP_INTERVALS: f64 = 3.0;

/// The longest ordinary distance between samples in a window, ns: three times the median interval
/// among the samples in it, or three times `nominal_interval_ns` with fewer than three samples. A run
/// may sample start-up at 1 Hz and requests at 10 Hz, hence the window.
#[must_use]
pub fn max_gap_ns(t_ns: &[i64], window: Interval, nominal_interval_ns: f64) -> f64 {
    let first = t_ns.partition_point(|t| *t < window.start_ns);
    let end = t_ns.partition_point(|t| *t <= window.end_ns).max(first);
    let inside = &t_ns[first..end];
    if inside.len() < 3 {
        return GAP_INTERVALS * nominal_interval_ns;
    }
    let mut intervals: Vec<u64> = inside.windows(2).map(|pair| pair[1].abs_diff(pair[0])).collect();
    let middle = intervals.len() / 2;
    let odd = intervals.len() % 2 == 1;
    let (below, upper, _) = intervals.select_nth_unstable(middle);
    let upper = *upper as f64;
    let median = if odd {
        upper
    } else {
        let lower = below.iter().copied().max().unwrap_or_default() as f64;
        (lower + upper) / 2.0
    };
    GAP_INTERVALS * median
}

/// Cumulative energy of one device over a window, zero at its start. Between two knots energy is the
/// integral of a straight line of power (samples), of constant power (steps), or itself a straight
/// line (counters).
#[derive(Debug, Clone)]
pub struct EnergyCurve {
    t_ns: Vec<i64>,
    energy_j: Vec<f64>,
    /// Power at each knot, W, where energy is the integral of straight lines between them.
    power_w: Option<Vec<f64>>,
    /// What a reader must know.
    pub flags: FlagSet,
    /// Seconds of the window that lie in sampling gaps.
    pub gap_s: f64,
    /// Seconds of the window in which the counter was reset.
    pub counter_lost_s: f64,
    /// Samples inside the window.
    pub samples: usize,
    /// Which samples were read, and what the quantity is at the edges.
    pub read: SamplesRead,
}

/// Which samples of a device a curve was made from, so that anyone can make it again.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SamplesRead {
    /// Time of the first sample read; the one before the window where its edge is interpolated.
    pub first_ns: i64,
    /// Time of the last sample read; the one after the window where its edge is interpolated.
    pub last_ns: i64,
    /// Power (W) or unwrapped counter (J) at the window's start.
    pub start_value: f64,
    /// Power (W) or unwrapped counter (J) at the window's end.
    pub end_value: f64,
    /// Longest distance between samples that counts as ordinary, s.
    pub max_gap_s: f64,
}

/// Where a window edge falls among the samples.
struct Edge {
    value: f64,
    held: bool,
}

/// The value at `t_ns`: interpolated between neighbours, or held from the nearest sample when `t_ns`
/// lies outside the samples by no more than `max_gap_ns`.
fn value_at(
    series: &Series,
    interpolation: Interpolation,
    t_ns: i64,
    max_gap_ns: f64,
) -> Result<Edge, Reason> {
    let after = series.t_ns.partition_point(|t| *t < t_ns);
    let outside = |sample: usize| {
        let distance_ns = series.t_ns[sample].abs_diff(t_ns);
        if distance_ns as f64 <= max_gap_ns {
            Ok(Edge { value: series.value[sample], held: true })
        } else {
            Err(Reason::NotCovered)
        }
    };
    if after == series.len() {
        return if series.is_empty() { Err(Reason::NoPowerSamples) } else { outside(after - 1) };
    }
    if series.t_ns[after] == t_ns {
        return Ok(Edge { value: series.value[after], held: false });
    }
    if after == 0 {
        return outside(0);
    }
    let value = match interpolation {
        Interpolation::Hold => series.value[after - 1],
        Interpolation::Linear => {
            let share = share_between(series.t_ns[after - 1], t_ns, series.t_ns[after]);
            series.value[after - 1] + (series.value[after] - series.value[after - 1]) * share
        }
    };
    Ok(Edge { value, held: false })
}

/// The value at `t_ns` between neighbouring samples; `None` outside the samples.
pub(crate) fn value_between(
    series: &Series,
    interpolation: Interpolation,
    t_ns: i64,
) -> Option<f64> {
    value_at(series, interpolation, t_ns, -1.0).ok().map(|edge| edge.value)
}

/// How far `t_ns` lies from `t0_ns` to `t1_ns`, 0 to 1. Differences are taken without sign, so that
/// even absurd stamps cannot overflow.
fn share_between(t0_ns: i64, t_ns: i64, t1_ns: i64) -> f64 {
    t_ns.abs_diff(t0_ns) as f64 / t1_ns.abs_diff(t0_ns) as f64
}

/// The samples of `series` strictly inside the window, with the two edges around them.
struct Clipped {
    t_ns: Vec<i64>,
    value: Vec<f64>,
    flags: FlagSet,
    gap_s: f64,
    samples: usize,
    read: SamplesRead,
}

fn clip(
    series: &Series,
    interpolation: Interpolation,
    window: Interval,
    max_gap_ns: f64,
) -> Result<Clipped, Reason> {
    let start = value_at(series, interpolation, window.start_ns, max_gap_ns)?;
    let end = value_at(series, interpolation, window.end_ns, max_gap_ns)?;
    let first = series.t_ns.partition_point(|t| *t <= window.start_ns);
    let past = series.t_ns.partition_point(|t| *t < window.end_ns).max(first);
    let mut t_ns = Vec::with_capacity(past - first + 2);
    let mut value = Vec::with_capacity(past - first + 2);
    t_ns.push(window.start_ns);
    value.push(start.value);
    t_ns.extend_from_slice(&series.t_ns[first..past]);
    value.extend_from_slice(&series.value[first..past]);
    t_ns.push(window.end_ns);
    value.push(end.value);

    let mut flags = FlagSet::EMPTY;
    flags.insert_if(start.held || end.held, Flag::EdgeHeld);
    let gap_s = match interpolation {
        // A step function that drops repeats is silent while nothing changes.
        Interpolation::Hold => 0.0,
        Interpolation::Linear => seconds_in_gaps(series, window, max_gap_ns, first, past),
    };
    flags.insert_if(gap_s > 0.0, Flag::SamplingGap);
    let on_edges = usize::from(first > 0 && series.t_ns[first - 1] == window.start_ns)
        + usize::from(
            past < series.len()
                && series.t_ns[past] == window.end_ns
                && window.end_ns > window.start_ns,
        );
    let read = SamplesRead {
        first_ns: series.t_ns[first.saturating_sub(1)],
        last_ns: series.t_ns[past.min(series.len() - 1)],
        start_value: start.value,
        end_value: end.value,
        max_gap_s: max_gap_ns / NANOS_PER_SECOND,
    };
    Ok(Clipped { t_ns, value, flags, gap_s, samples: past - first + on_edges, read })
}

/// Seconds of the window between neighbouring samples further apart than `max_gap_ns`; the neighbours
/// may lie outside the window.
fn seconds_in_gaps(
    series: &Series,
    window: Interval,
    max_gap_ns: f64,
    first: usize,
    past: usize,
) -> f64 {
    let from = first.saturating_sub(1);
    let to = (past + 1).min(series.len());
    series.t_ns[from..to]
        .windows(2)
        .filter(|pair| pair[1].abs_diff(pair[0]) as f64 > max_gap_ns)
        .map(|pair| {
            Interval::new(pair[0].max(window.start_ns), pair[1].min(window.end_ns)).duration_s()
        })
        .filter(|seconds| *seconds > 0.0)
        // An empty sum would be minus zero.
        .fold(0.0, |sum, seconds| sum + seconds)
}

impl EnergyCurve {
    /// The integral of sampled power over `window`: composite trapezoid with interpolated edges, or
    /// steps for [`Interpolation::Hold`].
    ///
    /// # Errors
    /// [`Reason::EmptyWindow`], [`Reason::NoPowerSamples`] or [`Reason::NotCovered`].
    pub(crate) fn from_power(
        power_w: &Series,
        interpolation: Interpolation,
        window: Interval,
        nominal_interval_ns: f64,
    ) -> Result<Self, Reason> {
        check_window(window)?;
        if power_w.is_empty() {
            return Err(Reason::NoPowerSamples);
        }
        let max_gap_ns = max_gap_ns(&power_w.t_ns, window, nominal_interval_ns);
        let clipped = clip(power_w, interpolation, window, max_gap_ns)?;
        let mut energy_j = Vec::with_capacity(clipped.t_ns.len());
        let mut total = 0.0;
        energy_j.push(total);
        for (t, p) in clipped.t_ns.windows(2).zip(clipped.value.windows(2)) {
            let seconds = t[1].abs_diff(t[0]) as f64 / NANOS_PER_SECOND;
            total += match interpolation {
                Interpolation::Linear => (p[0] + p[1]) / 2.0 * seconds,
                Interpolation::Hold => p[0] * seconds,
            };
            energy_j.push(total);
        }
        let power_w = (interpolation == Interpolation::Linear).then_some(clipped.value);
        Ok(Self {
            t_ns: clipped.t_ns,
            energy_j,
            power_w,
            flags: clipped.flags,
            gap_s: clipped.gap_s,
            counter_lost_s: 0.0,
            samples: clipped.samples,
            read: clipped.read,
        })
    }

    /// The rise of a cumulative counter over `window`, interpolated linearly at the edges; falls are
    /// unwrapped or left out as [`counter::monotone`] says.
    ///
    /// # Errors
    /// [`Reason::EmptyWindow`], [`Reason::NoCounter`] or [`Reason::NotCovered`].
    pub(crate) fn from_counter(
        energy_j: &Series,
        power_w: &Series,
        window: Interval,
        source: &counter::CounterSource,
    ) -> Result<Self, Reason> {
        check_window(window)?;
        if energy_j.is_empty() {
            return Err(Reason::NoCounter);
        }
        let max_gap_ns = max_gap_ns(&energy_j.t_ns, window, source.nominal_interval_ns);
        let rising = counter::monotone(energy_j, source);
        let clipped = clip(&rising.series, Interpolation::Linear, window, max_gap_ns)?;
        let mut flags = clipped.flags;
        let lost_s = rising.seconds_reset_in(window);
        flags.insert_if(lost_s > 0.0, Flag::CounterReset);
        flags.insert_if(rising.wrapped_in(window), Flag::CounterWrap);
        let stale_after_ns = max_gap_ns.max(3.0 * source.refresh_ns.unwrap_or(0.0));
        flags.insert_if(
            counter::is_stale(energy_j, power_w, window, stale_after_ns),
            Flag::CounterStale,
        );
        let base = clipped.value[0];
        Ok(Self {
            t_ns: clipped.t_ns,
            energy_j: clipped.value.iter().map(|value| value - base).collect(),
            power_w: None,
            flags,
            gap_s: clipped.gap_s,
            counter_lost_s: lost_s,
            samples: clipped.samples,
            read: clipped.read,
        })
    }

    /// Energy of the whole window, J.
    #[must_use]
    pub fn total_j(&self) -> f64 {
        // The constructors put at least the two edges in.
        self.energy_j[self.energy_j.len() - 1]
    }

    /// Adds the energy from the window's start to each of `times_ns` to `sums_j`. `times_ns` is sorted
    /// and lies within the window. One pass over the knots: O(times + knots).
    pub fn add_energy_until(&self, times_ns: &[i64], sums_j: &mut [f64]) {
        let mut knot = 0;
        let last_segment = self.t_ns.len() - 2;
        for (t_ns, sum_j) in times_ns.iter().zip(sums_j) {
            while knot < last_segment && self.t_ns[knot + 1] < *t_ns {
                knot += 1;
            }
            *sum_j += self.energy_within(knot, *t_ns);
        }
    }

    /// Energy from the window's start to `t_ns`, which lies in the segment after `knot`.
    fn energy_within(&self, knot: usize, t_ns: i64) -> f64 {
        let (t0, t1) = (self.t_ns[knot], self.t_ns[knot + 1]);
        if t_ns >= t1 {
            return self.energy_j[knot + 1];
        }
        let share = share_between(t0, t_ns, t1);
        match &self.power_w {
            Some(power_w) => {
                let seconds = t_ns.abs_diff(t0) as f64 / NANOS_PER_SECOND;
                let (p0, p1) = (power_w[knot], power_w[knot + 1]);
                self.energy_j[knot] + (p0 + (p1 - p0) * share / 2.0) * seconds
            }
            None => self.energy_j[knot] + (self.energy_j[knot + 1] - self.energy_j[knot]) * share,
        }
    }
}

fn check_window(window: Interval) -> Result<(), Reason> {
    // A window without length holds no energy: a release that ends at once, for instance.
    if window.end_ns < window.start_ns { Err(Reason::EmptyWindow) } else { Ok(()) }
}
