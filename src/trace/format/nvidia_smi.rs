//! `nvidia-smi --query-gpu=… --format=csv`: any fields in any order, with units or without.
//!
//! `power.draw.instant` is of an instant, `power.draw.average` a trailing mean over one second, and
//! `power.draw` the one or the other by the chip. `module.*` fields measure a superchip with its CPU.

use std::borrow::Cow;

use wattrace_schema::{Reading, Scope};

use super::power_log::{
    self, Columns, PowerLog, Problem, Rows, Settings, Source, clock_cell, number_cell, parse_stamp,
    power_cell, split_cells,
};
use super::{Format, Reader, quantity};
use crate::PowerRow;

/// Trailing average of `power.draw` and `power.draw.average`, by the documentation of the driver.
pub const AVERAGE_MS: f64 = 1000.0;

const POWER_DRAW: &str = "power.draw";

/// Fields of power in the order in which their sources are listed, so that analyses prefer the first.
const POWER_FIELDS: [(&str, Scope, Reading); 5] = [
    ("power.draw.instant", Scope::GpuBoard, Reading::Instant),
    (POWER_DRAW, Scope::GpuBoard, Reading::Average),
    ("power.draw.average", Scope::GpuBoard, Reading::Average),
    ("module.power.draw.instant", Scope::GpuModule, Reading::Instant),
    ("module.power.draw.average", Scope::GpuModule, Reading::Average),
];

pub(super) const FORMAT: Format = Format {
    name: "nvidia-smi",
    title: "nvidia-smi --query-gpu, as CSV in any order of fields",
    recovers: "board and module power (instant and mean), clocks, temperature, memory, throttle reasons",
    lacks: "requests, energy counters; the zone of its times (--tz)",
    reader: Reader::Parts {
        detect: |head| head.lines().next().and_then(recognise),
        read: |input, options, sink| {
            power_log::read(input, options, sink, |settings| Box::new(NvidiaSmi::new(settings)))
        },
    },
};

/// Says why a first line is the header of such a log.
fn recognise(line: &str) -> Option<String> {
    let columns = Columns::parse(line, ',');
    let power = power_places(&columns);
    let (place, field) = power.first()?;
    columns.find(&["timestamp"])?;
    let unit = columns.unit(*place, "no unit");
    Some(format!("its header has \"timestamp\" and \"{field}\" in {unit}"))
}

/// Places and names of the fields of power, in order of preference.
fn power_places(columns: &Columns) -> Vec<(usize, &'static str)> {
    POWER_FIELDS.iter().filter_map(|(field, ..)| Some((columns.find(&[field])?, *field))).collect()
}

/// Reads such a log.
#[derive(Debug)]
pub(super) struct NvidiaSmi {
    settings: Settings,
    header: Option<Header>,
}

/// Where the fields stand.
#[derive(Debug)]
struct Header {
    columns: Columns,
    time: usize,
    device: Device,
    power: Vec<(usize, &'static str)>,
    name: Option<usize>,
    driver: Option<usize>,
    temperature: Option<usize>,
    sm_clock: Option<usize>,
    mem_clock: Option<usize>,
    memory: Option<usize>,
    utilization: Option<usize>,
    throttle: Option<usize>,
}

/// What tells the boards apart.
#[derive(Debug)]
enum Device {
    Index(usize),
    Name(usize),
}

impl NvidiaSmi {
    pub(super) const fn new(settings: Settings) -> Self {
        Self { settings, header: None }
    }

    fn header(&mut self, line: &str, rows: &mut Rows) -> Result<(), Problem> {
        let header = Header::parse(line).map_err(Problem::Stop)?;
        for (_, field) in &header.power {
            rows.declare(source(field));
        }
        self.header = Some(header);
        Ok(())
    }
}

fn source(field: &'static str) -> Source {
    let known = POWER_FIELDS.iter().find(|(name, ..)| *name == field);
    let (_, scope, reading) = known.expect("fields of power come from that list");
    match reading {
        Reading::Instant => Source::instant(field, *scope),
        Reading::Average => Source::average(field, *scope, Some(AVERAGE_MS)),
    }
}

/// Whether a line is a header: it names the field `timestamp`, which no row can hold.
fn is_header(line: &str) -> bool {
    split_cells(line, ',').iter().any(|cell| cell == "timestamp")
}

impl Header {
    fn parse(line: &str) -> Result<Self, String> {
        let columns = Columns::parse(line, ',');
        let find = |names: &[&str]| columns.find(names);
        let time = find(&["timestamp"]).ok_or(
            "has no field \"timestamp\" in its first line; expected the header that nvidia-smi writes \
             without \"noheader\" (format \"map\" reads a log without one)",
        )?;
        let power = power_places(&columns);
        if power.is_empty() {
            return Err("has no field of power; expected \"power.draw\" or one of its kind".into());
        }
        let name = find(&["uuid", "gpu_uuid", "pci.bus_id", "gpu_bus_id", "serial", "gpu_serial"]);
        let device = match (find(&["index"]), name) {
            (Some(index), _) => Device::Index(index),
            (None, Some(name)) => Device::Name(name),
            (None, None) => {
                return Err("has none of the fields \"index\", \"uuid\" and \"pci.bus_id\", so rows of \
                            several boards could not be told apart; format \"map\" can name the one \
                            board of a log"
                    .into());
            }
        };
        Ok(Self {
            time,
            device,
            power,
            name: find(&["name", "gpu_name"]),
            driver: find(&["driver_version"]),
            temperature: find(&["temperature.gpu"]),
            sm_clock: find(&["clocks.current.sm", "clocks.sm"]),
            mem_clock: find(&["clocks.current.memory", "clocks.mem"]),
            memory: find(&["memory.used"]),
            utilization: find(&["utilization.gpu"]),
            throttle: find(&["clocks_event_reasons.active", "clocks_throttle_reasons.active"]),
            columns,
        })
    }

