//! Which request used how much of the formal energy.
//!
//! The starts and ends of all generation intervals cut the formal window into elementary intervals.
//! Each one's energy is shared by the tokens output in it, whoever they belong to; a request's energy
//! is the sum over its own tokens. A prefix integral of energy per token makes that one pass over the
//! tokens for requests with recorded gaps, and two look-ups for requests with even spacing: the cost is
//! O((requests + samples + tokens)·log), never requests × concurrency.

use wattrace_schema::{Flag, FlagSet, Interval, NANOS_PER_SECOND, Reason, Requests};

use super::Context;
use crate::series::WindowEnergy;

/// Energy of one successful formal request.
#[derive(Debug, Clone, PartialEq)]
pub struct RequestEnergy {
    /// Index into the run's requests.
    pub request: usize,
    /// Output tokens.
    pub tokens: u32,
    /// Its share of the formal energy, J; `None` without an end time, and when it output no token
    /// inside the formal window.
    pub energy_j: Option<f64>,
    /// Energy per output token; `None` without energy or tokens.
    pub j_per_token: Option<f64>,
    /// Place in the order of ends, from 0; `None` without energy per token.
    pub order: Option<usize>,
    /// Coefficient of variation of energy per token over the window that starts at this request.
    pub window_cv: Option<f64>,
}

/// The formal energy split over requests.
#[derive(Debug, Clone, PartialEq)]
pub struct Attribution {
    /// One entry a successful formal request, in the order of the run's requests.
    pub requests: Vec<RequestEnergy>,
    /// Energy of the elementary intervals in which nobody generated, J.
    pub unattributed_j: f64,
    /// When each token of each request was output, for token counts over other windows.
    pub(super) tokens: TokenTimes,
    /// What a reader must know.
    pub flags: FlagSet,
}

/// How a request's tokens lie in time.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Spacing {
    /// All tokens at one instant (the generation interval is empty).
    Instant,
    /// At this constant rate, tokens/s, over the generation interval.
    Even { tokens_per_s: f64 },
    /// One weight a chunk: the first at the interval's start, the others after each recorded gap.
    Chunks { first: f64, scale: f64 },
}

/// One request's generation interval, clipped to nothing: times as recorded.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Generation {
    request: usize,
    tokens: u32,
    start_ns: i64,
    end_ns: i64,
    spacing: Spacing,
}

/// Generation intervals of all successful formal requests.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct TokenTimes {
    generations: Vec<Generation>,
}

/// Tokens after each recorded gap, with the times at which they arrived, clamped to the end.
fn chunks<'run>(
    requests: &'run Requests,
    generation: &Generation,
    scale: f64,
) -> impl Iterator<Item = (i64, f64)> + 'run {
    let (gap_ns, tokens) = requests.gaps.of(generation.request);
    let (mut t_ns, end_ns) = (generation.start_ns, generation.end_ns);
    gap_ns.iter().enumerate().map(move |(index, gap)| {
        t_ns = t_ns.saturating_add_unsigned(*gap).min(end_ns);
        let count = tokens.get(index).copied().unwrap_or(1);
        (t_ns, f64::from(count) * scale)
    })
}

impl TokenTimes {
    /// The generation intervals, and the requests that have none because they have no end.
    pub(crate) fn of(
        requests: &Requests,
        successful: &[usize],
    ) -> Result<(Self, Vec<usize>, FlagSet), Reason> {
        let mut flags = FlagSet::EMPTY;
        let mut generations = Vec::with_capacity(successful.len());
        let mut endless = Vec::new();
        for index in successful {
            match generation(requests, *index, &mut flags) {
                Ok(generation) => generations.push(generation),
                Err(Reason::MissingEnd) => endless.push(*index),
                Err(reason) => return Err(reason),
            }
        }
        flags.insert_if(!endless.is_empty(), Flag::MissingEnd);
        Ok((Self { generations }, endless, flags))
    }

