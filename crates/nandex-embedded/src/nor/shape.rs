//! The pages of a NOR part, which are ours to cut.

/// How pages lie in the erase units of a NOR part.
///
/// ```
/// use nandex_embedded::Shape;
///
/// let internal = Shape::new(448, 64);                           // each word is written once
/// let serial = Shape::new(448, 64).with_overwrites(true);       // W25Q: bits are cleared at any time
/// assert!(serial.overwrites && !internal.overwrites);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Shape {
    /// Bytes of a page's data area.
    pub page_bytes: u32,
    /// Bytes of the spare area: 16 for an FTL. An index whose chip has too few names the number that it
    /// needs.
    pub spare_bytes: u32,
    /// True if the part clears bits of written words, any number of times between two erases, as serial NOR
    /// does. The flash of a microcontroller mostly does not: it has an ECC, or allows two writes of a word.
    pub overwrites: bool,
}

impl Shape {
    /// Pages of these bytes, on a part whose words are written once between two erases.
    pub const fn new(page_bytes: u32, spare_bytes: u32) -> Shape {
        Shape { page_bytes, spare_bytes, overwrites: false }
    }

    /// This on a part that clears bits of written words, or does not.
    #[must_use]
    pub const fn with_overwrites(mut self, overwrites: bool) -> Shape {
        self.overwrites = overwrites;
        self
    }
}
