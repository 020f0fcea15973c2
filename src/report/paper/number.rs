//! Numbers as papers print them: read with the digits that they have, and printed with so many.

use std::fmt;

use crate::text::significant;

/// How many digits a number is printed with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Digits {
    /// So many digits after the point.
    Decimals(u8),
    /// So many significant digits; digits before the point are never cut.
    Significant(u8),
}

impl Digits {
    /// The number in these digits, correctly rounded. A zero has no sign.
    #[must_use]
    pub fn print(self, value: f64) -> String {
        let text = match self {
            Self::Decimals(decimals) => format!("{value:.*}", usize::from(decimals)),
            Self::Significant(digits) => significant(value, usize::from(digits)),
        };
        let is_zero = !text.bytes().any(|byte| (b'1'..=b'9').contains(&byte));
        match text.strip_prefix('-') {
            Some(zero) if is_zero => zero.to_owned(),
            _ => text,
        }
    }
}

/// A number as it was printed, and how exact its digits are.
///
/// ```
/// use wattrace_report::paper::PublishedNumber;
///
/// let published = PublishedNumber::parse("0.2720").unwrap();
/// assert_eq!((published.value, published.half_unit), (0.272, 0.000_05));
/// assert!(published.agrees_with(0.272_04));
/// assert!(!published.agrees_with(0.272_06));
/// ```
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PublishedNumber {
    /// The value.
    pub value: f64,
    /// Half a unit in the last printed place: what rounding can have taken away.
    pub half_unit: f64,
    /// Place of the last printed digit as a power of ten: -4 for `0.2720`, 2 for `1.2e3`.
    pub last_place: i32,
    /// Whether a percent sign follows.
    pub percent: bool,
}

/// Why a text is not a number that could be compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NumberFault {
    /// It is something else.
    NotANumber,
    /// A comma that does not part groups of three digits.
    Comma,
    /// Something stands beside the number.
    MoreThanANumber,
    /// No 64-bit number is as large.
    TooLarge,
}

impl fmt::Display for NumberFault {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::NotANumber => {
                "is not a number; expected digits such as 0.2720, 6,280.2, 1.2e3 or 12%"
            }
            Self::Comma => {
                "has a comma that does not part groups of three digits; expected a point before \
                 decimals, as in 6280.2"
            }
            Self::MoreThanANumber => {
                "holds more than a number; expected the number alone, without marks, uncertainties \
                 or units"
            }
            Self::TooLarge => "is too large; expected a number below 1e308",
        })
    }
}

impl PublishedNumber {
    /// Reads a number as papers print them: a sign (the typographic minus too), digits with commas
    /// between groups of three, a point and decimals, an exponent after `e`, a percent sign.
    ///
    /// # Errors
    /// [`NumberFault`] for anything else; nothing is guessed.
    pub fn parse(text: &str) -> Result<Self, NumberFault> {
        let text = text.trim();
        let (text, percent) = match text.strip_suffix('%') {
            Some(number) => (number.trim_end(), true),
            None => (text, false),
        };
        let (negative, unsigned) = match text.chars().next() {
            Some(sign @ ('-' | '\u{2212}')) => (true, &text[sign.len_utf8()..]),
            Some('+') => (false, &text[1..]),
            _ => (false, text),
        };
        let (mantissa, exponent) = match unsigned.split_once(['e', 'E']) {
            Some((mantissa, exponent)) => (mantissa, Some(exponent)),
            None => (unsigned, None),
        };
        let (whole, decimals) = mantissa.split_once('.').unwrap_or((mantissa, ""));
        let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
        if !digits(&whole.replace(',', "")) || !digits(decimals) {
            return Err(what_is_wrong(text));
        }
        let whole = without_group_commas(whole).ok_or(NumberFault::Comma)?;
        if whole.is_empty() && decimals.is_empty() {
            return Err(NumberFault::NotANumber);
        }
        let exponent = exponent.map_or(Some(0), power_of_ten).ok_or(NumberFault::NotANumber)?;
        let decimal_count = i32::try_from(decimals.len()).map_err(|_| NumberFault::NotANumber)?;
        let last_place = exponent - decimal_count;
        let sign = if negative { "-" } else { "" };
        // Both texts hold digits, a point and a small exponent only.
        let value = format!("{sign}0{whole}.{decimals}0e{exponent}")
            .parse::<f64>()
            .map_err(|_| NumberFault::NotANumber)?;
        let half_unit =
            format!("5e{}", last_place - 1).parse::<f64>().map_err(|_| NumberFault::NotANumber)?;
        if !value.is_finite() || !half_unit.is_finite() {
            return Err(NumberFault::TooLarge);
        }
        Ok(Self { value, half_unit, last_place, percent })
    }

