//! ROCm SMI's library, by the calls of `rocm_smi.h` that fill numbers and no structs.

use std::fmt;

use libloading::Library;

use super::amd_smi::{energy_uj, percent};
use super::library::{
    Call, CallError, Kind, ManagementLibrary, call, check, supported, supported_wide, text,
};

const NOT_SUPPORTED: [u32; 2] = [
    2, // RSMI_STATUS_NOT_SUPPORTED
    9, // RSMI_STATUS_NOT_YET_IMPLEMENTED
];

const AVERAGE_POWER: u32 = 0;
const CURRENT_POWER: u32 = 1;
const TEMPERATURE_EDGE: u32 = 0;
const TEMPERATURE_JUNCTION: u32 = 1;
const TEMPERATURE_CURRENT: u32 = 0;
const MEMORY_VRAM: u32 = 0;

const WATTS_PER_MICROWATT: f64 = 1e-6;

/// Domain, bus and device of a PCI address as the library gives it. What is left out tells partitions of
/// one board apart.
const BOARD_OF_ADDRESS: u64 = 0xFFFF_FFFF_0000_FFF8;

type Init = unsafe extern "C" fn(u64) -> u32;
type Count = unsafe extern "C" fn(*mut u32) -> u32;
type Power = unsafe extern "C" fn(u32, *mut u64, *mut u32) -> u32;
type AveragePower = unsafe extern "C" fn(u32, u32, *mut u64) -> u32;
type EnergyCount = unsafe extern "C" fn(u32, *mut u64, *mut f32, *mut u64) -> u32;
type Temperature = unsafe extern "C" fn(u32, u32, u32, *mut i64) -> u32;
type MemoryUsage = unsafe extern "C" fn(u32, u32, *mut u64) -> u32;
type BusyPercent = unsafe extern "C" fn(u32, *mut u32) -> u32;
type PciAddress = unsafe extern "C" fn(u32, *mut u64) -> u32;
type Name = unsafe extern "C" fn(u32, *mut u8, usize) -> u32;

/// The library, initialised.
pub(super) struct RocmSmi {
    power: Call<Power>,
    average_power: Call<AveragePower>,
    energy: Call<EnergyCount>,
    temperature: Call<Temperature>,
    memory: Call<MemoryUsage>,
    busy: Call<BusyPercent>,
    name: Call<Name>,
    /// The library's number of the first device of each board.
    boards: Vec<u32>,
    devices: u32,
}

impl fmt::Debug for RocmSmi {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("RocmSmi").field("boards", &self.boards).finish_non_exhaustive()
    }
}

#[expect(unsafe_code, reason = "the library is one of C")]
impl RocmSmi {
    pub(super) fn new(library: &'static Library) -> Result<Self, String> {
        let lacks = |_: CallError| "ROCm SMI's library lacks calls".to_owned();
        // SAFETY: every type here is that of the call of this name in rocm_smi.h, releases 5 to 7.
        let (init, count, address, mut source) = unsafe {
            (
                call::<Init>(library, "rsmi_init").map_err(lacks)?,
                call::<Count>(library, "rsmi_num_monitor_devices").map_err(lacks)?,
                call::<PciAddress>(library, "rsmi_dev_pci_id_get"),
                Self {
                    power: call(library, "rsmi_dev_power_get"),
                    average_power: call(library, "rsmi_dev_power_ave_get"),
                    energy: call(library, "rsmi_dev_energy_count_get"),
                    temperature: call(library, "rsmi_dev_temp_metric_get"),
                    memory: call(library, "rsmi_dev_memory_usage_get"),
                    busy: call(library, "rsmi_dev_busy_percent_get"),
                    name: call(library, "rsmi_dev_name_get"),
                    boards: Vec::new(),
                    devices: 0,
                },
            )
        };
        let failed = |error: CallError| format!("ROCm SMI cannot be used: {error}");
        // SAFETY: as above; it takes flags only.
        check(unsafe { init(0) }, &[]).map_err(failed)?;
        // SAFETY: as above; the count is a 32-bit integer.
        check(unsafe { count(&raw mut source.devices) }, &[]).map_err(failed)?;
        let mut seen = Vec::new();
        for device in 0..source.devices {
            let mut address_of = 0;
            let known = address.and_then(|address| {
                // SAFETY: as above; the address is a 64-bit integer.
                check(unsafe { address(device, &raw mut address_of) }, &NOT_SUPPORTED)
            });
            let board = address_of & BOARD_OF_ADDRESS;
            if known.is_err() || !seen.contains(&board) {
                source.boards.push(device);
            }
            if known.is_ok() {
                seen.push(board);
            }
        }
        Ok(source)
    }

