use super::testing::Expected;
use super::*;

/// A folder of real logs beside the checkout (or where `WATTRACE_SHARED_DATA` says), read in place;
/// `None`, and a word about it, where there is none.
pub(super) fn shared_data(name: &str) -> Option<PathBuf> {
    let beside = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data");
    let root = std::env::var_os("WATTRACE_SHARED_DATA").map_or(beside, PathBuf::from);
    let folder = root.join(name);
    if folder.is_dir() {
        return Some(folder);
    }
    println!("skipped: the real logs are not at \"{}\"", folder.display());
    None
}

#[test]
fn names_are_unique_sorted_and_found() {
    let names: Vec<&str> = FORMATS.iter().map(|format| format.name).collect();
    assert!(names.is_sorted() && names.windows(2).all(|pair| pair[0] != pair[1]), "{names:?}");
    for format in FORMATS {
        assert_eq!(find(format.name).unwrap().title, format.title);
        for text in [format.title, format.recovers, format.lacks] {
            assert!(!text.is_empty());
        }
    }
}

#[test]
fn an_unknown_format_names_the_known_ones() {
    let error = import("csv", &[], Path::new("a"), &ImportOptions::default()).unwrap_err();
    assert!(error.to_string().starts_with("no format is called \"csv\"; expected one of "));
}

#[test]
fn an_input_that_is_not_there_fails_alone() {
    let inputs = ["/nowhere/a".into(), "/nowhere/b".into()];
    for format in FORMATS {
        let summary =
            import(format.name, &inputs, Path::new("a"), &ImportOptions::default()).unwrap();
        assert_eq!((summary.runs.len(), summary.failed.len()), (0, 2), "{}", format.name);
        assert!(summary.failed[0].contains("/nowhere/a"), "{:?}", summary.failed);
        assert!(format.detect(&inputs[0]).is_none());
    }
}

#[test]
fn ids_are_names_of_folders() {
    assert_eq!(safe_run_id("Llama 3.1/8B: ü"), "Llama_3.1_8B___");
    assert_eq!(safe_run_id("../up"), "_._up");
    assert_eq!(safe_run_id(&"x".repeat(500)).len(), 200);
}

/// A minimal input of every format that reads parts, written by us.
const CASES: &[testing::Case] = &[
    case("alumet", alumet::tests::MINIMAL),
    case("amd-smi", amd_smi::tests::MINIMAL),
    case("dcgm", dcgm::tests::MINIMAL),
    case("ipmi-dcmi", ipmi_dcmi::tests::MINIMAL),
    case("nvidia-dmon", nvidia_dmon::tests::MINIMAL),
    case("nvidia-smi", nvidia_smi::tests::MINIMAL),
    case("pdu-csv", pdu_csv::tests::MINIMAL),
    case("redfish", redfish::tests::MINIMAL),
    case("rocm-smi", rocm_smi::tests::MINIMAL),
    testing::Case { format: "aiperf", bytes: aiperf::tests::REQUESTS },
    testing::Case { format: "aiperf", bytes: aiperf::tests::TELEMETRY },
    testing::Case { format: "codecarbon", bytes: codecarbon::tests::MINIMAL },
    testing::Case { format: "genai-perf", bytes: genai_perf::tests::MINIMAL },
    testing::Case { format: "guidellm", bytes: guidellm::tests::MINIMAL },
    testing::Case { format: "inference-perf", bytes: inference_perf::tests::MINIMAL },
    testing::Case { format: "llama-bench", bytes: llama_bench::tests::LIST },
    testing::Case { format: "llama-bench", bytes: llama_bench::tests::TABLE },
    testing::Case { format: "llamacpp", bytes: llamacpp::tests::RESPONSES },
    testing::Case { format: "llamacpp", bytes: llamacpp::tests::LOG },
    testing::Case { format: "llm-inference-bench", bytes: llm_inference_bench::tests::POWER },
    testing::Case { format: "llm-inference-bench", bytes: llm_inference_bench::tests::TIMES },
    testing::Case { format: "mlenergy-raw", bytes: mlenergy_raw::tests::RESULTS },
    testing::Case { format: "mlenergy-raw", bytes: mlenergy_raw::tests::PROMETHEUS },
    testing::Case { format: "tokenpowerbench", bytes: tokenpowerbench::tests::MINIMAL },
    testing::Case { format: "trtllm-stats", bytes: trtllm_stats::tests::MINIMAL },
    testing::Case { format: "sglang-bench", bytes: sglang_bench::tests::MINIMAL },
    testing::Case { format: "sglang-log", bytes: sglang_log::tests::MINIMAL },
    testing::Case { format: "splitwise", bytes: splitwise::tests::MINIMAL },
    testing::Case { format: "vllm-bench", bytes: vllm_bench::tests::MINIMAL },
    testing::Case { format: "vllm-log", bytes: vllm_log::tests::MINIMAL },
    case("wattameter", wattameter::tests::MINIMAL),
    case("zeus", zeus::tests::MINIMAL),
];

