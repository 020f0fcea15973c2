//! The fixed list of flags: what a reader must know beside a number that could be had.

use std::fmt;

macro_rules! flags {
    ($($(#[doc = $meaning:literal])+ $variant:ident = $code:literal,)+) => {
        /// Something a reader must know beside a number. The code is what stands in result tables.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Flag { $($(#[doc = $meaning])+ $variant,)+ }

        impl Flag {
            /// Every flag, in the order of their declaration.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)+];

            /// The code in result tables.
            #[must_use]
            pub const fn code(self) -> &'static str {
                match self { $(Self::$variant => $code,)+ }
            }

            /// The flag of that code.
            #[must_use]
            pub fn from_code(code: &str) -> Option<Self> {
                Self::ALL.iter().copied().find(|flag| flag.code() == code)
            }

            /// What the flag means, for a reader of the tables.
            #[must_use]
            pub const fn meaning(self) -> &'static str {
                match self { $(Self::$variant => concat!($($meaning),+).trim_ascii_start(),)+ }
            }
        }
    };
}

flags! {
    /// A window edge lies outside the samples and the nearest sample was held, at most three sample intervals away.
    EdgeHeld = "edge-held",
    /// Neighbouring samples inside the window are further apart than three sample intervals; the gap was bridged linearly.
    SamplingGap = "sampling-gap",
    /// The energy counter fell inside the window; the segment in which it fell counts as nothing.
    CounterReset = "counter-reset",
    /// The energy counter reached its declared range inside the window and started again; the range was added.
    CounterWrap = "counter-wrap",
    /// The energy counter stood still for longer than three sample intervals while power was above zero.
    CounterStale = "counter-stale",
    /// Several samples of one source and device share a time; they count as one (mean power, largest counter).
    DuplicateTime = "duplicate-time",
    /// Samples that are negative or not finite were left out.
    InvalidSamples = "invalid-samples",
    /// A power sample is above what its scope can draw; it was used as it stands.
    AboveCeiling = "above-ceiling",
    /// A request's times run backwards; its latencies were left out.
    TimesReversed = "times-reversed",
    /// The only accelerator source measures the whole module (with its CPU or memory), not the board.
    ModuleScope = "module-scope",
    /// There is no node source; the value comes from the power distribution unit in front of the node.
    PduScope = "pdu-scope",
    /// The source reports a trailing average, so power near a window edge belongs partly to the time before it.
    AverageReading = "average-reading",
    /// Two sources of the same scope measure the same device; the one listed first was used.
    OverlappingSources = "overlapping-sources",
    /// The number of measured accelerators differs from `hardware.count`.
    DeviceCountMismatch = "device-count-mismatch",
    /// The chunks of a request do not add up to its output tokens; each chunk was weighted so that they do.
    ChunkMismatch = "chunk-mismatch",
    /// A successful request has no first-token time; its tokens lie evenly between sending and end.
    NoFirstToken = "no-first-token",
    /// A successful request has no end time.
    MissingEnd = "missing-end",
    /// A successful request generated outside the formal window; only the part inside was attributed.
    OutsideFormal = "outside-formal",
    /// A successful request has zero output tokens; it has no energy per token and is left out of the steady-state order.
    ZeroTokenRequest = "zero-token-request",
    /// The process exit or the memory release was not stamped and could not delay the release end.
    ReleaseStampMissing = "release-stamp-missing",
    /// The tokens come from a published rate that came with the data, not from a request log.
    ClaimedTokens = "claimed-tokens",
    /// The value comes from published totals, not from raw rows.
    Claimed = "claimed",
    /// The configuration read from the model's own file and `run.json` disagree on the weight bytes.
    GeometryMismatch = "geometry-mismatch",
    /// A decode step lies partly outside the decode window and was left out.
    StraddlingSteps = "straddling-steps",
    /// A decode step has no start time; whether it lies in the decode window was told from its end alone.
    StepStartMissing = "step-start-missing",
    /// The step log holds another number of replicas than `engine.replicas`, so tokens and energy do not belong together; the run stays out of the fits.
    ReplicaCountMismatch = "replica-count-mismatch",
    /// History is half the published mean output length: prompts and the spread of lengths are not in the published table.
    HistoryApproximate = "history-approximate",
    /// Steps of the decode window also prefilled tokens; the run stays out of the fits.
    MixedPrefill = "mixed-prefill",
    /// Steps of one replica overlap in time.
    OverlappingSteps = "overlapping-steps",
    /// Output tokens of the step log and of the request log differ.
    TokenMismatch = "token-mismatch",
    /// The data cannot tell this coefficient from the others.
    NotIdentified = "not-identified",
    /// A coordinate lies outside the range that the fit has seen.
    Extrapolated = "extrapolated",
    /// Fewer than twenty clusters: cluster-robust errors are themselves uncertain.
    FewClusters = "few-clusters",
    /// The coefficient was held at the bound that it would otherwise cross; it has no standard error.
    AtBoundary = "at-boundary",
    /// The model has sliding-window layers, so history beyond the window is not read: outside full-history decode.
    SlidingWindow = "sliding-window",
    /// The run is simulated.
    Synthetic = "synthetic",
    /// A lower request rate than the one of the goodput failed the service-level objective.
    NonMonotone = "non-monotone",
    /// The highest request rate that was tried still meets the service-level objective; the true goodput may be higher.
    AtSweepEnd = "at-sweep-end",
    /// A request rate has no verdict on the service-level objective, since its runs lack latencies.
    RateUndecided = "rate-undecided",
    /// Fewer than five runs stand behind the value.
    TooFewRepeats = "too-few-repeats",
    /// Some runs have no value and were left out of the median.
    RunsLeftOut = "runs-left-out",
    /// Some steps do not say how many distinct experts were read; the mean is over those that do.
    ExpertsSampled = "experts-sampled",
    /// The seeds' scores are spread over more than half of the drop that the spec allows.
    WideSeedSpread = "wide-seed-spread",
    /// A seed that the spec names has no scores.
    SeedsMissing = "seeds-missing",
    /// Items without a score under every seed, or without one on the other side, were left out.
    ItemsLeftOut = "items-left-out",
    /// Nothing says whether the configuration keeps its accuracy.
    AccuracyNotMeasured = "accuracy-not-measured",
    /// The two sides were not measured under one spec.
    UnequalSpecs = "unequal-specs",
    /// The two sides run on accelerators of different vendors, or of vendors that are not known.
    CrossVendor = "cross-vendor",
    /// An accelerator reported that it was slowed down.
    Throttled = "throttled",
    /// The spec was given on the command line; the run itself names none.
    SpecGiven = "spec-given",
    /// Runs of one configuration under one spec differ in model or hardware.
    MixedSubjects = "mixed-subjects",
}

