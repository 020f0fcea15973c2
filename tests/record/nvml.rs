//! Boards that fail, through a library with NVML's calls.

use crate::support::{Place, device, is_about_lateness, mock_nvml, record_faults};

#[test]
fn a_failed_read_a_counter_reset_and_a_lost_board_lose_nothing_else() {
    let place = Place::new();
    let library = mock_nvml().display().to_string();
    let words = [
        "attach",
        "--out",
        "{}/archive/run",
        "--power",
        "nvml",
        "--interval",
        "nvml=50",
        "--nvml-library",
        &library,
        "--flush",
        "0.3",
        "--keep-free",
        "0",
        "--json",
    ];
    let (output, reads_of) = record_faults(&place, &words, "NVML");

    let run = place.run("run");
    assert_eq!(run.manifest.hardware.label(), "Mock H200 x 2");
    assert_eq!(run.manifest.hardware.driver.as_deref(), Some("570.00.00"));
    // Board 0 in milliwatts above 100 W: every read but number 10.
    let board = device(&run, "nvml", "gpu0");
    let reads: Vec<i64> =
        board.power_w.value.iter().map(|w| (w * 1e3).round() as i64 - 100_000).collect();
    let last = reads_of("0") as i64;
    assert_eq!(reads, (1..=last).filter(|read| *read != 10).collect::<Vec<_>>());
    // The counter has every read: 10 mJ each, from 10.01 J on, and from zero again at read 20.
    let expected: Vec<f64> = (1..=last)
        .map(|read| (10 * if read < 20 { read + 1000 } else { read - 20 }) as f64 * 1e-3)
        .collect();
    assert_eq!(board.energy_j.value, expected);
    // Board 1 has its reads 1 to 14, and null rows after them, counted by their cause.
    let lost = device(&run, "nvml", "gpu1");
    assert_eq!(lost.power_w.len(), 14);
    let stdout: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let failures = stdout["recorder_cost"]["failures"].as_array().unwrap();
    let count = |device: &str, cause: &str| -> serde_json::Value {
        let found = failures.iter().find(|failure| {
            failure["source"] == "nvml"
                && failure["device"] == device
                && failure["cause"].as_str().unwrap().starts_with(cause)
        });
        found.unwrap_or_else(|| panic!("{cause} of {device} is not in {failures:?}"))["count"]
            .clone()
    };
    assert_eq!(count("gpu0", "power: "), 1);
    assert!(count("gpu1", "power: ").as_u64().unwrap() >= 20);
    // Only what truly happened breaks a rule: the reset, and the lost board's gap at the end.
    let mut broken: Vec<_> = place
        .broken_rules()
        .into_iter()
        .filter(|finding| !is_about_lateness(finding))
        .map(|finding| finding.check)
        .collect();
    broken.dedup();
    assert_eq!(broken, ["counter-falls"]);
}

#[test]
fn slow_readings_are_there_about_once_a_second() {
    let place = Place::new();
    let library = mock_nvml().display().to_string();
    let output = place.output(&[
        "attach",
        "--out",
        "{}/archive/run",
        "--power",
        "nvml",
        "--nvml-library",
        &library,
        "--seconds",
        "0.3",
        "--flush",
        "1",
        "--keep-free",
        "0",
    ]);
    assert!(output.status.success(), "{}", place.stderr(&output));
    use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
    let file = std::fs::File::open(place.path("archive/run/power.parquet")).unwrap();
    let reader = ParquetRecordBatchReaderBuilder::try_new(file).unwrap();
    let names: Vec<_> = reader.schema().fields().iter().map(|field| field.name().clone()).collect();
    // What the library cannot tell (throttle reasons) is no column.
    assert_eq!(
        names,
        [
            "t",
            "source",
            "device",
            "power_w",
            "energy_j",
            "temperature_c",
            "sm_clock_mhz",
            "mem_clock_mhz",
            "memory_used_bytes",
            "utilization_percent",
            "read_ns"
        ]
    );
    let batch = reader.build().unwrap().next().unwrap().unwrap();
    let clock = batch.column_by_name("sm_clock_mhz").unwrap();
    use arrow_array::Array as _;
    // Two boards, one reading each within 0.3 s; so has the average, which lies beside the run's power.
    assert_eq!(clock.len() - clock.null_count(), 2);
    assert!(place.path("archive/run/engine.parquet").exists());
}

#[test]
fn a_library_that_is_not_there_is_said() {
    let place = Place::new();
    let output = place.output(&[
        "attach",
        "--out",
        "{}/archive/run",
        "--power",
        "nvml",
        "--nvml-library",
        "{}/none.so",
    ]);
    assert_eq!(output.status.code(), Some(2));
    let message = place.stderr(&output);
    assert!(
        message.starts_with("error: power source \"nvml\": NVML cannot be used: "),
        "{message}"
    );
    assert!(!place.archive().exists());
}
