//! One input: a file or standard input, plain, gzip or Zstandard, read as a stream of bytes.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Seek as _, SeekFrom};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use sha2::Digest as _;

use super::head::Head;
use crate::TraceError;

/// The name of standard input on a command line.
pub const STANDARD_INPUT: &str = "-";

const BUFFER_BYTES: usize = 1 << 16;
/// How much of an input is looked at to tell its format.
const HEAD_BYTES: u64 = 1 << 18;

/// Told of every piece read: the number of its bytes, as they lie on disk.
#[derive(Clone)]
pub struct Progress(Arc<dyn Fn(u64) + Send + Sync>);

impl Progress {
    /// Calls `told` with the bytes of every piece read.
    pub fn new(told: impl Fn(u64) + Send + Sync + 'static) -> Self {
        Self(Arc::new(told))
    }
}

impl std::fmt::Debug for Progress {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("Progress")
    }
}

/// A file, or standard input (`-`). It can be opened as often as a reader needs; standard input is kept
/// in a temporary file for that, which goes away with the input.
#[derive(Debug, Clone)]
pub struct Input {
    path: PathBuf,
    progress: Option<Progress>,
    spool: Arc<OnceLock<File>>,
    digest: Arc<Mutex<Option<String>>>,
}

/// Bytes of an input, decompressed.
pub type Bytes = Box<dyn BufRead>;

impl Input {
    /// An input that is read without telling anybody.
    #[must_use]
    pub fn new(path: &Path) -> Self {
        Self {
            path: path.to_owned(),
            progress: None,
            spool: Arc::default(),
            digest: Arc::default(),
        }
    }

    /// The same input, which tells `progress` what it reads.
    #[must_use]
    pub fn with_progress(mut self, progress: Option<Progress>) -> Self {
        self.progress = progress;
        self
    }

    /// Where it lies; for messages.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Name of the file, for notes.
    #[must_use]
    pub fn file_name(&self) -> String {
        if self.is_standard_input() {
            return "standard input".into();
        }
        super::file_name(&self.path)
    }

    /// Name of the file up to its first dot after the first letter: what a run is called by default.
    #[must_use]
    pub fn stem(&self) -> String {
        if self.is_standard_input() {
            return "stdin".into();
        }
        let name = super::file_name(&self.path);
        let mut stem = name.as_str();
        for suffix in [".gz", ".zst"] {
            stem = stem.strip_suffix(suffix).unwrap_or(stem);
        }
        match stem.rsplit_once('.') {
            Some((before, _)) if !before.is_empty() => before.to_owned(),
            _ => stem.to_owned(),
        }
    }

    /// Year of the last change of the file, UTC; `None` where the system does not tell or there is no
    /// file.
    #[must_use]
    pub fn modified(&self) -> Option<jiff::Timestamp> {
        if self.is_standard_input() {
            return None;
        }
        let time = std::fs::metadata(&self.path).ok()?.modified().ok()?;
        jiff::Timestamp::try_from(time).ok()
    }

    /// Opens the input from its start. Compression is told by the first bytes.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub fn open(&self) -> Result<Bytes, TraceError> {
        self.decompressed(self.raw()?)
    }

    /// Opens the input as lines.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub fn lines(&self) -> Result<super::Lines<Bytes>, TraceError> {
        Ok(super::Lines::new(&self.path, self.open()?))
    }

    /// The first bytes, decompressed; empty if the input cannot be read.
    #[must_use]
    pub fn head(&self) -> Head {
        let quiet = Self { progress: None, digest: Arc::default(), ..self.clone() };
        let mut bytes = Vec::new();
        if let Ok(reader) = quiet.open() {
            // An input that fails half way is judged by what could be read.
            let _ = reader.take(HEAD_BYTES).read_to_end(&mut bytes);
        }
        Head::new(&self.path, bytes)
    }

    /// SHA-256 of the bytes as they lie on disk; taken on the way where the input was read to its end.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub fn sha256(&self) -> Result<String, TraceError> {
        if let Some(digest) = lock(&self.digest).as_ref() {
            return Ok(digest.clone());
        }
        let mut raw = self.raw()?;
        io::copy(&mut raw, &mut io::sink()).map_err(TraceError::io("read", &self.path))?;
        lock(&self.digest).clone().ok_or_else(|| {
            TraceError::Other(format!("\"{}\" changed while it was read", self.path.display()))
        })
    }

    /// An error about this input.
    pub fn error(&self, line: Option<u64>, message: impl Into<String>) -> TraceError {
        TraceError::Format { path: self.path.clone(), line, message: message.into() }
    }

    fn is_standard_input(&self) -> bool {
        self.path.as_os_str() == STANDARD_INPUT
    }

    fn raw(&self) -> Result<BufReader<Watched>, TraceError> {
        let file = if self.is_standard_input() {
            self.spooled()?
        } else {
            File::open(&self.path).map_err(TraceError::io("read", &self.path))?
        };
        let watched = Watched {
            file,
            progress: self.progress.clone(),
            hash: Some(sha2::Sha256::new()),
            digest: Arc::clone(&self.digest),
        };
        Ok(BufReader::with_capacity(BUFFER_BYTES, watched))
    }

    /// A handle of the temporary file that holds standard input. Handles share their position, so only
    /// one reader may be at work at a time.
    fn spooled(&self) -> Result<File, TraceError> {
        let error = |source| TraceError::io("keep in a temporary file", &self.path)(source);
        if self.spool.get().is_none() {
            let mut file = tempfile::tempfile().map_err(error)?;
            io::copy(&mut io::stdin().lock(), &mut file).map_err(error)?;
            // Another handle of this input cannot have filled the slot: standard input has one reader.
            let _ = self.spool.set(file);
        }
        let spool = self.spool.get().ok_or_else(|| {
            TraceError::Other("standard input could not be kept in a temporary file".into())
        })?;
        let mut file = spool.try_clone().map_err(error)?;
        file.seek(SeekFrom::Start(0)).map_err(error)?;
        Ok(file)
    }

    fn decompressed(&self, mut raw: BufReader<Watched>) -> Result<Bytes, TraceError> {
        let start = raw.fill_buf().map_err(TraceError::io("read", &self.path))?;
        if start.starts_with(&[0x1f, 0x8b]) {
            let decoder = flate2::bufread::MultiGzDecoder::new(raw);
            return Ok(buffered(decoder, "gzip"));
        }
        if start.starts_with(&[0x28, 0xb5, 0x2f, 0xfd]) {
            let decoder = zstd::stream::read::Decoder::with_buffer(raw)
                .map_err(TraceError::io("read", &self.path))?;
            return Ok(buffered(decoder, "Zstandard"));
        }
        Ok(Box::new(raw))
    }
}

