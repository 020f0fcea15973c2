//! How to know that a service is ready.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Time between looks.
pub(super) const POLL: Duration = Duration::from_millis(250);

/// Longest time that one look may take.
const ANSWER: Duration = Duration::from_secs(5);

/// What shows that a service is ready.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Probe {
    /// An http address answers with 200.
    Url(HttpUrl),
    /// A shell command succeeds.
    Command(String),
    /// The output of the service holds a text.
    Log(String),
}

/// An `http` address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HttpUrl {
    /// Host and port as they stand in the address.
    authority: String,
    /// Host and port to connect to.
    address: String,
    path: String,
}

impl std::str::FromStr for HttpUrl {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let expected = || {
            format!(
                "\"{text}\" cannot be asked; expected an address such as http://127.0.0.1:8000/health"
            )
        };
        let rest = text.strip_prefix("http://").ok_or_else(expected)?;
        let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
        let is_plain = |text: &str| !text.chars().any(|c| c.is_whitespace() || c.is_control());
        if authority.is_empty() || authority.contains('@') || !is_plain(rest) {
            return Err(expected());
        }
        let has_port = authority.rsplit_once(':').is_some_and(|(host, port)| {
            port.parse::<u16>().is_ok() && (!host.contains(':') || host.ends_with(']'))
        });
        let address = if has_port { authority.to_owned() } else { format!("{authority}:80") };
        let path = if path.is_empty() { "/" } else { path };
        Ok(Self { authority: authority.to_owned(), address, path: path.to_owned() })
    }
}

impl HttpUrl {
    /// Whether it answers with 200 now.
    fn is_ok(&self) -> bool {
        self.status().is_some_and(|status| status == 200)
    }

    fn status(&self) -> Option<u16> {
        let mut stream = self
            .address
            .to_socket_addrs()
            .ok()?
            .find_map(|address| TcpStream::connect_timeout(&address, ANSWER).ok())?;
        stream.set_read_timeout(Some(ANSWER)).ok()?;
        stream.set_write_timeout(Some(ANSWER)).ok()?;
        let (path, host) = (&self.path, &self.authority);
        write!(stream, "GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n").ok()?;
        // The status line, `HTTP/1.1 200 OK`, is all that matters.
        let mut start = [0; 12];
        stream.read_exact(&mut start).ok()?;
        let line = std::str::from_utf8(&start).ok()?;
        line.starts_with("HTTP/1.").then(|| line[9..].parse().ok())?
    }
}

impl Probe {
    /// Begins to look; `log` is the output of the service.
    pub(super) fn watch(&self, log: &Path) -> Watch<'_> {
        Watch { probe: self, log: log.to_owned(), read_bytes: 0, tail: Vec::new() }
    }
}

/// What one look shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Look<'a> {
    /// The service is ready.
    Ready,
    /// It is not.
    NotYet,
    /// This shell command shows it. It may take long, so whoever waits for other things as well runs it.
    Command(&'a str),
}

/// A probe at work.
#[derive(Debug)]
pub(super) struct Watch<'a> {
    probe: &'a Probe,
    log: PathBuf,
    read_bytes: u64,
    /// End of what was read, in which the text may begin.
    tail: Vec<u8>,
}

impl Watch<'_> {
    /// Looks once.
    pub(super) fn look(&mut self) -> Look<'_> {
        let is_ready = match self.probe {
            Probe::Url(url) => url.is_ok(),
            Probe::Log(text) => self.is_in_log(text.as_bytes()).unwrap_or(false),
            Probe::Command(text) => return Look::Command(text),
        };
        if is_ready { Look::Ready } else { Look::NotYet }
    }

    fn is_in_log(&mut self, text: &[u8]) -> std::io::Result<bool> {
        let mut file = File::open(&self.log)?;
        file.seek(SeekFrom::Start(self.read_bytes))?;
        let mut block = vec![0; 64 << 10];
        loop {
            let count = file.read(&mut block)?;
            if count == 0 {
                return Ok(false);
            }
            self.read_bytes += count as u64;
            self.tail.extend_from_slice(&block[..count]);
            if self.tail.windows(text.len().max(1)).any(|window| window == text) {
                return Ok(true);
            }
            let keep = text.len().saturating_sub(1).min(self.tail.len());
            self.tail.drain(..self.tail.len() - keep);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::BufRead;
    use std::net::TcpListener;

    use super::*;

    #[test]
    fn addresses_are_plain_http() {
        let url: HttpUrl = "http://localhost:8000".parse().unwrap();
        assert_eq!((url.address.as_str(), url.path.as_str()), ("localhost:8000", "/"));
        let url: HttpUrl = "http://[::1]/v1/models?x=1".parse().unwrap();
        assert_eq!((url.address.as_str(), url.path.as_str()), ("[::1]:80", "/v1/models?x=1"));
        for text in
            ["https://localhost", "localhost:8000", "http://", "http://a b/", "http://u:p@h/"]
        {
            assert!(text.parse::<HttpUrl>().is_err(), "{text}");
        }
    }

    #[test]
    fn a_service_is_ready_once_it_answers_with_200() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let server = std::thread::spawn(move || {
            let mut asked = Vec::new();
            for status in ["503 Service Unavailable", "200 OK"] {
                let (mut stream, _) = listener.accept().unwrap();
                let mut reader = std::io::BufReader::new(stream.try_clone().unwrap());
                let mut line = String::new();
                reader.read_line(&mut line).unwrap();
                asked.push(line);
                // All of the request is read, or closing would reset the connection.
                let mut rest = String::new();
                while reader.read_line(&mut rest).unwrap() > 2 {
                    rest.clear();
                }
                // In one piece: whoever asked leaves as soon as it has read the status.
                let answer = format!("HTTP/1.1 {status}\r\nContent-Length: 0\r\n\r\n");
                stream.write_all(answer.as_bytes()).unwrap();
            }
            asked
        });
        let probe = Probe::Url(format!("http://{address}/health").parse().unwrap());
        let mut watch = probe.watch(Path::new("none"));
        assert_eq!(watch.look(), Look::NotYet);
        assert_eq!(watch.look(), Look::Ready);
        assert_eq!(server.join().unwrap()[0], "GET /health HTTP/1.1\r\n");
        assert_eq!(watch.look(), Look::NotYet, "nobody listens any more");
    }

    #[test]
    fn a_text_is_found_even_if_it_was_written_in_two_parts() {
        let folder = tempfile::tempdir().unwrap();
        let log = folder.path().join("command.log");
        let probe = Probe::Log("startup complete".to_owned());
        let mut watch = probe.watch(&log);
        assert_eq!(watch.look(), Look::NotYet, "there is no log yet");
        std::fs::write(&log, "loading\nstartup com").unwrap();
        assert_eq!(watch.look(), Look::NotYet);
        std::fs::write(&log, "loading\nstartup complete.\n").unwrap();
        assert_eq!(watch.look(), Look::Ready);
    }
}
