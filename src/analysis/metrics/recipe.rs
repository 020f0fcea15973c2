//! How each metric is computed: the arithmetic, what goes in, and which rows of which file.

use super::Stage;

/// Rows of a file of the run that a metric reads besides power.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RowsRule {
    /// File in the run's folder.
    pub file: &'static str,
    /// Which of its rows.
    pub filter: &'static str,
    /// Which of its columns.
    pub columns: &'static [&'static str],
}

/// How a metric is computed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Recipe {
    /// The arithmetic, in terms of `inputs`, the stage's device energies and the rows.
    pub formula: String,
    /// Metrics that go in.
    pub inputs: &'static [&'static str],
    /// The stage whose device energies go in.
    pub stage: Option<Stage>,
    /// Other rows that go in.
    pub rows: Option<RowsRule>,
}

/// The recipe of the metric of that name; every metric of the catalogue has one.
#[must_use]
pub fn recipe(metric: &str) -> Option<Recipe> {
    stage_energy(metric)
        .or_else(|| latency(metric))
        .or_else(|| accelerators(metric))
        .or_else(|| steady(metric))
        .or_else(|| requests_and_amortisation(metric))
        .or_else(|| node(metric))
        .or_else(|| decode(metric))
}

impl Recipe {
    fn of(formula: &str, inputs: &'static [&'static str]) -> Self {
        Self { formula: formula.to_owned(), inputs, stage: None, rows: None }
    }

    fn over(mut self, stage: Stage) -> Self {
        self.stage = Some(stage);
        self
    }

    fn from(mut self, rows: RowsRule) -> Self {
        self.rows = Some(rows);
        self
    }
}

const fn formal_requests(columns: &'static [&'static str]) -> RowsRule {
    RowsRule { file: "requests.parquet", filter: "stage = formal", columns }
}

const fn successful(columns: &'static [&'static str]) -> RowsRule {
    let filter = "stage = formal, status = ok, output_tokens not null";
    RowsRule { file: "requests.parquet", filter, columns }
}

const fn decode_steps(columns: &'static [&'static str]) -> RowsRule {
    let filter = "decode_start <= t_start and t_end <= decode_end";
    RowsRule { file: "steps.parquet", filter, columns }
}

/// Where tokens lie in time.
const TOKEN_TIMES: &[&str] =
    &["t_send", "t_first_token", "t_end", "output_tokens", "itl_ns", "itl_tokens"];

/// The stages whose energy has a column for each method, by the beginning of their names.
const STAGES: [(&str, Stage); 5] = [
    ("startup_energy", Stage::Startup),
    ("formal_energy", Stage::Formal),
    ("steady_energy", Stage::Steady),
    ("release_energy", Stage::Release),
    ("decode_energy", Stage::Decode),
];

fn stage_energy(metric: &str) -> Option<Recipe> {
    if metric == "energy_j" {
        return Some(counting(Stage::Decode));
    }
    let (method, stage) =
        STAGES.iter().find_map(|(stage, of)| Some((metric.strip_prefix(stage)?, *of)))?;
    match method {
        "_j" => Some(counting(stage)),
        "_trapezoid_j" => Some(
            Recipe::of(
                "sum over devices of the integral of power: (p0 + p1)/2 * (t1 - t0) between \
                 neighbours, with power at both edges of the window interpolated (a source with \
                 interpolation hold: p0 * (t1 - t0))",
                &[],
            )
            .over(stage),
        ),
        "_counter_j" => Some(
            Recipe::of(
                "sum over devices of the energy counter at the end of the window minus the counter \
                 at its start, both interpolated; a wrap adds the counter's range, a segment with a \
                 reset counts as nothing",
                &[],
            )
            .over(stage),
        ),
        "_method_difference" => {
            Some(Recipe::of("(counter - trapezoid) / trapezoid", &[]).over(stage))
        }
        _ => None,
    }
}

fn counting(stage: Stage) -> Recipe {
    Recipe::of("sum over devices, by the method that counts", &[]).over(stage)
}

fn latency(metric: &str) -> Option<Recipe> {
    let (latency, statistic) = metric.strip_suffix("_ms")?.split_once('_')?;
    let (value, columns): (&str, &'static [&'static str]) = match latency {
        "ttft" => ("t_first_token - t_send", &["t_send", "t_first_token", "ttft_ns"]),
        "tpot" => (
            "(t_end - t_first_token) / (output_tokens - 1) where output_tokens >= 2",
            &["t_first_token", "t_end", "output_tokens", "ttft_ns", "e2e_ns"],
        ),
        "itl" => (
            "the gaps itl_ns, one before a chunk of k tokens counting as k gaps of a k-th",
            &["itl_ns", "itl_tokens"],
        ),
        "e2e" => ("t_end - t_send", &["t_send", "t_end", "e2e_ns"]),
        _ => return None,
    };
    let statistic = match statistic {
        "mean" => "mean".to_owned(),
        "std" => "sample standard deviation (n - 1)".to_owned(),
        "std_population" => "population standard deviation (n)".to_owned(),
        percentile => format!(
            "value at position (n - 1) * 0.{} of the sorted values, linear in between,",
            percentile.strip_prefix('p')?
        ),
    };
    let formula = format!("{statistic} of {value}, in ms");
    Some(Recipe::of(&formula, &[]).from(successful(columns)))
}