    fn device(&self, cells: &[Cow<'_, str>]) -> Result<String, String> {
        match self.device {
            Device::Index(place) => {
                let index: u16 = cells[place].parse().map_err(|_| {
                    format!("\"index\" is \"{}\"; expected the number of a board", cells[place])
                })?;
                Ok(format!("gpu{index}"))
            }
            Device::Name(place) if quantity::is_absent(&cells[place]) => Err(format!(
                "\"{}\" is \"{}\"; expected the board's own",
                self.columns.name(place),
                cells[place]
            )),
            Device::Name(place) => Ok(cells[place].to_string()),
        }
    }

    /// What the row says besides power.
    fn state(&self, cells: &[Cow<'_, str>]) -> PowerRow {
        let cell = |place: Option<usize>| place.map(|place| cells[place].as_ref());
        let memory = self.memory.and_then(|place| {
            let used = number_cell(&cells[place])?;
            quantity::bytes(used, self.columns.unit(place, "MiB")).ok()
        });
        PowerRow {
            temperature_c: cell(self.temperature).and_then(number_cell).map(|value| value as f32),
            sm_clock_mhz: cell(self.sm_clock).and_then(clock_cell),
            mem_clock_mhz: cell(self.mem_clock).and_then(clock_cell),
            memory_used_bytes: memory,
            utilization_percent: cell(self.utilization)
                .and_then(number_cell)
                .map(|value| value as f32),
            throttle_reasons: cell(self.throttle).and_then(mask),
            ..PowerRow::default()
        }
    }
}

/// A bit mask such as `0x0000000000000004`.
fn mask(cell: &str) -> Option<u64> {
    u64::from_str_radix(cell.strip_prefix("0x")?, 16).ok()
}

impl PowerLog for NvidiaSmi {
    fn line(&mut self, line: &str, rows: &mut Rows) -> Result<(), Problem> {
        if self.header.is_none() || is_header(line) {
            return self.header(line, rows);
        }
        let Some(header) = &self.header else { return Ok(()) };
        let cells = split_cells(line, ',');
        header.columns.check_cells(cells.len())?;
        let stamp = parse_stamp(&cells[header.time]).ok_or_else(|| {
            format!(
                "\"timestamp\" is \"{}\"; expected a time such as \"2025/01/31 12:34:56.789\"",
                cells[header.time]
            )
        })?;
        let t_ns = self.settings.resolve(stamp)?;
        let device = header.device(&cells)?;
        for (place, seen) in [(header.name, true), (header.driver, false)] {
            let Some(cell) = place.map(|place| &cells[place]) else { continue };
            match seen {
                _ if quantity::is_absent(cell) => {}
                true => rows.accelerator(cell),
                false => rows.driver(cell),
            }
        }
        let mut state = header.state(&cells);
        for (place, field) in &header.power {
            let unit = header.columns.unit(*place, "W");
            let power_w = power_cell(field, &cells[*place], unit)?;
            let source = (*field).to_owned();
            rows.push(PowerRow { t_ns, source, device: device.clone(), power_w, ..state });
            // Clocks and the like are stored once, with the first source.
            state = PowerRow::default();
        }
        Ok(())
    }

    fn end(&mut self, rows: &mut Rows) -> Result<(), Problem> {
        let has_draw = |header: &Header| header.power.iter().any(|(_, field)| *field == POWER_DRAW);
        if self.header.as_ref().is_some_and(has_draw) {
            settle_power_draw(POWER_DRAW, rows);
        }
        Ok(())
    }
}

/// Decides what the plain power reading of the driver means, from the names of the boards.
pub(super) fn settle_power_draw(source: &str, rows: &mut Rows) {
    let kinds: Vec<bool> = rows.accelerators().map(reads_instant).collect();
    if kinds.is_empty() {
        rows.note(format!(
            "\"{source}\" is taken for a mean over one second, as on Ampere and later; the log does not name \
             the boards, and on GA100 (A100, A30) and older chips it is of an instant"
        ));
    } else if kinds.iter().all(|instant| *instant) {
        rows.set_reading(source, Reading::Instant, None);
        rows.note(format!("\"{source}\" is of an instant on these boards (GA100 or older)"));
    } else if kinds.iter().any(|instant| *instant) {
        rows.note(format!(
            "\"{source}\" is of an instant on some of these boards and a mean over one second on others; it is \
             declared as the mean"
        ));
    }
}

/// Boards on which the driver's plain reading is of an instant: GA100, and what came before Ampere.
pub(super) fn reads_instant(name: &str) -> bool {
    const CHIPS: [&str; 16] = [
        "A100", "A800", "A30", "V100", "V100S", "T4", "P100", "P40", "P4", "P6", "K80", "K40",
        "K40m", "M40", "M60", "170HX",
    ];
    const FAMILIES: [&str; 6] = ["RTX 20", "GTX ", "TITAN", "Quadro RTX", "Quadro GV", "Quadro P"];
    let mut words = name.split(|c: char| !c.is_ascii_alphanumeric());
    words.any(|word| CHIPS.contains(&word)) || FAMILIES.iter().any(|family| name.contains(family))
}

#[cfg(test)]
pub(super) mod tests {
    use super::super::power_log::testing::{read, show, zone};
    use super::*;

    pub(in super::super) const MINIMAL: &str = "\
timestamp, index, power.draw [W], power.draw.instant [W], temperature.gpu
2025/01/15 12:34:56.789, 0, 412.34 W, 498.10 W, 61
2025/01/15 12:34:56.791, 1, 400.00 W, 401.50 W, 60
2025/01/15 12:34:57.789, 0, 413.00 W, [N/A], 61
";

    fn utc(text: &str) -> Result<super::super::power_log::testing::Log, String> {
        read(NvidiaSmi::new(zone("UTC")), text)
    }

    #[test]
    fn every_field_of_power_is_a_source_of_its_own() {
        let log = utc(MINIMAL).unwrap();
        insta::assert_snapshot!(show(&log.rows), @"
        0.789s power.draw.instant gpu0 498.1 W
        0.789s power.draw gpu0 412.34 W
        0.791s power.draw.instant gpu1 401.5 W
        0.791s power.draw gpu1 400 W
        1.789s power.draw.instant gpu0 -
        1.789s power.draw gpu0 413 W
        ");
        assert_eq!(log.rows[0].temperature_c, Some(61.0));
        assert_eq!(log.rows[1].temperature_c, None);
        assert_eq!((log.findings.accelerators, log.skipped.len()), (2, 0));
        let kinds: Vec<_> = log.findings.sources.iter().map(|s| (s.reading, s.scope)).collect();
        assert_eq!(
            kinds,
            [(Reading::Instant, Scope::GpuBoard), (Reading::Average, Scope::GpuBoard)]
        );
        assert_eq!(log.findings.sources[1].averaging_window_ms, Some(1000.0));
        assert!(
            log.findings.notes[0].contains("does not name the boards"),
            "{:?}",
            log.findings.notes
        );
    }

    #[test]
    fn fields_come_in_any_order_and_without_units() {
        let log = utc(
            "power.draw, uuid, memory.used [MiB], clocks.sm [MHz], clocks.mem [MHz], timestamp, utilization.gpu [%], clocks_event_reasons.active, name, driver_version\n\
             412.34, GPU-a, 70000, 1980, 2619, 2025/01/15 12:34:56.000, 98, 0x0000000000000004, NVIDIA A100-SXM4-80GB, 550.54\n",
        )
        .unwrap();
        let row = &log.rows[0];
        assert_eq!((row.device.as_str(), row.power_w), ("GPU-a", Some(412.34)));
        assert_eq!(row.memory_used_bytes, Some(70_000 * 1_048_576));
        assert_eq!((row.sm_clock_mhz, row.mem_clock_mhz), (Some(1980), Some(2619)));
        assert_eq!((row.utilization_percent, row.throttle_reasons), (Some(98.0), Some(4)));
        assert_eq!(log.findings.sources[0].reading, Reading::Instant, "A100 is GA100");
        assert_eq!(log.findings.accelerator.as_deref(), Some("NVIDIA A100-SXM4-80GB"));
        assert_eq!(log.findings.driver.as_deref(), Some("550.54"));
    }

    #[test]
    fn units_are_read_not_assumed() {
        let watts = |header: &str, cell: &str| {
            let log = utc(&format!("timestamp, index, {header}\n2025/01/15 12:34:56, 0, {cell}\n"));
            let log = log.unwrap();
            log.rows.first().map_or(Err(log.skipped.concat()), |row| Ok(row.power_w))
        };
        assert_eq!(watts("power.draw [W]", "412.34"), Ok(Some(412.34)));
        assert_eq!(watts("power.draw [mW]", "412340"), Ok(Some(412.34)));
        assert_eq!(watts("power.draw [W]", "412340 mW"), Ok(Some(412.34)));
        assert_eq!(watts("power.draw", "0.41234 kW"), Ok(Some(412.34)));
        for absent in
            ["[N/A]", "[Not Supported]", "[Unknown Error]", "[GPU requires reset]", "0.00 W"]
        {
            assert_eq!(watts("power.draw [W]", absent), Ok(None), "{absent}");
        }
        assert!(watts("power.draw [J]", "3").unwrap_err().contains("\"J\" is no unit of power"));
    }

    #[test]
    fn a_module_is_another_scope() {
        let log = utc("timestamp, index, power.draw.average [W], module.power.draw.instant [W]\n\
             2025/01/15 12:34:56.000, 0, 500.00 W, 700.00 W\n");
        let scopes: Vec<Scope> = log.unwrap().findings.sources.iter().map(|s| s.scope).collect();
        assert_eq!(scopes, [Scope::GpuBoard, Scope::GpuModule]);
    }

    #[test]
    fn a_cut_last_row_and_broken_lines_are_skipped() {
        let text = format!(
            "{MINIMAL}No devices\n2025/01/15 12:34:59.0, x, 1 W, 1 W, 6\n2025/01/15 12:34:58.789, 0, 41"
        );
        let log = utc(&text).unwrap();
        insta::assert_snapshot!(log.skipped.join("\n"), @r#"
        line 5: has 1 cells; expected 5 as in the header
        line 6: "index" is "x"; expected the number of a board
        line 7: was cut off
        "#);
        assert_eq!(log.rows.len(), 6);
    }

    #[test]
    fn a_header_in_between_is_read_again() {
        let text = format!(
            "{MINIMAL}index, timestamp, power.draw [W]\n0, 2025/01/15 12:35:00.000, 399.00 W\n"
        );
        let log = utc(&text).unwrap();
        assert_eq!(log.rows.last().unwrap().power_w, Some(399.0));
    }

    #[test]
    fn what_cannot_be_known_is_asked_for() {
        let error = |text: &str, zone_name: Option<&str>| {
            let settings = zone_name.map(zone).unwrap_or_default();
            read(NvidiaSmi::new(settings), text).unwrap_err()
        };
        insta::assert_snapshot!(error(MINIMAL, None), @r#"line 2: the time 2025-01-15T12:34:56.789 has no zone; name the zone of the log (--tz), such as "America/Los_Angeles" or "UTC""#);
        let fold = MINIMAL.replace("2025/01/15 12:34", "2025/11/02 01:30");
        insta::assert_snapshot!(error(&fold, Some("America/Los_Angeles")), @r#"line 2: clocks changed at 2025-11-02T01:30:56.789, which came twice or never; give the offset of the log, such as "-07:00", as the time zone (--tz)"#);
        insta::assert_snapshot!(error("2025/01/15 12:34:56.789, 0, 412.34 W\n", Some("UTC")), @r#"line 1: has no field "timestamp" in its first line; expected the header that nvidia-smi writes without "noheader" (format "map" reads a log without one)"#);
        insta::assert_snapshot!(error("timestamp, power.draw [W]\n", Some("UTC")), @r#"line 1: has none of the fields "index", "uuid" and "pci.bus_id", so rows of several boards could not be told apart; format "map" can name the one board of a log"#);
        insta::assert_snapshot!(error("timestamp, index, power.limit [W]\n", Some("UTC")), @r#"line 1: has no field of power; expected "power.draw" or one of its kind"#);
    }

    #[test]
    fn only_old_chips_and_ga100_read_an_instant() {
        for name in
            ["NVIDIA A100 80GB PCIe", "Tesla V100-SXM2-16GB", "Tesla T4", "NVIDIA GeForce RTX 2080"]
        {
            assert!(reads_instant(name), "{name}");
        }
        for name in
            ["NVIDIA H100 80GB HBM3", "NVIDIA A40", "NVIDIA RTX A4000", "NVIDIA L4", "NVIDIA GH200"]
        {
            assert!(!reads_instant(name), "{name}");
        }
    }
}
