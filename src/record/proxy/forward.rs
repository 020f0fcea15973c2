//! Passes bytes on between clients and the server.

use std::collections::BTreeMap;
use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

use super::http1::Direction;
use super::observer::{Ending, Observer};
use crate::lock::lock;
use crate::{Context, Stop};

/// Bytes that are passed on at once.
const BUFFER_BYTES: usize = 64 << 10;

/// Stack of a thread that passes bytes on.
const STACK: usize = 128 << 10;

/// Longest time until the server takes a connection.
const CONNECT: Duration = Duration::from_secs(10);

/// Longest time in which a client that cannot be served may say what it wanted.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// Wait after a connection could not be accepted, as when there are too many files open.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// Forwards all connections of one proxy.
#[derive(Debug)]
pub(super) struct Forwarder {
    servers: Vec<SocketAddr>,
    observer: Observer,
    context: Arc<Context>,
    stopped: Stop,
    links: Mutex<Links>,
    changed: Condvar,
}

/// Connections that are there.
#[derive(Debug, Default)]
struct Links {
    open: BTreeMap<u64, Arc<Link>>,
    /// Numbers given so far.
    count: u64,
    /// Threads at work for them.
    threads: usize,
}

/// Both ends of a connection.
#[derive(Debug)]
struct Link {
    number: u64,
    client: TcpStream,
    server: Mutex<Option<Arc<TcpStream>>>,
    is_lost: AtomicBool,
    /// Directions that are still carried.
    sides: AtomicUsize,
}

impl Link {
    fn shut(&self) {
        // An end that is shut already needs nothing.
        let _ = self.client.shutdown(Shutdown::Both);
        if let Some(server) = &*lock(&self.server) {
            let _ = server.shutdown(Shutdown::Both);
        }
    }
}

impl Forwarder {
    pub(super) fn new(servers: Vec<SocketAddr>, observer: Observer, context: Arc<Context>) -> Self {
        Self {
            servers,
            observer,
            context,
            stopped: Stop::new(),
            links: Mutex::default(),
            changed: Condvar::new(),
        }
    }

    /// Takes connections until it is stopped.
    pub(super) fn accept(self: Arc<Self>, listener: &TcpListener) {
        while !self.stopped.is_raised() {
            match listener.accept() {
                // The last connection only wakes this thread.
                Ok(_) if self.stopped.is_raised() => return,
                Ok((client, _)) => self.clone().take(client),
                Err(_) if self.stopped.wait_for(ACCEPT_PAUSE) => return,
                Err(error) => {
                    let cause = format!("a connection was not accepted: {}", error.kind());
                    self.context.count_failure("proxy", "", &cause);
                }
            }
        }
    }

    /// Takes no more connections and breaks off those that are there.
    pub(super) fn stop(&self) {
        self.stopped.raise();
        let links: Vec<_> = lock(&self.links).open.values().cloned().collect();
        links.iter().for_each(|link| link.shut());
    }

    /// Waits until every connection has ended, for `limit` at most; says whether that is so.
    pub(super) fn wait(&self, limit: Duration) -> bool {
        let is_busy = |links: &mut Links| links.threads > 0;
        let (links, _) = self
            .changed
            .wait_timeout_while(lock(&self.links), limit, is_busy)
            .unwrap_or_else(PoisonError::into_inner);
        links.threads == 0
    }

    /// Waits until all that passed is a row, for `limit` at most; says whether that is so.
    pub(super) fn flush(&self, limit: Duration) -> bool {
        self.observer.flush(limit)
    }

    pub(super) fn lost_connections(&self) -> u64 {
        self.observer.lost_connections()
    }

    fn take(self: Arc<Self>, client: TcpStream) {
        let link = {
            let mut links = lock(&self.links);
            links.count += 1;
            let link = Arc::new(Link {
                number: links.count,
                client,
                server: Mutex::new(None),
                is_lost: AtomicBool::new(false),
                sides: AtomicUsize::new(2),
            });
            links.open.insert(link.number, link.clone());
            link
        };
        // Between the look at the stop and this one it may have been raised, and not seen the link.
        if self.stopped.is_raised() {
            link.shut();
        }
        let number = link.number;
        let this = self.clone();
        let is_served = self.spawn(move || this.serve(&link));
        if !is_served {
            lock(&self.links).open.remove(&number);
        }
    }

    /// Runs `work` on a thread of its own; says whether there was one.
    fn spawn(self: &Arc<Self>, work: impl FnOnce() + Send + 'static) -> bool {
        lock(&self.links).threads += 1;
        let this = self.clone();
        let spawned = std::thread::Builder::new()
            .name("forward".to_owned())
            .stack_size(STACK)
            .spawn(move || {
                work();
                this.leave();
            });
        if spawned.is_err() {
            self.context.count_failure("proxy", "", "no thread for a connection");
            self.leave();
        }
        spawned.is_ok()
    }

