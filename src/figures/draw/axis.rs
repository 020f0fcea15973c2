//! Axes: where a value lies, and which values are labelled.

/// How an axis maps values to places.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Scale {
    Linear,
    Logarithmic,
}

/// A labelled place of an axis.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Tick {
    pub(crate) value: f64,
    pub(crate) label: String,
}

/// An axis from `low` to `high`, with its ticks inside.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Axis {
    pub(crate) title: String,
    pub(crate) scale: Scale,
    pub(crate) low: f64,
    pub(crate) high: f64,
    pub(crate) ticks: Vec<Tick>,
}

/// Smallest and largest of some finite values; `None` of none.
pub(crate) fn range(values: impl IntoIterator<Item = f64>) -> Option<(f64, f64)> {
    values.into_iter().fold(None, |range, value| match range {
        None => Some((value, value)),
        Some((low, high)) => Some((low.min(value), high.max(value))),
    })
}

impl Axis {
    /// A linear axis that ends on ticks, about `ticks` of them. `unit` stands in the title.
    pub(crate) fn linear(quantity: &str, unit: &str, (low, high): (f64, f64), ticks: u32) -> Self {
        let (low, high) = opened(low, high);
        let step = nice_step((high - low) / f64::from(ticks));
        let (first, last) = ((low / step + 1e-9).floor(), (high / step - 1e-9).ceil());
        Self::steps(quantity, unit, step, (first, last), (first * step, last * step))
    }

    /// A linear axis that ends where the values end, with ticks inside.
    pub(crate) fn tight(quantity: &str, unit: &str, (low, high): (f64, f64), ticks: u32) -> Self {
        let (low, high) = opened(low, high);
        let step = nice_step((high - low) / f64::from(ticks));
        let (first, last) = ((low / step - 1e-9).ceil(), (high / step + 1e-9).floor());
        Self::steps(quantity, unit, step, (first, last), (low, high))
    }

    /// Ticks at `first`·step, … `last`·step. Values of six digits and more, or below a hundredth, are
    /// counted in powers of a thousand, which the title names.
    fn steps(
        quantity: &str,
        unit: &str,
        step: f64,
        (first, last): (f64, f64),
        (low, high): (f64, f64),
    ) -> Self {
        let largest = low.abs().max(high.abs());
        let thousands =
            if (1e-2..1e5).contains(&largest) { 0 } else { (largest.log10() / 3.0).floor() as i32 };
        let factor = 1000_f64.powi(thousands);
        let decimals = decimals(step / factor);
        let count = (last - first).round().max(0.0) as u32;
        let ticks = (0..=count)
            .map(|index| {
                let value = (first + f64::from(index)) * step;
                Tick { value, label: fixed(value / factor, decimals) }
            })
            .collect();
        let power = if thousands == 0 {
            String::new()
        } else {
            format!("10{} ", superscript(3 * thousands))
        };
        let title = titled(quantity, &format!("{power}{unit}"));
        Self { title, scale: Scale::Linear, low, high, ticks }
    }

    /// A logarithmic axis around positive values: decades, and 2 and 5 between them where there is room
    /// for about `ticks`.
    pub(crate) fn logarithmic(
        quantity: &str,
        unit: &str,
        (low, high): (f64, f64),
        ticks: u32,
    ) -> Self {
        let (low, high) = (low.log10(), high.log10());
        let pad = (0.04 * (high - low)).max(0.02);
        let (low, high) = (10_f64.powf(low - pad), 10_f64.powf(high + pad));
        let values = logarithmic_ticks(low, high, ticks);
        let ticks = values.into_iter().map(|value| Tick { value, label: number(value) }).collect();
        Self { title: titled(quantity, unit), scale: Scale::Logarithmic, low, high, ticks }
    }

