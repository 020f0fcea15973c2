//! `service_runs` and `accelerator_health`: what one run gives a spec-driven report.

use wattrace_analysis::service::{HealthRow, ServiceRun};
use wattrace_schema::Unit;

use super::parts::{REQUEST_RATE, UNLIMITED, flags, identity, subject};
use super::reasoned::Reasoned;
use crate::table::{ResultTable, TableBuilder};

pub(super) fn service_runs(runs: &[ServiceRun]) -> ResultTable {
    Reasoned::of("service_runs", "one run over the window of its spec", runs)
        .plain(|table| {
            let table = table
                .text("run_id", "Id of the run.", |run: &ServiceRun| {
                    Some(run.measurement.run_id.as_str())
                })
                .text(
                    "spec_origin",
                    "run: the run names its spec; given: the spec was given for a run that names none.",
                    |run| run.measurement.rules.origin.map(|origin| origin.name()),
                );
            identity(
                table,
                |run| &run.measurement.rules.spec_hash,
                |run| &run.measurement.configuration,
            )
            .number("request_rate", Unit::RequestPerSecond, REQUEST_RATE, |run| {
                run.measurement.request_rate
            })
            .boolean("unlimited_rate", UNLIMITED, |run| {
                Some(run.measurement.request_rate.is_none())
            })
            .time("window_start", "First instant of the window.", |run| {
                run.measurement.window.ok().map(|window| window.start_ns)
            })
            .time("window_end", "Last instant of the window.", |run| {
                run.measurement.window.ok().map(|window| window.end_ns)
            })
        })
        .count("sent", Unit::Count, "Formal requests sent in the window.", |run| {
            run.measurement.sent
        })
        .count("failed", Unit::Count, "Those of them that failed.", |run| run.measurement.failed)
        .number(
            "output_tok_s",
            Unit::TokenPerSecond,
            "Output tokens generated in the window per second.",
            |run| run.measurement.output_tok_s.as_f64(),
        )
        .number(
            "ttft_p99_ms",
            Unit::Millisecond,
            "p99 time to first token over requests sent in the window, failures being infinite.",
            |run| run.measurement.ttft_p99_ms.as_f64(),
        )
        .number(
            "tpot_p99_ms",
            Unit::Millisecond,
            "p99 time per output token over requests sent in the window, failures being infinite.",
            |run| run.measurement.tpot_p99_ms.as_f64(),
        )
        .number("node_power_w", Unit::Watt, "Mean power of the node over the window.", |run| {
            run.measurement.node_power_w.as_f64()
        })
        .number(
            "board_power_w",
            Unit::Watt,
            "Mean power of all boards together over the window.",
            |run| run.measurement.board_power_w.as_f64(),
        )
        .number(
            "tokens_per_joule",
            Unit::TokenPerJoule,
            "Output tokens per joule of the node.",
            |run| run.measurement.tokens_per_joule.as_f64(),
        )
        .number("mbu", Unit::Ratio, "Memory bandwidth utilisation.", |run| {
            run.measurement.mbu.as_f64()
        })
        .number(
            "engine_mbu",
            Unit::Ratio,
            "The engine's own estimate of memory bandwidth utilisation.",
            |run| run.measurement.engine_mbu,
        )
        .plain(traffic)
        .plain(conditions)
        .plain(health)
        .plain(origin)
        .plain(|table| flags(table, |run| run.measurement.flags()))
        .build()
}

