//! From the runs of an archive to every table.

use std::sync::Arc;

use wattrace_schema::spec::LockedSpec;
use wattrace_schema::{AccuracyRow, Flag};

use super::*;

const SPEC: &str = "
hardware: {accelerator: H200, vendor: nvidia, count: 1, hbm_bandwidth_gb_s: 4800}
engine: {name: vllm}
model: {name: m, dtype: bf16}
slo: {ttft_p99_ms: 500, tpot_p99_ms: 60}
workload: {request_rates: [1, 2], warmup_s: 0, window_s: 10}
accuracy: {suite: gsm8k, seeds: [1], max_drop_points: 1, reference_score_points: 80}
runs: {repeats: 5}
";

fn spec(text: &str) -> Arc<LockedSpec> {
    Arc::new(LockedSpec::parse(text).unwrap())
}

/// Five runs a rate: rate 1 is good, rate 2 is slow; the first run has an item of score 0.8.
fn runs_of(
    configuration: &str,
    output_tok_s: f64,
    spec: Option<&Arc<LockedSpec>>,
) -> Vec<ServiceRun> {
    let mut measured = repeats(configuration, Some(1.0), output_tok_s, [100.0; 5]);
    measured.extend(repeats(configuration, Some(2.0), output_tok_s, [900.0; 5]));
    measured
        .into_iter()
        .enumerate()
        .map(|(index, measurement)| ServiceRun {
            measurement: RunMeasurement {
                rules: spec.map_or_else(ServiceRules::default, |spec| ServiceRules::from(&**spec)),
                ..measurement
            },
            accuracy: if index == 0 { vec![score(0.8)] } else { Vec::new() },
            spec: spec.map(|spec| (Arc::clone(spec), SpecOrigin::Run)),
            origin: RunOrigin { accelerator: "H200".into(), ..RunOrigin::default() },
            synthetic: false,
        })
        .collect()
}

fn score(score: f64) -> AccuracyRow {
    AccuracyRow { suite: "gsm8k".into(), item: "a".into(), seed: 1, score: Some(score) }
}

fn options() -> ServiceOptions {
    ServiceOptions { seed: 1, cards: 100, reference: None, allowed: Allowed::default() }
}

#[test]
fn runs_become_tables_by_spec_and_configuration_whatever_their_order() {
    let spec = spec(SPEC);
    let mut runs = runs_of("production", 98.0, Some(&spec));
    runs.extend(runs_of("candidate", 198.0, Some(&spec)));
    let service = analyze_service(runs.clone(), &options());
    assert_eq!((service.sweep.len(), service.goodput.len(), service.accuracy.len()), (4, 2, 2));
    assert_eq!(service.specs.len(), 1);
    assert_eq!(service.specs[0].reference.as_deref(), Some("production"));
    assert_eq!((service.specs[0].n_runs, service.runs.len()), (20, 20));
    assert!(service.warnings.is_empty() && service.refused.is_empty());
    // Medians 200 and 100 tokens/s: half the cards.
    let candidate = &service.capacity[0];
    assert_eq!(candidate.configuration.as_deref(), Some("candidate"));
    assert_eq!((candidate.cards_needed, candidate.cards_saved()), (Ok(50), Some(50)));
    assert_eq!(service.accuracy[0].passes, Ok(true));
    // Goodput, tokens per joule, two latencies and accuracy of the candidate against production.
    assert_eq!(service.comparison.len(), 5);
    assert_eq!(service.comparison[0].verdict, Verdict::Better);
    assert_eq!(service.comparison[0].spec_hash.as_deref(), Some(spec.hash()));
    let good: Vec<bool> = service.sweep.iter().map(|row| row.is_goodput_rate).collect();
    assert_eq!(good, [true, false, true, false]);

    runs.reverse();
    let reversed = analyze_service(runs, &options());
    assert_eq!(reversed.sweep, service.sweep);
    assert_eq!(reversed.goodput, service.goodput);
    assert_eq!(reversed.accuracy, service.accuracy);
    assert_eq!(reversed.comparison, service.comparison);
    assert_eq!(reversed.coverage, service.coverage);
}

#[test]
fn the_reference_is_what_was_asked_for_or_what_the_spec_names() {
    let named = spec(&SPEC.replace("repeats: 5", "repeats: 5, reference: candidate"));
    let mut runs = runs_of("production", 98.0, Some(&named));
    runs.extend(runs_of("candidate", 198.0, Some(&named)));
    let service = analyze_service(runs.clone(), &options());
    assert_eq!(service.specs[0].reference.as_deref(), Some("candidate"));
    let asked = ServiceOptions { reference: Some("production".into()), ..options() };
    let service = analyze_service(runs, &asked);
    assert_eq!(service.specs[0].reference.as_deref(), Some("production"));
    // Without any there is nothing to be held against.
    let service = analyze_service(runs_of("a", 98.0, Some(&spec(SPEC))), &options());
    assert_eq!(service.capacity[0].reason(), Some(Reason::NoReference));
    assert!(service.comparison.is_empty());
}

#[test]
fn specs_are_kept_apart_unless_it_is_asked_for() {
    let (first, second) = (spec(SPEC), spec(&SPEC.replace("ttft_p99_ms: 500", "ttft_p99_ms: 450")));
    let mut runs = runs_of("production", 98.0, Some(&first));
    runs.extend(runs_of("candidate", 198.0, Some(&second)));
    let service = analyze_service(runs.clone(), &options());
    assert!(service.comparison.is_empty());
    assert_eq!(service.refused.len(), 1);
    let allowed = Allowed { unequal_specs: true, cross_vendor: false };
    let service = analyze_service(runs, &ServiceOptions { allowed, ..options() });
    assert_eq!(service.comparison.len(), 5);
    assert!(service.comparison.iter().all(|row| row.flags.contains(Flag::UnequalSpecs)));
}

#[test]
fn without_a_spec_models_and_hardware_are_kept_apart() {
    let mut runs = runs_of("production", 98.0, None);
    for run in &mut runs[5..] {
        run.measurement.model = "another".into();
    }
    let service = analyze_service(runs, &options());
    assert_eq!(service.goodput.len(), 2);
    assert!(service.goodput.iter().all(|row| row.reason() == Some(Reason::NoSlo)));
    assert!(service.capacity.is_empty() && service.coverage.is_empty());

    // Under one spec they belong together by what it says, so a difference is told.
    let mut runs = runs_of("production", 98.0, Some(&spec(SPEC)));
    runs[7].measurement.hardware = "another x 2".into();
    let service = analyze_service(runs, &options());
    assert_eq!(service.goodput.len(), 1);
    assert!(service.goodput[0].flags.contains(Flag::MixedSubjects));
    assert_eq!(
        service.warnings,
        [
            "configuration \"production\" mixes runs of different models or hardware under one spec; \
          expected one of each"
        ]
    );
}
