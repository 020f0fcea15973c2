//! Values with units, converted exactly: the one place where mJ and MJ, GB and GiB are told apart.

/// One unit: a value in it times `multiply`, divided by `divide`, is a value in the base unit. One of the
/// two is 1, so a conversion rounds once at most.
struct Scale {
    name: &'static str,
    multiply: f64,
    divide: f64,
}

const fn up(name: &'static str, multiply: f64) -> Scale {
    Scale { name, multiply, divide: 1.0 }
}

const fn down(name: &'static str, divide: f64) -> Scale {
    Scale { name, multiply: 1.0, divide }
}

const POWER: &[Scale] = &[
    up("W", 1.0),
    up("Watt", 1.0),
    up("Watts", 1.0),
    up("watts", 1.0),
    down("mW", 1e3),
    down("uW", 1e6),
    down("µW", 1e6),
    up("kW", 1e3),
    up("MW", 1e6),
];

const ENERGY: &[Scale] = &[
    up("J", 1.0),
    up("Joules", 1.0),
    up("joules", 1.0),
    down("nJ", 1e9),
    down("uJ", 1e6),
    down("µJ", 1e6),
    down("mJ", 1e3),
    up("kJ", 1e3),
    up("MJ", 1e6),
    up("Wh", 3600.0),
    up("kWh", 3.6e6),
    up("mWh", 3.6),
];

const BYTES: &[Scale] = &[
    up("B", 1.0),
    up("bytes", 1.0),
    up("KB", 1e3),
    up("kB", 1e3),
    up("MB", 1e6),
    up("GB", 1e9),
    up("TB", 1e12),
    up("KiB", 1024.0),
    up("MiB", 1_048_576.0),
    up("GiB", 1_073_741_824.0),
    up("TiB", 1_099_511_627_776.0),
];

const TIME: &[Scale] = &[
    up("ns", 1.0),
    up("us", 1e3),
    up("µs", 1e3),
    up("ms", 1e6),
    up("s", 1e9),
    up("sec", 1e9),
    up("min", 60e9),
    up("h", 3600e9),
];

const FREQUENCY: &[Scale] = &[down("Hz", 1e6), down("kHz", 1e3), up("MHz", 1.0), up("GHz", 1e3)];

/// Power in watts from a value in `unit`: W, mW, µW (uW), kW, MW.
///
/// # Errors
/// The unit is none of these; the message names it.
pub(super) fn power_w(value: f64, unit: &str) -> Result<f64, String> {
    convert(POWER, "power", value, unit)
}

/// Energy in joules from a value in `unit`: J, mJ, µJ (uJ), nJ, kJ, MJ, Wh, mWh, kWh. Case matters: `mJ`
/// and `MJ` differ by a factor of a thousand million.
///
/// # Errors
/// The unit is none of these; the message names it.
pub(super) fn energy_j(value: f64, unit: &str) -> Result<f64, String> {
    convert(ENERGY, "energy", value, unit)
}

/// Bytes from a value in `unit`: B, KB, MB, GB, TB (powers of 1000), KiB, MiB, GiB, TiB (powers of 1024);
/// rounded to a whole byte.
///
/// # Errors
/// The unit is none of these, or the value is negative or too large; the message names it.
pub(super) fn bytes(value: f64, unit: &str) -> Result<u64, String> {
    let bytes = convert(BYTES, "memory", value, unit)?.round();
    // 2^64 is the first value beyond the range.
    if (0.0..18_446_744_073_709_551_616.0).contains(&bytes) {
        Ok(bytes as u64)
    } else {
        Err(format!("{value} {unit} is no amount of memory"))
    }
}

/// Nanoseconds from a duration in `unit`: ns, µs (us), ms, s, min, h; rounded to a whole nanosecond.
///
/// # Errors
/// The unit is none of these, or the value does not fit 64 bits; the message names it.
pub(super) fn nanos(value: f64, unit: &str) -> Result<i64, String> {
    let nanos = convert(TIME, "time", value, unit)?.round();
    if (-9_223_372_036_854_775_808.0..9_223_372_036_854_775_808.0).contains(&nanos) {
        Ok(nanos as i64)
    } else {
        Err(format!("{value} {unit} does not fit 64-bit nanoseconds"))
    }
}

/// A duration in nanoseconds that cannot be negative; see [`nanos`].
///
/// # Errors
/// As [`nanos`], and for a negative value.
pub(super) fn duration_ns(value: f64, unit: &str) -> Result<u64, String> {
    u64::try_from(nanos(value, unit)?)
        .map_err(|_| format!("{value} {unit} is negative; expected a duration"))
}

