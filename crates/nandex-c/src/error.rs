//! Failures of calls: codes, their names, and messages.

use crate::ffi::codes::*;
use core::ffi::CStr;
use core::fmt::{self, Write};
use nandex::nand::{Differs, Unfit};
use nandex::{IndexError, NandError, StoreError};

macro_rules! names {
    ($($name:ident)*) => {
        /// The name of a code; None for a number that is no code.
        pub(crate) fn name(code: i32) -> Option<&'static CStr> {
            match code {
                $($name => CStr::from_bytes_with_nul(concat!(stringify!($name), "\0").as_bytes()).ok(),)*
                _ => None,
            }
        }
        #[cfg(test)]
        pub(crate) const ALL: &[(i32, &str)] = &[$(($name, stringify!($name)),)*];
    };
}

names! {
    NANDEX_OK
    NANDEX_NOT_FOUND
    NANDEX_ERR_NULL
    NANDEX_ERR_HANDLE
    NANDEX_ERR_BUSY
    NANDEX_ERR_NOT_OPEN
    NANDEX_ERR_STRUCT
    NANDEX_ERR_CONFIG
    NANDEX_ERR_LENGTH
    NANDEX_ERR_UNSUPPORTED
    NANDEX_ERR_BLANK
    NANDEX_ERR_FULL
    NANDEX_ERR_WORN_OUT
    NANDEX_ERR_CORRUPTED
    NANDEX_ERR_CHIP
    NANDEX_ERR_INTERRUPTED
    NANDEX_ERR_NOT_CLEANLY_CLOSED
    NANDEX_ERR_NOT_ASCENDING
    NANDEX_ERR_EXISTS
    NANDEX_ERR_BATCH_FULL
    NANDEX_ERR_BATCH
    NANDEX_ERR_MEMORY
    NANDEX_ERR_PANIC
    NANDEX_ERR_UNSOUND
    NANDEX_ERR_OTHER_KIND
    NANDEX_ERR_OTHER_RECORD
    NANDEX_ERR_OTHER_CHIP
    NANDEX_ERR_OTHER_SETTINGS
    NANDEX_ERR_NEWER
    NANDEX_ERR_NOT_BLANK
}

/// Why a call failed: its code and its message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Failure {
    /// A code and fixed words.
    Code(i32, &'static CStr),
    /// The answer of the engine.
    Index(IndexError),
}

impl From<IndexError> for Failure {
    fn from(error: IndexError) -> Failure {
        Failure::Index(error)
    }
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Failure {
        Failure::Index(error.into())
    }
}

impl Failure {
    /// Message of the failure, if it is a fixed text.
    pub(crate) const fn fixed_words(&self) -> &'static CStr {
        match self {
            Failure::Code(_, words) => words,
            Failure::Index(_) => c"",
        }
    }

    /// The code of the failure.
    pub(crate) fn code(&self) -> i32 {
        match self {
            Failure::Code(code, _) => *code,
            Failure::Index(error) => of_index(error),
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::Code(_, words) => f.write_str(words.to_str().unwrap_or_default()),
            Failure::Index(error) => write!(f, "{error}"),
        }
    }
}

const fn of_unfit(unfit: Unfit) -> i32 {
    match unfit {
        Unfit::Blank => NANDEX_ERR_BLANK,
        Unfit::Newer { .. } => NANDEX_ERR_NEWER,
        Unfit::Other { differs: Differs::Record, .. } => NANDEX_ERR_OTHER_RECORD,
        Unfit::Other { differs: Differs::Geometry, .. } => NANDEX_ERR_OTHER_CHIP,
        Unfit::Other { differs: Differs::Settings, .. } => NANDEX_ERR_OTHER_SETTINGS,
        _ => NANDEX_ERR_OTHER_KIND,
    }
}

fn of_index(error: &IndexError) -> i32 {
    match error {
        IndexError::Store(StoreError::Nand(NandError::Uncorrectable(_)) | StoreError::Corrupted { .. })
        | IndexError::Corrupted { .. } => NANDEX_ERR_CORRUPTED,
        IndexError::Store(StoreError::NotFormatted(unfit)) | IndexError::NotFormatted(unfit) => {
            of_unfit(*unfit)
        }
        IndexError::NotBlank => NANDEX_ERR_NOT_BLANK,
        IndexError::Store(inner) if inner.is_unsupported() => NANDEX_ERR_UNSUPPORTED,
        error if error.is_unsupported() => NANDEX_ERR_UNSUPPORTED,
        IndexError::WrongLength { .. } => NANDEX_ERR_LENGTH,
        IndexError::Full(_) => NANDEX_ERR_FULL,
        IndexError::BatchTooLarge { .. } => NANDEX_ERR_BATCH_FULL,
        IndexError::WornOut => NANDEX_ERR_WORN_OUT,
        IndexError::Interrupted => NANDEX_ERR_INTERRUPTED,
        IndexError::NotCleanlyClosed => NANDEX_ERR_NOT_CLEANLY_CLOSED,
        IndexError::NotAscending | IndexError::NotSorted { .. } => NANDEX_ERR_NOT_ASCENDING,
        // What the chip refused or failed to do, and whatever the engine learns to say later.
        _ => NANDEX_ERR_CHIP,
    }
}

/// Bytes of a message with its final NUL. Longer messages are cut.
pub(crate) const MESSAGE_BYTES: usize = 192;

/// The words of the last failure, as a C string.
#[derive(Clone, Debug)]
pub(crate) struct Message {
    bytes: [u8; MESSAGE_BYTES],
    used: usize,
}

impl Message {
    pub(crate) const fn new() -> Message {
        Message { bytes: [0; MESSAGE_BYTES], used: 0 }
    }

    /// Replaces the message. Text that does not fit is dropped.
    pub(crate) fn set(&mut self, words: impl fmt::Display) {
        self.used = 0;
        // `write_str` below never fails.
        let _ = write!(self, "{words}");
        self.bytes[self.used] = 0;
    }

    /// The words and a NUL behind them.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes[..=self.used]
    }
}

impl Write for Message {
    fn write_str(&mut self, words: &str) -> fmt::Result {
        for c in words.chars() {
            // One byte is the NUL's. A NUL within would end the text early.
            let bytes = c.len_utf8();
            if self.used + bytes >= MESSAGE_BYTES || c == '\0' {
                break;
            }
            c.encode_utf8(&mut self.bytes[self.used..]);
            self.used += bytes;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_cut_at_a_character_and_ends_with_nul() {
        let mut message = Message::new();
        message.set("é".repeat(200));
        let bytes = message.bytes();
        assert_eq!(bytes.last(), Some(&0));
        assert!(bytes.len() <= MESSAGE_BYTES);
        assert!(core::str::from_utf8(&bytes[..bytes.len() - 1]).unwrap().chars().all(|c| c == 'é'));
        message.set("short");
        assert_eq!(message.bytes(), b"short\0");
    }

    #[test]
    fn codes_have_names_and_run_down_without_a_gap() {
        for (i, (code, text)) in ALL.iter().enumerate() {
            assert_eq!(*code, -(i as i32));
            assert_eq!(name(*code).unwrap().to_str().unwrap(), *text);
        }
        assert_eq!(name(1), None);
        assert_eq!(name(-(ALL.len() as i32)), None);
    }
}
