//! The decode energy model: energy per token from active bytes and time.

mod rows;

pub use rows::{
    BatchEffectRow, BlockEffectRow, CellErrorRow, CoefficientRow, ExcludedRunRow, FitRow,
    FitSummaryRow, HeldoutRow, HeldoutRunRow, IdentifiedRangeRow, ModelTables, NestedTestRow,
    StepBreakRow, StepTimeLawRow, SubstitutionRow, TransferRow,
};
