//! The program `wattrace-record` as a whole.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a test may panic and print")]

mod amd;
mod clock;
mod completion_server;
mod days;
mod dcgm;
mod disk;
mod files;
mod http_service;
mod ipmi;
mod kill;
mod lifecycle;
mod load;
mod nvml;
mod opening;
mod peers;
mod proxy;
mod redfish;
mod server;
mod snmp;
mod steps;
mod support;
mod tree;
