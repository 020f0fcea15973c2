//! NVIDIA boards, through the driver's management library (NVML).
//!
//! Instant power is field 186, the trailing average field 185, the total-energy counter field 83; a board
//! without them is asked by the older calls. On superchips the field of instant power exists for the whole
//! module as well.

use std::fmt;
use std::path::Path;

use nvml_wrapper::enum_wrappers::device::{Clock as ClockType, TemperatureSensor};
use nvml_wrapper::error::NvmlError;
use nvml_wrapper::{Device, Nvml};
use nvml_wrapper_sys::bindings::{
    NVML_POWER_SCOPE_GPU, NVML_POWER_SCOPE_MODULE, field_id, nvmlFieldValue_t,
    nvmlReturn_enum_NVML_SUCCESS, nvmlValueType_enum_NVML_VALUE_TYPE_UNSIGNED_INT,
    nvmlValueType_enum_NVML_VALUE_TYPE_UNSIGNED_LONG,
    nvmlValueType_enum_NVML_VALUE_TYPE_UNSIGNED_LONG_LONG,
};
use wattrace_schema::{Reading as ReadingKind, Scope};

use super::{HardwareFacts, PowerSource, Reading, Sample, Stream};
use crate::clock::{Clock, Span};

/// Both power and the energy counter are in thousandths.
const PER_MILLI: f64 = 1e-3;

/// Power averages cover one second on Ampere and later boards, as nvidia-smi's manual says of
/// `power.draw.average`.
const AVERAGE_WINDOW_MS: f64 = 1000.0;

/// Time between reads of what changes slowly: temperature, clocks, memory, utilisation, throttle reasons.
/// Each is a call of its own, and together they cost several times what power costs.
const SLOW_NS: i64 = 1_000_000_000;

/// Index of a stream, and of a device in it.
type Place = (usize, usize);

/// One board.
struct Board {
    device: Device<'static>,
    board: Place,
    module: Option<Place>,
    /// How its power and energy are asked for.
    calls: Calls,
    /// Whether it answers each of the slow calls at all.
    slow: Slow,
    last_slow_ns: Option<i64>,
}

impl fmt::Debug for Board {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Board").field("board", &self.board).finish_non_exhaustive()
    }
}

/// Which calls a board answers, found out on opening: what it never answers is no failure.
#[derive(Debug, Clone, Copy, Default)]
struct Calls {
    instant_field: bool,
    average_field: bool,
    energy_field: bool,
    module_field: bool,
    plain_power: bool,
    plain_energy: bool,
}

#[derive(Debug, Clone, Copy, Default)]
struct Slow {
    temperature: bool,
    sm_clock: bool,
    mem_clock: bool,
    memory: bool,
    utilization: bool,
    throttle: bool,
}

/// Every board that NVML lists.
#[derive(Debug)]
pub(super) struct NvmlSource {
    streams: Vec<Stream>,
    boards: Vec<Board>,
    facts: HardwareFacts,
    notes: Vec<String>,
}

impl NvmlSource {
    pub(super) fn open(library: Option<&Path>, id: &str) -> Result<Self, String> {
        // The driver installs this name; the one without the number comes with developer packages.
        let library = library.unwrap_or(Path::new("libnvidia-ml.so.1"));
        let nvml = Nvml::builder().lib_path(library.as_os_str()).init().map_err(|error| {
            format!("NVML cannot be used: {error}; expected NVIDIA's driver and libnvidia-ml.so.1")
        })?;
        // Boards borrow the library, which stays loaded until the program ends.
        let nvml: &'static Nvml = Box::leak(Box::new(nvml));
        let count = nvml.device_count().map_err(|error| format!("no count of boards: {error}"))?;
        let mut source = Self {
            streams: Vec::new(),
            boards: Vec::new(),
            facts: HardwareFacts {
                count: Some(count),
                driver: nvml.sys_driver_version().ok(),
                ..HardwareFacts::default()
            },
            notes: Vec::new(),
        };
        for index in 0..count {
            match nvml.device_by_index(index) {
                Ok(device) => source.add(id, index, device),
                Err(error) => source.notes.push(format!("gpu{index} is not recorded: {error}")),
            }
        }
        if source.boards.is_empty() {
            return Err(format!("none of {count} boards tells its power; expected one or more"));
        }
        Ok(source)
    }