/// One unit mistaken for another is an error of a factor of a thousand or more.
const UNITS: &[testing::UnitCase] = &[
    unit(
        "alumet",
        "power in mW",
        "metric;timestamp;value;resource_kind;resource_id;consumer_kind\n\
         nvml_instant_power_mW;2025-01-15T12:34:56Z;412340;gpu;0;local_machine\n",
        Expected::PowerW(412.34),
    ),
    unit(
        "alumet",
        "power in W",
        "metric;timestamp;value;resource_kind;resource_id;consumer_kind\n\
         nvml_instant_power_W;2025-01-15T12:34:56Z;412.34;gpu;0;local_machine\n",
        Expected::PowerW(412.34),
    ),
    unit(
        "amd-smi",
        "bare CSV counter in J",
        "timestamp,gpu,total_energy_consumption\n1736944496,0,1000000.5\n",
        Expected::EnergyJ(1_000_000.5),
    ),
    unit(
        "amd-smi",
        "JSON counter in MJ",
        r#"[{"timestamp": 1736944496, "gpu": 0, "energy": {"total_energy_consumption": {"value": 1.5, "unit": "MJ"}}}]"#,
        Expected::EnergyJ(1_500_000.0),
    ),
    unit(
        "amd-smi",
        "JSON counter in mJ",
        r#"[{"timestamp": 1736944496, "gpu": 0, "energy": {"total_energy_consumption": {"value": 1.5, "unit": "mJ"}}}]"#,
        Expected::EnergyJ(0.0015),
    ),
    unit(
        "amd-smi",
        "JSON power in mW",
        r#"[{"timestamp": 1736944496, "gpu": 0, "power": {"socket_power": {"value": 238000, "unit": "mW"}}}]"#,
        Expected::PowerW(238.0),
    ),
    unit(
        "dcgm",
        "counter in mJ",
        "# 1736944496\nDCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION{UUID=\"a\",gpu=\"0\"} 1500\n",
        Expected::EnergyJ(1.5),
    ),
    unit(
        "dcgm",
        "memory in MiB",
        "# 1736944496\nDCGM_FI_DEV_POWER_USAGE{UUID=\"a\",gpu=\"0\"} 1\n\
         DCGM_FI_DEV_FB_USED{UUID=\"a\",gpu=\"0\"} 2\n",
        Expected::MemoryBytes(2_097_152),
    ),
    unit(
        "ipmi-dcmi",
        "watts",
        "1736944496\nInstantaneous power reading: 1500 Watts\nPower reading state is: activated\n",
        Expected::PowerW(1500.0),
    ),
    unit(
        "nvidia-dmon",
        "power in mW by the second header line",
        "# Date Time gpu pwr\n# YYYYMMDD HH:MM:SS Idx mW\n 20250115 12:34:56 0 412340\n",
        Expected::PowerW(412.34),
    ),
    unit(
        "nvidia-dmon",
        "memory whose MB are of 2^20 bytes",
        "# Date Time gpu pwr fb\n# YYYYMMDD HH:MM:SS Idx W MB\n 20250115 12:34:56 0 412 3\n",
        Expected::MemoryBytes(3_145_728),
    ),
    unit(
        "nvidia-smi",
        "power in mW by the header",
        "timestamp, index, power.draw [mW]\n2025/01/15 12:34:56.000, 0, 412340\n",
        Expected::PowerW(412.34),
    ),
    unit(
        "nvidia-smi",
        "power in kW by the cell",
        "timestamp, index, power.draw [W]\n2025/01/15 12:34:56.000, 0, 0.41234 kW\n",
        Expected::PowerW(412.34),
    ),
    unit(
        "nvidia-smi",
        "memory in GB by the header",
        "timestamp, index, power.draw [W], memory.used [GB]\n2025/01/15 12:34:56.000, 0, 1 W, 70\n",
        Expected::MemoryBytes(70_000_000_000),
    ),
    unit(
        "nvidia-smi",
        "memory in MiB",
        "timestamp, index, power.draw [W], memory.used [MiB]\n2025/01/15 12:34:56.000, 0, 1 W, 2 MiB\n",
        Expected::MemoryBytes(2_097_152),
    ),
    unit(
        "pdu-csv",
        "counter in kWh",
        "time,outlet,energy (kWh)\n2025-01-15T12:34:56Z,1,2.5\n",
        Expected::EnergyJ(9_000_000.0),
    ),
    unit(
        "pdu-csv",
        "counter in Wh",
        "time,outlet,energy_wh\n2025-01-15T12:34:56Z,1,2.5\n",
        Expected::EnergyJ(9_000.0),
    ),
    unit(
        "pdu-csv",
        "power in mW by the header",
        "time,outlet,power (mW)\n2025-01-15T12:34:56Z,1,812500\n",
        Expected::PowerW(812.5),
    ),
    unit(
        "pdu-csv",
        "power in units that may be milli or mega",
        "time,outlet,power_mw\n2025-01-15T12:34:56Z,1,812500\n",
        Expected::Refused(
            "\"input\" line 1: column \"power_mw\" may be in milli- or in mega-units; expected the unit in \
             brackets, such as \"power (mW)\"",
        ),
    ),
    unit(
        "redfish",
        "counter in kWh",
        r#"{"t": 1736944496, "body": {"@odata.id": "/redfish/v1/Chassis/1/EnvironmentMetrics", "EnergykWh": {"Reading": 2.5}}}"#,
        Expected::EnergyJ(9_000_000.0),
    ),
    unit(
        "redfish",
        "counter in J",
        r#"{"t": 1736944496, "body": {"@odata.id": "/redfish/v1/Chassis/1/EnvironmentMetrics", "EnergyJoules": {"Reading": 2.5}}}"#,
        Expected::EnergyJ(2.5),
    ),
    unit(
        "redfish",
        "sensor in kW",
        r#"{"t": 1736944496, "body": {"@odata.id": "/x", "ReadingType": "Power", "Reading": 1.5, "ReadingUnits": "kW", "PhysicalContext": "Chassis"}}"#,
        Expected::PowerW(1500.0),
    ),
    unit(
        "rocm-smi",
        "counter in µJ",
        "1736944496\n{\"card0\": {\"Accumulated Energy (uJ)\": \"1500000\"}}\n",
        Expected::EnergyJ(1.5),
    ),
    unit(
        "wattameter",
        "power in mW",
        "# timestamp reading-time[ns] gpu-0[mW] gpu-0[C]\n 2025-01-15_12:34:56.1 5 75832 41C\n",
        Expected::PowerW(75.832),
    ),
    unit(
        "wattameter",
        "power in W",
        "# timestamp reading-time[ns] gpu-0[W] gpu-0[C]\n 2025-01-15_12:34:56.1 5 75.832 41C\n",
        Expected::PowerW(75.832),
    ),
    unit(
        "wattameter",
        "counter in µJ",
        "# timestamp reading-time[ns] cpu-0[uJ] x\n 2025-01-15_12:34:56.1 5 1500000 x\n",
        Expected::EnergyJ(1.5),
    ),
    unit(
        "wattameter",
        "counter in mJ",
        "# timestamp reading-time[ns] cpu-0[mJ] x\n 2025-01-15_12:34:56.1 5 1500000 x\n",
        Expected::EnergyJ(1500.0),
    ),
    testing::UnitCase {
        format: "aiperf",
        what: "counter in MJ",
        bytes: aiperf::tests::TELEMETRY,
        expected: testing::Expected::EnergyJ(1_234_500.0),
    },
    testing::UnitCase {
        format: "aiperf",
        what: "power in W",
        bytes: aiperf::tests::TELEMETRY,
        expected: testing::Expected::PowerW(412.5),
    },
    testing::UnitCase {
        format: "aiperf",
        what: "memory in GB, not GiB",
        bytes: aiperf::tests::TELEMETRY,
        expected: testing::Expected::MemoryBytes(70_000_000_000),
    },
    testing::UnitCase {
        format: "aiperf",
        what: "time in a unit that nobody knows",
        bytes: b"{\"metadata\":{\"request_start_ns\":1,\"benchmark_phase\":\"profiling\"},\"metrics\":{\"time_to_first_token\":{\"value\":1.0,\"unit\":\"jiffies\"}}}\n",
        expected: testing::Expected::Refused(
            "\"input\": holds no request of AIPerf; input line 1 skipped: metrics.time_to_first_token: \
             \"jiffies\" is no unit of time; expected one of ns, us, \u{b5}s, ms, s, sec, min, h",
        ),
    },
    testing::UnitCase {
        format: "codecarbon",
        what: "energy in kWh",
        bytes: codecarbon::tests::MINIMAL,
        expected: testing::Expected::Claim("gpu_energy_j", 36_000.0),
    },
    testing::UnitCase {
        format: "codecarbon",
        what: "power in W",
        bytes: codecarbon::tests::MINIMAL,
        expected: testing::Expected::Claim("gpu_power_w", 360.0),
    },
    testing::UnitCase {
        format: "llm-inference-bench",
        what: "power in mW",
        bytes: llm_inference_bench::tests::POWER,
        expected: testing::Expected::Claim("formal_power_w", 250.0),
    },
    testing::UnitCase {
        format: "llm-inference-bench",
        what: "time in s",
        bytes: llm_inference_bench::tests::TIMES,
        expected: testing::Expected::Claim("ttft_mean_ms", 500.0),
    },
    testing::UnitCase {
        format: "splitwise",
        what: "time in ms, power as a share of the rated one",
        bytes: splitwise::tests::MINIMAL,
        expected: testing::Expected::Claim("formal_power_share_of_rated", 0.75),
    },
    testing::UnitCase {
        format: "mlenergy-raw",
        what: "power in W",
        bytes: mlenergy_raw::tests::RESULTS,
        expected: testing::Expected::PowerW(300.0),
    },
    testing::UnitCase {
        format: "mlenergy-raw",
        what: "energy in J",
        bytes: mlenergy_raw::tests::RESULTS,
        expected: testing::Expected::Claim("steady_energy_j", 3000.0),
    },
    testing::UnitCase {
        format: "guidellm",
        what: "latency in s, claimed in ms",
        bytes: guidellm::tests::MINIMAL,
        expected: testing::Expected::Claim("e2e_p50_ms", 500.0),
    },
    testing::UnitCase {
        format: "llama-bench",
        what: "time in ns, claimed in s/token",
        bytes: llama_bench::tests::TABLE,
        expected: testing::Expected::Claim("tau_s", 0.01),
    },
    testing::UnitCase {
        format: "tokenpowerbench",
        what: "energy in J",
        bytes: tokenpowerbench::tests::MINIMAL,
        expected: testing::Expected::Claim("formal_energy_j", 3000.0),
    },
    testing::UnitCase {
        format: "vllm-bench",
        what: "statistics in ms beside lists in s",
        bytes: vllm_bench::tests::MINIMAL,
        expected: testing::Expected::Claim("ttft_mean_ms", 230.0),
    },
    testing::UnitCase {
        format: "genai-perf",
        what: "times in ns",
        bytes: genai_perf::tests::MINIMAL,
        expected: Expected::TtftNs(200_000_000),
    },
    testing::UnitCase {
        format: "inference-perf",
        what: "times in s",
        bytes: inference_perf::tests::MINIMAL,
        expected: Expected::TtftNs(100_000_000),
    },
    testing::UnitCase {
        format: "llamacpp",
        what: "times of a response in ms",
        bytes: llamacpp::tests::RESPONSES,
        expected: Expected::TtftNs(100_500_000),
    },
    testing::UnitCase {
        format: "llamacpp",
        what: "stamps of a log: minutes, seconds, ms and us",
        bytes: llamacpp::tests::LOG,
        expected: Expected::GapNs(10_000_000),
    },
    testing::UnitCase {
        format: "sglang-bench",
        what: "lists in s beside statistics in ms",
        bytes: sglang_bench::tests::MINIMAL,
        expected: Expected::TtftNs(210_000_000),
    },
    testing::UnitCase {
        format: "sglang-bench",
        what: "statistics in ms",
        bytes: sglang_bench::tests::MINIMAL,
        expected: Expected::Claim("ttft_p50_ms", 210.0),
    },
    testing::UnitCase {
        format: "sglang-log",
        what: "throughput in tokens/s between two lines",
        bytes: sglang_log::tests::MINIMAL,
        expected: Expected::StepTokens(80),
    },
    testing::UnitCase {
        format: "trtllm-stats",
        what: "an iteration in ms",
        bytes: trtllm_stats::tests::MINIMAL,
        expected: Expected::StepNs(18_250_000),
    },
    testing::UnitCase {
        format: "vllm-bench",
        what: "lists in s",
        bytes: vllm_bench::tests::MINIMAL,
        expected: Expected::TtftNs(210_000_000),
    },
    testing::UnitCase {
        format: "vllm-log",
        what: "an iteration in ms",
        bytes: vllm_log::tests::MINIMAL,
        expected: Expected::StepNs(150_000_000),
    },
    unit(
        "zeus",
        "energy of a window in J",
        "start_time,window_name,elapsed_time,gpu0_energy\n1736944496.25,prefill,1.5,600.5\n",
        Expected::LastEnergyJ(600.5),
    ),
    testing::UnitCase {
        format: "vllm-log",
        what: "a duration in another unit",
        bytes: b"INFO 01-15 12:34:56 [a.py:1] Iteration(1): 0 context requests, 0 context tokens, 1 generation requests, 1 generation tokens, iteration elapsed time: 0.02 watts\n",
        expected: testing::Expected::Refused(
            "\"input\": holds no stat line and no iteration line of vLLM; expected \"Avg prompt throughput: …\" \
             or, with --enable-logging-iteration-details, \"Iteration(N): …\"",
        ),
    },
];

