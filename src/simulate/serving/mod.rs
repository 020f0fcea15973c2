//! Service lifecycles: idle, start-up, warm-up, formal requests, release.

mod attribution;
mod release;
mod server;
mod truth;
mod window;

use rand::RngExt;
use rand_distr::StandardNormal;
use wattrace_schema::{
    Engine, Hardware, RequestStage, RequestStatus, RunKind, RunManifest, SCHEMA_VERSION, Stages,
    TimestampNs, Workload,
};
use wattrace_trace::format::workload::{self, WorkloadRequest};
use wattrace_trace::{AccuracyWriteRow, RequestRow, RunWriter, StepRow, TraceError};

use crate::plan::{Arrival, EnginePlan, HardwarePlan, ServingRun, StagePlan};
use crate::profile::PowerProfile;
use crate::random::{Part, Streams};
use crate::sensor::{self, Device, Schedule};
use crate::step_law::StepLaw;
use crate::{Context, MAX_RUN_SECONDS, RunError, nanoseconds_to_seconds, seconds_to_ns};
use attribution::{Attribution, attribute, steady_window, tokens_after};
use release::{ReleaseTimes, append_release, release_end_ns};
use server::{BoardPower, Load, Request, Server};
use truth::{DeviceTruth, ServingTruth, SettledTruth, ratio};
use window::WindowTruth;

/// Name of the spec in the run's folder.
const SPEC_FILE: &str = "spec.yaml";
/// Pauses of the lifecycle that no plan needs to change.
const IDLE_TO_LAUNCH_S: f64 = 1.0;
const READY_TO_WARMUP_S: f64 = 0.5;
const WARMUP_TO_FORMAL_S: f64 = 1.0;
/// A recorder that samples the formal stage more often does so from a little before it to a little after.
const FINE_SAMPLING_MARGIN_S: f64 = 1.0;
/// Power is known for so long before recording begins, for trailing averages.
const LEAD_S: f64 = 5.0;

/// When the stages begin and end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Timeline {
    idle_start_ns: i64,
    idle_end_ns: i64,
    launch_ns: i64,
    ready_ns: i64,
    warmup_start_ns: Option<i64>,
    formal_start_ns: i64,
    formal_end_ns: i64,
    release: ReleaseTimes,
}

/// A lifecycle that has been lived through, before any sensor looked at it.
#[derive(Debug)]
struct Lifecycle {
    timeline: Timeline,
    /// Power of one nominal board.
    profile: PowerProfile,
    boards: Vec<Device>,
    node: Device,
    law: StepLaw,
    steps: Vec<server::Step>,
    warmup: Vec<Request>,
    formal: Vec<Request>,
    idle_w: f64,
}

/// Simulates one run and writes its rows, its truth and its manifest.
pub(crate) fn simulate(
    context: &Context,
    run: &ServingRun,
    mut writer: RunWriter,
) -> Result<std::path::PathBuf, RunError> {
    let streams = Streams::of_run(context.seed, context.run_index);
    let life = live(context, run, streams)?;
    write_power(run, &life, streams, &mut writer)?;
    write_requests(run, &life, &mut writer)?;
    if run.entry.steps {
        write_steps(&life, &mut writer)?;
    }
    write_accuracy(run, &mut writer)?;
    if let Some(spec) = &run.spec {
        writer.extra_file(SPEC_FILE, spec.text.as_bytes())?;
    }
    let truth = find_truth(context, run, &life);
    writer.extra_file("truth.json", &context.truth_json(&truth)?)?;
    Ok(writer.finish(manifest(context, run, &life))?)
}

