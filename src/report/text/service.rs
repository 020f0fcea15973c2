//! What `goodput`, `compare`, `capacity` and `coverage` print.

use super::TextStyle;
use super::grid::{Entry, GridBuilder, Place, emphasised};
use super::number::significant;
use super::wrap::hanging;
use crate::service::ServiceTables;
use crate::view::TableView;

/// Significant digits of a number in a table.
const DIGITS: usize = 4;
const COMPARISON_TITLE: &str = "comparison, median (lowest to highest): goodput tok/s, tokens/J of the node, \
                                TTFT and TPOT ms, accuracy points";
/// Significant digits of a spread or of an interval's end.
const SPREAD_DIGITS: usize = 3;

/// Goodput of every configuration, the sweep behind it, and the accuracy gate.
#[must_use]
pub fn goodput_overview(tables: &ServiceTables, style: TextStyle) -> String {
    let goodput = tables.view("goodput");
    if goodput.rows() == 0 {
        return "no serving runs\n".to_owned();
    }
    let (sweep, accuracy) = (tables.view("sweep"), tables.view("accuracy"));
    let parts = [
        goodput_grid(&goodput, style),
        sweep_grid(&sweep, style),
        accuracy_grid(&accuracy, style),
        board_note(&goodput, style),
        synthetic_note(tables, style),
        flag_notes(&[&goodput, &sweep, &accuracy], style),
    ];
    joined(&parts)
}

/// Every configuration against its reference.
#[must_use]
pub fn comparison_overview(tables: &ServiceTables, style: TextStyle) -> String {
    let comparison = tables.view("comparison");
    if comparison.rows() == 0 {
        return "nothing to compare: no configuration stands beside a reference\n".to_owned();
    }
    let parts = [
        comparison_grid(&comparison, style),
        synthetic_note(tables, style),
        flag_notes(&[&comparison], style),
    ];
    joined(&parts)
}

/// What the other configurations mean for a fleet.
#[must_use]
pub fn capacity_overview(tables: &ServiceTables, style: TextStyle) -> String {
    let capacity = tables.view("capacity");
    if capacity.rows() == 0 {
        return "no capacity: no run was made under a spec\n".to_owned();
    }
    let parts = [
        capacity_grid(&capacity, style),
        synthetic_note(tables, style),
        flag_notes(&[&capacity], style),
    ];
    joined(&parts)
}

/// What was measured, what the specs name and nobody measured, and the state of the accelerators.
#[must_use]
pub fn coverage_overview(tables: &ServiceTables, style: TextStyle) -> String {
    let (coverage, health) = (tables.view("coverage"), tables.view("accelerator_health"));
    let parts = [
        coverage_list(&coverage, style),
        health_grid(&health, style),
        flag_notes(&[&health], style),
    ];
    joined(&parts)
}

fn coverage_list(coverage: &TableView<'_>, style: TextStyle) -> String {
    if coverage.rows() == 0 {
        return "no coverage: no run was made under a spec\n".to_owned();
    }
    let mut out = String::new();
    let mut last_spec = None;
    for row in 0..coverage.rows() {
        let spec = coverage.text(row, "spec_hash").map(short);
        if spec != last_spec {
            let title = format!("coverage of spec {}", spec.unwrap_or_default());
            out.push_str(&emphasised(&title, style.colour));
            out.push('\n');
            last_spec = spec;
        }
        let shown = |column| match coverage.brief_list(row, column) {
            Entry::Text(list) => list,
            Entry::Missing(_) | Entry::Blank => "nothing".to_owned(),
        };
        let dimension = coverage.text(row, "dimension").unwrap_or_default();
        let line = format!("measured {}", shown("measured"));
        out.push_str(&hanging(&format!("  {dimension}: "), &line, style.width));
        if !coverage.list(row, "not_measured").is_empty() {
            let line = format!("not measured: {}", shown("not_measured"));
            out.push_str(&hanging("    ", &line, style.width));
        }
    }
    out
}

/// Throttling, clocks and temperatures of every run that recorded them.
fn health_grid(view: &TableView<'_>, style: TextStyle) -> String {
    let rows = all_rows(view);
    let name = |row| view.text(row, "run_id").unwrap_or_default().to_owned();
    Viewed::new(view, "state of the accelerators", "accelerator_health.csv", &rows, name)
        .column("run", "run", Place::Text, |view, row| view.entry(row, "run_id", DIGITS))
        .identity("device", "device")
        .number("throttle events", "throttle\nevents", 0, "throttle_events")
        .column("reasons", "reasons", Place::Text, |view, row| {
            view.entry(row, "throttle_reasons", DIGITS)
        })
        .column("clock", "clock\nMHz", Place::Number { rank: 0 }, |view, row| {
            view.range(row, "sm_clock_min_mhz", "sm_clock_max_mhz", DIGITS)
        })
        .column("temperature", "temperature\n°C", Place::Number { rank: 1 }, |view, row| {
            view.range(row, "temperature_min_c", "temperature_max_c", SPREAD_DIGITS)
        })
        .render(style)
}

