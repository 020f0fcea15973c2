//! amd-smi's library, by the calls of `amdsmi.h`.
//!
//! Its structs have grown from release to release, so each is given more room than any release needs, and
//! only fields at its beginning are read. The power struct is the one whose beginning changed: release 24
//! (ROCm 6.1 to 6.3) begins with current and average power, 32 bits each; from release 25 on (ROCm 6.4 and
//! 7) a 64-bit power of the socket stands before the two. Older releases lay it out in other ways and are
//! refused. The release is the first number of the version that is not zero: release 24 calls it the year,
//! and 25 may leave the year empty.

use std::ffi::c_void;
use std::fmt;

use libloading::Library;

use super::library::{
    Call, CallError, Kind, ManagementLibrary, call, check, supported, supported_wide, text,
};

/// Statuses of what is not there: not supported, not yet implemented, no such symbol.
const NOT_SUPPORTED: [u32; 3] = [2, 3, 5];

/// Only AMD GPUs are looked for.
const INIT_AMD_GPUS: u64 = 2;

const TEMPERATURE_EDGE: u32 = 0;
const TEMPERATURE_HOTSPOT: u32 = 1;
const TEMPERATURE_CURRENT: u32 = 0;
const CLOCK_GFX: u32 = 0;
const CLOCK_MEMORY: u32 = 4;
const MEMORY_VRAM: u32 = 0;

/// The first release whose power struct is known.
const FIRST_RELEASE: u32 = 24;

/// The first release whose power struct begins with a 64-bit value.
const WIDE_POWER_RELEASE: u32 = 25;

/// Boards that a node may have, with room to spare.
const MOST_HANDLES: usize = 256;

type Handle = *mut c_void;
type Init = unsafe extern "C" fn(u64) -> u32;
type SocketHandles = unsafe extern "C" fn(*mut u32, *mut Handle) -> u32;
type ProcessorHandles = unsafe extern "C" fn(Handle, *mut u32, *mut Handle) -> u32;
type Version = unsafe extern "C" fn(*mut Room) -> u32;
type FillStruct = unsafe extern "C" fn(Handle, *mut Room) -> u32;
type FillStructOf = unsafe extern "C" fn(Handle, u32, *mut Room) -> u32;
type EnergyCount = unsafe extern "C" fn(Handle, *mut u64, *mut f32, *mut u64) -> u32;
type Temperature = unsafe extern "C" fn(Handle, u32, u32, *mut i64) -> u32;
type MemoryUsage = unsafe extern "C" fn(Handle, u32, *mut u64) -> u32;

/// Room for any struct of the library; the largest that is asked for has 896 bytes.
#[repr(C, align(16))]
struct Room([u8; 4096]);

impl Room {
    fn new() -> Self {
        Self([0; 4096])
    }

    /// The 32-bit value at `index`, counted in such values.
    fn word(&self, index: usize) -> u32 {
        let bytes = &self.0[index * 4..index * 4 + 4];
        u32::from_ne_bytes(bytes.try_into().expect("four bytes were taken"))
    }
}

/// The calls that are made while recording; those that a release lacks are not supported.
struct Calls {
    power: Call<FillStruct>,
    energy: Call<EnergyCount>,
    temperature: Call<Temperature>,
    clock: Call<FillStructOf>,
    memory: Call<MemoryUsage>,
    activity: Call<FillStruct>,
    asic: Call<FillStruct>,
    driver: Call<FillStruct>,
}

/// The library, initialised.
pub(super) struct AmdSmi {
    calls: Calls,
    release: u32,
    /// The first processor of each socket.
    boards: Vec<Board>,
}

/// A processor, and how many its socket has.
struct Board {
    /// The library's handle as a number, which may go to another thread; the library takes its own lock.
    handle: usize,
    processors: usize,
}

impl fmt::Debug for AmdSmi {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let boards = self.boards.len();
        formatter
            .debug_struct("AmdSmi")
            .field("release", &self.release)
            .field("boards", &boards)
            .finish()
    }
}

impl Board {
    fn handle(&self) -> Handle {
        std::ptr::with_exposed_provenance_mut(self.handle)
    }
}