fn accelerators(metric: &str) -> Option<Recipe> {
    Some(match metric {
        "idle_power_w" => {
            Recipe::of("sum over devices by trapezoid / seconds of the window", &[])
                .over(Stage::Idle)
        }
        "lifecycle_energy_j" => Recipe::of(
            "startup_energy_j + formal_energy_j + release_energy_j",
            &["startup_energy_j", "formal_energy_j", "release_energy_j"],
        ),
        "formal_j_per_token" => {
            Recipe::of("formal_energy_j / output_tokens", &["formal_energy_j", "output_tokens"])
        }
        "lifecycle_j_per_token" => Recipe::of(
            "lifecycle_energy_j / output_tokens",
            &["lifecycle_energy_j", "output_tokens"],
        ),
        "formal_power_w" => {
            Recipe::of("formal_energy_j / seconds of the window", &["formal_energy_j"])
        }
        "lifecycle_power_w" => {
            Recipe::of("lifecycle_energy_j / seconds of the window", &["lifecycle_energy_j"])
        }
        "unattributed_energy_j" => Recipe::of(
            "the starts and ends of all generation intervals cut the formal window; the energies of \
             the parts in which no token was output, added",
            &["formal_energy_j"],
        )
        .from(successful(TOKEN_TIMES)),
        "release_closed" | "release_end" => Recipe::of(
            "baseline of a device: its idle energy by trapezoid / seconds of [idle_start, idle_end]; \
             release_end is the earliest sample time not before formal_end, process_exit and \
             memory_released from which every device stays within 5% of its baseline for 30 s, by \
             monitor_end at the latest",
            &["idle_power_w"],
        )
        .over(Stage::Idle),
        "release_seconds" => Recipe::of("release_end - formal_end", &["release_end"]),
        _ => return None,
    })
}

fn steady(metric: &str) -> Option<Recipe> {
    Some(match metric {
        "steady_reached" | "steady_first_request" => Recipe::of(
            "requests in the order of their ends, each with its share of the formal energy over its \
             output tokens (columns order, j_per_token and window_cv of the table requests, analyze \
             --per-request); the first i at which the windows from i and from i + size both have \
             std / mean below the limit (size, limit and number of windows are options)",
            &["formal_energy_j"],
        )
        .from(successful(TOKEN_TIMES)),
        "steady_start" => Recipe::of(
            "t_end of the request before steady_first_request in the order of ends; formal_start \
             when that is 0",
            &["steady_first_request"],
        )
        .from(successful(&["t_end"])),
        "steady_tokens" => Recipe::of(
            "tokens of all successful formal requests with steady_start < t <= formal_end; evenly \
             spread over (t_first_token, t_end] where gaps are not recorded",
            &["steady_start"],
        )
        .from(successful(TOKEN_TIMES)),
        "steady_j_per_token" => {
            Recipe::of("steady_energy_j / steady_tokens", &["steady_energy_j", "steady_tokens"])
        }
        "steady_power_w" => {
            Recipe::of("steady_energy_j / seconds of the window", &["steady_energy_j"])
        }
        _ => return None,
    })
}

fn requests_and_amortisation(metric: &str) -> Option<Recipe> {
    let fixed_share: &'static [&'static str] = &["fixed_energy_j", "steady_j_per_request"];
    Some(match metric {
        "requests_total" => Recipe::of("number of rows", &[]).from(formal_requests(&["stage"])),
        "requests_failed" => {
            Recipe::of("number of rows whose status is not ok or whose output_tokens is null", &[])
                .from(formal_requests(&["stage", "status", "output_tokens"]))
        }
        "output_tokens" => {
            Recipe::of("sum of output_tokens", &[]).from(successful(&["output_tokens"]))
        }
        "output_throughput_tok_s" => {
            Recipe::of("output_tokens / seconds of the window", &["output_tokens"])
        }
        "request_throughput_req_s" => Recipe::of(
            "(requests_total - requests_failed) / seconds of the window",
            &["requests_total", "requests_failed"],
        ),
        "request_goodput_req_s" => Recipe::of(
            "number of rows within every limit of the option service_level / seconds of the window",
            &[],
        )
        .from(successful(&["t_send", "t_first_token", "t_end", "output_tokens"])),
        "fixed_energy_j" => Recipe::of(
            "startup_energy_j + release_energy_j",
            &["startup_energy_j", "release_energy_j"],
        ),
        "mean_request_output_tokens" => Recipe::of(
            "output_tokens / (requests_total - requests_failed)",
            &["output_tokens", "requests_total", "requests_failed"],
        ),
        "steady_j_per_request" => Recipe::of(
            "steady_j_per_token * mean_request_output_tokens",
            &["steady_j_per_token", "mean_request_output_tokens"],
        ),
        "requests_to_fixed_share_10_percent" => {
            Recipe::of("floor(fixed_energy_j * 90 / (10 * steady_j_per_request)) + 1", fixed_share)
        }
        "requests_to_fixed_share_5_percent" => {
            Recipe::of("floor(fixed_energy_j * 95 / (5 * steady_j_per_request)) + 1", fixed_share)
        }
        "requests_to_fixed_share_1_percent" => {
            Recipe::of("floor(fixed_energy_j * 99 / (1 * steady_j_per_request)) + 1", fixed_share)
        }
        _ => return None,
    })
}