/// The first digits of a hash, enough to tell specs apart.
fn short(hash: &str) -> &str {
    hash.get(..12).unwrap_or(hash)
}

fn joined(parts: &[String]) -> String {
    let filled: Vec<&str> =
        parts.iter().map(String::as_str).filter(|part| !part.is_empty()).collect();
    filled.join("\n")
}

/// A grid over the rows of a table.
struct Viewed<'a> {
    view: &'a TableView<'a>,
    builder: GridBuilder<'a, usize>,
}

impl<'a> Viewed<'a> {
    fn new(
        view: &'a TableView<'a>,
        title: &str,
        file: &'static str,
        rows: &'a [usize],
        name: impl Fn(usize) -> String,
    ) -> Self {
        Self { view, builder: GridBuilder::new(title, file, rows, |row| name(*row)) }
    }

    fn column(
        self,
        name: &str,
        heading: &str,
        place: Place,
        entry: impl Fn(&TableView<'_>, usize) -> Entry,
    ) -> Self {
        let Self { view, builder } = self;
        Self { view, builder: builder.column(name, heading, place, |row| entry(view, *row)) }
    }

    fn identity(self, name: &str, column: &'static str) -> Self {
        self.column(name, name, Place::Identity, |view, row| view.entry(row, column, DIGITS))
    }

    fn spec(self) -> Self {
        self.column("spec", "spec", Place::Identity, |view, row| {
            Entry::text(view.text(row, "spec_hash").map(short))
        })
    }

    fn number(self, name: &str, heading: &str, rank: u8, column: &'static str) -> Self {
        self.column(name, heading, Place::Number { rank }, |view, row| {
            view.entry(row, column, DIGITS)
        })
    }

    fn percent(self, name: &str, heading: &str, rank: u8, column: &'static str) -> Self {
        self.column(name, heading, Place::Number { rank }, |view, row| {
            match (view.number(row, column), view.reason(row, column)) {
                (Some(share), _) => Entry::Text(significant(share * 100.0, SPREAD_DIGITS)),
                (None, Some(reason)) => Entry::Missing(reason),
                (None, None) => Entry::Blank,
            }
        })
    }

    fn flag_count(self) -> Self {
        self.column("flags", "flags", Place::Number { rank: 0 }, |view, row| {
            let count = view.list(row, "flags").len();
            Entry::text((count > 0).then(|| count.to_string()))
        })
    }

    fn render(self, style: TextStyle) -> String {
        self.builder.build().render(style)
    }
}

fn configuration_of(view: &TableView<'_>, row: usize) -> String {
    let name = view.text(row, "configuration").or_else(|| view.text(row, "run_id"));
    name.unwrap_or("(no configuration)").to_owned()
}

fn all_rows(view: &TableView<'_>) -> Vec<usize> {
    (0..view.rows()).collect()
}

fn goodput_grid(view: &TableView<'_>, style: TextStyle) -> String {
    let rows = all_rows(view);
    let title = "goodput: output rate at the highest request rate that meets the objective";
    Viewed::new(view, title, "goodput.csv", &rows, |row| configuration_of(view, row))
        .spec()
        .identity("model", "model")
        .identity("hardware", "hardware")
        .identity("TTFT p99 limit ms", "slo_ttft_p99_ms")
        .identity("TPOT p99 limit ms", "slo_tpot_p99_ms")
        .column("configuration", "configuration", Place::Text, |view, row| {
            Entry::Text(configuration_of(view, row))
        })
        .number("goodput", "goodput\ntok/s", 0, "goodput_tok_s")
        .column("request rate", "at\nreq/s", Place::Number { rank: 0 }, |view, row| {
            match view.reason(row, "goodput_tok_s") {
                Some(reason) => Entry::Missing(reason),
                None => view.rate(row),
            }
        })
        .column(
            "lowest to highest",
            "lowest to\nhighest",
            Place::Number { rank: 2 },
            |view, row| view.range(row, "goodput_low", "goodput_high", DIGITS),
        )
        .percent("variance band", "band\n%", 3, "variance_band")
        .column("95% interval", "95%\ninterval", Place::Number { rank: 1 }, |view, row| {
            view.range(row, "goodput_ci_low", "goodput_ci_high", DIGITS)
        })
        .number("runs", "runs", 4, "n_runs")
        .number("tokens per joule", "node\ntok/J", 0, "tokens_per_joule")
        .number("node power", "node\nW", 0, "node_power_w")
        .number("board power", "boards\nW", 0, "board_power_w")
        .number("MBU", "MBU", 5, "mbu")
        .number("engine's MBU", "engine's\nMBU", 9, "engine_mbu")
        .number("mean batch", "mean\nbatch", 6, "mean_batch")
        .number("mean context", "mean\ncontext", 7, "mean_history_tokens")
        .number("longest context", "longest\ncontext", 8, "max_sequence_tokens")
        .flag_count()
        .render(style)
}

fn sweep_grid(view: &TableView<'_>, style: TextStyle) -> String {
    let rows = all_rows(view);
    let name = |row| {
        let rate = match view.rate(row) {
            Entry::Text(rate) => rate,
            Entry::Missing(_) | Entry::Blank => String::new(),
        };
        format!("{} at {rate}", configuration_of(view, row))
    };
    Viewed::new(view, "sweep: medians over runs", "sweep.csv", &rows, name)
        .spec()
        .identity("configuration", "configuration")
        .column("rate", "rate\nreq/s", Place::Number { rank: 0 }, |view, row| view.rate(row))
        .number("runs", "runs", 3, "n_runs")
        .number("output rate", "output\ntok/s", 0, "output_tok_s")
        .percent("variance band", "band\n%", 2, "variance_band")
        .number("TTFT p99", "TTFT\np99 ms", 0, "ttft_p99_ms")
        .number("TPOT p99", "TPOT\np99 ms", 0, "tpot_p99_ms")
        .column("meets objective", "meets\nSLO", Place::Number { rank: 0 }, |view, row| {
            let mark = if view.yes(row, "is_goodput_rate") == Some(true) { " *" } else { "" };
            match view.entry(row, "meets_slo", DIGITS) {
                Entry::Text(verdict) => Entry::Text(format!("{verdict}{mark}")),
                other => other,
            }
        })
        .number("failed", "failed", 1, "failed")
        .number("sent", "sent", 4, "sent")
        .flag_count()
        .render(style)
}

fn accuracy_grid(view: &TableView<'_>, style: TextStyle) -> String {
    let rows = all_rows(view);
    Viewed::new(view, "accuracy gate, points", "accuracy.csv", &rows, |row| {
        configuration_of(view, row)
    })
    .spec()
    .identity("suite", "suite")
    .identity("largest drop", "max_drop_points")
    .column("configuration", "configuration", Place::Text, |view, row| {
        Entry::Text(configuration_of(view, row))
    })
    .number("reference", "reference", 1, "reference_score")
    .number("score", "score", 0, "score")
    .number("drop", "drop", 0, "drop_points")
    .column("95% interval", "95%\ninterval", Place::Number { rank: 0 }, |view, row| {
        view.range(row, "ci_low", "ci_high", SPREAD_DIGITS)
    })
    .number("seed spread", "seed\nspread", 0, "seed_spread")
    .number("items", "items", 2, "n_items")
    .number("seeds", "seeds", 3, "n_seeds")
    .number("passes", "passes", 0, "passes")
    .flag_count()
    .render(style)
}

fn comparison_grid(view: &TableView<'_>, style: TextStyle) -> String {
    let rows = all_rows(view);
    let name = |row| {
        let metric = metric_name(view.text(row, "metric").unwrap_or_default());
        format!("{} {metric}", configuration_of(view, row))
    };
    let side = |median: &'static str, low: &'static str, high: &'static str| {
        move |view: &TableView<'_>, row: usize| match view.entry(row, median, DIGITS) {
            Entry::Text(median) => match view.range(row, low, high, SPREAD_DIGITS) {
                Entry::Text(band) => Entry::Text(format!("{median} ({band})")),
                _ => Entry::Text(median),
            },
            other => other,
        }
    };
    Viewed::new(view, COMPARISON_TITLE, "comparison.csv", &rows, name)
        .spec()
        .identity("reference", "reference")
        .identity("configuration", "configuration")
        .column("metric", "metric", Place::Text, |view, row| {
            Entry::Text(metric_name(view.text(row, "metric").unwrap_or_default()).to_owned())
        })
        .column(
            "reference value",
            "reference",
            Place::Number { rank: 0 },
            side("reference_median", "reference_low", "reference_high"),
        )
        .column("value", "value", Place::Number { rank: 0 }, side("median", "low", "high"))
        .number("difference", "difference", 0, "difference")
        .column("95% interval", "95%\ninterval", Place::Number { rank: 0 }, |view, row| {
            view.range(row, "ci_low", "ci_high", SPREAD_DIGITS)
        })
        .number("runs", "runs", 1, "n")
        .column("verdict", "verdict", Place::Text, |view, row| {
            let verdict = view.text(row, "verdict").unwrap_or_default();
            Entry::Text(match view.text(row, "reason") {
                Some(reason) => format!("{verdict} ({reason})"),
                None => verdict.to_owned(),
            })
        })
        .render(style)
}

