//! `spl.txt`: the samples of PTDaemon, about one a second.
//!
//! A line is pairs of name and value: `Time`, `Watts`, `Volts`, `Amps`, `PF`, `Mark`; an analyser with
//! several channels repeats the electrical ones after `Ch1`, `Ch2`, ….

use std::path::Path;

use jiff::civil::DateTime;

use super::super::Skipped;
use super::super::lines::Lines;
use super::super::local_time::{DateOrder, LoggedTime};
use crate::TraceError;

/// One line.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Sample<'a> {
    pub(super) time: LoggedTime,
    /// Total power as it stands in the log.
    pub(super) watts: f64,
    /// Power of each channel.
    pub(super) channels: Vec<f64>,
    /// Session that the sample belongs to.
    pub(super) mark: Option<&'a str>,
}

impl Sample<'_> {
    /// The power, unless the reading is not one: PTDaemon writes -1 for a sample that it could not
    /// take, and a running server does not draw zero. MLPerf's own checker leaves both out.
    pub(super) fn valid_watts(&self) -> Option<f64> {
        Some(self.watts).filter(|watts| watts.is_finite() && *watts > 0.0)
    }

    /// Whether the channels, all valid, add up to another power: by more than their rounding and 0.1 %.
    pub(super) fn channels_disagree(&self) -> bool {
        let valid = self.channels.iter().all(|watts| watts.is_finite() && *watts >= 0.0);
        let sum: f64 = self.channels.iter().sum();
        let tolerance = (0.001 * self.watts).max(0.5);
        !self.channels.is_empty() && valid && (sum - self.watts).abs() > tolerance
    }
}

/// Reads one line.
///
/// # Errors
/// What is wrong with it.
pub(super) fn parse_line(line: &str) -> Result<Sample<'_>, String> {
    let mut cells = line.split(',').map(str::trim);
    if cells.next() != Some("Time") {
        return Err("does not start with \"Time,\"; expected a PTDaemon sample".into());
    }
    let time = cells.next().unwrap_or_default();
    let time = LoggedTime::parse(time).ok_or_else(|| {
        format!("\"Time\" is \"{time}\"; expected a time such as \"01-31-2025 12:34:56.789\"")
    })?;
    let (mut watts, mut channels, mut mark) = (None, Vec::new(), None);
    while let Some(name) = cells.next() {
        if is_channel(name) {
            continue;
        }
        let value =
            cells.next().ok_or_else(|| format!("ends after \"{name}\", without a value"))?;
        match name {
            "Watts" => {
                let number = value
                    .parse::<f64>()
                    .map_err(|_| format!("\"Watts\" is \"{value}\"; expected a number"))?;
                if watts.is_none() { watts = Some(number) } else { channels.push(number) }
            }
            "Mark" => mark = Some(value).filter(|mark| !mark.is_empty()),
            _ => {}
        }
    }
    let watts = watts.ok_or("has no \"Watts\"; expected the power of the sample")?;
    Ok(Sample { time, watts, channels, mark })
}

fn is_channel(name: &str) -> bool {
    name.strip_prefix("Ch").is_some_and(|number| {
        !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit())
    })
}

/// Reads a last line that has no end. A number that was cut off still looks like one, so the line must
/// have the cells of the one before it, and not stop in the power.
fn parse_last_line(line: &str, cells_before: usize) -> Result<Sample<'_>, String> {
    let cells = count_cells(line);
    if cells != cells_before {
        return Err(format!("it has {cells} cells, the sample before it {cells_before}"));
    }
    if line.rsplit(',').nth(1).is_some_and(|name| name.trim() == "Watts") {
        return Err("its last number may lack digits".into());
    }
    parse_line(line)
}

fn count_cells(line: &str) -> usize {
    line.split(',').count()
}

/// What was read and left out of a file.
#[derive(Debug, Default)]
pub(super) struct Tally {
    /// Samples of the session.
    pub(super) kept: u64,
    /// Samples of the ranging run before it.
    pub(super) ranging: u64,
    /// Samples of other sessions.
    pub(super) other: u64,
    /// Kept samples without a mark.
    pub(super) unmarked: u64,
    pub(super) skipped: Skipped,
}

