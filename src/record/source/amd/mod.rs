//! AMD boards, through AMD's management library: amd-smi's, or ROCm SMI's where that is absent.
//!
//! A board is what amd-smi calls a socket. In partitioned modes (CPX and alike) it has several processors,
//! of which the first tells the power of the whole board; only that one is read.

mod amd_smi;
mod library;
mod rocm_smi;

use std::path::Path;

use wattrace_schema::{Reading as ReadingKind, Scope};

use super::{HardwareFacts, PowerSource, Reading, Sample, Stream};
use crate::clock::{Clock, Span};
use library::{Call, CallError, Kind, ManagementLibrary};

/// Time between reads of what changes slowly; see the same of NVML.
const SLOW_NS: i64 = 1_000_000_000;

const JOULES_PER_MICROJOULE: f64 = 1e-6;

/// One board.
#[derive(Debug)]
struct Board {
    /// Its number in the library.
    number: usize,
    stream: usize,
    device: usize,
    kind: Kind,
    has_counter: bool,
    /// Which of the slow calls it answers.
    slow: Slow,
    last_slow_ns: Option<i64>,
}

#[derive(Debug, Clone, Copy, Default)]
struct Slow {
    temperature: bool,
    sm_clock: bool,
    mem_clock: bool,
    memory: bool,
    utilization: bool,
}

/// Every board that the library lists.
#[derive(Debug)]
pub(super) struct Amd {
    library: Box<dyn ManagementLibrary>,
    streams: Vec<Stream>,
    boards: Vec<Board>,
    facts: HardwareFacts,
    notes: Vec<String>,
}

impl Amd {
    pub(super) fn open(library: Option<&Path>, id: &str) -> Result<Self, String> {
        let (library, refused) = library::load(library)?;
        let mut source = Self {
            library,
            streams: Vec::new(),
            boards: Vec::new(),
            facts: HardwareFacts::default(),
            notes: Vec::new(),
        };
        source.notes.extend(source.library.notes());
        if !refused.is_empty() {
            source.notes.push(format!("AMD: tried before and not used: {}", refused.join("; ")));
        }
        let count = source.library.boards();
        for number in 0..count {
            source.add(id, number);
        }
        if source.boards.is_empty() {
            return Err(format!("none of {count} boards tells its power; expected one or more"));
        }
        source.facts.count = u32::try_from(source.boards.len()).ok();
        source.facts.driver = source.library.driver();
        Ok(source)
    }

    fn add(&mut self, id: &str, number: usize) {
        let library = &self.library;
        let name = format!("gpu{number}");
        if let Some(model) = library.model(number) {
            match &self.facts.accelerator {
                None => self.facts.accelerator = Some(model),
                Some(first) if *first != model => {
                    self.notes
                        .push(format!("{name} is a {model}, unlike the first board, {first}"));
                }
                Some(_) => (),
            }
        }
        // A die whose package another one speaks for has a counter at most; to add it may count the
        // package twice.
        let kinds = [Kind::Current, Kind::Average];
        let kind = kinds.into_iter().find(|kind| is_supported(&library.power_w(number, *kind)));
        let Some(kind) = kind else {
            self.notes.push(format!(
                "{name} is not recorded: it does not tell its power, as the second die of a package does not"
            ));
            return;
        };
        let slow = Slow {
            temperature: is_supported(&library.temperature_c(number)),
            sm_clock: is_supported(&library.sm_clock_mhz(number)),
            mem_clock: is_supported(&library.mem_clock_mhz(number)),
            memory: is_supported(&library.memory_used_bytes(number)),
            utilization: is_supported(&library.utilization_percent(number)),
        };
        // Boards without a counter may give one that stays at zero.
        let energy_uj = library.energy_uj(number);
        let has_counter = is_supported(&energy_uj) && energy_uj != Ok(0.0);
        let (id, reading) = match kind {
            Kind::Current => (id.to_owned(), ReadingKind::Instant),
            Kind::Average => (format!("{id}-average"), ReadingKind::Average),
        };
        let stream = self.streams.iter().position(|stream| stream.entry.id == id);
        let stream = stream.unwrap_or_else(|| {
            self.streams.push(Stream::new(&id, Scope::GpuBoard, reading));
            self.streams.len() - 1
        });
        self.streams[stream].devices.push(name);
        let device = self.streams[stream].devices.len() - 1;
        let last_slow_ns = None;
        self.boards.push(Board { number, stream, device, kind, has_counter, slow, last_slow_ns });
    }
}

/// Whether a call is answered at all; one that fails for another reason may work the next time.
fn is_supported<T>(result: &Call<T>) -> bool {
    !matches!(result, Err(CallError::NotSupported))
}

impl Board {
    fn read(&mut self, library: &dyn ManagementLibrary, clock: &dyn Clock) -> Reading {
        let number = self.number;
        let mut failures = Vec::new();
        let (span, (power_w, energy_uj)) = Span::of(clock, || {
            let power_w = library.power_w(number, self.kind);
            (power_w, self.has_counter.then(|| library.energy_uj(number)))
        });
        let mut sample = Sample {
            power_w: take("power", power_w.and_then(possible_power), &mut failures),
            energy_j: energy_uj.and_then(|energy_uj| {
                take("energy", energy_uj, &mut failures).map(|uj| uj * JOULES_PER_MICROJOULE)
            }),
            ..Sample::default()
        };
        if self.last_slow_ns.is_none_or(|last_ns| span.start_ns - last_ns >= SLOW_NS) {
            self.last_slow_ns = Some(span.start_ns);
            self.read_slow(library, &mut sample, &mut failures);
        }
        Reading { stream: self.stream, device: self.device, span, sample, failures }
    }

    fn read_slow(
        &self,
        library: &dyn ManagementLibrary,
        sample: &mut Sample,
        failures: &mut Vec<String>,
    ) {
        let (number, slow) = (self.number, self.slow);
        if slow.temperature {
            sample.temperature_c = take("temperature", library.temperature_c(number), failures);
        }
        if slow.sm_clock {
            sample.sm_clock_mhz = take("clock", library.sm_clock_mhz(number), failures);
        }
        if slow.mem_clock {
            sample.mem_clock_mhz = take("memory clock", library.mem_clock_mhz(number), failures);
        }
        if slow.memory {
            sample.memory_used_bytes = take("memory", library.memory_used_bytes(number), failures);
        }
        if slow.utilization {
            sample.utilization_percent =
                take("utilisation", library.utilization_percent(number), failures);
        }
    }
}

/// Power that a board can draw. A board that runs draws some.
fn possible_power(power_w: f64) -> Call<f64> {
    if power_w > 0.0 && power_w <= Scope::GpuBoard.power_ceiling_w() {
        Ok(power_w)
    } else {
        Err(CallError::Impossible)
    }
}

/// Takes a value, or notes why there is none.
fn take<T>(what: &str, result: Call<T>, failures: &mut Vec<String>) -> Option<T> {
    result.map_err(|error| failures.push(format!("{what}: {error}"))).ok()
}

impl PowerSource for Amd {
    fn streams(&self) -> &[Stream] {
        &self.streams
    }

    fn read(&mut self, clock: &dyn Clock, readings: &mut Vec<Reading>) {
        for board in &mut self.boards {
            readings.push(board.read(&*self.library, clock));
        }
    }

    fn hardware(&self) -> HardwareFacts {
        self.facts.clone()
    }

    fn notes(&self) -> Vec<String> {
        self.notes.clone()
    }
}
