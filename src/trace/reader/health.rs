//! The columns of `power.parquet` that tell whether an accelerator could do its best.

use std::collections::BTreeMap;

use wattrace_schema::tables::power_column as column;
use wattrace_schema::{AcceleratorSamples, RunManifest, Scope};

use super::file::TableFile;
use super::{extend_options, permuted, sorted_order};
use crate::TraceError;

/// Columns of which one at least must be there.
const HEALTH: [&str; 3] = [column::temperature_c, column::sm_clock_mhz, column::throttle_reasons];

/// Temperatures, clocks and throttle reasons of every accelerator that has any, on the clock of the run,
/// in the order of source index, then device name.
///
/// Rows whose source is not an accelerator's are left out; an unknown source is for the reader of power
/// to refuse. A time that the source's offset would move out of range is left out too.
pub(crate) fn read_health(
    file: &TableFile,
    manifest: &RunManifest,
) -> Result<Vec<AcceleratorSamples>, TraceError> {
    if !HEALTH.iter().any(|name| file.has_column(name)) {
        return Ok(Vec::new());
    }
    let mut devices: BTreeMap<(usize, String), AcceleratorSamples> = BTreeMap::new();
    let columns = [column::t, column::source, column::device, HEALTH[0], HEALTH[1], HEALTH[2]];
    file.read(&columns, |batch| {
        let times = batch.required_times(column::t)?;
        let sources = batch.required_labels(column::source)?;
        let names = batch.required_labels(column::device)?;
        let (Some(sources), Some(names)) = (sources, names) else { return Ok(()) };
        let rows = batch.rows();
        let (mut temperatures, mut clocks, mut throttling) = (Vec::new(), Vec::new(), Vec::new());
        extend_options(&mut temperatures, rows, batch.numbers::<f32>(column::temperature_c)?);
        extend_options(&mut clocks, rows, batch.numbers::<u32>(column::sm_clock_mhz)?);
        extend_options(&mut throttling, rows, batch.numbers::<u64>(column::throttle_reasons)?);
        for row in 0..rows {
            let says_something =
                temperatures[row].is_some() || clocks[row].is_some() || throttling[row].is_some();
            let source = accelerator_source(manifest, sources.text(row));
            let Some((index, offset_ns)) = source.filter(|_| says_something) else { continue };
            let Some(t_ns) = times[row].checked_add(offset_ns) else { continue };
            let name = names.text(row).to_owned();
            let samples = devices.entry((index, name)).or_insert_with_key(|(_, name)| {
                AcceleratorSamples { device: name.clone(), ..AcceleratorSamples::default() }
            });
            samples.t_ns.push(t_ns);
            samples.temperature_c.push(temperatures[row]);
            samples.sm_clock_mhz.push(clocks[row]);
            samples.throttle_reasons.push(throttling[row]);
        }
        Ok(())
    })?;
    Ok(devices.into_values().map(in_order_of_time).collect())
}

/// Index and clock offset of the accelerator source with that id.
fn accelerator_source(manifest: &RunManifest, id: &str) -> Option<(usize, i64)> {
    let index = manifest.power_sources.iter().position(|source| source.id == id)?;
    let source = &manifest.power_sources[index];
    matches!(source.scope, Scope::GpuBoard | Scope::GpuModule)
        .then(|| (index, source.clock_offset_ns.unwrap_or(0)))
}

/// Sorts by time, then by value, so that the order of rows in the file does not matter.
fn in_order_of_time(samples: AcceleratorSamples) -> AcceleratorSamples {
    let key = |row: usize| {
        (
            samples.t_ns[row],
            samples.throttle_reasons[row],
            samples.sm_clock_mhz[row],
            samples.temperature_c[row].map(f32::to_bits),
        )
    };
    match sorted_order(samples.t_ns.len(), |a, b| key(a).cmp(&key(b))) {
        None => samples,
        Some(order) => AcceleratorSamples {
            t_ns: permuted(&samples.t_ns, &order),
            temperature_c: permuted(&samples.temperature_c, &order),
            sm_clock_mhz: permuted(&samples.sm_clock_mhz, &order),
            throttle_reasons: permuted(&samples.throttle_reasons, &order),
            device: samples.device,
        },
    }
}