/// A clock frequency in megahertz from a value in Hz, kHz, MHz or GHz, rounded to a whole one.
///
/// # Errors
/// The unit is none of these, or the value is negative or too large; the message names it.
pub(super) fn megahertz(value: f64, unit: &str) -> Result<u32, String> {
    let megahertz = convert(FREQUENCY, "frequency", value, unit)?.round();
    if (0.0..=f64::from(u32::MAX)).contains(&megahertz) {
        Ok(megahertz as u32)
    } else {
        Err(format!("{value} {unit} is no clock frequency"))
    }
}

fn convert(scales: &[Scale], what: &str, value: f64, unit: &str) -> Result<f64, String> {
    let unit = unit.trim();
    // Two code points look the same: the micro sign and the Greek letter.
    let same = |scale: &&Scale| scale.name == unit || scale.name == unit.replace('μ', "µ");
    let Some(scale) = scales.iter().find(same) else {
        let names: Vec<&str> = scales.iter().map(|scale| scale.name).collect();
        let names = names.join(", ");
        return Err(format!(
            "\"{}\" is no unit of {what}; expected one of {names}",
            unit.escape_debug()
        ));
    };
    if !value.is_finite() {
        return Err(format!("{value} is not a number; expected {what} in {unit}"));
    }
    Ok(value * scale.multiply / scale.divide)
}

/// A number and the unit behind it, such as `412.34 W`; the unit is empty where there is none.
///
/// # Errors
/// The text does not begin with a number.
pub(super) fn split_unit(text: &str) -> Result<(f64, &str), String> {
    let text = text.trim();
    let (number, unit) = text.split_once(char::is_whitespace).unwrap_or_else(|| {
        // Without a blank between them: the unit begins with the first letter that is no exponent.
        let end = text.char_indices().find(|(index, character)| {
            let exponent = matches!(character, 'e' | 'E')
                && text[index + 1..]
                    .starts_with(|next: char| next.is_ascii_digit() || "+-".contains(next));
            !exponent && (character.is_alphabetic() || matches!(character, '%' | '°'))
        });
        text.split_at(end.map_or(text.len(), |(index, _)| index))
    });
    let value = number
        .parse::<f64>()
        .ok()
        .filter(|value| value.is_finite())
        .ok_or_else(|| format!("\"{}\" is no number", text.escape_debug()))?;
    Ok((value, unit.trim()))
}

/// Whether a cell says that there is no value: empty, `N/A`, `[N/A]`, `[Not Supported]`, `null` and the
/// like. Never a zero.
#[must_use]
pub(super) fn is_absent(text: &str) -> bool {
    let text = text.trim().trim_matches(['[', ']', '"']).trim();
    let known = [
        "",
        "-",
        "--",
        "N/A",
        "n/a",
        "NA",
        "NaN",
        "nan",
        "null",
        "NULL",
        "None",
        "none",
        "Not Supported",
        "Unknown Error",
        "Not Available",
        "GPU requires reset",
        "Insufficient Permissions",
        "Function Not Found",
        "Requested functionality has been deprecated",
    ];
    known.contains(&text) || text.starts_with("N/A ")
}

/// Nanoseconds since 1970 from seconds in a double. Whole seconds and fraction are converted apart, so
/// the result is as exact as the double, whose own step is 238 ns in our years.
///
/// # Errors
/// The value is not finite or lies outside the years 1677 to 2262.
pub(super) fn epoch_seconds(seconds: f64) -> Result<i64, String> {
    let error = || format!("{seconds} is no time in seconds since 1970");
    if !seconds.is_finite() || seconds.abs() > 9.2e9 {
        return Err(error());
    }
    let whole = seconds.floor();
    let fraction_ns = ((seconds - whole) * 1e9).round() as i64;
    (whole as i64)
        .checked_mul(1_000_000_000)
        .and_then(|ns| ns.checked_add(fraction_ns))
        .ok_or_else(error)
}

