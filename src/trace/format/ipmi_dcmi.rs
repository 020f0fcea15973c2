//! Polls of `ipmitool dcmi power reading`, one block of lines a reading, and of the older sensor row
//! `Pwr Consumption | 76h | ok | 7.1 | 532 Watts`.
//!
//! A line that holds nothing but a time before each block is the host's stamp; without one the BMC's own
//! `IPMI timestamp` is taken, which has no zone that can be relied on and may stand at 1970. Minimum,
//! maximum and average are of the BMC's own period, never of the run.

use jiff::civil::DateTime;
use wattrace_schema::Scope;

use super::local_time::LoggedTime;
use super::power_log::{
    self, PollClock, PowerLog, Problem, Rows, Settings, Source, Stamp, Undated, power_cell,
    stamp_line,
};
use super::{Format, Reader};
use crate::PowerRow;

const SOURCE: &str = "ipmi-dcmi";
const INSTANTANEOUS: &str = "Instantaneous power reading";
const STATE: &str = "Power reading state is";
const TIMESTAMP: &str = "IPMI timestamp";
const SENSOR: &str = "Pwr Consumption";

pub(super) const FORMAT: Format = Format {
    name: SOURCE,
    title: "ipmitool dcmi power reading, polled (also rows of the sensor Pwr Consumption)",
    recovers: "node power, instantaneous",
    lacks: "requests, accelerator power; the times of readings unless a line with a time is before each",
    reader: Reader::Parts {
        detect: |head| recognise(head.text()),
        read: |input, options, sink| {
            power_log::read(input, options, sink, |settings| Box::new(IpmiDcmi::new(settings)))
        },
    },
};

/// Says why a text is such a log.
fn recognise(text: &str) -> Option<String> {
    let starts = |name: &'static str| text.lines().any(|line| line.trim_start().starts_with(name));
    [INSTANTANEOUS, SENSOR]
        .into_iter()
        .find(|name| starts(name))
        .map(|name| format!("a line begins with \"{name}\""))
}

/// Reads such a log.
#[derive(Debug)]
struct IpmiDcmi {
    clock: PollClock,
    block: Option<Block>,
    undated: Undated,
    deactivated: u64,
}

/// A reading whose lines are not all there yet.
#[derive(Debug, Default)]
struct Block {
    power_w: Option<f64>,
    host_ns: Option<i64>,
    bmc: Option<String>,
}

/// A time of the BMC.
#[derive(Debug, PartialEq)]
enum BmcTime {
    Plain(DateTime),
    /// Month or day first.
    Numbers(LoggedTime),
}

impl IpmiDcmi {
    fn new(settings: Settings) -> Self {
        Self {
            undated: Undated::new(settings.clone()),
            clock: PollClock::new(settings, "a sensor row without a line of time before it"),
            block: None,
            deactivated: 0,
        }
    }

    /// The stamp of the line before, if there was one.
    fn host_ns(&mut self) -> Result<Option<i64>, Problem> {
        if self.clock.is_stamped() { self.clock.answer().map(Some) } else { Ok(None) }
    }

