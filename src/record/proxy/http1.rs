//! Finds the messages of HTTP/1.1 (RFC 9112) in bytes that arrive in pieces of any size.

/// Longest head that is read, B.
const LONGEST_HEAD: usize = 256 << 10;

/// Most header fields of a message.
const MOST_FIELDS: usize = 256;

/// Why the rest of a connection cannot be followed.
pub(super) type Malformed = &'static str;

/// What a head says that matters here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Head {
    Request {
        method: String,
        /// Path without a query.
        path: String,
    },
    Response {
        status: u16,
        content_type: String,
        is_encoded: bool,
    },
}

/// Where a body ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Body {
    Length(u64),
    Chunked(Chunk),
    UntilClose,
}

/// Where in a body in chunks the next byte stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Chunk {
    Size {
        size: u64,
        has_digits: bool,
    },
    /// After the size, up to the end of its line.
    Extension {
        size: u64,
    },
    Data {
        left: u64,
    },
    /// The line end after the data.
    DataEnd,
    /// At the start of a line after the last chunk.
    TrailerStart,
    Trailer,
    /// After the carriage return of the empty line at the very end.
    LastLine,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Head,
    Body(Body),
}

/// A part of a message.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Part<'a> {
    /// The head, whose first byte came with the piece of this time.
    Head { head: Head, began_ns: i64 },
    /// Bytes of the body.
    Data(&'a [u8]),
    /// The message is complete.
    End,
}

/// Which way messages go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Direction {
    ToServer,
    ToClient,
}

/// The messages of one direction of a connection.
#[derive(Debug)]
pub(super) struct Messages {
    direction: Direction,
    state: State,
    head: Vec<u8>,
    began_ns: i64,
}

impl Messages {
    pub(super) const fn new(direction: Direction) -> Self {
        Self { direction, state: State::Head, head: Vec::new(), began_ns: 0 }
    }

