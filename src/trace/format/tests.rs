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
    testing::Case { format: "mlenergy-raw", bytes: mlenergy_raw::tests::RESULTS },
    testing::Case { format: "mlenergy-raw", bytes: mlenergy_raw::tests::PROMETHEUS },
    testing::Case { format: "tokenpowerbench", bytes: tokenpowerbench::tests::MINIMAL },
    testing::Case { format: "trtllm-stats", bytes: trtllm_stats::tests::MINIMAL },
    testing::Case { format: "sglang-bench", bytes: sglang_bench::tests::MINIMAL },
    testing::Case { format: "sglang-log", bytes: sglang_log::tests::MINIMAL },
    testing::Case { format: "vllm-bench", bytes: vllm_bench::tests::MINIMAL },
    testing::Case { format: "vllm-log", bytes: vllm_log::tests::MINIMAL },
];

/// One unit mistaken for another is an error of a factor of a thousand or more.
const UNITS: &[testing::UnitCase] = &[
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
];

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
}