    fn add(&mut self, block: Block, rows: &mut Rows) -> Result<(), Problem> {
        rows.declare(Source::instant(SOURCE, Scope::Node));
        let row = PowerRow {
            source: SOURCE.into(),
            device: "node".into(),
            power_w: block.power_w,
            ..PowerRow::default()
        };
        if let Some(t_ns) = block.host_ns {
            rows.push(PowerRow { t_ns, ..row });
            return Ok(());
        }
        let text =
            block.bmc.ok_or("has no \"IPMI timestamp\", and no line with a time before it")?;
        let (time, is_utc) = bmc_time(&text).ok_or_else(|| {
            format!(
                "\"IPMI timestamp\" is \"{text}\"; expected such as \"Wed Jan 15 12:34:56 2025\" or \
                 \"01/15/2025 12:34:56 UTC\""
            )
        })?;
        if time.year() < 2000 {
            return Err(Problem::Stop(format!(
                "\"IPMI timestamp\" is \"{text}\": the BMC's clock was not set; expected a line with the \
                 host's time before each reading"
            )));
        }
        rows.note("times are those of the BMC's own clock, in whole seconds");
        match time {
            BmcTime::Plain(local) if is_utc => {
                let utc = jiff::tz::TimeZone::UTC;
                let t_ns = super::local_time::to_timestamp(&utc, local)?.nanos();
                rows.push(PowerRow { t_ns, ..row });
            }
            BmcTime::Plain(local) => {
                let t_ns = self.clock.settings().resolve(Stamp::Local(local))?;
                rows.push(PowerRow { t_ns, ..row });
            }
            BmcTime::Numbers(time) => self.undated.push(time, is_utc, row, rows)?,
        }
        Ok(())
    }

    fn sensor(&mut self, line: &str, rows: &mut Rows) -> Result<(), Problem> {
        let cells: Vec<&str> = line.split('|').map(str::trim).collect();
        let host_ns = Some(self.clock.answer()?);
        let reading = cells.last().copied().unwrap_or_default();
        if !cells.contains(&"ok") {
            return Err(format!("the sensor's state is not \"ok\": \"{}\"", line.trim()).into());
        }
        let power_w = power_cell(&SENSOR, reading, "Watts")?;
        self.add(Block { power_w, host_ns, bmc: None }, rows)
    }
}

impl BmcTime {
    fn year(&self) -> i16 {
        match self {
            Self::Plain(local) => local.year(),
            Self::Numbers(time) => time.year(),
        }
    }
}

/// Reads a time of the BMC, and whether it says that it is UTC. Other names of zones, such as EST, are
/// not unique: the zone is asked for.
fn bmc_time(text: &str) -> Option<(BmcTime, bool)> {
    let mut words: Vec<&str> = text.split_whitespace().collect();
    let is_zone = |word: &str| {
        (3..=5).contains(&word.len()) && word.bytes().all(|byte| byte.is_ascii_uppercase())
    };
    let zone = words.last().copied().filter(|word| is_zone(word));
    if zone.is_some() {
        words.pop();
    }
    let is_utc = matches!(zone, Some("UTC" | "GMT"));
    let time = match words.as_slice() {
        [_weekday, month, day, time, year] => {
            let month = month_number(month)?;
            let iso = format!("{year}-{month:02}-{day:0>2}T{time}");
            BmcTime::Plain(iso.parse().ok()?)
        }
        [date, time] => BmcTime::Numbers(LoggedTime::parse(&format!("{date} {time}"))?),
        [date, time, half] => {
            let (hour, rest) = time.split_once(':')?;
            let hour: u8 = hour.parse().ok().filter(|hour| (1..=12).contains(hour))?;
            let hour = match *half {
                "AM" => hour % 12,
                "PM" => hour % 12 + 12,
                _ => return None,
            };
            BmcTime::Numbers(LoggedTime::parse(&format!("{date} {hour}:{rest}"))?)
        }
        _ => return None,
    };
    Some((time, is_utc))
}

fn month_number(name: &str) -> Option<usize> {
    const MONTHS: [&str; 12] =
        ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    MONTHS.iter().position(|month| *month == name).map(|place| place + 1)
}

/// What follows `name:` in a line, if it begins so.
fn value<'a>(line: &'a str, name: &str) -> Option<&'a str> {
    line.trim_start().strip_prefix(name)?.trim_start().strip_prefix(':').map(str::trim)
}

