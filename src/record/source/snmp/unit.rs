//! What one count of an object is.

use std::fmt;

/// What an object counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Quantity {
    /// Power, W.
    Power,
    /// Energy since some time, J.
    Energy,
}

impl fmt::Display for Quantity {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Power => "power",
            Self::Energy => "energy",
        })
    }
}

/// Units by their symbol, with W or J in one of them.
const UNITS: [(&str, Quantity, f64); 8] = [
    ("mW", Quantity::Power, 1e-3),
    ("W", Quantity::Power, 1.0),
    ("kW", Quantity::Power, 1e3),
    ("J", Quantity::Energy, 1.0),
    ("kJ", Quantity::Energy, 1e3),
    ("MJ", Quantity::Energy, 1e6),
    ("Wh", Quantity::Energy, 3600.0),
    ("kWh", Quantity::Energy, 3.6e6),
];

/// The size of one count, such as `0.01kW`.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct CountUnit {
    pub(super) quantity: Quantity,
    /// How many of the unit one count is.
    number: f64,
    /// W or J in one of the unit.
    factor: f64,
    symbol: &'static str,
}

impl CountUnit {
    /// One watt a count.
    pub(super) const fn watts() -> Self {
        Self { quantity: Quantity::Power, number: 1.0, factor: 1.0, symbol: "W" }
    }

    /// Reads a unit with a number before it, if one count is not one of it.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let start = text.find(|c: char| c.is_ascii_alphabetic()).unwrap_or(text.len());
        let (number, symbol) = text.split_at(start);
        if symbol.eq_ignore_ascii_case("VA") || symbol.eq_ignore_ascii_case("kVA") {
            return Err(format!(
                "\"{text}\" is apparent power, which is more than the power that is drawn; expected an object \
                 of active power"
            ));
        }
        let error = || {
            let symbols = UNITS.map(|(symbol, ..)| symbol).join(", ");
            format!("\"{text}\" is no unit; expected one of {symbols}, or a multiple such as 0.1W")
        };
        let unit = UNITS.iter().find(|(known, ..)| *known == symbol).ok_or_else(error)?;
        let number = match number {
            "" => 1.0,
            number => match number.parse::<f64>() {
                Ok(number) if number > 0.0 && (1e-9..=1e9).contains(&number) => number,
                _ => return Err(error()),
            },
        };
        Ok(Self { quantity: unit.1, number, factor: unit.2, symbol: unit.0 })
    }

    /// So many counts, in W or J.
    pub(super) fn of(&self, counts: f64) -> f64 {
        // Divided by a whole number where it is the inverse of one: 123 times 0.1 is not 12.3.
        let inverse = (1.0 / self.number).round();
        if self.number < 1.0 && 1.0 / inverse == self.number {
            counts * self.factor / inverse
        } else {
            counts * self.factor * self.number
        }
    }

    /// Whether a count is the same, however it is written.
    pub(super) fn is_same(&self, other: &Self) -> bool {
        let size = |unit: &Self| unit.number * unit.factor;
        self.quantity == other.quantity && (size(self) / size(other) - 1.0).abs() < 1e-9
    }
}

impl fmt::Display for CountUnit {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.number == 1.0 {
            formatter.write_str(self.symbol)
        } else {
            write!(formatter, "{}{}", self.number, self.symbol)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_become_watts_and_joules() {
        // 123 counts of 0.01 kW are 1230 W; 7 of 0.1 kWh are 0.7 kWh, 2.52 MJ.
        for (text, counts, expected) in [
            ("W", 180.0, 180.0),
            ("0.1W", 123.0, 12.3),
            ("0.01kW", 123.0, 1230.0),
            ("10W", 613.0, 6130.0),
            ("mW", 1500.0, 1.5),
            ("0.1kWh", 7.0, 2_520_000.0),
            ("Wh", 2.0, 7200.0),
        ] {
            let unit = CountUnit::parse(text).unwrap();
            assert_eq!(unit.of(counts), expected, "{text}");
            assert_eq!(unit.to_string(), text);
        }
    }

    #[test]
    fn the_same_unit_is_known_in_another_form() {
        let unit = |text| CountUnit::parse(text).unwrap();
        assert!(unit("0.01kW").is_same(&unit("10W")));
        assert!(!unit("0.01kW").is_same(&unit("W")));
        assert!(!unit("W").is_same(&unit("J")));
    }

    #[test]
    fn what_is_no_unit_is_said() {
        let messages = ["", "w", "0W", "-1W", "infW", "1e99W", "A", "0.01kVA"]
            .map(|text| CountUnit::parse(text).unwrap_err());
        insta::assert_snapshot!(messages.join("\n"), @r#"
        "" is no unit; expected one of mW, W, kW, J, kJ, MJ, Wh, kWh, or a multiple such as 0.1W
        "w" is no unit; expected one of mW, W, kW, J, kJ, MJ, Wh, kWh, or a multiple such as 0.1W
        "0W" is no unit; expected one of mW, W, kW, J, kJ, MJ, Wh, kWh, or a multiple such as 0.1W
        "-1W" is no unit; expected one of mW, W, kW, J, kJ, MJ, Wh, kWh, or a multiple such as 0.1W
        "infW" is no unit; expected one of mW, W, kW, J, kJ, MJ, Wh, kWh, or a multiple such as 0.1W
        "1e99W" is no unit; expected one of mW, W, kW, J, kJ, MJ, Wh, kWh, or a multiple such as 0.1W
        "A" is no unit; expected one of mW, W, kW, J, kJ, MJ, Wh, kWh, or a multiple such as 0.1W
        "0.01kVA" is apparent power, which is more than the power that is drawn; expected an object of active power
        "#);
    }
}
