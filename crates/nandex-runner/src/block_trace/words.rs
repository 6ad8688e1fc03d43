//! Parses words of a line as numbers, times and operations; errors name the fault.

use super::{BlockOp, SECTOR_BYTES};

pub(super) fn op(word: &str) -> Result<BlockOp, String> {
    match word.to_ascii_lowercase().as_str() {
        "r" | "rs" | "read" => Ok(BlockOp::Read),
        "w" | "ws" | "write" => Ok(BlockOp::Write),
        "t" | "d" | "trim" | "discard" | "unmap" => Ok(BlockOp::Trim),
        _ => Err(format!("'{word}' is no read, write or trim")),
    }
}

pub(super) fn number(what: &str, word: &str) -> Result<u64, String> {
    word.parse().map_err(|_| format!("{what} '{word}' is no whole number below 2^64"))
}

pub(super) fn sectors(what: &str, word: &str) -> Result<u64, String> {
    let bytes = number(what, word)?.checked_mul(SECTOR_BYTES);
    bytes.ok_or_else(|| format!("{what} '{word}' lies beyond 2^64 bytes"))
}

/// A decimal number of units as nanoseconds, without rounding through a float. Digits below a nanosecond
/// are dropped.
pub(super) fn time(what: &str, word: &str, unit_ns: u64) -> Result<u64, String> {
    let bad = || format!("{what} '{word}' is no time");
    let (whole, fraction) = word.split_once('.').unwrap_or((word, ""));
    if whole.is_empty() || !fraction.bytes().all(|b| b.is_ascii_digit()) {
        return Err(bad());
    }
    let whole: u64 = whole.parse().map_err(|_| bad())?;
    let (mut ns, mut place) = (whole.checked_mul(unit_ns).ok_or_else(bad)?, unit_ns);
    for digit in fraction.bytes() {
        place /= 10;
        ns = ns.checked_add(u64::from(digit - b'0') * place).ok_or_else(bad)?;
    }
    Ok(ns)
}

/// The fields of a line, without blanks around them.
pub(super) fn fields(line: &str) -> Vec<&str> {
    line.split(',').map(str::trim).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_exact() {
        assert_eq!(time("time", "5633898", 1000), Ok(5_633_898_000));
        assert_eq!(time("time", "0.011413", 1_000_000_000), Ok(11_413_000));
        assert_eq!(time("time", "1.0000000019", 1_000_000_000), Ok(1_000_000_001));
        assert!(
            time("time", "-1", 1).is_err() && time("time", "", 1).is_err() && time("time", "1.x", 1).is_err()
        );
        assert!(time("time", "99999999999999999999", 1).is_err());
        assert!(time("time", "18446744073709551615", 10).is_err());
    }

    #[test]
    fn numbers_that_do_not_fit_are_refused() {
        assert_eq!(sectors("sector", "3"), Ok(1536));
        assert!(sectors("sector", "36028797018963968").unwrap_err().contains("beyond 2^64"));
        assert_eq!(number("size", "x").unwrap_err(), "size 'x' is no whole number below 2^64");
        assert_eq!(op("Read"), Ok(BlockOp::Read));
        assert!(op("x").is_err());
    }
}
