//! Boards by a DCGM exporter.

use crate::http_service::{Reply, Service};
use crate::support::{Place, device, failures, is_about_lateness};

/// Two boards, the first of them in two MIG instances. Power is 400 W plus the number of the question, and
/// 300 W; the counters rise with the number.
fn text(number: usize) -> String {
    let row = |name: &str, gpu: usize, instance: &str, value: usize| {
        let model = "modelName=\"NVIDIA H100\",Hostname=\"node\",DCGM_FI_DRIVER_VERSION=\"570.1\"";
        format!(
            "DCGM_FI_DEV_{name}{{gpu=\"{gpu}\",UUID=\"GPU-{gpu}\",{model}{instance}}} {value}\n"
        )
    };
    let mut text = String::new();
    for instance in [",GPU_I_ID=\"1\"", ",GPU_I_ID=\"2\""] {
        text += &row("POWER_USAGE", 0, instance, 400 + number);
        text += &row("TOTAL_ENERGY_CONSUMPTION", 0, instance, 1_000_000 + 500 * number);
        text += &row("FB_USED", 0, instance, 70_000);
    }
    text += &row("POWER_USAGE", 1, "", 300);
    text += &row("TOTAL_ENERGY_CONSUMPTION", 1, "", 2_000_000 + 500 * number);
    text
}

#[test]
fn an_exporter_is_recorded_and_a_lost_answer_is_null() {
    let place = Place::new();
    // Every fifth answer is refused.
    let service = Service::start(|question| match question.number % 5 {
        4 => Reply::Status(503),
        _ => Reply::Text(text(question.number)),
    });
    let source = format!("dcgm={}", service.url(""));
    let output = place.output(&[
        "attach",
        "--out",
        "{}/archive/run",
        "--power",
        &source,
        "--interval",
        "dcgm=50",
        "--seconds",
        "1",
        "--keep-free",
        "0",
    ]);
    assert!(output.status.success(), "{}", place.stderr(&output));
    let run = place.run("run");
    assert_eq!(run.manifest.hardware.label(), "NVIDIA H100 x 2");
    assert_eq!(run.manifest.hardware.driver.as_deref(), Some("570.1"));
    assert_eq!(run.manifest.power_sources[0].id, "dcgm-average");
    let board = device(&run, "dcgm-average", "gpu0");
    // Readings are those of their question, once each: no instance is added to its board.
    for (power_w, energy_j) in board.power_w.value.iter().zip(&board.energy_j.value) {
        let number = power_w - 400.0;
        assert_eq!(*energy_j, 1000.0 + 0.5 * number);
    }
    assert!(board.power_w.value.windows(2).all(|pair| pair[0] < pair[1]));
    let other = device(&run, "dcgm-average", "gpu1");
    assert!(other.power_w.value.iter().all(|power_w| *power_w == 300.0));
    let refused = failures(&run);
    let cause = "the service answered with HTTP 503".to_owned();
    let count = refused[0].2;
    assert!(count >= 2, "{refused:?}");
    assert_eq!(refused, [("gpu0".into(), cause.clone(), count), ("gpu1".into(), cause, count)]);
    let broken: Vec<_> =
        place.broken_rules().into_iter().filter(|finding| !is_about_lateness(finding)).collect();
    assert!(broken.is_empty(), "{broken:?}");
}
