//! What is asked of AMD's management libraries, whichever of them is there.

use std::fmt;
use std::path::Path;

use libloading::Library;

use super::amd_smi::AmdSmi;
use super::rocm_smi::RocmSmi;

/// Names by which the libraries are found, in the order in which they are tried: the newer one first.
const NAMES: [&str; 4] = [
    "libamd_smi.so",
    "/opt/rocm/lib/libamd_smi.so",
    "librocm_smi64.so",
    "/opt/rocm/lib/librocm_smi64.so",
];

/// What power a board tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// Of an instant (MI300 and later).
    Current,
    /// A trailing mean, over a time that AMD does not state.
    Average,
}

/// Why a call gave no value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CallError {
    /// The board or the library does not have it.
    NotSupported,
    /// The library's status; the two libraries number them alike from 1 to 7 only.
    Status(u32),
    /// A value that cannot be.
    Impossible,
}

impl fmt::Display for CallError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotSupported => formatter.write_str("not supported"),
            Self::Status(status) => write!(formatter, "the library's status is {status}"),
            Self::Impossible => formatter.write_str("a value that cannot be"),
        }
    }
}

/// What a call gave.
pub(super) type Call<T> = Result<T, CallError>;

/// A management library that is loaded and initialised. Boards are numbered from 0.
pub(super) trait ManagementLibrary: Send + fmt::Debug {
    fn boards(&self) -> usize;
    fn model(&self, board: usize) -> Option<String>;
    fn driver(&self) -> Option<String>;
    fn notes(&self) -> Vec<String>;
    fn power_w(&self, board: usize, kind: Kind) -> Call<f64>;
    /// Energy since some start, in microjoules.
    fn energy_uj(&self, board: usize) -> Call<f64>;
    /// At the hottest place, else at the edge.
    fn temperature_c(&self, board: usize) -> Call<f32>;
    fn sm_clock_mhz(&self, board: usize) -> Call<u32>;
    fn mem_clock_mhz(&self, board: usize) -> Call<u32>;
    fn memory_used_bytes(&self, board: usize) -> Call<u64>;
    fn utilization_percent(&self, board: usize) -> Call<f32>;
}

/// Loads a library: the given file, or the first that can be used, and says why those before it cannot.
pub(super) fn load(
    file: Option<&Path>,
) -> Result<(Box<dyn ManagementLibrary>, Vec<String>), String> {
    let names: Vec<&Path> = match file {
        Some(file) => vec![file],
        None => NAMES.iter().map(Path::new).collect(),
    };
    let mut problems = Vec::new();
    for name in names {
        let opened = open(name).map_err(|error| error.to_string()).and_then(initialise);
        match opened {
            Ok(library) => return Ok((library, problems)),
            Err(problem) => problems.push(problem),
        }
    }
    Err(format!(
        "AMD's library cannot be used: {}; expected AMD's driver and libamd_smi.so of ROCm 6.1 or newer, or \
         librocm_smi64.so",
        problems.join("; ")
    ))
}

#[expect(unsafe_code, reason = "a library runs code of its own when it is loaded")]
fn open(name: &Path) -> Result<&'static Library, libloading::Error> {
    // SAFETY: the library is AMD's, or the one that the user names in its place.
    let library = unsafe { Library::new(name) }?;
    // It stays loaded until the program ends, so that what is taken from it stays valid.
    Ok(Box::leak(Box::new(library)))
}

/// Which of the two a library is shows in the calls that it has.
fn initialise(library: &'static Library) -> Result<Box<dyn ManagementLibrary>, String> {
    if has_call(library, "amdsmi_init") {
        Ok(Box::new(AmdSmi::new(library)?))
    } else if has_call(library, "rsmi_init") {
        Ok(Box::new(RocmSmi::new(library)?))
    } else {
        Err("the library has neither amdsmi_init nor rsmi_init".into())
    }
}

#[expect(unsafe_code, reason = "a symbol is looked for by its name")]
fn has_call(library: &Library, name: &str) -> bool {
    // SAFETY: the symbol is not used, so its type does not matter.
    unsafe { library.get::<*const ()>(name.as_bytes()) }.is_ok()
}

/// A call of a library; `F` must be its type in the library's header.
///
/// # Safety
/// What is returned may only be called where `F` is that type.
#[expect(unsafe_code, reason = "the type of a call stands in the library's header only")]
pub(super) unsafe fn call<F: Copy>(library: &'static Library, name: &str) -> Call<F> {
    // SAFETY: the caller answers for the type.
    let symbol = unsafe { library.get::<F>(name.as_bytes()) };
    symbol.map(|symbol| *symbol).map_err(|_| CallError::NotSupported)
}

/// The status of a call as a result. Both libraries say 0 for success and 2 for what is not supported; 3
/// (amd-smi: not yet implemented) is the same to us.
pub(super) fn check(status: u32, not_supported: &[u32]) -> Call<()> {
    match status {
        0 => Ok(()),
        status if not_supported.contains(&status) => Err(CallError::NotSupported),
        status => Err(CallError::Status(status)),
    }
}

/// A 32-bit value, of which the largest, and the largest of 16 bits, stand for "not supported".
pub(super) fn supported(value: u32) -> Call<u32> {
    match value {
        u32::MAX | 0xFFFF => Err(CallError::NotSupported),
        value => Ok(value),
    }
}

/// A 64-bit value, of which the largest stands for "not supported".
pub(super) fn supported_wide(value: u64) -> Call<u64> {
    match value {
        u64::MAX => Err(CallError::NotSupported),
        value => Ok(value),
    }
}

/// The text in a buffer of C, up to its end.
pub(super) fn text(bytes: &[u8]) -> Option<String> {
    let end = bytes.iter().position(|byte| *byte == 0)?;
    let text = std::str::from_utf8(&bytes[..end]).ok()?.trim();
    (!text.is_empty()).then(|| text.to_owned())
}