    /// A logarithmic axis around positive values with ticks at powers of two.
    pub(crate) fn powers_of_two(
        quantity: &str,
        unit: &str,
        (low, high): (f64, f64),
        ticks: u32,
    ) -> Self {
        let (first, last) = ((low.log2() + 1e-9).floor(), (high.log2() - 1e-9).ceil());
        let last = last.max(first + 1.0);
        let pad = 0.04 * (last - first);
        let every = ((last - first) / f64::from(ticks)).ceil().max(1.0);
        let count = ((last - first) / every).floor() as u32;
        let ticks = (0..=count)
            .map(|index| {
                let value = (first + f64::from(index) * every).exp2();
                Tick { value, label: number(value) }
            })
            .collect();
        let (low, high) = ((first - pad).exp2(), (last + pad).exp2());
        Self { title: titled(quantity, unit), scale: Scale::Logarithmic, low, high, ticks }
    }

    /// Linear, or logarithmic where the positive values span more than a factor of `factor`.
    pub(crate) fn either(
        quantity: &str,
        unit: &str,
        range: (f64, f64),
        ticks: u32,
        factor: f64,
    ) -> Self {
        if range.0 > 0.0 && range.1 / range.0 > factor {
            Self::logarithmic(quantity, unit, range, ticks)
        } else {
            Self::linear(quantity, unit, range, ticks)
        }
    }

    /// A linear axis with room beyond both ends, so that no marker lies on the frame. The ticks stay.
    pub(crate) fn padded(mut self) -> Self {
        const SHARE: f64 = 0.025;
        let pad = SHARE * (self.high - self.low);
        self.low -= pad;
        self.high += pad;
        self
    }

    /// How far `value` lies along the axis, 0 to 1.
    pub(crate) fn share(&self, value: f64) -> f64 {
        match self.scale {
            Scale::Linear => (value - self.low) / (self.high - self.low),
            Scale::Logarithmic => (value / self.low).ln() / (self.high / self.low).ln(),
        }
    }

    /// `value`, or the nearest end of the axis.
    pub(crate) const fn clamp(&self, value: f64) -> f64 {
        value.clamp(self.low, self.high)
    }
}

/// Quantity and unit as an axis says them.
fn titled(quantity: &str, unit: &str) -> String {
    let unit = unit.trim();
    if unit.is_empty() { quantity.to_owned() } else { format!("{quantity} ({unit})") }
}

/// A range with a length, since an axis needs one.
fn opened(low: f64, high: f64) -> (f64, f64) {
    let smallest = low.abs().max(high.abs()) * 1e-6;
    if high - low > smallest {
        return (low, high);
    }
    let pad = if low == 0.0 && high == 0.0 { 0.5 } else { 0.05 * low.abs().max(high.abs()) };
    (low - pad, high + pad)
}

/// The smallest of 1, 2, 5 times a power of ten that is no smaller than `rough`.
fn nice_step(rough: f64) -> f64 {
    let power = 10_f64.powf(rough.log10().floor());
    let nice = [1.0, 2.0, 5.0].into_iter().find(|nice| nice * power >= rough * (1.0 - 1e-9));
    nice.unwrap_or(10.0) * power
}

fn logarithmic_ticks(low: f64, high: f64, ticks: u32) -> Vec<f64> {
    let within = |value: &f64| *value >= low * (1.0 - 1e-12) && *value <= high * (1.0 + 1e-12);
    let decades = low.log10().floor() as i32..=high.log10().ceil() as i32;
    let of = |multiples: &[f64]| -> Vec<f64> {
        decades
            .clone()
            .flat_map(|decade| {
                multiples.iter().map(move |multiple| power_of_ten(*multiple, decade))
            })
            .filter(within)
            .collect()
    };
    let most = ticks as usize;
    for multiples in [&[1.0, 2.0, 5.0][..], &[1.0, 3.0], &[1.0]] {
        let found = of(multiples);
        if found.len() > most {
            continue;
        }
        // Less than half a decade: the nice steps of a linear axis tell more.
        return if found.len() >= 3 || multiples.len() < 3 {
            found
        } else {
            linear_ticks(low, high, ticks)
        };
    }
    let found = of(&[1.0]);
    let every = found.len().div_ceil(most.max(1));
    found.into_iter().step_by(every).collect()
}

