//! JSON read as a stream: several documents in one input, and long lists element by element.

use std::cell::RefCell;
use std::fmt;
use std::io::{BufRead, BufReader, Read};
use std::marker::PhantomData;
use std::rc::Rc;

use serde::de::{DeserializeOwned, DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};

use super::{Bytes, Input};
use crate::TraceError;

/// Carries an importer's own error through serde, which only knows its own.
#[derive(Debug, Clone, Default)]
pub(super) struct Failure(Rc<RefCell<Option<TraceError>>>);

impl Failure {
    /// The result for serde; the error is kept for [`Failure::or`].
    ///
    /// # Errors
    /// When `result` is one.
    pub(super) fn keep<T, E: serde::de::Error>(
        &self,
        result: Result<T, TraceError>,
    ) -> Result<T, E> {
        result.map_err(|error| {
            let message = error.to_string();
            *self.0.borrow_mut() = Some(error);
            E::custom(message)
        })
    }

    /// The error that was kept, or else `input` is not the JSON that was expected.
    fn or(&self, input: &Input, error: &serde_json::Error) -> TraceError {
        self.0.borrow_mut().take().unwrap_or_else(|| json_error(input, error))
    }
}

/// An error of serde about `input`, with its line.
pub(super) fn json_error(input: &Input, error: &serde_json::Error) -> TraceError {
    if error.is_io() {
        let source = std::io::Error::other(error.to_string());
        return TraceError::io("read", input.path())(source);
    }
    let what = if error.is_eof() { "ends inside its JSON" } else { "is not the JSON expected" };
    input.error(Some(error.line() as u64), format!("{what}: {error}"))
}

/// Reads every document of `input`, one after the other, with `seed(index)`; blanks and line ends
/// may stand between them. Gives the number of documents.
///
/// # Errors
/// The first that seeds or the input give.
pub(super) fn documents<S>(
    input: &Input,
    failure: &Failure,
    seed: impl FnMut(usize) -> S,
) -> Result<usize, TraceError>
where
    S: for<'de> DeserializeSeed<'de, Value = ()>,
{
    documents_of(text(input)?, input, failure, seed)
}

/// The bytes of `input` behind a byte-order mark.
///
/// # Errors
/// When it cannot be read.
pub(super) fn text(input: &Input) -> Result<Bytes, TraceError> {
    let mut reader = input.open()?;
    skip_mark(&mut reader).map_err(TraceError::io("read", input.path()))?;
    Ok(reader)
}

/// As [`documents`], of what `reader` gives; `input` is for messages.
///
/// # Errors
/// The first that seeds or the reader give.
pub(super) fn documents_of<S>(
    reader: impl BufRead,
    input: &Input,
    failure: &Failure,
    mut seed: impl FnMut(usize) -> S,
) -> Result<usize, TraceError>
where
    S: for<'de> DeserializeSeed<'de, Value = ()>,
{
    let reader = BufReader::new(PythonNumbers::new(reader));
    let mut json = serde_json::Deserializer::from_reader(reader);
    let mut count = 0;
    // `end` succeeds at the end of the input and fails at the start of another document.
    while let Err(end) = json.end() {
        if end.is_io() {
            return Err(json_error(input, &end));
        }
        seed(count).deserialize(&mut json).map_err(|error| failure.or(input, &error))?;
        count += 1;
    }
    Ok(count)
}

/// Reads lines of JSON, each to a `T`. `each` gets the number of the line and the value, or what is wrong
/// with the line and whether it is the last one, cut off. Blank lines are passed over.
///
/// # Errors
/// Those of `each` and of the input.
pub(super) fn lines<T: DeserializeOwned>(
    input: &Input,
    mut each: impl FnMut(u64, Result<T, String>) -> Result<(), TraceError>,
) -> Result<(), TraceError> {
    let mut lines = input.lines()?;
    while let Some(line) = lines.next_line()? {
        let parsed = match line.text {
            Ok(text) if text.trim().is_empty() => continue,
            Ok(text) => line_from_str(text).map_err(|error| {
                if error.is_eof() && !line.ended {
                    "was cut off; expected a line of JSON".to_owned()
                } else {
                    format!("is not the JSON expected: {error}")
                }
            }),
            Err(problem) => Err(format!("{problem}; expected a line of JSON")),
        };
        each(line.number, parsed)?;
    }
    Ok(())
}

fn line_from_str<T: DeserializeOwned>(text: &str) -> serde_json::Result<T> {
    serde_json::from_str(text).or_else(|error| {
        if !text.contains("NaN") && !text.contains("Infinity") {
            return Err(error);
        }
        serde_json::from_reader(PythonNumbers::new(text.as_bytes()))
    })
}

