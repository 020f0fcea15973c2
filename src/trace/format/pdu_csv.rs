//! CSV logs of power distribution units. Makers' layouts differ, so columns are found by their words:
//!
//! - a time: `timestamp`, `time`, `datetime`, or `date` beside `time`;
//! - power or energy with its unit, in brackets or as the last word: `Active Power (W)`, `energy_kwh`,
//!   `outlet3_power_w`;
//! - the outlet: a column `outlet` (or `pdu`, `socket`, …), or the words that are left in the column of
//!   power.
//!
//! Apparent and reactive power, limits and extremes are not power drawn and are passed over. Energy is
//! taken for a cumulative counter.

use std::borrow::Cow;

use wattrace_schema::Scope;

use super::local_time::LoggedTime;
use super::power_log::{
    self, Columns, PowerLog, Problem, Rows, Settings, Source, Undated, energy_cell, parse_stamp,
    power_cell, split_cells,
};
use super::{Format, Reader};
use crate::PowerRow;

const SOURCE: &str = "pdu";

pub(super) const FORMAT: Format = Format {
    name: "pdu-csv",
    title: "CSV log of a power distribution unit: a time, outlets, power or energy with its unit",
    recovers: "power and energy counters of outlets",
    lacks: "requests, accelerator power; what is plugged into an outlet",
    reader: Reader::Parts {
        detect: |head| head.lines().next().and_then(recognise),
        read: |input, options, sink| {
            power_log::read(input, options, sink, |settings| Box::new(PduCsv::new(settings)))
        },
    },
};

const TIME: [&str; 6] = ["timestamp", "datetime", "date time", "date_time", "date/time", "time"];
const OUTLET: [&str; 9] = [
    "outlet",
    "outlet name",
    "outlet_name",
    "outlet id",
    "outlet_id",
    "outlet number",
    "socket",
    "receptacle",
    "pdu",
];
/// Words that say what is measured, not of what.
const QUANTITY: [&str; 10] = [
    "power",
    "active",
    "real",
    "energy",
    "consumption",
    "usage",
    "reading",
    "value",
    "draw",
    "cumulative",
];
/// Words of columns that are not power drawn.
const OTHER: [&str; 15] = [
    "apparent",
    "reactive",
    "va",
    "kva",
    "var",
    "factor",
    "limit",
    "max",
    "min",
    "peak",
    "rated",
    "capacity",
    "threshold",
    "maximum",
    "minimum",
];
/// Words of an outlet that is a sum of others.
const SUM: [&str; 9] = ["total", "sum", "inlet", "input", "bank", "phase", "all", "unit", "branch"];

/// Says why a first line is the header of such a log.
fn recognise(line: &str) -> Option<String> {
    let columns = Columns::parse(line, separator(line));
    let time = columns.find(&TIME)?;
    let is_pdu = columns.iter().any(|(_, name, _)| {
        words(name).any(|word| {
            word.starts_with("outlet") || matches!(word, "pdu" | "receptacle" | "socket")
        })
    });
    let value = columns.iter().find_map(|(place, ..)| value(&columns, place)?.ok())?;
    is_pdu.then(|| {
        format!(
            "its header has a time (\"{}\"), an outlet, and \"{}\" in {}",
            columns.name(time),
            columns.name(value.place),
            value.unit
        )
    })
}

fn separator(header: &str) -> char {
    let count = |separator: char| header.matches(separator).count();
    [',', ';', '\t']
        .into_iter()
        .fold(',', |best, next| if count(next) > count(best) { next } else { best })
}

fn words(name: &str) -> impl Iterator<Item = &str> {
    name.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty())
}

/// A column of power or energy.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Value {
    place: usize,
    is_energy: bool,
    unit: String,
    /// What the name says besides the quantity: the outlet, or nothing.
    outlet: String,
}

/// What a column measures; `None` if it is neither power nor energy, an error if its unit is not clear.
fn value(columns: &Columns, place: usize) -> Option<Result<Value, String>> {
    let name = columns.name(place);
    let mut left: Vec<&str> = words(name).collect();
    if left.iter().any(|word| OTHER.contains(word)) {
        return None;
    }
    let bracketed = columns.unit(place, "");
    let unit = if bracketed.is_empty() {
        let unit = match *left.last()? {
            "w" | "watt" | "watts" => "W",
            "kw" => "kW",
            "wh" => "Wh",
            "kwh" => "kWh",
            "j" | "joule" | "joules" => "J",
            "kj" => "kJ",
            "mw" | "mj" | "mwh" => {
                return Some(Err(format!(
                    "column \"{name}\" may be in milli- or in mega-units; expected the unit in brackets, such \
                     as \"power (mW)\""
                )));
            }
            _ => return None,
        };
        left.pop();
        unit
    } else {
        bracketed
    };
    let is_energy = super::quantity::energy_j(1.0, unit).is_ok();
    if !is_energy && super::quantity::power_w(1.0, unit).is_err() {
        return None;
    }
    left.retain(|word| !QUANTITY.contains(word));
    Some(Ok(Value { place, is_energy, unit: unit.to_owned(), outlet: left.join("-") }))
}