fn linear_ticks(low: f64, high: f64, ticks: u32) -> Vec<f64> {
    let step = nice_step((high - low) / f64::from(ticks));
    let (first, last) = ((low / step).ceil(), (high / step).floor());
    let count = (last - first).round().max(0.0) as u32;
    (0..=count).map(|index| rounded((first + f64::from(index)) * step)).collect()
}

/// `multiple`·10^`decade`, as exact as a float can be.
fn power_of_ten(multiple: f64, decade: i32) -> f64 {
    if decade < 0 { multiple / 10_f64.powi(-decade) } else { multiple * 10_f64.powi(decade) }
}

/// The value without the last bits that a product of a step has gathered.
fn rounded(value: f64) -> f64 {
    format!("{value:.12e}").parse().unwrap_or(value)
}

/// Decimals that tell multiples of `step` apart.
fn decimals(step: f64) -> usize {
    (-step.log10() - 1e-9).ceil().max(0.0) as usize
}

/// A number with a true minus sign.
fn fixed(value: f64, decimals: usize) -> String {
    let text = format!("{value:.decimals$}");
    let zero = text.chars().all(|letter| matches!(letter, '-' | '0' | '.'));
    let text = if zero { text.replace('-', "") } else { text };
    text.replace('-', "−")
}

/// A number of up to three significant digits as a label: plain where that is short, else with a power
/// of ten.
pub(crate) fn number(value: f64) -> String {
    significant(value, trimmed)
}

/// A measured value with three significant digits, zeros at the end included, so that values listed
/// together are equally precise. Whole numbers of four and five digits are written out.
pub(crate) fn measured(value: f64) -> String {
    significant(value, |text| text)
}