impl PowerLog for IpmiDcmi {
    fn line(&mut self, line: &str, rows: &mut Rows) -> Result<(), Problem> {
        if let Some(stamp) = stamp_line(line) {
            return self.clock.stamp(stamp).map(drop);
        }
        if let Some(reading) = value(line, INSTANTANEOUS) {
            let unfinished = self.block.take();
            let host_ns = self.host_ns()?;
            let power_w = power_cell(&INSTANTANEOUS, reading, "Watts")?;
            self.block = Some(Block { power_w, host_ns, bmc: None });
            return match unfinished {
                None => Ok(()),
                Some(_) => Err(format!("the reading before it has no \"{STATE}\"").into()),
            };
        }
        if let Some(time) = value(line, TIMESTAMP) {
            let time = time.split("Sampling period").next().unwrap_or(time).trim();
            if let Some(block) = &mut self.block {
                block.bmc = Some(time.to_owned());
            }
            return Ok(());
        }
        if let Some(state) = value(line, STATE) {
            let Some(block) = self.block.take() else { return Ok(()) };
            return match state {
                "activated" => self.add(block, rows),
                "deactivated" => {
                    self.deactivated += 1;
                    Ok(())
                }
                other => Err(format!("\"{STATE}\" is \"{other}\"; expected \"activated\"").into()),
            };
        }
        if line.trim_start().starts_with(SENSOR) {
            return self.sensor(line, rows);
        }
        let known =
            ["Minimum during", "Maximum during", "Average power reading", "Sampling period"];
        match known.iter().any(|name| line.trim_start().starts_with(name)) {
            true => Ok(()),
            false => {
                Err(format!("\"{}\" is no line of a reading", line.trim().escape_debug()).into())
            }
        }
    }