/// The same for formats whose runs lie in folders.
const FOLDER_UNITS: &[testing::FolderUnitCase] = &[
    testing::FolderUnitCase {
        format: "inferencex",
        what: "board power in W",
        files: INFERENCEX,
        expected: Expected::PowerW(500.0),
    },
    testing::FolderUnitCase {
        format: "inferencex",
        what: "energy of boards in J, claimed as their sum",
        files: INFERENCEX,
        expected: Expected::Claim("formal_energy_j", 1687.5),
    },
    testing::FolderUnitCase {
        format: "mlenergy-leaderboard",
        what: "J/token",
        files: LEADERBOARD,
        expected: Expected::Claim("j_per_token", 2.0),
    },
    testing::FolderUnitCase {
        format: "mlenergy-leaderboard",
        what: "tokens/s, claimed in s/token",
        files: LEADERBOARD,
        expected: Expected::Claim("tau_s", 0.02),
    },
    testing::FolderUnitCase {
        format: "mlperf-power",
        what: "watts",
        files: MLPERF,
        expected: Expected::PowerW(1000.0),
    },
    testing::FolderUnitCase {
        format: "mlperf-power",
        what: "latency in ns, claimed in ms",
        files: MLPERF,
        expected: Expected::Claim("e2e_p99_ms", 5000.0),
    },
];