/// Lives through the lifecycle.
fn live(context: &Context, run: &ServingRun, streams: Streams) -> Result<Lifecycle, RunError> {
    let entry = &run.entry;
    let power = &run.hardware.power;
    let (ready_w, idle_w) = (power.ready_w.get(), power.idle_w.get());
    let law = StepLaw::new(&run.engine, &run.hardware, &run.model);
    let lead_ns = lead_ns(run);

    let mut profile = PowerProfile::starting_at(context.start_ns);
    let idle_start_ns = context.start_ns + lead_ns;
    let idle_end_ns = idle_start_ns + seconds_to_ns(entry.idle_s.get());
    let launch_ns = idle_end_ns + seconds_to_ns(IDLE_TO_LAUNCH_S);
    profile.hold(launch_ns, idle_w);
    let load_s = law.weight_gb() / run.engine.load_gb_per_s.get();
    let loaded_ns = launch_ns + seconds_to_ns(load_s.min(MAX_RUN_SECONDS));
    profile.hold(loaded_ns, power.loading_w.get());
    let ready_ns = loaded_ns + seconds_to_ns(run.engine.compile_s.get());
    profile.hold(ready_ns, power.compiling_w.get());
    profile.hold(ready_ns + seconds_to_ns(READY_TO_WARMUP_S), ready_w);

    let mut server = Server {
        law,
        power: BoardPower {
            ready_w,
            active_w: power.active_w.get(),
            limit_w: power.limit_w.get(),
            weight_j_per_gb: power.weight_j_per_gb.get(),
            kv_j_per_gb: power.kv_j_per_gb.get(),
            prefill_j_per_token: power.prefill_j_per_token.get(),
            boards: f64::from(run.hardware.count.get()),
        },
        max_batch: run.engine.max_batch.get() as usize,
        prefill_chunk: run.engine.prefill_chunk_tokens.get(),
        transient: &entry.transient,
        transient_start_ns: None,
        run_start_ns: context.start_ns,
        steps: Vec::new(),
        profile,
    };
    let mut request_stream = streams.of(Part::Requests);
    let mut step_stream = streams.of(Part::Steps);
    let too_long = |server::TooLong| RunError::too_long();
    let warmup_start_ns = server.profile.end_ns();
    let warmup = match entry.warmup.requests.get() {
        0 => Vec::new(),
        requests => server
            .serve(&warmup_load(run, requests), &mut request_stream, &mut step_stream)
            .map_err(too_long)?,
    };
    let formal_start_ns = server.profile.end_ns() + seconds_to_ns(WARMUP_TO_FORMAL_S);
    server.profile.hold(formal_start_ns, ready_w);
    server.transient_start_ns = Some(formal_start_ns);
    let trace = read_trace(context, run)?;
    let formal = server
        .serve(&formal_load(run, &trace), &mut request_stream, &mut step_stream)
        .map_err(too_long)?;

    let Server { law, steps, mut profile, .. } = server;
    let formal_end_ns = formal.iter().map(|request| request.end_ns).max().unwrap_or_else(|| {
        formal_start_ns + seconds_to_ns(entry.seconds.map_or(1.0, |seconds| seconds.get()))
    });
    profile.hold(formal_end_ns, ready_w);
    let release = ReleaseTimes::new(&entry.release, formal_end_ns);
    let until_ns = release.monitor_end_ns + seconds_to_ns(1.0);
    append_release(&mut profile, &entry.release, release, ready_w, idle_w, until_ns);

    let boards = boards(&run.hardware, streams);
    let node = node(&run.hardware, &boards);
    let warmup_start_ns = (!warmup.is_empty()).then_some(warmup_start_ns);
    let timeline = Timeline {
        idle_start_ns,
        idle_end_ns,
        launch_ns,
        ready_ns,
        warmup_start_ns,
        formal_start_ns,
        formal_end_ns,
        release,
    };
    Ok(Lifecycle { timeline, profile, boards, node, law, steps, warmup, formal, idle_w })
}

/// From the beginning of the profile to the beginning of idle, so that the first sample before idle and
/// its trailing average exist.
fn lead_ns(run: &ServingRun) -> i64 {
    let longest_ms = |sensor: &crate::plan::SensorPlan| {
        let outside = sensor.interval_outside_formal_ms.unwrap_or(sensor.interval_ms);
        sensor.interval_ms.get().max(outside.get()) + sensor.averaging_window_ms.get()
    };
    let longest = run.sensors.iter().map(|(_, sensor)| longest_ms(sensor)).fold(0.0, f64::max);
    seconds_to_ns(LEAD_S + longest / 1e3)
}

/// The requests of the workload's trace; none without one.
fn read_trace(context: &Context, run: &ServingRun) -> Result<Vec<WorkloadRequest>, RunError> {
    let Some(file) = &run.workload.trace else { return Ok(Vec::new()) };
    workload::read(&context.plan_folder.join(file))
        .map(|workload| workload.requests)
        .map_err(|error| RunError::Message(error.with_causes()))
}

