//! A recording from its start to its run: threads that read, one that writes.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use wattrace_schema::{Model, RunKind, RunManifest, Scope, TimestampNs};

use crate::Stop;
use crate::clock::Clock;
use crate::context::Context;
use crate::cost::Cost;
use crate::describe::{Description, DescriptionError};
use crate::http::Address;
use crate::live::Live;
use crate::lock::lock;
use crate::metrics::{self, Endpoint};
use crate::proxy::{Proxy, ProxyError, ProxyRoute};
use crate::sampler::{Punctuality, Sampler};
use crate::source::{self, Devices, PowerSource, SourceError, SourceOptions, SourceSpecification};
use crate::steps::{self, LogPlace, StepsSource, StepsSpecification};
use crate::store::{Joined, RunPath, Stage, Store, StoreError};

/// What is recorded, and where to.
#[derive(Debug, Clone)]
pub struct RecordingOptions {
    /// Folder of the run.
    pub out: PathBuf,
    /// Power sources.
    pub power: Vec<SourceSpecification>,
    /// Time between reads, ms, by a source's name (`replay`: all that are called so) or by that and its
    /// place among them (`replay-1`, `replay-2`), which comes first; others take their default.
    pub intervals_ms: Vec<(String, f64)>,
    /// What opening a source may depend on.
    pub source: SourceOptions,
    /// Logs of decode iterations.
    pub steps: Vec<StepsSpecification>,
    /// Where engines give their metrics.
    pub metrics: Vec<Address>,
    /// Time between questions for metrics.
    pub metrics_interval: Duration,
    /// Proxies that observe requests on their way.
    pub proxies: Vec<ProxyRoute>,
    /// Keys of `run.json` that the user gives.
    pub description: Description,
    /// Time between writes to disk.
    pub flush: Duration,
    /// Free space to leave, B.
    pub keep_free_bytes: u64,
    /// Command line, for `provenance.command`.
    pub command: String,
}

/// Time between writes to disk unless the user says otherwise. A write takes milliseconds of processor time
/// however little it holds, so that more frequent ones would cost about as much as reading does.
pub const DEFAULT_FLUSH: Duration = Duration::from_secs(20);

