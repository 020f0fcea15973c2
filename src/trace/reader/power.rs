//! `power.parquet`: rows in file order, then clean series by device.

use std::borrow::Cow;
use std::collections::BTreeMap;

use wattrace_schema::tables::power_column;
use wattrace_schema::{DevicePower, RunManifest, Series};

use super::column::{Batch, Labels, Values};
use super::file::TableFile;
use crate::finding::{Finding, NEGATIVE_POWER, NOT_FINITE_POWER, Severity};
use crate::manifest::RUN_JSON;
use crate::{RunLocation, TraceError};

/// Stands for "no valid value" in [`DeviceRows`]; no valid value is NaN.
const ABSENT: f64 = f64::NAN;

/// Columns that are read.
pub(crate) const COLUMNS: [&str; 5] = [
    power_column::t,
    power_column::source,
    power_column::device,
    power_column::power_w,
    power_column::energy_j,
];

/// The rows of one device of one source, in file order, on the clock of the run.
#[derive(Debug, Default)]
pub(crate) struct DeviceRows {
    /// Index into `manifest.power_sources`.
    pub(crate) source: usize,
    pub(crate) device: String,
    pub(crate) t_ns: Vec<i64>,
    /// NaN where the file has null or an invalid value.
    pub(crate) power_w: Vec<f64>,
    /// NaN where the file has null or an invalid value.
    pub(crate) energy_j: Vec<f64>,
    /// Row of the file behind each element; empty unless it was asked for.
    pub(crate) row: Vec<u64>,
    /// Values of either column that are negative or not finite.
    pub(crate) invalid: usize,
}

/// Every row of `power.parquet`.
#[derive(Debug, Default)]
pub(crate) struct PowerRows {
    /// By source index, then device name.
    pub(crate) devices: Vec<DeviceRows>,
    /// Values that no measurement can have.
    pub(crate) findings: Vec<Finding>,
}

/// Values that are wrong in one way in one column: how many, and the first.
#[derive(Debug, Default)]
struct Wrong {
    count: u64,
    first: Option<(u64, f64, String)>,
}

impl Wrong {
    fn note(&mut self, row: u64, value: f64, device: &str) {
        self.count += 1;
        if self.first.is_none() {
            self.first = Some((row, value, device.to_owned()));
        }
    }

    fn finding(self, check: &'static str, column: &'static str, what: &str) -> Option<Finding> {
        let (row, value, device) = self.first?;
        let count = self.count;
        let values = if count == 1 { "value is" } else { "values are" };
        Some(Finding {
            check,
            severity: Severity::Error,
            file: wattrace_schema::tables::POWER.file.to_owned(),
            column: Some(column),
            row: Some(row),
            message: format!(
                "{count} {values} {what}, the first {value} of device \"{device}\"; \
                 expected a finite number of 0 or more, or null; left out"
            ),
        })
    }
}

/// Negative and not finite values of one column.
#[derive(Debug, Default)]
struct WrongValues {
    negative: Wrong,
    not_finite: Wrong,
}

impl WrongValues {
    fn note(&mut self, row: u64, value: f64, device: &str) {
        let wrong = if value.is_finite() { &mut self.negative } else { &mut self.not_finite };
        wrong.note(row, value, device);
    }

    fn findings(self, column: &'static str) -> impl Iterator<Item = Finding> {
        [
            self.negative.finding(NEGATIVE_POWER, column, "negative"),
            self.not_finite.finding(NOT_FINITE_POWER, column, "not finite"),
        ]
        .into_iter()
        .flatten()
    }
}

/// Collects batches into [`PowerRows`].
#[derive(Debug)]
struct Collector<'a> {
    manifest: &'a RunManifest,
    with_rows: bool,
    groups: Vec<DeviceRows>,
    by_name: BTreeMap<(usize, String), u32>,
    power: WrongValues,
    energy: WrongValues,
}

/// Reads every row and puts it on the clock of the run; with the row number of each if `with_rows`.
pub(crate) fn read_power(
    file: &TableFile,
    location: &RunLocation,
    manifest: &RunManifest,
    with_rows: bool,
) -> Result<PowerRows, TraceError> {
    let mut collector = Collector {
        manifest,
        with_rows,
        groups: Vec::new(),
        by_name: BTreeMap::new(),
        power: WrongValues::default(),
        energy: WrongValues::default(),
    };
    file.read(&COLUMNS, |batch| collector.add(&batch))?;
    let mut devices = collector.groups;
    devices.sort_by(|a, b| (a.source, &a.device).cmp(&(b.source, &b.device)));
    for rows in &mut devices {
        let offset = manifest.power_sources[rows.source].clock_offset_ns.unwrap_or(0);
        if let Some(t_ns) = rows.shift(offset) {
            return Err(out_of_range(location, rows, offset, t_ns));
        }
    }
    let findings = collector
        .power
        .findings(power_column::power_w)
        .chain(collector.energy.findings(power_column::energy_j))
        .collect();
    Ok(PowerRows { devices, findings })
}

