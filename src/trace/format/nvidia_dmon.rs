//! `nvidia-smi dmon`: a table of device statistics in columns that depend on `-s` and on the driver.
//!
//! Two header lines, repeated now and then, give names and units; `-` is a missing value. Rows have a
//! date and a time only with `-o DT`.

use jiff::civil::{Date, DateTime, Time};
use wattrace_schema::Scope;

use super::nvidia_smi::{AVERAGE_MS, settle_power_draw};
use super::power_log::{
    self, PowerLog, Problem, Rows, Settings, Source, Stamp, clock_cell, number_cell, power_cell,
};
use super::{Format, Reader, quantity};
use crate::PowerRow;

const SOURCE: &str = "dmon";

pub(super) const FORMAT: Format = Format {
    name: "nvidia-dmon",
    title: "nvidia-smi dmon",
    recovers: "board power in whole watts, clocks, temperature, memory",
    lacks: "requests, energy counters; times without -o DT (--anchor, --interval) and their zone (--tz)",
    reader: Reader::Parts {
        detect: |head| head.lines().next().and_then(recognise),
        read: |input, options, sink| {
            power_log::read(input, options, sink, |settings| Box::new(NvidiaDmon::new(settings)))
        },
    },
};

/// Says why a first line is the header of such a log.
fn recognise(line: &str) -> Option<String> {
    let names = header_cells(line)?;
    let has = |name: &str| names.iter().any(|cell| cell == name);
    (has("gpu") && has("pwr")).then(|| {
        "its first line begins with \"#\" and names the columns \"gpu\" and \"pwr\"".into()
    })
}

/// Cells of a header line, in lower case; `None` if it is none.
fn header_cells(line: &str) -> Option<Vec<String>> {
    let text = line.trim_start().strip_prefix('#')?;
    Some(text.split_whitespace().map(str::to_lowercase).collect())
}

/// Reads such a log.
#[derive(Debug)]
pub(super) struct NvidiaDmon {
    settings: Settings,
    names: Vec<String>,
    power_unit: String,
    clock: Clock,
}

/// What was seen of the times so far.
#[derive(Debug, Default)]
struct Clock {
    /// Number of the tick in a log without times, and the board of its last row.
    tick: i64,
    last_gpu: Option<u16>,
    /// Date of the last row, in a log with times of day only.
    date: Option<(Date, Time)>,
}

impl NvidiaDmon {
    pub(super) fn new(settings: Settings) -> Self {
        Self { settings, names: Vec::new(), power_unit: "W".into(), clock: Clock::default() }
    }

    fn header(&mut self, line: &str, cells: Vec<String>, rows: &mut Rows) -> Result<(), Problem> {
        if cells.iter().any(|cell| cell == "gpu") {
            if !cells.iter().any(|cell| cell == "pwr") {
                return Err(Problem::Stop(
                    "has no column \"pwr\"; expected the power of each board (dmon -s p)".into(),
                ));
            }
            self.names = cells;
            rows.declare(Source::average(SOURCE, Scope::GpuBoard, Some(AVERAGE_MS)));
            return Ok(());
        }
        // The second line of a header holds the units, as they stand.
        let units: Vec<&str> =
            line.trim_start().trim_start_matches('#').split_whitespace().collect();
        if units.len() == self.names.len()
            && let Some(place) = self.place("pwr")
        {
            self.power_unit = units[place].to_owned();
        }
        Ok(())
    }

    fn place(&self, name: &str) -> Option<usize> {
        self.names.iter().position(|cell| cell == name)
    }

    fn time(&mut self, cells: &[&str], gpu: u16) -> Result<i64, Problem> {
        let cell = |name: &str| self.place(name).map(|place| cells[place]);
        match (cell("date"), cell("time")) {
            (Some(date), Some(time)) => {
                let local = dated(date, time).ok_or_else(|| {
                    format!("\"{date} {time}\" is no time; expected \"20250131 12:34:56\"")
                })?;
                self.settings.resolve(Stamp::Local(local))
            }
            (None, Some(time)) => {
                let time = time_of_day(time)
                    .ok_or_else(|| format!("\"Time\" is \"{time}\"; expected \"12:34:56\""))?;
                let local = self.clock.on_its_date(time, &self.settings)?;
                self.settings.resolve(Stamp::Local(local))
            }
            _ => {
                let tick = self.clock.tick_of(gpu);
                self.settings.tick(tick, "nvidia-smi dmon without \"-o DT\"")
            }
        }
    }
}

impl Clock {
    /// A board that comes again, or a smaller number, begins the next tick.
    fn tick_of(&mut self, gpu: u16) -> i64 {
        if self.last_gpu.is_some_and(|last| gpu <= last) {
            self.tick += 1;
        }
        self.last_gpu = Some(gpu);
        self.tick
    }