    fn end(&mut self, rows: &mut Rows) -> Result<(), Problem> {
        self.undated.finish(rows)?;
        if self.deactivated > 0 {
            rows.note(format!(
                "readings in state \"deactivated\", which may be stale, left out: {}",
                self.deactivated
            ));
        }
        match self.block.take() {
            None => Ok(()),
            Some(_) => Err(format!("the last reading was cut off before its \"{STATE}\"").into()),
        }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::super::DateOrder;
    use super::super::power_log::testing::{Log, read, show, zone};
    use super::*;

    pub(in super::super) const MINIMAL: &str = "\
2025-01-15T12:34:56Z

    Instantaneous power reading:                  1500 Watts
    Minimum during sampling period:                300 Watts
    Maximum during sampling period:               1900 Watts
    Average power reading over sample period:      400 Watts
    IPMI timestamp:                           Thu Jan  1 00:00:10 1970
    Sampling period:                          00000005 Seconds.
    Power reading state is:                   activated

2025-01-15T12:34:57Z

    Instantaneous power reading:                     0 Watts
    IPMI timestamp:                           01/15/2025 12:34:57 PM EST    Sampling period:          00000005 Seconds.
    Power reading state is:                   activated

2025-01-15T12:34:58Z

    Instantaneous power reading:                  1490 Watts
    IPMI timestamp:                           Thu Jan  1 00:00:12 1970
    Power reading state is:                   deactivated
";

    fn block(watts: u32, time: &str) -> String {
        format!(
            "Instantaneous power reading: {watts} Watts\nIPMI timestamp: {time}\nPower reading state is: activated\n"
        )
    }

    fn log(text: &str) -> Log {
        read(IpmiDcmi::new(zone("UTC")), text).unwrap()
    }

    #[test]
    fn stale_readings_are_dropped_and_zero_is_absent() {
        let log = log(MINIMAL);
        insta::assert_snapshot!(show(&log.rows), @"
        0s ipmi-dcmi node 1500 W
        1s ipmi-dcmi node -
        ");
        insta::assert_snapshot!(log.findings.notes.join("\n"), @r#"
        readings in state "deactivated", which may be stale, left out: 1
        readings of 0, which a device that runs does not draw, null: 1
        "#);
        assert!(log.skipped.is_empty(), "{:?}", log.skipped);
    }

    #[test]
    fn the_clock_of_the_bmc_is_read_in_all_its_shapes() {
        let text = [
            block(1, "Wed Jan 15 12:34:56 2025"),
            block(2, "01/15/2025 12:34:57 UTC"),
            block(3, "01/15/2025 12:34:58 PM EST    Sampling period: 5000 Milliseconds"),
            block(4, "01/15/2025 12:34:59 AM"),
        ]
        .concat();
        insta::assert_snapshot!(show(&log(&text).rows), @"
        0s ipmi-dcmi node 1 W
        1s ipmi-dcmi node 2 W
        2s ipmi-dcmi node 3 W
        -43197s ipmi-dcmi node 4 W
        ");
        let new_york = read(IpmiDcmi::new(zone("America/New_York")), &text).unwrap();
        // UTC stays; what has no zone, or one whose name is not unique, is five hours later.
        insta::assert_snapshot!(show(&new_york.rows[..3]), @"
        18000s ipmi-dcmi node 1 W
        1s ipmi-dcmi node 2 W
        18002s ipmi-dcmi node 3 W
        ");
    }

    #[test]
    fn what_cannot_be_known_is_asked_for() {
        let error = |text: &str, settings| read(IpmiDcmi::new(settings), text).unwrap_err();
        insta::assert_snapshot!(error(&block(1, "Thu Jan  1 00:00:10 1970"), zone("UTC")), @r#"line 3: "IPMI timestamp" is "Thu Jan  1 00:00:10 1970": the BMC's clock was not set; expected a line with the host's time before each reading"#);
        insta::assert_snapshot!(error(&block(1, "Wed Jan 15 12:34:56 2025"), Settings::default()), @r#"line 3: the time 2025-01-15T12:34:56 has no zone; name the zone of the log (--tz), such as "America/Los_Angeles" or "UTC""#);
        let ambiguous = block(1, "01/05/2025 12:34:56");
        insta::assert_snapshot!(error(&ambiguous, zone("UTC")), @"dates may have the month or the day first; name the order (--date-order month-first or day-first)");
        let settings = Settings { date_order: Some(DateOrder::DayFirst), ..zone("UTC") };
        let log = read(IpmiDcmi::new(settings), &ambiguous).unwrap();
        assert_eq!(
            wattrace_schema::TimestampNs::from_nanos(log.rows[0].t_ns).to_string(),
            "2025-05-01T12:34:56Z"
        );
    }

    #[test]
    fn sensor_rows_need_a_line_of_time() {
        let text = "2025-01-15T12:34:56Z\nPwr Consumption  | 76h | ok  |  7.1 | 532 Watts\n2025-01-15T12:34:57Z\nPwr Consumption  | 76h | ns  |  7.1 | No Reading\n";
        let log = log(text);
        assert_eq!(show(&log.rows), "0s ipmi-dcmi node 532 W");
        insta::assert_snapshot!(log.skipped.join("\n"), @r#"line 4: the sensor's state is not "ok": "Pwr Consumption  | 76h | ns  |  7.1 | No Reading""#);
    }

    #[test]
    fn broken_lines_say_what_is_wrong() {
        let text = [
            MINIMAL,
            "Error: no response\n",
            "2025-01-15T12:34:59Z\nInstantaneous power reading: many Watts\n",
            "2025-01-15T12:35:00Z\nInstantaneous power reading: 5 Watts\n",
            "2025-01-15T12:35:01Z\nInstantaneous power reading: 5 Watts\nPower reading state is: odd\n",
            "Instantaneous power reading: 5 Watts\n",
            "2025-01-15T12:35:02Z\nInstantaneous power reading: 5 Watts\n",
        ]
        .concat();
        insta::assert_snapshot!(log(&text).skipped.join("\n"), @r#"
        line 22: "Error: no response" is no line of a reading
        line 24: "Instantaneous power reading" is "many Watts"; expected a number such as "412.34 W"
        line 28: the reading before it has no "Power reading state is"
        line 29: "Power reading state is" is "odd"; expected "activated"
        line 30: has no time of its own; expected a line with one before each answer
        the last reading was cut off before its "Power reading state is"
        "#);
    }
}