#[expect(unsafe_code, reason = "the library is one of C")]
impl AmdSmi {
    pub(super) fn new(library: &'static Library) -> Result<Self, String> {
        let lacks = |name: &str| format!("amd-smi's library has no {name}");
        // SAFETY: every type here is that of the call of this name in amdsmi.h, releases 24 to 26; a version
        // may be asked for in older ones as well.
        let (init, sockets, processors, version, calls) = unsafe {
            let calls = Calls {
                power: call(library, "amdsmi_get_power_info"),
                energy: call(library, "amdsmi_get_energy_count"),
                temperature: call(library, "amdsmi_get_temp_metric"),
                clock: call(library, "amdsmi_get_clock_info"),
                memory: call(library, "amdsmi_get_gpu_memory_usage"),
                activity: call(library, "amdsmi_get_gpu_activity"),
                asic: call(library, "amdsmi_get_gpu_asic_info"),
                driver: call(library, "amdsmi_get_gpu_driver_info"),
            };
            let needed = |name: &'static str| move |_: CallError| lacks(name);
            (
                call::<Init>(library, "amdsmi_init").map_err(needed("amdsmi_init"))?,
                call::<SocketHandles>(library, "amdsmi_get_socket_handles")
                    .map_err(needed("amdsmi_get_socket_handles"))?,
                call::<ProcessorHandles>(library, "amdsmi_get_processor_handles")
                    .map_err(needed("amdsmi_get_processor_handles"))?,
                call::<Version>(library, "amdsmi_get_lib_version")
                    .map_err(needed("amdsmi_get_lib_version"))?,
                calls,
            )
        };
        let failed = |what: &str| {
            let what = what.to_owned();
            move |error: CallError| format!("amd-smi cannot be used: {what}: {error}")
        };
        // SAFETY: as above; it takes flags only.
        check(unsafe { init(INIT_AMD_GPUS) }, &[]).map_err(failed("amdsmi_init"))?;
        let mut room = Room::new();
        // SAFETY: as above; the struct has 32 bytes at most.
        check(unsafe { version(&raw mut room) }, &[]).map_err(failed("version"))?;
        let release = (0..2).map(|index| room.word(index)).find(|number| *number != 0).unwrap_or(0);
        if release < FIRST_RELEASE {
            return Err(format!(
                "release {release} of amd-smi's library tells power in another way"
            ));
        }
        let mut handles = [std::ptr::null_mut(); MOST_HANDLES];
        let mut count = MOST_HANDLES as u32;
        // SAFETY: as above; there is room for `count` handles.
        let status = unsafe { sockets(&raw mut count, handles.as_mut_ptr()) };
        check(status, &[]).map_err(failed("list of sockets"))?;
        let mut boards = Vec::new();
        for socket in handles.into_iter().take(count as usize) {
            let mut handles = [std::ptr::null_mut::<c_void>(); MOST_HANDLES];
            let mut count = MOST_HANDLES as u32;
            // SAFETY: as above; the socket was given by the library.
            let status = unsafe { processors(socket, &raw mut count, handles.as_mut_ptr()) };
            check(status, &[]).map_err(failed("list of processors"))?;
            if count > 0 {
                let handle = handles[0].expose_provenance();
                boards.push(Board { handle, processors: count as usize });
            }
        }
        Ok(Self { calls, release, boards })
    }

    /// Has a struct of a board filled.
    fn filled(&self, board: usize, call: Call<FillStruct>) -> Call<Room> {
        let call = call?;
        let mut room = Room::new();
        // SAFETY: the handle was given by the library, which stays loaded; no struct is larger than the
        // room.
        let status = unsafe { call(self.boards[board].handle(), &raw mut room) };
        check(status, &NOT_SUPPORTED).map(|()| room)
    }

    fn clock_mhz(&self, board: usize, clock: u32) -> Call<u32> {
        let call = self.calls.clock?;
        let mut room = Room::new();
        // SAFETY: as in `filled`.
        let status = unsafe { call(self.boards[board].handle(), clock, &raw mut room) };
        check(status, &NOT_SUPPORTED)?;
        supported(room.word(0))
    }

