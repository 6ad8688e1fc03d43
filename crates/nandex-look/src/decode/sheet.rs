//! The bytes of a page, read field by field; each field read is noted with its offset and its meaning.

use serde::Serialize;

/// An area of a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Area {
    /// The data area.
    Data,
    /// The spare area.
    Spare,
}

/// A field of a page: its position, name and value.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Field {
    /// The area of the field.
    pub area: Area,
    /// Offset of the field's first byte in its area.
    pub at: usize,
    /// Number of bytes.
    pub bytes: usize,
    /// The name of the field.
    pub name: String,
    /// The value as text.
    pub value: String,
}

/// A page that is being read. A field beyond the end of its area is read as 0 and not noted.
#[derive(Debug)]
pub(super) struct Sheet<'a> {
    pub(super) data: &'a [u8],
    pub(super) spare: &'a [u8],
    pub(super) fields: Vec<Field>,
    /// Whether fields are noted.
    pub(super) detail: bool,
}

impl<'a> Sheet<'a> {
    pub(super) fn new(data: &'a [u8], spare: &'a [u8], detail: bool) -> Sheet<'a> {
        Sheet { data, spare, fields: Vec::new(), detail }
    }

    /// Whether all bytes are as an erase leaves them.
    pub(super) fn is_blank(&self) -> bool {
        self.data.iter().chain(self.spare).all(|&byte| byte == 0xff)
    }

    fn slice(&self, area: Area, at: usize, bytes: usize) -> Option<&'a [u8]> {
        let all = if area == Area::Data { self.data } else { self.spare };
        all.get(at..at.checked_add(bytes)?)
    }

    pub(super) fn note(&mut self, area: Area, (at, bytes): (usize, usize), name: &str, value: String) {
        if self.detail && bytes > 0 && self.slice(area, at, bytes).is_some() {
            self.fields.push(Field { area, at, bytes, name: name.to_string(), value });
        }
    }

    /// Reads a little-endian number of up to eight bytes without noting it.
    pub(super) fn peek(&self, area: Area, at: usize, bytes: usize) -> u64 {
        debug_assert!(bytes <= 8, "a number of {bytes} bytes");
        let slice = self.slice(area, at, bytes).unwrap_or(&[]);
        slice.iter().rev().fold(0, |number, &byte| number << 8 | u64::from(byte))
    }

    /// Reads and notes a little-endian number in the data area.
    pub(super) fn data_number(&mut self, at: usize, bytes: usize, name: &str) -> u64 {
        self.number(Area::Data, (at, bytes), name)
    }

    /// Reads and notes a little-endian number in the spare area.
    pub(super) fn spare_number(&mut self, at: usize, bytes: usize, name: &str) -> u64 {
        self.number(Area::Spare, (at, bytes), name)
    }

    fn number(&mut self, area: Area, (at, bytes): (usize, usize), name: &str) -> u64 {
        let number = self.peek(area, at, bytes);
        let all_ones = bytes >= 3 && number == u64::MAX >> (64 - 8 * bytes);
        self.note(area, (at, bytes), name, if all_ones { "none".into() } else { number.to_string() });
        number
    }

    /// Notes a checksum and whether it is right.
    pub(super) fn checksum(&mut self, area: Area, at: usize, right: bool) {
        let stored = self.peek(area, at, 4);
        let says = if right { "right" } else { "wrong" };
        self.note(area, (at, 4), "CRC-32", format!("{stored:08x}, {says}"));
    }

    pub(super) fn text(&mut self, at: usize, bytes: usize, name: &str) -> String {
        let slice = self.slice(Area::Data, at, bytes).unwrap_or(&[]);
        let text: String =
            slice.iter().map(|&b| if b.is_ascii_graphic() { char::from(b) } else { ' ' }).collect();
        self.note(Area::Data, (at, bytes), name, text.clone());
        text
    }

    /// Reads and notes bytes of a key or value, as a number if there are at most eight.
    pub(super) fn bytes(&mut self, at: usize, bytes: usize, name: &str) -> Vec<u8> {
        let slice = self.slice(Area::Data, at, bytes).unwrap_or(&[]).to_vec();
        if self.detail {
            self.note(Area::Data, (at, bytes), name, number_text(&slice));
        }
        slice
    }
}

/// Bytes as text: up to eight as a big-endian number, more in hexadecimal.
pub fn number_text(bytes: &[u8]) -> String {
    match bytes.len() {
        0 => "-".to_string(),
        1..=8 => bytes.iter().fold(0u64, |number, &byte| number << 8 | u64::from(byte)).to_string(),
        _ => bytes.iter().map(|byte| format!("{byte:02x}")).collect(),
    }
}
