//! Which bytes of a page's out-of-band area are free for the user, and how the engine's page is laid into
//! them.

use std::fmt;
use std::str::FromStr;

/// The free bytes of an out-of-band area, in the order in which Linux fills them: runs of offset and length.
/// As text `2+38`, or `2+6,18+6` of several.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SpareLayout {
    runs: Vec<(u32, u32)>,
}

impl SpareLayout {
    /// The layout that Linux gives large pages when it has no other: two bytes for the mark, the free ones,
    /// then the ECC.
    pub fn after_mark(free_bytes: u32) -> SpareLayout {
        SpareLayout { runs: vec![(2, free_bytes)] }
    }

    /// Makes a layout of runs, each an offset and a length. Empty runs are left out. Fails with a message if
    /// two runs overlap.
    pub fn from_runs(runs: &[(u32, u32)]) -> Result<SpareLayout, String> {
        let runs: Vec<(u32, u32)> = runs.iter().copied().filter(|(_, length)| *length > 0).collect();
        let mut sorted = runs.clone();
        sorted.sort_unstable();
        for pair in sorted.windows(2) {
            if u64::from(pair[0].0) + u64::from(pair[0].1) > u64::from(pair[1].0) {
                return Err(format!("the run at {} reaches into the one at {}", pair[0].0, pair[1].0));
            }
        }
        Ok(SpareLayout { runs })
    }

    /// How many bytes are free.
    pub fn free_bytes(&self) -> u32 {
        self.runs.iter().fold(0, |sum: u32, (_, length)| sum.saturating_add(*length))
    }

    /// One more than the last free byte.
    pub fn end(&self) -> u64 {
        self.runs.iter().map(|(offset, length)| u64::from(*offset) + u64::from(*length)).max().unwrap_or(0)
    }

    /// Whether a byte of the area is free.
    pub fn holds(&self, byte: u32) -> bool {
        self.runs.iter().any(|(offset, length)| byte >= *offset && byte - offset < *length)
    }

    /// The indexes of these bytes among the free bytes of an area. Fails with a message if one of them is not
    /// free.
    pub fn within(&self, free: &SpareLayout) -> Result<SpareLayout, String> {
        let row: Vec<usize> = free.places().collect();
        let mut runs: Vec<(u32, u32)> = Vec::new();
        for byte in self.places() {
            let place = row.iter().position(|at| *at == byte);
            let place =
                place.ok_or_else(|| format!("byte {byte} of spare {self} is not free: {free} are"))?;
            match runs.last_mut() {
                Some((offset, length)) if (*offset + *length) as usize == place => *length += 1,
                _ => runs.push((place as u32, 1)),
            }
        }
        Ok(SpareLayout { runs })
    }

    /// The free bytes of an area, as many as `free` takes.
    pub fn gather(&self, oob: &[u8], free: &mut [u8]) {
        for (to, at) in free.iter_mut().zip(self.places()) {
            *to = oob[at];
        }
    }

    /// Puts bytes into the free ones of an area.
    pub fn scatter(&self, free: &[u8], oob: &mut [u8]) {
        for (from, at) in free.iter().zip(self.places()) {
            oob[at] = *from;
        }
    }

    fn places(&self) -> impl Iterator<Item = usize> {
        self.runs.iter().flat_map(|(offset, length)| *offset as usize..(*offset + *length) as usize)
    }
}

impl fmt::Display for SpareLayout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, (offset, length)) in self.runs.iter().enumerate() {
            let comma = if i > 0 { "," } else { "" };
            write!(f, "{comma}{offset}+{length}")?;
        }
        Ok(())
    }
}

impl FromStr for SpareLayout {
    type Err = String;

    fn from_str(text: &str) -> Result<SpareLayout, String> {
        let run = |part: &str| {
            let (offset, length) = part.split_once('+')?;
            let number = |text: &str| text.parse::<u32>().ok().filter(|n| *n <= 65_536);
            Some((number(offset)?, number(length)?))
        };
        let runs: Option<Vec<_>> = text.split(',').map(run).collect();
        let runs = runs.ok_or_else(|| {
            format!("'{text}': give offset+length of the free bytes, such as 2+38 or 2+6,18+6")
        })?;
        SpareLayout::from_runs(&runs)
    }
}

