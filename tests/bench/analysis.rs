//! The inner loops: metrics of one run, percentiles, the bootstrap of one setting.

#![allow(missing_docs, reason = "criterion's macros make undocumented items")]

use std::hint::black_box;

use criterion::{Criterion, criterion_group, criterion_main};
use wattrace_analysis::Options;
use wattrace_analysis::metrics::analyze;
use wattrace_analysis::stats::{Design, Term, cell_bootstrap, least_squares, percentiles};
use wattrace_schema::{
    DevicePower, Gaps, Hardware, Model, PowerSource, Reading, RequestStage, RequestStatus,
    Requests, Run, RunKind, RunManifest, Scope, Series, TimestampNs,
};

const SECOND: i64 = 1_000_000_000;
const BOARDS: usize = 8;
const REQUESTS: usize = 5_000;
const TOKENS: usize = 64;
const FORMAL_S: i64 = 600;

/// A run of 8 boards at 10 Hz over 10 minutes, and 5,000 requests of 64 tokens.
fn run() -> Run {
    let model = Model { name: "benchmark".into(), ..Model::default() };
    let hardware =
        Hardware { accelerator: "simulated".into(), count: BOARDS as u32, ..Hardware::default() };
    let mut manifest = RunManifest::new("benchmark".into(), RunKind::Serving, model, hardware);
    manifest.synthetic = true;
    manifest.stages.formal_start = Some(TimestampNs::from_nanos(0));
    manifest.stages.formal_end = Some(TimestampNs::from_nanos(FORMAL_S * SECOND));
    manifest.power_sources.push(PowerSource {
        id: "board".into(),
        scope: Scope::GpuBoard,
        reading: Reading::Instant,
        averaging_window_ms: None,
        nominal_interval_ms: 100.0,
        counter_wrap_j: None,
        counter_refresh_ms: None,
        accuracy_percent: None,
        clock_offset_ns: None,
        clock_offset_uncertainty_ns: None,
        interpolation: wattrace_schema::Interpolation::Linear,
    });
    let power = (0..BOARDS).map(board).collect();
    Run {
        manifest,
        power,
        requests: Some(requests()),
        steps: None,
        accuracy: Vec::new(),
        accelerators: Vec::new(),
        engine_metrics: Vec::new(),
    }
}

fn board(index: usize) -> DevicePower {
    let t_ns: Vec<i64> = (0..=FORMAL_S * 10).map(|tick| tick * SECOND / 10).collect();
    let value = (0..t_ns.len()).map(|tick| 400.0 + (tick * (index + 3) % 97) as f64).collect();
    DevicePower {
        device: format!("gpu{index}"),
        power_w: Series { t_ns, value },
        ..DevicePower::default()
    }
}

fn requests() -> Requests {
    let duration_ns = 30 * SECOND;
    let spacing_ns = (FORMAL_S * SECOND - duration_ns) / REQUESTS as i64;
    let sends: Vec<i64> = (0..REQUESTS as i64).map(|index| index * spacing_ns).collect();
    let after = |by_ns: i64| sends.iter().map(|send| Some(send + by_ns)).collect::<Vec<_>>();
    let gap_ns = (duration_ns - SECOND) as u64 / (TOKENS as u64 - 1);
    Requests {
        request_id: (0..REQUESTS).map(|index| format!("{index:06}")).collect(),
        stage: vec![RequestStage::Formal; REQUESTS],
        status: vec![RequestStatus::Ok; REQUESTS],
        t_send_ns: after(0),
        t_first_token_ns: after(SECOND),
        t_end_ns: after(duration_ns),
        ttft_ns: vec![None; REQUESTS],
        e2e_ns: vec![None; REQUESTS],
        input_tokens: vec![Some(100); REQUESTS],
        output_tokens: vec![Some(TOKENS as u32); REQUESTS],
        reasoning_tokens: vec![None; REQUESTS],
        gaps: Gaps {
            offsets: (0..=REQUESTS).map(|index| index * (TOKENS - 1)).collect(),
            gap_ns: vec![gap_ns; REQUESTS * (TOKENS - 1)],
            tokens: Vec::new(),
        },
        error: vec![None; REQUESTS],
    }
}

/// 200 runs in 50 cells, three terms.
fn design() -> Design {
    let rows = 200;
    let column = |factor: usize| (0..rows).map(move |row| ((row * factor) % 101) as f64 / 101.0);
    let terms: Vec<Term> = [("alpha", 7), ("beta", 13), ("p_tau_w", 29)]
        .into_iter()
        .map(|(name, factor)| Term { name: name.into(), column: column(factor).collect() })
        .collect();
    let response =
        column(43).zip(column(7)).map(|(noise, x)| 1.0 + 2.0 * x + 0.01 * noise).collect();
    let clusters = (0..rows).map(|row| row / 4).collect();
    Design::new("c", response, terms, clusters).expect("the columns are independent")
}

fn benchmarks(criterion: &mut Criterion) {
    let run = run();
    let options = Options::default();
    criterion.bench_function("metrics of one run (8 boards, 5,000 requests)", |bencher| {
        bencher.iter(|| analyze(black_box(&run), &options));
    });
    let values: Vec<f64> = (0..1_000_000_u64).map(|i| (i * 7_919 % 1_000_003) as f64).collect();
    criterion.bench_function("four percentiles of a million values", |bencher| {
        bencher.iter_batched(
            || values.clone(),
            |mut values| percentiles(&mut values, &[0.5, 0.9, 0.95, 0.99]),
            criterion::BatchSize::LargeInput,
        );
    });
    let design = design();
    criterion.bench_function("least squares, 200 runs", |bencher| {
        bencher.iter(|| least_squares(black_box(&design)));
    });
    criterion.bench_function("10,000 resamples of 50 cells, 200 runs", |bencher| {
        bencher.iter(|| cell_bootstrap(black_box(&design), 10_000, 1));
    });
}

criterion_group!(benches, benchmarks);
criterion_main!(benches);
