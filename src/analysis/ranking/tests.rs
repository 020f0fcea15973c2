//! Rankings worked by hand.

use wattrace_schema::{Flag, FlagSet, Reason, SizeGroup};

use super::*;
use crate::stats::PValueMethod;

/// A run of `model` on engine "a", task "chat", a small model, 1000 tokens.
fn run(run_id: &str, model: &str, steady: f64, lifecycle: f64) -> ServingRun {
    ServingRun {
        identity: RunIdentity {
            run_id: run_id.into(),
            model: model.into(),
            task: Some("chat".into()),
            size_group: Some(SizeGroup::Small),
            engine: Some("a".into()),
            hardware: "x x 1".into(),
            synthetic: false,
        },
        values: ServingValues {
            steady_j_per_token: Ok(steady),
            lifecycle_j_per_token: Ok(lifecycle),
            output_tokens: Ok(1000.0),
            fixed_energy_j: Ok(150.0),
            steady_j_per_request: Ok(50.0),
            mean_request_output_tokens: Ok(100.0),
            flags: FlagSet::EMPTY,
        },
    }
}

fn on_engine(engine: &str, tokens: f64, run: ServingRun) -> ServingRun {
    let mut run = run;
    run.identity.engine = Some(engine.into());
    run.values.output_tokens = Ok(tokens);
    run
}

fn ranked(runs: &[ServingRun]) -> Ranking {
    rank(runs, &RankOptions { resamples: 200, seed: 1 })
}

#[test]
fn neighbours_that_swap_are_named() {
    // Steady order one, two, three, four; over the lifecycle two and three change places.
    // ρ = 1 - 6 · 2/(4 · 15) = 0.8; 8 of the 24 orders have |ρ| >= 0.8; τ = (5 - 1)/6.
    let ranking = ranked(&[
        run("r1", "one", 1.0, 10.0),
        run("r2", "two", 2.0, 30.0),
        run("r3", "three", 3.0, 20.0),
        run("r4", "four", 4.0, 40.0),
    ]);
    let [group] = &ranking.groups[..] else { panic!("{:?}", ranking.groups) };
    let agreement = group.agreement.unwrap();
    assert_eq!((group.n_models, group.n_runs, agreement.n), (4, 4, 4));
    assert!((agreement.spearman_rho - 0.8).abs() < 1e-12);
    assert!((agreement.p_value - 8.0 / 24.0).abs() < 1e-12);
    assert_eq!(agreement.p_method, PValueMethod::Exact);
    assert!((agreement.kendall_tau_b - 4.0 / 6.0).abs() < 1e-12);
    let swap = Swap { ahead_in_steady_state: "two".into(), ahead_over_lifecycle: "three".into() };
    assert_eq!(group.swaps, [swap]);
    let ranks: Vec<_> = ranking
        .models
        .iter()
        .map(|model| (model.model.as_str(), model.steady_rank, model.lifecycle_rank))
        .collect();
    assert_eq!(
        ranks,
        [("four", 4.0, 4.0), ("one", 1.0, 1.0), ("three", 3.0, 2.0), ("two", 2.0, 3.0)]
    );
    // Medians of 1, 2, 3, 4 and of 10, 20, 30, 40.
    let medians = ranking.scenarios[0].medians.unwrap();
    assert_eq!((medians.steady_j_per_token, medians.lifecycle_j_per_token), (2.5, 25.0));
    assert_eq!(medians.ratio(), Some(10.0));
}

