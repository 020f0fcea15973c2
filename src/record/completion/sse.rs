//! Server-sent events, as <https://html.spec.whatwg.org/multipage/server-sent-events.html> defines them,
//! from bytes that arrive in pieces of any size.

/// Longest event that is kept, B. A completion chunk is a few hundred; more is no event stream.
const LONGEST_EVENT: usize = 16 << 20;

/// An event is longer than anything that a completion endpoint sends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("an event is longer than {} MiB", LONGEST_EVENT >> 20)]
pub(crate) struct EventTooLong;

/// Finds the data of events.
#[derive(Debug, Default)]
pub(crate) struct EventParser {
    /// The line so far.
    line: Vec<u8>,
    /// Data lines of the event so far, joined.
    data: Vec<u8>,
    has_data: bool,
    /// The last byte was a carriage return, which has ended a line; a line feed after it belongs to it.
    after_return: bool,
    is_past_first_line: bool,
}

impl EventParser {
    /// Takes the next bytes and gives the data of every event that they complete. An event is complete
    /// with the empty line after it, whichever way lines end.
    ///
    /// # Errors
    /// [`EventTooLong`].
    pub(crate) fn push(
        &mut self,
        mut bytes: &[u8],
        mut event: impl FnMut(&[u8]),
    ) -> Result<(), EventTooLong> {
        while let Some((&first, rest)) = bytes.split_first() {
            if std::mem::take(&mut self.after_return) && first == b'\n' {
                bytes = rest;
                continue;
            }
            let end = bytes.iter().position(|byte| matches!(byte, b'\n' | b'\r'));
            let taken = end.unwrap_or(bytes.len());
            if self.line.len() + self.data.len() + taken > LONGEST_EVENT {
                return Err(EventTooLong);
            }
            self.line.extend_from_slice(&bytes[..taken]);
            let Some(end) = end else { return Ok(()) };
            self.after_return = bytes[end] == b'\r';
            bytes = &bytes[end + 1..];
            self.end_line(&mut event);
        }
        Ok(())
    }

    /// Gives the data of an event that the end of the stream completes: some servers leave out the empty
    /// line after the last.
    pub(crate) fn finish(mut self, mut event: impl FnMut(&[u8])) {
        if !self.line.is_empty() {
            self.end_line(&mut event);
        }
        self.dispatch(&mut event);
    }

    fn end_line(&mut self, event: &mut impl FnMut(&[u8])) {
        let mut line = std::mem::take(&mut self.line);
        let is_first = !std::mem::replace(&mut self.is_past_first_line, true);
        let text = match line.strip_prefix(b"\xEF\xBB\xBF") {
            Some(text) if is_first => text,
            _ => &line,
        };
        if text.is_empty() {
            self.dispatch(event);
        } else if let Some(value) = data_of(text) {
            if std::mem::replace(&mut self.has_data, true) {
                self.data.push(b'\n');
            }
            self.data.extend_from_slice(value);
        }
        // The memory serves the next line.
        line.clear();
        self.line = line;
    }

    fn dispatch(&mut self, event: &mut impl FnMut(&[u8])) {
        if std::mem::take(&mut self.has_data) {
            event(&self.data);
        }
        self.data.clear();
    }
}

/// The value of a line of the field `data`; comments and other fields have none.
fn data_of(line: &[u8]) -> Option<&[u8]> {
    let value = line.strip_prefix(b"data")?;
    match value.split_first() {
        None => Some(value),
        Some((b':', value)) => Some(value.strip_prefix(b" ").unwrap_or(value)),
        Some(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn events<'a>(pieces: impl IntoIterator<Item = &'a [u8]>) -> Vec<String> {
        let mut found = Vec::new();
        let mut parser = EventParser::default();
        for piece in pieces {
            let add = |data: &[u8]| found.push(String::from_utf8(data.to_vec()).unwrap());
            parser.push(piece, add).unwrap();
        }
        parser.finish(|data| found.push(String::from_utf8(data.to_vec()).unwrap()));
        found
    }

    #[test]
    fn lines_may_end_in_any_way_and_other_fields_are_no_data() {
        let stream = "\u{feff}: a comment\ndata: one\n\ndata:two\r\ndata:  lines\r\n\r\nid: 7\nevent: x\n\n\
                      data: three\r\rdataset: no\n\ndata\n\ndata: \n\ndata: [DONE]";
        let expected = ["one", "two\n lines", "three", "", "", "[DONE]"];
        assert_eq!(events([stream.as_bytes()]), expected);
    }

    #[test]
    fn an_event_is_given_with_the_byte_that_completes_it() {
        for (stream, byte) in [("data: a\n\n", 9), ("data: a\r\n\r\n", 10), ("data: a\r\r", 9)] {
            let mut parser = EventParser::default();
            let mut at = None;
            for (index, piece) in stream.as_bytes().chunks(1).enumerate() {
                parser.push(piece, |_| at = at.or(Some(index + 1))).unwrap();
            }
            assert_eq!(at, Some(byte), "{stream:?}");
        }
    }

    #[test]
    fn an_endless_event_is_an_error() {
        let mut parser = EventParser::default();
        let piece = vec![b'x'; 1 << 20];
        let results: Vec<_> = (0..17).map(|_| parser.push(&piece, |_| ())).collect();
        assert_eq!((results[15], results[16]), (Ok(()), Err(EventTooLong)));
    }

    proptest! {
        #[test]
        fn how_a_stream_is_cut_into_pieces_changes_nothing(
            lines in prop::collection::vec(("(data: |data:|: |id: |data)", "[a-z\u{e4}\u{1F600} ]{0,6}", 0_usize..3, any::<bool>()), 0..12),
            cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..8),
        ) {
            let mut stream = Vec::new();
            for (field, value, ending, is_last) in lines {
                let ending = ["\n", "\r\n", "\r"][ending];
                stream.extend_from_slice(format!("{field}{value}{ending}").as_bytes());
                if is_last {
                    stream.extend_from_slice(ending.as_bytes());
                }
            }
            let mut cuts: Vec<_> = cuts.iter().map(|cut| cut.index(stream.len() + 1)).collect();
            cuts.extend([0, stream.len()]);
            cuts.sort_unstable();
            let pieces = cuts.windows(2).map(|cut| &stream[cut[0]..cut[1]]);
            prop_assert_eq!(events(pieces), events([stream.as_slice()]));
            prop_assert_eq!(events(stream.chunks(1)), events([stream.as_slice()]));
        }
    }
}