    /// The date of a time of day: that of the anchor, and the next one where the clock falls back by more
    /// than half a day.
    fn on_its_date(&mut self, time: Time, settings: &Settings) -> Result<DateTime, Problem> {
        let date = match self.date {
            Some((date, last)) => {
                let back_s = last.duration_since(time).as_secs();
                if back_s > 12 * 3600 { date.tomorrow().ok() } else { Some(date) }
            }
            None => {
                let (Some(anchor), Some(zone)) = (settings.anchor, &settings.zone) else {
                    return Err(Problem::Stop(
                        "has times of day without dates (dmon -o T); give the date as a time on that day \
                         (--anchor) and the zone of the log (--tz)"
                            .into(),
                    ));
                };
                zone.local(anchor.nanos()).map(DateTime::date)
            }
        };
        let date = date.ok_or_else(|| Problem::Stop("its dates leave the calendar".into()))?;
        self.date = Some((date, time));
        Ok(date.to_datetime(time))
    }
}

fn dated(date: &str, time: &str) -> Option<DateTime> {
    let digits = date.len() == 8 && date.bytes().all(|byte| byte.is_ascii_digit());
    let date: Date = if digits { date.parse().ok()? } else { return None };
    Some(date.to_datetime(time_of_day(time)?))
}

fn time_of_day(text: &str) -> Option<Time> {
    let shaped =
        text.len() >= 8 && text.bytes().all(|byte| byte.is_ascii_digit() || b":.".contains(&byte));
    text.parse().ok().filter(|_| shaped)
}

impl PowerLog for NvidiaDmon {
    fn line(&mut self, line: &str, rows: &mut Rows) -> Result<(), Problem> {
        if let Some(cells) = header_cells(line) {
            return self.header(line, cells, rows);
        }
        let cells: Vec<&str> = line.split_whitespace().collect();
        if self.names.is_empty() {
            return Err(Problem::Stop(
                "has no header in its first line; expected \"# gpu pwr …\" as nvidia-smi dmon writes".into(),
            ));
        }
        if cells.len() != self.names.len() {
            let expected = self.names.len();
            return Err(format!(
                "has {} values; expected {expected} as in the header",
                cells.len()
            )
            .into());
        }
        let cell = |name: &str| self.place(name).map(|place| cells[place]);
        let gpu = cell("gpu").unwrap_or_default();
        let gpu: u16 = gpu
            .parse()
            .map_err(|_| format!("\"gpu\" is \"{gpu}\"; expected the number of a board"))?;
        let power_w = power_cell(&"pwr", cell("pwr").unwrap_or_default(), &self.power_unit)?;
        let number = |name: &str| cell(name).and_then(number_cell);
        let mut row = PowerRow {
            source: SOURCE.into(),
            device: format!("gpu{gpu}"),
            power_w,
            temperature_c: number("gtemp").or(number("temp")).map(|value| value as f32),
            sm_clock_mhz: cell("pclk").and_then(clock_cell),
            mem_clock_mhz: cell("mclk").and_then(clock_cell),
            // The column says MB and counts 2^20 bytes.
            memory_used_bytes: number("fb").and_then(|used| quantity::bytes(used, "MiB").ok()),
            utilization_percent: number("sm").map(|value| value as f32),
            ..PowerRow::default()
        };
        row.t_ns = self.time(&cells, gpu)?;
        rows.push(row);
        Ok(())
    }

    fn end(&mut self, rows: &mut Rows) -> Result<(), Problem> {
        if rows.is_empty() {
            return Ok(());
        }
        settle_power_draw(SOURCE, rows);
        rows.note("power is in whole watts");
        if self.place("time").is_none() {
            rows.note("the log has no times: they follow from --anchor and --interval and were not measured");
        } else if self.place("date").is_none() {
            rows.note("the log has no dates: the first is that of --anchor");
        }
        Ok(())
    }
}

#[cfg(test)]
pub(super) mod tests {
    use wattrace_schema::TimestampNs;

    use super::super::power_log::testing::{read, show, zone};
    use super::*;

    pub(in super::super) const MINIMAL: &str = "\
#Date       Time        gpu    pwr  gtemp  mtemp     sm    mem   mclk   pclk     fb
#YYYYMMDD   HH:MM:SS    Idx      W      C      C      %      %    MHz    MHz     MB
 20250115   12:34:56      0    412     61     70     98     55   2619   1980  70000
 20250115   12:34:56      1      -     60      -     97     54   2619   1980  70000
#Date       Time        gpu    pwr  gtemp  mtemp     sm    mem   mclk   pclk     fb
#YYYYMMDD   HH:MM:SS    Idx      W      C      C      %      %    MHz    MHz     MB
 20250115   12:34:57      0    413     61     70     98     55   2619   1980  70000
";

