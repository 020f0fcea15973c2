//! The papers whose tables are built in, each table one file in the language of [`Paper`].

use std::path::Path;

use super::declaration::{DeclarationError, Paper};

/// A paper that is built in: its name and the declarations of its tables.
#[derive(Debug, Clone, Copy)]
pub struct BuiltIn {
    /// Name, as `--paper` takes it.
    pub name: &'static str,
    /// What its tables are about.
    pub summary: &'static str,
    /// Title and tables: file name and text.
    files: &'static [(&'static str, &'static str)],
}

macro_rules! files {
    ($folder:literal: $($name:literal),+ $(,)?) => {
        &[$((
            concat!($folder, "/", $name, ".toml"),
            include_str!(concat!($folder, "/", $name, ".toml")),
        ),)+]
    };
}

/// Every paper that is built in.
pub const BUILT_IN: &[BuiltIn] = &[
    BuiltIn {
        name: "lifecycle",
        summary: "steady, formal and lifecycle energy of a service, speed and rank agreement",
        files: files!(
            "lifecycle": "energy-per-token", "stage-energy", "service-speed", "rank-agreement",
            "scenario-medians", "engine-pairs", "amortisation",
        ),
    },
    BuiltIn {
        name: "decode-energy",
        summary: "the decode energy model: coefficients, held-out errors, ablations, transfer",
        files: files!(
            "decode-energy": "coefficients", "heldout-errors", "heldout-cells", "ablations",
            "leave-one-cell-out", "transfer", "substitutions",
        ),
    },
    BuiltIn {
        name: "goodput",
        summary: "spec-driven reports: goodput, tokens per joule, MBU, accuracy, capacity, coverage",
        files: files!("goodput": "goodput", "sweep", "accuracy", "capacity", "coverage"),
    },
];

impl BuiltIn {
    /// The paper of that name.
    #[must_use]
    pub fn named(name: &str) -> Option<&'static Self> {
        BUILT_IN.iter().find(|paper| paper.name == name)
    }

    /// Its declaration, as a file would hold it: one file after the other.
    #[must_use]
    pub fn text(&self) -> String {
        let texts: Vec<&str> = self.files.iter().map(|(_, text)| text.trim_end()).collect();
        texts.join("\n\n") + "\n"
    }

    /// Its declaration.
    ///
    /// # Errors
    /// Never, as a test makes sure: every file is valid.
    pub fn paper(&self) -> Result<Paper, DeclarationError> {
        Paper::parse(self.text(), Path::new(self.name))
    }
}