/// A compared metric as people say it; the title names the units.
fn metric_name(metric: &str) -> &str {
    match metric {
        "goodput_tok_s" => "goodput",
        "tokens_per_joule" => "tokens/J",
        "ttft_p99_ms" => "TTFT p99",
        "tpot_p99_ms" => "TPOT p99",
        "accuracy_points" => "accuracy",
        other => other,
    }
}

fn capacity_grid(view: &TableView<'_>, style: TextStyle) -> String {
    let rows = all_rows(view);
    Viewed::new(view, "capacity", "capacity.csv", &rows, |row| configuration_of(view, row))
        .spec()
        .identity("fleet of cards", "cards")
        .identity("runs today", "reference")
        .identity("reference goodput tok/s", "reference_goodput_tok_s")
        .column("configuration", "configuration", Place::Text, |view, row| {
            Entry::Text(configuration_of(view, row))
        })
        .number("goodput", "goodput\ntok/s", 0, "goodput_tok_s")
        .column("of the reference", "of the\nreference", Place::Number { rank: 1 }, |view, row| {
            let ratio = view
                .number(row, "goodput_tok_s")
                .zip(view.number(row, "reference_goodput_tok_s"))
                .map(|(own, reference)| significant(own / reference, DIGITS));
            Entry::text(ratio)
        })
        .number("cards needed", "cards\nneeded", 0, "cards_needed")
        .column("cards saved", "cards\nsaved", Place::Number { rank: 0 }, |view, row| {
            Entry::text(view.number(row, "cards_saved").map(|cards| format!("{cards:.0}")))
        })
        .flag_count()
        .render(style)
}

