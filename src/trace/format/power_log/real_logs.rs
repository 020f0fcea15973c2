//! Real logs of the shared data, imported and checked where the folder is there.

use std::path::Path;

use super::super::tests::shared_data;
use super::super::{ImportOptions, detect, import, testing};
use crate::{ReadOptions, check_run, find_runs, read_run};

/// Imports `input`; gives a line about each run: its devices with their readings and ends, and what
/// `check` finds.
fn imported(format: &str, input: &Path, options: &ImportOptions) -> Vec<String> {
    let folder = tempfile::tempdir().unwrap();
    let archive = folder.path().join("archive");
    let summary = import(format, &[input.to_owned()], &archive, options).unwrap();
    assert!(summary.failed.is_empty(), "{:?}", summary.failed);
    let mut lines = summary.notes;
    for location in find_runs(&archive).unwrap() {
        let run = read_run(&location, ReadOptions::default()).unwrap().run;
        for device in &run.power {
            let source = &run.manifest.power_sources[device.source];
            let ends = |values: &[f64]| match values {
                [first, .., last] => format!("{} from {first} to {last}", values.len()),
                values => format!("{values:?}"),
            };
            lines.push(format!(
                "{} {} ({}, {} ms): W {}; J {}",
                source.id,
                device.device,
                source.scope.name(),
                source.nominal_interval_ms,
                ends(&device.power_w.value),
                ends(&device.energy_j.value)
            ));
        }
        let check = check_run(&location);
        lines.extend(check.findings().map(|found| format!("{}: {}", found.check, found.message)));
    }
    lines
}

fn zoned(zone: &str) -> ImportOptions {
    ImportOptions { time_zone: Some(zone.into()), strict: true, ..ImportOptions::default() }
}

