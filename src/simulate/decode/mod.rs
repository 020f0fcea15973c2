//! Decode-only runs whose energy follows the energy model.

use std::collections::BTreeMap;

use rand::RngExt;
use rand_distr::StandardNormal;
use serde::Serialize;
use wattrace_schema::{
    EnergyMethods, RequestStage, RequestStatus, RunKind, RunManifest, SCHEMA_VERSION, Stages,
    TimestampNs, Workload,
};
use wattrace_trace::{RequestRow, RunWriter, StepRow, TraceError};

use crate::plan::{DecodeRun, EnergyLaw, Group};
use crate::profile::PowerProfile;
use crate::random::{Part, Streams};
use crate::sensor::{self, Device, Schedule};
use crate::serving::{engine_manifest, hardware_manifest};
use crate::step_law::{StepLaw, Work};
use crate::{Context, MAX_RUN_SECONDS, RunError, nanoseconds_to_seconds, seconds_to_ns};

/// Decoding goes on for so long before and after the measured window.
const MARGIN_S: f64 = 2.0;

/// One iteration of the decode window.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Step {
    start_ns: i64,
    end_ns: i64,
    work: Work,
}

/// What the step log says of a decode window; the coordinates of the energy model.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
struct Coordinates {
    /// Useful output tokens, T.
    tokens: u64,
    /// Iterations, S.
    iterations: u64,
    /// Length of the window, D.
    duration_s: f64,
    /// T / S.
    b_eff: f64,
    /// History over tokens.
    mean_history_tokens: f64,
    /// Weight bytes a token, in 1e9 bytes.
    q_w_gb: f64,
    /// Key-value bytes a token, in 1e9 bytes.
    q_kv_gb: f64,
    /// Time a token.
    tau_s: f64,
}

/// `truth.json` of a decode run.
#[derive(Debug, Clone, PartialEq, Serialize)]
struct DecodeTruth {
    synthetic: bool,
    kind: &'static str,
    plan: String,
    seed: u64,
    run_index: usize,
    coefficients: CoefficientsTruth,
    #[serde(flatten)]
    coordinates: Coordinates,
    energy_j: f64,
    j_per_token: f64,
    /// What the law alone gives.
    law_j_per_token: f64,
    /// Share by which every step was lengthened.
    delay: f64,
    eager_iterations: u64,
    /// What the two substitutions of the model would put in the place of the coordinates.
    initial_cohort: u64,
    unweighted_history_tokens: f64,
}

/// The true coefficients, by the names of the result columns.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
struct CoefficientsTruth {
    c: f64,
    alpha: f64,
    beta: f64,
    p_tau_w: f64,
}

/// Simulates one run and writes its rows, its truth and its manifest.
pub(crate) fn simulate(
    context: &Context,
    run: &DecodeRun,
    mut writer: RunWriter,
) -> Result<std::path::PathBuf, RunError> {
    let streams = Streams::of_run(context.seed, context.run_index);
    let law = StepLaw::new(&run.engine, &run.hardware, &run.model);
    let start_ns = context.start_ns + seconds_to_ns(MARGIN_S) + margin_ns(run);
    let steps = decode(run, &law, start_ns, streams)?;
    let coordinates = coordinates(&steps, &law);
    let law_j_per_token = law_j_per_token(&run.entry.energy, &coordinates);
    let j_per_token = draw_j_per_token(run, law_j_per_token, streams);
    let energy_j = j_per_token * coordinates.tokens as f64;
    if !(energy_j.is_finite() && energy_j > 0.0) {
        return Err(RunError::Message(format!(
            "the energy of a token is {j_per_token} J; expected a positive value (less noise, or larger coefficients)"
        )));
    }
    let profile = power_profile(context, run, &law, &steps, energy_j)?;

    write_power(run, &profile, &steps, streams, &mut writer)?;
    write_requests(run, &steps, &mut writer)?;
    write_steps(&law, &steps, &mut writer)?;
    let truth = DecodeTruth {
        synthetic: true,
        kind: RunKind::Decode.name(),
        plan: context.plan_file.to_owned(),
        seed: context.seed,
        run_index: context.run_index,
        coefficients: CoefficientsTruth {
            c: run.entry.energy.c_j_per_token.get(),
            alpha: run.entry.energy.alpha_j_per_gb.get(),
            beta: run.entry.energy.beta_j_per_gb.get(),
            p_tau_w: run.entry.energy.p_tau_w.get(),
        },
        coordinates,
        energy_j,
        j_per_token,
        law_j_per_token,
        delay: run.delay,
        eager_iterations: steps
            .iter()
            .filter(|step| law.graph_mode(&step.work) == wattrace_schema::GraphMode::Eager)
            .count() as u64,
        initial_cohort: cohort_size(&run.groups),
        unweighted_history_tokens: unweighted_history_tokens(&run.groups),
    };
    writer.extra_file("truth.json", &context.truth_json(&truth)?)?;
    Ok(writer.finish(manifest(context, run, &steps))?)
}

