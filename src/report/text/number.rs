//! Numbers as people read them.

/// A number with so many significant digits; digits before the point are never cut, and an exponent
/// appears only where plain digits would be hard to count.
#[must_use]
pub fn significant(value: f64, digits: usize) -> String {
    if value == 0.0 || !value.is_finite() {
        return format!("{value}");
    }
    let digits = digits.max(1);
    let scientific = format!("{value:.*e}", digits - 1);
    // The exponent after rounding, so that 9.9996 becomes 10.00 and not 10.000.
    let exponent =
        scientific.split_once('e').and_then(|(_, exponent)| exponent.parse::<i64>().ok());
    match exponent {
        Some(exponent @ -4..=8) => {
            let decimals = usize::try_from(digits as i64 - 1 - exponent).unwrap_or(0);
            format!("{value:.decimals$}")
        }
        _ => scientific,
    }
}

/// A number with as many decimals as `like` has in its shortest text, and `more`.
pub(super) fn decimals_like(value: f64, like: f64, more: usize) -> String {
    let text = format!("{like}");
    let decimals = text.split_once('.').map_or(0, |(_, decimals)| decimals.len());
    format!("{value:.*}", decimals + more)
}

/// A ratio as a percentage with a sign.
pub(super) fn signed_percent(ratio: f64) -> String {
    let text = significant(ratio * 100.0, 3);
    if ratio > 0.0 { format!("+{text}%") } else { format!("{text}%") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digits_are_kept_whatever_the_size() {
        assert_eq!(significant(6280.214, 4), "6280");
        assert_eq!(significant(0.271_96, 4), "0.2720");
        assert_eq!(significant(9.999_6, 4), "10.00");
        assert_eq!(significant(-1234567.8, 4), "-1234568");
        assert_eq!(significant(1.234_56e-7, 4), "1.235e-7");
        assert_eq!(significant(3.2e12, 3), "3.20e12");
        assert_eq!(significant(0.0, 4), "0");
        assert_eq!(signed_percent(0.012_34), "+1.23%");
        assert_eq!(decimals_like(6280.21396, 6280.21, 2), "6280.2140");
    }
}