fn warmup_load(run: &ServingRun, requests: u32) -> Load<'_> {
    Load {
        arrival: Arrival::Closed { concurrency: run.entry.warmup.concurrency.get() },
        trace: &[],
        requests: Some(requests),
        seconds: None,
        ramp_s: 0.0,
        input_tokens: run.workload.input_tokens,
        output_tokens: run.workload.output_tokens,
        failures: None,
    }
}

fn formal_load<'a>(run: &'a ServingRun, trace: &'a [WorkloadRequest]) -> Load<'a> {
    Load {
        arrival: run.arrival,
        trace,
        requests: run.entry.requests.map(|requests| requests.get()),
        seconds: run.entry.seconds.map(|seconds| seconds.get()),
        ramp_s: run.entry.ramp_s.get(),
        input_tokens: run.workload.input_tokens,
        output_tokens: run.workload.output_tokens,
        failures: Some(&run.entry.failures),
    }
}

/// The boards, each with its own factor on the nominal board's power, in the order of their names.
fn boards(hardware: &HardwarePlan, streams: Streams) -> Vec<Device> {
    let mut stream = streams.of(Part::Boards);
    let spread = hardware.power.board_spread_percent.get() / 100.0;
    let mut boards: Vec<Device> = (0..hardware.count.get())
        .map(|number| {
            let deviate: f64 = stream.sample(StandardNormal);
            let gain = (1.0 + spread * deviate.clamp(-3.0, 3.0)).max(0.1);
            Device { name: format!("gpu{number}"), base_w: 0.0, gain }
        })
        .collect();
    boards.sort_by(|a, b| a.name.cmp(&b.name));
    boards
}

fn node(hardware: &HardwarePlan, boards: &[Device]) -> Device {
    let overhead = 1.0 + hardware.node_power.fans_and_losses_percent.get() / 100.0;
    Device {
        name: "node".to_owned(),
        base_w: hardware.node_power.base_w.get(),
        gain: overhead * boards.iter().map(|board| board.gain).sum::<f64>(),
    }
}

impl Timeline {
    fn stage_start_ns(&self, stage: StagePlan) -> i64 {
        match stage {
            StagePlan::Idle => self.idle_start_ns,
            StagePlan::Startup => self.launch_ns,
            StagePlan::Formal => self.formal_start_ns,
            StagePlan::Release => self.formal_end_ns,
        }
    }

    /// The stamps as they were recorded: what happened after monitoring ended is not known.
    fn stages(&self) -> Stages {
        let stamp = |t_ns| Some(TimestampNs::from_nanos(t_ns));
        let seen = |t_ns| stamp(t_ns).filter(|_| t_ns <= self.release.monitor_end_ns);
        Stages {
            idle_start: stamp(self.idle_start_ns),
            idle_end: stamp(self.idle_end_ns),
            launch: stamp(self.launch_ns),
            ready: stamp(self.ready_ns),
            warmup_start: self.warmup_start_ns.and_then(stamp),
            formal_start: stamp(self.formal_start_ns),
            formal_end: stamp(self.formal_end_ns),
            process_exit: seen(self.release.exit_ns),
            memory_released: seen(self.release.memory_released_ns),
            monitor_end: stamp(self.release.monitor_end_ns),
            decode_start: None,
            decode_end: None,
        }
    }
}

fn write_power(
    run: &ServingRun,
    life: &Lifecycle,
    streams: Streams,
    writer: &mut RunWriter,
) -> Result<(), RunError> {
    let mut stream = streams.of(Part::Sensors);
    let timeline = &life.timeline;
    let margin_ns = seconds_to_ns(FINE_SAMPLING_MARGIN_S);
    for (id, sensor) in &run.sensors {
        let applies = |of: &Option<String>| of.as_ref().is_none_or(|of| of == id);
        let gaps_ns = run.entry.gaps.iter().filter(|gap| applies(&gap.sensor)).map(|gap| {
            let start_ns = timeline.stage_start_ns(gap.stage) + seconds_to_ns(gap.after_s.get());
            (start_ns, start_ns + seconds_to_ns(gap.seconds.get()))
        });
        let resets = run.entry.counter_resets.iter();
        let schedule = Schedule {
            start_ns: timeline.idle_start_ns - sensor::longest_interval_ns(sensor),
            end_ns: timeline.release.monitor_end_ns,
            fine_ns: (timeline.formal_start_ns - margin_ns, timeline.formal_end_ns + margin_ns),
            extra_ns: Vec::new(),
            gaps_ns: gaps_ns.collect(),
            counter_resets_ns: resets
                .map(|reset| {
                    timeline.stage_start_ns(reset.stage) + seconds_to_ns(reset.after_s.get())
                })
                .collect(),
        };
        let node = std::slice::from_ref(&life.node);
        let devices = if sensor::measures_boards(sensor) { life.boards.as_slice() } else { node };
        sensor::check_size(id, sensor, devices.len(), &schedule)?;
        for device in devices {
            sensor::record(writer, id, sensor, device, &life.profile, &schedule, &mut stream)?;
        }
    }
    Ok(())
}