/// Room before the window for a sample and its trailing average.
fn margin_ns(run: &DecodeRun) -> i64 {
    let longest_ns = run.sensors.iter().map(|(_, sensor)| {
        sensor::longest_interval_ns(sensor) + seconds_to_ns(sensor.averaging_window_ms.get() / 1e3)
    });
    longest_ns.max().unwrap_or(0)
}

/// Lives through the iterations: each request gets one token an iteration until it has its own.
fn decode(
    run: &DecodeRun,
    law: &StepLaw,
    start_ns: i64,
    streams: Streams,
) -> Result<Vec<Step>, RunError> {
    let mut stream = streams.of(Part::Steps);
    let iterations = run.groups.iter().map(|group| group.decode_tokens).max().unwrap_or(0);
    let mut steps = Vec::new();
    let mut now_ns = start_ns;
    for iteration in 0..iterations {
        let mut work = Work::default();
        for group in run.groups.iter().filter(|group| group.decode_tokens > iteration) {
            let history = group.history_tokens + iteration;
            work.batch += group.requests;
            work.history_tokens += u64::from(group.requests) * u64::from(history);
            work.max_sequence_tokens = work.max_sequence_tokens.max(history + 1);
        }
        let end_ns = now_ns + law.duration_ns(&work, 1.0 + run.delay, &mut stream);
        steps.push(Step { start_ns: now_ns, end_ns, work });
        now_ns = end_ns;
        if nanoseconds_to_seconds(now_ns - start_ns) > MAX_RUN_SECONDS {
            return Err(RunError::too_long());
        }
    }
    Ok(steps)
}

/// The coordinates of the steps as they are stored, in whole nanoseconds.
fn coordinates(steps: &[Step], law: &StepLaw) -> Coordinates {
    let tokens: u64 = steps.iter().map(|step| u64::from(step.work.batch)).sum();
    let history: u64 = steps.iter().map(|step| step.work.history_tokens).sum();
    let iterations = steps.len() as u64;
    let (start_ns, end_ns) = window_ns(steps);
    let duration_s = nanoseconds_to_seconds(end_ns - start_ns);
    let b_eff = tokens as f64 / iterations as f64;
    let mean_history_tokens = history as f64 / tokens as f64;
    Coordinates {
        tokens,
        iterations,
        duration_s,
        b_eff,
        mean_history_tokens,
        q_w_gb: law.weight_gb() / b_eff,
        q_kv_gb: law.kv_gb_per_token() * (mean_history_tokens + 1.0),
        tau_s: duration_s / tokens as f64,
    }
}

/// From the start of the first step to the end of the last. Groups are never empty, so neither are steps.
fn window_ns(steps: &[Step]) -> (i64, i64) {
    match (steps.first(), steps.last()) {
        (Some(first), Some(last)) => (first.start_ns, last.end_ns),
        _ => (0, 0),
    }
}

fn law_j_per_token(law: &EnergyLaw, at: &Coordinates) -> f64 {
    law.c_j_per_token.get()
        + law.alpha_j_per_gb.get() * at.q_w_gb
        + law.beta_j_per_gb.get() * at.q_kv_gb
        + law.p_tau_w.get() * at.tau_s
}

