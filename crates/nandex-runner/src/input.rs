//! Foreign files, read within limits. A file that never ends, unpacks without end or has endless lines is
//! refused by name.
//!
//! Only regular files are read. A pipe, a terminal or a device may never end or never begin, and a trace is
//! read twice: for its format and for its contents.
//!
//! Texts of every system are read alike ([`Plain`]): [`Lines`], [`BoundedLines`] and [`text`] stand on it.

use crate::error::LabError;
use crate::machine;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;

const ZSTD_MAGIC: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];

/// The byte order mark that editors of Windows put before a text in UTF-8.
const UTF8_MARK: [u8; 3] = [0xef, 0xbb, 0xbf];

/// Longest accepted line of a text, in bytes.
pub const LINE_BYTES_MAX: u64 = 64 << 10;

/// Bytes that a packed file of any size may unpack to.
const UNPACKED_BYTES: u64 = 1 << 30;

/// Factor by which a packed file may grow when that is more than [`UNPACKED_BYTES`]. Packed traces have
/// about a fiftieth of their size as text and a thousandth at most as numbers.
const UNPACKED_TIMES: u64 = 1000;

/// Opens a file, and unpacks it if it begins with the magic number of zstd.
pub fn open(path: &Path) -> Result<Box<dyn BufRead>, LabError> {
    let failed = |error| LabError::io(path.display(), error);
    let (file, bytes) = open_file(path)?;
    let mut file = BufReader::new(file);
    if file.fill_buf().map_err(failed)?.starts_with(&ZSTD_MAGIC) {
        let unpacked = zstd::stream::read::Decoder::with_buffer(file).map_err(failed)?;
        let left = UNPACKED_BYTES.max(bytes.saturating_mul(UNPACKED_TIMES));
        return Ok(Box::new(BufReader::with_capacity(1 << 16, Unpacked { input: unpacked, left })));
    }
    Ok(Box::new(file))
}

/// Reads a whole file, and unpacks it if it is packed. A file with more than `bytes_max` bytes, or more
/// than half of the free memory, is refused.
pub fn read(path: &Path, bytes_max: u64) -> Result<Vec<u8>, LabError> {
    let most = bytes_max.min(machine::memory_bytes() / 2);
    let failed = |error| LabError::io(path.display(), error);
    let mut bytes = Vec::new();
    open(path)?.take(most.saturating_add(1)).read_to_end(&mut bytes).map_err(failed)?;
    if bytes.len() as u64 > most {
        let why = format!("is larger than {}", machine::shown(most.into()));
        return Err(failed(io::Error::new(io::ErrorKind::InvalidData, why)));
    }
    Ok(bytes)
}

/// Opens a regular file and returns it with its size; pipes, devices and folders are refused.
fn open_file(path: &Path) -> Result<(File, u64), LabError> {
    let failed = |error| LabError::io(path.display(), error);
    // Asked before it is opened: opening a pipe waits until somebody writes to it.
    let kind = path.metadata().map_err(failed)?;
    if kind.is_dir() {
        return Err(failed(io::ErrorKind::IsADirectory.into()));
    }
    if !kind.is_file() {
        let why = "is a pipe or a device, which may never end; copy it to a file";
        return Err(failed(io::Error::new(io::ErrorKind::InvalidInput, why)));
    }
    Ok((File::open(path).map_err(failed)?, kind.len()))
}

/// A reader of unpacked bytes that fails after `left` more bytes.
struct Unpacked<R> {
    input: R,
    left: u64,
}

impl<R: Read> Read for Unpacked<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.input.read(buffer)?;
        match self.left.checked_sub(read as u64) {
            Some(left) => self.left = left,
            None => {
                let why = "unpacks to a thousand times its size; no data of use do";
                return Err(io::Error::new(io::ErrorKind::InvalidData, why));
            }
        }
        Ok(read)
    }
}

/// The bytes of a text without its byte order mark and with a line feed at the end of each line, which other
/// systems end with CR LF or with CR. A text in UTF-16 is refused.
#[derive(Debug)]
pub struct Plain<R> {
    input: R,
    /// Bytes that were read to look for a mark and turned out to be none.
    head: Vec<u8>,
    has_begun: bool,
    after_cr: bool,
}

impl<R> Plain<R> {
    /// Reads `input` from its first byte.
    pub const fn new(input: R) -> Plain<R> {
        Plain { input, head: Vec::new(), has_begun: false, after_cr: false }
    }