/// A number of three significant digits whose fraction goes through `fraction`.
fn significant(value: f64, fraction: fn(&str) -> &str) -> String {
    if value == 0.0 {
        return "0".to_owned();
    }
    // Rounded first, so that 999.9 becomes 1000 and is written as such.
    let text = format!("{value:.2e}");
    let (digits, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if (-3..=4).contains(&exponent) {
        let decimals = (2 - exponent).max(0) as usize;
        let whole = value.abs() >= 1000.0 && value.fract() == 0.0;
        let text =
            if whole { fixed(value, 0) } else { fixed(text.parse().unwrap_or(value), decimals) };
        return fraction(&text).to_owned();
    }
    let digits = fraction(digits).replace('-', "−");
    let power = format!("10{}", superscript(exponent));
    if digits == "1" { power } else { format!("{digits}×{power}") }
}

/// Without zeros at the end of a fraction.
fn trimmed(text: &str) -> &str {
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.') } else { text }
}

fn superscript(exponent: i32) -> String {
    const DIGITS: [char; 10] = ['⁰', '¹', '²', '³', '⁴', '⁵', '⁶', '⁷', '⁸', '⁹'];
    let digit = |letter: char| letter.to_digit(10).map_or('⁻', |digit| DIGITS[digit as usize]);
    exponent.to_string().chars().map(digit).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn labels(axis: &Axis) -> Vec<&str> {
        axis.ticks.iter().map(|tick| tick.label.as_str()).collect()
    }

    #[test]
    fn linear_axes_end_on_nice_ticks() {
        let axis = Axis::linear("Power", "W", (0.0, 731.0), 5);
        assert_eq!(labels(&axis), ["0", "200", "400", "600", "800"]);
        assert_eq!((axis.title.as_str(), axis.low, axis.high), ("Power (W)", 0.0, 800.0));
        assert_eq!(axis.share(400.0), 0.5);
        let axis = Axis::linear("Error", "%", (-0.31, 0.12), 4);
        assert_eq!(labels(&axis), ["−0.4", "−0.2", "0.0", "0.2"]);
    }

    #[test]
    fn large_and_small_values_are_counted_in_powers_of_a_thousand() {
        let axis = Axis::linear("Power", "W", (0.0, 2.4e6), 3);
        assert_eq!(labels(&axis), ["0", "1", "2", "3"]);
        assert_eq!(axis.title, "Power (10⁶ W)");
        let axis = Axis::linear("Energy", "J/token", (0.0, 0.0021), 3);
        assert_eq!(axis.title, "Energy (10⁻³ J/token)");
    }

    #[test]
    fn logarithmic_axes_take_what_fits() {
        assert_eq!(
            labels(&Axis::logarithmic("N", "", (1.0, 1e4), 6)),
            ["1", "10", "100", "1000", "10000"]
        );
        assert_eq!(
            labels(&Axis::logarithmic("N", "", (1.0, 60.0), 7)),
            ["1", "2", "5", "10", "20", "50"]
        );
        assert_eq!(
            labels(&Axis::logarithmic("N", "", (1.0, 1e12), 5)),
            ["1", "1000", "10⁶", "10⁹", "10¹²"]
        );
        assert_eq!(labels(&Axis::logarithmic("N", "", (0.41, 0.52), 4)), ["0.4", "0.45", "0.5"]);
    }

    #[test]
    fn batches_are_powers_of_two() {
        assert_eq!(
            labels(&Axis::powers_of_two("B", "", (4.0, 64.0), 6)),
            ["4", "8", "16", "32", "64"]
        );
        assert_eq!(labels(&Axis::powers_of_two("B", "", (8.0, 8.0), 6)), ["8", "16"]);
        assert_eq!(
            labels(&Axis::powers_of_two("B", "", (1.0, 4096.0), 4)),
            ["1", "8", "64", "512", "4096"]
        );
    }

    #[test]
    fn numbers_are_short() {
        let cases = [
            (0.272, "0.272"),
            (1234.0, "1234"),
            (999.96, "1000"),
            (0.05, "0.05"),
            (1e5, "10⁵"),
            (2.5e-5, "2.5×10⁻⁵"),
            (-3.0, "−3"),
            (12.0, "12"),
            (0.0, "0"),
            (32768.0, "32768"),
        ];
        for (value, text) in cases {
            assert_eq!(number(value), text);
        }
    }

    #[test]
    fn measured_values_keep_three_digits() {
        let cases = [
            (0.15, "0.150"),
            (0.301, "0.301"),
            (0.25961, "0.260"),
            (2.0, "2.00"),
            (12.0, "12.0"),
            (999.96, "1000"),
            (3.2e5, "3.20×10⁵"),
            (1e-7, "1.00×10⁻⁷"),
            (-0.5, "−0.500"),
            (0.0, "0"),
        ];
        for (value, text) in cases {
            assert_eq!(measured(value), text);
        }
    }

    #[test]
    fn padding_leaves_room_at_both_ends_and_no_new_tick() {
        let axis = Axis::tight("Length", "tokens", (0.0, 1000.0), 5).padded();
        assert_eq!(labels(&axis), ["0", "200", "400", "600", "800", "1000"]);
        assert_eq!((axis.low, axis.high), (-25.0, 1025.0));
    }

    proptest! {
        #[test]
        fn any_range_has_ticks_inside(low in -1e12_f64..1e12, length in 0.0_f64..1e12, ticks in 3_u32..8) {
            let axis = Axis::linear("q", "u", (low, low + length), ticks);
            prop_assert!(axis.low <= low && axis.high >= low + length);
            prop_assert!(axis.ticks.len() >= 2 && axis.ticks.len() <= 2 * ticks as usize + 2);
            for tick in &axis.ticks {
                prop_assert!((-1e-6..=1.0 + 1e-6).contains(&axis.share(tick.value)));
            }
        }

        #[test]
        fn any_logarithmic_range_has_a_tick(low in -9.0_f64..9.0, decades in 0.0_f64..15.0, ticks in 3_u32..8) {
            let (low, high) = (10_f64.powf(low), 10_f64.powf(low + decades));
            let axis = Axis::logarithmic("q", "u", (low, high), ticks);
            prop_assert!(!axis.ticks.is_empty());
            for tick in &axis.ticks {
                prop_assert!((-1e-6..=1.0 + 1e-6).contains(&axis.share(tick.value)));
            }
        }
    }
}
