//! The program `wattrace-record` as a whole.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a test may panic and print")]

mod clock;
mod files;
mod ipmi;
mod kill;
mod lifecycle;
mod nvml;
mod peers;
mod snmp;
mod support;
mod tree;