/// Reads such a log.
#[derive(Debug)]
struct PduCsv {
    settings: Settings,
    header: Option<Header>,
    undated: Undated,
    /// An outlet and a sum, as far as one was seen.
    outlet: Option<String>,
    sum: Option<String>,
}

#[derive(Debug)]
struct Header {
    columns: Columns,
    separator: char,
    /// One column, or date and time.
    time: (usize, Option<usize>),
    outlet: Option<usize>,
    values: Vec<Value>,
}

impl Header {
    fn parse(line: &str, rows: &mut Rows) -> Result<Self, String> {
        let separator = separator(line);
        let columns = Columns::parse(line, separator);
        let time = columns.find(&TIME).ok_or(
            "has no column of time in its first line; expected \"timestamp\", \"time\" or \"datetime\"",
        )?;
        let time = match columns.find(&["date"]) {
            Some(date) if columns.name(time) == "time" => (date, Some(time)),
            _ => (time, None),
        };
        let mut values = Vec::new();
        for (place, ..) in columns.iter() {
            if let Some(value) = value(&columns, place) {
                values.push(value?);
            }
        }
        if values.is_empty() {
            return Err(
                "has no column of power or energy with a unit; expected such as \"power (W)\" or \
                        \"energy_kwh\""
                    .into(),
            );
        }
        let is_sum = |value: &Value| value.outlet.split('-').any(|word| SUM.contains(&word));
        if values.iter().any(|value| !value.outlet.is_empty() && !is_sum(value)) {
            for value in values.iter().filter(|value| is_sum(value)) {
                rows.note(format!(
                    "column \"{}\" adds up other outlets and is left out",
                    columns.name(value.place)
                ));
            }
            values.retain(|value| !is_sum(value));
        }
        Ok(Self { separator, time, outlet: columns.find(&OUTLET), values, columns })
    }
}

impl PduCsv {
    fn new(settings: Settings) -> Self {
        Self {
            undated: Undated::new(settings.clone()),
            settings,
            header: None,
            outlet: None,
            sum: None,
        }
    }

    /// An outlet and the sum of outlets must not stand beside each other.
    fn check_overlap(&mut self, device: &str) -> Result<(), Problem> {
        let is_sum = words(&device.to_lowercase()).any(|word| SUM.contains(&word));
        let slot = if is_sum { &mut self.sum } else { &mut self.outlet };
        if slot.is_none() {
            *slot = Some(device.to_owned());
        }
        match (&self.outlet, &self.sum) {
            (Some(outlet), Some(sum)) => Err(Problem::Stop(format!(
                "\"{sum}\" adds up others, and \"{outlet}\" is one of them; expected rows of the one or of \
                 the others"
            ))),
            _ => Ok(()),
        }
    }

    /// Adds a row, or holds it until the order of its date is known.
    fn place(&mut self, time: &str, row: PowerRow, rows: &mut Rows) -> Result<(), Problem> {
        if let Some(stamp) = parse_stamp(time) {
            let t_ns = self.settings.resolve(stamp)?;
            rows.push(PowerRow { t_ns, ..row });
            return Ok(());
        }
        let logged = LoggedTime::parse(time).ok_or_else(|| {
            format!("the time is \"{time}\"; expected such as \"2025-01-31T12:34:56Z\"")
        })?;
        self.undated.push(logged, false, row, rows)
    }
}