impl Collector<'_> {
    fn add(&mut self, batch: &Batch<'_>) -> Result<(), TraceError> {
        let t_ns = batch.required_times(power_column::t)?;
        let sources = batch.required_labels(power_column::source)?;
        let devices = batch.required_labels(power_column::device)?;
        let (Some(sources), Some(devices)) = (sources, devices) else { return Ok(()) };
        let power = batch.numbers::<f64>(power_column::power_w)?;
        let energy = batch.numbers::<f64>(power_column::energy_j)?;
        let group_of = self.groups_of(batch, &sources, &devices)?;
        let mut rows = vec![0; self.groups.len()];
        for group in &group_of {
            rows[*group as usize] += 1;
        }
        for (group, rows) in self.groups.iter_mut().zip(rows) {
            group.reserve(rows, self.with_rows);
        }
        for (group, t) in group_of.iter().zip(t_ns.iter()) {
            self.groups[*group as usize].t_ns.push(*t);
        }
        if self.with_rows {
            for (group, row) in group_of.iter().zip(batch.first_row..) {
                self.groups[*group as usize].row.push(row);
            }
        }
        let Self { groups, power: wrong_power, energy: wrong_energy, .. } = self;
        add_values(groups, &group_of, power.as_ref(), |g| &mut g.power_w, wrong_power, batch);
        add_values(groups, &group_of, energy.as_ref(), |g| &mut g.energy_j, wrong_energy, batch);
        Ok(())
    }

    /// The group of every row of a batch.
    fn groups_of(
        &mut self,
        batch: &Batch<'_>,
        sources: &Labels<'_>,
        devices: &Labels<'_>,
    ) -> Result<Vec<u32>, TraceError> {
        let mut cells = GroupCells::new(sources, devices);
        let keys = sources.keys.iter().zip(devices.keys);
        keys.enumerate()
            .map(|(row, (source, device))| match cells.get(*source, *device) {
                Some(group) => Ok(group),
                None => {
                    let group = self.group(batch, row, sources, devices)?;
                    cells.set(*source, *device, group);
                    Ok(group)
                }
            })
            .collect()
    }

    /// The group of the source and device in `row`, made if it is new.
    fn group(
        &mut self,
        batch: &Batch<'_>,
        row: usize,
        sources: &Labels<'_>,
        devices: &Labels<'_>,
    ) -> Result<u32, TraceError> {
        let id = sources.text(row);
        let ids = &self.manifest.power_sources;
        let Some(source) = ids.iter().position(|source| source.id == id) else {
            let known: Vec<_> = ids.iter().map(|source| format!("\"{}\"", source.id)).collect();
            let expected = match known.as_slice() {
                [] => "an id of power_sources in run.json, which lists none".to_owned(),
                known => format!("an id of power_sources in run.json: {}", known.join(", ")),
            };
            let found = format!("\"{}\"", id.escape_debug());
            return Err(batch.value_error(power_column::source, row, found, expected));
        };
        let device = devices.text(row);
        let groups = &mut self.groups;
        Ok(*self.by_name.entry((source, device.to_owned())).or_insert_with(|| {
            groups.push(DeviceRows { source, device: device.to_owned(), ..DeviceRows::default() });
            // A file of four billion devices would not fit into memory.
            u32::try_from(groups.len() - 1).unwrap_or(u32::MAX)
        }))
    }
}

/// Appends the values of one column, with [`ABSENT`] for null and for invalid ones, which are noted.
fn add_values(
    groups: &mut [DeviceRows],
    group_of: &[u32],
    column: Option<&Values<'_, f64>>,
    target: impl Fn(&mut DeviceRows) -> &mut Vec<f64>,
    wrong: &mut WrongValues,
    batch: &Batch<'_>,
) {
    let Some(column) = column else {
        for group in groups {
            let rows = group.t_ns.len();
            target(group).resize(rows, ABSENT);
        }
        return;
    };
    for (row, (group, value)) in group_of.iter().zip(column.values.iter()).enumerate() {
        let group = &mut groups[*group as usize];
        let present = column.nulls.is_none_or(|nulls| nulls.is_valid(row));
        let value = if present { *value } else { ABSENT };
        let is_valid = (0.0..f64::INFINITY).contains(&value);
        target(group).push(if is_valid { value } else { ABSENT });
        if present && !is_valid {
            group.invalid += 1;
            wrong.note(batch.first_row + row as u64, value, &group.device);
        }
    }
}

/// Which group each pair of dictionary keys of a batch belongs to, as far as it was looked up.
#[derive(Debug)]
struct GroupCells {
    cells: Vec<u32>,
    devices: usize,
}

impl GroupCells {
    /// A batch with more pairs than this is looked up by name each time.
    const MAX: usize = 1 << 16;
    const UNKNOWN: u32 = u32::MAX;

