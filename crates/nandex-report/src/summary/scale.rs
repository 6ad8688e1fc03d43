//! The unit and the number of decimals of a column, chosen once for all its rows so that they can be compared
//! by eye.

use nandex_lab::stats;

/// The kind of quantity of a figure, with the base unit of its values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Quantity {
    /// A plain number or ratio.
    Number,
    /// A whole number.
    Count,
    /// A time in nanoseconds.
    Time,
    /// A size in bytes.
    Bytes,
    /// An energy in nanojoules.
    Energy,
    /// A share between 0 and 1, shown in percent.
    Share,
}

/// The unit and the decimals with which a column shows its values.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Scale {
    /// The unit; empty for plain numbers.
    pub unit: &'static str,
    /// The divisor of the values in their base unit.
    pub divisor: f64,
    /// Number of digits after the point.
    pub decimals: usize,
}

const TIME: [(&str, f64); 4] = [("ns", 1.0), ("\u{b5}s", 1e3), ("ms", 1e6), ("s", 1e9)];
const BYTES: [(&str, f64); 4] =
    [("B", 1.0), ("KiB", 1024.0), ("MiB", 1024.0 * 1024.0), ("GiB", 1024.0 * 1024.0 * 1024.0)];
const ENERGY: [(&str, f64); 4] = [("nJ", 1.0), ("\u{b5}J", 1e3), ("mJ", 1e6), ("J", 1e9)];

impl Scale {
    /// Chooses the scale that shows all these values well. The unit is the largest in which the geometric
    /// middle is at least one. The decimals suffice for two significant digits of the smallest value, but
    /// are at most four.
    pub fn of(quantity: Quantity, values: impl IntoIterator<Item = f64>) -> Scale {
        let positive: Vec<f64> = values.into_iter().filter(|v| *v > 0.0).collect();
        let low = positive.iter().copied().fold(f64::INFINITY, f64::min);
        let high = positive.iter().copied().fold(0.0, f64::max);
        let (unit, divisor) = match quantity {
            Quantity::Number | Quantity::Count => ("", 1.0),
            Quantity::Share => ("%", 0.01),
            Quantity::Time => largest(&TIME, low, high),
            Quantity::Bytes => largest(&BYTES, low, high),
            Quantity::Energy => largest(&ENERGY, low, high),
        };
        let decimals = match quantity {
            Quantity::Count => 0,
            _ if positive.is_empty() => 0,
            Quantity::Bytes if positive.iter().all(|v| v % divisor == 0.0) => 0,
            Quantity::Bytes => decimals_for(low / divisor).min(1),
            Quantity::Share => decimals_for(low / divisor).min(1),
            _ => decimals_for(low / divisor),
        };
        Scale { unit, divisor, decimals }
    }

    /// The scale for a single value.
    pub fn one(quantity: Quantity, value: f64) -> Scale {
        Scale::of(quantity, [value])
    }

    /// The value in this scale without the unit.
    pub fn number(&self, value: f64) -> String {
        if value == 0.0 {
            return "0".to_string();
        }
        grouped(&format!("{:.*}", self.decimals, value / self.divisor))
    }

    /// The value in this scale with the unit.
    pub fn with_unit(&self, value: f64) -> String {
        let number = self.number(value);
        match self.unit {
            "" => number,
            "%" => format!("{number}%"),
            unit => format!("{number} {unit}"),
        }
    }
}

impl Scale {
    /// A mean with its unit; with several seeds also with its interval and range.
    pub fn over_seeds(&self, value: &stats::Summary) -> String {
        let mean = self.with_unit(value.mean);
        match value.ci95 {
            Some(half) => {
                let (min, max) = (self.number(value.min), self.number(value.max));
                format!("{mean} \u{b1} {} ({min} to {max}, {} seeds)", self.number(half), value.count)
            }
            None => mean,
        }
    }
}

/// A single value with its unit, such as `1.55 ms`.
pub fn show(quantity: Quantity, value: f64) -> String {
    Scale::one(quantity, value).with_unit(value)
}

/// A whole number with commas between thousands, such as `1,000,000`.
pub fn show_count(value: u64) -> String {
    grouped(&value.to_string())
}

fn largest(units: &[(&'static str, f64)], low: f64, high: f64) -> (&'static str, f64) {
    if high <= 0.0 {
        return units[0];
    }
    let middle = (low * high).sqrt();
    units.iter().rev().copied().find(|(_, divisor)| middle >= *divisor).unwrap_or(units[0])
}

fn decimals_for(smallest: f64) -> usize {
    match smallest {
        s if s >= 100.0 => 0,
        s if s >= 10.0 => 1,
        s if s >= 0.1 => 2,
        s if s >= 0.01 => 3,
        _ => 4,
    }
}

/// Puts commas between groups of three digits before the point if there are five digits or more.
fn grouped(number: &str) -> String {
    let (sign, digits) = number.strip_prefix('-').map_or(("", number), |d| ("-", d));
    let (whole, fraction) = digits.split_at(digits.find('.').unwrap_or(digits.len()));
    if whole.len() < 5 {
        return number.to_string();
    }
    let mut out = String::from(sign);
    for (i, digit) in whole.chars().enumerate() {
        if i > 0 && (whole.len() - i).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out + fraction
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_column_takes_one_unit_and_one_precision() {
        let scale = Scale::of(Quantity::Time, [496_800.0, 4_190_000.0]);
        assert_eq!((scale.unit, scale.decimals), ("ms", 2));
        assert_eq!(scale.number(496_800.0), "0.50");
        assert_eq!(scale.number(4_190_000.0), "4.19");
    }

    #[test]
    fn small_figures_keep_two_digits() {
        assert_eq!(Scale::of(Quantity::Number, [0.0281, 3.0]).number(0.0281), "0.028");
        assert_eq!(Scale::of(Quantity::Number, [0.0]).number(0.0), "0");
        assert_eq!(Scale::of(Quantity::Number, [0.0, 0.003]).number(0.0), "0");
    }

    #[test]
    fn values_alone_carry_their_unit() {
        assert_eq!(show(Quantity::Time, 1_550_000.0), "1.55 ms");
        assert_eq!(show(Quantity::Bytes, 8192.0), "8 KiB");
        assert_eq!(show(Quantity::Bytes, 8704.0), "8.5 KiB");
        assert_eq!(show(Quantity::Share, 0.931), "93.1%");
        assert_eq!(show_count(1_000_000), "1,000,000");
        assert_eq!(show_count(9999), "9999");
    }
}
