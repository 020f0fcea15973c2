//! NVIDIA boards, by the answers of a DCGM exporter.
//!
//! The exporter reads the boards at an interval of its own, and gives the same values until then. That
//! interval is found on opening, by asking until values have changed twice.

use std::time::{Duration, Instant};

use wattrace_schema::{Reading as ReadingKind, Scope};
use wattrace_trace::format::dcgm::{
    AVERAGE_MS, BoardReading, Exporter, Scrape, plain_power_is_instant,
};

use super::{HardwareFacts, PowerSource, Reading, Sample, Stream};
use crate::clock::{Clock, Span};
use crate::http::{Client, Failure, HttpOptions};

/// Time between questions while the exporter's interval is looked for, and how long that may take.
const WATCH_EVERY: Duration = Duration::from_millis(100);
const WATCH_FOR: Duration = Duration::from_secs(3);

/// The exporter's interval unless it was started with another.
const DEFAULT_REFRESH_MS: f64 = 30_000.0;

/// Where a board's power comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Power {
    /// The metric of instant power; the plain one goes beside it.
    Instant,
    Plain,
}

/// A board that is recorded.
#[derive(Debug)]
struct Board {
    /// Its place among the exporter's boards.
    place: usize,
    stream: usize,
    device: usize,
    power: Power,
    has_power: bool,
    has_counter: bool,
}

/// Every board of an exporter.
#[derive(Debug)]
pub(super) struct Dcgm {
    client: Client,
    exporter: Exporter,
    streams: Vec<Stream>,
    boards: Vec<Board>,
    notes: Vec<String>,
}

impl Dcgm {
    pub(super) fn open(url: &str, id: &str, options: &HttpOptions) -> Result<Self, String> {
        let mut source = Self {
            client: Client::new(url, "text/plain", options, None)?,
            exporter: Exporter::default(),
            streams: Vec::new(),
            boards: Vec::new(),
            notes: Vec::new(),
        };
        let scrape = source.scrape().map_err(|failure| failure.message())?;
        if scrape.boards.is_empty() {
            return Err(format!(
                "{} is answered without boards; expected the metrics of a DCGM exporter, such as \
                 DCGM_FI_DEV_POWER_USAGE",
                source.path()
            ));
        }
        for (place, reading) in &scrape.boards {
            source.add(id, *place, reading);
        }
        if source.boards.is_empty() {
            return Err(
                "none of its boards tells its power; expected DCGM_FI_DEV_POWER_USAGE".into()
            );
        }
        if scrape.has_instances {
            source.notes.push(
                "DCGM: MIG instances repeat the values of their board, which are taken once".into(),
            );
        }
        if options.insecure && source.client.address().is_encrypted() {
            source.notes.push(format!(
                "DCGM: what {} answered was not verified by its certificate (--insecure)",
                source.client.host()
            ));
        }
        source.watch(scrape);
        Ok(source)
    }

    /// The path that metrics are asked for: an address without one means the usual.
    fn path(&self) -> &str {
        if self.client.path() == "/" { "/metrics" } else { self.client.path() }
    }

    fn scrape(&mut self) -> Result<Scrape, Failure> {
        let answer = self.client.get(self.path())?;
        let scrape = self.exporter.read(&answer.text);
        if scrape.boards.is_empty() && scrape.unreadable > 0 {
            return Err(Failure::new("the answer is no Prometheus text"));
        }
        Ok(scrape)
    }

    fn add(&mut self, id: &str, place: usize, reading: &BoardReading) {
        let name = self.exporter.names()[place].clone();
        let (power, has_power) = match (reading.instant_power_w, reading.power_w) {
            (Some(_), _) => (Power::Instant, true),
            (None, power_w) => (Power::Plain, power_w.is_some()),
        };
        let has_counter = reading.energy_j.is_some();
        if !has_power && !has_counter {
            self.notes
                .push(format!("DCGM: {name} is not recorded: it tells neither power nor energy"));
            return;
        }
        // The exporter may serve several models; the plain metric means the same on all of them or is
        // taken for the mean, which it is on newer ones.
        let models = self.exporter.models();
        let is_instant = power == Power::Instant
            || !models.is_empty() && models.iter().all(|model| plain_power_is_instant(model));
        let (id, kind) = match is_instant {
            true => (id.to_owned(), ReadingKind::Instant),
            false => (format!("{id}-average"), ReadingKind::Average),
        };
        let stream = self.streams.iter().position(|stream| stream.entry.id == id);
        let stream = stream.unwrap_or_else(|| {
            let mut stream = Stream::new(&id, Scope::GpuBoard, kind);
            stream.entry.averaging_window_ms = (!is_instant).then_some(AVERAGE_MS);
            self.streams.push(stream);
            self.streams.len() - 1
        });
        self.streams[stream].devices.push(name);
        let device = self.streams[stream].devices.len() - 1;
        self.boards.push(Board { place, stream, device, power, has_power, has_counter });
    }