/// The law's value with what cell, block and run add.
fn draw_j_per_token(run: &DecodeRun, law_j_per_token: f64, streams: Streams) -> f64 {
    let mut stream = streams.of(Part::Energy);
    let share: f64 = stream.sample(StandardNormal);
    let added: f64 = stream.sample(StandardNormal);
    law_j_per_token * (1.0 + run.shared_effect + share * run.run_share_sd)
        + added * run.run_j_per_token_sd
}

/// Power of all boards together. Within the window each step has its own part of the energy, by the
/// same law; outside it decoding goes on at the power of the neighbouring step.
fn power_profile(
    context: &Context,
    run: &DecodeRun,
    law: &StepLaw,
    steps: &[Step],
    energy_j: f64,
) -> Result<PowerProfile, RunError> {
    let energy = &run.entry.energy;
    let by_law_j: Vec<f64> = steps
        .iter()
        .map(|step| {
            energy.c_j_per_token.get() * f64::from(step.work.batch)
                + energy.alpha_j_per_gb.get() * law.weight_gb()
                + energy.beta_j_per_gb.get() * law.kv_gb(&step.work)
                + energy.p_tau_w.get() * nanoseconds_to_seconds(step.end_ns - step.start_ns)
        })
        .collect();
    let scale = energy_j / by_law_j.iter().sum::<f64>();
    let power_w: Vec<f64> = steps
        .iter()
        .zip(&by_law_j)
        .map(|(step, by_law_j)| {
            scale * by_law_j / nanoseconds_to_seconds(step.end_ns - step.start_ns)
        })
        .collect();
    if let Some(power_w) = power_w.iter().find(|power_w| **power_w < 0.0) {
        return Err(RunError::Message(format!(
            "a step has a power of {power_w} W; expected no negative value (raise c_j_per_token)"
        )));
    }
    let mut profile = PowerProfile::starting_at(context.start_ns);
    let (start_ns, end_ns) = window_ns(steps);
    profile.hold(start_ns, power_w.first().copied().unwrap_or(0.0));
    for (step, power_w) in steps.iter().zip(&power_w) {
        profile.hold(step.end_ns, *power_w);
    }
    let after_ns = end_ns + seconds_to_ns(MARGIN_S) + margin_ns(run);
    profile.hold(after_ns, power_w.last().copied().unwrap_or(0.0));
    Ok(profile)
}

/// The boards, each with its share of the power.
fn boards(run: &DecodeRun, streams: Streams) -> Vec<Device> {
    let mut stream = streams.of(Part::Boards);
    let spread = run.hardware.power.board_spread_percent.get() / 100.0;
    let weights: Vec<f64> = (0..run.hardware.count.get())
        .map(|_| {
            let deviate: f64 = stream.sample(StandardNormal);
            (1.0 + spread * deviate.clamp(-3.0, 3.0)).max(0.1)
        })
        .collect();
    let total: f64 = weights.iter().sum();
    let mut boards: Vec<Device> = weights
        .iter()
        .enumerate()
        .map(|(number, weight)| Device {
            name: format!("gpu{number}"),
            base_w: 0.0,
            gain: weight / total,
        })
        .collect();
    boards.sort_by(|a, b| a.name.cmp(&b.name));
    boards
}

fn write_power(
    run: &DecodeRun,
    profile: &PowerProfile,
    steps: &[Step],
    streams: Streams,
    writer: &mut RunWriter,
) -> Result<(), RunError> {
    let mut stream = streams.of(Part::Sensors);
    let boards = boards(run, streams);
    let node_power = &run.hardware.node_power;
    let node = [Device {
        name: "node".to_owned(),
        base_w: node_power.base_w.get(),
        gain: 1.0 + node_power.fans_and_losses_percent.get() / 100.0,
    }];
    let (start_ns, end_ns) = window_ns(steps);
    for (id, sensor) in &run.sensors {
        let lead_ns = seconds_to_ns(1.0) + sensor::longest_interval_ns(sensor);
        let schedule = Schedule {
            start_ns: start_ns - lead_ns,
            end_ns: end_ns + lead_ns,
            fine_ns: (start_ns, end_ns),
            // The recorder reads the counters when the window begins and when it ends.
            extra_ns: vec![start_ns, end_ns],
            ..Schedule::default()
        };
        let devices = if sensor::measures_boards(sensor) { boards.as_slice() } else { &node };
        sensor::check_size(id, sensor, devices.len(), &schedule)?;
        for device in devices {
            sensor::record(writer, id, sensor, device, profile, &schedule, &mut stream)?;
        }
    }
    Ok(())
}

