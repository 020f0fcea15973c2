//! The end of a file that somebody else writes.

use std::fs::{self, File, Metadata};
use std::io::{self, Read as _, Seek as _, SeekFrom};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

/// Read at once.
const BLOCK_BYTES: usize = 64 << 10;

/// Longest line that is kept; engines print their whole configuration in one, but not this much.
const MOST_LINE_BYTES: usize = 1 << 20;

/// What becomes of a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TailLine<'a> {
    /// A line without its end.
    Whole(&'a [u8]),
    /// A line that was never ended: the file was cut, replaced, or given up.
    Cut(&'a [u8]),
    /// A line longer than is kept.
    TooLong,
}

/// How often a file became another one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct TailCounts {
    /// Another file took its name (rotation).
    pub(crate) replaced: u64,
    /// It became shorter (truncation, as by `copytruncate`).
    pub(crate) truncated: u64,
}

/// Reads what is appended to a file, whole lines only. The file need not be there yet. One that is
/// renamed is read to its end before the next of its name; one that is cut is read from its start. A file
/// that is cut and outgrows its old length between two looks cannot be told from one that only grew.
#[derive(Debug)]
pub(crate) struct Tail {
    path: PathBuf,
    open: Option<OpenFile>,
    /// The beginning of a line whose end is not there yet.
    begun: Vec<u8>,
    is_too_long: bool,
    counts: TailCounts,
    block: Vec<u8>,
}

#[derive(Debug)]
struct OpenFile {
    file: File,
    identity: (u64, u64),
    read_bytes: u64,
}

impl OpenFile {
    fn new(path: &Path) -> io::Result<Option<Self>> {
        match fs::metadata(path) {
            // Opening a pipe would wait for its writer.
            Ok(metadata) if !metadata.is_file() => {
                return Err(io::Error::new(io::ErrorKind::InvalidInput, "is no regular file"));
            }
            Ok(_) => (),
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        }
        let file = match File::open(path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        };
        let identity = identity(&file.metadata()?);
        Ok(Some(Self { file, identity, read_bytes: 0 }))
    }
}

fn identity(metadata: &Metadata) -> (u64, u64) {
    (metadata.dev(), metadata.ino())
}

impl Tail {
    /// Follows a file from its start, now or once it is there.
    #[must_use]
    pub(crate) fn from_start(path: &Path) -> Self {
        Self {
            path: path.to_owned(),
            open: None,
            begun: Vec::new(),
            is_too_long: false,
            counts: TailCounts::default(),
            block: vec![0; BLOCK_BYTES],
        }
    }

    /// Follows a file from its end, if it is there; gives its first `head_bytes` at most. If its last line
    /// is not ended yet, that line's rest is the first that is read.
    ///
    /// # Errors
    /// When the file is there and cannot be read.
    pub(crate) fn from_end(path: &Path, head_bytes: u64) -> io::Result<(Self, Vec<u8>)> {
        let mut tail = Self::from_start(path);
        let mut head = Vec::new();
        if let Some(mut open) = OpenFile::new(path)? {
            (&open.file).take(head_bytes).read_to_end(&mut head)?;
            open.read_bytes = open.file.seek(SeekFrom::End(0))?;
            tail.open = Some(open);
        }
        Ok((tail, head))
    }