fn traffic(table: TableBuilder<'_, ServiceRun>) -> TableBuilder<'_, ServiceRun> {
    table
        .text("memory_traffic", "The arithmetic of `mbu`.", |run| {
            run.measurement.traffic.as_ref().ok().map(ToString::to_string)
        })
        .number("mean_batch", Unit::Count, "Mean sequences in an iteration.", |run| {
            run.measurement.traffic.as_ref().ok().map(|traffic| traffic.mean_batch)
        })
        .number("mean_history_tokens", Unit::Token, "Mean context length of a sequence.", |run| {
            run.measurement.traffic.as_ref().ok().map(|traffic| traffic.mean_history_tokens)
        })
}

fn conditions(table: TableBuilder<'_, ServiceRun>) -> TableBuilder<'_, ServiceRun> {
    table
        .number(
            "input_tokens",
            Unit::Token,
            "Median prompt length of the formal requests.",
            |run| run.measurement.conditions.input_tokens,
        )
        .number(
            "output_tokens",
            Unit::Token,
            "Median output length of the successful ones.",
            |run| run.measurement.conditions.output_tokens,
        )
        .number("concurrency", Unit::Count, "Most formal requests in flight at one time.", |run| {
            run.measurement.conditions.concurrency
        })
        .text("quantisation", "Type of the weights.", |run| {
            run.measurement.conditions.quantisation.as_deref()
        })
}

fn health(table: TableBuilder<'_, ServiceRun>) -> TableBuilder<'_, ServiceRun> {
    fn devices(run: &ServiceRun) -> impl Iterator<Item = &HealthRow> {
        run.measurement.health.iter()
    }
    table
        .count(
            "throttle_events",
            Unit::Count,
            "Times at which throttling set in; missing where nothing says.",
            |run| run.measurement.throttle_events().map(|events| events as u64),
        )
        .count("sm_clock_min_mhz", Unit::Megahertz, "Lowest clock of any accelerator.", |run| {
            devices(run).filter_map(|device| device.sm_clock_min_mhz).min().map(u64::from)
        })
        .count("sm_clock_max_mhz", Unit::Megahertz, "Highest clock.", |run| {
            devices(run).filter_map(|device| device.sm_clock_max_mhz).max().map(u64::from)
        })
        .number(
            "temperature_min_c",
            Unit::Celsius,
            "Lowest temperature of any accelerator.",
            |run| {
                let lowest = devices(run).filter_map(|device| device.temperature_min_c);
                lowest.min_by(f32::total_cmp).map(f64::from)
            },
        )
        .number("temperature_max_c", Unit::Celsius, "Highest temperature.", |run| {
            let highest = devices(run).filter_map(|device| device.temperature_max_c);
            highest.max_by(f32::total_cmp).map(f64::from)
        })
}

fn origin(table: TableBuilder<'_, ServiceRun>) -> TableBuilder<'_, ServiceRun> {
    subject(table, |run| &run.measurement.model, |run| &run.measurement.hardware)
        .text("driver", "Driver version.", |run| run.origin.driver.as_deref())
        .text("engine", "Name of the serving engine.", |run| run.origin.engine.as_deref())
        .text("engine_version", "Its version.", |run| run.origin.engine_version.as_deref())
        .text("image_digest", "Digest of its container image.", |run| {
            run.origin.image_digest.as_deref()
        })
        .text("engine_flags", "Its flags, as JSON.", |run| run.origin.engine_flags.as_deref())
        .text("recorder", "Program that wrote the run.", |run| run.origin.recorder.as_deref())
        .text("recorder_version", "Its version.", |run| run.origin.recorder_version.as_deref())
        .text("command", "Its command line.", |run| run.origin.command.as_deref())
        .text("imported_from", "Files that the run was imported from.", |run| {
            run.origin.imported_from.as_deref()
        })
        .boolean("synthetic", "Whether the run is simulated.", |run| Some(run.synthetic))
}

pub(super) fn accelerator_health(runs: &[ServiceRun]) -> ResultTable {
    let rows: Vec<&HealthRow> = runs.iter().flat_map(|run| &run.measurement.health).collect();
    ResultTable::of("accelerator_health", "one accelerator of one run over its window", &rows)
        .text("run_id", "Id of the run.", |row: &&HealthRow| Some(row.run_id.as_str()))
        .text("device", "The accelerator.", |row| Some(row.device.as_str()))
        .count("samples", Unit::Count, "Samples in the window.", |row| Some(row.samples as u64))
        .count(
            "throttle_events",
            Unit::Count,
            "Times at which throttling set in; missing where nothing says.",
            |row| row.throttle_events.map(|events| events as u64),
        )
        .count("throttled_samples", Unit::Count, "Samples that report throttling.", |row| {
            Some(row.throttled_samples as u64)
        })
        .text_list("throttle_reasons", "Reasons that were reported, by NVML's names.", |row| {
            Some(row.throttle_reasons.iter().map(|&name| name.to_owned()).collect())
        })
        .count("sm_clock_min_mhz", Unit::Megahertz, "Lowest clock.", |row| {
            row.sm_clock_min_mhz.map(u64::from)
        })
        .count("sm_clock_max_mhz", Unit::Megahertz, "Highest clock.", |row| {
            row.sm_clock_max_mhz.map(u64::from)
        })
        .number("temperature_min_c", Unit::Celsius, "Lowest temperature.", |row| {
            row.temperature_min_c.map(f64::from)
        })
        .number("temperature_max_c", Unit::Celsius, "Highest temperature.", |row| {
            row.temperature_max_c.map(f64::from)
        })
        .text_list("flags", "What a reader must know beside the values.", |row| {
            Some(crate::record::flag_codes(row.flags))
        })
        .build()
}
