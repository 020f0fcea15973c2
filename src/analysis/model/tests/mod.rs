//! The model against runs whose law is known.

mod archive;
mod observations;
mod predictions;
mod refusals;
mod report;
mod tables;

use wattrace_schema::{Flag, FlagSet, Split};

use super::{Coordinates, FitOptions, Measured, ModelBytes, Observation};

/// Weights of 14 GB, 57,344 B a token: about a model of 7 billion parameters.
const BYTES: ModelBytes = ModelBytes { weights_per_iteration: 14e9, kv_per_token: 57_344.0 };

/// The law that a run follows.
#[derive(Debug, Clone, Copy)]
struct Truth {
    c: f64,
    alpha: f64,
    beta: f64,
    p_tau_w: f64,
}

const TRUTH: Truth = Truth { c: 0.05, alpha: 0.06, beta: 0.15, p_tau_w: 140.0 };

impl Truth {
    fn j_per_token(&self, at: &Coordinates) -> f64 {
        self.c + self.alpha * at.q_w_gb + self.beta * at.q_kv_gb.unwrap() + self.p_tau_w * at.tau_s
    }
}

/// A run of setting "s" at a batch and history, its iterations `delay_s` longer than bytes ask for.
fn run(run_id: &str, cell: &str, split: Split, at: (f64, f64, f64)) -> Observation {
    let (batch, history, delay_s) = at;
    // 3 TB/s for weights, 2 TB/s for keys and values.
    let step_time_s = 14.0 / 3000.0 + batch * (history + 1.0) * 57_344.0 / 2e12 + delay_s;
    let coordinates = Coordinates::new(batch, Some(history), step_time_s / batch, BYTES);
    Observation {
        run_id: run_id.to_owned(),
        model: "m".to_owned(),
        setting: "s".to_owned(),
        cell: cell.to_owned(),
        split: Some(split),
        block: None,
        claimed: false,
        initial_cohort: None,
        mean_request_history_tokens: None,
        measured: Ok(Measured {
            j_per_token: TRUTH.j_per_token(&coordinates),
            coordinates,
            bytes: BYTES,
        }),
        step_timings: Vec::new(),
        flags: FlagSet::EMPTY,
    }
}

fn measured(observation: &mut Observation) -> &mut Measured {
    observation.measured.as_mut().unwrap()
}

/// Host delays of the runs, varied within cells so that time is no combination of bytes.
const DELAYS_S: [f64; 3] = [0.0, 0.004, 0.009];

/// Fit runs: four batches × three histories × three delays; held-out: two batches × two histories,
/// each cell with a delay of its own.
fn design() -> Vec<Observation> {
    let mut runs = Vec::new();
    let mut add = |batch: f64, history: f64, split, delays_s: [f64; 3]| {
        let cell = format!("b{batch}-h{history}");
        for (index, delay_s) in delays_s.into_iter().enumerate() {
            runs.push(run(&format!("{cell}-{index}"), &cell, split, (batch, history, delay_s)));
        }
    };
    for history in [512.0, 2048.0, 8192.0] {
        for batch in [1.0, 4.0, 16.0, 64.0] {
            add(batch, history, Split::Fit, DELAYS_S);
        }
    }
    for (batch, history, delay) in
        [(2.0, 1024.0, 2), (2.0, 4096.0, 0), (32.0, 1024.0, 0), (32.0, 4096.0, 2)]
    {
        add(batch, history, Split::Heldout, [DELAYS_S[delay]; 3]);
    }
    runs
}

/// Standard normal numbers by Box and Muller over SplitMix64.
fn normals(seed: u64) -> impl Iterator<Item = f64> {
    let mut state = seed;
    let mut uniform = move || {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (((mixed ^ (mixed >> 31)) >> 11) as f64 + 0.5) / 2f64.powi(53)
    };
    std::iter::repeat_with(move || {
        let (radius, angle) = (uniform(), uniform());
        (-2.0 * radius.ln()).sqrt() * (std::f64::consts::TAU * angle).cos()
    })
}

/// The design with errors of `percent` of each energy.
fn noisy_design(percent: f64, seed: u64) -> Vec<Observation> {
    let mut runs = design();
    for (run, normal) in runs.iter_mut().zip(normals(seed)) {
        measured(run).j_per_token *= 1.0 + percent / 100.0 * normal;
        run.flags.insert(Flag::Synthetic);
    }
    runs
}

const NO_BOOTSTRAP: FitOptions =
    FitOptions { method: super::FitMethod::Ols, resamples: 0, seed: 1 };

#[track_caller]
fn assert_close(actual: f64, expected: f64, relative: f64) {
    assert!(
        (actual - expected).abs() <= relative * expected.abs(),
        "{actual} is not within {relative} of {expected}"
    );
}