/// A decimal number of `unit` (ns, µs, ms, s), such as `1736944496.123456789`, as nanoseconds: exact, since
/// the text never becomes a double. Digits below a nanosecond are rounded half away from zero.
///
/// # Errors
/// The text is no plain decimal number, the unit none of time, or the value does not fit.
pub(super) fn decimal_nanos(text: &str, unit: &str) -> Result<i64, String> {
    let error = || format!("\"{}\" is no time in {unit}", text.trim().escape_debug());
    let shift = match unit {
        "s" => 9,
        "ms" => 6,
        "us" | "µs" => 3,
        "ns" => 0,
        _ => return Err(format!("\"{unit}\" is no unit of time; expected s, ms, us or ns")),
    };
    let text = text.trim();
    let (negative, digits) = match text.strip_prefix('-') {
        Some(digits) => (true, digits),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    let numeric = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
    if whole.is_empty() || whole.len() > 19 || !numeric(whole) || !numeric(fraction) {
        return Err(error());
    }
    let mut nanos: i128 = whole.parse().map_err(|_| error())?;
    for place in 0..shift {
        let digit = fraction.as_bytes().get(place).map_or(0, |byte| byte - b'0');
        nanos = nanos * 10 + i128::from(digit);
    }
    if fraction.as_bytes().get(shift).is_some_and(|byte| *byte >= b'5') {
        nanos += 1;
    }
    i64::try_from(if negative { -nanos } else { nanos }).map_err(|_| error())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefixes_differ_by_what_they_say() {
        assert_eq!(energy_j(1.5, "MJ"), Ok(1_500_000.0));
        assert_eq!(energy_j(1.5, "mJ"), Ok(0.0015));
        assert_eq!(energy_j(1.5, "µJ"), Ok(0.000_001_5));
        assert_eq!(energy_j(1.5, "μJ"), energy_j(1.5, "uJ"));
        assert_eq!(energy_j(2.0, "kWh"), Ok(7_200_000.0));
        assert_eq!(energy_j(1.0, "mWh"), Ok(3.6));
        assert_eq!(power_w(412_340.0, "mW"), Ok(412.34));
        assert_eq!(power_w(0.4, "kW"), Ok(400.0));
        assert_eq!(power_w(3e6, "µW"), Ok(3.0));
        assert_eq!(bytes(80.0, "GB"), Ok(80_000_000_000));
        assert_eq!(bytes(80.0, "GiB"), Ok(85_899_345_920));
        assert_eq!(nanos(0.2, "s"), Ok(200_000_000));
        assert_eq!(nanos(32.81, "ms"), Ok(32_810_000));
        assert_eq!(megahertz(1.98, "GHz"), Ok(1980));
    }

    #[test]
    fn an_unknown_unit_is_refused_by_name() {
        insta::assert_snapshot!(
            energy_j(1.0, "mj").unwrap_err(),
            @r#""mj" is no unit of energy; expected one of J, Joules, joules, nJ, uJ, µJ, mJ, kJ, MJ, Wh, kWh, mWh"#
        );
        for refused in [power_w(1.0, ""), power_w(1.0, "w"), energy_j(1.0, "W"), power_w(1.0, "mj")]
        {
            assert!(refused.unwrap_err().contains(" is no unit of "));
        }
        assert_eq!(power_w(f64::NAN, "W").unwrap_err(), "NaN is not a number; expected power in W");
        assert!(
            bytes(-1.0, "B").is_err()
                && duration_ns(-1.0, "s").is_err()
                && nanos(1e30, "s").is_err()
        );
    }

    #[test]
    fn a_cell_is_a_number_and_a_unit() {
        assert_eq!(split_unit(" 412.34 W"), Ok((412.34, "W")));
        assert_eq!(split_unit("412.34W"), Ok((412.34, "W")));
        assert_eq!(split_unit("1.5e3MJ"), Ok((1500.0, "MJ")));
        assert_eq!(split_unit("61"), Ok((61.0, "")));
        assert_eq!(split_unit("98 %"), Ok((98.0, "%")));
        for text in ["", "W", "N/A", "inf", "NaN W", "12 34x5 W", "é"] {
            let split = split_unit(text);
            assert!(split.is_err() || text.starts_with("12 "), "{text}: {split:?}");
        }
    }

    #[test]
    fn absent_is_never_zero() {
        for text in [
            "",
            " ",
            "[N/A]",
            "N/A",
            "[Not Supported]",
            "[Unknown Error]",
            "-",
            "N/A (Secondary die)",
        ] {
            assert!(is_absent(text), "{text}");
        }
        assert!(!is_absent("0") && !is_absent("0 W") && !is_absent("NAN-1"));
    }

    #[test]
    fn times_from_text_are_exact_and_from_doubles_as_exact_as_those() {
        assert_eq!(decimal_nanos("1736944496.123456789", "s"), Ok(1_736_944_496_123_456_789));
        assert_eq!(decimal_nanos("1736944496123.4567895", "ms"), Ok(1_736_944_496_123_456_790));
        assert_eq!(decimal_nanos("-0.5", "s"), Ok(-500_000_000));
        assert_eq!(decimal_nanos("12", "ns"), Ok(12));
        for text in ["", ".", "1e9", "0x1", "99999999999999999999", "1.2.3", "-"] {
            assert!(decimal_nanos(text, "s").is_err(), "{text}");
        }
        // 1736944496.25 is exact in binary.
        assert_eq!(epoch_seconds(1_736_944_496.25), Ok(1_736_944_496_250_000_000));
        assert_eq!(epoch_seconds(-0.25), Ok(-250_000_000));
        assert!(epoch_seconds(f64::NAN).is_err() && epoch_seconds(1e12).is_err());
    }
}
