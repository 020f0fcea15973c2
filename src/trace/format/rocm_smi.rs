//! `rocm-smi --showpower --showenergycounter --json`: one object a reading, without a time.
//!
//! A polling loop gives each its time: by a line that holds nothing but a time before it, or by wrapping it
//! as `{"time": …, "body": {…}}`. Otherwise the anchor and the interval do.

use serde_json::{Map, Value};
use wattrace_schema::Scope;

use super::power_log::{
    self, Found, Piece, Pieces, PollClock, PowerLog, Problem, Record, Rows, Settings, Source,
    energy_cell, number_cell, power_cell, stamp_line,
};
use super::{Format, Reader};
use crate::PowerRow;

/// Keys of power with their units, and whether each is an average of unknown length.
const POWER: [(&str, &str, bool); 3] = [
    ("Current Socket Graphics Package Power (W)", "current-socket-power", false),
    ("Average Graphics Package Power (W)", "average-package-power", true),
    ("Graphics Package Power (W)", "package-power", true),
];
const ENERGY: &str = "Accumulated Energy (uJ)";
const SECONDARY_DIE: &str = "Secondary die";

pub(super) const FORMAT: Format = Format {
    name: "rocm-smi",
    title: "rocm-smi --showpower --showenergycounter --json, polled",
    recovers: "package power and energy counters",
    lacks: "requests; times, unless a line or a wrapper with one comes with each answer",
    reader: Reader::Parts {
        detect: |head| recognise(head.text()),
        read: |input, options, sink| {
            power_log::read(input, options, sink, |settings| Box::new(RocmSmi::new(settings)))
        },
    },
};

/// Says why a text is such a log.
fn recognise(text: &str) -> Option<String> {
    let key = POWER
        .iter()
        .map(|(key, ..)| *key)
        .chain([ENERGY])
        .find(|key| text.contains(&format!("\"{key}\"")))?;
    text.contains("\"card").then(|| format!("it is JSON with cards and the key \"{key}\""))
}

/// Reads such a log.
#[derive(Debug)]
pub(super) struct RocmSmi {
    clock: PollClock,
    pieces: Pieces,
}

impl RocmSmi {
    pub(super) fn new(settings: Settings) -> Self {
        let what = "rocm-smi without a line of time before each answer";
        Self { clock: PollClock::new(settings, what), pieces: Pieces::default() }
    }

    fn answer(&mut self, json: &str, rows: &mut Rows) -> Result<(), Problem> {
        let value: Value =
            serde_json::from_str(json).map_err(|error| format!("is not valid JSON: {error}"))?;
        let object = value.as_object().ok_or("is JSON without cards")?;
        if let Some(record) = Record::parse(object) {
            let record = record?;
            self.clock.stamp(record.stamp)?;
            let body = record.body.as_object().ok_or("is JSON without cards")?;
            return self.cards(body, rows);
        }
        self.cards(object, rows)
    }

    fn cards(&mut self, object: &Map<String, Value>, rows: &mut Rows) -> Result<(), Problem> {
        let mut cards = Vec::new();
        for (name, card) in object {
            let number = name.strip_prefix("card").and_then(|number| number.parse::<u16>().ok());
            cards.extend(number.zip(card.as_object()));
        }
        if cards.is_empty() {
            return Err("is JSON without cards; expected \"card0\" and the like".into());
        }
        cards.sort_by_key(|(number, _)| *number);
        let t_ns = self.clock.answer()?;
        for (number, card) in cards {
            add(t_ns, number, card, rows)?;
        }
        Ok(())
    }
}

fn add(t_ns: i64, number: u16, card: &Map<String, Value>, rows: &mut Rows) -> Result<(), String> {
    let text = |key: &str| match card.get(key)? {
        Value::String(text) => Some(text.clone()),
        other => Some(other.to_string()),
    };
    // The package of two dies is reported on the first, so the second has nothing of its own.
    if POWER.iter().any(|(key, ..)| text(key).is_some_and(|text| text.contains(SECONDARY_DIE))) {
        rows.leave_out("readings of a secondary die, whose package the first die reports");
        return Ok(());
    }
    let number_of =
        |key: &str| text(key).and_then(|text| number_cell(&text)).map(|value| value as f32);
    let name = text("Card Series").or_else(|| text("Card series"));
    if let Some(name) = name.filter(|name| !super::quantity::is_absent(name)) {
        rows.accelerator(&name);
    }
    let mut energy_j = text(ENERGY)
        .map(|text| energy_cell(&ENERGY, &text, "uJ"))
        .transpose()?
        .flatten()
        .filter(|joules| *joules > 0.0);
    let mut state = PowerRow {
        temperature_c: number_of("Temperature (Sensor junction) (C)")
            .or(number_of("Temperature (Sensor edge) (C)")),
        utilization_percent: number_of("GPU use (%)"),
        ..PowerRow::default()
    };
    let mut power: Vec<(&str, bool, Option<f64>)> = Vec::new();
    for (key, source, average) in POWER {
        if let Some(text) = text(key) {
            power.push((source, average, power_cell(&key, &text, "W")?));
        }
    }
    if power.is_empty() && energy_j.is_some() {
        power.push(("accumulated-energy", false, None));
    }
    for (source, average, power_w) in power {
        rows.declare(match average {
            true => Source::average(source, Scope::GpuBoard, None),
            false => Source::instant(source, Scope::GpuBoard),
        });
        let device = format!("gpu{number}");
        rows.push(PowerRow { t_ns, source: source.into(), device, power_w, energy_j, ..state });
        energy_j = None;
        state = PowerRow::default();
    }
    Ok(())
}