const INFERENCEX: &[(&str, &str)] = &[
    ("gpu_metrics.csv", inferencex::tests::AMD),
    ("power_validation_conc8.json", inferencex::tests::VALIDATION),
];

const LEADERBOARD: &[(&str, &str)] = &[(
    "task_chat.json",
    r#"{"task": "chat", "configurations": [{"model_id": "a/b", "architecture": "Dense Transformer",
        "gpu_model": "H100", "num_gpus": 1, "tensor_parallel": 1, "data_parallel": 1, "expert_parallel": 1,
        "weight_precision": "bfloat16", "total_params_billions": 8.0, "activated_params_billions": 8.0,
        "max_num_seqs": 1, "avg_batch_size": 1.0, "avg_output_len": 640.0, "avg_power_watts": 100.0,
        "output_throughput_tokens_per_sec": 50.0, "energy_per_token_joules": 2.0}]}"#,
)];

const MLPERF: &[(&str, &str)] = &[
    (
        "run_1_spl.txt",
        "Time,07-17-2024 09:00:02.500,Watts,1000.0,Volts,230.0,Amps,5.0,PF,0.99,Mark,2024-07-17_02-00-00_testing\n\
         Time,07-17-2024 09:00:04.000,Watts,1001.0,Volts,230.0,Amps,5.0,PF,0.99,Mark,2024-07-17_02-00-00_testing\n\
         Time,07-17-2024 09:00:06.000,Watts,1002.0,Volts,230.0,Amps,5.0,PF,0.99,Mark,2024-07-17_02-00-00_testing\n",
    ),
    ("run_1_mlperf_log_detail.txt", mlperf_power::tests::DETAIL),
    ("run_1_mlperf_log_summary.txt", mlperf_power::tests::SUMMARY),
    ("power_client.json", mlperf_power::tests::CLIENT),
];