    /// Gives `take` every line that is whole by now.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub(crate) fn read(&mut self, take: &mut dyn FnMut(TailLine<'_>)) -> io::Result<()> {
        if self.open.is_none() {
            self.open = OpenFile::new(&self.path)?;
        }
        self.read_to_end(take)?;
        let Some(open) = &self.open else { return Ok(()) };
        if open.file.metadata()?.len() < open.read_bytes {
            self.counts.truncated += 1;
            self.cut(take);
            self.rewind()?;
            self.read_to_end(take)?;
        }
        let now = match fs::metadata(&self.path) {
            Ok(metadata) => identity(&metadata),
            // Between renaming and creating there is none.
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(error),
        };
        if self.open.as_ref().is_some_and(|open| open.identity != now) {
            self.counts.replaced += 1;
            // What came between the last read and the renaming.
            self.read_to_end(take)?;
            self.cut(take);
            self.open = OpenFile::new(&self.path)?;
            self.read_to_end(take)?;
        }
        Ok(())
    }

    /// Reads a last time, and gives the line that is not ended as well.
    ///
    /// # Errors
    /// When the file cannot be read; the lines so far were given.
    pub(crate) fn finish(mut self, take: &mut dyn FnMut(TailLine<'_>)) -> io::Result<TailCounts> {
        let read = self.read(take);
        self.cut(take);
        read.map(|()| self.counts)
    }

    fn rewind(&mut self) -> io::Result<()> {
        if let Some(open) = &mut self.open {
            open.file.seek(SeekFrom::Start(0))?;
            open.read_bytes = 0;
        }
        Ok(())
    }

    fn read_to_end(&mut self, take: &mut dyn FnMut(TailLine<'_>)) -> io::Result<()> {
        loop {
            let Some(open) = &mut self.open else { return Ok(()) };
            let count = match open.file.read(&mut self.block) {
                Ok(0) => return Ok(()),
                Ok(count) => count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
            };
            open.read_bytes += count as u64;
            let block = std::mem::take(&mut self.block);
            self.split(&block[..count], take);
            self.block = block;
        }
    }

    fn split(&mut self, mut bytes: &[u8], take: &mut dyn FnMut(TailLine<'_>)) {
        while let Some(end) = bytes.iter().position(|byte| *byte == b'\n') {
            let line = &bytes[..end];
            bytes = &bytes[end + 1..];
            if std::mem::take(&mut self.is_too_long) {
                take(TailLine::TooLong);
            } else if self.begun.is_empty() {
                take(TailLine::Whole(line));
            } else {
                self.begun.extend_from_slice(line);
                take(TailLine::Whole(&self.begun));
            }
            self.begun.clear();
        }
        if self.begun.len() + bytes.len() > MOST_LINE_BYTES {
            self.is_too_long = true;
            self.begun = Vec::new();
        } else if !self.is_too_long {
            self.begun.extend_from_slice(bytes);
        }
    }

    /// Gives a line that will never be ended.
    fn cut(&mut self, take: &mut dyn FnMut(TailLine<'_>)) {
        if std::mem::take(&mut self.is_too_long) {
            take(TailLine::TooLong);
        } else if !self.begun.is_empty() {
            take(TailLine::Cut(&self.begun));
        }
        self.begun.clear();
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    /// A file in a folder of its own.
    struct Log {
        folder: tempfile::TempDir,
        tail: Tail,
    }

    impl Log {
        fn new() -> Self {
            let folder = tempfile::tempdir().unwrap();
            let tail = Tail::from_start(&folder.path().join("log"));
            Self { folder, tail }
        }

        fn path(&self) -> PathBuf {
            self.folder.path().join("log")
        }

        fn append(&self, bytes: &[u8]) {
            let mut file = File::options().create(true).append(true).open(self.path()).unwrap();
            file.write_all(bytes).unwrap();
        }

        fn read(&mut self) -> Vec<String> {
            collect(|take| self.tail.read(take))
        }

        fn finish(self) -> (Vec<String>, TailCounts) {
            let mut counts = TailCounts::default();
            let lines = collect(|take| {
                counts = self.tail.finish(take)?;
                Ok(())
            });
            (lines, counts)
        }
    }

    fn collect(read: impl FnOnce(&mut dyn FnMut(TailLine<'_>)) -> io::Result<()>) -> Vec<String> {
        let mut lines = Vec::new();
        read(&mut |line| {
            lines.push(match line {
                TailLine::Whole(bytes) => String::from_utf8_lossy(bytes).into_owned(),
                TailLine::Cut(bytes) => format!("cut {}", String::from_utf8_lossy(bytes)),
                TailLine::TooLong => "too long".to_owned(),
            });
        })
        .unwrap();
        lines
    }

    #[test]
    fn a_file_that_appears_and_grows_gives_whole_lines() {
        let mut log = Log::new();
        assert!(log.read().is_empty(), "it is not there yet");
        log.append(b"one\ntw");
        assert_eq!(log.read(), ["one"]);
        assert!(log.read().is_empty());
        log.append(b"o\n\nthree");
        assert_eq!(log.read(), ["two", ""]);
        log.append(b" and a half");
        assert_eq!(log.finish(), (vec!["cut three and a half".to_owned()], TailCounts::default()));
    }

    #[test]
    fn wherever_a_look_falls_the_lines_are_the_same() {
        let text = "one\n\nz\u{fc}rich\r\nlast\n".as_bytes();
        for first in 0..=text.len() {
            for second in first..=text.len() {
                let mut log = Log::new();
                let mut lines = Vec::new();
                for part in [&text[..first], &text[first..second], &text[second..]] {
                    log.append(part);
                    lines.extend(log.read());
                }
                assert_eq!(lines, ["one", "", "z\u{fc}rich\r", "last"], "{first} {second}");
                assert!(log.finish().0.is_empty());
            }
        }
    }

    #[test]
    fn a_rotated_file_is_read_to_its_end_before_the_next() {
        let mut log = Log::new();
        log.append(b"one\n");
        assert_eq!(log.read(), ["one"]);
        log.append(b"two\nthr");
        fs::rename(log.path(), log.folder.path().join("log.1")).unwrap();
        assert_eq!(log.read(), ["two"]);
        // Between renaming and creating, the writer still holds the old file.
        let mut old = File::options().append(true).open(log.folder.path().join("log.1")).unwrap();
        old.write_all(b"ee\nfo").unwrap();
        log.append(b"new\n");
        assert_eq!(log.read(), ["three", "cut fo", "new"]);
        assert_eq!(log.finish().1, TailCounts { replaced: 1, truncated: 0 });
    }

    #[test]
    fn a_file_that_was_cut_is_read_from_its_start() {
        let mut log = Log::new();
        log.append(b"one\ntwo\nthr");
        assert_eq!(log.read(), ["one", "two"]);
        File::options().write(true).open(log.path()).unwrap().set_len(0).unwrap();
        log.append(b"new\n");
        assert_eq!(log.read(), ["cut thr", "new"]);
        assert_eq!(log.finish().1, TailCounts { replaced: 0, truncated: 1 });
    }

    #[test]
    fn an_endless_line_is_dropped_and_the_next_is_read() {
        let mut log = Log::new();
        log.append(&vec![b'x'; MOST_LINE_BYTES + BLOCK_BYTES]);
        assert!(log.read().is_empty());
        assert!(log.tail.begun.capacity() <= 2 * MOST_LINE_BYTES);
        log.append(b"x\nnext\n");
        assert_eq!(log.read(), ["too long", "next"]);
    }

    #[test]
    fn a_file_that_is_there_is_followed_from_its_end() {
        let mut log = Log::new();
        log.append(b"old\nolder\nha");
        let (tail, head) = Tail::from_end(&log.path(), 4).unwrap();
        log.tail = tail;
        assert_eq!(head, b"old\n");
        log.append(b"lf\nnew\n");
        assert_eq!(log.read(), ["lf", "new"]);
        let error = Tail::from_end(log.folder.path(), 4).unwrap_err();
        assert_eq!(error.to_string(), "is no regular file");
        let (mut tail, head) = Tail::from_end(&log.folder.path().join("later"), 4).unwrap();
        assert!(head.is_empty());
        fs::write(log.folder.path().join("later"), "first\n").unwrap();
        assert_eq!(collect(|take| tail.read(take)), ["first"]);
    }
}
