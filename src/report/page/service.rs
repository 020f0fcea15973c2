//! The page of a spec-driven report.

use super::{Page, PageCell, PageColumn};
use crate::provenance::SyntheticShare;
use crate::service_report::ServiceReport;
use crate::text::Entry;
use crate::view::TableView;

/// Significant digits of a number in a table.
const DIGITS: usize = 5;

pub(crate) fn service_page(report: &ServiceReport) -> String {
    let fields = report.spec.fields();
    let mut page = Page::new(&format!("{} on {}", fields.model.name, fields.hardware.accelerator));
    page.paragraph(
        "A spec-driven report: what each configuration delivers inside the objectives of one locked \
         spec, per second, per joule and per card. Any changed field of the spec makes another report.",
    );
    let simulated = match report.provenance.synthetic {
        SyntheticShare::None => None,
        SyntheticShare::Some => Some("Some runs are simulated."),
        SyntheticShare::All => Some("All runs are simulated."),
    };
    if let Some(simulated) = simulated {
        page.notice(simulated);
    }
    for warning in &report.warnings {
        page.notice(warning);
    }
    results(&mut page, report);
    page.section("What this report does not cover").list(&report.not_covered());
    coverage(&mut page, &report.tables.view("coverage"));
    health(&mut page, report);
    runs(&mut page, report);
    origin(&mut page, report);
    words(&mut page, report);
    page.finish()
}

fn results(page: &mut Page, report: &ServiceReport) {
    let tables = &report.tables;
    let slo = &report.spec.fields().slo;
    page.section("Goodput").paragraph(&format!(
        "Output tokens per second at the highest request rate whose p99 time to first token is at most \
         {} ms and whose p99 time per output token is at most {} ms, over requests sent in the window, a \
         failed one counting as infinite: median over runs. The interval redraws the runs of every rate.",
        slo.ttft_p99_ms.get(),
        slo.tpot_p99_ms.get()
    ));
    goodput(page, &tables.view("goodput"));
    page.paragraph(
        "Tokens per joule is output over node power alone, in the same window. Board power covers the \
         accelerators alone and never stands in for it; rated power is never used.",
    );
    page.section("Sweep of request rates");
    sweep(page, &tables.view("sweep"));
    let accuracy = tables.view("accuracy");
    if accuracy.rows() > 0 {
        page.section("Accuracy gate").paragraph(
            "Drop against the reference, in points, with its 95% paired bootstrap interval. A \
             configuration that fails is shown and left out of capacity.",
        );
        self::accuracy(page, &accuracy);
    }
    let comparison = tables.view("comparison");
    if comparison.rows() > 0 {
        page.section("Comparison").paragraph(
            "Better or worse is said when both sides have five runs, the interval of the difference \
             excludes zero and each median lies outside the other side's band.",
        );
        self::comparison(page, &comparison);
    }
    let capacity = tables.view("capacity");
    if capacity.rows() > 0 {
        page.section("Capacity").paragraph(
            "Cards that do the work of the fleet: cards times the reference's goodput over the \
             configuration's, rounded up exactly.",
        );
        self::capacity(page, &capacity);
    }
}

/// A column: heading, whether it holds numbers, and what stands in a row.
type Shown<'a> = (&'a str, bool, &'a dyn Fn(usize) -> Entry);

fn table(page: &mut Page, view: &TableView<'_>, shown: &[Shown<'_>]) {
    let columns: Vec<_> = shown
        .iter()
        .map(|(heading, is_number, _)| PageColumn {
            heading: (*heading).to_owned(),
            is_number: *is_number,
        })
        .collect();
    let rows: Vec<Vec<_>> = (0..view.rows())
        .map(|row| shown.iter().map(|(_, _, entry)| cell(entry(row))).collect())
        .collect();
    page.table(&columns, &rows);
}

fn cell(entry: Entry) -> PageCell {
    match entry {
        Entry::Text(text) => PageCell::Text(text),
        Entry::Missing(reason) => PageCell::Missing(reason.code().to_owned()),
        Entry::Blank => PageCell::Blank,
    }
}

/// A cell as the table holds it.
fn of<'a>(view: &'a TableView<'_>, column: &'static str) -> impl Fn(usize) -> Entry + 'a {
    move |row| view.entry(row, column, DIGITS)
}

/// Both ends of a range.
fn range<'a>(
    view: &'a TableView<'_>,
    low: &'static str,
    high: &'static str,
) -> impl Fn(usize) -> Entry + 'a {
    move |row| view.range(row, low, high, DIGITS)
}

