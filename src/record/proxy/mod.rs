//! Sits between any client and a completion server, passes every byte on as it is, and records the
//! completions that go by.
//!
//! The bytes are forwarded by two threads a connection; copies go to an observer, which reads them on a
//! thread of its own. Whatever the observer cannot follow passes all the same.

mod forward;
mod http1;
mod observer;

use std::fmt;
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, TcpStream, ToSocketAddrs};
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use crate::Context;
use crate::http::{Address, AddressError};
use forward::Forwarder;
use observer::Observer;

/// Where a proxy listens and whom it forwards to, as the command line names it: `LISTEN=URL`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProxyRoute {
    listen: SocketAddr,
    /// Host and port of the server.
    server: (String, u16),
}

/// Why there is no proxy.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the fields are the facts that the message prints")]
pub enum ProxyError {
    /// The text names no two addresses.
    #[error(
        "\"{text}\" is no route; expected LISTEN=URL, such as 127.0.0.1:8001=http://127.0.0.1:8000"
    )]
    Route { text: String },
    /// The address to listen at cannot be used.
    #[error(
        "\"{text}\" is no address to listen at; expected a port of this machine, such as 8001 or 127.0.0.1:8001"
    )]
    Listen { text: String },
    /// The address of the server is none.
    #[error(transparent)]
    Address(#[from] AddressError),
    /// The address of the server cannot be used.
    #[error("\"{url}\" {problem}; expected an address such as http://127.0.0.1:8000")]
    Server { url: String, problem: &'static str },
    /// The connection to the server would have to be encrypted.
    #[error(
        "\"{url}\": the proxy passes bytes on as they are and cannot encrypt them; let another program do \
         that, such as socat TCP-LISTEN:8002,bind=127.0.0.1,fork,reuseaddr OPENSSL:{host}:{port}, and name \
         http://127.0.0.1:8002"
    )]
    Encrypted { url: String, host: String, port: u16 },
    /// It would forward to itself.
    #[error("{listen} is where the proxy listens; expected another address as its server")]
    Loop { listen: SocketAddr },
    /// The host of the server is not known.
    #[error("cannot find the host \"{host}\"")]
    Host {
        host: String,
        #[source]
        source: io::Error,
    },
    /// The port is taken, or the like.
    #[error("cannot listen at {address}")]
    Bind {
        address: SocketAddr,
        #[source]
        source: io::Error,
    },
    /// The operating system gives no more threads.
    #[error("cannot start a thread")]
    Thread(#[source] io::Error),
}

impl ProxyRoute {
    /// A route from an address to listen at, to the address of a server.
    ///
    /// # Errors
    /// When either cannot be used.
    pub fn new(listen: &str, url: &str) -> Result<Self, ProxyError> {
        let route = Self { listen: listen_address(listen)?, server: server(url)? };
        if route.takes(url) {
            return Err(ProxyError::Loop { listen: route.listen });
        }
        Ok(route)
    }

    /// Whether requests to this address arrive at the proxy. A proxy that chooses a port itself is known
    /// to nobody yet.
    #[must_use]
    pub fn takes(&self, url: &str) -> bool {
        let Ok(given) = url.parse::<ureq::http::Uri>() else { return false };
        let (Some(host), port) = (given.host(), given.port_u16().unwrap_or(80)) else {
            return false;
        };
        if port != self.listen.port() {
            return false;
        }
        let found = (host.trim_matches(['[', ']']), port).to_socket_addrs();
        found.into_iter().flatten().any(|address| {
            address.ip() == self.listen.ip()
                || self.listen.ip().is_unspecified() && is_of_this_machine(address.ip())
        })
    }
}

/// Only an address of this machine can be listened at.
fn is_of_this_machine(ip: IpAddr) -> bool {
    TcpListener::bind((ip, 0)).is_ok()
}

impl FromStr for ProxyRoute {
    type Err = ProxyError;

    fn from_str(text: &str) -> Result<Self, ProxyError> {
        let unusable = || ProxyError::Route { text: text.to_owned() };
        let (listen, url) = text.split_once('=').ok_or_else(unusable)?;
        Self::new(listen, url)
    }
}

impl fmt::Display for ProxyRoute {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}={}", self.listen, shown(&self.server))
    }
}

/// The address of the server.
fn shown((host, port): &(String, u16)) -> String {
    let (open, close) = if host.contains(':') { ("[", "]") } else { ("", "") };
    format!("http://{open}{host}{close}:{port}")
}

