//! Samples from a file, given out again as time passes: for tests and benchmarks, and to see how a run
//! would have been recorded at another interval. The run is marked synthetic.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::Path;

use arrow_array::cast::AsArray;
use arrow_array::types::{Float64Type, TimestampNanosecondType};
use arrow_array::{Array, ArrayRef, RecordBatch};
use arrow_schema::{DataType, TimeUnit};
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use wattrace_schema::{Reading as ReadingKind, Scope, TimestampNs};

use super::{PowerSource, Reading, Sample, Stream};
use crate::clock::{Clock, Span};

/// One sample of the file.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Point {
    t_ns: i64,
    power_w: Option<f64>,
    energy_j: Option<f64>,
}

/// The samples of one device, in the order of their times.
type Points = Vec<Point>;

/// A replayed file. Between samples, values run straight from one to the next; after the last, power
/// stays and the counter rises with it.
#[derive(Debug)]
pub(super) struct Replay {
    streams: Vec<Stream>,
    /// By stream, then device.
    points: Vec<Vec<Points>>,
    /// Earliest time of the file.
    start_ns: i64,
    /// When the first read happened, on the monotonic clock.
    begun_ns: Option<i64>,
    file: String,
}

impl Replay {
    /// Reads the whole file; the message of an error says what is wrong with it.
    pub(super) fn open(file: &Path, id: &str) -> Result<Self, String> {
        let is_parquet = file.extension().is_some_and(|extension| extension == "parquet");
        let rows = if is_parquet { read_parquet(file)? } else { read_csv(file)? };
        let mut devices: BTreeMap<String, Points> = BTreeMap::new();
        for (device, point) in rows {
            devices.entry(device).or_default().push(point);
        }
        let mut by_scope: BTreeMap<Scope, Vec<(String, Points)>> = BTreeMap::new();
        for (device, mut points) in devices {
            points.sort_by_key(|point| point.t_ns);
            by_scope.entry(scope_of(&device)?).or_default().push((device, points));
        }
        let all = by_scope.values().flatten().filter_map(|(_, points)| points.first());
        let start_ns =
            all.map(|point| point.t_ns).min().ok_or("it has no rows; expected samples")?;
        let is_one = by_scope.len() == 1;
        let (mut streams, mut points) = (Vec::new(), Vec::new());
        for (scope, devices) in by_scope {
            let id = if is_one { id.to_owned() } else { format!("{id}-{}", scope.name()) };
            let mut stream = Stream::new(&id, scope, ReadingKind::Instant);
            let mut of_stream = Vec::new();
            for (device, of_device) in devices {
                stream.devices.push(device);
                of_stream.push(of_device);
            }
            streams.push(stream);
            points.push(of_stream);
        }
        let file = file.display().to_string();
        Ok(Self { streams, points, start_ns, begun_ns: None, file })
    }
}

impl PowerSource for Replay {
    fn streams(&self) -> &[Stream] {
        &self.streams
    }

    fn read(&mut self, clock: &dyn Clock, readings: &mut Vec<Reading>) {
        for (stream, devices) in self.points.iter().enumerate() {
            for (device, points) in devices.iter().enumerate() {
                let begun_ns = *self.begun_ns.get_or_insert_with(|| clock.monotonic_ns());
                let (span, sample) = Span::of(clock, || {
                    let t_ns = self.start_ns + (clock.monotonic_ns() - begun_ns);
                    Sample {
                        power_w: power_at(points, t_ns),
                        energy_j: energy_at(points, t_ns),
                        ..Sample::default()
                    }
                });
                let failures = match sample.power_w.or(sample.energy_j) {
                    Some(_) => Vec::new(),
                    None => vec!["the file has no value at this time".to_owned()],
                };
                readings.push(Reading { stream, device, span, sample, failures });
            }
        }
    }

    fn is_synthetic(&self) -> bool {
        true
    }

    fn notes(&self) -> Vec<String> {
        vec![format!("power was replayed from {}, not measured", self.file)]
    }
}

/// The scope that the name of a device stands for.
fn scope_of(device: &str) -> Result<Scope, String> {
    let kind = device.trim_end_matches(|c: char| c.is_ascii_digit());
    match kind {
        "gpu" => Ok(Scope::GpuBoard),
        "module" => Ok(Scope::GpuModule),
        "node" => Ok(Scope::Node),
        "cpu" => Ok(Scope::Cpu),
        "dram" => Ok(Scope::Dram),
        "pdu" => Ok(Scope::Pdu),
        _ => Err(format!(
            "device \"{}\" has no known scope; expected gpu0, module0, node, cpu0, dram0, pdu0 or \
             alike",
            device.escape_debug()
        )),
    }
}

