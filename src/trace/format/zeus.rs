//! ZeusMonitor's log: one row for each window that was measured, with its start, its length and the
//! energy of every GPU in it.
//!
//! Between windows nothing was measured. Each window becomes a counter that starts at zero and ends at its
//! energy, so that the counter falls back between windows: a break, over which nothing is added up.

use std::borrow::Cow;
use std::collections::BTreeMap;

use wattrace_schema::{Interval, Scope, TimestampNs};

use super::power_log::{
    self, Columns, PowerLog, Problem, Rows, Settings, Source, energy_cell, split_cells,
};
use super::{Format, Part, Reader, quantity};
use crate::PowerRow;

/// Kinds of columns: prefix of the name, scope, and id of the source.
const KINDS: [(&str, Scope, &str); 3] = [
    ("gpu", Scope::GpuBoard, "zeus"),
    ("cpu", Scope::Cpu, "zeus-cpu"),
    ("dram", Scope::Dram, "zeus-dram"),
];

pub(super) const FORMAT: Format = Format {
    name: "zeus",
    title: "ZeusMonitor log (CSV of measured windows)",
    recovers: "energy of boards, packages and memory in each window",
    lacks: "requests, power, and what happened between windows",
    reader: Reader::Parts {
        detect: |head| head.lines().next().and_then(recognise),
        read: |input, options, sink| {
            power_log::read(input, options, sink, |settings| Box::new(Zeus::new(settings)))
        },
    },
};

/// Says why a first line is the header of such a log.
fn recognise(line: &str) -> Option<String> {
    let columns = Columns::parse(line, ',');
    columns.find(&["start_time"])?;
    columns.find(&["window_name"])?;
    let (place, ..) = *energy_columns(&columns).first()?;
    Some(format!("its header has \"start_time\", \"window_name\" and \"{}\"", columns.name(place)))
}

/// Columns such as `gpu0_energy`: place, device, and kind.
fn energy_columns(columns: &Columns) -> Vec<(usize, String, usize)> {
    let mut found = Vec::new();
    for (place, name, _) in columns.iter() {
        let Some(device) = name.strip_suffix("_energy") else { continue };
        let kind = KINDS.iter().position(|(prefix, ..)| {
            device.strip_prefix(prefix).is_some_and(|number| number.parse::<u16>().is_ok())
        });
        found.extend(kind.map(|kind| (place, device.to_owned(), kind)));
    }
    found
}

/// Reads such a log.
#[derive(Debug)]
pub(super) struct Zeus {
    header: Option<Header>,
    /// Windows taken so far; few, since each is a measurement that a program asked for.
    windows: BTreeMap<i64, (i64, String)>,
}

#[derive(Debug)]
struct Header {
    columns: Columns,
    start: usize,
    name: usize,
    length: usize,
    energy: Vec<(usize, String, usize)>,
}

impl Zeus {
    pub(super) fn new(_: Settings) -> Self {
        Self { header: None, windows: BTreeMap::new() }
    }

    /// The one window of the log, with its name; `None` if there are several.
    fn only_window(&self) -> Option<(Interval, &str)> {
        let mut windows = self.windows.iter();
        let (start, (end, name)) = windows.next()?;
        windows.next().is_none().then(|| (Interval::new(*start, *end), name.as_str()))
    }

    /// Whether a window shares time with one taken before.
    fn overlaps(&self, start: i64, end: i64) -> Option<&str> {
        let before = self.windows.range(..end).next_back();
        before.filter(|(_, (ended, _))| *ended > start).map(|(_, (_, name))| name.as_str())
    }
}

impl Header {
    fn parse(line: &str) -> Result<Self, String> {
        let columns = Columns::parse(line, ',');
        let find = |name: &str| {
            columns.find(&[name]).ok_or_else(|| {
                format!(
                    "has no column \"{name}\" in its first line; expected \
                     \"start_time,window_name,elapsed_time,gpu0_energy\" as ZeusMonitor writes"
                )
            })
        };
        let (start, name, length) =
            (find("start_time")?, find("window_name")?, find("elapsed_time")?);
        let energy = energy_columns(&columns);
        if energy.is_empty() {
            find("gpu0_energy")?;
        }
        Ok(Self { start, name, length, energy, columns })
    }