fn node(metric: &str) -> Option<Recipe> {
    Some(match metric {
        "node_energy_j" => Recipe::of("sum over devices by trapezoid", &[]).over(Stage::Node),
        "node_power_w" => {
            Recipe::of("node_energy_j / seconds of the window", &["node_energy_j"])
        }
        "node_j_per_token" => Recipe::of(
            "node_energy_j / output_tokens; flagged claimed-tokens: node_energy_j / (claimed \
             output_throughput_tok_s * seconds of the window)",
            &["node_energy_j", "output_tokens"],
        ),
        "node_sample_mean_power_w" => Recipe::of(
            "sum over devices of the plain mean of the samples with formal_start <= t <= formal_end",
            &[],
        )
        .over(Stage::Node),
        "node_sample_mean_j_per_token" => Recipe::of(
            "node_sample_mean_power_w / output_throughput_tok_s; flagged claimed-tokens: the claimed \
             rate",
            &["node_sample_mean_power_w", "output_throughput_tok_s"],
        ),
        _ => return None,
    })
}

fn decode(metric: &str) -> Option<Recipe> {
    Some(match metric {
        "tokens" => Recipe::of("sum of new_tokens", &[]).from(decode_steps(&["new_tokens"])),
        "iterations" => Recipe::of("sum of iterations (1 a row where the column is absent)", &[])
            .from(decode_steps(&["iterations"])),
        "straddling_steps" => Recipe::of("number of rows", &[]).from(RowsRule {
            file: "steps.parquet",
            filter: "partly inside [decode_start, decode_end]",
            columns: &["t_start", "t_end"],
        }),
        "duration_s" => Recipe::of("decode_end - decode_start", &[]),
        "j_per_token" => Recipe::of("energy_j / tokens", &["energy_j", "tokens"]),
        "b_eff" => Recipe::of("tokens / iterations", &["tokens", "iterations"]),
        "mean_history_tokens" => Recipe::of("sum of history_tokens / tokens", &["tokens"])
            .from(decode_steps(&["history_tokens"])),
        "q_w_gb" => Recipe::of(
            "bytes of all dense weights read in one iteration (wattrace geometry) / (1e9 * b_eff)",
            &["b_eff"],
        ),
        "q_kv_gb" => Recipe::of(
            "2 * layers * kv_heads * head_dim * kv_bytes_per_value * (mean_history_tokens + 1) / 1e9",
            &["mean_history_tokens"],
        ),
        "tau_s" => Recipe::of("duration_s / tokens", &["duration_s", "tokens"]),
        "mean_request_history_tokens" => Recipe::of(
            "mean over requests with output_tokens >= 2 of input_tokens + (output_tokens - 2) / 2",
            &[],
        )
        .from(successful(&["input_tokens", "output_tokens"])),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::super::catalogue;
    use super::*;

    #[test]
    fn every_metric_has_a_recipe_from_known_metrics() {
        let catalogue = catalogue();
        let names: BTreeSet<&str> = catalogue.iter().map(|metric| metric.name).collect();
        for metric in &names {
            let recipe = recipe(metric).unwrap_or_else(|| panic!("{metric} has no recipe"));
            for input in recipe.inputs {
                assert!(names.contains(input), "{metric} takes {input}");
                assert!(
                    recipe.formula.contains(input)
                        || recipe.rows.is_some()
                        || recipe.stage.is_some(),
                    "{metric} does not say what it does with {input}"
                );
            }
            let explains = !recipe.inputs.is_empty()
                || recipe.stage.is_some()
                || recipe.rows.is_some()
                || *metric == "duration_s";
            assert!(explains, "{metric} comes from nowhere");
        }
        assert_eq!(recipe("colour"), None);
    }

    #[test]
    fn a_percentile_says_its_position() {
        let recipe = recipe("ttft_p99_ms").unwrap();
        assert_eq!(
            recipe.formula,
            "value at position (n - 1) * 0.99 of the sorted values, linear in between, of \
             t_first_token - t_send, in ms"
        );
    }
}