#[test]
fn a_model_stands_for_the_median_of_its_eligible_runs() {
    let mut unsteady = run("r4", "one", 0.0, 0.5);
    unsteady.values.steady_j_per_token = Err(Reason::SteadyNotReached);
    let mut unreleased = run("r5", "one", 0.1, 0.0);
    unreleased.values.lifecycle_j_per_token = Err(Reason::ReleaseNotClosed);
    let ranking = ranked(&[
        run("r1", "one", 1.0, 9.0),
        run("r2", "one", 5.0, 7.0),
        run("r3", "one", 2.0, 8.0),
        unsteady,
        unreleased,
    ]);
    let [model] = &ranking.models[..] else { panic!("{:?}", ranking.models) };
    // Each median on its own: 1, 2, 5 and 7, 8, 9.
    let values = (model.n_runs, model.steady_j_per_token, model.lifecycle_j_per_token);
    assert_eq!(values, (3, 2.0, 8.0));
    let excluded: Vec<_> = ranking
        .excluded
        .iter()
        .map(|excluded| (excluded.run.run_id.as_str(), excluded.missing, excluded.reason))
        .collect();
    assert_eq!(
        excluded,
        [
            ("r4", "steady_j_per_token", Reason::SteadyNotReached),
            ("r5", "lifecycle_j_per_token", Reason::ReleaseNotClosed),
        ]
    );
    assert_eq!(ranking.groups[0].agreement, Err(Reason::TooFewModels));
    assert_eq!(ranking.groups[0].n_models, 1);
}

#[test]
fn groups_are_kept_apart_and_empty_ones_are_shown() {
    let mut large = run("r1", "large", 1.0, 2.0);
    large.identity.size_group = Some(SizeGroup::Large);
    let mut unsteady = on_engine("b", 10.0, run("r2", "one", 1.0, 2.0));
    unsteady.values.steady_j_per_token = Err(Reason::SteadyNotReached);
    let mut nameless = run("r3", "one", 1.0, 2.0);
    nameless.identity.task = None;
    let ranking = ranked(&[run("r0", "one", 1.0, 2.0), large, unsteady, nameless]);
    let groups: Vec<_> = ranking
        .groups
        .iter()
        .map(|group| (group.size_group.name(), group.engine.as_str(), group.n_models))
        .collect();
    assert_eq!(groups, [("small", "a", 1), ("small", "b", 0), ("large", "a", 1)]);
    // Scenarios do not part sizes.
    let scenarios: Vec<_> = ranking
        .scenarios
        .iter()
        .map(|scenario| (scenario.engine.as_str(), scenario.n_models, scenario.medians.err()))
        .collect();
    assert_eq!(scenarios, [("a", 2, None), ("b", 0, Some(Reason::NoEligibleRuns))]);
    let nameless = ranking.excluded.iter().find(|excluded| excluded.run.run_id == "r3").unwrap();
    assert_eq!((nameless.missing, nameless.reason), ("task", Reason::NotRecorded));
}

#[test]
fn ties_swap_with_nobody() {
    let ranking = ranked(&[
        run("r1", "one", 1.0, 3.0),
        run("r2", "two", 1.0, 2.0),
        run("r3", "three", 2.0, 1.0),
    ]);
    let swaps: Vec<_> = ranking.groups[0]
        .swaps
        .iter()
        .map(|swap| (swap.ahead_in_steady_state.as_str(), swap.ahead_over_lifecycle.as_str()))
        .collect();
    assert_eq!(swaps, [("one", "three"), ("two", "three")]);
    // Ranks 1.5, 1.5, 3 against 3, 2, 1: Σ d_x d_y = -0.5 - 0 - 1 = -1.5 of sqrt(1.5 · 2).
    let rho = ranking.groups[0].agreement.unwrap().spearman_rho;
    assert!((rho + 1.5 / 3f64.sqrt()).abs() < 1e-12, "{rho}");
}

#[test]
fn a_repeated_id_counts_once() {
    let mut copy = run("r1", "one", 9.0, 9.0);
    copy.identity.synthetic = true;
    let ranking = ranked(&[run("r1", "one", 1.0, 2.0), copy]);
    assert_eq!(ranking.models[0].steady_j_per_token, 1.0);
    assert!(!ranking.groups[0].flags.contains(Flag::Synthetic));
    assert_eq!(ranking.excluded[0].reason, Reason::RepeatedRunId);
}