/// The rows of one line: a device each, with its power and its counter.
fn readings(header: &Header, cells: &[Cow<'_, str>]) -> Result<Vec<PowerRow>, String> {
    let mut readings: Vec<PowerRow> = Vec::new();
    for value in &header.values {
        let outlet = header.outlet.map_or("", |place| cells[place].as_ref());
        let device = match (outlet, value.outlet.as_str()) {
            ("", "") => "pdu".to_owned(),
            (outlet, "") => outlet.to_owned(),
            ("", column) => column.to_owned(),
            (outlet, column) => format!("{outlet}-{column}"),
        };
        let place = match readings.iter().position(|row| row.device == device) {
            Some(place) => place,
            None => {
                readings.push(PowerRow { source: SOURCE.into(), device, ..PowerRow::default() });
                readings.len() - 1
            }
        };
        let name = header.columns.name(value.place);
        let cell = &cells[value.place];
        if value.is_energy {
            let energy_j = energy_cell(&name, cell, &value.unit)?;
            readings[place].energy_j = energy_j.filter(|joules| *joules > 0.0);
        } else {
            readings[place].power_w = power_cell(&name, cell, &value.unit)?;
        }
    }
    Ok(readings)
}

impl PowerLog for PduCsv {
    fn line(&mut self, line: &str, rows: &mut Rows) -> Result<(), Problem> {
        let Some(header) = &self.header else {
            let header = Header::parse(line, rows).map_err(Problem::Stop)?;
            if header.values.iter().any(|value| value.is_energy) {
                rows.note("columns of energy are taken for cumulative counters");
            }
            rows.declare(Source::instant(SOURCE, Scope::Pdu));
            self.header = Some(header);
            return Ok(());
        };
        let cells = split_cells(line, header.separator);
        header.columns.check_cells(cells.len())?;
        let time = match header.time {
            (date, Some(time)) => format!("{} {}", cells[date], cells[time]),
            (time, None) => cells[time].to_string(),
        };
        for row in readings(header, &cells)? {
            self.check_overlap(&row.device)?;
            self.place(&time, row, rows)?;
        }
        Ok(())
    }

    fn end(&mut self, rows: &mut Rows) -> Result<(), Problem> {
        self.undated.finish(rows)
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::super::power_log::testing::{Log, read, show, zone};
    use super::*;

    pub(in super::super) const MINIMAL: &str = "\
Timestamp,Outlet,Active Power (W),Apparent Power (VA),Energy (kWh)
2025-01-15T12:34:56Z,A1,812.5,850,100.25
2025-01-15T12:34:56Z,A2,0,0,0
2025-01-15T12:34:57Z,A1,813.0,850,100.25
";

    fn log(text: &str) -> Log {
        read(PduCsv::new(zone("UTC")), text).unwrap()
    }

    #[test]
    fn outlets_have_power_and_counters_in_the_units_of_the_header() {
        let log = log(MINIMAL);
        // 100.25 kWh are 100.25 * 3.6e6 J.
        insta::assert_snapshot!(show(&log.rows), @"
        0s pdu A1 812.5 W 360900000 J
        0s pdu A2 -
        1s pdu A1 813 W 360900000 J
        ");
        assert_eq!(log.findings.sources[0].scope, Scope::Pdu);
        insta::assert_snapshot!(log.findings.notes.join("\n"), @"
        columns of energy are taken for cumulative counters
        readings of 0, which a device that runs does not draw, null: 1
        ");
    }

    #[test]
    fn outlets_may_be_columns_and_totals_stay_out() {
        let log = log(
            "date;time;outlet1_power_kw;outlet2_power_kw;total_power_kw\n15/01/2025;12:34:56;0.5;0.25;0.75\n",
        );
        insta::assert_snapshot!(show(&log.rows), @"
        0s pdu outlet1 500 W
        0s pdu outlet2 250 W
        ");
        insta::assert_snapshot!(log.findings.notes.join("\n"), @r#"
        column "total_power_kw" adds up other outlets and is left out
        dates are day first
        "#);
    }

    #[test]
    fn what_cannot_be_known_is_asked_for() {
        let error = |text: &str| read(PduCsv::new(zone("UTC")), text).unwrap_err();
        insta::assert_snapshot!(error("time,outlet,power_w\n01/05/2025 12:34:56,1,5\n"), @"dates may have the month or the day first; name the order (--date-order month-first or day-first)");
        insta::assert_snapshot!(error("time,outlet,power_mw\n"), @r#"line 1: column "power_mw" may be in milli- or in mega-units; expected the unit in brackets, such as "power (mW)""#);
        insta::assert_snapshot!(error("time,outlet,power\n"), @r#"line 1: has no column of power or energy with a unit; expected such as "power (W)" or "energy_kwh""#);
        insta::assert_snapshot!(error("outlet,power_w\n"), @r#"line 1: has no column of time in its first line; expected "timestamp", "time" or "datetime""#);
        insta::assert_snapshot!(error("time,outlet,power_w\n2025-01-15T12:34:56Z,Total,5\n2025-01-15T12:34:56Z,A1,5\n"), @r#"line 3: "Total" adds up others, and "A1" is one of them; expected rows of the one or of the others"#);
        let error =
            read(PduCsv::new(Settings::default()), "time,pdu,watts\n2025-01-15 12:34:56,1,5\n")
                .unwrap_err();
        assert!(error.contains("name the zone of the log (--tz)"), "{error}");
    }

    #[test]
    fn broken_lines_say_what_is_wrong() {
        let text = format!(
            "{MINIMAL}noon,A1,5,5,5\n2025-01-15T12:34:58Z,A1,5\n2025-01-15T12:34:58Z,A1,\"812,5\",5,5\n2025-01-15T12:34:59Z,A1,812.5,850,10"
        );
        insta::assert_snapshot!(log(&text).skipped.join("\n"), @r#"
        line 5: the time is "noon"; expected such as "2025-01-31T12:34:56Z"
        line 6: has 3 cells; expected 5 as in the header
        line 7: "active power" is "812,5"; expected a number such as "412.34 W"
        line 8: was cut off
        "#);
    }
}