/// What board power is not, wherever it is shown.
fn board_note(goodput: &TableView<'_>, style: TextStyle) -> String {
    let shown = |column| (0..goodput.rows()).any(|row| goodput.number(row, column).is_some());
    if !shown("board_power_w") {
        return String::new();
    }
    let node = if shown("node_power_w") {
        "Board power covers the accelerators alone; tokens per joule rests on node power only."
    } else {
        "No node source: board power covers the accelerators alone, so there are no tokens per joule."
    };
    hanging("", &format!("{node} Rated power is never used."), style.width)
}

fn synthetic_note(tables: &ServiceTables, style: TextStyle) -> String {
    let runs = tables.view("service_runs");
    let simulated =
        (0..runs.rows()).filter(|row| runs.yes(*row, "synthetic") == Some(true)).count();
    match simulated {
        0 => String::new(),
        all if all == runs.rows() => hanging("", "All runs are simulated.", style.width),
        some => hanging("", &format!("{some} of {} runs are simulated.", runs.rows()), style.width),
    }
}

fn flag_notes(views: &[&TableView<'_>], style: TextStyle) -> String {
    let mut flags: Vec<_> = views.iter().flat_map(|view| view.flags()).collect();
    flags.sort_unstable();
    flags.dedup();
    if flags.is_empty() {
        return String::new();
    }
    let mut out = format!("{}\n", emphasised("flags", style.colour));
    for flag in flags {
        let holders: Vec<String> = views
            .iter()
            .flat_map(|view| {
                (0..view.rows())
                    .filter(|row| view.list(*row, "flags").iter().any(|code| code == flag.code()))
                    .map(|row| configuration_of(view, row))
                    .collect::<Vec<_>>()
            })
            .collect();
        let mut names: Vec<&str> = holders.iter().map(String::as_str).collect();
        names.sort_unstable();
        names.dedup();
        let note = format!("{flag} ({}): {}", super::wrap::few(&names), flag.meaning());
        out.push_str(&hanging("  ", &note, style.width));
    }
    out
}
