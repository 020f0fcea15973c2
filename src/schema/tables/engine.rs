//! `engine.parquet`.

use super::declare;

declare! {
    /// The engine's own metrics, polled on a side path: they explain a run and never set a boundary.
    ENGINE, engine_column, file "engine.parquet", row "one sample of one engine metric",
    sort &["t", "name", "labels"],
    t Time Timestamp Required "When the metric was polled.";
    name Text None Required "Name of the metric.";
    labels Text None Nullable "Its labels as one text.";
    value F64 None Nullable "Its value.";
}