#[test]
fn engines_compare_up_to_a_fifth_of_the_larger_token_count() {
    let pair = |tokens_b: f64| {
        let runs =
            [on_engine("b", tokens_b, run("r2", "one", 3.0, 6.0)), run("r1", "one", 2.0, 8.0)];
        ranked(&runs).pairs.pop().unwrap()
    };
    // 200 of 1000 tokens are exactly 0.20.
    let even = pair(800.0);
    assert_eq!((even.a.engine.as_str(), even.b.engine.as_str()), ("a", "b"));
    assert_eq!((even.token_difference, even.comparable), (Ok(0.2), Ok(true)));
    assert_eq!((even.steady_ratio(), even.lifecycle_ratio()), (Ok(1.5), Ok(0.75)));
    let uneven = pair(799.0);
    assert_eq!((uneven.token_difference, uneven.comparable), (Ok(0.201), Ok(false)));
    assert_eq!(uneven.steady_ratio(), Err(Reason::TokensTooDifferent));
    assert_eq!(pair(0.0).comparable, Ok(false));
}

#[test]
fn every_pair_of_three_engines_is_listed() {
    let mut unsteady = on_engine("c", 900.0, run("r3", "one", 1.0, 2.0));
    unsteady.values.steady_j_per_token = Err(Reason::SteadyNotReached);
    let ranking = ranked(&[
        run("r1", "one", 2.0, 8.0),
        on_engine("b", 950.0, run("r2", "one", 3.0, 6.0)),
        unsteady,
        run("r4", "alone", 1.0, 1.0),
    ]);
    let pairs: Vec<_> = ranking
        .pairs
        .iter()
        .map(|pair| (pair.a.engine.as_str(), pair.b.engine.as_str(), pair.steady_ratio()))
        .collect();
    assert_eq!(
        pairs,
        [
            ("a", "b", Ok(1.5)),
            ("a", "c", Err(Reason::NoEligibleRuns)),
            ("b", "c", Err(Reason::NoEligibleRuns)),
        ]
    );
    // Its tokens are known all the same.
    assert_eq!(ranking.pairs[1].b.output_tokens, Ok(900.0));
}

#[test]
fn start_and_release_are_spread_over_a_grid_of_requests() {
    let mut unreleased = run("r2", "two", 1.0, 2.0);
    unreleased.values.fixed_energy_j = Err(Reason::ReleaseNotClosed);
    let ranking = ranked(&[run("r1", "one", 1.0, 2.0), unreleased]);
    assert_eq!(ranking.amortisation.len(), AMORTISED_REQUESTS.len() + 1);
    let (requests, service) = ranking.amortisation[3].service.unwrap();
    // 150 J + 10 · 50 J over 10 requests of 100 tokens.
    assert_eq!((requests, service.energy_j(10), service.j_per_token(10)), (10, 650.0, 0.65));
    let last = ranking.amortisation.last().unwrap();
    assert_eq!(last.run.run_id, "r2");
    assert_eq!(last.service, Err(Reason::ReleaseNotClosed));
}

#[test]
fn neither_the_order_of_runs_nor_threads_change_a_ranking() {
    let runs: Vec<ServingRun> = (0..12)
        .map(|index| {
            let model = format!("model-{index:02}");
            run(&format!("r{index:02}"), &model, f64::from(index), f64::from(index * 5 % 12))
        })
        .collect();
    let mut backwards = runs.clone();
    backwards.reverse();
    let ranking = ranked(&runs);
    assert_eq!(ranking, ranked(&backwards));
    assert_eq!(ranking.groups[0].agreement.unwrap().p_method, PValueMethod::StudentT);
    let other_seed = rank(&runs, &RankOptions { resamples: 200, seed: 2 });
    assert_ne!(
        ranking.groups[0].agreement.unwrap().interval,
        other_seed.groups[0].agreement.unwrap().interval
    );
}