/// A port alone is one that only this machine can reach.
fn listen_address(text: &str) -> Result<SocketAddr, ProxyError> {
    let loopback = IpAddr::V4(Ipv4Addr::LOCALHOST);
    let port = text.strip_prefix("localhost:").unwrap_or(text).trim_start_matches(':');
    match (port.parse::<u16>(), text.parse::<SocketAddr>()) {
        (Ok(port), _) => Ok(SocketAddr::new(loopback, port)),
        (_, Ok(address)) => Ok(address),
        _ => Err(ProxyError::Listen { text: text.to_owned() }),
    }
}

/// Host and port of `http://HOST[:PORT]`.
fn server(url: &str) -> Result<(String, u16), ProxyError> {
    let given: Address = url.parse()?;
    let (host, port) = (given.host().trim_matches(['[', ']']).to_owned(), given.port());
    if given.is_encrypted() {
        return Err(ProxyError::Encrypted { url: url.to_owned(), host, port });
    }
    if given.path() != "/" {
        let problem = "holds a path, and paths pass as they are";
        return Err(ProxyError::Server { url: url.to_owned(), problem });
    }
    Ok((host, port))
}

/// A proxy. Its threads go on until [`Proxy::close`], or until the program ends.
#[derive(Debug)]
pub struct Proxy {
    listener: Arc<TcpListener>,
    address: SocketAddr,
    server: String,
    forwarder: Arc<Forwarder>,
    context: Arc<Context>,
}

impl Proxy {
    /// Takes the address to listen at; connections wait until [`Proxy::open`].
    ///
    /// # Errors
    /// When the server's host is not known, or the address is taken.
    pub fn bind(route: &ProxyRoute, context: Arc<Context>) -> Result<Self, ProxyError> {
        let (host, port) = &route.server;
        let found = (host.as_str(), *port).to_socket_addrs();
        let servers: Vec<SocketAddr> =
            found.map_err(|source| ProxyError::Host { host: host.clone(), source })?.collect();
        let failed = |source| ProxyError::Bind { address: route.listen, source };
        let listener = TcpListener::bind(route.listen).map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        let observer = Observer::start(context.clone()).map_err(ProxyError::Thread)?;
        let forwarder = Arc::new(Forwarder::new(servers, observer, context.clone()));
        Ok(Self {
            listener: Arc::new(listener),
            address,
            server: shown(&route.server),
            forwarder,
            context,
        })
    }

    /// Begins to forward.
    ///
    /// # Errors
    /// When there is no thread for it.
    pub fn open(&self) -> Result<(), ProxyError> {
        self.context
            .note(format!("proxy: requests to {} observed at {}", self.server, self.address));
        let (listener, forwarder) = (self.listener.clone(), self.forwarder.clone());
        std::thread::Builder::new()
            .name("proxy".to_owned())
            .stack_size(256 << 10)
            .spawn(move || forwarder.accept(&listener))
            .map_err(ProxyError::Thread)?;
        Ok(())
    }

    /// Where it listens.
    #[must_use]
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// Whom it forwards to.
    #[must_use]
    pub fn server(&self) -> &str {
        &self.server
    }

    /// Takes no more connections, breaks off those that are there, and comes back when every request
    /// that passed is a row.
    pub fn close(self) {
        let Self { listener, address, forwarder, context, .. } = self;
        forwarder.stop();
        // The thread that accepts waits for a connection; this is the last.
        let _ = TcpStream::connect_timeout(&reachable(address), WAKE);
        drop(listener);
        if !forwarder.wait(LONGEST_CLOSE) || !forwarder.flush(LONGEST_CLOSE) {
            context.note("proxy: some connections had not ended when the recording did");
        }
        let lost = forwarder.lost_connections();
        if lost > 0 {
            context.note(format!(
                "proxy: {lost} connections were no longer observed, since the recorder fell behind; their \
                 bytes passed all the same"
            ));
        }
    }
}

/// Longest wait for the thread that accepts, and for connections to end.
const WAKE: Duration = Duration::from_secs(1);
const LONGEST_CLOSE: Duration = Duration::from_secs(5);

/// An address at which this machine reaches a listener: one that listens everywhere is reached here.
const fn reachable(address: SocketAddr) -> SocketAddr {
    match address {
        SocketAddr::V4(v4) if v4.ip().is_unspecified() => {
            SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), v4.port())
        }
        SocketAddr::V6(v6) if v6.ip().is_unspecified() => {
            SocketAddr::new(IpAddr::V6(std::net::Ipv6Addr::LOCALHOST), v6.port())
        }
        address => address,
    }
}

#[cfg(test)]
mod tests;
