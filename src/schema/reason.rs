//! The fixed list of reasons for a value that cannot be had.

use std::fmt;

macro_rules! reasons {
    ($($(#[doc = $meaning:literal])+ $variant:ident = $code:literal,)+) => {
        /// Why a value is null. The code is what stands in result tables.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Reason { $($(#[doc = $meaning])+ $variant,)+ }

        impl Reason {
            /// Every reason, in the order of their declaration.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)+];

            /// The code in result tables.
            #[must_use]
            pub const fn code(self) -> &'static str {
                match self { $(Self::$variant => $code,)+ }
            }

            /// The reason of that code.
            #[must_use]
            pub fn from_code(code: &str) -> Option<Self> {
                Self::ALL.iter().copied().find(|reason| reason.code() == code)
            }

            /// What the reason means, for a reader of the tables.
            #[must_use]
            pub const fn meaning(self) -> &'static str {
                match self { $(Self::$variant => concat!($($meaning),+).trim_ascii_start(),)+ }
            }
        }
    };
}

reasons! {
    /// The run could not be read; its error says why.
    InvalidRun = "invalid-run",
    /// The value does not exist for a run of this kind.
    NotApplicable = "not-applicable",
    /// The run has only published totals, no raw rows.
    SummaryOnly = "summary-only",
    /// The run has no source that measures accelerators.
    NoGpuPower = "no-gpu-power",
    /// The run has no source that measures the node.
    NoNodePower = "no-node-power",
    /// No device has an energy counter, or not every device has one.
    NoCounter = "no-counter",
    /// No device has power samples, or not every device has them.
    NoPowerSamples = "no-power-samples",
    /// The samples end too far inside the window.
    NotCovered = "not-covered",
    /// A stamp that bounds the window is missing.
    NoStamp = "no-stamp",
    /// The window has no length, or ends before it starts.
    EmptyWindow = "empty-window",
    /// The run has no request log.
    NoRequests = "no-requests",
    /// No formal request succeeded.
    NoSuccessfulRequests = "no-successful-requests",
    /// No request can give a value (for instance none has two output tokens).
    NoValues = "no-values",
    /// Successful requests have no clock times.
    NoRequestTimes = "no-request-times",
    /// A successful request has no end time.
    MissingEnd = "missing-end",
    /// The successful requests have zero output tokens together.
    NoOutputTokens = "no-output-tokens",
    /// Fewer successful requests than the steady-state rule needs.
    TooFewRequests = "too-few-requests",
    /// No window satisfies the steady-state rule.
    SteadyNotReached = "steady-not-reached",
    /// Power did not return to the idle baseline and stay there before monitoring ended.
    ReleaseNotClosed = "release-not-closed",
    /// The idle baseline is missing, so the end of release cannot be told.
    NoBaseline = "no-baseline",
    /// The claim's unit cannot be turned into the unit of the recomputed value.
    UnitMismatch = "unit-mismatch",
    /// One value alone has no spread.
    SingleValue = "single-value",
    /// The workload names no service-level objective.
    NoSlo = "no-slo",
    /// The run has no decode steps.
    NoSteps = "no-steps",
    /// The step log does not say how many tokens of history were read.
    NoHistory = "no-history",
    /// `run.json` lacks the model geometry that the value needs.
    NoGeometry = "no-geometry",
    /// The model is a mixture of experts: weights per token are not M_w / B_eff there.
    MixtureOfExperts = "mixture-of-experts",
    /// Decode steps also prefilled tokens.
    MixedPrefill = "mixed-prefill",
    /// Steps of one replica overlap in time.
    OverlappingSteps = "overlapping-steps",
    /// Output tokens of the step log and of the request log differ.
    TokenMismatch = "token-mismatch",
    /// The step log holds another number of replicas than `engine.replicas`.
    ReplicaCountMismatch = "replica-count-mismatch",
    /// Fewer runs than coefficients, or just as many.
    TooFewRuns = "too-few-runs",
    /// All fit runs lie in one cell.
    OneCell = "one-cell",
    /// A coordinate has the same value in every run.
    ConstantCoordinate = "constant-coordinate",
    /// The columns of the design are linearly dependent.
    RankDeficient = "rank-deficient",
    /// No more clusters than coefficients.
    TooFewClusters = "too-few-clusters",
    /// A cell stands on both sides of the validation.
    CellOnBothSides = "cell-on-both-sides",
    /// The setting has no held-out runs.
    NoHeldoutRuns = "no-heldout-runs",
    /// The run is not marked for the fit or for the validation.
    NoSplit = "no-split",
    /// Fewer than three models.
    TooFewModels = "too-few-models",
    /// An iterative solver did not converge.
    NotConverged = "not-converged",
    /// Values that are not finite or beyond any physical size, columns of different lengths, or a name given twice.
    InvalidInput = "invalid-input",
    /// The fit leaves no residual, so there is no spread to judge anything by.
    ExactFit = "exact-fit",
    /// All values are equal, so they have no order.
    AllTied = "all-tied",
    /// So many requests failed that the 99th percentile of latency is infinite.
    P99Unbounded = "p99-unbounded",
    /// No request rate of the sweep meets the service-level objective.
    NoRateMeetsSlo = "no-rate-meets-slo",
    /// The formal stage ends before the window of the spec does.
    FormalTooShort = "formal-too-short",
    /// The rated memory bandwidth is missing or zero.
    NoBandwidth = "no-bandwidth",
    /// The step log of a mixture of experts does not say how many distinct experts were read.
    NoActiveExperts = "no-active-experts",
    /// More bytes a second than the memory can deliver: geometry, step log or rated bandwidth are wrong.
    MbuAboveOne = "mbu-above-one",
    /// The engine logs no estimate of its own, or one that stands still or restarts.
    NoEngineEstimate = "no-engine-estimate",
    /// The accuracy suite of the spec has no scores, or none for an item under every seed.
    NoScores = "no-scores",
    /// The configuration that others are compared with is missing.
    NoReference = "no-reference",
    /// The configuration was not run at the request rate of the comparison.
    NoCommonRate = "no-common-rate",
    /// Fewer than five runs, too few for a verdict.
    TooFewRepeats = "too-few-repeats",
    /// The sweep ended before the objective failed, so the true goodput may be higher and turn the verdict.
    SweepTooShort = "sweep-too-short",
    /// The configuration loses more accuracy than the spec allows.
    AccuracyFailed = "accuracy-failed",
    /// `run.json` does not say it.
    NotRecorded = "not-recorded",
    /// Another run before it has the same id, so counting it could count one run twice.
    RepeatedRunId = "repeated-run-id",
    /// No run of the group has both a steady and a lifecycle value.
    NoEligibleRuns = "no-eligible-runs",
    /// The output tokens of the two sides differ by more than a fifth of the larger, so their energies do not compare.
    TokensTooDifferent = "tokens-too-different",
}

impl fmt::Display for Reason {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.code())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_unique() {
        let codes: std::collections::BTreeSet<_> = Reason::ALL.iter().map(|r| r.code()).collect();
        assert_eq!(codes.len(), Reason::ALL.len());
    }
}