    /// Takes the next bytes, which came at `t_ns`, and gives the parts that they hold. `part` says of each
    /// head whether its message has a body: of an answer only the request decides that.
    pub(super) fn push(
        &mut self,
        mut bytes: &[u8],
        t_ns: i64,
        part: &mut impl FnMut(Part<'_>) -> Result<HasBody, Malformed>,
    ) -> Result<(), Malformed> {
        while !bytes.is_empty() {
            let used = match &mut self.state {
                State::Head => self.push_head(bytes, t_ns, part)?,
                State::Body(body) => {
                    let (used, is_complete) = body.push(bytes, part)?;
                    if is_complete {
                        self.state = State::Head;
                        part(Part::End)?;
                    }
                    used
                }
            };
            bytes = &bytes[used..];
        }
        Ok(())
    }

    /// The connection has ended. Says whether that completes a message, which is given out then.
    pub(super) fn close(
        &mut self,
        part: &mut impl FnMut(Part<'_>) -> Result<HasBody, Malformed>,
    ) -> Result<(), Malformed> {
        if self.state == State::Body(Body::UntilClose) {
            self.state = State::Head;
            part(Part::End)?;
        }
        Ok(())
    }

    fn push_head(
        &mut self,
        bytes: &[u8],
        t_ns: i64,
        part: &mut impl FnMut(Part<'_>) -> Result<HasBody, Malformed>,
    ) -> Result<usize, Malformed> {
        if self.head.is_empty() {
            // Line ends between messages belong to neither.
            let blank = bytes.iter().take_while(|byte| matches!(byte, b'\r' | b'\n')).count();
            if blank > 0 {
                return Ok(blank);
            }
            self.began_ns = t_ns;
        }
        let before = self.head.len();
        self.head.extend_from_slice(bytes);
        let Some((length, head, body)) = parse_head(&self.head, self.direction)? else {
            return if self.head.len() > LONGEST_HEAD {
                Err("a head is too long")
            } else {
                Ok(bytes.len())
            };
        };
        self.head.clear();
        let has_body = part(Part::Head { head, began_ns: self.began_ns })?;
        match body {
            _ if has_body == HasBody::No => part(Part::End).map(drop)?,
            Body::Length(0) => part(Part::End).map(drop)?,
            body => self.state = State::Body(body),
        }
        Ok(length - before)
    }
}

/// Whether what follows a head is its body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum HasBody {
    AsTheHeadSays,
    No,
}

/// The length of the head in `bytes`, what it says, and where its body ends; `None` while it is incomplete.
fn parse_head(
    bytes: &[u8],
    direction: Direction,
) -> Result<Option<(usize, Head, Body)>, Malformed> {
    let mut fields = [httparse::EMPTY_HEADER; MOST_FIELDS];
    let (length, fields, head) = match direction {
        Direction::ToServer => {
            let mut request = httparse::Request::new(&mut fields);
            let status = request.parse(bytes).map_err(|_| "a request is no HTTP/1.1")?;
            let httparse::Status::Complete(length) = status else { return Ok(None) };
            let target = request.path.unwrap_or_default();
            let path = target.split('?').next().unwrap_or_default().to_owned();
            let method = request.method.unwrap_or_default().to_owned();
            let fields: &[httparse::Header<'_>] = request.headers;
            (length, fields, Head::Request { method, path })
        }
        Direction::ToClient => {
            let mut response = httparse::Response::new(&mut fields);
            let status = response.parse(bytes).map_err(|_| "an answer is no HTTP/1.1")?;
            let httparse::Status::Complete(length) = status else { return Ok(None) };
            let content_type = value_of(response.headers, "content-type").unwrap_or_default();
            let encoding = value_of(response.headers, "content-encoding").unwrap_or_default();
            let head = Head::Response {
                status: response.code.unwrap_or_default(),
                content_type: content_type.to_owned(),
                is_encoded: !encoding.is_empty() && !encoding.eq_ignore_ascii_case("identity"),
            };
            let fields: &[httparse::Header<'_>] = response.headers;
            (length, fields, head)
        }
    };
    Ok(Some((length, head, body_of(fields, direction)?)))
}

/// RFC 9112, section 6.3.
fn body_of(fields: &[httparse::Header<'_>], direction: Direction) -> Result<Body, Malformed> {
    if let Some(codings) = value_of(fields, "transfer-encoding") {
        let last = codings.rsplit(',').next().unwrap_or_default().trim();
        return match (last.eq_ignore_ascii_case("chunked"), direction) {
            (true, _) => Ok(Body::Chunked(Chunk::START)),
            (false, Direction::ToClient) => Ok(Body::UntilClose),
            (false, Direction::ToServer) => Err("a request has a body without an end"),
        };
    }
    match (value_of(fields, "content-length"), direction) {
        (Some(length), _) => length.parse().map(Body::Length).map_err(|_| "a length is no number"),
        (None, Direction::ToServer) => Ok(Body::Length(0)),
        (None, Direction::ToClient) => Ok(Body::UntilClose),
    }
}

fn value_of<'a>(fields: &[httparse::Header<'a>], name: &str) -> Option<&'a str> {
    let field = fields.iter().find(|field| field.name.eq_ignore_ascii_case(name))?;
    std::str::from_utf8(field.value).ok().map(str::trim)
}

impl Body {
    /// Takes bytes of the body; says how many belong to it, and whether it is complete.
    fn push(
        &mut self,
        bytes: &[u8],
        part: &mut impl FnMut(Part<'_>) -> Result<HasBody, Malformed>,
    ) -> Result<(usize, bool), Malformed> {
        match self {
            Self::UntilClose => {
                part(Part::Data(bytes))?;
                Ok((bytes.len(), false))
            }
            Self::Length(left) => {
                let used = take(left, bytes);
                part(Part::Data(&bytes[..used]))?;
                Ok((used, *left == 0))
            }
            Self::Chunked(chunk) => {
                let mut used = 0;
                while used < bytes.len() {
                    if let Chunk::Data { left } = chunk {
                        let taken = take(left, &bytes[used..]);
                        part(Part::Data(&bytes[used..used + taken]))?;
                        used += taken;
                        if *left == 0 {
                            *chunk = Chunk::DataEnd;
                        }
                        continue;
                    }
                    let byte = bytes[used];
                    used += 1;
                    match chunk.next(byte)? {
                        Some(next) => *chunk = next,
                        None => return Ok((used, true)),
                    }
                }
                Ok((used, false))
            }
        }
    }
}

/// How many of `bytes` are among the `left` ones, which become fewer by that.
fn take(left: &mut u64, bytes: &[u8]) -> usize {
    let taken = usize::try_from(*left).unwrap_or(usize::MAX).min(bytes.len());
    *left -= taken as u64;
    taken
}

impl Chunk {
    const START: Self = Self::Size { size: 0, has_digits: false };

    /// The place after a byte that is no data; `None` after the last byte of the body.
    fn next(self, byte: u8) -> Result<Option<Self>, Malformed> {
        let after_size = |size| match size {
            0 => Self::TrailerStart,
            left => Self::Data { left },
        };
        Ok(Some(match (self, byte) {
            (Self::Size { size, .. }, _) if byte.is_ascii_hexdigit() => {
                let digit = (byte as char).to_digit(16).unwrap_or_default();
                let size = size.checked_mul(16).and_then(|size| size.checked_add(u64::from(digit)));
                Self::Size { size: size.ok_or("a chunk is too long")?, has_digits: true }
            }
            (Self::Size { size, has_digits: true } | Self::Extension { size }, b'\n') => {
                after_size(size)
            }
            (Self::Size { size, has_digits: true }, b';' | b' ' | b'\t' | b'\r') => {
                Self::Extension { size }
            }
            (Self::Size { .. }, _) => return Err("the size of a chunk is no number"),
            (Self::Extension { size }, _) => Self::Extension { size },
            (Self::DataEnd, b'\r') => Self::DataEnd,
            (Self::DataEnd, b'\n') => Self::START,
            (Self::DataEnd, _) => return Err("a chunk is longer than it says"),
            (Self::TrailerStart, b'\r') => Self::LastLine,
            (Self::TrailerStart | Self::LastLine, b'\n') => return Ok(None),
            (Self::Trailer, b'\n') => Self::TrailerStart,
            (Self::TrailerStart | Self::Trailer | Self::LastLine, _) => Self::Trailer,
            (Self::Data { left }, _) => Self::Data { left },
        }))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Parts as text; data that comes in pieces is put together.
    fn parts<'a>(
        direction: Direction,
        pieces: impl IntoIterator<Item = &'a [u8]>,
        has_body: HasBody,
    ) -> Result<Vec<String>, Malformed> {
        let mut found: Vec<String> = Vec::new();
        let mut messages = Messages::new(direction);
        let mut add = |part: Part<'_>| {
            match part {
                Part::Head { head: Head::Request { method, path }, .. } => {
                    found.push(format!("{method} {path}"));
                }
                Part::Head {
                    head: Head::Response { status, content_type, is_encoded }, ..
                } => {
                    found.push(format!("{status} {content_type} {is_encoded}"));
                }
                Part::Data(data) => {
                    let text = String::from_utf8_lossy(data);
                    match found.last_mut() {
                        Some(last) if last.starts_with('>') => last.push_str(&text),
                        _ => found.push(format!(">{text}")),
                    }
                }
                Part::End => found.push("end".to_owned()),
            }
            Ok(has_body)
        };
        for (index, piece) in pieces.into_iter().enumerate() {
            messages.push(piece, index as i64, &mut add)?;
        }
        messages.close(&mut add)?;
        Ok(found)
    }

    const REQUESTS: &str = "POST /v1/completions?a=b HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nhello\
                            GET /health HTTP/1.1\r\n\r\n\r\n\
                            POST /v1/chat/completions HTTP/1.1\r\nTransfer-Encoding: gzip, chunked\r\n\r\n\
                            3;name=\"v\"\r\nabc\r\n0a\r\n0123456789\r\n0\r\nTrailer: x\r\n\r\n\
                            PUT /x HTTP/1.1\r\ncontent-length: 0\r\n\r\n";

    const ANSWERS: &str = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n\
                           4\r\ndata\r\n1\r\n:\r\n0\r\n\r\n\
                           HTTP/1.1 404 Not Found\r\nContent-Length: 2\r\nContent-Encoding: gzip\r\n\r\nno\
                           HTTP/1.0 200 OK\r\n\r\nuntil the end";

    #[test]
    fn messages_are_told_apart_and_their_bodies_read() {
        let found = parts(Direction::ToServer, [REQUESTS.as_bytes()], HasBody::AsTheHeadSays);
        let expected = [
            "POST /v1/completions",
            ">hello",
            "end",
            "GET /health",
            "end",
            "POST /v1/chat/completions",
            ">abc0123456789",
            "end",
            "PUT /x",
            "end",
        ];
        assert_eq!(found.unwrap(), expected);
        let found = parts(Direction::ToClient, [ANSWERS.as_bytes()], HasBody::AsTheHeadSays);
        let expected = [
            "200 text/event-stream false",
            ">data:",
            "end",
            "404  true",
            ">no",
            "end",
            "200  false",
            ">until the end",
            "end",
        ];
        assert_eq!(found.unwrap(), expected);
        // The answers to HEAD, and those of 204 and 304.
        let found = parts(
            Direction::ToClient,
            [&b"HTTP/1.1 204 X\r\n\r\nHTTP/1.1 304 X\r\n\r\n"[..]],
            HasBody::No,
        );
        assert_eq!(found.unwrap(), ["204  false", "end", "304  false", "end"]);
    }

    #[test]
    fn what_is_no_http_is_said() {
        let problem = |direction, text: &str| {
            parts(direction, [text.as_bytes()], HasBody::AsTheHeadSays).unwrap_err()
        };
        let chunked = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
        assert_eq!(
            [
                problem(Direction::ToServer, "\u{16}\u{3}\u{1} tls"),
                problem(Direction::ToServer, "POST / HTTP/1.1\r\nTransfer-Encoding: gzip\r\n\r\n"),
                problem(Direction::ToClient, "SSH-2.0-x\r\n"),
                problem(Direction::ToClient, "HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n"),
                problem(Direction::ToClient, &format!("{chunked}x\r\n")),
                problem(Direction::ToClient, &format!("{chunked}fffffffffffffffff\r\n")),
                problem(Direction::ToClient, &format!("{chunked}1\r\nabc\r\n")),
                problem(
                    Direction::ToClient,
                    &format!("HTTP/1.1 200 OK\r\nA: {}", "x".repeat(LONGEST_HEAD))
                ),
            ],
            [
                "a request is no HTTP/1.1",
                "a request has a body without an end",
                "an answer is no HTTP/1.1",
                "a length is no number",
                "the size of a chunk is no number",
                "a chunk is too long",
                "a chunk is longer than it says",
                "a head is too long",
            ]
        );
    }

    #[test]
    fn a_message_begins_with_the_piece_of_its_first_byte() {
        let mut messages = Messages::new(Direction::ToServer);
        let mut began = Vec::new();
        let mut add = |part: Part<'_>| {
            if let Part::Head { began_ns, .. } = part {
                began.push(began_ns);
            }
            Ok(HasBody::AsTheHeadSays)
        };
        for (t_ns, piece) in
            [(5, "GET /a HTT"), (6, "P/1.1\r\n\r\nGE"), (9, "T /b HTTP/1.1\r\n\r\n")]
        {
            messages.push(piece.as_bytes(), t_ns, &mut add).unwrap();
        }
        assert_eq!(began, [5, 6]);
    }

    proptest! {
        #[test]
        fn how_bytes_are_cut_into_pieces_changes_nothing(
            is_request in any::<bool>(),
            cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..12),
        ) {
            let (direction, text) = if is_request {
                (Direction::ToServer, REQUESTS.as_bytes())
            } else {
                (Direction::ToClient, ANSWERS.as_bytes())
            };
            let mut cuts: Vec<_> = cuts.iter().map(|cut| cut.index(text.len() + 1)).collect();
            cuts.extend([0, text.len()]);
            cuts.sort_unstable();
            let pieces = cuts.windows(2).map(|cut| &text[cut[0]..cut[1]]);
            let has_body = HasBody::AsTheHeadSays;
            prop_assert_eq!(parts(direction, pieces, has_body), parts(direction, [text], has_body));
            prop_assert_eq!(parts(direction, text.chunks(1), has_body), parts(direction, [text], has_body));
        }

        #[test]
        fn no_bytes_make_it_panic(bytes in prop::collection::vec(any::<u8>(), 0..200), head in any::<bool>()) {
            let mut text = Vec::new();
            if head {
                text.extend_from_slice(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n");
            }
            text.extend_from_slice(&bytes);
            let _ = parts(Direction::ToClient, [text.as_slice()], HasBody::AsTheHeadSays);
            let _ = parts(Direction::ToServer, [text.as_slice()], HasBody::AsTheHeadSays);
        }
    }
}