/// The requests of the window. Each one's first token came from its prompt and is there when the window
/// begins, so it has one token more than it decodes.
fn write_requests(
    run: &DecodeRun,
    steps: &[Step],
    writer: &mut RunWriter,
) -> Result<(), TraceError> {
    let (start_ns, _) = window_ns(steps);
    let digits = cohort_size(&run.groups).to_string().len();
    let mut number = 0;
    for group in &run.groups {
        let last_step = steps[group.decode_tokens as usize - 1];
        for _ in 0..group.requests {
            writer.request(RequestRow {
                request_id: format!("request-{number:0digits$}"),
                stage: RequestStage::Formal,
                t_send_ns: Some(start_ns),
                t_first_token_ns: Some(start_ns),
                t_end_ns: Some(last_step.end_ns),
                status: RequestStatus::Ok,
                error: None,
                input_tokens: Some(group.history_tokens),
                output_tokens: Some(group.decode_tokens + 1),
                reasoning_tokens: None,
                itl_ns: None,
                itl_tokens: None,
                ttft_ns: None,
                e2e_ns: None,
            })?;
            number += 1;
        }
    }
    Ok(())
}

fn write_steps(law: &StepLaw, steps: &[Step], writer: &mut RunWriter) -> Result<(), TraceError> {
    for (index, step) in steps.iter().enumerate() {
        writer.step(StepRow {
            step: index as u64,
            replica: 0,
            t_start_ns: Some(step.start_ns),
            t_end_ns: step.end_ns,
            active_sequences: step.work.batch,
            new_tokens: step.work.batch,
            history_tokens: Some(step.work.history_tokens),
            max_sequence_tokens: Some(step.work.max_sequence_tokens),
            prefill_tokens: 0,
            iterations: 1,
            active_experts: None,
            graph_mode: Some(law.graph_mode(&step.work)),
        })?;
    }
    Ok(())
}

fn cohort_size(groups: &[Group]) -> u64 {
    groups.iter().map(|group| u64::from(group.requests)).sum()
}

/// Mean over the requests of each one's mean history: `history + (tokens − 1) / 2`.
fn unweighted_history_tokens(groups: &[Group]) -> f64 {
    let sum: f64 = groups
        .iter()
        .map(|group| {
            let mean = f64::from(group.history_tokens) + f64::from(group.decode_tokens - 1) / 2.0;
            f64::from(group.requests) * mean
        })
        .sum();
    sum / cohort_size(groups) as f64
}

fn manifest(context: &Context, run: &DecodeRun, steps: &[Step]) -> RunManifest {
    let (start_ns, end_ns) = window_ns(steps);
    let cohort = u32::try_from(cohort_size(&run.groups)).ok();
    let configuration = run.entry.configuration.clone();
    RunManifest {
        schema_version: SCHEMA_VERSION,
        run_id: context.run_id.to_owned(),
        kind: RunKind::Decode,
        synthetic: true,
        configuration: Some(configuration.unwrap_or_else(|| run.engine.name.clone())),
        model: run.model.to_manifest(&run.model_name),
        hardware: hardware_manifest(&run.hardware),
        engine: engine_manifest(&run.engine, &run.hardware),
        workload: Workload { task: Some("decode".to_owned()), ..Workload::default() },
        setting: run.entry.setting.clone(),
        cell: Some(run.cell.clone()),
        split: Some(run.split),
        block: run.block.clone(),
        initial_cohort: cohort.filter(|_| run.draining),
        stages: Stages {
            decode_start: Some(TimestampNs::from_nanos(start_ns)),
            decode_end: Some(TimestampNs::from_nanos(end_ns)),
            ..Stages::default()
        },
        power_sources: sensor::power_sources(&run.sensors),
        energy_method: EnergyMethods::default(),
        spec: None,
        claims: Vec::new(),
        files: BTreeMap::new(),
        clock_events: Vec::new(),
        recorder_cost: None,
        provenance: context
            .provenance([format!("every step is {} times as long as it need be", 1.0 + run.delay)]),
    }
}