    /// Asks until the values have changed twice: the time between is the exporter's interval.
    fn watch(&mut self, first: Scrape) {
        let begin = Instant::now();
        let mut last = first;
        let mut changed = None;
        let mut longest = Duration::ZERO;
        let refresh_ms = loop {
            std::thread::sleep(WATCH_EVERY);
            if begin.elapsed() > WATCH_FOR {
                break None;
            }
            let asked = Instant::now();
            // One that fails says nothing about the exporter.
            let Ok(scrape) = self.scrape() else { continue };
            longest = longest.max(asked.elapsed());
            if scrape.boards == last.boards {
                continue;
            }
            last = scrape;
            let now = Instant::now();
            if let Some(before) = changed.replace(now) {
                break Some((now - before).as_secs_f64() * 1e3);
            }
        };
        // What was seen is exact to the time between questions.
        let every_ms = WATCH_EVERY.as_secs_f64() * 1e3;
        let refresh_ms = refresh_ms.map(|ms| (ms / every_ms).round().max(1.0) * every_ms);
        let how = match refresh_ms {
            Some(ms) => format!("about every {ms} ms, as seen on opening"),
            None => format!(
                "less often than twice in 3 s, as seen on opening; {DEFAULT_REFRESH_MS} ms, its default, is \
                 assumed"
            ),
        };
        self.notes.push(format!(
            "DCGM: the exporter refreshes its values {how}; a value may be older than its row by that much"
        ));
        for stream in &mut self.streams {
            stream.entry.counter_refresh_ms = Some(refresh_ms.unwrap_or(DEFAULT_REFRESH_MS));
            stream.answers_within(longest);
        }
    }
}

impl Board {
    fn sample(&self, reading: &BoardReading, failures: &mut Vec<String>) -> Sample {
        let (power_w, average_power_w) = match self.power {
            Power::Instant => (reading.instant_power_w, reading.power_w),
            Power::Plain => (reading.power_w, None),
        };
        let power_w = power_w.filter(|power_w| *power_w <= Scope::GpuBoard.power_ceiling_w());
        if self.has_power && power_w.is_none() {
            failures.push("power: the answer has no possible value".to_owned());
        }
        if self.has_counter && reading.energy_j.is_none() {
            failures.push("energy: the answer has no possible value".to_owned());
        }
        Sample {
            power_w,
            energy_j: reading.energy_j,
            temperature_c: reading.temperature_c,
            sm_clock_mhz: reading.sm_clock_mhz,
            mem_clock_mhz: reading.mem_clock_mhz,
            memory_used_bytes: reading.memory_used_bytes,
            utilization_percent: reading.utilization_percent,
            throttle_reasons: reading.throttle_reasons,
            average_power_w,
        }
    }
}

impl PowerSource for Dcgm {
    fn streams(&self) -> &[Stream] {
        &self.streams
    }

    /// The exporter refreshes once a second at most, as a rule.
    fn default_interval_ms(&self) -> f64 {
        1000.0
    }

    fn read(&mut self, clock: &dyn Clock, readings: &mut Vec<Reading>) {
        let (span, scrape) = Span::of(clock, || self.scrape());
        for board in &self.boards {
            let mut failures = Vec::new();
            let sample = match &scrape {
                Ok(scrape) => match scrape.boards.get(&board.place) {
                    Some(reading) => board.sample(reading, &mut failures),
                    None => {
                        failures.push("the board is not in the answer".to_owned());
                        Sample::default()
                    }
                },
                Err(failure) => {
                    failures.push(failure.cause.clone());
                    Sample::default()
                }
            };
            let (stream, device) = (board.stream, board.device);
            readings.push(Reading { stream, device, span, sample, failures });
        }
    }

    fn hardware(&self) -> HardwareFacts {
        let models = self.exporter.models();
        HardwareFacts {
            accelerator: (models.len() == 1).then(|| models.first().cloned()).flatten(),
            count: u32::try_from(self.boards.len()).ok(),
            driver: self.exporter.driver().map(str::to_owned),
        }
    }

    fn notes(&self) -> Vec<String> {
        self.notes.clone()
    }
}

#[cfg(test)]
mod tests;