const fn case(format: &'static str, text: &'static str) -> testing::Case {
    testing::Case { format, bytes: text.as_bytes() }
}

const fn unit(
    format: &'static str,
    what: &'static str,
    text: &'static str,
    expected: Expected,
) -> testing::UnitCase {
    testing::UnitCase { format, what, bytes: text.as_bytes(), expected }
}

#[test]
fn every_format_has_a_minimal_case_that_is_detected_and_imports() {
    for format in testing::part_formats() {
        assert!(CASES.iter().any(|case| case.format == format), "{format} has no minimal case");
    }
    for case in CASES {
        assert!(testing::detected(case.format, case.bytes).is_some(), "{}", case.format);
        let strict = ImportOptions { strict: true, ..testing::options() };
        let (runs, notes, failed) = testing::imported(case.format, case.bytes, &strict);
        assert!(!runs.is_empty() && failed.is_empty(), "{}: {notes:?} {failed:?}", case.format);
    }
}

#[test]
fn no_minimal_case_looks_like_another_format() {
    for case in CASES {
        let (_folder, path) = testing::file(case.bytes);
        let found = detect(&path);
        let names: Vec<&str> = found.iter().map(|found| found.format.name).collect();
        assert_eq!(names, [case.format]);
    }
}

#[test]
fn mutated_inputs_never_panic() {
    testing::mutated_inputs_never_panic(CASES);
}

#[test]
fn units_are_told_apart() {
    testing::units_are_told_apart(UNITS);
    testing::units_in_folders_are_told_apart(FOLDER_UNITS);
}

#[test]
fn every_format_has_a_row_in_the_table_of_units() {
    let parts = UNITS.iter().map(|case| case.format);
    let tested: Vec<&str> = parts.chain(FOLDER_UNITS.iter().map(|case| case.format)).collect();
    for format in FORMATS {
        assert!(tested.contains(&format.name), "{} has no row", format.name);
    }
}