/// The engine's page within a page of a device.
///
/// ```text
/// engine   data | spare: mark, free bytes
/// device   data | free bytes of the out-of-band area
/// ```
///
/// Byte 0 of the engine's spare area is kept nowhere: the mark is the device's own. An index that needs more
/// spare bytes is lent some of the data area ([`nandex::nand::LentSpare`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Packing {
    pub(crate) page_bytes: u32,
    pub(crate) free_bytes: u32,
}

impl Packing {
    pub(crate) fn spare_bytes(&self) -> u32 {
        1 + self.free_bytes
    }

    /// Converts a page of the engine to the bytes of the device: the whole data area and the free bytes.
    /// Bytes not given stay erased.
    pub(crate) fn pack(&self, (data, spare): (&[u8], &[u8]), page: &mut [u8], free: &mut [u8]) {
        page.fill(0xff);
        free.fill(0xff);
        page[..data.len()].copy_from_slice(data);
        let kept = spare.get(1..).unwrap_or_default();
        free[..kept.len()].copy_from_slice(kept);
    }

    /// The way back; buffers may be shorter than the areas.
    pub(crate) fn unpack(&self, (page, free): (&[u8], &[u8]), data: &mut [u8], spare: &mut [u8]) {
        data.copy_from_slice(&page[..data.len()]);
        let Some((mark, kept)) = spare.split_first_mut() else { return };
        *mark = 0xff;
        kept.copy_from_slice(&free[..kept.len()]);
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn a_layout_is_text_and_back() {
        for text in ["2+38", "2+6,18+6,34+6,50+6"] {
            assert_eq!(text.parse::<SpareLayout>().unwrap().to_string(), text);
        }
        let scattered: SpareLayout = "2+2,6+3".parse().unwrap();
        assert_eq!((scattered.free_bytes(), scattered.end()), (5, 9));
        let mut oob = [0xff; 10];
        scattered.scatter(&[1, 2, 3, 4, 5], &mut oob);
        assert_eq!(oob, [0xff, 0xff, 1, 2, 0xff, 0xff, 3, 4, 5, 0xff]);
        let mut free = [0; 4];
        scattered.gather(&oob, &mut free);
        assert_eq!(free, [1, 2, 3, 4]);
        for (text, word) in [("2", "offset+length"), ("2+9,5+1", "reaches into"), ("x+1", "'x+1'")] {
            assert!(text.parse::<SpareLayout>().unwrap_err().contains(word), "{text}");
        }
    }

    #[test]
    fn some_of_the_free_bytes_are_found_in_their_row() {
        let free: SpareLayout = "2+6,18+6,34+6,50+6".parse().unwrap();
        let spi: SpareLayout = "4+4,20+4,36+4,52+4".parse().unwrap();
        assert_eq!(spi.within(&free).unwrap().to_string(), "2+4,8+4,14+4,20+4");
        assert_eq!(free.within(&free).unwrap().to_string(), "0+24");
        let refused = "4+5".parse::<SpareLayout>().unwrap().within(&free).unwrap_err();
        assert_eq!(refused, "byte 8 of spare 4+5 is not free: 2+6,18+6,34+6,50+6 are");
    }

    #[test]
    fn a_page_goes_in_and_comes_out_whole() {
        let packing = Packing { page_bytes: 64, free_bytes: 10 };
        let data: Vec<u8> = (0..64).collect();
        let mut spare: Vec<u8> = (100..111).collect();
        spare[0] = 0xff;
        let (mut page, mut free) = (vec![0; 64], vec![0; 10]);
        packing.pack((&data, &spare), &mut page, &mut free);
        let (mut data_again, mut spare_again) = (vec![0; data.len()], vec![0; spare.len()]);
        packing.unpack((&page, &free), &mut data_again, &mut spare_again);
        assert_eq!((data_again, spare_again), (data, spare));
        // What is left out stays erased.
        packing.pack((&[1], &[]), &mut page, &mut free);
        assert!(page[1..].iter().chain(&free).all(|b| *b == 0xff) && page[0] == 1);
        let mut short = [0; 3];
        packing.unpack((&page, &free), &mut short, &mut []);
        assert_eq!(short, [1, 0xff, 0xff]);
    }
}
