//! One file a command: call, print, exit code; no arithmetic.

pub(crate) mod analyze;
pub(crate) mod capacity;
pub(crate) mod check;
pub(crate) mod compare;
pub(crate) mod completions;
pub(crate) mod coverage;
pub(crate) mod explain;
pub(crate) mod fit;
pub(crate) mod geometry;
pub(crate) mod goodput;
pub(crate) mod import;
pub(crate) mod man;
pub(crate) mod notebook;
pub(crate) mod predict;
pub(crate) mod rank;
pub(crate) mod report;
pub(crate) mod service;
pub(crate) mod simulate;
pub(crate) mod spec;
pub(crate) mod tables;