/// Why a recording does not start, or did not become a run.
#[derive(Debug, thiserror::Error)]
pub enum RecordError {
    /// A power source cannot be opened.
    #[error(transparent)]
    Source(#[from] SourceError),
    /// The files cannot be written.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A proxy cannot listen.
    #[error(transparent)]
    Proxy(#[from] ProxyError),
    /// The description does not fit `run.json`.
    #[error(transparent)]
    Description(#[from] DescriptionError),
    /// A source is given twice.
    #[error("power source \"{specification}\" is given twice; expected each source once")]
    RepeatedSource {
        /// The source as the command line names it.
        specification: String,
    },
    /// An interval names no source of the recording.
    #[error("--interval names \"{name}\"; expected one of {known}")]
    UnknownInterval {
        /// The name as given.
        name: String,
        /// What could be named.
        known: String,
    },
    /// A log of decode iterations is there and cannot be read.
    #[error("cannot read \"{}\"", path.display())]
    Log {
        /// The log.
        path: PathBuf,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// Two sources may measure one device under two names, which would be added.
    #[error(
        "power sources \"{first}\" and \"{second}\" both tell the power of scope {}, and nothing says whether \
         of the same device; expected one kind of source for it, and controllers of nodes all by their \
         address or none",
        scope.name()
    )]
    AmbiguousDevices {
        /// The earlier source as the command line names it.
        first: String,
        /// The later one.
        second: String,
        /// What both measure.
        scope: Scope,
    },
    /// An engine cannot be asked.
    #[error("\"{address}\" {problem}")]
    Address {
        /// Its address.
        address: String,
        /// What is wrong, and what would be right.
        problem: String,
    },
    /// Two intervals for one name.
    #[error("--interval is given twice for \"{name}\"; expected one interval for each")]
    RepeatedInterval {
        /// The name as given.
        name: String,
    },
    /// The operating system gives no more threads.
    #[error("cannot start a thread")]
    Thread(#[source] std::io::Error),
}

/// A recording that goes on. Dropping it without [`Recording::finish`] leaves an unfinished run, as a
/// kill would.
#[derive(Debug)]
pub struct Recording {
    context: Arc<Context>,
    live: Arc<Live>,
    store: Arc<Mutex<Store>>,
    punctuality: Arc<Mutex<Punctuality>>,
    kind: RunKind,
    /// Raised when the last rows were handed over and the writer should end.
    last_flush: Arc<Stop>,
    /// Threads that read, with the ids of their sources.
    samplers: Vec<(String, JoinHandle<()>)>,
    /// Those that follow logs and ask for metrics, with what they do.
    followers: Vec<(String, JoinHandle<()>)>,
    /// Disconnected once all samplers and followers have ended. Only the end of the recording waits for it.
    all_ended: Mutex<Receiver<()>>,
    proxies: Mutex<Vec<Proxy>>,
    writer: JoinHandle<Result<(), StoreError>>,
}

impl Recording {
    /// Opens the power sources and begins; see [`Recording::begin`].
    ///
    /// # Errors
    /// [`RecordError`].
    pub fn start(
        options: &RecordingOptions,
        clock: Arc<dyn Clock>,
        failed: impl Fn() + Send + 'static,
    ) -> Result<Self, RecordError> {
        Self::begin(options, OpenSources::open(options)?, clock, failed)
    }

    /// Makes the folder of the unfinished run and begins to read. `failed` is called from another thread
    /// when the recording can no longer be written.
    ///
    /// # Errors
    /// [`RecordError`]. No folder is left behind, except where the system gives no thread for what comes
    /// after it was made, or a proxy does not begin to serve: then an unfinished run is.
    pub fn begin(
        options: &RecordingOptions,
        sources: OpenSources,
        clock: Arc<dyn Clock>,
        failed: impl Fn() + Send + 'static,
    ) -> Result<Self, RecordError> {
        let OpenSources(sources) = sources;
        let path = RunPath::new(&options.out)?;
        let logs = open_logs(options, &path)?;
        let engines = open_metrics(options)?;
        let context = Arc::new(Context::new(clock));
        let proxies: Result<Vec<_>, _> =
            options.proxies.iter().map(|route| Proxy::bind(route, context.clone())).collect();
        let proxies = proxies?;
        let manifest = manifest(options, &path, &sources)?;
        let kind = manifest.kind;
        let store = Store::create(
            path,
            &manifest,
            context.clock.first(),
            options.flush.as_secs_f64(),
            options.keep_free_bytes,
        )?;
        for (_, _, source) in &sources {
            source.notes().into_iter().for_each(|note| context.note(note));
        }
        let live = Arc::new(Live::default());
        let store = Arc::new(Mutex::new(store));
        let punctuality = Arc::new(Mutex::new(Punctuality::default()));
        let last_flush = Arc::new(Stop::new());
        // The first tick of all sources is the same, so that they sample at the same moments.
        let start_ns = context.clock.clock().monotonic_ns();
        let mut samplers = Vec::new();
        let (alive, all_ended) = channel();
        for (id, interval_ms, source) in sources {
            let sampler = Sampler::new(
                source,
                (interval_ms * 1e6) as i64,
                start_ns,
                context.clone(),
                live.clone(),
                punctuality.clone(),
            );
            let (name, of_thread, alive) = (id.clone(), context.clone(), alive.clone());
            let handle = spawn(&id, move || {
                let _alive = alive;
                if has_priority() {
                    of_thread.note(format!("{name} was read at niceness {SAMPLER_NICENESS}"));
                }
                // The other sources go on, whatever defect this one has.
                if catch_unwind(AssertUnwindSafe(|| sampler.run())).is_err() {
                    of_thread.count_failure(&name, "", "the thread that read it panicked");
                    let text = format!("{name} was not read to the end: its thread panicked");
                    of_thread.lose(text);
                }
            })?;
            samplers.push((id, handle));
        }
        let writer = Writer {
            context: context.clone(),
            store: store.clone(),
            punctuality: punctuality.clone(),
            last_flush: last_flush.clone(),
            flush_ns: i64::try_from(options.flush.as_nanos()).unwrap_or(i64::MAX).max(1_000_000),
        };
        let of_thread = context.clone();
        let writer = spawn("writer", move || {
            let result = catch_unwind(AssertUnwindSafe(|| writer.run(&failed)));
            result.unwrap_or_else(|_| {
                of_thread.sink.close();
                failed();
                Err(StoreError::Panic)
            })
        })?;
        let followers = spawn_followers(&context, options, logs, engines, &alive)?;
        for proxy in &proxies {
            proxy.open()?;
        }
        Ok(Self {
            context,
            live,
            store,
            punctuality,
            kind,
            last_flush,
            samplers,
            followers,
            all_ended: Mutex::new(all_ended),
            proxies: Mutex::new(proxies),
            writer,
        })
    }

    /// What further threads of the recording need.
    #[must_use]
    pub const fn context(&self) -> &Arc<Context> {
        &self.context
    }

    /// The latest of every device.
    #[must_use]
    pub fn live(&self) -> &Live {
        &self.live
    }

    /// Where each proxy listens and whom it forwards to, in the order of the options.
    #[must_use]
    pub fn proxies(&self) -> Vec<(SocketAddr, String)> {
        let proxies = lock(&self.proxies);
        proxies.iter().map(|proxy| (proxy.address(), proxy.server().to_owned())).collect()
    }

    /// Closes the proxies: what still passes is broken off, and every request that passed is a row. Says
    /// whether any was open.
    pub fn close_proxies(&self) -> bool {
        let mut proxies = lock(&self.proxies);
        let had_any = !proxies.is_empty();
        proxies.drain(..).for_each(Proxy::close);
        had_any
    }

    /// Folder for raw logs.
    #[must_use]
    pub fn logs(&self) -> PathBuf {
        self.store().logs()
    }

    /// Where the run will lie.
    #[must_use]
    pub fn path(&self) -> RunPath {
        self.store().path().clone()
    }

    /// Waits until every power source was read once, or `limit` has passed.
    pub fn wait_for_first_reads(&self, limit: Duration) {
        let clock = self.context.clock.clock();
        let until_ns = clock.monotonic_ns().saturating_add_unsigned(limit.as_nanos() as u64);
        let read = || lock(&self.punctuality).sources;
        while read() < self.samplers.len() && clock.monotonic_ns() < until_ns {
            let next_ns = clock.monotonic_ns() + FIRST_READS_POLL_NS;
            if clock.wait(&self.context.stop, next_ns) {
                return;
            }
        }
    }

    /// Stamps a stage of the lifecycle with the time now. In a decode run the formal window is the
    /// decode window.
    ///
    /// # Errors
    /// When the journal cannot be written.
    pub fn stamp(&self, stage: Stage) -> Result<TimestampNs, StoreError> {
        let now = self.context.clock.now();
        self.stamp_at(stage, now)?;
        Ok(now)
    }

    /// Stamps a stage with a time taken before.
    ///
    /// # Errors
    /// When the journal cannot be written.
    pub fn stamp_at(&self, stage: Stage, t: TimestampNs) -> Result<(), StoreError> {
        if stage == Stage::FormalStart {
            self.context.begin_formal(t.nanos());
        }
        let stage = match (self.kind, stage) {
            (RunKind::Decode, Stage::FormalStart) => Stage::DecodeStart,
            (RunKind::Decode, Stage::FormalEnd) => Stage::DecodeEnd,
            _ => stage,
        };
        self.store().stamp(stage, t)
    }

    /// Stops reading, writes the last rows and joins everything into the run.
    ///
    /// # Errors
    /// When the run cannot be written; what was recorded until then stays in the folder of the
    /// unfinished run.
    pub fn finish(self) -> Result<Joined, RecordError> {
        self.close_proxies();
        self.context.stop.raise();
        // Nothing is sent; what comes is that the last thread has let go of its end.
        let all_ended = self.all_ended.into_inner().unwrap_or_else(PoisonError::into_inner);
        let waited = all_ended.recv_timeout(LONGEST_END);
        let all_ended = waited == Err(RecvTimeoutError::Disconnected);
        let end = |name: &str, handle: JoinHandle<()>| {
            if all_ended || handle.is_finished() {
                return handle.join().is_ok();
            }
            self.context.count_failure(name, "", "its thread did not end");
            self.context.lose(format!(
                "{name} did not end within {} s of the end of the recording; what it read last is missing",
                LONGEST_END.as_secs()
            ));
            true
        };
        for (name, sampler) in self.samplers {
            // A panic was noted when it happened.
            end(&name, sampler);
        }
        for (name, follower) in self.followers {
            if !end(&name, follower) {
                self.context.lose(format!("{name} was not read to the end: its thread panicked"));
            }
        }
        self.context.sink.close();
        self.last_flush.raise();
        self.context.sink.wake().raise();
        self.writer.join().unwrap_or(Err(StoreError::Panic))?;
        let store = Arc::into_inner(self.store)
            .expect("only the writer had a share of the store, and it has ended")
            .into_inner()
            .unwrap_or_else(PoisonError::into_inner);
        Ok(store.finish(self.context.clock.now())?)
    }

    fn store(&self) -> MutexGuard<'_, Store> {
        lock(&self.store)
    }
}

/// Longest wait for the threads that read, once they were asked to end: a call into a driver that hangs never
/// returns.
const LONGEST_END: Duration = Duration::from_secs(10);

/// Time between looks at whether every source was read.
const FIRST_READS_POLL_NS: i64 = 5_000_000;

/// Writes what was handed over, every flush interval.
#[derive(Debug)]
struct Writer {
    context: Arc<Context>,
    store: Arc<Mutex<Store>>,
    punctuality: Arc<Mutex<Punctuality>>,
    last_flush: Arc<Stop>,
    flush_ns: i64,
}

impl Writer {
    /// Writes until the last flush. `failed` is called once, when the recording must end: writing fails
    /// (then with an error), or space runs short (then what comes until the end is still written).
    fn run(self, failed: &impl Fn()) -> Result<(), StoreError> {
        let clock = self.context.clock.clock();
        let mut is_short_of_space = false;
        let result = loop {
            let due_ns = clock.monotonic_ns() + self.flush_ns;
            // Looked at first: the flush before may have lowered what was raised for the last one.
            let is_last = self.last_flush.is_raised() || {
                let _ = clock.wait(self.context.sink.wake(), due_ns);
                self.last_flush.is_raised()
            };
            let flushed = self.flush();
            if is_last || flushed.is_err() {
                break flushed;
            }
            if let Err(error) = self.merge() {
                break Err(error);
            }
            // The lock is given back before it is taken again below.
            let checked = self.store().check_space();
            if let (false, Err(cause)) = (is_short_of_space, checked) {
                is_short_of_space = true;
                if let Err(error) = self.store().end_early(&cause) {
                    break Err(error);
                }
                failed();
            }
        };
        // Whoever brings rows learns it now, and so does the lifecycle.
        self.context.sink.close();
        if result.is_err() {
            failed();
        }
        result
    }

    fn store(&self) -> MutexGuard<'_, Store> {
        lock(&self.store)
    }

    fn flush(&self) -> Result<(), StoreError> {
        let rows = self.context.sink.take();
        let mut store = self.store();
        let first_ns = self.context.clock.first().monotonic_ns;
        let elapsed_ns = self.context.clock.clock().monotonic_ns() - first_ns;
        let cost = Cost::measure(
            elapsed_ns,
            store.bytes_written(),
            self.context.own_cpu(),
            self.context.helper_cpu(),
            &self.punctuality,
        );
        store.flush(rows, &self.context, cost)
    }

    /// Makes one segment of many small ones where there are enough. The store is not locked meanwhile, so
    /// that stamps need not wait. That small ones cannot be merged is no loss: they stay.
    fn merge(&self) -> Result<(), StoreError> {
        // The lock is given back before the loop's body begins.
        while let Some(merge) = { self.store().take_due_merge() } {
            match merge.write() {
                Ok(merged) => self.store().merged(&merge, &merged)?,
                Err(error) => self.context.note(format!("segments were not merged: {error}")),
            }
        }
        Ok(())
    }
}

/// Niceness of the threads that read, where the system allows it: root, or a limit on niceness of 30.
const SAMPLER_NICENESS: i32 = -10;

/// Lets this thread run before ordinary work, which may keep all cores busy: it needs little time, and that
/// punctually. Says whether the system allowed it. What the thread starts inherits this; the commands that
/// are measured are started elsewhere.
fn has_priority() -> bool {
    // Linux takes the calling thread for the whole process here.
    rustix::process::setpriority_process(None, SAMPLER_NICENESS).is_ok()
}

fn spawn<T: Send + 'static>(
    name: &str,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<JoinHandle<T>, RecordError> {
    // Deep calls happen nowhere here, but SNMP's buffers for one datagram pass over the stack; the default of
    // 2 MiB would only be reserved.
    let builder = std::thread::Builder::new().name(name.to_owned()).stack_size(1 << 20);
    builder.spawn(work).map_err(RecordError::Thread)
}

/// A source with its id and the time between its reads, ms.
type OpenSource = (String, f64, Box<dyn PowerSource>);

/// Power sources that are open and not read yet.
#[derive(Debug)]
pub struct OpenSources(Vec<OpenSource>);

impl OpenSources {
    /// Opens every power source, which may take seconds for each.
    ///
    /// # Errors
    /// [`RecordError`] when one is not there, or does not go with another.
    pub fn open(options: &RecordingOptions) -> Result<Self, RecordError> {
        open_sources(options).map(Self)
    }
}

/// Opens every source. The second of one name is called `NAME-2`, and so on.
fn open_sources(options: &RecordingOptions) -> Result<Vec<OpenSource>, RecordError> {
    let mut counts: BTreeMap<&str, u32> = BTreeMap::new();
    let mut numbered: Vec<(&SourceSpecification, u32)> = Vec::new();
    for specification in &options.power {
        if numbered.iter().any(|(other, _)| *other == specification) {
            let specification = specification.to_string();
            return Err(RecordError::RepeatedSource { specification });
        }
        let count = counts.entry(specification.name()).or_insert(0);
        *count += 1;
        numbered.push((specification, *count));
    }
    check_intervals(&options.intervals_ms, &counts)?;
    let mut sources: Vec<OpenSource> = Vec::new();
    let mut devices = Devices::default();
    for (specification, number) in numbered {
        let name = specification.name();
        let id = if number == 1 { name.to_owned() } else { format!("{name}-{number}") };
        let source = source::open(specification, &id, &options.source)?;
        let mut source = devices.admit(specification, &id, source).map_err(|(first, scope)| {
            let (first, second) = (first.to_string(), specification.to_string());
            RecordError::AmbiguousDevices { first, second, scope }
        })?;
        let asked = |asked: &str| options.intervals_ms.iter().find(|(name, _)| name == asked);
        let interval_ms = asked(&format!("{name}-{number}"))
            .or_else(|| asked(name))
            .map_or_else(|| source.default_interval_ms(), |(_, interval_ms)| *interval_ms);
        source.set_interval_ms(interval_ms);
        sources.push((id, interval_ms, source));
    }
    Ok(sources)
}

/// Opens the logs of decode iterations. Where a log ends now is taken before anything else starts, so that
/// no line of the recording is missed. The output of the command belongs to the run from its start.
fn open_logs(options: &RecordingOptions, path: &RunPath) -> Result<Vec<StepsSource>, RecordError> {
    let open = |steps: &StepsSpecification| match &steps.place {
        LogPlace::Command => Ok(StepsSource::from_start(&path.command_log(), steps.log)),
        LogPlace::File(path) => StepsSource::from_end(path, steps.log)
            .map_err(|source| RecordError::Log { path: path.clone(), source }),
        LogPlace::Address(address) => {
            let (http, interval) = (&options.source.http, options.metrics_interval);
            StepsSource::from_address(address, http, interval, steps.log)
                .map_err(|problem| RecordError::Address { address: address.to_string(), problem })
        }
    };
    options.steps.iter().map(open).collect()
}

/// What is needed to ask engines for their metrics.
fn open_metrics(options: &RecordingOptions) -> Result<Vec<Endpoint>, RecordError> {
    let open = |address: &Address| {
        Endpoint::new(address, &options.source.http)
            .map_err(|problem| RecordError::Address { address: address.to_string(), problem })
    };
    options.metrics.iter().map(open).collect()
}

fn spawn_followers(
    context: &Arc<Context>,
    options: &RecordingOptions,
    logs: Vec<StepsSource>,
    engines: Vec<Endpoint>,
    alive: &Sender<()>,
) -> Result<Vec<(String, JoinHandle<()>)>, RecordError> {
    let mut followers = Vec::new();
    let of = u16::try_from(logs.len()).unwrap_or(u16::MAX);
    for (index, log) in (0..of).zip(logs) {
        let (context, alive) = (context.clone(), alive.clone());
        let handle = spawn("steps", move || {
            let _alive = alive;
            steps::run(&context, log, index, of);
        })?;
        followers.push(("steps".to_owned(), handle));
    }
    let are_several = engines.len() > 1;
    for engine in engines {
        let (context, alive) = (context.clone(), alive.clone());
        let interval = options.metrics_interval;
        let handle = spawn("metrics", move || {
            let _alive = alive;
            metrics::run(&context, engine, interval, are_several);
        })?;
        followers.push(("metrics".to_owned(), handle));
    }
    Ok(followers)
}

/// Whether every interval is for sources of the recording, of which there are so many of each name.
fn check_intervals(
    intervals_ms: &[(String, f64)],
    counts: &BTreeMap<&str, u32>,
) -> Result<(), RecordError> {
    let numbered = |(name, count): (&&str, &u32)| {
        let single = (*count > 1).then(|| (1..=*count).map(|number| format!("{name}-{number}")));
        std::iter::once((*name).to_owned()).chain(single.into_iter().flatten()).collect::<Vec<_>>()
    };
    let known: Vec<String> = counts.iter().flat_map(numbered).collect();
    for (index, (name, _)) in intervals_ms.iter().enumerate() {
        if !known.contains(name) {
            let known = known.join(", ");
            return Err(RecordError::UnknownInterval { name: name.clone(), known });
        }
        if intervals_ms[..index].iter().any(|(other, _)| other == name) {
            return Err(RecordError::RepeatedInterval { name: name.clone() });
        }
    }
    Ok(())
}

/// What is known of the run at its start.
fn manifest(
    options: &RecordingOptions,
    path: &RunPath,
    sources: &[OpenSource],
) -> Result<RunManifest, RecordError> {
    let unknown = || "unknown".to_owned();
    let mut hardware = wattrace_schema::Hardware {
        accelerator: unknown(),
        count: measured_accelerators(sources).max(1),
        ..wattrace_schema::Hardware::default()
    };
    for (_, _, source) in sources {
        let facts = source.hardware();
        if let Some(accelerator) = facts.accelerator {
            hardware.accelerator = accelerator;
            hardware.count = facts.count.unwrap_or(hardware.count);
        }
        hardware.driver = hardware.driver.or(facts.driver);
    }
    let model = Model { name: unknown(), ..Model::default() };
    let mut manifest = RunManifest::new(path.run_id.clone(), RunKind::Serving, model, hardware);
    manifest.synthetic = sources.iter().any(|(_, _, source)| source.is_synthetic());
    for (_, interval_ms, source) in sources {
        manifest.power_sources.extend(source.streams().iter().map(|stream| {
            let mut entry = stream.entry.clone();
            entry.nominal_interval_ms = *interval_ms;
            entry
        }));
    }
    manifest.provenance.recorder = Some("wattrace-record".to_owned());
    manifest.provenance.version = Some(env!("CARGO_PKG_VERSION").to_owned());
    manifest.provenance.command = Some(options.command.clone());
    Ok(options.description.apply(manifest)?)
}

/// Accelerators that the sources read: boards, or modules if no board is read.
fn measured_accelerators(sources: &[OpenSource]) -> u32 {
    let count = |scope: Scope| {
        let streams = sources.iter().flat_map(|(_, _, source)| source.streams());
        let devices: std::collections::BTreeSet<&String> = streams
            .filter(|stream| stream.entry.scope == scope)
            .flat_map(|stream| &stream.devices)
            .collect();
        u32::try_from(devices.len()).unwrap_or(u32::MAX)
    };
    match count(Scope::GpuBoard) {
        0 => count(Scope::GpuModule),
        boards => boards,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::SystemClock;
    use crate::sink::SampledRow;
    use crate::source::{Reading, Stream};

    /// A board whose driver hangs in the first read, until the other end of the channel has gone.
    #[derive(Debug)]
    struct Hanging {
        streams: Vec<Stream>,
        until: Receiver<()>,
    }

    impl PowerSource for Hanging {
        fn streams(&self) -> &[Stream] {
            &self.streams
        }

        fn read(&mut self, _clock: &dyn Clock, _readings: &mut Vec<Reading>) {
            let _ = self.until.recv();
        }
    }

    #[test]
    fn a_source_that_hangs_does_not_keep_the_recording_from_ending() {
        let folder = tempfile::tempdir().unwrap();
        let options = RecordingOptions {
            out: folder.path().join("archive/run"),
            power: Vec::new(),
            intervals_ms: Vec::new(),
            source: SourceOptions::default(),
            steps: Vec::new(),
            metrics: Vec::new(),
            metrics_interval: Duration::from_secs(1),
            proxies: Vec::new(),
            description: Description::default(),
            flush: Duration::from_secs(3600),
            keep_free_bytes: 0,
            command: String::new(),
        };
        let mut stream = Stream::new("bmc", Scope::Node, wattrace_schema::Reading::Instant);
        stream.devices.push("node".to_owned());
        let (keep, until) = channel();
        let source = Box::new(Hanging { streams: vec![stream], until });
        let sources = OpenSources(vec![("bmc".to_owned(), 100.0, source)]);
        let recording = Recording::begin(&options, sources, Arc::new(SystemClock), || ()).unwrap();
        // What came before is not lost.
        let t_ns = recording.context().clock.now().nanos();
        let (source, device) = ("bmc".into(), "node".into());
        let row =
            SampledRow { t_ns, source, device, power_w: Some(500.0), ..SampledRow::default() };
        recording.context().sink.power([row]).unwrap();
        let joined = recording.finish().unwrap();
        drop(keep);
        let notes = joined.manifest.provenance.notes;
        assert_eq!(joined.manifest.files["power.parquet"].rows, 1);
        assert!(format!("{notes:?}").contains("bmc did not end within 10 s"), "{notes:?}");
    }
}