    fn leave(&self) {
        lock(&self.links).threads -= 1;
        self.changed.notify_all();
    }

    /// Serves one client to its end; this thread carries what the client says.
    fn serve(self: Arc<Self>, link: &Arc<Link>) {
        let server = match self.connect(link) {
            Ok(server) => server,
            Err(_) => return self.refuse(link),
        };
        let (this, answers, answer_link) = (self.clone(), server.clone(), link.clone());
        let has_answers = self.spawn(move || {
            this.to_client(&answer_link, &answers);
            this.end_side(&answer_link);
        });
        if has_answers {
            self.to_server(link, &server);
            self.end_side(link);
        } else {
            self.refuse(link);
        }
    }

    /// One direction has ended; with the other the connection has gone.
    fn end_side(&self, link: &Link) {
        if link.sides.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.forget(link);
        }
    }

    fn forget(&self, link: &Link) {
        self.observer.gone(link.number);
        lock(&self.links).open.remove(&link.number);
    }

    fn connect(&self, link: &Link) -> io::Result<Arc<TcpStream>> {
        link.client.set_nodelay(true)?;
        let mut result = Err(io::Error::from(io::ErrorKind::AddrNotAvailable));
        for server in &self.servers {
            result = TcpStream::connect_timeout(server, CONNECT);
            if result.is_ok() {
                break;
            }
        }
        let server = Arc::new(result?);
        server.set_nodelay(true)?;
        *lock(&link.server) = Some(server.clone());
        if self.stopped.is_raised() {
            link.shut();
        }
        Ok(server)
    }

    /// The server is not there: what the client wanted is recorded, and its connection closed.
    fn refuse(&self, link: &Link) {
        let mut buffer = vec![0; BUFFER_BYTES];
        let heard = link
            .client
            .set_read_timeout(Some(LAST_WORDS))
            .and_then(|()| (&link.client).read(&mut buffer));
        if let Ok(count) = heard
            && count > 0
        {
            self.observe(link, Direction::ToServer, self.now_ns(), &buffer[..count]);
        }
        self.end(link, Ending::Unreachable);
        self.forget(link);
    }

    /// Carries what the client says to the server.
    fn to_server(&self, link: &Link, server: &TcpStream) {
        let mut buffer = vec![0; BUFFER_BYTES];
        loop {
            match read(&link.client, &mut buffer) {
                Ok(0) => {
                    self.observer.client_done(link.number);
                    // The answer may still be on its way.
                    let _ = server.shutdown(Shutdown::Write);
                    return;
                }
                Ok(count) => {
                    let t_ns = self.now_ns();
                    let bytes = &buffer[..count];
                    // Told before it is passed on, so that no answer is told before its request.
                    self.observe(link, Direction::ToServer, t_ns, bytes);
                    if (&*server).write_all(bytes).is_err() {
                        // What the server still said is carried by the other thread.
                        return;
                    }
                }
                Err(_) => {
                    self.observer.client_done(link.number);
                    let _ = server.shutdown(Shutdown::Both);
                    return;
                }
            }
        }
    }

    /// Carries what the server says to the client, and ends the connection.
    fn to_client(&self, link: &Link, server: &TcpStream) {
        let mut buffer = vec![0; BUFFER_BYTES];
        let ending = loop {
            match read(server, &mut buffer) {
                Ok(0) => break Ending::ServerClosed,
                Ok(count) => {
                    let t_ns = self.now_ns();
                    let bytes = &buffer[..count];
                    let passed = (&link.client).write_all(bytes);
                    self.observe(link, Direction::ToClient, t_ns, bytes);
                    if passed.is_err() {
                        break Ending::ClientGone;
                    }
                }
                Err(_) => break Ending::ServerBroke,
            }
        };
        let ending = if self.stopped.is_raised() { Ending::Stopped } else { ending };
        self.end(link, ending);
    }

    /// Tells the end and closes what is still open.
    fn end(&self, link: &Link, ending: Ending) {
        self.observer.ended(link.number, ending, self.now_ns());
        if ending == Ending::ServerClosed {
            // The client learns it as it would without the proxy: it may still send, and is not answered.
            let _ = link.client.shutdown(Shutdown::Write);
        } else {
            link.shut();
        }
    }

    fn observe(&self, link: &Link, direction: Direction, t_ns: i64, bytes: &[u8]) {
        if !link.is_lost.load(Ordering::Relaxed)
            && !self.observer.bytes(link.number, direction, t_ns, bytes)
        {
            link.is_lost.store(true, Ordering::Relaxed);
        }
    }

    fn now_ns(&self) -> i64 {
        self.context.clock.clock().monotonic_ns()
    }
}

/// Reads, however often a signal comes between.
fn read(mut stream: &TcpStream, buffer: &mut [u8]) -> io::Result<usize> {
    loop {
        match stream.read(buffer) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => (),
            result => return result,
        }
    }
}
