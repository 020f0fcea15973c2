//! The program `wattrace-record` as a whole.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a test may panic and print")]

mod clock;
mod days;
mod disk;
mod files;
mod kill;
mod lifecycle;
mod nvml;
mod support;
mod tree;