fn write_requests(
    run: &ServingRun,
    life: &Lifecycle,
    writer: &mut RunWriter,
) -> Result<(), TraceError> {
    for (stage, name, requests) in [
        (RequestStage::Warmup, "warmup", &life.warmup),
        (RequestStage::Formal, "formal", &life.formal),
    ] {
        let digits = requests.len().to_string().len();
        for (index, request) in requests.iter().enumerate() {
            let request_id = format!("{name}-{index:0digits$}");
            writer.request(request_row(run, life, request_id, stage, request))?;
        }
    }
    Ok(())
}

fn request_row(
    run: &ServingRun,
    life: &Lifecycle,
    request_id: String,
    stage: RequestStage,
    request: &Request,
) -> RequestRow {
    let has_tokens = request.output_tokens > 0;
    let successful = request.status == RequestStatus::Ok;
    let (itl_ns, itl_tokens) = if run.entry.token_times && successful {
        let own = &life.steps[request.first_step as usize..=request.last_step() as usize];
        let (gaps, tokens) = token_gaps(own, run.entry.tokens_per_chunk.get() as usize);
        (Some(gaps), tokens)
    } else {
        (None, None)
    };
    let error = match request.status {
        RequestStatus::Ok => None,
        RequestStatus::Error => Some("simulated: the server answered with an error"),
        RequestStatus::Timeout => Some("simulated: the stream stalled until the time limit"),
        RequestStatus::Cancelled => Some("simulated: the client cancelled"),
    };
    RequestRow {
        request_id,
        stage,
        t_send_ns: Some(request.send_ns),
        t_first_token_ns: has_tokens.then(|| life.steps[request.first_step as usize].end_ns),
        t_end_ns: Some(request.end_ns),
        status: request.status,
        error: error.map(str::to_owned),
        input_tokens: Some(request.input_tokens),
        output_tokens: has_tokens.then_some(request.output_tokens),
        reasoning_tokens: None,
        itl_ns,
        itl_tokens,
        ttft_ns: None,
        e2e_ns: None,
    }
}

/// Gaps between the chunks that reach the client, and the tokens of each chunk when they may be
/// several. The first token comes alone; a chunk arrives with its last token.
fn token_gaps(own: &[server::Step], chunk: usize) -> (Vec<u64>, Option<Vec<u32>>) {
    let mut gaps = Vec::with_capacity((own.len() - 1).div_ceil(chunk));
    let mut tokens = Vec::new();
    let mut last = 0;
    while last + 1 < own.len() {
        let next = (last + chunk).min(own.len() - 1);
        gaps.push((own[next].end_ns - own[last].end_ns) as u64);
        if chunk > 1 {
            tokens.push((next - last) as u32);
        }
        last = next;
    }
    (gaps, (chunk > 1).then_some(tokens))
}

fn write_steps(life: &Lifecycle, writer: &mut RunWriter) -> Result<(), TraceError> {
    for (index, step) in life.steps.iter().enumerate() {
        let work = &step.work;
        writer.step(StepRow {
            step: index as u64,
            replica: 0,
            t_start_ns: Some(step.start_ns),
            t_end_ns: step.end_ns,
            active_sequences: work.batch,
            new_tokens: work.batch,
            history_tokens: Some(work.history_tokens),
            max_sequence_tokens: (work.batch > 0).then_some(work.max_sequence_tokens),
            prefill_tokens: work.prefill_tokens,
            iterations: 1,
            active_experts: None,
            graph_mode: Some(life.law.graph_mode(work)),
        })?;
    }
    Ok(())
}

