//! What `explain` prints: one number, and everything that is needed to compute it again.

use serde_json::Value;
use wattrace_analysis::metrics::catalogue;

use super::TextStyle;
use super::grid::emphasised;
use super::number::signed_percent;
use super::wrap::hanging;
use crate::explain::{BothMethods, ClaimBeside, DeviceUsed, Explanation, Input, Word};

/// One number and how it came about.
#[must_use]
pub fn explanation(explained: &Explanation, style: TextStyle) -> String {
    let sections = [
        head(explained, style),
        section("inputs", explained.inputs.iter().map(input), style),
        section("energy by both methods", explained.both_methods.iter().map(both_methods), style),
        section("devices (times on the run's clock)", explained.devices.iter().map(device), style),
        section("rows read", rows(explained), style),
        section("flags", explained.flags.iter().map(word), style),
        section("published values", claims(explained), style),
        section("made by", made_by(explained), style),
    ];
    let filled: Vec<&str> =
        sections.iter().map(String::as_str).filter(|section| !section.is_empty()).collect();
    filled.join("\n")
}

/// Every metric with its unit and definition.
#[must_use]
pub fn metric_list(style: TextStyle) -> String {
    let mut out = String::new();
    for metric in catalogue() {
        let unit = metric.unit.symbol();
        let unit = if unit.is_empty() { String::new() } else { format!(" ({unit})") };
        out.push_str(&emphasised(metric.name, style.colour));
        out.push_str(&unit);
        out.push('\n');
        out.push_str(&hanging("    ", metric.definition, style.width));
    }
    out
}

fn head(explained: &Explanation, style: TextStyle) -> String {
    let simulated = if explained.synthetic { " (simulated)" } else { "" };
    let value = match &explained.reason {
        Some(reason) => format!("missing, {}", reason.code),
        None => with_unit(&explained.value, &explained.unit),
    };
    let title = format!("{} of run \"{}\"{simulated}: {value}", explained.metric, explained.run_id);
    let mut out = hanging("", &title, style.width);
    if style.colour {
        out = format!("{}\n", emphasised(out.trim_end(), true));
    }
    let mut line = |name: &str, text: &str| {
        out.push_str(&hanging(&format!("  {name:<11}"), text, style.width));
    };
    if let Some(reason) = &explained.reason {
        line("reason", &word(reason));
    }
    if let Some(error) = &explained.error {
        line("error", error);
    }
    line("definition", &explained.definition);
    line("source", &explained.source);
    line("formula", &explained.formula);
    line("boundary", &explained.boundary);
    if let Some(window) = &explained.window {
        line("window", &format!("{} to {}, {} s", window.start, window.end, window.seconds));
    }
    if let Some(method) = &explained.method {
        line("method", method);
    }
    if let Some(count) = explained.row_count {
        line("rows", &format!("{count} samples, requests or steps"));
    }
    if let Some(share) = explained.gap_share {
        line("gaps", &format!("{} of the window, over all devices", percent(share)));
    }
    if let Some(lost_s) = explained.counter_lost_s {
        line("lost", &format!("{lost_s} s in which a counter was reset"));
    }
    out
}

/// A heading and its lines; nothing without lines.
fn section(name: &str, lines: impl Iterator<Item = String>, style: TextStyle) -> String {
    let lines: String = lines.map(|line| hanging("  ", &line, style.width)).collect();
    if lines.is_empty() {
        return lines;
    }
    format!("{}\n{lines}", emphasised(name, style.colour))
}

/// Every digit that the number needs to be read back equal, and its unit.
fn with_unit(value: &Value, unit: &str) -> String {
    let value = match value {
        Value::String(text) => text.clone(),
        Value::Bool(yes) => if *yes { "yes" } else { "no" }.to_owned(),
        other => other.to_string(),
    };
    let unit = if unit == "1" { "" } else { unit };
    format!("{value} {unit}").trim_end().to_owned()
}

