//! What every result file says about how it came about. No dates: equal inputs give equal bytes.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::table::ResultTable;

/// How much of an archive is simulated.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SyntheticShare {
    /// No run is simulated.
    None,
    /// Some runs are simulated, others are measured.
    Some,
    /// Every run is simulated.
    All,
}

impl SyntheticShare {
    /// The share of these runs, each simulated or not.
    pub fn of(synthetic: impl Iterator<Item = bool>) -> Self {
        let (mut simulated, mut measured) = (false, false);
        for run in synthetic {
            simulated |= run;
            measured |= !run;
        }
        match (simulated, measured) {
            (false, _) => Self::None,
            (true, true) => Self::Some,
            (true, false) => Self::All,
        }
    }

    /// What a reader of such results must know first; nothing where all is measured.
    pub(crate) const fn notice(self) -> Option<&'static str> {
        match self {
            Self::None => None,
            Self::Some => Some("Some of these runs are synthetic: simulated, not measured."),
            Self::All => Some("All of these runs are synthetic: simulated, not measured."),
        }
    }

    /// The name in files.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Some => "some",
            Self::All => "all",
        }
    }
}

/// Where results come from: the program, its definitions, the options and the archive.
#[derive(Debug, Clone, PartialEq)]
pub struct Provenance {
    /// Version of the program.
    pub tool_version: String,
    /// Version of the metric definitions.
    pub metric_definitions_version: u32,
    /// Options that the values depend on.
    pub options: Value,
    /// Digest of the archive, where one was taken.
    pub archive_sha256: Option<String>,
    /// How much of the archive is simulated.
    pub synthetic: SyntheticShare,
}

impl Provenance {
    /// The key-value metadata of a table's Parquet file, in the order of its keys.
    pub(crate) fn key_values(&self, table: &ResultTable) -> Vec<(String, String)> {
        let by_column = |text: fn(&crate::ResultColumn) -> &str| {
            let texts: BTreeMap<&str, &str> =
                table.columns().iter().map(|column| (column.name.as_str(), text(column))).collect();
            serde_json::json!(texts).to_string()
        };
        let mut pairs = vec![
            ("wattrace.meanings", by_column(|column| &column.meaning)),
            ("wattrace.metric_definitions_version", self.metric_definitions_version.to_string()),
            ("wattrace.options", self.options.to_string()),
            ("wattrace.row", table.row_meaning().to_owned()),
            ("wattrace.synthetic", self.synthetic.name().to_owned()),
            ("wattrace.tool_version", self.tool_version.clone()),
            ("wattrace.units", by_column(|column| column.unit.symbol())),
        ];
        if let Some(digest) = &self.archive_sha256 {
            pairs.insert(0, ("wattrace.archive_sha256", digest.clone()));
        }
        pairs.into_iter().map(|(key, value)| (key.to_owned(), value)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_synthetic_share_tells_mixed_archives_apart() {
        let share = |runs: &[bool]| SyntheticShare::of(runs.iter().copied());
        assert_eq!(share(&[]), SyntheticShare::None);
        assert_eq!(share(&[false, false]), SyntheticShare::None);
        assert_eq!(share(&[true, false]), SyntheticShare::Some);
        assert_eq!(share(&[true, true]), SyntheticShare::All);
    }
}