fn goodput(page: &mut Page, view: &TableView<'_>) {
    let rate = |row| match view.reason(row, "goodput_tok_s") {
        Some(reason) => Entry::Missing(reason),
        None => view.rate(row),
    };
    table(
        page,
        view,
        &[
            ("configuration", false, &of(view, "configuration")),
            ("goodput, tok/s", true, &of(view, "goodput_tok_s")),
            ("at, req/s", true, &rate),
            ("lowest to highest", true, &range(view, "goodput_low", "goodput_high")),
            ("variance band", true, &of(view, "variance_band")),
            ("95% interval", true, &range(view, "goodput_ci_low", "goodput_ci_high")),
            ("runs", true, &of(view, "n_runs")),
            ("tokens per joule of the node", true, &of(view, "tokens_per_joule")),
            ("node power, W", true, &of(view, "node_power_w")),
            ("board power, W", true, &of(view, "board_power_w")),
            ("MBU", true, &of(view, "mbu")),
            ("engine's own MBU", true, &of(view, "engine_mbu")),
            ("mean batch", true, &of(view, "mean_batch")),
            ("mean context, tokens", true, &of(view, "mean_history_tokens")),
            ("longest context, tokens", true, &of(view, "max_sequence_tokens")),
            ("flags", false, &of(view, "flags")),
        ],
    );
}

fn sweep(page: &mut Page, view: &TableView<'_>) {
    let verdict =
        |row| match (view.entry(row, "meets_slo", DIGITS), view.yes(row, "is_goodput_rate")) {
            (Entry::Text(verdict), Some(true)) => Entry::Text(format!("{verdict}, the goodput")),
            (entry, _) => entry,
        };
    table(
        page,
        view,
        &[
            ("configuration", false, &of(view, "configuration")),
            ("rate, req/s", true, &|row| view.rate(row)),
            ("runs", true, &of(view, "n_runs")),
            ("output, tok/s", true, &of(view, "output_tok_s")),
            ("lowest to highest", true, &range(view, "output_tok_s_low", "output_tok_s_high")),
            ("variance band", true, &of(view, "variance_band")),
            ("TTFT p99, ms", true, &of(view, "ttft_p99_ms")),
            ("TPOT p99, ms", true, &of(view, "tpot_p99_ms")),
            ("meets the objective", false, &verdict),
            ("failed", true, &of(view, "failed")),
            ("sent", true, &of(view, "sent")),
            ("tokens per joule of the node", true, &of(view, "tokens_per_joule")),
            ("node power, W", true, &of(view, "node_power_w")),
            ("board power, W", true, &of(view, "board_power_w")),
            ("MBU", true, &of(view, "mbu")),
            ("mean batch", true, &of(view, "mean_batch")),
            ("mean context, tokens", true, &of(view, "mean_history_tokens")),
            ("flags", false, &of(view, "flags")),
        ],
    );
}

fn accuracy(page: &mut Page, view: &TableView<'_>) {
    table(
        page,
        view,
        &[
            ("configuration", false, &of(view, "configuration")),
            ("suite", false, &of(view, "suite")),
            ("reference", true, &of(view, "reference_score")),
            ("score", true, &of(view, "score")),
            ("drop", true, &of(view, "drop_points")),
            ("95% interval", true, &range(view, "ci_low", "ci_high")),
            ("largest drop that passes", true, &of(view, "max_drop_points")),
            ("seed spread", true, &of(view, "seed_spread")),
            ("score of each seed", false, &of(view, "seed_scores")),
            ("items", true, &of(view, "n_items")),
            ("passes", false, &of(view, "passes")),
            ("flags", false, &of(view, "flags")),
        ],
    );
}

fn comparison(page: &mut Page, view: &TableView<'_>) {
    table(
        page,
        view,
        &[
            ("reference", false, &of(view, "reference")),
            ("configuration", false, &of(view, "configuration")),
            ("metric", false, &of(view, "metric")),
            ("reference median", true, &of(view, "reference_median")),
            ("band", true, &range(view, "reference_low", "reference_high")),
            ("median", true, &of(view, "median")),
            ("band", true, &range(view, "low", "high")),
            ("difference", true, &of(view, "difference")),
            ("95% interval", true, &range(view, "ci_low", "ci_high")),
            ("verdict", false, &of(view, "verdict")),
            ("why not", false, &of(view, "reason")),
            ("flags", false, &of(view, "flags")),
        ],
    );
}

fn capacity(page: &mut Page, view: &TableView<'_>) {
    table(
        page,
        view,
        &[
            ("configuration", false, &of(view, "configuration")),
            ("fleet of cards", true, &of(view, "cards")),
            ("runs today", false, &of(view, "reference")),
            ("reference goodput, tok/s", true, &of(view, "reference_goodput_tok_s")),
            ("goodput, tok/s", true, &of(view, "goodput_tok_s")),
            ("cards needed", true, &of(view, "cards_needed")),
            ("cards saved", true, &|row| {
                Entry::text(view.number(row, "cards_saved").map(|cards| format!("{cards:.0}")))
            }),
            ("flags", false, &of(view, "flags")),
        ],
    );
}

