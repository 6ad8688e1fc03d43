//! The lengths of values: log-uniform between a least and a largest one.

use std::fmt;
use std::str::FromStr;

/// The lengths of values, log-uniform: each doubling of the least length is equally likely, and so is each
/// length within a doubling. Of lengths from 20 to 2,000 bytes, for example, as many are from 20 to 39 as
/// from 40 to 79, and as from 1,280 to 2,000.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lengths {
    least: u32,
    most: u32,
}

/// Largest length of a value in bytes, because a length takes two bytes.
const MOST: u32 = u16::MAX as u32;

impl Lengths {
    /// Lengths that are all equal.
    pub fn of_one(bytes: u8) -> Lengths {
        Lengths { least: bytes.into(), most: bytes.into() }
    }

    /// The shortest and the longest length, in bytes.
    pub fn ends(self) -> (u32, u32) {
        (self.least, self.most)
    }

    /// The longest length, in bytes.
    pub fn most(self) -> usize {
        self.most as usize
    }

    /// The mean length, in bytes.
    pub fn mean(self) -> usize {
        let sum: u32 =
            (0..self.doublings()).map(|number| self.doubling(number)).map(|(l, h)| (l + h) / 2).sum();
        (sum / self.doublings()) as usize
    }

    /// The length that follows from a random number.
    pub(crate) fn drawn(self, random: u64) -> usize {
        let (low, high) = self.doubling((random % u64::from(self.doublings())) as u32);
        low as usize + ((random >> 8) % u64::from(high - low + 1)) as usize
    }

    fn doublings(self) -> u32 {
        // Two lengths that do not differ by a factor of two are of one doubling.
        self.most.checked_div(self.least).map_or(1, |times| times.max(1).ilog2() + 1)
    }

    fn doubling(self, number: u32) -> (u32, u32) {
        let is_last = number + 1 == self.doublings();
        let high = if is_last { self.most } else { (self.least << (number + 1)) - 1 };
        (self.least << number, high)
    }
}

impl fmt::Display for Lengths {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}..{}", self.least, self.most)
    }
}

impl FromStr for Lengths {
    type Err = String;

    fn from_str(text: &str) -> Result<Lengths, String> {
        let ends = text.split_once("..").and_then(|(low, high)| low.parse().ok().zip(high.parse().ok()));
        match ends {
            Some((least, most)) if least <= most && most <= MOST => Ok(Lengths { least, most }),
            _ => Err(format!("is not LEAST..MOST, such as 20..2000, up to {MOST}")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_doubling_is_as_likely_as_any_other() {
        let lengths: Lengths = "20..2000".parse().unwrap();
        let drawn: Vec<usize> = (0..7000u64).map(|n| lengths.drawn(nandex::rng::split_mix(n))).collect();
        for number in 0..7 {
            let (low, high) = lengths.doubling(number);
            let within =
                drawn.iter().filter(|&&bytes| (low as usize..=high as usize).contains(&bytes)).count();
            assert!((850..1150).contains(&within), "{low} to {high}: {within}");
        }
        assert!(drawn.iter().all(|bytes| (20..=2000).contains(bytes)));
        let mean = drawn.iter().sum::<usize>() / drawn.len();
        assert!(mean.abs_diff(lengths.mean()) < 20, "{mean} {}", lengths.mean());
    }

    #[test]
    fn lengths_are_read_as_they_are_written() {
        for text in ["20..2000", "0..0", "8..8", "0..9", "7..13"] {
            let lengths: Lengths = text.parse().unwrap();
            assert_eq!(lengths.to_string(), text);
            assert!((0..100).all(|n| lengths.drawn(n * 0x101) <= lengths.most()), "{text}");
        }
        for text in ["20", "9..8", "1..70000", "-1..5", "a..b"] {
            assert!(text.parse::<Lengths>().unwrap_err().contains("20..2000"), "{text}");
        }
        assert_eq!(Lengths::of_one(8).drawn(12345), 8);
    }
}