    /// The same rows without the columns of date and time.
    fn timeless() -> String {
        MINIMAL
            .lines()
            .map(|line| {
                let rest = line.get(24..).unwrap_or_default();
                let mark = if line.starts_with('#') { "#" } else { " " };
                format!("{mark} {rest}\n")
            })
            .collect()
    }

    #[test]
    fn headers_repeat_and_a_dash_is_a_missing_value() {
        let log = read(NvidiaDmon::new(zone("UTC")), MINIMAL).unwrap();
        insta::assert_snapshot!(show(&log.rows), @"
        0s dmon gpu0 412 W
        0s dmon gpu1 -
        1s dmon gpu0 413 W
        ");
        let row = &log.rows[0];
        assert_eq!(
            (row.sm_clock_mhz, row.mem_clock_mhz, row.temperature_c),
            (Some(1980), Some(2619), Some(61.0))
        );
        assert_eq!(
            (row.utilization_percent, row.memory_used_bytes),
            (Some(98.0), Some(70_000 << 20))
        );
        assert!(log.skipped.is_empty(), "{:?}", log.skipped);
    }

    #[test]
    fn without_times_it_needs_an_anchor_and_an_interval() {
        let text = timeless();
        let error = read(NvidiaDmon::new(zone("UTC")), &text).unwrap_err();
        insta::assert_snapshot!(error, @r#"line 3: nvidia-smi dmon without "-o DT" has no times; give the time of its first reading (--anchor) and the time between readings (--interval)"#);
        let anchor = TimestampNs::parse("2025-01-15T12:34:56Z").ok();
        let settings = Settings { anchor, interval_ns: Some(2_000_000_000), ..Settings::default() };
        let log = read(NvidiaDmon::new(settings), &text).unwrap();
        insta::assert_snapshot!(show(&log.rows), @"
        0s dmon gpu0 412 W
        0s dmon gpu1 -
        2s dmon gpu0 413 W
        ");
        assert!(log.findings.notes.iter().any(|note| note.contains("were not measured")));
    }

    #[test]
    fn times_of_day_take_the_date_of_the_anchor_and_pass_midnight() {
        let text =
            "#Time        gpu    pwr\n#HH:MM:SS    Idx      W\n 23:59:59 0 400\n 00:00:00 0 401\n";
        let error = read(NvidiaDmon::new(zone("UTC")), text).unwrap_err();
        assert!(
            error.ends_with(
                "give the date as a time on that day (--anchor) and the zone of the log (--tz)"
            ),
            "{error}"
        );
        let anchor = TimestampNs::parse("2025-01-15T08:00:00Z").ok();
        let log = read(NvidiaDmon::new(Settings { anchor, ..zone("UTC") }), text).unwrap();
        assert_eq!(log.rows[1].t_ns - log.rows[0].t_ns, 1_000_000_000);
        assert_eq!(TimestampNs::from_nanos(log.rows[1].t_ns).to_string(), "2025-01-16T00:00:00Z");
    }

    #[test]
    fn units_come_from_the_second_header_line() {
        let log = read(NvidiaDmon::new(zone("UTC")), &MINIMAL.replace("Idx      W", "Idx     mW"))
            .unwrap();
        assert_eq!(log.rows[0].power_w, Some(0.412));
        let log = read(NvidiaDmon::new(zone("UTC")), &MINIMAL.replace("Idx      W", "Idx      A"))
            .unwrap();
        assert!(log.skipped[0].contains("\"A\" is no unit of power"), "{:?}", log.skipped);
    }

    #[test]
    fn broken_lines_say_what_is_wrong() {
        let log = read(NvidiaDmon::new(zone("UTC")), &format!("{MINIMAL} 20250115 12:34:58 0 414 61\n 2025115 12:34:58 0 1 1 1 1 1 1 1 1\n 20250115 12:34:58 0 41")).unwrap();
        insta::assert_snapshot!(log.skipped.join("\n"), @r#"
        line 8: has 5 values; expected 11 as in the header
        line 9: "2025115 12:34:58" is no time; expected "20250131 12:34:56"
        line 10: was cut off
        "#);
        let error = |text: &str| read(NvidiaDmon::new(zone("UTC")), text).unwrap_err();
        insta::assert_snapshot!(error("0 412 61\n"), @r##"line 1: has no header in its first line; expected "# gpu pwr …" as nvidia-smi dmon writes"##);
        insta::assert_snapshot!(error("# gpu sm\n# Idx %\n"), @r#"line 1: has no column "pwr"; expected the power of each board (dmon -s p)"#);
    }
}
