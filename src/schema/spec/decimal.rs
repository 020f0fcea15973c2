//! Numbers as they are written, exactly: 1, 1.0 and 1e0 are one number, 0.1 is a tenth.

use std::fmt;

/// A decimal number, exact: `±digits × 10^exponent`, where `digits` has no zero at either end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Decimal {
    negative: bool,
    digits: String,
    exponent: i64,
}

/// Magnitude of the exponents up to which a number prints without one.
const PLAIN_EXPONENT: i64 = 20;

impl Decimal {
    /// Reads a number of YAML's core schema: decimal with or without point and exponent, `0x` and `0o`.
    /// `None` for any other text, and for a number beyond 64-bit floats.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        if let Some(digits) = text.strip_prefix("0x") {
            return Self::whole(digits, 16);
        }
        if let Some(digits) = text.strip_prefix("0o") {
            return Self::whole(digits, 8);
        }
        let (negative, unsigned) = match text.as_bytes().first()? {
            b'-' => (true, &text[1..]),
            b'+' => (false, &text[1..]),
            _ => (false, text),
        };
        let (mantissa, exponent) = match unsigned.split_once(['e', 'E']) {
            Some((mantissa, exponent)) => (mantissa, exponent.parse::<i64>().ok()?),
            None => (unsigned, 0),
        };
        let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
        let all_digits = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
        if whole.is_empty() && fraction.is_empty() || !all_digits(whole) || !all_digits(fraction) {
            return None;
        }
        let exponent = exponent.checked_sub(i64::try_from(fraction.len()).ok()?)?;
        Self::normal(negative, &format!("{whole}{fraction}"), exponent)
    }

    fn whole(digits: &str, radix: u32) -> Option<Self> {
        // `from_str_radix` would take a sign, which may not stand there.
        let value =
            u128::from_str_radix(digits, radix).ok().filter(|_| !digits.starts_with('+'))?;
        Self::normal(false, &value.to_string(), 0)
    }

    /// Drops zeros at both ends; refuses what a 64-bit float cannot hold.
    fn normal(negative: bool, digits: &str, exponent: i64) -> Option<Self> {
        let digits = digits.trim_start_matches('0');
        if digits.is_empty() {
            return Some(Self { negative: false, digits: "0".to_owned(), exponent: 0 });
        }
        let significant = digits.trim_end_matches('0');
        let dropped = i64::try_from(digits.len() - significant.len()).ok()?;
        let exponent = exponent.checked_add(dropped)?;
        let number = Self { negative, digits: significant.to_owned(), exponent };
        number.to_f64().is_finite().then_some(number)
    }

    /// The nearest 64-bit float.
    #[must_use]
    pub fn to_f64(&self) -> f64 {
        let sign = if self.negative { "-" } else { "" };
        let text = format!("{sign}{}e{}", self.digits, self.exponent);
        text.parse().expect("digits, e and a whole number are a float")
    }

    /// The number as a count; `None` when it is negative, has a fraction or is too large.
    #[must_use]
    pub fn to_u32(&self) -> Option<u32> {
        // Ten digits hold every 32-bit count, so a larger exponent cannot be one.
        let zeros = usize::try_from(self.exponent).ok().filter(|zeros| *zeros < 10)?;
        if self.negative {
            return None;
        }
        format!("{}{}", self.digits, "0".repeat(zeros)).parse().ok()
    }
}

impl fmt::Display for Decimal {
    /// One text for one number, which is also a number in JSON.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.negative {
            formatter.write_str("-")?;
        }
        let length = i64::try_from(self.digits.len()).unwrap_or(i64::MAX);
        let point = length.saturating_add(self.exponent);
        if self.exponent > PLAIN_EXPONENT || point < -PLAIN_EXPONENT || length > PLAIN_EXPONENT {
            return write!(formatter, "{}e{}", self.digits, self.exponent);
        }
        let zeros = |count: i64| "0".repeat(usize::try_from(count).unwrap_or_default());
        if self.exponent >= 0 {
            write!(formatter, "{}{}", self.digits, zeros(self.exponent))
        } else if point > 0 {
            let (whole, fraction) =
                self.digits.split_at(usize::try_from(point).unwrap_or_default());
            write!(formatter, "{whole}.{fraction}")
        } else {
            write!(formatter, "0.{}{}", zeros(-point), self.digits)
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn text(written: &str) -> Option<String> {
        Decimal::parse(written).map(|number| number.to_string())
    }

    #[test]
    fn spellings_of_one_number_are_one() {
        for written in ["1", "1.0", "1e0", "+1", "01", "10e-1", "0.1E1", "1.", "0x1", "0o1"] {
            assert_eq!(text(written).as_deref(), Some("1"), "{written}");
        }
        for written in ["0", "-0", "0.000", "0e99999", ".0"] {
            assert_eq!(text(written).as_deref(), Some("0"), "{written}");
        }
        assert_eq!(text("0.1"), text("100e-3"));
        assert_ne!(text("0.1"), text("0.10000000000000000001"));
        assert_eq!(text("1e3").as_deref(), Some("1000"));
        assert_eq!(text("-12.50").as_deref(), Some("-12.5"));
        assert_eq!(text("0.00012").as_deref(), Some("0.00012"));
        assert_eq!(text("1e-40").as_deref(), Some("1e-40"));
        assert_eq!(text("7e300").as_deref(), Some("7e300"));
    }

    #[test]
    fn what_is_no_finite_number_is_none() {
        for written in [
            "",
            "-",
            ".",
            "e5",
            "1e",
            "1e+",
            "1_000",
            "0x",
            "0x+1",
            "0b1",
            "1.2.3",
            "1e400",
            "inf",
            "nan",
            "1e99999999999999999999",
            "١",
        ] {
            assert_eq!(text(written), None, "{written}");
        }
    }

    #[test]
    fn counts_are_whole_and_fit() {
        let count = |written: &str| Decimal::parse(written).and_then(|number| number.to_u32());
        assert_eq!(count("4294967295"), Some(u32::MAX));
        assert_eq!(count("5e1"), Some(50));
        assert_eq!(count("0"), Some(0));
        for written in ["4294967296", "1.5", "-1", "1e10", "1e300"] {
            assert_eq!(count(written), None, "{written}");
        }
    }

    proptest! {
        #[test]
        fn the_printed_number_reads_back_equal_and_is_json(value in any::<f64>()) {
            prop_assume!(value.is_finite());
            let number = Decimal::parse(&format!("{value:e}")).unwrap();
            let printed = number.to_string();
            prop_assert_eq!(Decimal::parse(&printed).unwrap(), number.clone());
            prop_assert_eq!(number.to_f64(), value);
            let json: serde_json::Value = serde_json::from_str(&printed).unwrap();
            prop_assert!(json.is_number());
        }
    }
}
