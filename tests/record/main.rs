//! The program `wattrace-record` as a whole.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a test may panic and print")]

mod clock;
mod completion_server;
mod files;
mod kill;
mod lifecycle;
mod load;
mod nvml;
mod proxy;
mod server;
mod steps;
mod support;
mod tree;
