//! How many cards of another configuration do the work of a fleet.

use wattrace_schema::{Flag, FlagSet, Reason};

use super::accuracy::AccuracyGateRow;
use super::goodput::GoodputRow;

/// One configuration in place of the reference. Savings are told in cards only.
#[derive(Debug, Clone, PartialEq)]
pub struct CapacityRow {
    /// Hash of the spec.
    pub spec_hash: Option<String>,
    /// The configuration.
    pub configuration: Option<String>,
    /// The configuration that the fleet runs today.
    pub reference: Option<String>,
    /// Cards of the fleet today, N.
    pub cards: u64,
    /// Goodput of the reference, T0, tokens/s.
    pub reference_goodput_tok_s: Result<f64, Reason>,
    /// Goodput of the configuration, T1, tokens/s.
    pub goodput_tok_s: Result<f64, Reason>,
    /// N′ = ⌈N · T0 / T1⌉; a reason where there is no goodput, or the accuracy gate failed.
    pub cards_needed: Result<u64, Reason>,
    /// What a reader must know.
    pub flags: FlagSet,
}

impl CapacityRow {
    /// Cards that become free; negative where more are needed.
    #[must_use]
    pub fn cards_saved(&self) -> Option<i128> {
        self.cards_needed.ok().map(|needed| i128::from(self.cards) - i128::from(needed))
    }

    /// Why there is no number of cards.
    #[must_use]
    pub fn reason(&self) -> Option<Reason> {
        self.cards_needed.err()
    }
}

/// One configuration as capacity sees it.
#[derive(Debug, Clone, PartialEq)]
pub struct Candidate {
    /// Hash of the spec.
    pub spec_hash: Option<String>,
    /// The configuration.
    pub configuration: Option<String>,
    /// Its goodput, tokens/s.
    pub goodput_tok_s: Result<f64, Reason>,
    /// Whether it passes the accuracy gate; a reason where nothing says.
    pub passes: Result<bool, Reason>,
    /// Flags of the goodput.
    pub flags: FlagSet,
}

impl Candidate {
    /// A goodput with the gate of the same spec and configuration, if there is one.
    #[must_use]
    pub fn of(goodput: &GoodputRow, gates: &[AccuracyGateRow]) -> Self {
        let gate = gates.iter().find(|gate| {
            gate.spec_hash == goodput.spec_hash && gate.configuration == goodput.configuration
        });
        Self {
            spec_hash: goodput.spec_hash.clone(),
            configuration: goodput.configuration.clone(),
            goodput_tok_s: goodput.goodput_tok_s,
            passes: gate.map_or(Err(Reason::NoScores), |gate| gate.passes),
            flags: goodput.flags,
        }
    }
}

/// Rows for every candidate, given a fleet of `cards` that runs `reference` today. All candidates
/// belong to one spec.
#[must_use]
pub fn capacity(cards: u64, reference: Option<&str>, candidates: &[Candidate]) -> Vec<CapacityRow> {
    let of_reference = candidates
        .iter()
        .find(|row| reference.is_some() && row.configuration.as_deref() == reference)
        .map_or(Err(Reason::NoReference), |row| row.goodput_tok_s);
    candidates
        .iter()
        .map(|row| {
            let cards_needed = if row.passes == Ok(false) {
                Err(Reason::AccuracyFailed)
            } else {
                row.goodput_tok_s.and_then(|goodput| cards_needed(cards, of_reference?, goodput))
            };
            let mut flags = row.flags;
            flags.insert_if(row.passes.is_err(), Flag::AccuracyNotMeasured);
            CapacityRow {
                spec_hash: row.spec_hash.clone(),
                configuration: row.configuration.clone(),
                reference: reference.map(str::to_owned),
                cards,
                reference_goodput_tok_s: of_reference,
                goodput_tok_s: row.goodput_tok_s,
                cards_needed,
                flags,
            }
        })
        .collect()
}