fn coverage(page: &mut Page, view: &TableView<'_>) {
    table(
        page,
        view,
        &[
            ("dimension", false, &of(view, "dimension")),
            ("measured", false, &|row| view.brief_list(row, "measured")),
            ("named, not measured", false, &|row| view.brief_list(row, "not_measured")),
        ],
    );
}

fn health(page: &mut Page, report: &ServiceReport) {
    let view = report.tables.view("accelerator_health");
    if view.rows() == 0 {
        return;
    }
    page.section("State of the accelerators");
    let clocks = range(&view, "sm_clock_min_mhz", "sm_clock_max_mhz");
    let temperatures = range(&view, "temperature_min_c", "temperature_max_c");
    table(
        page,
        &view,
        &[
            ("run", false, &of(&view, "run_id")),
            ("device", false, &of(&view, "device")),
            ("throttle events", true, &of(&view, "throttle_events")),
            ("reasons", false, &of(&view, "throttle_reasons")),
            ("clock, MHz", true, &clocks),
            ("temperature, °C", true, &temperatures),
            ("samples", true, &of(&view, "samples")),
            ("flags", false, &of(&view, "flags")),
        ],
    );
}

fn runs(page: &mut Page, report: &ServiceReport) {
    let view = report.tables.view("service_runs");
    page.section("Runs");
    table(
        page,
        &view,
        &[
            ("run", false, &of(&view, "run_id")),
            ("configuration", false, &of(&view, "configuration")),
            ("spec", false, &of(&view, "spec_origin")),
            ("rate, req/s", true, &|row| view.rate(row)),
            ("window start", false, &of(&view, "window_start")),
            ("sent", true, &of(&view, "sent")),
            ("failed", true, &of(&view, "failed")),
            ("output, tok/s", true, &of(&view, "output_tok_s")),
            ("TTFT p99, ms", true, &of(&view, "ttft_p99_ms")),
            ("TPOT p99, ms", true, &of(&view, "tpot_p99_ms")),
            ("node power, W", true, &of(&view, "node_power_w")),
            ("board power, W", true, &of(&view, "board_power_w")),
            ("prompt, tokens", true, &of(&view, "input_tokens")),
            ("answer, tokens", true, &of(&view, "output_tokens")),
            ("in flight at most", true, &of(&view, "concurrency")),
            ("memory traffic", false, &of(&view, "memory_traffic")),
            ("flags", false, &of(&view, "flags")),
        ],
    );
}

/// Exact commands and versions: what it takes to make the report again.
fn origin(page: &mut Page, report: &ServiceReport) {
    page.section("How to make it again");
    let provenance = &report.provenance;
    let mut facts = vec![
        ("wattrace", provenance.tool_version.clone()),
        ("metric definitions", provenance.metric_definitions_version.to_string()),
        ("command", report.command_line.join(" ")),
        ("options", provenance.options.to_string()),
        ("spec, SHA-256", report.spec.hash().to_owned()),
    ];
    facts.extend(provenance.archive_sha256.clone().map(|digest| ("archive, SHA-256", digest)));
    let view = report.tables.view("service_runs");
    for (name, column) in [
        ("driver", "driver"),
        ("engine", "engine"),
        ("engine version", "engine_version"),
        ("image digest", "image_digest"),
        ("engine flags", "engine_flags"),
        ("recorder", "recorder"),
        ("recorder version", "recorder_version"),
        ("recorder's command", "command"),
        ("imported from", "imported_from"),
    ] {
        for (value, runs) in distinct(&view, column) {
            facts.push((name, format!("{value} ({runs} of {} runs)", view.rows())));
        }
    }
    page.facts(&facts);
    page.section("The spec").verbatim(&pretty(&report.spec.canonical_json()));
    if !report.spec.unknown_fields().is_empty() {
        page.paragraph(&format!(
            "Fields that this program does not know, kept and hashed: {}.",
            report.spec.unknown_fields().join(", ")
        ));
    }
}

/// The different texts of a column, in order, each with the number of rows that have it.
fn distinct(view: &TableView<'_>, column: &str) -> std::collections::BTreeMap<String, usize> {
    let mut counts = std::collections::BTreeMap::new();
    for text in (0..view.rows()).filter_map(|row| view.text(row, column)) {
        *counts.entry(text.to_owned()).or_default() += 1;
    }
    counts
}

/// JSON over several lines; as it is if it cannot be read.
fn pretty(json: &str) -> String {
    serde_json::from_str::<serde_json::Value>(json)
        .map_or_else(|_| json.to_owned(), |value| format!("{value:#}"))
}

fn words(page: &mut Page, report: &ServiceReport) {
    let flags: Vec<_> =
        report.flags().into_iter().map(|flag| (flag.code(), flag.meaning())).collect();
    if !flags.is_empty() {
        page.section("Flags").facts(&flags);
    }
    let reasons: Vec<_> =
        report.reasons().into_iter().map(|reason| (reason.code(), reason.meaning())).collect();
    if !reasons.is_empty() {
        page.section("Reasons for missing values").facts(&reasons);
    }
}
