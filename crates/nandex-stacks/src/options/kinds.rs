//! Kinds of options: a whole number within bounds, or one of several words. An option's name, default,
//! meaning and bounds are stated only where it is declared.

use super::{OptionError, Options, whole_number};
use crate::names::{OptionInfo, option};
use std::ops::RangeInclusive;

/// An integer type for options. A number that does not fit is refused, never wrapped.
pub(crate) trait Whole: Copy {
    fn widen(self) -> u64;

    fn narrow(wide: u64) -> Option<Self>;
}

macro_rules! whole {
    ($($int:ty),*) => {$(
        impl Whole for $int {
            fn widen(self) -> u64 {
                u64::try_from(self).unwrap_or(u64::MAX)
            }

            fn narrow(wide: u64) -> Option<$int> {
                wide.try_into().ok()
            }
        }
    )*};
}

whole!(u8, u16, u32, u64, usize);

/// An option that is a whole number between bounds that hold on any chip and store.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Number<T> {
    pub(crate) info: OptionInfo,
    least: T,
    most: T,
}

impl<T: Whole> Number<T> {
    pub(crate) const fn new(info: OptionInfo, (least, most): (T, T)) -> Number<T> {
        Number { info, least, most }
    }

    /// The number; `None` if the option is not set.
    pub(crate) fn of(&self, options: &Options) -> Result<Option<T>, OptionError> {
        self.within(options, self.least..=self.most)
    }

    pub(crate) fn or(&self, options: &Options, default: T) -> Result<T, OptionError> {
        Ok(self.of(options)?.unwrap_or(default))
    }

    /// The number, which must not exceed the `most` that chip or store allow; `None` if the option is not
    /// set.
    pub(crate) fn up_to(&self, options: &Options, most: T) -> Result<Option<T>, OptionError> {
        self.within(options, self.least..=most)
    }

    fn within(&self, options: &Options, possible: RangeInclusive<T>) -> Result<Option<T>, OptionError> {
        let Some(text) = options.text(self.info.name) else { return Ok(None) };
        let (least, most) = (possible.start().widen(), possible.end().widen());
        let refuse = |why| OptionError::new(self.info.name, text, why);
        let number = whole_number(text, least..=most).map_err(refuse)?;
        // Bounds in T hold no number that is none of T.
        Ok(T::narrow(number))
    }
}

/// An option that is a share in percent, such as 12.5, from 0 to a bound.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Percent {
    pub(crate) info: OptionInfo,
    most: f64,
}

impl Percent {
    pub(crate) const fn new(info: OptionInfo, most: f64) -> Percent {
        Percent { info, most }
    }

    /// The share in parts per million.
    pub(crate) fn ppm_or(&self, options: &Options, default_ppm: u32) -> Result<u32, OptionError> {
        let Some(text) = options.text(self.info.name) else { return Ok(default_ppm) };
        match text.parse::<f64>() {
            Ok(percent) if (0.0..=self.most).contains(&percent) => Ok((percent * 10_000.0).round() as u32),
            _ => {
                let why = format!("is no percentage from 0 to {}", self.most);
                Err(OptionError::new(self.info.name, text, why))
            }
        }
    }
}

/// An option that takes one of several words, each of which has a value.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Choice<T: 'static> {
    pub(crate) info: OptionInfo,
    words: &'static [(&'static str, T)],
}

impl<T: Copy> Choice<T> {
    /// Makes a choice; the first word is the default.
    pub(crate) const fn new(
        name: &'static str,
        help: &'static str,
        words: &'static [(&'static str, T)],
    ) -> Choice<T> {
        Choice { info: option(name, words[0].0, help), words }
    }

    /// Makes a choice whose default is described in `info`.
    pub(crate) const fn described(info: OptionInfo, words: &'static [(&'static str, T)]) -> Choice<T> {
        Choice { info, words }
    }

    /// The value of the word that is set, or of the first word.
    pub(crate) fn of(&self, options: &Options) -> Result<T, OptionError> {
        Ok(self.set(options)?.unwrap_or(self.words[0].1))
    }

    /// The value of the word that is set; `None` if the option is not set.
    pub(crate) fn set(&self, options: &Options) -> Result<Option<T>, OptionError> {
        let Some(text) = options.text(self.info.name) else { return Ok(None) };
        if let Some((_, value)) = self.words.iter().find(|(word, _)| *word == text) {
            return Ok(Some(*value));
        }
        let words: Vec<&str> = self.words.iter().map(|(word, _)| *word).collect();
        Err(OptionError::new(self.info.name, text, format!("is none of {}", words.join(", "))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const COUNT: Number<u8> = Number::new(option("count", "7", "how many"), (2, 200));
    const COLOUR: Choice<u32> = Choice::new("colour", "which", &[("red", 1), ("blue", 2)]);

    fn told<T: std::fmt::Debug>(result: Result<T, OptionError>) -> String {
        result.unwrap_err().to_string()
    }

    #[test]
    fn numbers_that_do_not_fit_are_refused_with_their_bounds() {
        let mut options = Options::default();
        assert_eq!((COUNT.of(&options), COUNT.or(&options, 7)), (Ok(None), Ok(7)));
        options.set("count", "1_0");
        assert_eq!(COUNT.of(&options), Ok(Some(10)));
        assert_eq!(told(COUNT.up_to(&options, 9)), "option count: '1_0' is not between 2 and 9");
        // Ten, were it cut to eight, or to 32 bits.
        for wide in ["266", "4294967306", "18446744073709551626"] {
            options.set("count", wide);
            assert_eq!(told(COUNT.of(&options)), format!("option count: '{wide}' is not between 2 and 200"));
        }
        options.set("count", "ten");
        assert_eq!(told(COUNT.of(&options)), "option count: 'ten' is no whole number");
    }

    #[test]
    fn the_first_word_is_the_default_and_another_is_refused() {
        let mut options = Options::default();
        assert_eq!(
            (COLOUR.info.default, COLOUR.of(&options), COLOUR.set(&options)),
            ("red", Ok(1), Ok(None))
        );
        options.set("colour", "blue");
        assert_eq!(COLOUR.of(&options), Ok(2));
        options.set("colour", "green");
        assert_eq!(told(COLOUR.of(&options)), "option colour: 'green' is none of red, blue");
    }
}