/// The samples around a time: the last at or before it, and the first after it.
#[inline(always)]
fn around(points: &[Point], t_ns: i64) -> (Option<Point>, Option<Point>) {
    let after = points.partition_point(|point| point.t_ns <= t_ns);
    (after.checked_sub(1).map(|before| points[before]), points.get(after).copied())
}

#[inline(always)]
fn power_at(points: &[Point], t_ns: i64) -> Option<f64> {
    match around(points, t_ns) {
        (Some(before), Some(after)) => between(before, after, t_ns, |point| point.power_w),
        (Some(last), None) => last.power_w,
        (None, _) => None,
    }
}

#[inline(always)]
fn energy_at(points: &[Point], t_ns: i64) -> Option<f64> {
    match around(points, t_ns) {
        (Some(before), Some(after)) if before.energy_j <= after.energy_j => {
            between(before, after, t_ns, |point| point.energy_j)
        }
        // A counter that falls was reset; it has its old value until then.
        (Some(before), Some(_)) => before.energy_j,
        (Some(last), None) => {
            let since_s = (t_ns - last.t_ns) as f64 / 1e9;
            Some(last.energy_j? + last.power_w.unwrap_or(0.0) * since_s)
        }
        (None, _) => None,
    }
}

#[inline(always)]
fn between(
    before: Point,
    after: Point,
    t_ns: i64,
    value: impl Fn(Point) -> Option<f64>,
) -> Option<f64> {
    let (from, to) = (value(before)?, value(after)?);
    let share = (t_ns - before.t_ns) as f64 / (after.t_ns - before.t_ns) as f64;
    Some(from + (to - from) * share)
}

/// Columns `t` (seconds, or RFC 3339), `device`, `power_w` and `energy_j` in any order; empty is no value.
fn read_csv(file: &Path) -> Result<Vec<(String, Point)>, String> {
    let text = fs::read_to_string(file).map_err(|error| format!("it cannot be read: {error}"))?;
    let mut lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
    let (_, header) = lines.next().ok_or("it is empty; expected t,device,power_w,energy_j")?;
    let names: Vec<_> = header.split(',').map(str::trim).collect();
    let place = |name: &str| names.iter().position(|column| *column == name);
    let missing = |name: &str| format!("it has no column \"{name}\"; expected t,device,power_w");
    let t = place("t").ok_or_else(|| missing("t"))?;
    let device = place("device").ok_or_else(|| missing("device"))?;
    let power = place("power_w").ok_or_else(|| missing("power_w"))?;
    let energy = place("energy_j");
    let mut rows = Vec::new();
    for (index, line) in lines {
        let cells: Vec<_> = line.split(',').map(str::trim).collect();
        let wrong = |what: &str, text: &str, expected: &str| {
            format!(
                "line {}: {what} is \"{}\"; expected {expected}",
                index + 1,
                text.escape_debug()
            )
        };
        let cell = |place: usize| cells.get(place).copied().unwrap_or("");
        let number = |what: &str, place: Option<usize>| match place.map_or("", cell) {
            "" => Ok(None),
            text => match text.parse::<f64>() {
                Ok(value) if value.is_finite() && value >= 0.0 => Ok(Some(value)),
                _ => Err(wrong(what, text, "a number of 0 or more, or nothing")),
            },
        };
        let t_ns = time(cell(t)).ok_or_else(|| wrong("t", cell(t), "seconds or RFC 3339"))?;
        let point = Point {
            t_ns,
            power_w: number("power_w", Some(power))?,
            energy_j: number("energy_j", energy)?,
        };
        rows.push((cell(device).to_owned(), point));
    }
    Ok(rows)
}

/// Nanoseconds of seconds or of RFC 3339 text.
fn time(text: &str) -> Option<i64> {
    if let Ok(time) = TimestampNs::parse(text) {
        return Some(time.nanos());
    }
    let nanos = text.parse::<f64>().ok()? * 1e9;
    // Within a hundred years either way, so that no sum of times overflows.
    (nanos.abs() <= 3.2e18).then_some(nanos as i64)
}