    fn add(&mut self, id: &str, index: u32, device: Device<'static>) {
        let calls = calls(&device);
        let name = format!("gpu{index}");
        if let Ok(model) = device.name() {
            match &self.facts.accelerator {
                None => self.facts.accelerator = Some(model),
                Some(first) if *first != model => {
                    self.notes
                        .push(format!("{name} is a {model}, unlike the first board, {first}"));
                }
                Some(_) => (),
            }
        }
        let tells_energy = calls.energy_field || calls.plain_energy;
        let board = if calls.instant_field || calls.plain_power {
            // Without the field, the older call is all there is; boards that it would give an average
            // for (Ampere but not GA100, and later) have the field since driver 530.
            self.place(id, Scope::GpuBoard, ReadingKind::Instant, &name)
        } else if calls.average_field {
            self.place(&format!("{id}-average"), Scope::GpuBoard, ReadingKind::Average, &name)
        } else if tells_energy {
            self.place(id, Scope::GpuBoard, ReadingKind::Instant, &name)
        } else {
            self.notes.push(format!("{name} is not recorded: it tells neither power nor energy"));
            return;
        };
        let module = calls.module_field.then(|| {
            self.place(&format!("{id}-module"), Scope::GpuModule, ReadingKind::Instant, &name)
        });
        let slow = slow(&device);
        self.boards.push(Board { device, board, module, calls, slow, last_slow_ns: None });
    }

    /// The place of a device in the stream `id`, which is made if it is not there.
    fn place(&mut self, id: &str, scope: Scope, reading: ReadingKind, name: &str) -> Place {
        let found = self.streams.iter().position(|stream| stream.entry.id == id);
        let stream = found.unwrap_or_else(|| {
            let mut stream = Stream::new(id, scope, reading);
            if reading == ReadingKind::Average {
                stream.entry.averaging_window_ms = Some(AVERAGE_WINDOW_MS);
            }
            self.streams.push(stream);
            self.streams.len() - 1
        });
        self.streams[stream].devices.push(name.to_owned());
        (stream, self.streams[stream].devices.len() - 1)
    }
}

/// Which calls of power and energy a board answers. A call that fails for another reason than that it is
/// not supported counts as answered: it may work the next time.
fn calls(device: &Device<'_>) -> Calls {
    let fields = field_values(device, &FIELDS);
    let answers = |index: usize| match &fields {
        Ok(values) => is_supported(&values[index]),
        Err(error) => !is_unsupported(error),
    };
    let mut calls = Calls {
        energy_field: answers(ENERGY),
        instant_field: answers(INSTANT),
        average_field: answers(AVERAGE),
        // A board without a module does not answer, or answers for itself; a module draws more than the
        // board in it.
        module_field: fields.as_ref().is_ok_and(|values| {
            matches!((&values[MODULE], &values[INSTANT]), (Ok(module), Ok(board)) if module > board)
        }),
        ..Calls::default()
    };
    calls.plain_power = !calls.instant_field && is_supported(&device.power_usage());
    calls.plain_energy = !calls.energy_field && is_supported(&device.total_energy_consumption());
    calls
}

fn slow(device: &Device<'_>) -> Slow {
    Slow {
        temperature: is_supported(&device.temperature(TemperatureSensor::Gpu)),
        sm_clock: is_supported(&device.clock_info(ClockType::SM)),
        mem_clock: is_supported(&device.clock_info(ClockType::Memory)),
        memory: is_supported(&device.memory_info()),
        utilization: is_supported(&device.utilization_rates()),
        throttle: is_supported(&device.current_throttle_reasons()),
    }
}

fn is_supported<T>(result: &Result<T, NvmlError>) -> bool {
    result.as_ref().err().is_none_or(|error| !is_unsupported(error))
}

