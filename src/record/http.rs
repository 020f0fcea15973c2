//! Asking services over HTTP and HTTPS: addresses, trust in certificates, and why there is no answer.

mod address;

use std::io::ErrorKind;
use std::path::PathBuf;
use std::time::Duration;

use ureq::config::{ConfigBuilder, RedirectAuthHeaders};
use ureq::http::{HeaderValue, Response, header};
use ureq::tls::{Certificate, PemItem, RootCerts, TlsConfig};
use ureq::typestate::AgentScope;
use ureq::{Agent, Body};

use crate::source::Credentials;

pub use address::{Address, AddressError};

/// Longest time that one question may take, its connection included. A recording that ends waits for a
/// question that is under way.
const LONGEST: Duration = Duration::from_secs(5);

/// Largest answer that is taken, B.
const LARGEST_ANSWER: u64 = 16 << 20;

/// What connections to services depend on.
#[derive(Debug, Clone, Default)]
pub struct HttpOptions {
    /// Certificates in PEM that are trusted besides those of the system.
    pub ca_file: Option<PathBuf>,
    /// Trust any certificate.
    pub insecure: bool,
    /// Send passwords and keys without encryption to another machine.
    pub allow_plain_credentials: bool,
    /// Longest time that one question may take; 5 s if absent.
    pub(crate) longest: Option<Duration>,
}

impl HttpOptions {
    /// Whether a password or a key may go to an address.
    pub(crate) fn may_carry_credentials(&self, address: &Address) -> bool {
        address.is_encrypted() || address.is_loopback() || self.allow_plain_credentials
    }
}

/// Why there is no answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Failure {
    /// Short text without changing numbers.
    pub(crate) cause: String,
    /// What else is known, for a message on opening.
    detail: Option<String>,
}

impl Failure {
    pub(crate) fn new(cause: impl Into<String>) -> Self {
        Self { cause: cause.into(), detail: None }
    }

    /// The cause with what else is known.
    pub(crate) fn message(&self) -> String {
        match &self.detail {
            None => self.cause.clone(),
            Some(detail) => format!("{}: {detail}", self.cause),
        }
    }

    fn status(status: u16) -> Self {
        match status {
            401 | 403 => Self::new(format!("the log-in was refused (HTTP {status})")),
            _ => Self::new(format!("the service answered with HTTP {status}")),
        }
    }
}

impl From<ureq::Error> for Failure {
    fn from(error: ureq::Error) -> Self {
        let cause = match &error {
            ureq::Error::Io(io) => return Self::from_io(io),
            ureq::Error::Timeout(_) => "no answer in time",
            ureq::Error::HostNotFound => "the host is not known",
            ureq::Error::ConnectionFailed => "no connection",
            ureq::Error::Tls(_) | ureq::Error::Rustls(_) => "no TLS connection",
            ureq::Error::BodyExceedsLimit(_) => "the answer is too large",
            ureq::Error::TooManyRedirects | ureq::Error::RedirectFailed => {
                "the service sends from one address to another"
            }
            ureq::Error::Protocol(_)
            | ureq::Error::BodyStalled
            | ureq::Error::LargeResponseHeader(..) => "the answer is no HTTP",
            _ => "the question failed",
        };
        Self { cause: cause.to_owned(), detail: Some(error.to_string()) }
    }
}

impl Failure {
    fn from_io(error: &std::io::Error) -> Self {
        let text = error.to_string();
        // rustls gives its verdict as the text of an input error.
        if text.contains("certificate") {
            let detail = format!(
                "{text}; expected one of an authority that the system knows, or that --ca-file names"
            );
            let cause = "the certificate is not trusted".to_owned();
            return Self { cause, detail: Some(detail) };
        }
        let cause = match error.kind() {
            ErrorKind::TimedOut => "no answer in time".to_owned(),
            ErrorKind::InvalidData if text.contains("UTF-8") => "the answer is no text".to_owned(),
            // What rustls cannot make sense of.
            ErrorKind::InvalidData => "no TLS connection".to_owned(),
            ErrorKind::Other => "no connection".to_owned(),
            kind => kind.to_string(),
        };
        Self { cause, detail: Some(text) }
    }

    /// Whether a connection that had been kept open turned out to be closed.
    fn is_closed_connection(error: &ureq::Error) -> bool {
        let ureq::Error::Io(error) = error else { return false };
        matches!(
            error.kind(),
            ErrorKind::ConnectionReset
                | ErrorKind::ConnectionAborted
                | ErrorKind::BrokenPipe
                | ErrorKind::UnexpectedEof
        )
    }
}

/// What a service answered.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) text: String,
    /// The header `Date`.
    pub(crate) date: Option<String>,
}

/// A service, and how to ask it.
#[derive(Debug, Clone)]
pub struct Client {
    agent: Agent,
    address: Address,
    authorization: Option<HeaderValue>,
    accept: &'static str,
    /// Whoever answers may be another than the address names.
    is_unverified: bool,
    /// Asked on a new connection each time, and may answer with bytes that are no text.
    is_engine: bool,
}

impl Client {
    /// A client for the service at `url`, on one connection that is kept open. Nothing is asked yet.
    pub(crate) fn new(
        url: &str,
        accept: &'static str,
        options: &HttpOptions,
        credentials: Option<&Credentials>,
    ) -> Result<Self, String> {
        let address: Address = url.parse().map_err(|error: AddressError| {
            format!(
                "{}; expected an address such as https://10.0.0.1 or http://127.0.0.1:9400/metrics",
                error.problem
            )
        })?;
        if credentials.is_some() && !options.may_carry_credentials(&address) {
            return Err("would send the password unencrypted; expected https, or \
                        --allow-plain-credentials to do so all the same"
                .into());
        }
        let config = config(&address, options)?
            .max_redirects(3)
            .redirect_auth_headers(RedirectAuthHeaders::SameHost)
            .max_idle_connections(1);
        Ok(Self {
            agent: config.build().new_agent(),
            address,
            authorization: credentials.map(basic).transpose()?,
            accept,
            is_unverified: options.insecure,
            is_engine: false,
        })
    }

