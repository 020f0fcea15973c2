//! Power and energy sensors under `/sys/class/hwmon`.
//!
//! What a sensor measures is known by the driver's name and the sensor's label only; sensors that are not
//! known, or that another one contains, are left out and said so.

use std::path::{Path, PathBuf};

use wattrace_schema::{Reading as ReadingKind, Scope};

use super::sysfs::{folders, number, text};
use super::{PowerSource, Reading, Sample, Stream};
use crate::clock::{Clock, Span};

const WATTS_PER_MICROWATT: f64 = 1e-6;
const JOULES_PER_MICROJOULE: f64 = 1e-6;

/// Sensors that a chip may have of one kind; the kernel numbers them from 1.
const MOST_SENSORS: u32 = 32;

/// Where a sensor's values stand.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
struct Files {
    power: Option<PathBuf>,
    energy: Option<PathBuf>,
}

/// One sensor before it has found its stream.
#[derive(Debug)]
struct Sensor {
    scope: Scope,
    device: &'static str,
    reading: ReadingKind,
    averaging_window_ms: Option<f64>,
    files: Files,
}

/// The sensors, by stream and device.
#[derive(Debug)]
pub(super) struct Hwmon {
    streams: Vec<Stream>,
    files: Vec<Vec<Files>>,
    notes: Vec<String>,
}

impl Hwmon {
    pub(super) fn open(root: &Path, id: &str) -> Result<Self, String> {
        let parent = root.join("sys/class/hwmon");
        let mut hwmon = Self { streams: Vec::new(), files: Vec::new(), notes: Vec::new() };
        for folder in folders(&parent, "hwmon")? {
            let Some(chip) = text(&folder.join("name")) else { continue };
            for number in 1..=MOST_SENSORS {
                for kind in ["power", "energy"] {
                    if let Some(sensor) = hwmon.sensor(&folder, &chip, kind, number) {
                        hwmon.add(id, sensor);
                    }
                }
            }
        }
        if hwmon.streams.is_empty() {
            return Err(format!("\"{}\" holds no power sensor that is known", parent.display()));
        }
        Ok(hwmon)
    }

    /// The sensor `kind``number` of a chip, if it is there and known.
    fn sensor(&mut self, folder: &Path, chip: &str, kind: &str, number: u32) -> Option<Sensor> {
        let file = |suffix: &str| {
            let path = folder.join(format!("{kind}{number}_{suffix}"));
            path.exists().then_some(path)
        };
        let instant = file("input");
        let (path, reading) = match instant {
            Some(path) => (path, ReadingKind::Instant),
            None => (file("average")?, ReadingKind::Average),
        };
        let label = file("label").and_then(|path| text(&path)).unwrap_or_default();
        let Some((scope, device)) = measured(chip, &label) else {
            let name = if label.is_empty() { format!("{kind}{number}") } else { label };
            self.notes.push(format!("sensor {name} of {chip} is not recorded: {UNKNOWN}"));
            return None;
        };
        let window = file("average_interval").and_then(|path| sysfs_number(&path));
        let averaging_window_ms =
            window.filter(|window_ms| *window_ms > 0.0 && reading == ReadingKind::Average);
        let files = match kind {
            "power" => Files { power: Some(path), energy: None },
            _ => Files { power: None, energy: Some(path) },
        };
        Some(Sensor { scope, device, reading, averaging_window_ms, files })
    }

    /// Adds a sensor to the stream of its scope and reading, or to a new one. Power and energy of one
    /// device share its rows.
    fn add(&mut self, id: &str, sensor: Sensor) {
        let is_same = |stream: &Stream| {
            stream.entry.scope == sensor.scope
                && stream.entry.reading == sensor.reading
                && stream.entry.averaging_window_ms == sensor.averaging_window_ms
        };
        let place = self.streams.iter().position(is_same).unwrap_or_else(|| {
            let name = format!("{id}-{}", sensor.scope.name());
            let others = self.streams.iter().filter(|s| s.entry.scope == sensor.scope).count();
            let name = if others == 0 { name } else { format!("{name}-{}", others + 1) };
            let mut stream = Stream::new(&name, sensor.scope, sensor.reading);
            stream.entry.averaging_window_ms = sensor.averaging_window_ms;
            self.streams.push(stream);
            self.files.push(Vec::new());
            self.streams.len() - 1
        });
        let files = &mut self.files[place];
        match files.last_mut() {
            Some(last)
                if last.power.is_some() != sensor.files.power.is_some()
                    && last.energy.is_none() =>
            {
                last.energy = sensor.files.energy;
            }
            _ => {
                let number = files.len();
                files.push(sensor.files);
                self.streams[place].devices.push(format!("{}{number}", sensor.device));
            }
        }
    }
}

const UNKNOWN: &str = "it is not known to measure a board, a module, a CPU or the node by itself";