    /// Tokens generated in (`after_ns`, `until_ns`], fractional with even spacing.
    pub(crate) fn tokens_in(&self, requests: &Requests, after_ns: i64, until_ns: i64) -> f64 {
        let inside = |t_ns: i64| t_ns > after_ns && t_ns <= until_ns;
        let mut total = 0.0;
        for generation in &self.generations {
            if generation.end_ns <= after_ns || generation.start_ns > until_ns {
                continue;
            }
            total += match generation.spacing {
                Spacing::Instant => f64::from(generation.tokens),
                Spacing::Even { tokens_per_s } => {
                    let part = Interval::new(
                        generation.start_ns.max(after_ns),
                        generation.end_ns.min(until_ns),
                    );
                    tokens_per_s * part.duration_s()
                }
                _ if generation.start_ns > after_ns && generation.end_ns <= until_ns => {
                    f64::from(generation.tokens)
                }
                Spacing::Chunks { first, scale } => {
                    let first = if inside(generation.start_ns) { first } else { 0.0 };
                    let rest: f64 = chunks(requests, generation, scale)
                        .filter(|(t_ns, _)| inside(*t_ns))
                        .map(|(_, tokens)| tokens)
                        .sum();
                    first + rest
                }
            };
        }
        total
    }
}

/// When and how one successful request generated.
fn generation(
    requests: &Requests,
    index: usize,
    flags: &mut FlagSet,
) -> Result<Generation, Reason> {
    let tokens = requests.output_tokens[index].unwrap_or_default();
    let Some(end_ns) = requests.t_end_ns[index] else {
        let clocked =
            requests.t_send_ns[index].is_some() || requests.t_first_token_ns[index].is_some();
        return Err(if clocked { Reason::MissingEnd } else { Reason::NoRequestTimes });
    };
    let first_token_ns = requests.t_first_token_ns[index];
    flags.insert_if(first_token_ns.is_none(), Flag::NoFirstToken);
    let start_ns =
        first_token_ns.or(requests.t_send_ns[index]).ok_or(Reason::NoRequestTimes)?.min(end_ns);
    let (gap_ns, gap_tokens) = requests.gaps.of(index);
    let spacing = if start_ns == end_ns {
        Spacing::Instant
    } else if gap_ns.is_empty() || first_token_ns.is_none() {
        let duration_s = Interval::new(start_ns, end_ns).duration_s();
        Spacing::Even { tokens_per_s: f64::from(tokens) / duration_s }
    } else {
        let after_gaps: f64 = if gap_tokens.is_empty() {
            gap_ns.len() as f64
        } else {
            gap_tokens.iter().map(|tokens| f64::from(*tokens)).sum()
        };
        let scale = f64::from(tokens) / (1.0 + after_gaps);
        flags.insert_if(1.0 + after_gaps != f64::from(tokens), Flag::ChunkMismatch);
        Spacing::Chunks { first: scale, scale }
    };
    Ok(Generation { request: index, tokens, start_ns, end_ns, spacing })
}

/// Splits the formal energy over the successful formal requests.
pub(super) fn attribute(context: &Context<'_>) -> Result<Attribution, Reason> {
    let energy = context.formal_energy.chosen()?;
    let successful = context.log.successful.as_ref().map_err(|reason| *reason)?;
    let requests = context.run.requests.as_ref().ok_or(Reason::NoRequests)?;
    let (tokens, endless, flags) = TokenTimes::of(requests, successful)?;
    let mut attribution = Shares::of(energy, requests, tokens, flags).attribution();
    attribution.requests.extend(endless.into_iter().map(|request| RequestEnergy {
        request,
        tokens: requests.output_tokens[request].unwrap_or_default(),
        energy_j: None,
        j_per_token: None,
        order: None,
        window_cv: None,
    }));
    Ok(attribution)
}

/// A running sum with the rounding error of every addition kept beside it (Knuth's two-sum), so that
/// what was added and taken away again leaves nothing, however large it was.
#[derive(Debug, Clone, Copy, Default)]
struct ExactSum {
    sum: f64,
    error: f64,
}

impl ExactSum {
    fn add(&mut self, value: f64) {
        let sum = self.sum + value;
        let added = sum - self.sum;
        self.error += (self.sum - (sum - added)) + (value - added);
        self.sum = sum;
    }

    fn value(self) -> f64 {
        self.sum + self.error
    }

    fn minus(self, other: Self) -> f64 {
        (self.sum - other.sum) + (self.error - other.error)
    }
}

/// The elementary intervals of the formal window and what was output in each.
struct Shares<'run> {
    requests: &'run Requests,
    tokens: TokenTimes,
    flags: FlagSet,
    /// Boundaries, ascending and unique; interval k lies between boundaries k and k + 1, the
    /// latter included.
    boundaries_ns: Vec<i64>,
    /// Energy from the window's start to each boundary, J.
    energy_until_j: Vec<f64>,
    /// What each request without even spacing output in which interval, request after request.
    pieces: Vec<Piece>,
    /// Where the pieces of each request end.
    piece_ends: Vec<usize>,
    /// Energy per token in each interval, J; 0 where nobody generated.
    j_per_token: Vec<f64>,
    unattributed_j: f64,
}

