//! Reads copies of what passes through, on a thread of its own, and makes rows of the completions in it.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use wattrace_schema::RequestStatus;

use super::http1::{Direction, HasBody, Head, Malformed, Messages, Part};
use crate::Context;
use crate::completion::{Answer, Observed};

/// Bytes that may wait to be read; beyond it connections go on unobserved.
const MOST_WAITING_BYTES: usize = 32 << 20;

/// Under which failures are counted.
const SOURCE: &str = "proxy";

/// How a connection ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ending {
    /// The server closed it.
    ServerClosed,
    /// The server broke it off.
    ServerBroke,
    /// The client no longer takes what comes.
    ClientGone,
    /// The server could not be reached.
    Unreachable,
    /// The measurement ended.
    Stopped,
}

/// What happens on a connection.
#[derive(Debug)]
enum News {
    Bytes {
        direction: Direction,
        t_ns: i64,
        bytes: Vec<u8>,
    },
    /// The client sends nothing more.
    ClientDone,
    /// Copies were lost, so what follows cannot be understood.
    Lost {
        t_ns: i64,
    },
    Ended {
        ending: Ending,
        t_ns: i64,
    },
    /// Both ends are closed; nothing more comes.
    Gone,
    /// Somebody waits until all that was told before is a row.
    Flush(Sender<()>),
}

/// The way to the observer, shared by all connections.
#[derive(Debug)]
pub(super) struct Observer {
    news: Sender<(u64, News)>,
    waiting_bytes: Arc<AtomicUsize>,
    lost_connections: AtomicU64,
}

impl Observer {
    /// Starts the thread; it ends when the observer is dropped.
    pub(super) fn start(context: Arc<Context>) -> std::io::Result<Self> {
        let (news, receiver) = channel();
        let waiting_bytes = Arc::new(AtomicUsize::new(0));
        let waiting = waiting_bytes.clone();
        std::thread::Builder::new()
            .name("observer".to_owned())
            .stack_size(512 << 10)
            .spawn(move || Watch::new(context).run(&receiver, &waiting))?;
        Ok(Self { news, waiting_bytes, lost_connections: AtomicU64::new(0) })
    }

    /// Bytes that pass. Never waits: where too many wait already, the connection is lost, which `false`
    /// says; nothing more of it is to be told but its end.
    pub(super) fn bytes(
        &self,
        connection: u64,
        direction: Direction,
        t_ns: i64,
        bytes: &[u8],
    ) -> bool {
        let waiting = self.waiting_bytes.load(Ordering::Relaxed);
        if waiting + bytes.len() > MOST_WAITING_BYTES {
            self.lost_connections.fetch_add(1, Ordering::Relaxed);
            self.tell(connection, News::Lost { t_ns });
            return false;
        }
        self.waiting_bytes.fetch_add(bytes.len(), Ordering::Relaxed);
        self.tell(connection, News::Bytes { direction, t_ns, bytes: bytes.to_vec() });
        true
    }

    pub(super) fn client_done(&self, connection: u64) {
        self.tell(connection, News::ClientDone);
    }

    pub(super) fn ended(&self, connection: u64, ending: Ending, t_ns: i64) {
        self.tell(connection, News::Ended { ending, t_ns });
    }

    pub(super) fn gone(&self, connection: u64) {
        self.tell(connection, News::Gone);
    }

    /// Waits until all that was told before is a row, for `limit` at most.
    pub(super) fn flush(&self, limit: Duration) -> bool {
        let (done, is_done) = channel();
        self.tell(0, News::Flush(done));
        is_done.recv_timeout(limit).is_ok()
    }

    /// Connections whose copies were lost.
    pub(super) fn lost_connections(&self) -> u64 {
        self.lost_connections.load(Ordering::Relaxed)
    }

    fn tell(&self, connection: u64, news: News) {
        // The thread lives as long as this does.
        let _ = self.news.send((connection, news));
    }
}

/// All connections, as the thread sees them.
struct Watch {
    context: Arc<Context>,
    connections: BTreeMap<u64, Connection>,
}

impl Watch {
    const fn new(context: Arc<Context>) -> Self {
        Self { context, connections: BTreeMap::new() }
    }