    fn temperature_at(&self, board: usize, place: u32) -> Call<f32> {
        let call = self.temperature?;
        let mut millicelsius = 0;
        let device = self.boards[board];
        // SAFETY: the types are checked in `new`; the value is a 64-bit integer.
        let status = unsafe { call(device, place, TEMPERATURE_CURRENT, &raw mut millicelsius) };
        check(status, &NOT_SUPPORTED)?;
        Ok((millicelsius as f64 / 1e3) as f32)
    }
}

#[expect(unsafe_code, reason = "the library is one of C")]
impl ManagementLibrary for RocmSmi {
    fn boards(&self) -> usize {
        self.boards.len()
    }

    fn model(&self, board: usize) -> Option<String> {
        let call = self.name.ok()?;
        let mut name = [0; 256];
        // SAFETY: the types are checked in `new`; the length is that of the buffer, and a text that is
        // cut off is not taken.
        let status = unsafe { call(self.boards[board], name.as_mut_ptr(), name.len()) };
        check(status, &NOT_SUPPORTED).ok()?;
        text(&name)
    }

    fn driver(&self) -> Option<String> {
        None
    }

    fn notes(&self) -> Vec<String> {
        let mut notes = vec!["AMD: ROCm SMI's library".to_owned()];
        if self.boards.len() < self.devices as usize {
            notes.push(format!(
                "AMD: {} devices are partitions of {} boards; the first partition of each tells the power of \
                 its board",
                self.devices,
                self.boards.len()
            ));
        }
        notes
    }

    fn power_w(&self, board: usize, kind: Kind) -> Call<f64> {
        let device = self.boards[board];
        let mut microwatts = 0;
        if let Ok(call) = self.power {
            let mut given = u32::MAX;
            // SAFETY: the types are checked in `new`; the values are integers of 64 and 32 bits.
            let status = unsafe { call(device, &raw mut microwatts, &raw mut given) };
            check(status, &NOT_SUPPORTED)?;
            let wanted = match kind {
                Kind::Current => CURRENT_POWER,
                Kind::Average => AVERAGE_POWER,
            };
            if given != wanted {
                return Err(CallError::NotSupported);
            }
        } else {
            if kind == Kind::Current {
                return Err(CallError::NotSupported);
            }
            let call = self.average_power?;
            // SAFETY: as above; sensor 0 is that of the board.
            let status = unsafe { call(device, 0, &raw mut microwatts) };
            check(status, &NOT_SUPPORTED)?;
        }
        supported_wide(microwatts).map(|microwatts| microwatts as f64 * WATTS_PER_MICROWATT)
    }

    fn energy_uj(&self, board: usize) -> Call<f64> {
        let call = self.energy?;
        let (mut count, mut unit_uj, mut stamp) = (0, 0.0, 0);
        let device = self.boards[board];
        // SAFETY: the types are checked in `new`; two 64-bit integers and a 32-bit float.
        let status = unsafe { call(device, &raw mut count, &raw mut unit_uj, &raw mut stamp) };
        check(status, &NOT_SUPPORTED)?;
        energy_uj(count, unit_uj)
    }

    fn temperature_c(&self, board: usize) -> Call<f32> {
        match self.temperature_at(board, TEMPERATURE_JUNCTION) {
            Err(CallError::NotSupported) => self.temperature_at(board, TEMPERATURE_EDGE),
            other => other,
        }
    }

    /// Clocks come in a struct that differs from release to release.
    fn sm_clock_mhz(&self, _board: usize) -> Call<u32> {
        Err(CallError::NotSupported)
    }

    fn mem_clock_mhz(&self, _board: usize) -> Call<u32> {
        Err(CallError::NotSupported)
    }

    fn memory_used_bytes(&self, board: usize) -> Call<u64> {
        let call = self.memory?;
        let mut bytes = 0;
        // SAFETY: the types are checked in `new`; the value is a 64-bit integer.
        let status = unsafe { call(self.boards[board], MEMORY_VRAM, &raw mut bytes) };
        check(status, &NOT_SUPPORTED)?;
        supported_wide(bytes)
    }

    fn utilization_percent(&self, board: usize) -> Call<f32> {
        let call = self.busy?;
        let mut busy = 0;
        // SAFETY: the types are checked in `new`; the value is a 32-bit integer.
        let status = unsafe { call(self.boards[board], &raw mut busy) };
        check(status, &NOT_SUPPORTED)?;
        percent(supported(busy)?)
    }
}
