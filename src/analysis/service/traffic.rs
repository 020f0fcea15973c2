//! Memory bandwidth utilisation: bytes that decode steps must read, over what memory could deliver.

use std::fmt;

use wattrace_schema::{Flag, FlagSet, Interval, Model, MoeGeometry, Reason, Run, Steps};

use crate::metrics::{BYTES_PER_GB, Place, place};

/// Gate, up and down projection of one expert.
const PROJECTIONS_OF_AN_EXPERT: f64 = 3.0;

/// What the decode steps of a window read from memory; means are over iterations.
#[derive(Debug, Clone, PartialEq)]
pub struct MemoryTraffic {
    /// Iterations in the window, of all replicas together.
    pub iterations: u64,
    /// Iterations per second of all replicas together.
    pub steps_per_s: f64,
    /// Bytes of weights that an iteration reads: dense weights once, plus the distinct routed experts.
    pub weight_bytes_per_step: f64,
    /// Bytes of keys and values that an iteration reads.
    pub kv_bytes_per_step: f64,
    /// Mean number of sequences in an iteration.
    pub mean_batch: f64,
    /// Mean history of a sequence, tokens.
    pub mean_history_tokens: f64,
    /// Longest sequence of any step, tokens; `None` where the log does not say.
    pub max_sequence_tokens: Option<u32>,
    /// Mean number of distinct routed experts of a layer; `None` for a dense model.
    pub active_experts: Option<f64>,
    /// Rated bandwidth of all accelerators together, B/s.
    pub rated_bytes_per_s: f64,
    /// What a reader must know.
    pub flags: FlagSet,
}

impl MemoryTraffic {
    fn utilisation(&self) -> f64 {
        (self.weight_bytes_per_step + self.kv_bytes_per_step) * self.steps_per_s
            / self.rated_bytes_per_s
    }

    /// Memory bandwidth utilisation: (weight bytes + key-value bytes) × steps/s ÷ rated bandwidth.
    ///
    /// # Errors
    /// [`Reason::MbuAboveOne`]: memory cannot deliver that; `Display` shows the arithmetic.
    pub fn mbu(&self) -> Result<f64, Reason> {
        let mbu = self.utilisation();
        if mbu > 1.0 { Err(Reason::MbuAboveOne) } else { Ok(mbu) }
    }
}

impl fmt::Display for MemoryTraffic {
    /// The arithmetic, and where to look when it cannot be right.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mbu = self.utilisation();
        write!(
            formatter,
            "({:.4} GB weights + {:.4} GB keys and values) x {:.3} steps/s / {:.1} GB/s = {mbu:.4}",
            self.weight_bytes_per_step / BYTES_PER_GB,
            self.kv_bytes_per_step / BYTES_PER_GB,
            self.steps_per_s,
            self.rated_bytes_per_s / BYTES_PER_GB,
        )?;
        if mbu > 1.0 {
            write!(
                formatter,
                ", which no memory can deliver: check the geometry in run.json (model.*), the steps \
                 (history_tokens, iterations, active_experts) and hardware.hbm_bandwidth_gb_s"
            )?;
        }
        Ok(())
    }
}

/// The memory traffic of a run's decode steps in `window`. `otherwise_gb_s` is the rated bandwidth for
/// a run that does not say it.
///
/// Weights are counted by `weight_bytes_per_param` for dense parts and experts alike.
///
/// # Errors
/// Why it cannot be had.
pub fn memory_traffic(
    run: &Run,
    window: Interval,
    otherwise_gb_s: Option<f64>,
) -> Result<MemoryTraffic, Reason> {
    let steps = run.steps.as_ref().ok_or(Reason::NoSteps)?;
    let mut totals = StepTotals::over(steps, window)?;
    let iterations = totals.iterations as f64;
    let hardware = &run.manifest.hardware;
    let bandwidth_gb_s = hardware
        .hbm_bandwidth_gb_s
        .or(otherwise_gb_s)
        .filter(|gb_s| gb_s.is_finite() && *gb_s > 0.0 && hardware.count > 0)
        .ok_or(Reason::NoBandwidth)?;
    let model = &run.manifest.model;
    let (weight_bytes_per_step, active_experts) = match &model.moe {
        None => (model.weight_bytes_per_iteration()?, None),
        Some(geometry) => {
            let active = totals.active_experts(geometry)?;
            (mixture_weight_bytes(model, geometry, active)?, Some(active))
        }
    };
    Ok(MemoryTraffic {
        iterations: totals.iterations,
        steps_per_s: iterations / window.duration_s(),
        weight_bytes_per_step,
        kv_bytes_per_step: model.kv_bytes_per_token()? * totals.history_tokens / iterations,
        mean_batch: totals.sequences / iterations,
        mean_history_tokens: totals.history_tokens / totals.sequences,
        max_sequence_tokens: totals.max_sequence_tokens,
        active_experts,
        rated_bytes_per_s: bandwidth_gb_s * BYTES_PER_GB * f64::from(hardware.count),
        flags: totals.flags,
    })
}

