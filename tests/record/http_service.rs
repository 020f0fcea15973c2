//! Services over HTTP and HTTPS that answer as a test wants.

#![allow(dead_code, reason = "two test programs share this file, and each uses a part of it")]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;

use rcgen::{BasicConstraints, Certificate, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use rustls::{ServerConfig, ServerConnection, StreamOwned};

/// What a service is asked.
#[derive(Debug)]
pub(crate) struct Question {
    pub(crate) path: String,
    pub(crate) authorization: Option<String>,
    /// Counts the questions of the service, from 0.
    pub(crate) number: usize,
}

/// What it answers.
#[derive(Debug, Clone)]
pub(crate) enum Reply {
    /// This text, with status 200.
    Text(String),
    /// This status, without a text.
    Status(u16),
    /// This text, and the connection is closed without saying so.
    TextAndClose(String),
    /// Bytes that are no HTTP.
    Noise,
    /// Nothing, until the asker gives up.
    Silence,
}

impl Reply {
    pub(crate) fn json(value: &serde_json::Value) -> Self {
        Self::Text(value.to_string())
    }
}

/// A service on a free port of loopback; it ends when it is dropped.
pub(crate) struct Service {
    address: SocketAddr,
    scheme: &'static str,
    has_ended: Arc<AtomicBool>,
    connections: Arc<AtomicUsize>,
}

type Answers = dyn Fn(&Question) -> Reply + Send + Sync;

impl Service {
    pub(crate) fn start(answers: impl Fn(&Question) -> Reply + Send + Sync + 'static) -> Self {
        Self::listen(None, Arc::new(answers))
    }

    /// The same over TLS, with a certificate for 127.0.0.1 that `authority` signs.
    pub(crate) fn start_tls(
        authority: &Authority,
        answers: impl Fn(&Question) -> Reply + Send + Sync + 'static,
    ) -> Self {
        Self::listen(Some(authority.server()), Arc::new(answers))
    }

    fn listen(tls: Option<Arc<ServerConfig>>, answers: Arc<Answers>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let scheme = if tls.is_some() { "https" } else { "http" };
        let has_ended = Arc::new(AtomicBool::new(false));
        let connections = Arc::new(AtomicUsize::new(0));
        let questions = Arc::new(AtomicUsize::new(0));
        let (ended, counted) = (has_ended.clone(), connections.clone());
        thread::spawn(move || {
            for stream in listener.incoming() {
                if ended.load(Ordering::SeqCst) {
                    return;
                }
                let Ok(stream) = stream else { continue };
                counted.fetch_add(1, Ordering::SeqCst);
                let (tls, answers, questions) = (tls.clone(), answers.clone(), questions.clone());
                thread::spawn(move || match tls {
                    None => serve(stream, &questions, &*answers),
                    Some(config) => {
                        let connection = ServerConnection::new(config).unwrap();
                        serve(StreamOwned::new(connection, stream), &questions, &*answers);
                    }
                });
            }
        });
        Self { address, scheme, has_ended, connections }
    }

    /// Its address with this path.
    pub(crate) fn url(&self, path: &str) -> String {
        format!("{}://{}{path}", self.scheme, self.address)
    }

    /// Connections that it took so far.
    pub(crate) fn connections(&self) -> usize {
        self.connections.load(Ordering::SeqCst)
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        self.has_ended.store(true, Ordering::SeqCst);
        let _ = TcpStream::connect(self.address);
    }
}

/// Answers the questions of one connection until it is closed.
fn serve(stream: impl Read + Write, questions: &AtomicUsize, answers: &Answers) {
    let mut stream = BufReader::new(stream);
    while let Some((path, authorization)) = question(&mut stream) {
        let number = questions.fetch_add(1, Ordering::SeqCst);
        let reply = answers(&Question { path, authorization, number });
        let (text, is_last) = match reply {
            Reply::Text(text) => (answer("200 OK", &text), false),
            Reply::TextAndClose(text) => (answer("200 OK", &text), true),
            Reply::Status(status) => (answer(&format!("{status} No"), ""), false),
            Reply::Noise => ("noise\r\n\r\n".to_owned(), true),
            Reply::Silence => {
                // Ends when the asker closes.
                let _ = stream.read(&mut [0]);
                return;
            }
        };
        let sent = stream.get_mut().write_all(text.as_bytes());
        if sent.and_then(|()| stream.get_mut().flush()).is_err() || is_last {
            return;
        }
    }
}

fn answer(status: &str, text: &str) -> String {
    let date = "Sun, 06 Nov 1994 08:49:37 GMT";
    let length = text.len();
    format!("HTTP/1.1 {status}\r\nDate: {date}\r\nContent-Length: {length}\r\n\r\n{text}")
}

fn question(stream: &mut impl BufRead) -> Option<(String, Option<String>)> {
    let mut line = String::new();
    let mut read = |stream: &mut dyn BufRead| {
        line.clear();
        stream.read_line(&mut line).ok().filter(|count| *count > 0)?;
        Some(line.trim_end().to_owned())
    };
    let first = read(stream)?;
    let path = first.split(' ').nth(1)?.to_owned();
    let mut authorization = None;
    loop {
        let header = read(stream)?;
        if header.is_empty() {
            return Some((path, authorization));
        }
        if let Some((name, value)) = header.split_once(": ")
            && name.eq_ignore_ascii_case("authorization")
        {
            authorization = Some(value.to_owned());
        }
    }
}

/// An authority that signs certificates, made for one test.
pub(crate) struct Authority {
    issuer: CertifiedIssuer<'static, KeyPair>,
}

impl Authority {
    pub(crate) fn new() -> Self {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let issuer = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
        Self { issuer }
    }

    /// Its own certificate in PEM.
    pub(crate) fn pem(&self) -> String {
        pem("CERTIFICATE", self.issuer.der())
    }

    /// A certificate for 127.0.0.1 that it signs, and the key, in PEM.
    pub(crate) fn certificate_and_key(&self) -> (String, String) {
        let (certificate, key) = self.signed();
        (pem("CERTIFICATE", certificate.der()), pem("PRIVATE KEY", &key.serialize_der()))
    }

    fn signed(&self) -> (Certificate, KeyPair) {
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new(vec!["127.0.0.1".to_owned()]).unwrap();
        (params.signed_by(&key, &self.issuer).unwrap(), key)
    }

    fn server(&self) -> Arc<ServerConfig> {
        let (certificate, key) = self.signed();
        let key = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(key.serialize_der()));
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![certificate.der().clone()], key)
            .unwrap();
        Arc::new(config)
    }
}

fn pem(what: &str, der: &[u8]) -> String {
    let encoded = base64::Engine::encode(&base64::engine::general_purpose::STANDARD, der);
    format!("-----BEGIN {what}-----\n{encoded}\n-----END {what}-----\n")
}
