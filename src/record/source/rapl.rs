//! Energy counters of CPU packages and memory under `/sys/class/powercap`.
//!
//! A package contains its cores and uncore, so only packages and the memory beside them are read. The
//! counters give energy, not power: `power_w` stays null.

use std::path::{Path, PathBuf};

use wattrace_schema::{Reading as ReadingKind, Scope};

use super::sysfs::{folders, number, text};
use super::{PowerSource, Reading, Sample, Stream};
use crate::clock::{Clock, Span};

const JOULES_PER_MICROJOULE: f64 = 1e-6;

/// The counters, by stream and device.
#[derive(Debug)]
pub(super) struct Rapl {
    streams: Vec<Stream>,
    counters: Vec<Vec<PathBuf>>,
    notes: Vec<String>,
}

impl Rapl {
    pub(super) fn open(root: &Path, id: &str) -> Result<Self, String> {
        let parent = root.join("sys/class/powercap");
        let mut rapl = Self { streams: Vec::new(), counters: Vec::new(), notes: Vec::new() };
        for folder in folders(&parent, "intel-rapl:")? {
            let Some(name) = text(&folder.join("name")) else { continue };
            let (scope, device) = if let Some(package) = name.strip_prefix("package-") {
                (Scope::Cpu, format!("cpu{package}"))
            } else if name == "dram" {
                (Scope::Dram, format!("dram{}", package_of(&folder)?))
            } else {
                let reason = if name == "psys" {
                    "it measures the platform, which contains the packages"
                } else {
                    "its package contains it"
                };
                rapl.notes.push(format!("RAPL domain {name} is not recorded: {reason}"));
                continue;
            };
            let counter = folder.join("energy_uj");
            number(&counter).map_err(|problem| {
                format!(
                    "\"{}\": {problem}; expected a file that can be read (since 2020 only root may, \
                     unless it is granted)",
                    counter.display()
                )
            })?;
            // The counter starts again from zero after its largest value.
            let wrap_j = number(&folder.join("max_energy_range_uj"))
                .ok()
                .filter(|range_uj| *range_uj > 0.0)
                .map(|range_uj| (range_uj + 1.0) * JOULES_PER_MICROJOULE);
            rapl.add(id, scope, device, wrap_j, counter);
        }
        if rapl.streams.is_empty() {
            return Err(format!(
                "\"{}\" holds no package; expected intel-rapl:0",
                parent.display()
            ));
        }
        Ok(rapl)
    }

    /// Adds a device to the stream of its scope and range, or to a new one.
    fn add(
        &mut self,
        id: &str,
        scope: Scope,
        device: String,
        wrap_j: Option<f64>,
        counter: PathBuf,
    ) {
        let is_same =
            |stream: &Stream| stream.entry.scope == scope && stream.entry.counter_wrap_j == wrap_j;
        let place = self.streams.iter().position(is_same).unwrap_or_else(|| {
            let name = format!("{id}-{}", scope.name());
            let others = self.streams.iter().filter(|stream| stream.entry.scope == scope).count();
            let name = if others == 0 { name } else { format!("{name}-{}", others + 1) };
            let mut stream = Stream::new(&name, scope, ReadingKind::Instant);
            stream.entry.counter_wrap_j = wrap_j;
            self.streams.push(stream);
            self.counters.push(Vec::new());
            self.streams.len() - 1
        });
        self.streams[place].devices.push(device);
        self.counters[place].push(counter);
    }
}

/// The package that a domain such as `intel-rapl:1:0` belongs to.
fn package_of(folder: &Path) -> Result<String, String> {
    let name = folder.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let package = name.split(':').nth(1);
    package.map(str::to_owned).ok_or_else(|| format!("domain \"{name}\" belongs to no package"))
}

impl PowerSource for Rapl {
    fn streams(&self) -> &[Stream] {
        &self.streams
    }

    fn read(&mut self, clock: &dyn Clock, readings: &mut Vec<Reading>) {
        for (stream, counters) in self.counters.iter().enumerate() {
            for (device, counter) in counters.iter().enumerate() {
                let (span, value) = Span::of(clock, || number(counter));
                let energy_j = value.as_ref().ok().map(|value| value * JOULES_PER_MICROJOULE);
                let sample = Sample { energy_j, ..Sample::default() };
                let failures = value.err().into_iter().collect();
                readings.push(Reading { stream, device, span, sample, failures });
            }
        }
    }

    fn notes(&self) -> Vec<String> {
        self.notes.clone()
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::clock::SystemClock;

    fn domain(root: &Path, folder: &str, name: &str, energy_uj: &str, range_uj: &str) {
        let folder = root.join("sys/class/powercap").join(folder);
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("name"), format!("{name}\n")).unwrap();
        fs::write(folder.join("energy_uj"), format!("{energy_uj}\n")).unwrap();
        fs::write(folder.join("max_energy_range_uj"), format!("{range_uj}\n")).unwrap();
    }

    #[test]
    fn packages_and_memory_are_read_and_cores_are_not_counted_twice() {
        let root = tempfile::tempdir().unwrap();
        let range = "262143328850";
        domain(root.path(), "intel-rapl:0", "package-0", "1500000", range);
        domain(root.path(), "intel-rapl:0:0", "core", "900000", range);
        domain(root.path(), "intel-rapl:0:1", "dram", "250000", "65712999613");
        domain(root.path(), "intel-rapl:1", "package-1", "2500000", range);
        domain(root.path(), "intel-rapl:1:0", "dram", "350000", "65712999613");
        let mut rapl = Rapl::open(root.path(), "rapl").unwrap();
        let shown: Vec<_> = rapl
            .streams()
            .iter()
            .map(|stream| {
                let wrap_j = stream.entry.counter_wrap_j.unwrap();
                format!("{} {} {wrap_j}", stream.entry.id, stream.devices.join(" "))
            })
            .collect();
        // The counter counts whole microjoules up to its range, so it wraps after range + 1 of them.
        assert_eq!(
            shown,
            ["rapl-cpu cpu0 cpu1 262143.328851", "rapl-dram dram0 dram1 65712.999614"]
        );
        assert_eq!(rapl.notes(), ["RAPL domain core is not recorded: its package contains it"]);
        let mut readings = Vec::new();
        rapl.read(&SystemClock, &mut readings);
        let energies: Vec<_> = readings.iter().map(|r| r.sample.energy_j.unwrap()).collect();
        assert_eq!(energies, [1.5, 2.5, 0.25, 0.35]);
        // A domain that vanishes is a failure of its own, and the others go on.
        fs::remove_file(root.path().join("sys/class/powercap/intel-rapl:1/energy_uj")).unwrap();
        readings.clear();
        rapl.read(&SystemClock, &mut readings);
        assert_eq!(readings[1].sample, Sample::default());
        assert_eq!(readings[1].failures, ["entity not found"]);
        assert_eq!(readings[3].sample.energy_j, Some(0.35));
    }

    #[test]
    fn a_machine_without_packages_is_an_error() {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir_all(root.path().join("sys/class/powercap")).unwrap();
        let message = Rapl::open(root.path(), "rapl").unwrap_err();
        assert!(message.ends_with("holds no package; expected intel-rapl:0"), "{message}");
    }
}
