//! What was measured, and in what state the accelerators were.

use wattrace_schema::spec::LockedSpec;
use wattrace_schema::{AcceleratorSamples, Flag, Interval};

use super::*;
use crate::test_run::{SECOND, request, set_requests};

const SPEC: &str = "
hardware: {accelerator: H200, vendor: nvidia, count: 1, hbm_bandwidth_gb_s: 4800}
engine: {name: vllm}
model: {name: m, dtype: bf16, quantisations: [bf16, fp8]}
slo: {ttft_p99_ms: 500, tpot_p99_ms: 60}
workload:
  request_rates: [1, 2.5, null]
  warmup_s: 30
  window_s: 300
  input_tokens: [1024, 8192]
  concurrency: [1, 64]
power: {node_source: redfish, board_source: nvml}
runs: {repeats: 5, configurations: {production: {}, candidate: {}}}
";

#[test]
fn a_spec_makes_the_rules() {
    let spec = LockedSpec::parse(SPEC).unwrap();
    let rules = ServiceRules::from(&spec);
    assert_eq!(rules.spec_hash.as_deref(), Some(spec.hash()));
    assert_eq!(rules.window, WindowRule { warmup_s: 30.0, length_s: Some(300.0) });
    assert_eq!(rules.objective, Some(OBJECTIVE));
    assert_eq!(rules.hbm_bandwidth_gb_s, Some(4800.0));
}

#[test]
fn what_was_named_and_not_measured_is_listed() {
    let spec = LockedSpec::parse(SPEC).unwrap();
    let runs = [
        RunConditions {
            configuration: Some("production".into()),
            // A beginning-of-text token and some more: near 1024.
            input_tokens: Some(1030.0),
            output_tokens: Some(128.0),
            concurrency: Some(64.0),
            quantisation: Some("bfloat16".into()),
            request_rate: Some(2.5),
            node_power: false,
            board_power: true,
        },
        RunConditions {
            input_tokens: Some(4096.0),
            request_rate: None,
            ..RunConditions::default()
        },
    ];
    let rows = coverage(Some(spec.hash()), spec.fields(), &runs);
    let table: Vec<_> = rows
        .iter()
        .map(|row| format!("{}: {:?}, not {:?}", row.dimension, row.measured, row.not_measured))
        .collect();
    insta::assert_snapshot!(table.join("\n"), @r#"
    configuration: ["production"], not ["candidate"]
    context_length: ["1024", "4096"], not ["8192"]
    output_length: ["128"], not []
    quantisation: ["bf16"], not ["fp8"]
    concurrency: ["64"], not ["1"]
    request_rate: ["2.5", "unlimited"], not ["1"]
    power_source: ["board"], not ["node"]
    "#);
    assert!(rows.iter().all(|row| row.spec_hash.as_deref() == Some(spec.hash())));
}

#[test]
fn the_conditions_of_a_run_are_read_off_its_rows() {
    let mut run = serving(100);
    run.manifest.model.dtype = Some("bfloat16".into());
    run.manifest.workload.request_rate = Some(4.0);
    add_flat(&mut run, Scope::Node, "node", 100, 500.0);
    // In flight: 1 from 0, 2 from 5, 3 from 8 to 10; at 10 one ends and one is sent: 3 again.
    set_requests(
        &mut run,
        &[
            request(0.0, 1.0, 10.0, 100),
            request(5.0, 6.0, 20.0, 200),
            request(8.0, 9.0, 30.0, 300),
            request(10.0, 11.0, 12.0, 400),
        ],
    );
    let conditions = RunConditions::of(&run, WindowRule::WHOLE);
    assert_eq!(conditions.concurrency, Some(3.0));
    assert_eq!((conditions.input_tokens, conditions.output_tokens), (Some(10.0), Some(250.0)));
    assert_eq!(conditions.quantisation.as_deref(), Some("bfloat16"));
    assert!(conditions.node_power && !conditions.board_power);
    // From 12 to 20 two are in flight.
    let late = WindowRule { warmup_s: 13.0, length_s: None };
    assert_eq!(RunConditions::of(&run, late).concurrency, Some(2.0));
}

#[test]
fn throttling_is_counted_by_the_times_at_which_it_sets_in() {
    let masks = [Some(0x1), Some(0x4), Some(0x5), None, Some(0x0), Some(0x60), Some(0x4)];
    let samples = AcceleratorSamples {
        device: "gpu0".into(),
        t_ns: (0..7).map(|t| t * SECOND).collect(),
        temperature_c: vec![
            Some(60.0),
            Some(71.5),
            None,
            Some(80.0),
            Some(65.0),
            Some(f32::NAN),
            Some(99.0),
        ],
        sm_clock_mhz: vec![
            Some(1980),
            Some(1700),
            Some(1650),
            None,
            Some(1980),
            Some(900),
            Some(300),
        ],
        throttle_reasons: masks.to_vec(),
    };
    let row = accelerator_health("run", &samples, Interval::new(0, 5 * SECOND));
    assert_eq!((row.samples, row.throttle_events, row.throttled_samples), (6, Some(2), 3));
    assert_eq!(
        row.throttle_reasons,
        ["sw-power-cap", "sw-thermal-slowdown", "hw-thermal-slowdown"]
    );
    assert_eq!((row.sm_clock_min_mhz, row.sm_clock_max_mhz), (Some(900), Some(1980)));
    assert_eq!((row.temperature_min_c, row.temperature_max_c), (Some(60.0), Some(80.0)));
    assert!(row.flags.contains(Flag::Throttled));

    let idle = accelerator_health("run", &samples, Interval::new(0, 0));
    assert_eq!((idle.throttle_events, idle.flags.is_empty()), (Some(0), true));
    let nothing = accelerator_health("run", &samples, Interval::new(3 * SECOND, 3 * SECOND));
    assert_eq!((nothing.samples, nothing.throttle_events), (1, None));
}
