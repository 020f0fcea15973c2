//! Questions to an agent, and what may go wrong with them.

use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use snmp2::{Error, Oid, SyncSession};

use super::login::{Identity, SnmpLogin};
use super::number;

/// A request may be repeated so often because the agent first told its engine or its time (v3).
const MOST_TRIES: usize = 3;

/// Cause of a read that got no answer in its time.
const NO_ANSWER: &str = "no answer in time";

/// A value, and after how many counts it starts again from zero, if its type says so.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Number {
    pub(super) value: f64,
    pub(super) wraps_after: Option<f64>,
}

/// A socket to one agent. After any error it must not be used again: an answer that comes late would pass
/// for the answer to the next question.
pub(super) struct Session(Box<SyncSession>);

impl Session {
    /// A session whose every wait for an answer ends after `longest`; for v3 it asks for the agent's engine.
    pub(super) fn open(
        agent: SocketAddr,
        login: &SnmpLogin,
        longest: Duration,
    ) -> Result<Self, String> {
        let first = unpredictable_id();
        let timeout = Some(longest);
        let session = match &login.0 {
            Identity::Community(community) => {
                SyncSession::new_v2c(agent, community.as_bytes(), timeout, first)
            }
            Identity::User(security) => {
                SyncSession::new_v3(agent, timeout, first, security.as_ref().clone())
            }
        };
        let mut session = Box::new(
            session.map_err(|error| format!("no socket can be opened: {}", error.kind()))?,
        );
        session.init().map_err(|error| cause(&error))?;
        Ok(Self(session))
    }

    /// Values of objects, in their order, each with its own cause if it is none.
    pub(super) fn get(
        &mut self,
        oids: &[Oid<'static>],
        deadline: Instant,
    ) -> Result<Vec<Result<Number, String>>, String> {
        let names: Vec<_> = oids.iter().collect();
        for _ in 0..MOST_TRIES {
            if Instant::now() >= deadline {
                return Err(NO_ANSWER.to_owned());
            }
            let reply = match self.0.get_many(&names) {
                Err(Error::AuthUpdated) => continue,
                reply => reply.map_err(|error| cause(&error))?,
            };
            if reply.error_status != 0 {
                return Err(format!("the agent refuses: {}", error_name(reply.error_status)));
            }
            let mut values = reply.varbinds;
            let answer = |oid: &Oid<'static>| match values.next() {
                Some((name, value)) if name == *oid => number(&value),
                Some(_) => Err("the agent answers for another object".to_owned()),
                None => Err("the answer lacks the object or cannot be read".to_owned()),
            };
            return Ok(oids.iter().map(answer).collect());
        }
        Err("the agent's clock cannot be followed".to_owned())
    }
}

/// A positive number that nobody else can foresee: the standard library seeds its hashes from the system.
fn unpredictable_id() -> i32 {
    let bits = RandomState::new().build_hasher().finish();
    // Half of the positive range, so that counting up from it does not overflow.
    i32::try_from(bits >> 34).unwrap_or(1)
}

fn cause(error: &Error) -> String {
    match error {
        Error::Receive => NO_ANSWER.to_owned(),
        Error::Send => "the request cannot be sent".to_owned(),
        Error::AuthFailure(kind) => format!("the log-in fails: {kind}"),
        error => format!("the answer cannot be read: {error}"),
    }
}

/// Names of `error-status` (RFC 3416, section 3).
fn error_name(status: u32) -> &'static str {
    match status {
        1 => "tooBig",
        2 => "noSuchName",
        5 => "genErr",
        6 => "noAccess",
        13 => "resourceUnavailable",
        16 => "authorizationError",
        _ => "an error of another kind",
    }
}