    fn run(mut self, receiver: &Receiver<(u64, News)>, waiting_bytes: &AtomicUsize) {
        while let Ok((number, news)) = receiver.recv() {
            if let News::Bytes { bytes, .. } = &news {
                waiting_bytes.fetch_sub(bytes.len(), Ordering::Relaxed);
            }
            self.take(number, news);
        }
    }

    fn take(&mut self, number: u64, news: News) {
        let mut rows = Vec::new();
        match news {
            News::Bytes { direction, t_ns, bytes } => {
                let connection = self.connections.entry(number).or_default();
                if let Err(problem) =
                    connection.bytes(direction, t_ns, &bytes, &mut rows, &self.context.proxied)
                {
                    self.context.count_failure(SOURCE, "", problem);
                    let cause = format!("the connection could not be followed: {problem}");
                    connection.is_lost = true;
                    connection.fail(RequestStatus::Error, &cause, t_ns, &mut rows);
                }
            }
            News::ClientDone => {
                if let Some(connection) = self.connections.get_mut(&number) {
                    connection.is_client_done = true;
                }
            }
            News::Lost { t_ns } => {
                self.context.count_failure(SOURCE, "", "the recorder fell behind");
                let connection = self.connections.entry(number).or_default();
                let cause = "not observed to its end: the recorder fell behind";
                connection.is_lost = true;
                connection.fail(RequestStatus::Error, cause, t_ns, &mut rows);
            }
            News::Ended { ending, t_ns } => {
                self.connections.entry(number).or_default().end(ending, t_ns, &mut rows);
            }
            News::Gone => drop(self.connections.remove(&number)),
            // Nobody may wait any more.
            News::Flush(done) => drop(done.send(())),
        }
        for Finished { id, sent_ns, observed, is_unread } in rows {
            if is_unread {
                self.context.count_failure(SOURCE, "", "a compressed answer was not read");
            }
            let clock = &self.context.clock;
            let stage = self.context.stage_at(clock.run_time_ns(sent_ns));
            let row = observed.row(clock, id, stage, sent_ns);
            // Once the recording has ended, what still passes is nobody's.
            let _ = self.context.sink.request(row);
        }
    }
}

/// A completion that has ended.
struct Finished {
    id: String,
    sent_ns: i64,
    observed: Observed,
    is_unread: bool,
}

/// One connection.
#[derive(Debug)]
struct Connection {
    requests: Messages,
    answers: Messages,
    /// Requests whose answer is not complete, in the order in which they came.
    pending: VecDeque<Pending>,
    is_client_done: bool,
    /// What follows cannot be understood.
    is_lost: bool,
    /// The server answers no more, and how requests fail by that.
    ended: Option<(RequestStatus, &'static str)>,
}

impl Default for Connection {
    fn default() -> Self {
        Self {
            requests: Messages::new(Direction::ToServer),
            answers: Messages::new(Direction::ToClient),
            pending: VecDeque::new(),
            is_client_done: false,
            is_lost: false,
            ended: None,
        }
    }
}

#[derive(Debug)]
struct Pending {
    is_head_method: bool,
    /// Only completions are recorded.
    completion: Option<Completion>,
    /// The head that came was one of those before the answer proper.
    is_interim: bool,
}

#[derive(Debug)]
struct Completion {
    id: String,
    sent_ns: i64,
    answer: Answer,
    is_unread: bool,
}

impl Completion {
    fn finished(self, end: impl FnOnce(Answer) -> Observed) -> Finished {
        let Self { id, sent_ns, answer, is_unread } = self;
        Finished { id, sent_ns, observed: end(answer), is_unread }
    }
}

impl Connection {
    fn bytes(
        &mut self,
        direction: Direction,
        t_ns: i64,
        bytes: &[u8],
        rows: &mut Vec<Finished>,
        count: &AtomicU64,
    ) -> Result<(), Malformed> {
        if self.is_lost {
            return Ok(());
        }
        let Self { requests, answers, pending, .. } = self;
        match direction {
            Direction::ToServer => {
                requests.push(bytes, t_ns, &mut |part| {
                    if let Part::Head { head: Head::Request { method, path }, began_ns } = part {
                        pending.push_back(Pending::new(&method, &path, began_ns, count));
                    }
                    Ok(HasBody::AsTheHeadSays)
                })?;
                // Sent while the server was closing: nobody answers.
                if let Some((status, cause)) = self.ended {
                    self.fail(status, cause, t_ns, rows);
                }
                Ok(())
            }
            Direction::ToClient => {
                answers.push(bytes, t_ns, &mut |part| answer(pending, part, t_ns, rows))
            }
        }
    }

