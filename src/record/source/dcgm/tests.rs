use std::fmt::Write as _;
use std::sync::{Arc, Mutex};

use super::super::http_service::{Reply, Service};
use super::*;
use crate::clock::SystemClock;

/// The text of an exporter for H100 boards: UUID, power in W, counter in mJ.
fn boards(rows: &[(&str, &str, &str)]) -> String {
    let mut text = String::from("# TYPE DCGM_FI_DEV_POWER_USAGE gauge\n");
    for (number, (uuid, power, energy)) in rows.iter().enumerate() {
        let labels = format!(
            "gpu=\"{number}\",UUID=\"{uuid}\",modelName=\"NVIDIA H100\",Hostname=\"n1\",DCGM_FI_DRIVER_VERSION=\"570.1\""
        );
        writeln!(text, "DCGM_FI_DEV_POWER_USAGE{{{labels}}} {power}").unwrap();
        writeln!(text, "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION{{{labels}}} {energy}").unwrap();
        writeln!(text, "DCGM_FI_DEV_GPU_TEMP{{{labels}}} 61").unwrap();
    }
    text
}

/// An exporter whose text a test sets.
fn exporter(text: String) -> (Service, Arc<Mutex<Reply>>) {
    let reply = Arc::new(Mutex::new(Reply::Text(text)));
    let answers = reply.clone();
    let service = Service::start(move |question| match question.path.as_str() {
        "/metrics" => answers.lock().unwrap().clone(),
        _ => Reply::Status(404),
    });
    (service, reply)
}

/// Each reading in a line.
fn read(source: &mut Dcgm) -> String {
    let mut readings = Vec::new();
    source.read(&SystemClock, &mut readings);
    let mut text = String::new();
    for Reading { stream, device, sample, failures, .. } in readings {
        let stream = &source.streams()[stream];
        let value = |value: Option<f64>| value.map_or("-".to_owned(), |value| value.to_string());
        let (power, energy) = (value(sample.power_w), value(sample.energy_j));
        let (id, device) = (&stream.entry.id, &stream.devices[device]);
        let line = format!("{id} {device} {power} W {energy} J {}", failures.join("; "));
        writeln!(text, "{}", line.trim_end()).unwrap();
    }
    text
}

#[test]
fn boards_are_read_by_name_and_one_that_vanishes_keeps_failing() {
    let (service, reply) = exporter(boards(&[("a", "412.34", "5000000500"), ("b", "300", "7000")]));
    let mut source = Dcgm::open(&service.url(""), "dcgm", &HttpOptions::default()).unwrap();
    let entry = &source.streams()[0].entry;
    // On this model the plain metric is the mean over a second.
    assert_eq!((entry.reading, entry.averaging_window_ms), (ReadingKind::Average, Some(1000.0)));
    // Nothing changed in 3 s, so the exporter's default is assumed.
    assert_eq!(entry.counter_refresh_ms, Some(30_000.0));
    let facts = source.hardware();
    assert_eq!(facts.accelerator.as_deref(), Some("NVIDIA H100"));
    assert_eq!((facts.count, facts.driver.as_deref()), (Some(2), Some("570.1")));
    let set = |text: Reply| *reply.lock().unwrap() = text;
    let mut shown = read(&mut source);
    set(Reply::Text(boards(&[("a", "413", "5000413500")])));
    shown += &read(&mut source);
    // The other board alone, now numbered 0: boards are told apart by their UUID.
    set(Reply::Text(boards(&[("b", "0", "NaN")])));
    shown += &read(&mut source);
    set(Reply::Text("<html>".into()));
    shown += &read(&mut source);
    set(Reply::Text(String::new()));
    shown += &read(&mut source);
    set(Reply::Status(503));
    shown += &read(&mut source);
    set(Reply::Text(boards(&[("a", "9e9", "1"), ("b", "301", "8000")])));
    shown += &read(&mut source);
    insta::assert_snapshot!(shown, @"
    dcgm-average gpu0 412.34 W 5000000.5 J
    dcgm-average gpu1 300 W 7 J
    dcgm-average gpu0 413 W 5000413.5 J
    dcgm-average gpu1 - W - J the board is not in the answer
    dcgm-average gpu0 - W - J the board is not in the answer
    dcgm-average gpu1 - W - J power: the answer has no possible value; energy: the answer has no possible value
    dcgm-average gpu0 - W - J the answer is no Prometheus text
    dcgm-average gpu1 - W - J the answer is no Prometheus text
    dcgm-average gpu0 - W - J the board is not in the answer
    dcgm-average gpu1 - W - J the board is not in the answer
    dcgm-average gpu0 - W - J the service answered with HTTP 503
    dcgm-average gpu1 - W - J the service answered with HTTP 503
    dcgm-average gpu0 - W 0.001 J power: the answer has no possible value
    dcgm-average gpu1 301 W 8 J
    ");
}

#[test]
fn instances_of_a_board_are_not_added_and_instant_power_comes_first() {
    let row = |name: &str, instance: u32, value: &str| {
        format!(
            "{name}{{gpu=\"0\",UUID=\"a\",modelName=\"NVIDIA H100\",GPU_I_ID=\"{instance}\"}} {value}\n"
        )
    };
    let text: String = (1..=2)
        .flat_map(|instance| {
            [
                row("DCGM_FI_DEV_POWER_USAGE", instance, "400"),
                row("DCGM_FI_DEV_POWER_USAGE_INSTANT", instance, "450"),
            ]
        })
        .collect();
    let (service, _) = exporter(text);
    let url = service.url("/metrics");
    let mut source = Dcgm::open(&url, "dcgm", &HttpOptions::default()).unwrap();
    insta::assert_snapshot!(read(&mut source), @"dcgm gpu0 450 W - J");
    let mut readings = Vec::new();
    source.read(&SystemClock, &mut readings);
    assert_eq!(readings[0].sample.average_power_w, Some(400.0));
    assert!(source.notes()[0].starts_with("DCGM: MIG instances repeat"));
}

#[test]
fn the_interval_of_the_exporter_is_seen_on_opening() {
    // The values change with every fourth question: every 400 ms of watching, on a machine that keeps up.
    let service = Service::start(|question| {
        let energy = (question.number / 4 * 1000).to_string();
        Reply::Text(boards(&[("a", "100", &energy), ("b", "100", "1000")]))
    });
    let source = Dcgm::open(&service.url(""), "dcgm", &HttpOptions::default()).unwrap();
    let refresh_ms = source.streams()[0].entry.counter_refresh_ms.unwrap();
    assert!((400.0..=2900.0).contains(&refresh_ms), "{refresh_ms}");
    assert!(source.notes().iter().any(|note| note.contains("as seen on opening")));
}

#[test]
fn what_is_no_exporter_is_said() {
    let open = |text: &str| {
        let (service, _) = exporter(text.to_owned());
        Dcgm::open(&service.url(""), "dcgm", &HttpOptions::default()).unwrap_err()
    };
    insta::assert_snapshot!(open("<html>"), @"the answer is no Prometheus text");
    insta::assert_snapshot!(open("up 1\n"), @"/metrics is answered without boards; expected the metrics of a DCGM exporter, such as DCGM_FI_DEV_POWER_USAGE");
    insta::assert_snapshot!(open(&boards(&[("a", "NaN", "0")])), @"none of its boards tells its power; expected DCGM_FI_DEV_POWER_USAGE");
}
