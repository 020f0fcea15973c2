//! The program `wattrace-record` as a whole.

mod clock;
mod files;
mod kill;
mod lifecycle;
mod nvml;
mod support;
mod tree;