#[test]
fn wattameter_logs_of_four_boards() {
    let Some(folder) = shared_data("wattameter_logs") else { return };
    let log = folder.join("nvml_wattameter.log");
    insta::assert_snapshot!(imported("wattameter", &log, &zoned("America/Denver")).join("\n"), @r#"
    nvml_wattameter: board power is taken for NVML's mean over one second, as on Ampere and later; the log does not name the boards
    nvml_wattameter: the model is not named: model.name is "unknown"
    wattameter-gpu gpu0 (gpu-board, 100 ms): W 140 from 75.832 to 670.918; J []
    wattameter-gpu gpu1 (gpu-board, 100 ms): W 140 from 74.362 to 680.279; J []
    wattameter-gpu gpu2 (gpu-board, 100 ms): W 140 from 75.288 to 672.015; J []
    wattameter-gpu gpu3 (gpu-board, 100 ms): W 140 from 73.544 to 650.557; J []
    tables-of-kind: it is missing; a serving run usually has it
    stamps-present: key "stages" lacks formal_start and formal_end, which would bound the measured window of a serving run
    stamps-lifecycle: key "stages" lacks idle_start, idle_end, launch, process_exit, memory_released, monitor_end, of what bounds the idle, startup, release and lifecycle values
    power-order: rows are not sorted by source, device, t; no value depends on it
    "#);
}

#[test]
fn wattameter_logs_of_two_packages() {
    let Some(folder) = shared_data("wattameter_logs") else { return };
    let log = folder.join("rapl_wattameter.log");
    // Its last line has no end.
    let options = ImportOptions { strict: false, ..zoned("America/Denver") };
    let lines = imported("wattameter", &log, &options);
    for expected in [
        "rapl_wattameter: rapl_wattameter.log line 143 skipped: was cut off",
        "wattameter-cpu cpu0 (cpu, 100 ms): W []; J 139 from 23803.563318 to 25339.584072",
        "wattameter-cpu cpu1 (cpu, 100 ms): W []; J 139 from 18146.807011 to 19655.10485",
    ] {
        assert!(lines.iter().any(|line| line == expected), "{expected}: {lines:#?}");
    }
}

#[test]
fn inferencex_excerpt_with_accumulators_of_another_boot() {
    let Some(folder) = shared_data("inferencex_history") else { return };
    let folder = folder.join("mi355x_amdsmi");
    let options = ImportOptions { strict: true, ..ImportOptions::default() };
    insta::assert_snapshot!(imported("inferencex", &folder, &options).join("\n"), @r#"
    mi355x_amdsmi: amd-smi stamps whole seconds: each time is uncertain by one second
    mi355x_amdsmi: gpu_metrics_energy_start.csv and gpu_metrics_energy_end.csv: the counters of 8 of 8 boards fall, so the two are not of one run, or a driver was loaded again; they are not used
    mi355x_amdsmi: no window of a benchmark is stated, so the run has no formal window
    mi355x_amdsmi: the model is not named: model.name is "unknown"
    socket_power gpu0 (gpu-board, 1000 ms): W 2 from 238 to 239; J []
    socket_power gpu1 (gpu-board, 1000 ms): W 2 from 242 to 242; J []
    socket_power gpu2 (gpu-board, 1000 ms): W [246.0]; J []
    tables-of-kind: it is missing; a serving run usually has it
    stamps-present: key "stages" lacks formal_start and formal_end, which would bound the measured window of a serving run
    stamps-lifecycle: key "stages" lacks idle_start, idle_end, launch, process_exit, memory_released, monitor_end, of what bounds the idle, startup, release and lifecycle values
    power-order: rows are not sorted by source, device, t; no value depends on it
    "#);
    // The log alone is amd-smi's, and one reading of the counters needs its time.
    let log = folder.join("gpu_metrics_excerpt.csv");
    let names =
        |path: &Path| detect(path).iter().map(|found| found.format.name).collect::<Vec<_>>();
    assert_eq!(names(&log), ["amd-smi"]);
    let counters = folder.join("gpu_metrics_energy_start.csv");
    let error = testing::collect("amd-smi", &std::fs::read(counters).unwrap(), &options);
    insta::assert_snapshot!(error.unwrap_err(), @r#""input" line 2: has no "timestamp", as amd-smi writes without -w: one reading; give its time (--anchor)"#);
}

/// DMTF's mock resources are no log: they have no times. Wrapped as polls they read as they should.
#[test]
fn redfish_mock_resources_wrapped_as_polls() {
    let Some(folder) = shared_data("redfish_mockup") else { return };
    let poll = |name: &str| {
        let text = std::fs::read_to_string(folder.join(name)).unwrap();
        let body: serde_json::Value = serde_json::from_str(&text).unwrap();
        let text = format!("{{\"time\": \"2025-01-15T12:34:56Z\", \"body\": {body}}}\n");
        let rows = testing::collect("redfish", text.as_bytes(), &ImportOptions::default());
        match rows {
            Ok(rows) => super::testing::show(&rows.power),
            Err(error) => error,
        }
    };
    let shown: Vec<String> = [
        "Chassis_1U_Power.json",
        "Chassis_1U_EnvironmentMetrics.json",
        "Chassis_1U_Sensors_CPU1Power.json",
        "Chassis_1U_Sensors_TotalEnergy.json",
        "Chassis_1U_Sensors_PS1Energy.json",
        "Chassis_1U_PowerSubsystem_PowerSupplies_Bay1_Metrics.json",
    ]
    .into_iter()
    .map(poll)
    .collect();
    insta::assert_snapshot!(shown.join("\n"), @r#"
    0s redfish node 344 W
    0s redfish node 374 W
    0s redfish-cpu CPU1Power 90 W
    0s redfish node - 1172430000000 J
    "input": holds no reading of power or energy
    "input": holds no reading of power or energy
    "#);
    assert!(detect(&folder.join("Chassis_1U_Power.json")).is_empty());
}

/// Resampled traces and tables of totals belong to `map` and to claims, not to a format of power.
#[test]
fn tables_of_totals_are_no_logs() {
    for (name, file) in [
        ("openg2g_mlenergy_power_traces", "traces/Llama-3.1-8B_num_gpus_1_max_num_seqs_8.csv"),
        ("splitwise_sim", "perf_model.csv"),
        ("argonne_llm_inference_bench", "Plots_Fig_16_a_b_power_results.csv"),
        ("codecarbon", "emissions.csv"),
    ] {
        let Some(folder) = shared_data(name) else { continue };
        let power = [
            "alumet",
            "amd-smi",
            "dcgm",
            "inferencex",
            "ipmi-dcmi",
            "nvidia-dmon",
            "nvidia-smi",
            "pdu-csv",
            "redfish",
            "rocm-smi",
            "wattameter",
            "zeus",
        ];
        let found = detect(&folder.join(file));
        let claimed = found.iter().map(|found| found.format.name).find(|name| power.contains(name));
        assert_eq!(claimed, None, "{file}");
    }
}
