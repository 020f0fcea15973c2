//! The Parquet files of a run, one declaration each.

mod accuracy;
mod engine;
mod power;
mod requests;
mod steps;

use crate::Table;

pub use accuracy::{ACCURACY, accuracy_column};
pub use engine::{ENGINE, engine_column};
pub use power::{POWER, power_column};
pub use requests::{REQUESTS, request_column};
pub use steps::{STEPS, step_column};

/// Every Parquet file that a run may hold.
pub const TABLES: &[&Table] = &[&POWER, &REQUESTS, &STEPS, &ENGINE, &ACCURACY];

/// Declares a table and, in a module beside it, a constant for each column name.
macro_rules! declare {
    (
        $(#[$table_doc:meta])* $table:ident, $names:ident, file $file:literal, row $row:literal,
        sort $sort:expr,
        $($name:ident $kind:ident $unit:ident $presence:ident $meaning:literal;)+
    ) => {
        /// Names of the columns.
        #[expect(non_upper_case_globals, missing_docs, reason = "each constant is the column that it names")]
        pub mod $names { $(pub const $name: &str = stringify!($name);)+ }

        $(#[$table_doc])*
        pub const $table: crate::Table = crate::Table {
            name: $file.split_at($file.len() - ".parquet".len()).0,
            file: $file,
            version: 1,
            row: $row,
            sort_key: $sort,
            columns: &[$(crate::Column {
                name: stringify!($name),
                column_type: crate::ColumnType::$kind,
                unit: crate::Unit::$unit,
                presence: crate::Presence::$presence,
                meaning: $meaning,
            },)+],
        };
    };
}
use declare;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_sort_key_is_a_column_and_every_name_is_unique() {
        for table in TABLES {
            for key in table.sort_key {
                assert!(table.column(key).is_some(), "{} has no column {key}", table.name);
            }
            let names: std::collections::BTreeSet<_> =
                table.columns.iter().map(|c| c.name).collect();
            assert_eq!(names.len(), table.columns.len(), "{}", table.name);
            assert_eq!(table.file, format!("{}.parquet", table.name));
        }
    }
}
