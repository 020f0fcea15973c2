//! `accuracy.parquet`.

use super::declare;

declare! {
    /// Scores of an accuracy suite.
    ACCURACY, accuracy_column, file "accuracy.parquet", row "one item of a suite under one seed",
    sort &["suite", "item", "seed"],
    suite Text None Required "Name of the suite.";
    item Text None Required "Item of the suite.";
    seed U32 None Required "Seed of the generation.";
    score F64 None Nullable "Score of the item.";
}
