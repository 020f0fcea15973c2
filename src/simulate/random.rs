//! Random numbers by name, not by turn: each run, and each part of a run, has a stream of its own, so
//! that neither the number of threads nor a change in another part changes what it draws.

use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;

/// The generator of every stream.
pub(crate) type Stream = ChaCha8Rng;

/// The streams of one run.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Streams {
    seed: u64,
    run_index: u64,
}

/// Parts of a run that draw numbers.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Part {
    /// Requests: arrival, lengths, fate.
    Requests,
    /// Time of the server's steps.
    Steps,
    /// Differences between boards.
    Boards,
    /// Departure of a decode run's energy from the law.
    Energy,
    /// Sensors: noise, jitter, loss.
    Sensors,
}

/// Streams set aside for each run; more than there are parts.
const STREAMS_PER_RUN: u64 = 16;

impl Streams {
    pub(crate) const fn of_run(seed: u64, run_index: usize) -> Self {
        Self { seed, run_index: run_index as u64 }
    }

    pub(crate) fn of(self, part: Part) -> Stream {
        stream(self.seed, self.run_index * STREAMS_PER_RUN + part as u64)
    }

    /// What the runs of one plan entry have in common.
    pub(crate) fn shared_by_entry(seed: u64, entry_index: usize) -> Stream {
        stream(seed, u64::MAX - entry_index as u64)
    }
}

fn stream(seed: u64, number: u64) -> Stream {
    let mut stream = ChaCha8Rng::seed_from_u64(seed);
    stream.set_stream(number);
    stream
}