    /// A client for an engine, which is asked on a new connection each time: one that the engine closes
    /// meanwhile would fail the next question. Nothing is asked yet.
    ///
    /// # Errors
    /// What is wrong with the certificates to trust.
    pub fn of_engine(address: Address, options: &HttpOptions) -> Result<Self, String> {
        let config = config(&address, options)?.max_redirects(0).max_idle_connections(0);
        Ok(Self {
            agent: config.build().new_agent(),
            address,
            authorization: None,
            accept: "*/*",
            is_unverified: options.insecure,
            is_engine: true,
        })
    }

    /// The user's address.
    pub(crate) const fn address(&self) -> &Address {
        &self.address
    }

    /// Whether whoever answers may be another than the address names.
    pub(crate) const fn is_unverified(&self) -> bool {
        self.is_unverified && self.address.is_encrypted()
    }

    /// The host, without the port.
    pub(crate) fn host(&self) -> &str {
        self.address.host()
    }

    /// Path and query of the user's address.
    pub(crate) fn path(&self) -> &str {
        self.address.path()
    }

    /// Asks for a path of the service.
    pub(crate) fn get(&self, path: &str) -> Result<Answer, Failure> {
        match self.try_get(path) {
            // The service may have closed the connection since the last question.
            Err(error) if !self.is_engine && Failure::is_closed_connection(&error) => {
                self.try_get(path)
            }
            other => other,
        }
        .map_err(Failure::from)?
    }

    /// Asks for the user's address; gives the status alone.
    pub(crate) fn status(&self) -> Result<u16, Failure> {
        Ok(self.call(self.path())?.status().as_u16())
    }

    fn call(&self, path: &str) -> Result<Response<Body>, ureq::Error> {
        let url = format!("{}{path}", self.address.base());
        let mut request = self.agent.get(url).header("accept", self.accept);
        if let Some(authorization) = &self.authorization {
            request = request.header(header::AUTHORIZATION, authorization);
        }
        request.call()
    }

    fn try_get(&self, path: &str) -> Result<Result<Answer, Failure>, ureq::Error> {
        let mut response = self.call(path)?;
        let date = response.headers().get(header::DATE);
        let date = date.and_then(|date| date.to_str().ok()).map(str::to_owned);
        let status = response.status();
        let body = response.body_mut().with_config().limit(LARGEST_ANSWER);
        let text = body.lossy_utf8(self.is_engine).read_to_string();
        if !status.is_success() {
            let mut failure = Failure::status(status.as_u16());
            if status.as_u16() == 401 && self.authorization.is_none() {
                failure.detail = Some("no user and password were given".to_owned());
            }
            return Ok(Err(failure));
        }
        Ok(Ok(Answer { text: text?, date }))
    }
}

/// What all clients have in common.
fn config(address: &Address, options: &HttpOptions) -> Result<ConfigBuilder<AgentScope>, String> {
    let config = Agent::config_builder()
        .timeout_global(Some(options.longest.unwrap_or(LONGEST)))
        .http_status_as_error(false)
        .https_only(address.is_encrypted())
        // A measurement does not go through whatever proxy the environment names.
        .proxy(None)
        .user_agent(concat!("wattrace-record/", env!("CARGO_PKG_VERSION")));
    Ok(if address.is_encrypted() { config.tls_config(tls(options)?) } else { config })
}

/// The header of a log-in by HTTP Basic, which every Redfish service takes and which leaves no session
/// behind when the recorder is killed.
fn basic(credentials: &Credentials) -> Result<HeaderValue, String> {
    use base64::Engine as _;
    let Credentials { user, password } = credentials;
    if user.contains(':') {
        return Err("cannot be logged in to: the user has a \":\" in it".into());
    }
    let encoded = base64::engine::general_purpose::STANDARD.encode(format!("{user}:{password}"));
    let mut value = HeaderValue::from_str(&format!("Basic {encoded}"))
        .map_err(|_| "cannot be logged in to with these credentials".to_owned())?;
    value.set_sensitive(true);
    Ok(value)
}

/// Whom to trust: the authorities that the system knows and those of `ca_file`, or anybody.
///
/// # Errors
/// When there is nobody to trust, or the file cannot be read.
pub(crate) fn tls(options: &HttpOptions) -> Result<TlsConfig, String> {
    let tls = TlsConfig::builder();
    if options.insecure {
        return Ok(tls.disable_verification(true).build());
    }
    let mut roots: Vec<Certificate<'static>> = rustls_native_certs::load_native_certs()
        .certs
        .iter()
        .map(|certificate| Certificate::from_der(certificate).to_owned())
        .collect();
    if let Some(path) = &options.ca_file {
        let shown = path.display();
        let pem = std::fs::read(path).map_err(|error| format!("needs \"{shown}\": {error}"))?;
        let before = roots.len();
        for item in ureq::tls::parse_pem(&pem) {
            match item {
                Ok(PemItem::Certificate(certificate)) => roots.push(certificate),
                Ok(_) => (),
                Err(error) => return Err(format!("needs \"{shown}\": {error}")),
            }
        }
        if roots.len() == before {
            return Err(format!("needs \"{shown}\", which holds no certificate in PEM"));
        }
    }
    if roots.is_empty() {
        return Err("cannot be verified: the system knows no authority; expected --ca-file".into());
    }
    Ok(tls.root_certs(RootCerts::from(roots)).build())
}