    fn new(sources: &Labels<'_>, devices: &Labels<'_>) -> Self {
        let (sources, devices) = (sources.len(), devices.len());
        let cells = sources.saturating_mul(devices);
        let cells = if cells <= Self::MAX { vec![Self::UNKNOWN; cells] } else { Vec::new() };
        Self { cells, devices }
    }

    fn place(&self, source: i32, device: i32) -> Option<usize> {
        Some(usize::try_from(source).ok()? * self.devices + usize::try_from(device).ok()?)
    }

    fn get(&self, source: i32, device: i32) -> Option<u32> {
        let cell = *self.cells.get(self.place(source, device)?)?;
        (cell != Self::UNKNOWN).then_some(cell)
    }

    fn set(&mut self, source: i32, device: i32, group: u32) {
        let place = self.place(source, device);
        if let Some(cell) = place.and_then(|place| self.cells.get_mut(place)) {
            *cell = group;
        }
    }
}

impl PowerRows {
    /// Clean series.
    pub(crate) fn into_devices(self) -> Vec<DevicePower> {
        self.devices.into_iter().map(DeviceRows::into_device).collect()
    }
}

fn out_of_range(location: &RunLocation, rows: &DeviceRows, offset: i64, t_ns: i64) -> TraceError {
    TraceError::Manifest {
        path: location.folder.join(RUN_JSON),
        message: format!(
            "key \"power_sources[{}].clock_offset_ns\" is {offset}, which moves the time {t_ns} ns of \
             device \"{}\" out of the years 1678 to 2261",
            rows.source, rows.device
        ),
    }
}

impl DeviceRows {
    fn reserve(&mut self, rows: usize, with_rows: bool) {
        self.t_ns.reserve(rows);
        self.power_w.reserve(rows);
        self.energy_j.reserve(rows);
        if with_rows {
            self.row.reserve(rows);
        }
    }

    /// Adds `offset` to every time; gives back a time for which that overflows.
    fn shift(&mut self, offset: i64) -> Option<i64> {
        if offset == 0 {
            return None;
        }
        let extreme = if offset > 0 { self.t_ns.iter().max() } else { self.t_ns.iter().min() };
        if let Some(extreme) = extreme.filter(|t| t.checked_add(offset).is_none()) {
            return Some(*extreme);
        }
        for t in &mut self.t_ns {
            *t += offset;
        }
        None
    }

    fn into_device(mut self) -> DevicePower {
        let duplicate_times =
            if self.t_ns.is_sorted_by(|a, b| a < b) { 0 } else { self.sort_and_merge() };
        let energy_j = series(Cow::Borrowed(&self.t_ns), self.energy_j);
        let power_w = series(Cow::Owned(self.t_ns), self.power_w);
        DevicePower {
            source: self.source,
            device: self.device,
            power_w,
            energy_j,
            duplicate_times,
            invalid_samples: self.invalid,
        }
    }

    /// Sorts by time and makes one row of those that share a time: the mean of their power, the largest
    /// counter. Equal times are put in the order of their values first, since the rounding of a sum
    /// depends on its order. Returns how many rows were merged away.
    fn sort_and_merge(&mut self) -> usize {
        let mut order: Vec<(i64, f64, f64)> = (self.t_ns.iter().zip(&self.power_w))
            .zip(&self.energy_j)
            .map(|((t, power), energy)| (*t, *power, *energy))
            .collect();
        order.sort_unstable_by(|a, b| {
            a.0.cmp(&b.0).then(a.1.total_cmp(&b.1)).then(a.2.total_cmp(&b.2))
        });
        let rows = order.len();
        self.t_ns.clear();
        self.power_w.clear();
        self.energy_j.clear();
        for same in order.chunk_by(|a, b| a.0 == b.0) {
            self.t_ns.push(same[0].0);
            self.power_w.push(mean(same.iter().map(|row| row.1)));
            self.energy_j.push(same.iter().map(|row| row.2).fold(ABSENT, f64::max));
        }
        rows - self.t_ns.len()
    }
}

/// Mean of the values that are there; NaN if none is.
fn mean(values: impl Iterator<Item = f64> + Clone) -> f64 {
    let present = values.filter(|value| !value.is_nan());
    let count = present.clone().count() as f64;
    let sum: f64 = present.clone().sum();
    if sum.is_finite() { sum / count } else { present.map(|value| value / count).sum() }
}

/// The rows that have a value.
fn series(t_ns: Cow<'_, [i64]>, values: Vec<f64>) -> Series {
    let absent = values.iter().filter(|value| value.is_nan()).count();
    if absent == 0 {
        return Series { t_ns: t_ns.into_owned(), value: values };
    }
    if absent == values.len() {
        return Series::default();
    }
    let present = t_ns.iter().zip(&values).filter(|(_, value)| !value.is_nan());
    let (t_ns, value) = present.map(|(t, value)| (*t, *value)).unzip();
    Series { t_ns, value }
}