fn write_accuracy(run: &ServingRun, writer: &mut RunWriter) -> Result<(), TraceError> {
    let Some(plan) = &run.accuracy else { return Ok(()) };
    let digits = plan.items.get().to_string().len();
    plan.scores().try_for_each(|(item, seed, right)| {
        writer.accuracy(AccuracyWriteRow {
            suite: plan.suite.clone(),
            item: format!("item-{item:0digits$}"),
            seed,
            score: Some(f64::from(u8::from(right))),
        })
    })
}

fn find_truth(context: &Context, run: &ServingRun, life: &Lifecycle) -> ServingTruth {
    let timeline = &life.timeline;
    let (formal_start_ns, formal_end_ns) = (timeline.formal_start_ns, timeline.formal_end_ns);
    let formal_s = nanoseconds_to_seconds(formal_end_ns - formal_start_ns);
    let boards_j = |from_ns, to_ns| -> f64 {
        life.boards.iter().map(|board| board.energy_j(&life.profile, from_ns, to_ns)).sum()
    };
    let total_gain: f64 = life.boards.iter().map(|board| board.gain).sum();

    let earliest_ns =
        formal_end_ns.max(timeline.release.exit_ns).max(timeline.release.memory_released_ns);
    let monitor_end_ns = timeline.release.monitor_end_ns;
    let release_end = release_end_ns(&life.profile, life.idle_w, earliest_ns, monitor_end_ns);
    let startup_energy_j = boards_j(timeline.launch_ns, formal_start_ns);
    let formal_energy_j = boards_j(formal_start_ns, formal_end_ns);
    let release_energy_j = release_end.map(|end_ns| boards_j(formal_end_ns, end_ns));
    let lifecycle_energy_j =
        release_energy_j.map(|release_j| startup_energy_j + formal_energy_j + release_j);

    let successful = || life.formal.iter().filter(|request| request.status == RequestStatus::Ok);
    let output_tokens: u64 = successful().map(|request| u64::from(request.output_tokens)).sum();
    let formal_ns = (formal_start_ns, formal_end_ns);
    let Attribution { energy_j, unattributed_j } =
        attribute(&life.formal, &life.steps, formal_ns, boards_j);
    let steady = steady_window(&life.formal, &life.steps, formal_start_ns, &energy_j);
    let steady_energy_j = steady.map(|steady| boards_j(steady.start_ns, formal_end_ns));
    let node_energy_j = life.node.energy_j(&life.profile, formal_start_ns, formal_end_ns);

    let settling_s = run.entry.transient.settling_s();
    let settled_ns = (formal_start_ns + seconds_to_ns(settling_s)).min(formal_end_ns);
    let settled_tokens =
        successful().map(|request| tokens_after(request, &life.steps, settled_ns)).sum();
    let settled_energy_j = boards_j(settled_ns, formal_end_ns);
    let device_truth = |device: &Device| DeviceTruth {
        device: device.name.clone(),
        idle_power_w: device.power_w(&life.profile, timeline.idle_start_ns),
        startup_energy_j: device.energy_j(&life.profile, timeline.launch_ns, formal_start_ns),
        formal_energy_j: device.energy_j(&life.profile, formal_start_ns, formal_end_ns),
        release_energy_j: release_end
            .map(|end_ns| device.energy_j(&life.profile, formal_end_ns, end_ns)),
    };
    ServingTruth {
        synthetic: true,
        kind: RunKind::Serving.name(),
        plan: context.plan_file.to_owned(),
        seed: context.seed,
        run_index: context.run_index,
        idle_power_w: total_gain * life.idle_w,
        startup_energy_j,
        formal_energy_j,
        release_energy_j,
        lifecycle_energy_j,
        output_tokens,
        formal_j_per_token: ratio(formal_energy_j, output_tokens),
        steady_j_per_token: steady.and_then(|steady| ratio(steady_energy_j?, steady.tokens)),
        lifecycle_j_per_token: lifecycle_energy_j
            .and_then(|energy_j| ratio(energy_j, output_tokens)),
        output_throughput_tok_s: output_tokens as f64 / formal_s,
        formal_power_w: formal_energy_j / formal_s,
        requests_total: life.formal.len(),
        requests_failed: life.formal.len() - successful().count(),
        node_energy_j,
        node_power_w: node_energy_j / formal_s,
        node_j_per_token: ratio(node_energy_j, output_tokens),
        unattributed_energy_j: unattributed_j,
        steady_reached: steady.is_some(),
        steady_start: steady.map(|steady| TimestampNs::from_nanos(steady.start_ns)),
        steady_first_request: steady.map(|steady| steady.first_request),
        steady_tokens: steady.map(|steady| steady.tokens),
        steady_energy_j,
        steady_power_w: steady.and_then(|steady| {
            Some(steady_energy_j? / nanoseconds_to_seconds(formal_end_ns - steady.start_ns))
        }),
        release_closed: release_end.is_some(),
        release_end: release_end.map(TimestampNs::from_nanos),
        release_seconds: release_end.map(|end_ns| nanoseconds_to_seconds(end_ns - formal_end_ns)),
        settled: SettledTruth {
            start: TimestampNs::from_nanos(settled_ns),
            energy_j: settled_energy_j,
            tokens: settled_tokens,
            j_per_token: ratio(settled_energy_j, settled_tokens),
        },
        devices: life.boards.iter().chain([&life.node]).map(device_truth).collect(),
        request_energy_j: run.entry.true_requests.then_some(energy_j),
        window: run.spec.as_ref().and_then(|spec| WindowTruth::of(&spec.locked, life)),
        accuracy_points: run.accuracy.as_ref().map(|accuracy| accuracy.score_points()),
    }
}