/// ⌈cards · T0 / T1⌉, exactly: both rates enter as the rational numbers of their shortest decimal
/// representations. So ⌈21 / 1.4⌉ is 15; in binary 21 / 1.4 is a little more.
///
/// ```
/// use wattrace_analysis::service::cards_needed;
///
/// assert_eq!(cards_needed(7, 1.0, 1.4), Ok(5));
/// assert_eq!(cards_needed(21, 1.0, 1.4), Ok(15));
/// assert_eq!(cards_needed(100, 1000.0, 1400.0), Ok(72)); // 71.43
/// ```
///
/// # Errors
/// [`Reason::InvalidInput`] for rates that are not finite and above zero, or a number of cards beyond
/// 64 bits.
pub fn cards_needed(cards: u64, reference_tok_s: f64, candidate_tok_s: f64) -> Result<u64, Reason> {
    let reference = Decimal::shortest(reference_tok_s)?;
    let candidate = Decimal::shortest(candidate_tok_s)?;
    // Fewer than 65 bits times fewer than 60: no overflow.
    let numerator = u128::from(cards) * reference.digits;
    let denominator = candidate.digits;
    let exponent = reference.exponent - candidate.exponent;
    let ceiling = if exponent < 0 {
        // Dividing by ten after rounding up, and rounding up again, is rounding up once.
        let mut ceiling = numerator.div_ceil(denominator);
        for _ in exponent..0 {
            ceiling = ceiling.div_ceil(10);
        }
        ceiling
    } else {
        // Long division, one more digit for each power of ten.
        let mut quotient = numerator / denominator;
        let mut remainder = numerator % denominator;
        for _ in 0..exponent {
            remainder *= 10;
            quotient = quotient
                .checked_mul(10)
                .and_then(|quotient| quotient.checked_add(remainder / denominator))
                .ok_or(Reason::InvalidInput)?;
            remainder %= denominator;
        }
        quotient + u128::from(remainder > 0)
    };
    u64::try_from(ceiling).map_err(|_| Reason::InvalidInput)
}

/// A positive decimal number, digits × 10^exponent.
struct Decimal {
    digits: u128,
    exponent: i32,
}

impl Decimal {
    /// The shortest decimal that is nearest to `value` among 64-bit floats: what `{}` prints.
    fn shortest(value: f64) -> Result<Self, Reason> {
        if !(value.is_finite() && value > 0.0) {
            return Err(Reason::InvalidInput);
        }
        let text = format!("{value:e}");
        let parse = || {
            let (mantissa, exponent) = text.split_once('e')?;
            let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
            Some(Self {
                digits: format!("{whole}{fraction}").parse().ok()?,
                exponent: exponent.parse::<i32>().ok()? - i32::try_from(fraction.len()).ok()?,
            })
        };
        Ok(parse().expect("a float prints as digits, e and a whole number"))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_ratio_of_1_4_is_seven_fifths_for_every_fleet() {
        // N / 1.4 = 5 N / 7; the ceiling is the least whole number k with 7 k >= 5 N.
        let mut ceiling = 0;
        for cards in 1..=10_000_u64 {
            while 7 * ceiling < 5 * cards {
                ceiling += 1;
            }
            assert_eq!(cards_needed(cards, 1.0, 1.4), Ok(ceiling), "{cards}");
            assert_eq!(cards_needed(cards, 1234.5, 1728.3), Ok(ceiling), "{cards}");
            assert_eq!(cards_needed(cards, 0.1, 0.14), Ok(ceiling), "{cards}");
        }
        // Binary arithmetic misses 205 of them, 21 first.
        assert_eq!((21.0 / 1.4_f64).ceil(), 16.0);
        assert_eq!(cards_needed(21, 1.0, 1.4), Ok(15));
    }

    #[test]
    fn a_slower_candidate_needs_more_cards_and_an_equal_one_as_many() {
        assert_eq!(cards_needed(10, 1400.0, 1000.0), Ok(14));
        assert_eq!(cards_needed(10, 0.3, 0.3), Ok(10));
        assert_eq!(cards_needed(0, 5.0, 1.0), Ok(0));
        assert_eq!(cards_needed(3, 1.0, 1e300), Ok(1));
        assert_eq!(cards_needed(u64::MAX, 1.0, 1.0), Ok(u64::MAX));
    }

    #[test]
    fn what_has_no_answer_is_a_reason() {
        for (reference, candidate) in [
            (1.0, 0.0),
            (0.0, 1.0),
            (f64::NAN, 1.0),
            (1.0, f64::INFINITY),
            (1.0, -1.0),
            (1e300, 1e-300),
        ] {
            assert_eq!(cards_needed(3, reference, candidate), Err(Reason::InvalidInput));
        }
    }

    proptest! {
        /// Decimals with up to three places, against whole-number arithmetic on their numerators.
        #[test]
        fn the_ceiling_is_that_of_rational_arithmetic(
            cards in 0..1_000_000_u64, reference in 1..10_000_000_u64, candidate in 1..10_000_000_u64,
        ) {
            let thousandths = |n: u64| format!("{}.{:03}", n / 1000, n % 1000).parse::<f64>().unwrap();
            let product = u128::from(cards) * u128::from(reference);
            let exact = product.div_ceil(u128::from(candidate));
            prop_assert_eq!(
                cards_needed(cards, thousandths(reference), thousandths(candidate)).map(u128::from),
                Ok(exact)
            );
        }

        #[test]
        fn no_rates_overflow(cards: u64, reference: f64, candidate: f64) {
            let _ = cards_needed(cards, reference, candidate);
        }
    }
}