fn is_unsupported(error: &NvmlError) -> bool {
    matches!(
        error,
        NvmlError::NotSupported | NvmlError::InvalidArg | NvmlError::FailedToLoadSymbol(_)
    )
}

/// Fields that are asked for in one call, with their scope, and their places in it.
const FIELDS: [(u32, u32); 4] = [
    (field_id::NVML_FI_DEV_POWER_INSTANT, NVML_POWER_SCOPE_GPU),
    (field_id::NVML_FI_DEV_TOTAL_ENERGY_CONSUMPTION, NVML_POWER_SCOPE_GPU),
    (field_id::NVML_FI_DEV_POWER_AVERAGE, NVML_POWER_SCOPE_GPU),
    (field_id::NVML_FI_DEV_POWER_INSTANT, NVML_POWER_SCOPE_MODULE),
];
const INSTANT: usize = 0;
const ENERGY: usize = 1;
const AVERAGE: usize = 2;
const MODULE: usize = 3;

/// What one field gave.
type FieldResult = Result<f64, NvmlError>;

/// Reads fields of a board in one call. The safe wrapper cannot say which scope it means.
#[expect(unsafe_code, reason = "the library's own call is the only one that takes a scope")]
fn field_values(device: &Device<'_>, fields: &[(u32, u32)]) -> Result<Vec<FieldResult>, NvmlError> {
    let call = device.nvml().lib().nvmlDeviceGetFieldValues.as_ref();
    let call = call.map_err(|error| NvmlError::FailedToLoadSymbol(error.to_string()))?;
    let mut values: Vec<nvmlFieldValue_t> = fields
        .iter()
        .map(|(field, scope)| {
            // SAFETY: the struct holds integers and a union of numbers, for which zero is valid.
            let mut value: nvmlFieldValue_t = unsafe { std::mem::zeroed() };
            value.fieldId = *field;
            value.scopeId = *scope;
            value
        })
        .collect();
    let count = i32::try_from(values.len()).expect("a handful of fields");
    // SAFETY: the handle belongs to a library that stays loaded, and `values` has `count` elements.
    let status = unsafe { call(device.handle(), count, values.as_mut_ptr()) };
    nvml_wrapper::error::nvml_try(status)?;
    Ok(values.iter().map(field_value).collect())
}

#[expect(unsafe_code, reason = "the value is a union, whose member the library names")]
fn field_value(value: &nvmlFieldValue_t) -> FieldResult {
    if value.nvmlReturn != nvmlReturn_enum_NVML_SUCCESS {
        nvml_wrapper::error::nvml_try(value.nvmlReturn)?;
    }
    // SAFETY: `valueType` says which member was written, and each is a plain number.
    match value.valueType {
        kind if kind == nvmlValueType_enum_NVML_VALUE_TYPE_UNSIGNED_INT => {
            Ok(f64::from(unsafe { value.value.uiVal }))
        }
        kind if kind == nvmlValueType_enum_NVML_VALUE_TYPE_UNSIGNED_LONG => {
            Ok(unsafe { value.value.ulVal } as f64)
        }
        kind if kind == nvmlValueType_enum_NVML_VALUE_TYPE_UNSIGNED_LONG_LONG => {
            Ok(unsafe { value.value.ullVal } as f64)
        }
        other => Err(NvmlError::UnexpectedVariant(other)),
    }
}

/// Takes a value, or notes why there is none.
fn take<T>(what: &str, result: Result<T, &NvmlError>, failures: &mut Vec<String>) -> Option<T> {
    result.map_err(|error| failures.push(format!("{what}: {error}"))).ok()
}

/// Why values are missing, by the stream that they belong to.
#[derive(Debug, Default)]
struct Causes {
    board: Vec<String>,
    module: Vec<String>,
}

