//! The bus of a model: one transaction of an `SpiDevice` is one command.

use super::array::Array;
use super::{Bus, Model};
use crate::bus::QuadDevice;
use crate::parts::{Column, DieSelect};
use crate::{command, feature};
use core::convert::Infallible;
use embedded_hal::spi::{ErrorType, Operation, SpiDevice};

/// Time of a byte on the bus, in ns: 50 MHz, one line.
const BYTE_NS: u64 = 160;

/// Commands whose data are transferred over four lines.
const WIDE: [u8; 3] = [command::READ_CACHE_X4, command::PROGRAM_LOAD_X4, command::PROGRAM_LOAD_MORE_X4];

impl ErrorType for Bus {
    type Error = Infallible;
}

impl SpiDevice for Bus {
    fn transaction(&mut self, steps: &mut [Operation<'_, u8>]) -> Result<(), Infallible> {
        let Bus(Model(array)) = self;
        let mut array = array.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if let Some(Operation::Write(head)) = steps.first() {
            let wide = head.first().is_some_and(|command| WIDE.contains(command));
            assert!(!wide, "{head:02x?} on one line");
        }
        let mut sent = Vec::new();
        let mut answered = 0;
        for step in steps {
            match step {
                Operation::Write(bytes) => {
                    assert_eq!(answered, 0, "bytes are sent after an answer was read");
                    sent.extend_from_slice(bytes);
                    array.time_ns += bytes.len() as u64 * BYTE_NS;
                }
                Operation::Read(bytes) => {
                    array.time_ns += bytes.len() as u64 * BYTE_NS;
                    if array.powered {
                        array.answer(&sent, answered, bytes);
                    } else {
                        bytes.fill(0xff);
                    }
                    answered += bytes.len();
                }
                Operation::DelayNs(ns) => array.time_ns += u64::from(*ns),
                other => panic!("the driver does not use {other:?}"),
            }
        }
        if answered == 0 && array.powered {
            array.execute(&sent);
        }
        Ok(())
    }
}

impl QuadDevice for Bus {
    fn read_on_four(&mut self, head: &[u8], answer: &mut [u8]) -> Result<(), Infallible> {
        let Bus(Model(array)) = self;
        let mut array = array.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        array.time_ns += head.len() as u64 * BYTE_NS + answer.len() as u64 * BYTE_NS / 4;
        if array.powered {
            array.require_quad(head, array.part.quad.reads());
            array.answer(head, 0, answer);
        } else {
            answer.fill(0xff);
        }
        Ok(())
    }

    fn write_on_four(&mut self, head: &[u8], data: &[u8]) -> Result<(), Infallible> {
        let Bus(Model(array)) = self;
        let mut array = array.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        array.time_ns += head.len() as u64 * BYTE_NS + data.len() as u64 * BYTE_NS / 4;
        if array.powered {
            array.require_quad(head, array.part.quad.loads());
            array.execute(&[head, data].concat());
        }
        Ok(())
    }
}

fn row(sent: &[u8]) -> u32 {
    assert_eq!(sent.len(), 4, "{sent:02x?}: a row has three bytes");
    u32::from_be_bytes([0, sent[1], sent[2], sent[3]])
}

impl Array {
    fn require_idle(&self, sent: &[u8]) {
        assert!(!self.is_busy(), "command {:02x} while the part is busy", sent[0]);
    }

    /// Checks a transfer over four lines: the command must be one for four lines, the part must know it, and
    /// four lines must be enabled if the part has a bit for that.
    fn require_quad(&self, head: &[u8], known: bool) {
        assert!(head.first().is_some_and(|command| WIDE.contains(command)), "{head:02x?} on four lines");
        assert!(known, "{head:02x?}: the part has no such command");
        let enable = self.part.quad.enable();
        assert_eq!(self.registers.configuration & enable, enable, "{head:02x?} before four lines are on");
        assert_eq!(self.registers.protection, 0, "{head:02x?} while pins protect");
    }

    /// The column of a read from the buffer.
    fn read_column(&self, bytes: &[u8]) -> usize {
        match self.part.column {
            Column::TwoBytes => self.column(bytes[0], bytes[1]),
            Column::ThreeBytes => {
                assert_eq!(bytes[0], 0, "{bytes:02x?}: a column has three bytes");
                self.column(bytes[1], bytes[2])
            }
        }
    }

