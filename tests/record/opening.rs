//! Power sources that are slow to open.

use std::net::TcpListener;

use rustix::process::Signal;

use crate::support::{Place, signal};

#[test]
fn ctrl_c_ends_a_recording_whose_sources_are_still_being_opened() {
    let place = Place::new();
    // It takes connections and never answers.
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let source = format!("redfish=http://{}", silent.local_addr().unwrap());
    let words = ["attach", "--out", "{}/archive/run", "--power", &source];
    let child = place.record(&words).spawn().unwrap();
    let _connection = silent.accept().unwrap();
    signal(&child, Signal::INT);
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130));
    insta::assert_snapshot!(
        place.stderr(&output).trim_end(),
        @"interrupted while the power sources were being opened"
    );
    assert!(!place.archive().exists());
}