/// Python writes `NaN`, `Infinity` and `-Infinity` for numbers that JSON does not have. Outside strings
/// they become `null`: no measurement is of such a value.
struct PythonNumbers<R> {
    reader: R,
    /// Bytes that are not looked at yet: the start of what may be such a word.
    pending: Vec<u8>,
    ready: Vec<u8>,
    given: usize,
    in_string: bool,
    escaped: bool,
}

const PYTHON_NUMBERS: [&[u8]; 3] = [b"NaN", b"Infinity", b"-Infinity"];

impl<R: BufRead> PythonNumbers<R> {
    fn new(reader: R) -> Self {
        let (pending, ready) = (Vec::new(), Vec::new());
        Self { reader, pending, ready, given: 0, in_string: false, escaped: false }
    }

    /// Moves what can be judged from `pending` to `ready`; all of it at the end.
    fn translate(&mut self, at_end: bool) {
        let pending = std::mem::take(&mut self.pending);
        let mut at = 0;
        while at < pending.len() {
            let byte = pending[at];
            if self.in_string {
                match byte {
                    _ if self.escaped => self.escaped = false,
                    b'\\' => self.escaped = true,
                    b'"' => self.in_string = false,
                    _ => {}
                }
            } else if byte == b'"' {
                self.in_string = true;
            } else if matches!(byte, b'N' | b'I' | b'-') {
                let rest = &pending[at..];
                if let Some(word) = PYTHON_NUMBERS.iter().find(|word| rest.starts_with(word)) {
                    self.ready.extend_from_slice(b"null");
                    at += word.len();
                    continue;
                }
                if !at_end && PYTHON_NUMBERS.iter().any(|word| word.starts_with(rest)) {
                    self.pending = rest.to_vec();
                    return;
                }
            }
            self.ready.push(byte);
            at += 1;
        }
    }
}

impl<R: BufRead> Read for PythonNumbers<R> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        while self.given == self.ready.len() {
            (self.given, self.ready) = (0, Vec::with_capacity(self.ready.capacity()));
            let chunk = self.reader.fill_buf()?;
            let length = chunk.len();
            self.pending.extend_from_slice(chunk);
            self.reader.consume(length);
            self.translate(length == 0);
            if length == 0 && self.ready.is_empty() {
                return Ok(0);
            }
        }
        let rest = &self.ready[self.given..];
        let length = rest.len().min(buffer.len());
        buffer[..length].copy_from_slice(&rest[..length]);
        self.given += length;
        Ok(length)
    }
}

fn skip_mark(reader: &mut Bytes) -> std::io::Result<()> {
    if reader.fill_buf()?.starts_with(b"\xef\xbb\xbf") {
        reader.consume(3);
    }
    Ok(())
}

/// A seed for a list that calls `each` with every element and its place, so that the list is never held.
pub(super) struct Elements<'f, T, F> {
    each: F,
    failure: &'f Failure,
    element: PhantomData<fn() -> T>,
}

impl<'f, T, F: FnMut(usize, T) -> Result<(), TraceError>> Elements<'f, T, F> {
    /// Calls `each` with every element.
    pub(super) fn new(failure: &'f Failure, each: F) -> Self {
        Self { each, failure, element: PhantomData }
    }
}

impl<'de, T, F> DeserializeSeed<'de> for Elements<'_, T, F>
where
    T: serde::Deserialize<'de>,
    F: FnMut(usize, T) -> Result<(), TraceError>,
{
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_seq(self)
    }
}

impl<'de, T, F> Visitor<'de> for Elements<'_, T, F>
where
    T: serde::Deserialize<'de>,
    F: FnMut(usize, T) -> Result<(), TraceError>,
{
    type Value = ();

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a list")
    }

    fn visit_seq<A: SeqAccess<'de>>(mut self, mut list: A) -> Result<(), A::Error> {
        let mut index = 0;
        while let Some(element) = list.next_element()? {
            self.failure.keep((self.each)(index, element))?;
            index += 1;
        }
        Ok(())
    }
}

/// What to do with each key of an object that is read as a stream.
pub(super) trait Fields {
    /// Takes the value of `key` from `map`: `map.next_value::<T>()`, `map.next_value_seed(…)`, or
    /// `map.next_value::<serde::de::IgnoredAny>()` to pass over it.
    ///
    /// # Errors
    /// Those of the value.
    fn field<'de, A: MapAccess<'de>>(&mut self, key: &str, map: &mut A) -> Result<(), A::Error>;
}

/// A seed for an object whose keys go to [`Fields`].
pub(super) struct Object<'f, F>(pub(super) &'f mut F);