    /// The place in the buffer of a column address.
    fn column(&self, high: u8, low: u8) -> usize {
        let column = u32::from(high) << 8 | u32::from(low);
        let planes = u32::from(self.part.planes);
        let (plane, at) = (column / (2 * self.part.page_bytes), column % (2 * self.part.page_bytes));
        assert!(plane < planes, "plane {plane} of {planes}");
        at as usize
    }

    /// The answer to a command that reads.
    fn answer(&mut self, sent: &[u8], from: usize, bytes: &mut [u8]) {
        match sent {
            [command::GET_FEATURE, register] => {
                let value = match *register {
                    feature::STATUS => self.status(),
                    _ => {
                        self.require_idle(sent);
                        match *register {
                            feature::PROTECTION => self.registers.protection,
                            feature::CONFIGURATION => self.registers.configuration,
                            feature::CORRECTED | feature::STATUS_2 => self.registers.corrected,
                            other => panic!("no register {other:02x}"),
                        }
                    }
                };
                bytes.fill(value);
            }
            [command::READ_ID, rest @ ..] => {
                self.require_idle(sent);
                assert!(rest.len() <= 1, "{sent:02x?}");
                // Without the byte of nothing the first one comes out of it.
                let skip = 1 - rest.len();
                let mut id = vec![0xff; skip];
                id.extend_from_slice(&self.id);
                bytes
                    .iter_mut()
                    .enumerate()
                    .for_each(|(i, byte)| *byte = id.get(from + i).copied().unwrap_or(0));
            }
            [command @ (command::READ_CACHE | command::READ_CACHE_X4), column @ ..] => {
                self.require_idle(sent);
                // The three bytes without a clock between them, where data come on one line.
                let dummy = *command == command::READ_CACHE_X4 && self.part.column == Column::ThreeBytes;
                assert_eq!(column.len(), 3 + usize::from(dummy), "{sent:02x?}");
                let at = self.read_column(column) + from;
                assert!(at + bytes.len() <= self.buffer.len(), "a read of columns {at}.. beyond the page");
                bytes.copy_from_slice(&self.buffer[at..at + bytes.len()]);
            }
            [command::READ_CORRECTED, _] => {
                self.require_idle(sent);
                bytes.fill(self.registers.corrected);
            }
            other => panic!("{other:02x?} is no command with an answer"),
        }
    }

    /// A command that only sends.
    fn execute(&mut self, sent: &[u8]) {
        let Some((&first, rest)) = sent.split_first() else { panic!("an empty transaction") };
        if first == command::RESET {
            self.busy_until_ns = self.time_ns + 300_000;
            return;
        }
        self.require_idle(sent);
        match first {
            command::SET_FEATURE => self.set_feature(rest),
            command::WRITE_ENABLE => {
                assert!(rest.is_empty(), "{sent:02x?}");
                self.registers.write_enabled = !self.pin_held;
            }
            command::PAGE_READ => self.read_page(row(sent)),
            command::PROGRAM_LOAD
            | command::PROGRAM_LOAD_MORE
            | command::PROGRAM_LOAD_X4
            | command::PROGRAM_LOAD_MORE_X4 => {
                let [high, low, data @ ..] = rest else { panic!("{sent:02x?}: a column has two bytes") };
                if matches!(first, command::PROGRAM_LOAD | command::PROGRAM_LOAD_X4) {
                    self.buffer.fill(0xff);
                }
                let at = self.column(*high, *low);
                assert!(at + data.len() <= self.buffer.len(), "a load of columns {at}.. beyond the page");
                self.buffer[at..at + data.len()].copy_from_slice(data);
            }
            command::PROGRAM_EXECUTE => self.program(row(sent)),
            command::BLOCK_ERASE => self.erase(row(sent)),
            command::SELECT_DIE => {
                assert_eq!(self.part.die_select, DieSelect::Command, "the part has no such command");
                self.select(rest[0]);
            }
            other => panic!("{other:02x} is no command"),
        }
    }

    fn set_feature(&mut self, rest: &[u8]) {
        let &[register, value] = rest else { panic!("{rest:02x?}: a register and its value") };
        match register {
            feature::PROTECTION => self.registers.protection = value,
            feature::CONFIGURATION => self.registers.configuration = value,
            feature::DIE => {
                assert_eq!(self.part.die_select, DieSelect::Register, "the part has no such register");
                self.select(value >> 6);
            }
            other => panic!("register {other:02x} is not written"),
        }
    }

    fn select(&mut self, die: u8) {
        assert!(die < self.part.dies, "die {die} of {}", self.part.dies);
        self.registers.die = die;
    }
}