    /// Turns line ends into line feeds and returns the number of bytes that are left.
    fn mend(&mut self, bytes: &mut [u8]) -> usize {
        if !self.after_cr && !bytes.contains(&b'\r') {
            return bytes.len();
        }
        let mut kept = 0;
        for at in 0..bytes.len() {
            let byte = bytes[at];
            let is_second = self.after_cr && byte == b'\n';
            self.after_cr = byte == b'\r';
            if !is_second {
                bytes[kept] = if byte == b'\r' { b'\n' } else { byte };
                kept += 1;
            }
        }
        kept
    }
}

impl<R: Read> Plain<R> {
    fn begin(&mut self) -> io::Result<()> {
        self.has_begun = true;
        self.input.by_ref().take(UTF8_MARK.len() as u64).read_to_end(&mut self.head)?;
        if self.head.starts_with(&[0xff, 0xfe]) || self.head.starts_with(&[0xfe, 0xff]) {
            let why = "is a text in UTF-16; save it as UTF-8";
            return Err(io::Error::new(io::ErrorKind::InvalidData, why));
        }
        if self.head == UTF8_MARK {
            self.head.clear();
        }
        Ok(())
    }
}

impl<R: Read> Read for Plain<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if !self.has_begun {
            self.begin()?;
        }
        loop {
            let read = match self.head.len().min(buffer.len()) {
                0 => self.input.read(buffer)?,
                some => {
                    buffer[..some].copy_from_slice(&self.head[..some]);
                    self.head.drain(..some);
                    some
                }
            };
            let kept = self.mend(&mut buffer[..read]);
            // The second half of a line end alone is not the end of the text.
            if kept > 0 || read == 0 {
                return Ok(kept);
            }
        }
    }
}

/// The bytes of a file after the mark of UTF-8, if it begins with one.
pub fn without_mark(bytes: &[u8]) -> &[u8] {
    bytes.strip_prefix(&UTF8_MARK).unwrap_or(bytes)
}

/// The text of a file that was read whole.
pub fn text(bytes: &[u8]) -> Result<String, WrongLine> {
    let mut plain = Vec::with_capacity(bytes.len());
    Plain::new(bytes).read_to_end(&mut plain).map_err(|error| (1, error.to_string()))?;
    String::from_utf8(plain).map_err(|error| {
        let before = &error.as_bytes()[..error.utf8_error().valid_up_to()];
        let line = before.iter().filter(|byte| **byte == b'\n').count() as u64 + 1;
        (line, String::from("is not text"))
    })
}

/// The lines of a text with their numbers. A line longer than [`LINE_BYTES_MAX`] is refused.
#[derive(Debug)]
pub struct Lines<R> {
    input: BufReader<Plain<R>>,
    line: Vec<u8>,
    number: u64,
}

/// Number of a faulty line, counted from 1, and its fault.
pub type WrongLine = (u64, String);

impl<R: BufRead> Lines<R> {
    /// Reads the lines of `input`.
    pub fn new(input: R) -> Lines<R> {
        Lines { input: BufReader::new(Plain::new(input)), line: Vec::new(), number: 0 }
    }

    /// Returns the next line with its number and without its line end; `None` after the last line.
    pub fn next_line(&mut self) -> Result<Option<(u64, &str)>, WrongLine> {
        self.number += 1;
        let number = self.number;
        self.line.clear();
        let mut bounded = self.input.by_ref().take(LINE_BYTES_MAX + 1);
        let read = bounded.read_until(b'\n', &mut self.line);
        if read.map_err(|e| (number, format!("cannot be read: {e}")))? == 0 {
            return Ok(None);
        }
        if self.line.len() as u64 > LINE_BYTES_MAX {
            return Err((number, format!("is longer than {LINE_BYTES_MAX} bytes")));
        }
        let text = std::str::from_utf8(&self.line).map_err(|_| (number, String::from("is not text")))?;
        Ok(Some((number, text.trim_end_matches('\n'))))
    }
}

/// Refuses to let a list grow beyond a quarter of the memory, so that a file cannot ask for all of it.
pub fn require_room<T>(list: &[T], what: &str) -> Result<(), String> {
    let most = machine::memory_bytes() / 4 / size_of::<T>().max(1) as u64;
    if (list.len() as u64) < most {
        return Ok(());
    }
    Err(format!("more than {most} {what} do not fit this machine's memory; read fewer of them"))
}

/// A reader of a text as [`Plain`] that fails when a line is longer than [`LINE_BYTES_MAX`], for parsers that
/// split lines themselves.
pub struct BoundedLines<R> {
    input: Plain<R>,
    in_line: u64,
}

impl<R> BoundedLines<R> {
    pub const fn new(input: R) -> BoundedLines<R> {
        BoundedLines { input: Plain::new(input), in_line: 0 }
    }
}

