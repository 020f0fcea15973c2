//! How often the intervals of a fit contain the truth, over simulated repetitions.

use super::random::Stream;
use super::{CONDITION_LIMIT, Design, Term, least_squares};

const REPETITIONS: u64 = 2_000;
const NAMES: [&str; 4] = ["c", "alpha", "beta", "p_tau_w"];
/// J/token, J/GB, J/GB, W.
const TRUTH: [f64; 4] = [0.02, 1.1, 1.6, 85.0];
/// J/token: about 2% of the mean energy.
const ADDITIVE_STD: f64 = 0.03;
const PERCENTAGE_STD: f64 = 0.02;

/// Thirty runs: five batches, three histories, two clocks, for 14 GB of weights and 57 kB of cache a
/// token of history. The slower clock makes a step longer than its bytes do.
fn coordinates() -> Vec<[f64; 3]> {
    let mut runs = Vec::new();
    for batch in [4.0, 8.0, 16.0, 32.0, 64.0] {
        for history in [1_000.0, 4_000.0, 8_000.0] {
            for slowdown in [1.0, 1.7] {
                let (q_w, q_kv) = (14.14 / batch, 57_344.0 * (history + 1.0) / 1e9);
                // Time to move the bytes at 2000 GB/s, and 4 ms a step that the clock scales.
                let tau =
                    (q_w + q_kv) / 2_000.0 + 0.004 * slowdown / batch + 0.002 * (slowdown - 1.0);
                runs.push([q_w, q_kv, tau]);
            }
        }
    }
    runs
}

/// The share of repetitions in which the 95% interval of each coefficient holds the truth; `noise`
/// turns the true energy and a standard normal number into the measured energy.
fn coverage(seed: u64, noise: impl Fn(f64, f64) -> f64) -> [f64; 4] {
    let runs = coordinates();
    let column = |index: usize| runs.iter().map(|run| run[index]).collect::<Vec<f64>>();
    let terms: Vec<Term> = (0..3).map(|i| Term::new(NAMES[i + 1], column(i))).collect();
    let energy = |run: &[f64; 3]| {
        TRUTH[0] + run.iter().zip(&TRUTH[1..]).map(|(x, slope)| x * slope).sum::<f64>()
    };
    let mut hits = [0u32; 4];
    for repetition in 0..REPETITIONS {
        let mut stream = Stream::new(seed, repetition);
        let response = runs.iter().map(|run| noise(energy(run), stream.normal())).collect();
        let clusters = (0..runs.len()).map(|run| run / 2).collect();
        let design = Design::new("c", response, terms.clone(), clusters).unwrap();
        let fit = least_squares(&design).unwrap();
        assert!(fit.condition_number < CONDITION_LIMIT);
        for ((hit, estimate), truth) in hits.iter_mut().zip(&fit.coefficients).zip(TRUTH) {
            let holds = (estimate.low.unwrap()..=estimate.high.unwrap()).contains(&truth);
            *hit += u32::from(holds);
        }
    }
    hits.map(|hit| f64::from(hit) / REPETITIONS as f64)
}

fn print(noise: &str, shares: &[f64; 4]) {
    for (name, share) in NAMES.iter().zip(shares) {
        println!("{noise}: 95% interval of {name} holds the truth in {:.2}%", 100.0 * share);
    }
}

#[test]
fn t_intervals_hold_the_truth_at_their_level_under_additive_noise() {
    let shares = coverage(2024, |energy, z| energy + ADDITIVE_STD * z);
    print("additive noise", &shares);
    // 95% ± 0.5% (one standard deviation of 2,000 repetitions).
    assert!(shares.iter().all(|share| (0.93..=0.97).contains(share)), "{shares:?}");
}

#[test]
fn percentage_noise_makes_classical_intervals_inexact() {
    // Runs with much energy then err more, against what classical errors assume. How far coverage
    // departs depends on the design; it must not collapse.
    let shares = coverage(2025, |energy, z| energy * (1.0 + PERCENTAGE_STD * z));
    print("percentage noise", &shares);
    assert!(shares.iter().all(|&share| share > 0.8), "{shares:?}");
}
