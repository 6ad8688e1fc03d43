//! How long NOR takes for the words that it programs.

use super::geometry::{Geometry, PartError};

/// Longest time of a program page, in ns: 1 s.
const PAGE_NS_MAX: u64 = 1_000_000_000;

/// Duration of a program on a part that programs words of [`Geometry::append_bytes`], as data sheets of NOR
/// tell it. Such a program takes the time of the words that it changes, and not that of a whole page.
///
/// ```
/// use nandex::nand::WordTiming;
///
/// // W25Q128JV: 30 us for a byte, 2.5 us for each further one, and 0.4 ms at most for 256 of them.
/// let words = WordTiming::new(30_000, 2_500, 256, 400_000);
/// assert_eq!([1, 24, 256].map(|bytes| words.program_ns(bytes)), [30_000, 87_500, 400_000]);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(not(feature = "unstable"), non_exhaustive)]
pub struct WordTiming {
    /// Time of the first word that is programmed in a program page, in ns.
    pub first_ns: u64,
    /// Time of each further word of the same program page, in ns.
    pub next_ns: u64,
    /// Bytes of a program page: the part takes no more at a time. Counted from the first byte of a page.
    pub page_bytes: u32,
    /// Most time of a program page, in ns.
    pub page_ns: u64,
}

impl WordTiming {
    /// A part with these times.
    pub const fn new(first_ns: u64, next_ns: u64, page_bytes: u32, page_ns: u64) -> WordTiming {
        WordTiming { first_ns, next_ns, page_bytes, page_ns }
    }

    /// A part whose words take the same time each, however many follow each other.
    pub const fn each(word_ns: u64) -> WordTiming {
        WordTiming { first_ns: word_ns, next_ns: word_ns, page_bytes: 1 << 16, page_ns: PAGE_NS_MAX }
    }

    /// Time of so many words of one program page, in ns.
    pub const fn program_ns(&self, words: usize) -> u64 {
        if words == 0 {
            return 0;
        }
        let ns = self.first_ns.saturating_add((words as u64 - 1).saturating_mul(self.next_ns));
        if ns < self.page_ns { ns } else { self.page_ns }
    }

    /// Time of all words of a page and its spare area, in ns; 0 if no chip can have these times.
    pub const fn whole_page_ns(&self, geometry: &Geometry) -> u64 {
        let (mut from, mut ns) = (0, 0u64);
        if self.page_bytes == 0 || !geometry.appends() {
            return 0;
        }
        while from < geometry.raw_page_bytes() {
            let rest = geometry.raw_page_bytes() - from;
            let bytes = if rest < self.page_bytes as usize { rest } else { self.page_bytes as usize };
            ns = ns.saturating_add(self.program_ns(bytes / geometry.append_bytes as usize));
            from += bytes;
        }
        ns
    }

    /// Returns an error if no chip of this geometry can have these times.
    pub(super) fn validate(&self, geometry: &Geometry) -> Result<(), PartError> {
        let fail = |field, reason, value| Err(PartError { field, reason, value });
        if !geometry.appends() {
            return fail("append_bytes", "a chip that programs single words takes appends", 0);
        }
        let page = self.page_bytes;
        if !(1..=1 << 16).contains(&page) || !page.is_multiple_of(geometry.append_bytes.into()) {
            let reason = "a program page has whole words, 65,536 bytes at most";
            return fail("program_page_bytes", reason, page.into());
        }
        let longest = "a program page takes at most 1 s";
        for (field, ns) in [
            ("first_word_ns", self.first_ns),
            ("next_word_ns", self.next_ns),
            ("program_page_ns", self.page_ns),
        ] {
            if ns > PAGE_NS_MAX {
                return fail(field, longest, ns);
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_takes_the_time_of_its_program_pages() {
        let words = WordTiming::new(30_000, 2_500, 256, 400_000);
        let whole = |page, spare| words.whole_page_ns(&Geometry::new(page, spare, 8, 8).with_append_bytes(1));
        assert_eq!((whole(240, 16), whole(448, 64), whole(512, 16)), (400_000, 800_000, 867_500));
        assert_eq!((words.program_ns(0), words.program_ns(2)), (0, 32_500));
        let eight = Geometry::new(448, 64, 4, 8).with_append_bytes(8);
        assert_eq!(WordTiming::each(85_000).whole_page_ns(&eight), 64 * 85_000);
    }

    #[test]
    fn what_cannot_be_is_named() {
        let geometry = Geometry::new(448, 64, 4, 8).with_append_bytes(8);
        let field = |words: WordTiming| words.validate(&geometry).map_err(|error| error.field);
        assert_eq!(field(WordTiming::each(85_000)), Ok(()));
        assert_eq!(field(WordTiming::new(1, 1, 250, 1)), Err("program_page_bytes"));
        assert_eq!(field(WordTiming::new(1, 1, 0, 1)), Err("program_page_bytes"));
        assert_eq!(field(WordTiming::new(u64::MAX, 1, 256, 1)), Err("first_word_ns"));
        assert_eq!(field(WordTiming::new(1, u64::MAX, 256, 1)), Err("next_word_ns"));
        assert_eq!(field(WordTiming::new(1, 1, 256, u64::MAX)), Err("program_page_ns"));
        let extreme = WordTiming::new(u64::MAX, u64::MAX, 256, u64::MAX);
        assert_eq!(extreme.whole_page_ns(&geometry), u64::MAX);
        assert_eq!(WordTiming::new(1, 1, 0, 1).whole_page_ns(&geometry), 0);
        let none = WordTiming::each(1).validate(&geometry.with_append_bytes(0));
        assert_eq!(none.unwrap_err().field, "append_bytes");
    }
}
