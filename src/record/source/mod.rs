//! Power sources: what reads power, and how the command line names it.

mod amd;
mod credentials;
mod dcgm;
mod devices;
mod host;
#[cfg(test)]
#[path = "../../../tests/record/http_service.rs"]
mod http_service;
mod hwmon;
mod ipmi;
mod nvml;
mod rapl;
mod redfish;
mod remote_clock;
mod replay;
mod secrets;
mod snmp;
mod specification;
mod sysfs;

use wattrace_schema as schema;

use crate::clock::{Clock, Span};
use crate::http::HttpOptions;

pub use credentials::Credentials;
pub(crate) use devices::Devices;
pub use ipmi::IpmiLogin;
pub use snmp::SnmpLogin;
pub use specification::{SourceSpecification, SpecificationError};

/// Coarsest step of an energy counter of a node or a PDU that is recorded, 10 Wh. Their energy is the integral
/// of power; the counter is there to check it, and one of larger steps moves too seldom in a run to do so: at
/// 1 kW, one of 10 Wh every 36 s, and one of 0.1 kWh every six minutes.
const COARSEST_COUNT_J: f64 = 36_000.0;

/// Shortest time between two steps of a counter while a device draws so much: it cannot move before its step
/// is used up.
fn refresh_ms(step_j: f64, power_w: Option<f64>) -> Option<f64> {
    let power_w = power_w.filter(|power_w| *power_w > 0.0)?;
    Some((step_j / power_w * 1e3).ceil())
}

/// A stream of readings as `run.json` lists it, and the devices that it reads. One power source may
/// give several, such as boards and modules.
#[derive(Debug, Clone, PartialEq)]
pub struct Stream {
    /// The entry of `power_sources`. Its `nominal_interval_ms` is set by whoever samples.
    pub entry: schema::PowerSource,
    /// Names of the devices, such as `gpu0`; what a [`Reading`] counts by.
    pub devices: Vec<String>,
}

impl Stream {
    /// A stream of `scope` that says no more than this of itself.
    #[must_use]
    pub fn new(id: &str, scope: schema::Scope, reading: schema::Reading) -> Self {
        let entry = schema::PowerSource {
            id: id.to_owned(),
            scope,
            reading,
            averaging_window_ms: None,
            // Every stream is sampled at some interval; the sampler writes the true one here.
            nominal_interval_ms: 1.0,
            counter_wrap_j: None,
            counter_refresh_ms: None,
            accuracy_percent: None,
            clock_offset_ns: None,
            clock_offset_uncertainty_ns: None,
            interpolation: schema::Interpolation::Linear,
        };
        Self { entry, devices: Vec::new() }
    }

    /// States the clock of a remote source whose longest answer took so long: its rows are dated by this
    /// machine's clock at the middle of the question, and where within the question the value was taken is
    /// not known.
    fn answers_within(&mut self, longest: std::time::Duration) {
        self.entry.clock_offset_ns = Some(0);
        self.entry.clock_offset_uncertainty_ns = u64::try_from(longest.as_nanos() / 2).ok();
    }
}

/// What one read gave of one device; whatever could not be read is `None`. Each field but the last is the
/// column of `power.parquet` that it names.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
#[expect(missing_docs, reason = "each field is the column that it names")]
pub struct Sample {
    pub power_w: Option<f64>,
    pub energy_j: Option<f64>,
    pub temperature_c: Option<f32>,
    pub sm_clock_mhz: Option<u32>,
    pub mem_clock_mhz: Option<u32>,
    pub memory_used_bytes: Option<u64>,
    pub utilization_percent: Option<f32>,
    pub throttle_reasons: Option<u64>,
    /// Trailing average of power beside the instant one. It goes to `engine.parquet` as
    /// `power_average_w`, since no device may be measured twice in `power.parquet`.
    pub average_power_w: Option<f64>,
}

/// One read of one device.
#[derive(Debug, Clone, PartialEq)]
pub struct Reading {
    /// Index into [`PowerSource::streams`].
    pub stream: usize,
    /// Index into that stream's devices.
    pub device: usize,
    /// When it was read; the row is dated at the middle.
    pub span: Span,
    /// What was read.
    pub sample: Sample,
    /// Why something could not be read: short texts without changing numbers, since equal ones are
    /// counted. A reading with a failure still gives its row, with nulls.
    pub failures: Vec<String>,
}

/// What a source knows about the machine, for `run.json`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct HardwareFacts {
    /// Name of the accelerators.
    pub accelerator: Option<String>,
    /// How many there are.
    pub count: Option<u32>,
    /// Version of their driver.
    pub driver: Option<String>,
}

/// Something that reads power. It is opened before the recording starts, then read by a thread of its
/// own, at its own interval; nothing that it does may panic or block for ever.
pub trait PowerSource: Send + std::fmt::Debug {
    /// What it reads. Asked once, after opening; readings refer to it by index.
    fn streams(&self) -> &[Stream];