impl<'de, F: Fields> DeserializeSeed<'de> for Object<'_, F> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de, F: Fields> Visitor<'de> for Object<'_, F> {
    type Value = ();

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some(key) = map.next_key::<String>()? {
            self.0.field(&key, &mut map)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn input(text: &str) -> (tempfile::TempDir, Input) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("in.json");
        std::fs::write(&path, text).unwrap();
        let input = Input::new(&path);
        (folder, input)
    }

    struct Sums<'f> {
        failure: &'f Failure,
        name: Option<String>,
        sum: i64,
        sums: Rc<RefCell<Vec<i64>>>,
    }

    impl Fields for Sums<'_> {
        fn field<'de, A: MapAccess<'de>>(
            &mut self,
            key: &str,
            map: &mut A,
        ) -> Result<(), A::Error> {
            match key {
                "name" => self.name = map.next_value()?,
                "numbers" => {
                    let sum = &mut self.sum;
                    map.next_value_seed(Elements::new(self.failure, |_, number: i64| {
                        *sum += number;
                        if number < 0 { Err(TraceError::Other("negative".into())) } else { Ok(()) }
                    }))?;
                }
                _ => _ = map.next_value::<serde::de::IgnoredAny>()?,
            }
            Ok(())
        }
    }

    impl<'de> DeserializeSeed<'de> for Sums<'_> {
        type Value = ();

        fn deserialize<D: Deserializer<'de>>(mut self, json: D) -> Result<(), D::Error> {
            Object(&mut self).deserialize(json)?;
            self.sums.borrow_mut().push(self.sum);
            Ok(())
        }
    }

    fn sums(text: &str) -> Result<Vec<i64>, String> {
        let (_folder, input) = input(text);
        let failure = Failure::default();
        let sums = Rc::new(RefCell::new(Vec::new()));
        let seed = |_| Sums { failure: &failure, name: None, sum: 0, sums: Rc::clone(&sums) };
        documents(&input, &failure, seed).map_err(|error| {
            error
                .to_string()
                .split_once("in.json\"")
                .unwrap_or(("", &error.to_string()))
                .1
                .to_owned()
        })?;
        Ok(sums.take())
    }

    #[test]
    fn documents_follow_each_other_with_or_without_a_line_end() {
        let text = "\u{feff}{\"name\": \"a\", \"numbers\": [1, 2], \"other\": {\"x\": [1]}}\n\n{\"numbers\": [3]}{}\n ";
        assert_eq!(sums(text).unwrap(), [3, 3, 0]);
        assert_eq!(sums("  \n").unwrap(), [0; 0]);
    }

    #[test]
    fn errors_name_their_line_and_importers_keep_their_own() {
        assert_eq!(
            sums("{\"numbers\":\n[1, \"x\"]}").unwrap_err(),
            " line 2: is not the JSON expected: invalid type: string \"x\", expected i64 at line 2 column 7"
        );
        assert_eq!(
            sums("{\"numbers\": [1").unwrap_err(),
            " line 1: ends inside its JSON: EOF while parsing a list at line 1 column 14"
        );
        assert_eq!(sums("{\"numbers\": [-1]}").unwrap_err(), "negative");
    }

    #[test]
    fn numbers_that_json_lacks_become_null_wherever_the_pieces_break() {
        let text = br#"{"a": NaN, "NaN": [Infinity, -Infinity, -1], "b": "say \"NaN\", Infinity"}"#;
        for size in 1..20 {
            let mut read = String::new();
            let pieces = BufReader::with_capacity(size, text.as_slice());
            PythonNumbers::new(pieces).read_to_string(&mut read).unwrap();
            assert_eq!(
                read,
                r#"{"a": null, "NaN": [null, null, -1], "b": "say \"NaN\", Infinity"}"#
            );
        }
        let (_folder, input) = input("[1, NaN]\nN\n");
        let mut seen = Vec::new();
        lines::<Vec<Option<f64>>>(&input, |_, value| {
            seen.push(value.ok());
            Ok(())
        })
        .unwrap();
        assert_eq!(seen, [Some(vec![Some(1.0), None]), None]);
    }

    #[test]
    fn lines_are_parsed_one_by_one() {
        let (_folder, input) = input("1\n\nx\n3\n[4");
        let mut seen = Vec::new();
        lines::<i64>(&input, |line, value| {
            seen.push(format!("{line} {value:?}"));
            Ok(())
        })
        .unwrap();
        assert_eq!(seen[0], "1 Ok(1)");
        assert!(seen[1].starts_with("3 Err(\"is not the JSON expected: "), "{seen:?}");
        assert_eq!(seen[2], "4 Ok(3)");
        assert!(seen[3].starts_with("5 Err("), "{seen:?}");
    }
}