/// The columns of an archive's power.parquet, of which `energy_j` may be absent.
fn read_parquet(file: &Path) -> Result<Vec<(String, Point)>, String> {
    let opened = File::open(file).map_err(|error| format!("it cannot be read: {error}"))?;
    let broken = |error: &dyn std::fmt::Display| format!("it is no readable Parquet file: {error}");
    let reader = ParquetRecordBatchReaderBuilder::try_new(opened)
        .and_then(ParquetRecordBatchReaderBuilder::build)
        .map_err(|error| broken(&error))?;
    let mut rows = Vec::new();
    for batch in reader {
        let batch = batch.map_err(|error| broken(&error))?;
        let t_type = DataType::Timestamp(TimeUnit::Nanosecond, Some("UTC".into()));
        let t = column(&batch, "t", &t_type)?.ok_or("it has no column \"t\"")?;
        let device =
            column(&batch, "device", &DataType::Utf8)?.ok_or("it has no column \"device\"")?;
        let power = column(&batch, "power_w", &DataType::Float64)?;
        let energy = column(&batch, "energy_j", &DataType::Float64)?;
        let value = |array: Option<&ArrayRef>, row: usize| {
            let array = array.filter(|array| array.is_valid(row))?;
            Some(array.as_primitive::<Float64Type>().value(row))
        };
        for row in 0..batch.num_rows() {
            if t.is_null(row) || device.is_null(row) {
                return Err("a row has no time or no device".to_owned());
            }
            let point = Point {
                t_ns: t.as_primitive::<TimestampNanosecondType>().value(row),
                power_w: value(power, row),
                energy_j: value(energy, row),
            };
            rows.push((device.as_string::<i32>().value(row).to_owned(), point));
        }
    }
    Ok(rows)
}

fn column<'a>(
    batch: &'a RecordBatch,
    name: &str,
    expected: &DataType,
) -> Result<Option<&'a ArrayRef>, String> {
    match batch.column_by_name(name) {
        Some(array) if array.data_type() != expected => {
            Err(format!("column \"{name}\" is {}; expected {expected}", array.data_type()))
        }
        array => Ok(array),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(text: &str) -> (tempfile::TempDir, std::path::PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("power.csv");
        fs::write(&file, text).unwrap();
        (folder, file)
    }

    #[test]
    fn values_run_straight_between_samples_and_the_counter_goes_on_after_the_last() {
        let (_folder, file) = write("t,device,power_w,energy_j\n0,gpu0,100,0\n10,gpu0,200,1500\n");
        let replay = Replay::open(&file, "replay").unwrap();
        let points = &replay.points[0][0];
        let at = |seconds: f64| {
            let t_ns = (seconds * 1e9) as i64;
            (power_at(points, t_ns), energy_at(points, t_ns))
        };
        assert_eq!(at(-1.0), (None, None));
        assert_eq!(at(0.0), (Some(100.0), Some(0.0)));
        assert_eq!(at(2.5), (Some(125.0), Some(375.0)));
        // 1500 J + 2 s x 200 W.
        assert_eq!(at(12.0), (Some(200.0), Some(1900.0)));
    }

    #[test]
    fn a_file_of_boards_and_a_node_gives_a_stream_of_each_scope() {
        let (_folder, file) = write("device,t,power_w\ngpu1,0,1\ngpu0,0,1\nnode,0,9\n");
        let replay = Replay::open(&file, "replay").unwrap();
        let streams: Vec<_> = replay
            .streams()
            .iter()
            .map(|stream| (stream.entry.id.as_str(), stream.devices.join(" ")))
            .collect();
        let expected =
            [("replay-gpu-board", "gpu0 gpu1".to_owned()), ("replay-node", "node".to_owned())];
        assert_eq!(streams, expected);
    }

    #[test]
    fn what_is_wrong_with_a_file_is_named() {
        let message = |text: &str| {
            let (_folder, file) = write(text);
            Replay::open(&file, "replay").unwrap_err()
        };
        insta::assert_snapshot!(
            [
                message(""),
                message("t,power_w\n"),
                message("t,device,power_w\n"),
                message("t,device,power_w\nnoon,gpu0,1\n"),
                message("t,device,power_w\n0,gpu0,-1\n"),
                message("t,device,power_w\n0,fan,1\n"),
            ]
            .join("\n"),
            @r#"
            it is empty; expected t,device,power_w,energy_j
            it has no column "device"; expected t,device,power_w
            it has no rows; expected samples
            line 2: t is "noon"; expected seconds or RFC 3339
            line 2: power_w is "-1"; expected a number of 0 or more, or nothing
            device "fan" has no known scope; expected gpu0, module0, node, cpu0, dram0, pdu0 or alike
            "#
        );
    }
}