impl fmt::Display for Flag {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.code())
    }
}

/// A set of flags, kept sorted, so that equal sets print equally.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct FlagSet(u64);

impl FlagSet {
    /// No flag.
    pub const EMPTY: Self = Self(0);

    /// Adds one flag.
    pub fn insert(&mut self, flag: Flag) {
        self.0 |= 1 << flag as u32;
    }

    /// Adds `flag` when `condition` holds.
    pub fn insert_if(&mut self, condition: bool, flag: Flag) {
        if condition {
            self.insert(flag);
        }
    }

    /// Adds every flag of `other`.
    pub fn extend(&mut self, other: Self) {
        self.0 |= other.0;
    }

    /// The union of two sets.
    #[must_use]
    pub const fn union(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Whether the flag is in the set.
    #[must_use]
    pub const fn contains(self, flag: Flag) -> bool {
        self.0 & (1 << flag as u32) != 0
    }

    /// Whether the set is empty.
    #[must_use]
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// The flags in declaration order.
    pub fn iter(self) -> impl Iterator<Item = Flag> {
        Flag::ALL.iter().copied().filter(move |flag| self.contains(*flag))
    }
}

impl FromIterator<Flag> for FlagSet {
    fn from_iter<I: IntoIterator<Item = Flag>>(flags: I) -> Self {
        let mut set = Self::EMPTY;
        for flag in flags {
            set.insert(flag);
        }
        set
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_hold_every_flag_apart() {
        assert!(Flag::ALL.len() <= 64, "a FlagSet has 64 places");
        for flag in Flag::ALL {
            let set = FlagSet::from_iter([*flag]);
            assert_eq!(set.iter().collect::<Vec<_>>(), [*flag]);
        }
    }

    #[test]
    fn codes_are_unique_and_meanings_are_sentences() {
        let codes: std::collections::BTreeSet<_> = Flag::ALL.iter().map(|f| f.code()).collect();
        assert_eq!(codes.len(), Flag::ALL.len());
        for flag in Flag::ALL {
            assert!(flag.meaning().ends_with('.') && !flag.meaning().starts_with(' '), "{flag}");
        }
    }
}