fn manifest(context: &Context, run: &ServingRun, life: &Lifecycle) -> RunManifest {
    let entry = &run.entry;
    let request_rate = match run.arrival {
        Arrival::Poisson { rate } => Some(rate),
        Arrival::Closed { .. } | Arrival::Trace => None,
    };
    let arrival = match run.arrival {
        Arrival::Poisson { rate } => format!("arrivals: Poisson, {rate} requests per second"),
        Arrival::Closed { concurrency } => {
            format!("arrivals: closed loop of {concurrency} clients")
        }
        Arrival::Trace => "arrivals and lengths: a request trace".to_owned(),
    };
    RunManifest {
        schema_version: SCHEMA_VERSION,
        run_id: context.run_id.to_owned(),
        kind: RunKind::Serving,
        synthetic: true,
        configuration: Some(entry.configuration.clone().unwrap_or_else(|| run.engine.name.clone())),
        model: run.model.to_manifest(&run.model_name),
        hardware: hardware_manifest(&run.hardware),
        engine: engine_manifest(&run.engine, &run.hardware),
        workload: Workload {
            task: Some(run.workload.task.clone()),
            dataset: run.workload.dataset.clone(),
            trace: run.workload.trace.clone(),
            request_rate,
        },
        setting: None,
        cell: None,
        split: None,
        block: None,
        initial_cohort: None,
        stages: life.timeline.stages(),
        power_sources: sensor::power_sources(&run.sensors),
        energy_method: wattrace_schema::EnergyMethods::default(),
        spec: run.spec.as_ref().map(|_| SPEC_FILE.to_owned()),
        claims: Vec::new(),
        files: std::collections::BTreeMap::new(),
        clock_events: Vec::new(),
        recorder_cost: None,
        provenance: context.provenance([arrival]),
    }
}

/// The node as `run.json` describes it.
pub(crate) fn hardware_manifest(hardware: &HardwarePlan) -> Hardware {
    Hardware {
        accelerator: hardware.accelerator.clone(),
        count: hardware.count.get(),
        hbm_bandwidth_gb_s: Some(hardware.hbm_bandwidth_gb_s.get()),
        node: hardware.node.clone(),
        driver: hardware.driver.clone(),
    }
}

/// The engine as `run.json` describes it: one replica over all boards.
pub(crate) fn engine_manifest(engine: &EnginePlan, hardware: &HardwarePlan) -> Engine {
    Engine {
        name: Some(engine.name.clone()),
        version: Some(engine.version.clone()),
        image_digest: None,
        flags: Some(serde_json::json!({
            "max_batch": engine.max_batch.get(),
            "prefill_chunk_tokens": engine.prefill_chunk_tokens.get(),
        })),
        tensor_parallel: Some(hardware.count.get()),
        replicas: Some(1),
    }
}