    /// Requests whose answer is not complete get none.
    fn fail(&mut self, status: RequestStatus, cause: &str, t_ns: i64, rows: &mut Vec<Finished>) {
        let completions = self.pending.drain(..).filter_map(|pending| pending.completion);
        rows.extend(
            completions
                .map(|completion| completion.finished(|answer| answer.broken(status, cause, t_ns))),
        );
    }

    fn end(&mut self, ending: Ending, t_ns: i64, rows: &mut Vec<Finished>) {
        if ending == Ending::ServerClosed && !self.is_lost {
            let Self { answers, pending, .. } = self;
            // Where the end of the connection is that of the answer, nothing is missing.
            let _ = answers.close(&mut |part| answer(pending, part, t_ns, rows));
        }
        let (status, cause) = match ending {
            Ending::Unreachable => (RequestStatus::Error, "the server could not be reached"),
            Ending::Stopped => (RequestStatus::Cancelled, "the measurement ended"),
            Ending::ClientGone => (RequestStatus::Cancelled, CLIENT_CLOSED),
            // A server that hears that the client has gone ends the answer there.
            _ if self.is_client_done => (RequestStatus::Cancelled, CLIENT_CLOSED),
            Ending::ServerClosed | Ending::ServerBroke => {
                (RequestStatus::Error, "the server closed the connection")
            }
        };
        self.ended = Some((status, cause));
        self.fail(status, cause, t_ns, rows);
    }
}

const CLIENT_CLOSED: &str = "the client closed the connection";

/// Takes a part of an answer, which is that to the first request that waits.
fn answer(
    pending: &mut VecDeque<Pending>,
    part: Part<'_>,
    t_ns: i64,
    rows: &mut Vec<Finished>,
) -> Result<HasBody, Malformed> {
    let first = pending.front_mut().ok_or("an answer came that nobody asked for")?;
    match part {
        Part::Head { head: Head::Response { status, content_type, is_encoded }, .. } => {
            if status == 101 {
                return Err("the connection changed to another protocol");
            }
            first.is_interim = (100..200).contains(&status);
            if first.is_interim {
                return Ok(HasBody::No);
            }
            if let Some(completion) = &mut first.completion {
                completion.answer.head(status, &content_type);
                if is_encoded {
                    completion.answer.skip_body();
                    completion.is_unread = true;
                }
            }
            let has_none = first.is_head_method || matches!(status, 204 | 304);
            Ok(if has_none { HasBody::No } else { HasBody::AsTheHeadSays })
        }
        Part::Head { head: Head::Request { .. }, .. } => Ok(HasBody::AsTheHeadSays),
        Part::Data(data) => {
            if let Some(completion) = &mut first.completion {
                completion.answer.push(data, t_ns);
            }
            Ok(HasBody::AsTheHeadSays)
        }
        Part::End if first.is_interim => {
            first.is_interim = false;
            Ok(HasBody::AsTheHeadSays)
        }
        Part::End => {
            let completion = pending.pop_front().and_then(|pending| pending.completion);
            rows.extend(
                completion.map(|completion| completion.finished(|answer| answer.complete(t_ns))),
            );
            Ok(HasBody::AsTheHeadSays)
        }
    }
}

impl Pending {
    fn new(method: &str, path: &str, sent_ns: i64, count: &AtomicU64) -> Self {
        let is_completion = method == "POST" && path.ends_with("/completions");
        let completion = is_completion.then(|| {
            let id = format!("proxy-{}", count.fetch_add(1, Ordering::Relaxed) + 1);
            Completion { id, sent_ns, answer: Answer::default(), is_unread: false }
        });
        Self { is_head_method: method == "HEAD", completion, is_interim: false }
    }
}
