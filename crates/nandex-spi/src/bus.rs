//! The bus: one line by the traits of `embedded-hal`, or four if the board supports them.
//!
//! Commands, addresses and registers always use one line. The data of a page, which take nearly all of the
//! time on the bus, use four lines if bus and part can: 2 KiB take 328 us at 50 MHz on one line and 82 us on
//! four. `embedded-hal` 1.0 has no trait for four lines, so a board implements [`QuadDevice`].

use embedded_hal::spi::{Error, ErrorKind, Operation, SpiDevice};

/// An `SpiDevice` whose controller has four data lines (QSPI), wired to IO0 to IO3 of the part.
pub trait QuadDevice: SpiDevice {
    /// One transaction: sends `head` on one line, then reads `answer` on four.
    ///
    /// # Errors
    /// Those of the bus.
    fn read_on_four(&mut self, head: &[u8], answer: &mut [u8]) -> Result<(), Self::Error>;

    /// One transaction: sends `head` on one line, then `data` on four.
    ///
    /// # Errors
    /// Those of the bus.
    fn write_on_four(&mut self, head: &[u8], data: &[u8]) -> Result<(), Self::Error>;
}

/// A bus whose four lines the driver shall use: `SpiNand::open(FourLines(bus), delay)`.
#[derive(Clone, Copy, Debug)]
pub struct FourLines<Q>(pub Q);

/// A bus as the driver needs it: every `SpiDevice`, and [`FourLines`] of a [`QuadDevice`].
pub trait SerialBus {
    /// Whether data can go over four lines.
    const HAS_FOUR_LINES: bool;

    /// One transaction on one line.
    ///
    /// # Errors
    /// The kind of the bus's error.
    fn transaction(&mut self, steps: &mut [Operation<'_, u8>]) -> Result<(), ErrorKind>;

    /// Does one transaction whose answer comes over all lines.
    ///
    /// # Errors
    /// The kind of the bus's error.
    fn read_wide(&mut self, head: &[u8], answer: &mut [u8]) -> Result<(), ErrorKind>;

    /// Does one transaction whose data go over all lines.
    ///
    /// # Errors
    /// The kind of the bus's error.
    fn write_wide(&mut self, head: &[u8], data: &[u8]) -> Result<(), ErrorKind>;
}

fn kind<T, E: Error>(outcome: Result<T, E>) -> Result<T, ErrorKind> {
    outcome.map_err(|error| error.kind())
}

impl<S: SpiDevice> SerialBus for S {
    const HAS_FOUR_LINES: bool = false;

    fn transaction(&mut self, steps: &mut [Operation<'_, u8>]) -> Result<(), ErrorKind> {
        kind(SpiDevice::transaction(self, steps))
    }
    fn read_wide(&mut self, head: &[u8], answer: &mut [u8]) -> Result<(), ErrorKind> {
        kind(SpiDevice::transaction(self, &mut [Operation::Write(head), Operation::Read(answer)]))
    }
    fn write_wide(&mut self, head: &[u8], data: &[u8]) -> Result<(), ErrorKind> {
        kind(SpiDevice::transaction(self, &mut [Operation::Write(head), Operation::Write(data)]))
    }
}

impl<Q: QuadDevice> SerialBus for FourLines<Q> {
    const HAS_FOUR_LINES: bool = true;

    fn transaction(&mut self, steps: &mut [Operation<'_, u8>]) -> Result<(), ErrorKind> {
        kind(self.0.transaction(steps))
    }
    fn read_wide(&mut self, head: &[u8], answer: &mut [u8]) -> Result<(), ErrorKind> {
        kind(self.0.read_on_four(head, answer))
    }
    fn write_wide(&mut self, head: &[u8], data: &[u8]) -> Result<(), ErrorKind> {
        kind(self.0.write_on_four(head, data))
    }
}
