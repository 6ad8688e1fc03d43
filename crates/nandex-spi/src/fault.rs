//! Faults between microcontroller and part.

use core::fmt;
use embedded_hal::spi::ErrorKind;

/// The event that the driver was waiting for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wait {
    /// The end of a reset.
    Reset,
    /// A page from the array.
    Read,
    /// The end of a program.
    Program,
    /// The end of an erase.
    Erase,
}

/// A fault of bus or part that is no failing page or block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Fault {
    /// The bus reported an error.
    Bus(ErrorKind),
    /// The part stayed busy much longer than it may.
    Timeout(Wait),
    /// The part does not take a write-enable: its write-protect pin is held low, perhaps.
    WriteDisabled,
    /// The part is not as the driver prepared it: it lost its power or was reset, and protects its blocks, or
    /// it is no longer connected. Open the driver again.
    Reset,
}

impl Fault {
    /// The number of the fault in [`NandError::Device`](nandex::NandError::Device): 1 to 15 the bus, 16 to 31
    /// a wait that did not end, 32 a part that does not let itself be written, 33 one that was reset.
    pub const fn code(self) -> i32 {
        match self {
            Fault::Bus(ErrorKind::Overrun) => 1,
            Fault::Bus(ErrorKind::ModeFault) => 2,
            Fault::Bus(ErrorKind::FrameFormat) => 3,
            Fault::Bus(ErrorKind::ChipSelectFault) => 4,
            Fault::Bus(_) => 15,
            Fault::Timeout(Wait::Reset) => 16,
            Fault::Timeout(Wait::Read) => 17,
            Fault::Timeout(Wait::Program) => 18,
            Fault::Timeout(Wait::Erase) => 19,
            Fault::WriteDisabled => 32,
            Fault::Reset => 33,
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Fault::Bus(kind) => write!(f, "the bus failed: {kind}"),
            Fault::Timeout(wait) => {
                let what = match wait {
                    Wait::Reset => "a reset",
                    Wait::Read => "a read",
                    Wait::Program => "a program",
                    Wait::Erase => "an erase",
                };
                write!(f, "the part does not end {what}: is it connected and powered?")
            }
            Fault::WriteDisabled => {
                f.write_str("the part does not let itself be written: is its pin WP# high?")
            }
            Fault::Reset => {
                f.write_str("the part lost its settings: did its power fail, or is it no longer connected?")
            }
        }
    }
}

impl core::error::Error for Fault {}

/// Why a part could not be opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum OpenError {
    /// Bus or part failed.
    Fault(Fault),
    /// No part of the table has this identification, and there is no readable ONFI parameter page. All bytes
    /// 0x00 or 0xFF: no part answers.
    Unknown {
        /// The first bytes of the identification.
        id: [u8; 3],
    },
    /// The parameter page describes a part that the engine cannot use.
    Shape(&'static str),
}

impl From<Fault> for OpenError {
    fn from(fault: Fault) -> OpenError {
        OpenError::Fault(fault)
    }
}

impl fmt::Display for OpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            OpenError::Fault(fault) => fault.fmt(f),
            OpenError::Unknown { id: [a, b, c] } => {
                write!(
                    f,
                    "no part answers to the identification {a:02x} {b:02x} {c:02x}, nor has it a parameter page"
                )
            }
            OpenError::Shape(why) => {
                write!(f, "the parameter page describes no part that can be used: {why}")
            }
        }
    }
}

impl core::error::Error for OpenError {}