impl<R: Read> Read for BoundedLines<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.input.read(buffer)?;
        for part in buffer[..read].split_inclusive(|&byte| byte == b'\n') {
            self.in_line += part.len() as u64;
            if self.in_line > LINE_BYTES_MAX {
                let why = format!("a line is longer than {LINE_BYTES_MAX} bytes");
                return Err(io::Error::new(io::ErrorKind::InvalidData, why));
            }
            if part.ends_with(b"\n") {
                self.in_line = 0;
            }
        }
        Ok(read)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_numbered_and_bounded() {
        let mut lines = Lines::new(&b"one\r\n\ntwo"[..]);
        assert_eq!(lines.next_line(), Ok(Some((1, "one"))));
        assert_eq!(lines.next_line(), Ok(Some((2, ""))));
        assert_eq!(lines.next_line(), Ok(Some((3, "two"))));
        assert_eq!(lines.next_line(), Ok(None));
        let endless = BufReader::new(io::repeat(b'7'));
        assert_eq!(Lines::new(endless).next_line().unwrap_err().1, "is longer than 65536 bytes");
        assert_eq!(Lines::new(&b"\xff\n"[..]).next_line(), Err((1, String::from("is not text"))));
        let longest = vec![b'7'; LINE_BYTES_MAX as usize];
        assert!(Lines::new(&longest[..]).next_line().is_ok());
    }

    #[test]
    fn texts_of_every_system_are_alike() {
        /// Gives one byte at a time, so that every mark and line end is cut.
        struct Drops<'a>(&'a [u8]);
        impl Read for Drops<'_> {
            fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
                let most = buffer.len().min(1);
                self.0.read(&mut buffer[..most])
            }
        }
        let plain = "one\n\ntwo\n\u{feff}three\n";
        for end in ["\n", "\r\n", "\r"] {
            for mark in ["", "\u{feff}"] {
                let other = format!("{mark}{}", plain.replace('\n', end));
                assert_eq!(text(other.as_bytes()).as_deref(), Ok(plain), "{other:?}");
                let mut cut = String::new();
                Plain::new(Drops(other.as_bytes())).read_to_string(&mut cut).unwrap();
                assert_eq!(cut, plain, "{other:?}");
                let mut bounded = String::new();
                BoundedLines::new(other.as_bytes()).read_to_string(&mut bounded).unwrap();
                assert_eq!(bounded, plain, "{other:?}");
                let mut lines = Lines::new(other.as_bytes());
                for (number, line) in (1..).zip(plain.lines()) {
                    assert_eq!(lines.next_line(), Ok(Some((number, line))), "{other:?}");
                }
                assert_eq!(lines.next_line(), Ok(None));
            }
        }
        for short in ["", "\r", "a", "ab", "\u{feff}"] {
            let expected = short.trim_start_matches('\u{feff}').replace('\r', "\n");
            assert_eq!(text(short.as_bytes()), Ok(expected));
        }
        for wide in [&b"\xff\xfea\0"[..], b"\xfe\xff\0a"] {
            assert!(text(wide).unwrap_err().1.contains("UTF-16"));
            assert!(Lines::new(wide).next_line().unwrap_err().1.contains("UTF-16"));
        }
        assert_eq!(text(b"a\r\nb\xff"), Err((2, String::from("is not text"))));
    }

    #[test]
    fn a_line_without_end_is_found_by_readers_of_their_own() {
        let mut short = Vec::new();
        BoundedLines::new(&b"a\nb\n"[..]).read_to_end(&mut short).unwrap();
        assert_eq!(short, b"a\nb\n");
        let error = io::copy(&mut BoundedLines::new(io::repeat(b'x')), &mut io::sink()).unwrap_err();
        assert!(error.to_string().contains("a line is longer"), "{error}");
    }

    #[test]
    fn what_unpacks_without_end_is_refused() {
        let mut bomb = Unpacked { input: io::repeat(0), left: 1000 };
        let error = io::copy(&mut bomb, &mut io::sink()).unwrap_err();
        assert!(error.to_string().contains("unpacks to"), "{error}");
    }

    #[test]
    fn only_files_are_read_and_none_too_large() {
        let folder = tempfile::tempdir().unwrap();
        assert!(open(folder.path()).is_err());
        let path = folder.path().join("four");
        std::fs::write(&path, b"1234").unwrap();
        assert_eq!(read(&path, 4).unwrap(), b"1234");
        assert!(read(&path, 3).unwrap_err().to_string().ends_with("four: is larger than 3 B"));
    }
}