fn buffered(decoder: impl Read + 'static, compression: &'static str) -> Bytes {
    Box::new(BufReader::with_capacity(BUFFER_BYTES, Decompressed { decoder, compression }))
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Compressed data, with errors that say so.
struct Decompressed<R> {
    decoder: R,
    compression: &'static str,
}

impl<R: Read> Read for Decompressed<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let compression = self.compression;
        self.decoder.read(buffer).map_err(|error| match error.kind() {
            io::ErrorKind::UnexpectedEof => io::Error::new(
                error.kind(),
                format!("the {compression} data end early; the file is cut off"),
            ),
            kind => io::Error::new(kind, format!("the {compression} data are damaged: {error}")),
        })
    }
}

/// A file whose bytes are counted and hashed as they pass.
struct Watched {
    file: File,
    progress: Option<Progress>,
    hash: Option<sha2::Sha256>,
    digest: Arc<Mutex<Option<String>>>,
}

impl Read for Watched {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let length = self.file.read(buffer)?;
        if length == 0 && !buffer.is_empty() {
            if let Some(hash) = self.hash.take() {
                *lock(&self.digest) = Some(crate::digest::hex(&hash.finalize()));
            }
        } else if let Some(hash) = &mut self.hash {
            hash.update(&buffer[..length]);
        }
        if let Some(Progress(told)) = &self.progress {
            told(length as u64);
        }
        Ok(length)
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    fn gzip(bytes: &[u8]) -> Vec<u8> {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        encoder.write_all(bytes).unwrap();
        encoder.finish().unwrap()
    }

    fn read(bytes: &[u8]) -> Result<String, String> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log");
        std::fs::write(&path, bytes).unwrap();
        let mut text = String::new();
        let input = Input::new(&path);
        match input.open().unwrap().read_to_string(&mut text) {
            Ok(_) => Ok(text),
            Err(error) => Err(error.to_string()),
        }
    }

    #[test]
    fn compression_is_told_by_content_and_members_follow_each_other() {
        assert_eq!(read(b"plain").unwrap(), "plain");
        assert_eq!(read(&[gzip(b"one "), gzip(b"two")].concat()).unwrap(), "one two");
        let frame = |bytes: &[u8]| zstd::encode_all(bytes, 1).unwrap();
        assert_eq!(read(&[frame(b"one "), frame(b"two")].concat()).unwrap(), "one two");
        assert_eq!(read(b"").unwrap(), "");
    }

    #[test]
    fn cut_off_archives_say_so() {
        let text: Vec<u8> = (0..9999_u32).flat_map(u32::to_le_bytes).collect();
        let bytes = gzip(&text);
        assert_eq!(
            read(&bytes[..bytes.len() / 2]).unwrap_err(),
            "the gzip data end early; the file is cut off"
        );
        let bytes = zstd::encode_all(text.as_slice(), 1).unwrap();
        assert_eq!(
            read(&bytes[..bytes.len() / 2]).unwrap_err(),
            "the Zstandard data end early; the file is cut off"
        );
        let mut bytes = gzip(b"some text");
        bytes[12] ^= 0xff;
        assert!(read(&bytes).unwrap_err().starts_with("the gzip data are damaged: "));
    }

    #[test]
    fn the_digest_and_the_count_are_of_the_bytes_on_disk() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log.csv.gz");
        let bytes = gzip(&vec![b'x'; 200_000]);
        std::fs::write(&path, &bytes).unwrap();
        let counted = Arc::new(Mutex::new(0));
        let total = Arc::clone(&counted);
        let input = Input::new(&path)
            .with_progress(Some(Progress::new(move |length| *total.lock().unwrap() += length)));
        let mut text = Vec::new();
        input.open().unwrap().read_to_end(&mut text).unwrap();
        assert_eq!(text.len(), 200_000);
        let expected = crate::digest::hex(&sha2::Sha256::digest(&bytes));
        assert_eq!(input.sha256().unwrap(), expected);
        assert_eq!(*counted.lock().unwrap(), bytes.len() as u64);
        assert_eq!(Input::new(&path).sha256().unwrap(), expected);
        assert_eq!(input.stem(), "log");
        assert!(Input::new(Path::new("/nowhere")).head().bytes().is_empty());
    }
}