/// Calls `visit` with every sample of one session and its line. The session is that of `mark`, or else
/// of the first mark that is no ranging run's, which is then put there.
///
/// # Errors
/// When the file cannot be read, holds two sessions and `mark` did not say which, or, if `strict`, when
/// a line is no sample; and whatever `visit` returns.
pub(super) fn each_sample(
    path: &Path,
    strict: bool,
    mark: &mut Option<String>,
    mut visit: impl FnMut(&Sample<'_>, u64) -> Result<(), TraceError>,
) -> Result<Tally, TraceError> {
    let mut tally = Tally::default();
    let known = mark.is_some();
    let mut cells = 0;
    let mut lines = Lines::open(path)?;
    while let Some(line) = lines.next_line()? {
        if line.text.is_ok_and(|text| text.trim().is_empty()) {
            continue;
        }
        let parsed = line.text.map_err(str::to_owned).and_then(|text| {
            if line.ended {
                parse_line(text)
            } else {
                parse_last_line(text, cells).map_err(|cause| format!("was cut off: {cause}"))
            }
        });
        let sample = match parsed {
            Ok(sample) => sample,
            Err(message) => {
                tally.skipped.add(strict, path, line.number, "lines", message)?;
                continue;
            }
        };
        cells = line.text.map_or(cells, count_cells);
        match (sample.mark, mark.as_deref()) {
            (Some(found), _) if found.ends_with("_ranging") => {
                tally.ranging += 1;
                continue;
            }
            (Some(found), Some(expected)) if found != expected && known => {
                tally.other += 1;
                continue;
            }
            (Some(found), Some(expected)) if found != expected => {
                return Err(TraceError::Format {
                    path: path.to_owned(),
                    line: Some(line.number),
                    message: format!(
                        "\"Mark\" is \"{found}\" after \"{expected}\"; expected one session, or the \
                         client.json or server.json that says which"
                    ),
                });
            }
            (Some(found), None) => *mark = Some(found.to_owned()),
            (Some(_), Some(_)) => {}
            (None, _) => tally.unmarked += 1,
        }
        tally.kept += 1;
        visit(&sample, line.number)?;
    }
    Ok(tally)
}

/// Dates of a file read in one order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct DateReading {
    pub(super) order: DateOrder,
    /// Earliest and latest time.
    pub(super) span: (DateTime, DateTime),
    /// Samples that are earlier than the one before.
    pub(super) backward: u64,
    last: DateTime,
}

/// What a file says of its own clock, in each order in which all its dates exist.
#[derive(Debug, Default)]
pub(super) struct Survey {
    started: bool,
    readings: Vec<DateReading>,
}

impl Survey {
    pub(super) fn add(&mut self, time: LoggedTime) {
        if !self.started {
            self.started = true;
            self.readings = DateOrder::BOTH
                .into_iter()
                .filter_map(|order| {
                    let at = time.date_time(order)?;
                    Some(DateReading { order, span: (at, at), backward: 0, last: at })
                })
                .collect();
        }
        self.readings.retain_mut(|reading| {
            let Some(at) = time.date_time(reading.order) else { return false };
            reading.backward += u64::from(at < reading.last);
            reading.span = (reading.span.0.min(at), reading.span.1.max(at));
            reading.last = at;
            true
        });
    }

