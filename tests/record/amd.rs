//! Boards that fail, through libraries with AMD's calls.

use std::path::Path;

use arrow_array::Array as _;
use arrow_array::cast::AsArray as _;
use arrow_array::types::{Float32Type, UInt32Type, UInt64Type};
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use wattrace_schema::{Reading, Run};

use crate::support::{
    Place, device, failures, is_about_lateness, mock_amd_smi, mock_rocm_smi, record_faults,
};

const UNIT_J: f64 = 1.0 / 65_536.0;

/// Power of a device in whole watts.
fn watts(run: &Run, source: &str, name: &str) -> Vec<u64> {
    device(run, source, name).power_w.value.iter().map(|power_w| power_w.round() as u64).collect()
}

fn attach<'a>(library: &'a str, rest: &[&'a str]) -> Vec<&'a str> {
    let mut words =
        vec!["attach", "--out", "{}/archive/run", "--power", "amd", "--amd-library", library];
    words.extend(["--interval", "amd=50", "--flush", "0.3", "--keep-free", "0"]);
    words.extend(rest);
    words
}

#[test]
fn a_failed_read_a_counter_wrap_and_a_lost_board_lose_nothing_else() {
    let place = Place::new();
    let library = mock_amd_smi().display().to_string();
    let (_, reads_of) = record_faults(&place, &attach(&library, &[]), "AMD");

    let run = place.run("run");
    assert_eq!(run.manifest.hardware.label(), "Mock MI300X x 2");
    assert_eq!(run.manifest.hardware.driver.as_deref(), Some("6.8.5"));
    let kinds: Vec<_> =
        run.manifest.power_sources.iter().map(|it| (it.id.as_str(), it.reading)).collect();
    assert_eq!(kinds, [("amd", Reading::Instant), ("amd-average", Reading::Average)]);
    // Board 0 has every read but number 10, in watts above 500.
    let last = reads_of("0") as u64;
    let expected: Vec<u64> = (1..=last).filter(|read| *read != 10).map(|read| 500 + read).collect();
    assert_eq!(watts(&run, "amd", "gpu0"), expected);
    // Its counter has every read: 1000 units each, from 2^32 − 19,000 on, and from zero again at 20.
    let start = (1_u64 << 32) - 20_000;
    let units = |read: u64| (start + 1000 * read) % (1 << 32);
    let counter = &device(&run, "amd", "gpu0").energy_j.value;
    assert_eq!(counter.len() as u64, last);
    for (read, energy_j) in (1..).zip(counter) {
        let expected_j = units(read) as f64 * UNIT_J;
        assert!((energy_j - expected_j).abs() <= 1e-9 * expected_j, "{read}: {energy_j}");
    }
    // Board 1 has its reads 2 to 14, and null rows after them: it was asked twice on opening, since it
    // does not tell its power of an instant.
    assert_eq!(watts(&run, "amd-average", "gpu1"), (602..=614).collect::<Vec<_>>());
    assert_eq!(device(&run, "amd-average", "gpu1").energy_j.len(), 12);
    let failures = failures(&run);
    let count = |device: &str, cause: &str| {
        let found = failures.iter().find(|(of, why, _)| of == device && why == cause);
        found.unwrap_or_else(|| panic!("{cause} of {device} is not in {failures:?}")).2
    };
    assert_eq!(count("gpu0", "power: not supported"), 1);
    assert_eq!(count("gpu1", "energy: the library's status is 12"), 1);
    assert!(count("gpu1", "power: the library's status is 31") >= 20);
    let notes = run.manifest.provenance.notes.join("\n");
    assert!(notes.contains("gpu2 is not recorded: it does not tell its power"), "{notes}");
    assert!(notes.contains("AMD: 1 boards are partitioned"), "{notes}");
    // The counter's range is not known, so that its wrap is a fall; nor is the window of AMD's means.
    let mut broken: Vec<_> = place
        .broken_rules()
        .into_iter()
        .filter(|finding| !is_about_lateness(finding))
        .map(|finding| finding.check)
        .collect();
    broken.dedup();
    assert_eq!(broken, ["average-window", "counter-falls"]);
}

#[test]
fn power_is_found_in_the_struct_of_every_release() {
    let library = mock_amd_smi().display().to_string();
    for release in ["24", "25", "26"] {
        let place = Place::new();
        let mut command = place.record(&attach(&library, &["--seconds", "0.3"]));
        let output = command.env("MOCK_AMD_RELEASE", release).output().unwrap();
        assert!(output.status.success(), "{}", place.stderr(&output));
        let run = place.run("run");
        assert_eq!(watts(&run, "amd", "gpu0")[..2], [501, 502], "release {release}");
        assert_eq!(watts(&run, "amd-average", "gpu1")[..2], [602, 603], "release {release}");
        // Board 1 is warm at its edge only.
        let slow = slow_values(&place.path("archive/run/power.parquet"));
        assert_eq!(slow, ["52 2100 1300 3221225472 87", "71 2100 1300 3221225472 87"]);
    }
}

/// Temperature, clocks, memory and utilisation wherever they were read; each once, in order.
fn slow_values(path: &Path) -> Vec<String> {
    let file = std::fs::File::open(path).unwrap();
    let reader = ParquetRecordBatchReaderBuilder::try_new(file).unwrap();
    let batch = reader.build().unwrap().next().unwrap().unwrap();
    let column = |name: &str| batch.column_by_name(name).unwrap().clone();
    let temperature = column("temperature_c");
    let rows = (0..batch.num_rows()).filter(|row| temperature.is_valid(*row));
    let shown = rows.map(|row| {
        let celsius = temperature.as_primitive::<Float32Type>().value(row);
        let sm_mhz = column("sm_clock_mhz").as_primitive::<UInt32Type>().value(row);
        let mem_mhz = column("mem_clock_mhz").as_primitive::<UInt32Type>().value(row);
        let bytes = column("memory_used_bytes").as_primitive::<UInt64Type>().value(row);
        let percent = column("utilization_percent").as_primitive::<Float32Type>().value(row);
        format!("{celsius} {sm_mhz} {mem_mhz} {bytes} {percent}")
    });
    let distinct: std::collections::BTreeSet<_> = shown.collect();
    distinct.into_iter().collect()
}

#[test]
fn the_older_library_serves_where_the_newer_is_absent() {
    let place = Place::new();
    let library = mock_rocm_smi().display().to_string();
    let output = place.output(&attach(&library, &["--seconds", "0.3"]));
    assert!(output.status.success(), "{}", place.stderr(&output));
    let run = place.run("run");
    assert_eq!(run.manifest.hardware.label(), "Mock MI250X x 2");
    // Device 1 is a partition of board 0; opening asked each board twice at most.
    let first = watts(&run, "amd", "gpu0");
    assert_eq!(first[..2], [501, 502]);
    // Board 1 was asked for power of an instant first, which it does not tell.
    assert_eq!(watts(&run, "amd-average", "gpu1")[..2], [602, 603]);
    // 65,536 units of 2^-16 J are one joule a read, this one included.
    let counter = &device(&run, "amd", "gpu0").energy_j.value;
    for (energy_j, power_w) in counter.iter().zip(&first) {
        assert!((energy_j - (power_w - 499) as f64).abs() < 1e-9, "{energy_j} at {power_w}");
    }
    assert!(
        run.manifest.provenance.notes.join("\n").contains("3 devices are partitions of 2 boards")
    );
}

#[test]
fn a_library_that_is_not_there_or_another_one_is_said() {
    let place = Place::new();
    let message = |library: &str| {
        let output = place.output(&attach(library, &["--seconds", "0.1"]));
        assert_eq!(output.status.code(), Some(2));
        place.stderr(&output)
    };
    let absent = message("{}/none.so");
    assert!(
        absent.starts_with("error: power source \"amd\": AMD's library cannot be used: "),
        "{absent}"
    );
    let expected =
        "expected AMD's driver and libamd_smi.so of ROCm 6.1 or newer, or librocm_smi64.so";
    assert!(absent.trim_end().ends_with(expected), "{absent}");
    let other = message(&crate::support::mock_nvml().display().to_string());
    assert!(other.contains("the library has neither amdsmi_init nor rsmi_init"), "{other}");
    let library = mock_amd_smi().display().to_string();
    let mut command = place.record(&attach(&library, &["--seconds", "0.1"]));
    let output = command.env("MOCK_AMD_RELEASE", "23").output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    let old = place.stderr(&output);
    assert!(old.contains("release 23 of amd-smi's library tells power in another way"), "{old}");
    assert!(!place.archive().exists());
}