/// Tokens of one request that were output in one interval.
#[derive(Debug, Clone, Copy)]
struct Piece {
    interval: usize,
    tokens: f64,
}

/// Intervals that are looked at one by one before the search widens.
const NEAR_INTERVALS: usize = 8;

impl<'run> Shares<'run> {
    fn of(
        energy: &WindowEnergy,
        requests: &'run Requests,
        tokens: TokenTimes,
        flags: FlagSet,
    ) -> Self {
        let formal = energy.window;
        let mut boundaries_ns = vec![formal.start_ns, formal.end_ns];
        for generation in &tokens.generations {
            for t_ns in [generation.start_ns, generation.end_ns] {
                if t_ns > formal.start_ns && t_ns < formal.end_ns {
                    boundaries_ns.push(t_ns);
                }
            }
        }
        boundaries_ns.sort_unstable();
        boundaries_ns.dedup();
        let energy_until_j = energy.energy_until(&boundaries_ns);
        let mut shares = Self {
            requests,
            tokens,
            flags,
            boundaries_ns,
            energy_until_j,
            pieces: Vec::new(),
            piece_ends: Vec::new(),
            j_per_token: Vec::new(),
            unattributed_j: 0.0,
        };
        shares.share_energy();
        shares
    }

    /// The interval that holds an instant by the rule (start, end]; `None` outside the formal window.
    fn interval_of(&self, t_ns: i64, from: usize) -> Option<usize> {
        let last = self.boundaries_ns.len() - 1;
        if t_ns <= self.boundaries_ns[0] || t_ns > self.boundaries_ns[last] {
            return None;
        }
        let mut low = from.min(last - 1);
        if self.boundaries_ns[low] >= t_ns {
            low = 0;
        }
        // A request's next token mostly lies a few intervals on; otherwise the search widens from there.
        for _ in 0..NEAR_INTERVALS {
            if self.boundaries_ns[low + 1] >= t_ns {
                return Some(low);
            }
            low += 1;
        }
        let mut width = 1;
        while low + width < last && self.boundaries_ns[low + width] < t_ns {
            low += width;
            width *= 2;
        }
        let high = (low + width).min(last);
        Some(low + self.boundaries_ns[low + 1..=high].partition_point(|boundary| *boundary < t_ns))
    }

    /// The interval that begins at a request's first token; at formal_end, the last one.
    fn interval_beginning(&self, t_ns: i64) -> Option<usize> {
        let last = self.boundaries_ns.len() - 1;
        if t_ns < self.boundaries_ns[0] || t_ns > self.boundaries_ns[last] {
            return None;
        }
        let boundary = self.boundaries_ns.partition_point(|boundary| *boundary <= t_ns) - 1;
        Some(boundary.min(last - 1))
    }

    /// Calls `visit` with the interval and the tokens of every chunk of a request.
    fn for_each_chunk(&self, generation: &Generation, mut visit: impl FnMut(Option<usize>, f64)) {
        match generation.spacing {
            Spacing::Instant => {
                visit(self.interval_beginning(generation.start_ns), f64::from(generation.tokens));
            }
            Spacing::Chunks { first, scale } => {
                let beginning = self.interval_beginning(generation.start_ns);
                visit(beginning, first);
                let mut near = beginning.unwrap_or(0);
                for (t_ns, tokens) in chunks(self.requests, generation, scale) {
                    // A chunk that arrives with the first one is in the first one's interval.
                    let interval = if t_ns == generation.start_ns {
                        beginning
                    } else {
                        self.interval_of(t_ns, near)
                    };
                    near = interval.unwrap_or(near);
                    visit(interval, tokens);
                }
            }
            Spacing::Even { .. } => {}
        }
    }

    /// First and last boundary of an evenly spaced request's interval, inside the formal window.
    fn boundaries_of(&self, generation: &Generation) -> (usize, usize) {
        let place = |t_ns: i64| {
            let last = self.boundaries_ns.len() - 1;
            self.boundaries_ns.partition_point(|boundary| *boundary < t_ns).min(last)
        };
        (place(generation.start_ns), place(generation.end_ns))
    }