    /// Start and end of a window.
    fn window(&self, cells: &[Cow<'_, str>]) -> Result<(i64, i64), String> {
        let seconds = |place: usize| {
            let cell = &cells[place];
            quantity::decimal_nanos(cell, "s").map_err(|_| {
                format!("\"{}\" is \"{cell}\"; expected seconds", self.columns.name(place))
            })
        };
        let (start, length) = (seconds(self.start)?, seconds(self.length)?);
        if length <= 0 {
            return Err(format!(
                "\"elapsed_time\" is \"{}\"; expected a time above 0",
                cells[self.length]
            ));
        }
        let end = start.checked_add(length);
        Ok((start, end.ok_or("ends beyond the year 2261")?))
    }
}

impl PowerLog for Zeus {
    fn line(&mut self, line: &str, rows: &mut Rows) -> Result<(), Problem> {
        let cells = split_cells(line, ',');
        if self.header.is_none() || cells.iter().any(|cell| cell == "start_time") {
            let header = Header::parse(line).map_err(Problem::Stop)?;
            for (.., kind) in &header.energy {
                let (_, scope, id) = KINDS[*kind];
                rows.declare(Source::instant(id, scope));
            }
            self.header = Some(header);
            return Ok(());
        }
        let Some(header) = &self.header else { return Ok(()) };
        header.columns.check_cells(cells.len())?;
        let (start, end) = header.window(&cells)?;
        let mut energies = Vec::new();
        for (place, device, kind) in &header.energy {
            let unit = header.columns.unit(*place, "J");
            let energy_j = energy_cell(&header.columns.name(*place), &cells[*place], unit)?;
            // A device draws power all the time, so a window without energy was not measured.
            energies.push((
                device.clone(),
                KINDS[*kind].2,
                energy_j.filter(|joules| *joules > 0.0),
            ));
        }
        let name = cells[header.name].to_string();
        if let Some(other) = self.overlaps(start, end) {
            rows.note(format!(
                "windows that share time with one before them are left out, since their energy would be \
                 counted twice; the first is \"{}\", which shares time with \"{}\"",
                name.escape_debug(),
                other.escape_debug()
            ));
            rows.leave_out("windows inside or around others");
            return Ok(());
        }
        self.windows.insert(start, (end, name));
        for (device, source, energy_j) in energies {
            let row = PowerRow { source: source.into(), device, ..PowerRow::default() };
            rows.push(PowerRow { t_ns: start, energy_j: energy_j.map(|_| 0.0), ..row.clone() });
            rows.push(PowerRow { t_ns: end, energy_j, ..row });
        }
        Ok(())
    }

    fn end(&mut self, rows: &mut Rows) -> Result<(), Problem> {
        if self.windows.len() > 1 {
            rows.note(format!(
                "{} windows: energy is known inside each, and the counter starts again at zero with each, so \
                 nothing is said of the time between them",
                self.windows.len()
            ));
        }
        Ok(())
    }

    /// A log of one window states when its run was.
    fn describe(&self, part: &mut Part) {
        let Some((window, name)) = self.only_window() else { return };
        part.stages.formal_start = Some(TimestampNs::from_nanos(window.start_ns));
        part.stages.formal_end = Some(TimestampNs::from_nanos(window.end_ns));
        part.notes.push(format!(
            "the formal window is the only one of the log, \"{}\"",
            name.escape_debug()
        ));
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::super::power_log::testing::{Log, read, show};
    use super::*;

    pub(in super::super) const MINIMAL: &str = "\
start_time,window_name,elapsed_time,gpu0_energy,gpu1_energy
1736944496.25,prefill,1.5,600.5,590.0
1736944499.0,decode,2.0,800.25,0.0
";

    fn log(text: &str) -> Log {
        read(Zeus::new(Settings::default()), text).unwrap()
    }

    #[test]
    fn a_window_is_a_counter_from_zero_to_its_energy() {
        let log = log(MINIMAL);
        insta::assert_snapshot!(show(&log.rows), @"
        0.25s zeus gpu0 - 0 J
        1.75s zeus gpu0 - 600.5 J
        0.25s zeus gpu1 - 0 J
        1.75s zeus gpu1 - 590 J
        3s zeus gpu0 - 0 J
        5s zeus gpu0 - 800.25 J
        3s zeus gpu1 -
        5s zeus gpu1 -
        ");
        insta::assert_snapshot!(log.findings.notes.join("\n"), @"2 windows: energy is known inside each, and the counter starts again at zero with each, so nothing is said of the time between them");
    }

    #[test]
    fn nested_windows_are_not_counted_twice() {
        let text = format!(
            "{MINIMAL}1736944496.0,whole,6.0,1500.0,700.0\n1736944501.0,after,1.0,400.0,390.0\n"
        );
        let log = log(&text);
        assert_eq!(log.rows.len(), 12);
        assert!(log.findings.notes.iter().any(|note| note.contains("the first is \"whole\"")));
        assert!(
            log.findings
                .notes
                .iter()
                .any(|note| note == "windows inside or around others, left out: 1")
        );
    }

    #[test]
    fn cpu_and_dram_are_scopes_of_their_own() {
        let text = "start_time,window_name,elapsed_time,gpu0_energy,cpu0_energy,dram0_energy\n1736944496,w,1,5,3,1\n";
        let scopes: Vec<Scope> =
            log(text).findings.sources.iter().map(|source| source.scope).collect();
        assert_eq!(scopes, [Scope::GpuBoard, Scope::Cpu, Scope::Dram]);
        let mut zeus = Zeus::new(Settings::default());
        let mut rows = Rows::default();
        for line in text.lines() {
            zeus.line(line, &mut rows).unwrap();
        }
        let (window, name) = zeus.only_window().unwrap();
        assert_eq!((window.duration_s(), name), (1.0, "w"));
    }

    #[test]
    fn broken_lines_say_what_is_wrong() {
        let text = format!(
            "{MINIMAL}soon,w,1,1,1\n1736944510,w,0,1,1\n1736944510,w,1,1\n1736944510,w,1,x,1\n1736944510,w,1,1,1"
        );
        insta::assert_snapshot!(log(&text).skipped.join("\n"), @r#"
        line 4: "start_time" is "soon"; expected seconds
        line 5: "elapsed_time" is "0"; expected a time above 0
        line 6: has 4 cells; expected 5 as in the header
        line 7: "gpu0_energy" is "x"; expected a number such as "1000.5 J"
        line 8: was cut off
        "#);
        let error = read(Zeus::new(Settings::default()), "start_time,window_name,elapsed_time\n")
            .unwrap_err();
        insta::assert_snapshot!(error, @r#"line 1: has no column "gpu0_energy" in its first line; expected "start_time,window_name,elapsed_time,gpu0_energy" as ZeusMonitor writes"#);
    }
}
