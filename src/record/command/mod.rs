//! The commands, a file each.

pub(crate) mod attach;
pub(crate) mod convert;
pub(crate) mod run;