    /// A number whose digits are those of its shortest decimal text. Zeros that the source printed at
    /// the end are not known.
    #[must_use]
    pub fn of_shortest_text(value: f64) -> Option<Self> {
        Self::parse(&format!("{value}")).ok()
    }

    /// Whether `recomputed` rounds to the printed digits, so lies within half a unit of the last place.
    #[must_use]
    pub fn agrees_with(&self, recomputed: f64) -> bool {
        self.agrees_within(recomputed, 0.0)
    }

    /// As [`PublishedNumber::agrees_with`], with so many percent of the published value on top.
    #[must_use]
    pub fn agrees_within(&self, recomputed: f64, percent: f64) -> bool {
        // A decimal half counts as equal, whichever way its binary neighbours fall.
        let rounding = 4.0 * f64::EPSILON * self.value.abs().max(recomputed.abs());
        (recomputed - self.value).abs() <= self.tolerance(percent) + rounding
    }

    /// Half a unit in the last place and so many percent of the value.
    #[must_use]
    pub fn tolerance(&self, percent: f64) -> f64 {
        self.half_unit + percent / 100.0 * self.value.abs()
    }

    /// `value` with so many digits more than were printed.
    #[must_use]
    pub fn print_like(&self, value: f64, more: u8) -> String {
        let decimals = (-self.last_place).clamp(0, 17);
        Digits::Decimals(u8::try_from(decimals).unwrap_or(0).saturating_add(more)).print(value)
    }
}

/// The digits without the commas between groups of three; `None` if a comma stands elsewhere. A group
/// that begins with 0 is the decimal comma of another language.
fn without_group_commas(whole: &str) -> Option<String> {
    let mut groups = whole.split(',');
    let first = groups.next()?;
    let mut digits = first.to_owned();
    for group in groups {
        let well_grouped = group.len() == 3 && (1..=3).contains(&first.len());
        if !well_grouped || first.starts_with('0') {
            return None;
        }
        digits.push_str(group);
    }
    Some(digits)
}

