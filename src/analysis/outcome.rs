//! A metric's declaration, and the value, reason, method and flags that a run gives for it.

use serde::Serialize;
use wattrace_schema::{EnergyMethod, Flag, FlagSet, Interval, Reason, Unit};

/// Type of a metric's value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "each variant is the type that it names")]
pub enum ValueKind {
    F64,
    U64,
    Bool,
    /// Nanoseconds since the Unix epoch.
    Time,
}

/// A value that could be had.
#[derive(Debug, Clone, Copy, PartialEq)]
#[expect(missing_docs, reason = "each variant is the type that it names")]
pub enum Value {
    F64(f64),
    U64(u64),
    Bool(bool),
    /// Nanoseconds since the Unix epoch.
    Time(i64),
}

impl Value {
    /// The value as a number: times in ns, booleans as 0 and 1.
    #[must_use]
    pub fn as_f64(self) -> f64 {
        match self {
            Self::F64(value) => value,
            Self::U64(value) => value as f64,
            Self::Bool(value) => f64::from(u8::from(value)),
            Self::Time(value) => value as f64,
        }
    }
}

/// What a metric measures or counts: values of different boundaries are never mixed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Boundary {
    /// The accelerator boards (or modules), all of them together.
    Accelerators,
    /// The node at the wall.
    Node,
    /// The request log of the client.
    Client,
    /// The step log of the engine.
    Engine,
    /// Accelerators' energy over the engine's tokens.
    AcceleratorsAndEngine,
    /// Accelerators' energy over the client's tokens.
    AcceleratorsAndClient,
    /// The node's energy over the client's tokens.
    NodeAndClient,
}

impl Boundary {
    /// The name in result tables.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Accelerators => "accelerators",
            Self::Node => "node",
            Self::Client => "client",
            Self::Engine => "engine",
            Self::AcceleratorsAndEngine => "accelerators/engine",
            Self::AcceleratorsAndClient => "accelerators/client",
            Self::NodeAndClient => "node/client",
        }
    }
}

/// The declaration of one metric: one column of `runs`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Metric {
    /// Column name, ending in the unit.
    pub name: &'static str,
    /// Unit of the value.
    pub unit: Unit,
    /// Type of the value.
    pub kind: ValueKind,
    /// What it measures or counts.
    pub boundary: Boundary,
    /// The sentence a paper could print: numerator, denominator, window, what is excluded.
    pub definition: &'static str,
    /// Where the definition comes from.
    pub source: &'static str,
}

/// Numbers behind a value that a sceptic asks for first.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Evidence {
    /// Share of the window, over all devices, that lies in sampling gaps.
    pub gap_share: Option<f64>,
    /// Seconds of the window in which an energy counter was reset, over all devices.
    pub counter_lost_s: Option<f64>,
    /// Samples, requests or steps inside the window.
    pub rows: Option<u64>,
}

/// What one run gives for one metric.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Outcome {
    /// The value, or why there is none.
    pub value: Result<Value, Reason>,
    /// What a reader must know beside it.
    pub flags: FlagSet,
    /// Energy method, where energy went into it.
    pub method: Option<EnergyMethod>,
    /// The window, where it has one.
    pub window: Option<Interval>,
    /// Numbers behind it.
    pub evidence: Evidence,
}

impl Outcome {
    /// A value without flags.
    #[must_use]
    pub fn of(value: Value) -> Self {
        Self::from(Ok(value))
    }

    /// No value.
    #[must_use]
    pub fn missing(reason: Reason) -> Self {
        Self::from(Err(reason))
    }

    /// A number without flags; one that is not finite is a reason, never a value.
    #[must_use]
    pub fn number(value: Result<f64, Reason>) -> Self {
        Self::from(value.and_then(|value| {
            if value.is_finite() { Ok(Value::F64(value)) } else { Err(Reason::NoValues) }
        }))
    }

    /// The number, or why there is none.
    ///
    /// # Errors
    /// The reason.
    pub fn as_f64(&self) -> Result<f64, Reason> {
        self.value.map(Value::as_f64)
    }

    /// Adds flags.
    #[must_use]
    pub fn with_flags(mut self, flags: FlagSet) -> Self {
        self.flags.extend(flags);
        self
    }

    /// Adds one flag when `condition` holds.
    #[must_use]
    pub fn flag_if(mut self, condition: bool, flag: Flag) -> Self {
        self.flags.insert_if(condition, flag);
        self
    }

    /// Sets the window.
    #[must_use]
    pub const fn over(mut self, window: Interval) -> Self {
        self.window = Some(window);
        self
    }

    /// Sets the number of rows behind the value.
    #[must_use]
    pub const fn from_rows(mut self, rows: usize) -> Self {
        self.evidence.rows = Some(rows as u64);
        self
    }

    /// Divides by `divisor`, keeping window, method and evidence.
    #[must_use]
    pub fn divided_by(mut self, divisor: Result<f64, Reason>) -> Self {
        self.value = self.value.and_then(|value| {
            let quotient = value.as_f64() / divisor?;
            if quotient.is_finite() { Ok(Value::F64(quotient)) } else { Err(Reason::NoValues) }
        });
        self
    }
}

impl From<Result<Value, Reason>> for Outcome {
    fn from(value: Result<Value, Reason>) -> Self {
        Self {
            value,
            flags: FlagSet::EMPTY,
            method: None,
            window: None,
            evidence: Evidence::default(),
        }
    }
}