    /// Time between reads unless the user asks for another: 100 ms where every stream is of boards or
    /// modules, else 1 s.
    fn default_interval_ms(&self) -> f64 {
        let is_board = |stream: &Stream| {
            matches!(stream.entry.scope, schema::Scope::GpuBoard | schema::Scope::GpuModule)
        };
        if self.streams().iter().all(is_board) { 100.0 } else { 1000.0 }
    }

    /// Tells it the time between reads, before the first: a read may not take longer.
    fn set_interval_ms(&mut self, _interval_ms: f64) {}

    /// Reads every device once and appends one [`Reading`] for each device of each stream, failed ones
    /// included. A device that has vanished keeps giving readings with its failure. [`Span::of`] takes
    /// the time around one device's read.
    fn read(&mut self, clock: &dyn Clock, readings: &mut Vec<Reading>);

    /// Processor time of the programs that it ran, since it was asked the last time; it is part of what
    /// recording costs. `HelperCpu` finds it.
    fn take_helper_cpu(&mut self) -> std::time::Duration {
        std::time::Duration::ZERO
    }

    /// What it knows about the machine.
    fn hardware(&self) -> HardwareFacts {
        HardwareFacts::default()
    }

    /// Whether its readings are no measurement of this machine (a replayed file); the run is then
    /// marked synthetic.
    fn is_synthetic(&self) -> bool {
        false
    }

    /// What was found on opening and belongs into `provenance.notes`, such as what was left out and why.
    fn notes(&self) -> Vec<String> {
        Vec::new()
    }
}

/// Why a source cannot be opened; the recording does not start then.
#[derive(Debug, thiserror::Error)]
#[error("power source \"{specification}\": {message}")]
pub struct SourceError {
    /// The source as the command line names it, without secrets.
    pub specification: String,
    /// What is wrong, and what would be right.
    pub message: String,
}

/// Share of the interval that a read over a network may take, and the longest that it may.
const READ_SHARE: f64 = 0.8;
const LONGEST_READ_S: f64 = 5.0;

/// The longest that a read over a network may take at this time between reads.
fn longest_read(interval_ms: f64) -> std::time::Duration {
    std::time::Duration::from_secs_f64((READ_SHARE * interval_ms / 1e3).min(LONGEST_READ_S))
}

/// What opening a source may depend on.
#[derive(Debug, Clone, Default)]
pub struct SourceOptions {
    /// The NVML library, where it is not found by its usual name.
    pub nvml_library: Option<std::path::PathBuf>,
    /// AMD's management library, where it is not found by its usual name.
    pub amd_library: Option<std::path::PathBuf>,
    /// How services are asked.
    pub http: HttpOptions,
    /// Who logs in to Redfish services.
    pub redfish_login: Option<Credentials>,
    /// Root of the file system for sources that read `/sys`; `/` if absent.
    pub sys_root: Option<std::path::PathBuf>,
    /// What logs in to controllers that speak IPMI.
    pub ipmi: Option<IpmiLogin>,
    /// What logs in to agents that speak SNMP; community `public` if absent.
    pub snmp: Option<SnmpLogin>,
}

/// Opens a source. `id` is unique in the run; stream ids begin with it.
///
/// # Errors
/// [`SourceError`] when the source is not there or cannot be read at all.
pub fn open(
    specification: &SourceSpecification,
    id: &str,
    options: &SourceOptions,
) -> Result<Box<dyn PowerSource>, SourceError> {
    let root = options.sys_root.as_deref().unwrap_or(std::path::Path::new("/"));
    let library = options.nvml_library.as_deref();
    let opened = match specification {
        SourceSpecification::Nvml => nvml::NvmlSource::open(library, id).map(boxed),
        SourceSpecification::Rapl => rapl::Rapl::open(root, id).map(boxed),
        SourceSpecification::Hwmon => hwmon::Hwmon::open(root, id).map(boxed),
        SourceSpecification::Amd => amd::Amd::open(options.amd_library.as_deref(), id).map(boxed),
        SourceSpecification::Redfish { url } => redfish::Redfish::open(url, id, options).map(boxed),
        SourceSpecification::Ipmi { host } => {
            ipmi::Ipmi::open(host.as_deref(), options.ipmi.as_ref(), id).map(boxed)
        }
        SourceSpecification::Snmp { host, oid } => {
            snmp::Snmp::open(host, oid, options.snmp.as_ref(), id).map(boxed)
        }
        SourceSpecification::Dcgm { url } => dcgm::Dcgm::open(url, id, &options.http).map(boxed),
        SourceSpecification::Replay { file } => replay::Replay::open(file, id).map(boxed),
    };
    let error = |message| SourceError { specification: specification.to_string(), message };
    opened.map_err(error)
}

fn boxed(source: impl PowerSource + 'static) -> Box<dyn PowerSource> {
    Box::new(source)
}
