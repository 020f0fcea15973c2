//! How to know that a service is ready.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::http::Client;

/// Time between looks.
pub(super) const POLL: Duration = Duration::from_millis(250);

/// What shows that a service is ready.
#[derive(Debug, Clone)]
pub enum Probe {
    /// An address answers with 200.
    Url(Client),
    /// A shell command succeeds.
    Command(String),
    /// The output of the service holds a text.
    Log(String),
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
            Probe::Url(service) => service.status() == Ok(200),
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
    use std::io::{BufRead, Write};
    use std::net::TcpListener;

    use super::*;
    use crate::http::HttpOptions;

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
        let address = format!("http://{address}/health").parse().unwrap();
        let probe = Probe::Url(Client::of_engine(address, &HttpOptions::default()).unwrap());
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
