//! Sends requests to an OpenAI-compatible endpoint and records how each was answered.

mod client;
mod requests;
mod schedule;
mod sender;

use std::time::Duration;

use serde_json::{Map, Value};

use crate::http::{AddressError, HttpOptions};

pub use client::ApiKey;
pub use requests::{Api, RequestSource};
pub use sender::{Load, Sent};

/// Takes a line of progress now and then.
pub type Say<'a> = dyn Fn(&str) + Sync + 'a;

/// When requests are sent.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Arrival {
    /// So many at once: one more when an answer is complete.
    Closed {
        /// How many.
        concurrency: usize,
    },
    /// At random times, a Poisson process.
    Poisson {
        /// Mean requests a second.
        rate: f64,
    },
    /// In even steps.
    Constant {
        /// Requests a second.
        rate: f64,
    },
    /// At the times of the file.
    Replay {
        /// How many times as fast.
        speed_up: f64,
    },
}

/// What is sent, where to, and when.
#[derive(Debug, Clone)]
pub struct LoadOptions {
    /// Address of the server or of its endpoint.
    pub url: String,
    /// Which endpoint.
    pub api: Api,
    /// Model to name in each request.
    pub model: Option<String>,
    /// Where requests come from.
    pub source: RequestSource,
    /// When they are sent.
    pub arrival: Arrival,
    /// How many; by default each once, or as many as fit into `time`.
    pub count: Option<usize>,
    /// Time after which none is begun.
    pub time: Option<Duration>,
    /// How many before the formal ones, one after another.
    pub warm_up: u32,
    /// Seed of random times and prompts.
    pub seed: u64,
    /// Fields to add to each request.
    pub extra: Map<String, Value>,
    /// Longest time of one request.
    pub timeout: Duration,
    /// Most requests under way at once when their times are given.
    pub max_in_flight: usize,
    /// Key of the endpoint.
    pub key: Option<ApiKey>,
    /// Whose certificate is trusted, and whether the key may go unencrypted to another machine.
    pub http: HttpOptions,
}

/// Why nothing can be sent.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[expect(missing_docs, reason = "the fields are the facts that the message prints")]
pub enum LoadError {
    /// The requests cannot be read.
    #[error("{0}")]
    Requests(String),
    /// Times of the file are asked for, and it has none.
    #[error(
        "--replay sends at the times of the requests, and these have none; expected a trace, or lines with \"t\""
    )]
    NoTimes,
    /// Fields of `--body` cannot be added.
    #[error("--body: {0}")]
    Extra(String),
    /// The address is none.
    #[error(transparent)]
    Address(#[from] AddressError),
    /// The address cannot be used.
    #[error("\"{url}\" {problem}; expected an address such as http://127.0.0.1:8000")]
    Url { url: String, problem: &'static str },
    /// The key would be readable on the way.
    #[error(
        "the key would go to {url} without encryption; use https, take the key away, or allow it with \
         --allow-plain-credentials"
    )]
    PlainKey { url: String },
    /// There is no usable key.
    #[error("the key is empty or holds spaces or letters that no header may hold")]
    Key,
    /// The certificate of the endpoint cannot be verified.
    #[error("\"{url}\" {problem}")]
    Certificates { url: String, problem: String },
}