fn percent(ratio: f64) -> String {
    format!("{}%", super::significant(ratio * 100.0, 3))
}

fn input(input: &Input) -> String {
    match &input.reason {
        Some(reason) => format!("{}: missing, {}", input.metric, word(reason)),
        None => format!("{} = {}", input.metric, with_unit(&input.value, &input.unit)),
    }
}

fn both_methods(both: &BothMethods) -> String {
    let method = |name: &str, energy_j: Option<f64>| {
        let energy = energy_j.map_or("no value".to_owned(), |energy_j| format!("{energy_j} J"));
        let counts = if both.counts.as_deref() == Some(name) { " (counts)" } else { "" };
        format!("{name} {energy}{counts}")
    };
    let difference = both.difference.map_or(String::new(), |difference| {
        format!("; (counter - trapezoid) / trapezoid = {}", signed_percent(difference))
    });
    format!(
        "{} {}: {}, {}{difference}",
        both.stage,
        both.meaning,
        method("counter", both.counter_j),
        method("trapezoid", both.trapezoid_j)
    )
}

fn device(device: &DeviceUsed) -> String {
    let quantity = if device.method == "counter" { "unwrapped counter, J," } else { "power, W," };
    let mut text = format!(
        "{} {}, source {} device {}: {} J over {} to {}; {} samples inside; samples read {} to {}; \
         {quantity} {} at the start and {} at the end",
        device.stage,
        device.method,
        device.source,
        device.device,
        device.energy_j,
        device.window_start,
        device.window_end,
        device.samples,
        device.first_sample,
        device.last_sample,
        device.value_at_start,
        device.value_at_end,
    );
    if device.gap_s > 0.0 {
        text += &format!("; {} s in gaps longer than {} s", device.gap_s, device.max_gap_s);
    }
    if device.counter_lost_s > 0.0 {
        text += &format!("; {} s lost to a counter reset", device.counter_lost_s);
    }
    if device.clock_offset_s != 0.0 {
        text += &format!("; clock offset {} s", device.clock_offset_s);
    }
    if device.interpolation != "linear" {
        text += &format!("; interpolation {}", device.interpolation);
    }
    if !device.flags.is_empty() {
        text += &format!("; {}", device.flags.join(", "));
    }
    text
}

fn rows(explained: &Explanation) -> impl Iterator<Item = String> {
    explained
        .rows
        .iter()
        .map(|rows| format!("{}: {}; columns {}", rows.file, rows.filter, rows.columns.join(", ")))
}

fn word(word: &Word) -> String {
    format!("{}: {}", word.code, word.meaning)
}

fn claims(explained: &Explanation) -> impl Iterator<Item = String> {
    explained.claims.iter().map(claim)
}

fn claim(claim: &ClaimBeside) -> String {
    let published = format!("published {} {} ({})", claim.claimed, claim.unit, claim.source);
    match (claim.recomputed, &claim.reason) {
        (Some(recomputed), _) => {
            let difference = claim
                .relative_difference
                .map_or(String::new(), |difference| format!(", {}", signed_percent(difference)));
            let verdict = match claim.agrees_as_printed {
                Some(true) => "agrees to every printed digit",
                _ => "differs in the printed digits",
            };
            format!("{published}; recomputed {recomputed} {}{difference}; {verdict}", claim.unit)
        }
        (None, Some(reason)) => format!("{published}; not recomputed, {}", word(reason)),
        (None, None) => published,
    }
}

fn made_by(explained: &Explanation) -> impl Iterator<Item = String> {
    let made_by = &explained.made_by;
    let archive = made_by.archive_sha256.as_ref().map(|digest| format!("archive SHA-256 {digest}"));
    let version = made_by.metric_definitions_version;
    [
        Some(format!("{}, metric definitions version {version}", made_by.tool)),
        Some(made_by.command_line.join(" ")),
        archive,
        Some(format!("options {}", made_by.options)),
    ]
    .into_iter()
    .flatten()
}