/// Sums over the steps that lie wholly in a window.
#[derive(Default)]
struct StepTotals {
    iterations: u64,
    /// Active sequences times iterations.
    sequences: f64,
    history_tokens: f64,
    /// Active experts times iterations, over the iterations that say.
    experts: f64,
    iterations_with_experts: u64,
    max_sequence_tokens: Option<u32>,
    flags: FlagSet,
}

impl StepTotals {
    fn over(steps: &Steps, window: Interval) -> Result<Self, Reason> {
        let mut totals = Self::default();
        for row in 0..steps.len() {
            match place(steps, row, window) {
                Place::Inside => totals.add(steps, row)?,
                Place::Straddling => totals.flags.insert(Flag::StraddlingSteps),
                Place::Outside => {}
            }
        }
        if totals.iterations == 0 || totals.sequences == 0.0 {
            return Err(Reason::NoSteps);
        }
        Ok(totals)
    }

    fn add(&mut self, steps: &Steps, row: usize) -> Result<(), Reason> {
        let iterations = steps.iterations[row];
        let history = match steps.history_tokens[row] {
            Some(history) => history,
            // A step without a sequence reads no history, whether the log says so or not.
            None if steps.active_sequences[row] == 0 => 0,
            None => return Err(Reason::NoHistory),
        };
        self.iterations += u64::from(iterations);
        self.sequences += f64::from(steps.active_sequences[row]) * f64::from(iterations);
        self.history_tokens += history as f64;
        self.max_sequence_tokens = self.max_sequence_tokens.max(steps.max_sequence_tokens[row]);
        if let Some(experts) = steps.active_experts[row] {
            self.experts += f64::from(experts) * f64::from(iterations);
            self.iterations_with_experts += u64::from(iterations);
        }
        self.flags.insert_if(steps.prefill_tokens[row] > 0, Flag::MixedPrefill);
        self.flags.insert_if(steps.t_start_ns[row].is_none(), Flag::StepStartMissing);
        Ok(())
    }

    /// Mean distinct routed experts of a layer.
    fn active_experts(&mut self, geometry: &MoeGeometry) -> Result<f64, Reason> {
        if self.iterations_with_experts == 0 {
            return Err(Reason::NoActiveExperts);
        }
        let sampled = self.iterations_with_experts < self.iterations;
        self.flags.insert_if(sampled, Flag::ExpertsSampled);
        let active = self.experts / self.iterations_with_experts as f64;
        let all = f64::from(geometry.experts.ok_or(Reason::NoGeometry)?);
        // More experts than there are, or none, is a broken log.
        if active > 0.0 && active <= all { Ok(active) } else { Err(Reason::InvalidInput) }
    }
}

/// Bytes of weights that an iteration of a mixture of experts reads: everything that is neither the
/// embedding look-up nor a routed expert once, and `active_experts` of each layer's routed experts.
fn mixture_weight_bytes(
    model: &Model,
    geometry: &MoeGeometry,
    active_experts: f64,
) -> Result<f64, Reason> {
    let needed = |number: Option<u32>| number.map(f64::from).ok_or(Reason::NoGeometry);
    let expert_layers = needed(model.layers)? - f64::from(geometry.dense_layers.unwrap_or(0));
    let expert_params = PROJECTIONS_OF_AN_EXPERT
        * needed(model.hidden_size)?
        * needed(geometry.moe_intermediate_size)?;
    let routed_params = expert_layers * needed(geometry.experts)? * expert_params;
    // The formula for dense models counts all parameters but the embedding look-up.
    let all_bytes = Model { moe: None, ..model.clone() }.weight_bytes_from_parameters()?;
    let bytes_per_param = model.weight_bytes_per_param.ok_or(Reason::NoGeometry)?;
    let dense_bytes = all_bytes - bytes_per_param * routed_params;
    if expert_layers <= 0.0 || dense_bytes <= 0.0 {
        return Err(Reason::NoGeometry);
    }
    Ok(dense_bytes + bytes_per_param * expert_layers * active_experts * expert_params)
}