impl PowerLog for RocmSmi {
    fn line(&mut self, line: &str, rows: &mut Rows) -> Result<(), Problem> {
        let pieces = self.pieces.line(line)?;
        Piece::each(&pieces, |found| match found {
            Found::Json(json) => self.answer(json, rows),
            Found::Text(text) => match stamp_line(text) {
                Some(stamp) => self.clock.stamp(stamp).map(drop),
                None => Err(format!("\"{text}\" is neither JSON nor a time").into()),
            },
        })
    }

    fn end(&mut self, rows: &mut Rows) -> Result<(), Problem> {
        if !rows.is_empty() && !self.clock.is_stamped() {
            rows.note("the log has no times: they follow from --anchor and --interval and were not measured");
        }
        self.pieces.end()
    }
}

#[cfg(test)]
pub(super) mod tests {
    use wattrace_schema::TimestampNs;

    use super::super::power_log::testing::{Log, read, show};
    use super::*;

    pub(in super::super) const MINIMAL: &str = r#"1736944496.0
{"card0": {"Average Graphics Package Power (W)": "237.0", "Accumulated Energy (uJ)": "5000000.5"}, "card1": {"Average Graphics Package Power (W)": "N/A (Secondary die)"}, "system": {"Driver version": "6.7"}}
1736944497.0
{"card0": {"Average Graphics Package Power (W)": "239.0", "Accumulated Energy (uJ)": "243000000.5"}, "card1": {"Average Graphics Package Power (W)": "N/A (Secondary die)"}}
"#;

    fn log(text: &str) -> Log {
        read(RocmSmi::new(Settings::default()), text).unwrap()
    }

    #[test]
    fn the_second_die_of_a_package_has_no_power_of_its_own() {
        let log = log(MINIMAL);
        insta::assert_snapshot!(show(&log.rows), @"
        0s average-package-power gpu0 237 W 5.0000005 J
        1s average-package-power gpu0 239 W 243.0000005 J
        ");
        assert_eq!(log.findings.accelerators, 1);
        insta::assert_snapshot!(log.findings.notes.join("\n"), @"readings of a secondary die, whose package the first die reports, left out: 2");
    }

    #[test]
    fn current_power_and_wrapped_answers() {
        let text = r#"{"time": "2025-01-15T12:34:56Z", "body": {"card3": {"Current Socket Graphics Package Power (W)": "550.0", "GPU use (%)": "98", "Temperature (Sensor junction) (C)": "61.0"}}}
"#;
        let log = log(text);
        assert_eq!(show(&log.rows), "0s current-socket-power gpu3 550 W");
        assert_eq!(
            (log.rows[0].utilization_percent, log.rows[0].temperature_c),
            (Some(98.0), Some(61.0))
        );
    }

    #[test]
    fn without_times_it_needs_an_anchor_and_an_interval() {
        let text: String = MINIMAL
            .lines()
            .filter(|line| line.starts_with('{'))
            .map(|line| format!("{line}\n"))
            .collect();
        let error = read(RocmSmi::new(Settings::default()), &text).unwrap_err();
        insta::assert_snapshot!(error, @"line 1: rocm-smi without a line of time before each answer has no times; give the time of its first reading (--anchor) and the time between readings (--interval)");
        let anchor = TimestampNs::parse("2025-01-15T12:34:56Z").ok();
        let settings = Settings { anchor, interval_ns: Some(500_000_000), ..Settings::default() };
        let log = read(RocmSmi::new(settings), &text).unwrap();
        assert_eq!(log.rows[1].t_ns - log.rows[0].t_ns, 500_000_000);
    }

    #[test]
    fn broken_answers_say_what_is_wrong() {
        let text = format!(
            "{MINIMAL}ERROR: no device\n{{\"card0\": }}\n{{\"system\": {{}}}}\n1736944498\n{{\"card0\": {{\"Average Graphics Package Power (W)\": \"much\"}}}}\n{{\"card0\": {{"
        );
        insta::assert_snapshot!(log(&text).skipped.join("\n"), @r#"
        line 5: "ERROR: no device" is neither JSON nor a time
        line 6: is not valid JSON: expected value at line 1 column 11
        line 7: is JSON without cards; expected "card0" and the like
        line 9: "Average Graphics Package Power (W)" is "much"; expected a number such as "412.34 W"
        line 10: was cut off
        "#);
    }
}