    fn share_energy(&mut self) {
        let intervals = self.boundaries_ns.len() - 1;
        let mut chunk_tokens = vec![0.0; intervals];
        let mut rate_changes = Vec::new();
        let mut pieces: Vec<Piece> = Vec::new();
        let mut piece_ends = Vec::with_capacity(self.tokens.generations.len());
        let mut outside = false;
        for generation in &self.tokens.generations {
            if let Spacing::Even { tokens_per_s } = generation.spacing {
                let (start, end) = self.boundaries_of(generation);
                if start < end {
                    rate_changes.push((start, tokens_per_s));
                    rate_changes.push((end, -tokens_per_s));
                }
            }
            let first_piece = pieces.len();
            self.for_each_chunk(generation, |interval, tokens| {
                let Some(interval) = interval else {
                    outside = true;
                    return;
                };
                chunk_tokens[interval] += tokens;
                match pieces[first_piece..].last_mut() {
                    Some(piece) if piece.interval == interval => piece.tokens += tokens,
                    _ => pieces.push(Piece { interval, tokens }),
                }
            });
            piece_ends.push(pieces.len());
            outside |= generation.start_ns < self.boundaries_ns[0];
            outside |= generation.end_ns > self.boundaries_ns[intervals];
        }
        self.flags.insert_if(outside, Flag::OutsideFormal);
        self.pieces = pieces;
        self.piece_ends = piece_ends;

        rate_changes.sort_by_key(|(boundary, _)| *boundary);
        let mut rate_changes = rate_changes.into_iter().peekable();
        let mut rate = ExactSum::default();
        let mut j_per_token = Vec::with_capacity(intervals);
        for (interval, chunk_tokens) in chunk_tokens.iter().enumerate() {
            while let Some((_, change)) =
                rate_changes.next_if(|(boundary, _)| *boundary <= interval)
            {
                rate.add(change);
            }
            let seconds =
                Interval::new(self.boundaries_ns[interval], self.boundaries_ns[interval + 1])
                    .duration_s();
            let tokens = chunk_tokens + rate.value().max(0.0) * seconds;
            let energy_j = self.energy_until_j[interval + 1] - self.energy_until_j[interval];
            if tokens > 0.0 {
                j_per_token.push(energy_j / tokens);
            } else {
                self.unattributed_j += energy_j;
                j_per_token.push(0.0);
            }
        }
        self.j_per_token = j_per_token;
    }

    /// Energy of one request; `None` when none of its tokens lies inside the formal window.
    /// `per_token_s` is the integral of energy per token over time, up to each boundary.
    fn energy_of(
        &self,
        generation: &Generation,
        pieces: &[Piece],
        per_token_s: &[ExactSum],
    ) -> Option<f64> {
        if let Spacing::Even { tokens_per_s } = generation.spacing {
            let (start, end) = self.boundaries_of(generation);
            let integral = || per_token_s[end].minus(per_token_s[start]);
            return (start < end).then(|| tokens_per_s * integral());
        }
        let energy_j = |piece: &Piece| piece.tokens * self.j_per_token[piece.interval];
        (!pieces.is_empty()).then(|| pieces.iter().map(energy_j).sum())
    }

    fn attribution(self) -> Attribution {
        // For even spacing: the integral of energy per token over time, up to each boundary.
        let mut per_token_s = Vec::with_capacity(self.boundaries_ns.len());
        let mut total = ExactSum::default();
        per_token_s.push(total);
        for (pair, j_per_token) in self.boundaries_ns.windows(2).zip(&self.j_per_token) {
            total.add(j_per_token * (pair[1].abs_diff(pair[0]) as f64 / NANOS_PER_SECOND));
            per_token_s.push(total);
        }
        let mut first_piece = 0;
        let requests = self
            .tokens
            .generations
            .iter()
            .zip(&self.piece_ends)
            .map(|(generation, piece_end)| {
                let pieces = &self.pieces[first_piece..*piece_end];
                first_piece = *piece_end;
                let energy_j = self.energy_of(generation, pieces, &per_token_s);
                RequestEnergy {
                    request: generation.request,
                    tokens: generation.tokens,
                    energy_j,
                    j_per_token: energy_j
                        .filter(|_| generation.tokens > 0)
                        .map(|energy_j| energy_j / f64::from(generation.tokens)),
                    order: None,
                    window_cv: None,
                }
            })
            .collect();
        Attribution {
            requests,
            unattributed_j: self.unattributed_j,
            tokens: self.tokens,
            flags: self.flags,
        }
    }
}