fn sysfs_number(path: &Path) -> Option<f64> {
    number(path).ok()
}

/// What a sensor measures, and what its devices are called.
fn measured(chip: &str, label: &str) -> Option<(Scope, &'static str)> {
    match (chip, label) {
        ("amdgpu", "" | "PPT") => Some((Scope::GpuBoard, "gpu")),
        // The ACPI power meter: the node, or on NVIDIA superchips the parts that the label names.
        ("power_meter", "") => Some((Scope::Node, "node")),
        ("power_meter", label) if label.starts_with("Module Power") => {
            Some((Scope::GpuModule, "gpu"))
        }
        // CPU and SysIO power are parts of Grace power.
        ("power_meter", label) if label.starts_with("Grace Power") => Some((Scope::Cpu, "cpu")),
        // amd_energy: sockets contain cores.
        ("amd_energy", label) if label.starts_with("Esocket") => Some((Scope::Cpu, "cpu")),
        _ => None,
    }
}

impl PowerSource for Hwmon {
    fn streams(&self) -> &[Stream] {
        &self.streams
    }

    fn read(&mut self, clock: &dyn Clock, readings: &mut Vec<Reading>) {
        for (stream, sensors) in self.files.iter().enumerate() {
            for (device, files) in sensors.iter().enumerate() {
                let mut failures = Vec::new();
                let mut value = |path: &Option<PathBuf>, scale: f64| match number(path.as_ref()?) {
                    Ok(value) => Some(value * scale),
                    Err(cause) => {
                        failures.push(cause);
                        None
                    }
                };
                let (span, sample) = Span::of(clock, || Sample {
                    power_w: value(&files.power, WATTS_PER_MICROWATT),
                    energy_j: value(&files.energy, JOULES_PER_MICROJOULE),
                    ..Sample::default()
                });
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

    fn chip(root: &Path, number: u32, files: &[(&str, &str)]) {
        let folder = root.join(format!("sys/class/hwmon/hwmon{number}"));
        fs::create_dir_all(&folder).unwrap();
        for (name, text) in files {
            fs::write(folder.join(name), format!("{text}\n")).unwrap();
        }
    }

    #[test]
    fn boards_the_node_and_superchip_parts_are_told_apart() {
        let root = tempfile::tempdir().unwrap();
        chip(root.path(), 0, &[("name", "nvme"), ("temp1_input", "40000")]);
        chip(root.path(), 1, &[("name", "amdgpu"), ("power1_average", "250000000")]);
        chip(
            root.path(),
            2,
            &[
                ("name", "power_meter"),
                ("power1_average", "1500000000"),
                ("power1_average_interval", "1000"),
            ],
        );
        chip(
            root.path(),
            10,
            &[
                ("name", "power_meter"),
                ("power1_average", "600000000"),
                ("power1_average_interval", "50"),
                ("power1_label", "Module Power Socket 0"),
            ],
        );
        chip(
            root.path(),
            11,
            &[
                ("name", "power_meter"),
                ("power1_average", "90000000"),
                ("power1_label", "CPU Power Socket 0"),
            ],
        );
        let mut hwmon = Hwmon::open(root.path(), "hwmon").unwrap();
        let shown: Vec<_> = hwmon
            .streams()
            .iter()
            .map(|stream| {
                let window_ms = stream.entry.averaging_window_ms;
                format!("{} {} {window_ms:?}", stream.entry.id, stream.devices.join(" "))
            })
            .collect();
        assert_eq!(
            shown,
            [
                "hwmon-gpu-board gpu0 None",
                "hwmon-node node0 Some(1000.0)",
                "hwmon-gpu-module gpu0 Some(50.0)"
            ]
        );
        assert_eq!(hwmon.notes().len(), 1, "{:?}", hwmon.notes());
        let mut readings = Vec::new();
        hwmon.read(&SystemClock, &mut readings);
        let powers: Vec<_> = readings.iter().map(|r| r.sample.power_w.unwrap()).collect();
        assert_eq!(powers, [250.0, 1500.0, 600.0]);
    }

    #[test]
    fn sockets_of_amd_energy_are_counters() {
        let root = tempfile::tempdir().unwrap();
        chip(
            root.path(),
            0,
            &[
                ("name", "amd_energy"),
                ("energy1_input", "1"),
                ("energy1_label", "Ecore000"),
                ("energy2_input", "7500000"),
                ("energy2_label", "Esocket0"),
            ],
        );
        let mut hwmon = Hwmon::open(root.path(), "hwmon").unwrap();
        let mut readings = Vec::new();
        hwmon.read(&SystemClock, &mut readings);
        assert_eq!(readings.len(), 1);
        assert_eq!((readings[0].sample.energy_j, readings[0].sample.power_w), (Some(7.5), None));
    }
}
