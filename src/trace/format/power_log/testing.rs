//! Reads logs from text, for the tests of the formats.

use super::rows::Findings;
use super::*;
use crate::PowerRow;

/// What a log yields, with its skipped lines.
#[derive(Debug)]
pub(in super::super) struct Log {
    pub(in super::super) rows: Vec<PowerRow>,
    pub(in super::super) findings: Findings,
    pub(in super::super) skipped: Vec<String>,
}

/// Reads `text`, as a file is read. The error is that of [`Problem::Stop`], after its line.
pub(in super::super) fn read(mut log: impl PowerLog, text: &str) -> Result<Log, String> {
    let mut rows = Rows::default();
    let (mut kept, mut skipped) = (Vec::new(), Vec::new());
    let ended = text.ends_with('\n');
    let lines: Vec<&str> = text.lines().collect();
    for (index, line) in lines.iter().enumerate() {
        if line.trim().is_empty() {
            continue;
        }
        let is_last = index + 1 == lines.len();
        let result = if is_last && !ended && may_be_cut(line) {
            Err(Problem::Skip("was cut off".into()))
        } else {
            log.line(line, &mut rows)
        };
        match result {
            Ok(()) => {}
            Err(Problem::Skip(message)) => {
                log.skipped();
                skipped.push(format!("line {}: {message}", index + 1));
            }
            Err(Problem::Stop(message)) => return Err(format!("line {}: {message}", index + 1)),
        }
        kept.extend(rows.take());
    }
    match log.end(&mut rows) {
        Ok(()) => {}
        Err(Problem::Skip(message)) => skipped.push(message),
        Err(Problem::Stop(message)) => return Err(message),
    }
    kept.extend(rows.take());
    Ok(Log { rows: kept, findings: rows.finish(), skipped })
}

/// Settings with a zone.
pub(in super::super) fn zone(name: &str) -> Settings {
    let options = ImportOptions { time_zone: Some(name.into()), ..ImportOptions::default() };
    Settings::of(&options).unwrap()
}

/// Rows as short text: time after 2025-01-15 12:34:56 UTC in seconds, device, source, power, counter.
pub(in super::super) fn show(rows: &[PowerRow]) -> String {
    const BASE: i64 = 1_736_944_496_000_000_000;
    let mut lines = Vec::new();
    for row in rows {
        let mut line = format!("{}s {} {}", (row.t_ns - BASE) as f64 / 1e9, row.source, row.device);
        line += &row.power_w.map_or(" -".into(), |watts| format!(" {watts} W"));
        line += &row.energy_j.map_or(String::new(), |joules| format!(" {joules} J"));
        lines.push(line);
    }
    lines.join("\n")
}