    fn temperature_at(&self, board: usize, place: u32) -> Call<f32> {
        let call = self.calls.temperature?;
        let mut celsius = 0;
        let handle = self.boards[board].handle();
        // SAFETY: as in `filled`; the value is a 64-bit integer.
        let status = unsafe { call(handle, place, TEMPERATURE_CURRENT, &raw mut celsius) };
        check(status, &NOT_SUPPORTED)?;
        match celsius {
            i64::MAX | 0xFFFF => Err(CallError::NotSupported),
            -100..=200 => Ok(celsius as f32),
            _ => Err(CallError::Impossible),
        }
    }
}

#[expect(unsafe_code, reason = "the library is one of C")]
impl ManagementLibrary for AmdSmi {
    fn boards(&self) -> usize {
        self.boards.len()
    }

    fn model(&self, board: usize) -> Option<String> {
        // The struct begins with the name.
        text(&self.filled(board, self.calls.asic).ok()?.0)
    }

    fn driver(&self) -> Option<String> {
        if self.boards.is_empty() {
            return None;
        }
        // So does this one with the version, since release 24.
        let text = text(&self.filled(0, self.calls.driver).ok()?.0)?;
        text.is_ascii().then_some(text)
    }

    fn notes(&self) -> Vec<String> {
        let partitioned = self.boards.iter().filter(|board| board.processors > 1).count();
        let mut notes = vec![format!("AMD: amd-smi's library, release {}", self.release)];
        if partitioned > 0 {
            notes.push(format!(
                "AMD: {partitioned} boards are partitioned; the first partition of each tells the power of its \
                 board, and boards are numbered by socket"
            ));
        }
        notes
    }

    fn power_w(&self, board: usize, kind: Kind) -> Call<f64> {
        let room = self.filled(board, self.calls.power)?;
        let first = if self.release >= WIDE_POWER_RELEASE { 2 } else { 0 };
        let word = match kind {
            Kind::Current => room.word(first),
            Kind::Average => room.word(first + 1),
        };
        supported(word).map(f64::from)
    }

    fn energy_uj(&self, board: usize) -> Call<f64> {
        let call = self.calls.energy?;
        let (mut count, mut unit_uj, mut stamp) = (0, 0.0, 0);
        let handle = self.boards[board].handle();
        // SAFETY: as in `filled`; the values are two 64-bit integers and a 32-bit float.
        let status = unsafe { call(handle, &raw mut count, &raw mut unit_uj, &raw mut stamp) };
        check(status, &NOT_SUPPORTED)?;
        energy_uj(count, unit_uj)
    }

    fn temperature_c(&self, board: usize) -> Call<f32> {
        match self.temperature_at(board, TEMPERATURE_HOTSPOT) {
            Err(CallError::NotSupported) => self.temperature_at(board, TEMPERATURE_EDGE),
            other => other,
        }
    }

    fn sm_clock_mhz(&self, board: usize) -> Call<u32> {
        self.clock_mhz(board, CLOCK_GFX)
    }

    fn mem_clock_mhz(&self, board: usize) -> Call<u32> {
        self.clock_mhz(board, CLOCK_MEMORY)
    }

    fn memory_used_bytes(&self, board: usize) -> Call<u64> {
        let call = self.calls.memory?;
        let mut bytes = 0;
        // SAFETY: as in `filled`; the value is a 64-bit integer.
        let status = unsafe { call(self.boards[board].handle(), MEMORY_VRAM, &raw mut bytes) };
        check(status, &NOT_SUPPORTED)?;
        supported_wide(bytes)
    }

    fn utilization_percent(&self, board: usize) -> Call<f32> {
        let room = self.filled(board, self.calls.activity)?;
        percent(supported(room.word(0))?)
    }
}

/// Energy of a counter with its unit. Both libraries give it so.
pub(super) fn energy_uj(count: u64, unit_uj: f32) -> Call<f64> {
    let count = supported_wide(count)?;
    if unit_uj <= 0.0 || !unit_uj.is_finite() {
        return Err(CallError::NotSupported);
    }
    Ok(count as f64 * f64::from(unit_uj))
}

pub(super) fn percent(value: u32) -> Call<f32> {
    if value <= 100 { Ok(value as f32) } else { Err(CallError::Impossible) }
}