/// An exponent of at most three digits.
fn power_of_ten(text: &str) -> Option<i32> {
    let (negative, digits) = match text.strip_prefix(['-', '\u{2212}']) {
        Some(digits) => (true, digits),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    let plain = (1..=3).contains(&digits.len()) && digits.bytes().all(|byte| byte.is_ascii_digit());
    let power: i32 = plain.then(|| digits.parse().ok()).flatten()?;
    Some(if negative { -power } else { power })
}

fn what_is_wrong(text: &str) -> NumberFault {
    if text.chars().any(|letter| letter.is_ascii_digit()) {
        NumberFault::MoreThanANumber
    } else {
        NumberFault::NotANumber
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[track_caller]
    fn assert_reads(text: &str, value: f64, half_unit: f64) {
        let number = PublishedNumber::parse(text).unwrap();
        assert_eq!((number.value, number.half_unit), (value, half_unit), "{text}");
    }

    #[test]
    fn printed_digits_say_how_exact_a_number_is() {
        assert_reads("0.2720", 0.272, 0.000_05);
        assert_reads("0.272", 0.272, 0.0005);
        assert_reads("6,280.2", 6280.2, 0.05);
        assert_reads("1,234,567", 1_234_567.0, 0.5);
        assert_reads("1.2e3", 1200.0, 50.0);
        assert_reads("1200", 1200.0, 0.5);
        assert_reads("-3.5E-2", -0.035, 0.0005);
        assert_reads("\u{2212}3.5", -3.5, 0.05);
        assert_reads("+.5", 0.5, 0.05);
        assert_reads(" 12 % ", 12.0, 0.5);
        assert!(PublishedNumber::parse("12%").unwrap().percent);
        assert!(!PublishedNumber::parse("12").unwrap().percent);
    }

    #[test]
    fn what_is_not_a_number_alone_is_refused_with_what_is_wrong() {
        let fault = |text: &str| PublishedNumber::parse(text).unwrap_err();
        for text in ["", "fast", "NaN", "inf", "e3", ".", "-"] {
            assert_eq!(fault(text), NumberFault::NotANumber, "{text}");
        }
        // The second would otherwise read as 272, the third as 12345.
        for text in ["6,28", "0,272", "12,345,6", "1234,567", ",123", "1,,234"] {
            assert_eq!(fault(text), NumberFault::Comma, "{text}");
        }
        for text in ["0.27 ± 0.01", "12.3*", "6280 W", "<0.01", "1 234", "0.2720.1", "12%%"] {
            assert_eq!(fault(text), NumberFault::MoreThanANumber, "{text}");
        }
        for text in ["1e", "1e1.5", "1e9999"] {
            assert_eq!(fault(text), NumberFault::NotANumber, "{text}");
        }
        assert_eq!(fault("1e999"), NumberFault::TooLarge);
    }

    #[test]
    fn a_half_unit_of_the_last_place_is_within() {
        let agrees = |text: &str, value| PublishedNumber::parse(text).unwrap().agrees_with(value);
        assert!(agrees("6280.2140", 6_280.213_95));
        assert!(!agrees("6280.2140", 6_280.213_94));
        assert!(agrees("1.2e3", 1249.0));
        assert!(!agrees("1200", 1249.0));
        // 0.5% of 1200 is 6, and half a unit.
        let number = PublishedNumber::parse("1200").unwrap();
        assert!(number.agrees_within(1206.5, 0.5) && !number.agrees_within(1206.6, 0.5));
        assert_eq!(number.tolerance(0.5), 6.5);
    }

    #[test]
    fn printed_zeros_have_no_sign() {
        assert_eq!(Digits::Decimals(2).print(-0.001), "0.00");
        assert_eq!(Digits::Decimals(3).print(-0.0016), "-0.002");
        assert_eq!(Digits::Significant(3).print(-0.0), "0");
        assert_eq!(Digits::Significant(4).print(0.271_96), "0.2720");
        assert_eq!(PublishedNumber::parse("6,280.2").unwrap().print_like(6280.214, 2), "6280.214");
    }

    proptest! {
        #[test]
        fn what_was_printed_agrees_with_what_it_was_printed_from(
            value in prop::num::f64::NORMAL | prop::num::f64::ZERO,
            digits in 0..=15_u8,
        ) {
            let decimals = Digits::Decimals(digits).print(value);
            prop_assert!(PublishedNumber::parse(&decimals).unwrap().agrees_with(value), "{decimals}");
            let significant = Digits::Significant(digits.max(1)).print(value);
            let number = PublishedNumber::parse(&significant);
            // The largest numbers may round up beyond all 64-bit numbers.
            prop_assert!(
                number == Err(NumberFault::TooLarge) || number.unwrap().agrees_with(value),
                "{significant}"
            );
        }

        #[test]
        fn no_text_makes_the_reader_panic(text in ".{0,20}") {
            let _ = PublishedNumber::parse(&text);
        }
    }
}