impl Board {
    fn read(&mut self, clock: &dyn Clock, readings: &mut Vec<Reading>) {
        let mut causes = Causes::default();
        let (span, values) = Span::of(clock, || self.power(&mut causes));
        let is_average = !self.calls.instant_field && !self.calls.plain_power;
        let power_w = if is_average { values[AVERAGE] } else { values[INSTANT] };
        let mut sample = Sample { power_w, energy_j: values[ENERGY], ..Sample::default() };
        let is_due = self.last_slow_ns.is_none_or(|last_ns| span.start_ns - last_ns >= SLOW_NS);
        if is_due {
            self.last_slow_ns = Some(span.start_ns);
            if !is_average {
                sample.average_power_w = values[AVERAGE];
            }
            self.read_slow(&mut sample, &mut causes.board);
        }
        let (stream, device) = self.board;
        readings.push(Reading { stream, device, span, sample, failures: causes.board });
        if let Some((stream, device)) = self.module {
            let sample = Sample { power_w: values[MODULE], ..Sample::default() };
            readings.push(Reading { stream, device, span, sample, failures: causes.module });
        }
    }

    /// Instant power, energy, average power and module power, W and J, in the order of [`FIELDS`].
    fn power(&self, causes: &mut Causes) -> [Option<f64>; 4] {
        let calls = self.calls;
        let mut values = [None; 4];
        if calls.instant_field || calls.energy_field || calls.average_field {
            let fields = if calls.module_field { &FIELDS[..] } else { &FIELDS[..MODULE] };
            let results = field_values(&self.device, fields);
            for (index, what, is_asked) in [
                (INSTANT, "power", calls.instant_field),
                (ENERGY, "energy", calls.energy_field),
                (AVERAGE, "average power", calls.average_field),
                (MODULE, "module power", calls.module_field),
            ] {
                let result = match &results {
                    Ok(results) => results.get(index).map(Result::as_ref),
                    Err(error) => Some(Err(error)),
                };
                let causes = if index == MODULE { &mut causes.module } else { &mut causes.board };
                if let (true, Some(result)) = (is_asked, result) {
                    values[index] = take(what, result, causes).map(|value| value * PER_MILLI);
                }
            }
        }
        if calls.plain_power {
            let power = self.device.power_usage();
            values[INSTANT] = take("power", power.as_ref(), &mut causes.board)
                .map(|milliwatts| f64::from(*milliwatts) * PER_MILLI);
        }
        if calls.plain_energy {
            let energy = self.device.total_energy_consumption();
            values[ENERGY] = take("energy", energy.as_ref(), &mut causes.board)
                .map(|millijoules| *millijoules as f64 * PER_MILLI);
        }
        values
    }

    fn read_slow(&self, sample: &mut Sample, failures: &mut Vec<String>) {
        let (device, slow) = (&self.device, self.slow);
        if slow.temperature {
            let value = device.temperature(TemperatureSensor::Gpu);
            sample.temperature_c =
                take("temperature", value.as_ref(), failures).map(|celsius| *celsius as f32);
        }
        if slow.sm_clock {
            let value = device.clock_info(ClockType::SM);
            sample.sm_clock_mhz = take("clock", value.as_ref(), failures).copied();
        }
        if slow.mem_clock {
            let value = device.clock_info(ClockType::Memory);
            sample.mem_clock_mhz = take("memory clock", value.as_ref(), failures).copied();
        }
        if slow.memory {
            let value = device.memory_info();
            sample.memory_used_bytes =
                take("memory", value.as_ref(), failures).map(|memory| memory.used);
        }
        if slow.utilization {
            let value = device.utilization_rates();
            sample.utilization_percent =
                take("utilization", value.as_ref(), failures).map(|rates| rates.gpu as f32);
        }
        if slow.throttle {
            let value = device.current_throttle_reasons();
            sample.throttle_reasons =
                take("throttle reasons", value.as_ref(), failures).map(|reasons| reasons.bits());
        }
    }
}

impl PowerSource for NvmlSource {
    fn streams(&self) -> &[Stream] {
        &self.streams
    }

    fn read(&mut self, clock: &dyn Clock, readings: &mut Vec<Reading>) {
        for board in &mut self.boards {
            board.read(clock, readings);
        }
    }

    fn hardware(&self) -> HardwareFacts {
        self.facts.clone()
    }

    fn notes(&self) -> Vec<String> {
        self.notes.clone()
    }
}