    /// The orders in which time runs backwards least, month first before day first, as PTDaemon writes.
    pub(super) fn readings(&self) -> Vec<DateReading> {
        let least = self.readings.iter().map(|reading| reading.backward).min();
        self.readings.iter().filter(|reading| Some(reading.backward) == least).copied().collect()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const LINE: &str = "Time,01-15-2025 12:34:56.789,Watts,1234.5,Volts,230.1,Amps,5.6,PF,0.958,Mark,\
                        2025-01-15_12-00-00_testing,Ch1,Watts,600.2,Volts,230.1,Amps,2.8,PF,0.958,Ch2,\
                        Watts,634.3,Volts,230.1,Amps,2.8,PF,0.958";

    #[test]
    fn a_sample_has_a_total_and_channels() {
        let sample = parse_line(LINE).unwrap();
        assert_eq!(sample.watts, 1234.5);
        assert_eq!(sample.channels, [600.2, 634.3]);
        assert_eq!(sample.mark, Some("2025-01-15_12-00-00_testing"));
        assert!(!sample.channels_disagree());
        let off = LINE.replace("634.3", "636.1");
        assert!(parse_line(&off).unwrap().channels_disagree(), "1.8 W is over 0.1 % of 1234.5 W");
        let invalid = LINE.replace("634.3", "-1.0");
        assert!(!parse_line(&invalid).unwrap().channels_disagree());
    }

    #[test]
    fn readings_that_are_none_are_absent() {
        let watts = |text| {
            let line = format!("Time,01-15-2025 12:34:56.789,Watts,{text}");
            parse_line(&line).unwrap().valid_watts()
        };
        assert_eq!(watts("17.25"), Some(17.25));
        for text in ["-1.000000", "0.000000", "NaN", "inf"] {
            assert_eq!(watts(text), None, "{text}");
        }
    }

    #[test]
    fn a_last_line_without_an_end_must_be_whole() {
        let cells = count_cells(LINE);
        assert!(parse_last_line(LINE, cells).is_ok());
        let message = |line: &str, cells| parse_last_line(line, cells).unwrap_err();
        let cut = &LINE[..LINE.find("1234.5").unwrap() + 2];
        assert_eq!(parse_line(cut).unwrap().watts, 12.0, "why a cut line must not be trusted");
        assert_eq!(message(cut, cells), "it has 4 cells, the sample before it 30");
        assert_eq!(message(cut, 4), "its last number may lack digits");
    }

    #[test]
    fn broken_lines_say_what_is_wrong() {
        let message = |line| parse_line(line).unwrap_err();
        insta::assert_snapshot!(message("Watts,3"), @r#"does not start with "Time,"; expected a PTDaemon sample"#);
        insta::assert_snapshot!(message("Time"), @r#""Time" is ""; expected a time such as "01-31-2025 12:34:56.789""#);
        insta::assert_snapshot!(message("Time,2025-01-15 12:00:00,Watts,1"), @r#""Time" is "2025-01-15 12:00:00"; expected a time such as "01-31-2025 12:34:56.789""#);
        insta::assert_snapshot!(message("Time,01-15-2025 12:00:00,Watts,much"), @r#""Watts" is "much"; expected a number"#);
        insta::assert_snapshot!(message("Time,01-15-2025 12:00:00,Volts,230"), @r#"has no "Watts"; expected the power of the sample"#);
        insta::assert_snapshot!(message("Time,01-15-2025 12:00:00,Watts,1,Vol"), @r#"ends after "Vol", without a value"#);
    }

    fn readings(dates: &[&str]) -> Vec<(DateOrder, u64)> {
        let mut survey = Survey::default();
        for date in dates {
            survey.add(LoggedTime::parse(date).unwrap());
        }
        survey.readings().iter().map(|reading| (reading.order, reading.backward)).collect()
    }

    #[test]
    fn the_order_of_a_date_follows_from_what_exists_and_what_runs_forwards() {
        use DateOrder::{DayFirst, MonthFirst};
        assert_eq!(readings(&["07-17-2024 09:00:00"]), [(MonthFirst, 0)]);
        assert_eq!(readings(&["17-07-2024 09:00:00"]), [(DayFirst, 0)]);
        assert_eq!(readings(&["07-08-2024 09:00:00"]), [(MonthFirst, 0), (DayFirst, 0)]);
        // The night of 31 July: 01-08 is 1 August, day first, not 8 January.
        assert_eq!(readings(&["05-07-2024 23:59:59", "06-07-2024 00:00:00"]).len(), 2);
        assert_eq!(readings(&["31-07-2024 23:59:59", "01-08-2024 00:00:00"]), [(DayFirst, 0)]);
        // 12 January to 1 February in one order, 1 December to 2 January in the other.
        assert_eq!(readings(&["01-12-2024 23:59:59", "02-01-2024 00:00:00"]), [(MonthFirst, 0)]);
        assert_eq!(readings(&["07-17-2024 09:00:00", "17-07-2024 09:00:00"]), []);
        assert_eq!(readings(&[]), []);
    }

    proptest! {
        #[test]
        fn mutated_lines_never_panic(place in 0..LINE.len(), with in "\\PC{0,3}", cut in 0..LINE.len()) {
            let mut line = LINE.to_owned();
            line.replace_range(place..=place, &with);
            if let Ok(sample) = parse_line(&line) {
                prop_assert!(sample.valid_watts().is_none_or(|watts| watts > 0.0));
                sample.channels_disagree();
            }
            let _ = parse_line(&LINE[..cut]);
        }
    }
}
