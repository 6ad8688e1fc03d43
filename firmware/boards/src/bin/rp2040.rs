//! An RP2040 (Cortex-M0+) with the part on SPI0: GPIO 16 MISO, 17 chip select, 18 clock, 19 MOSI. The clock
//! is that of the reset, about 6 MHz.
#![no_std]
#![no_main]

use core::panic::PanicInfo;
use nandex_boards::{Cycles, Device, Exchange, count_starts, read, start_heap, stop, write};

/// The boot loader for the flash of most boards.
#[unsafe(link_section = ".boot2")]
#[used]
pub static BOOT2: [u8; 256] = rp2040_boot2::BOOT_LOADER_GENERIC_03H;

const RESETS: u32 = 0x4000_c000;
const CLEAR: u32 = 0x3000;
const CLOCKS_PERI: u32 = 0x4000_8048;
const IO_BANK: u32 = 0x4001_4000;
const SIO: u32 = 0xd000_0000;
const SPI0: u32 = 0x4003_c000;
/// GPIO bank, its pads, SPI0.
const NEEDED: u32 = 1 << 5 | 1 << 8 | 1 << 16;
const CHIP_SELECT: u32 = 17;

struct Spi0;

impl Spi0 {
    fn start() -> Spi0 {
        // SAFETY: registers of the RP2040 (data sheet, sections 2.14, 2.15, 2.19, 4.4), set once after the
        // reset.
        unsafe {
            write(RESETS + CLEAR, NEEDED);
            while read(RESETS + 8) & NEEDED != NEEDED {}
            write(CLOCKS_PERI, 1 << 11);
            for (pin, function) in [(16, 1), (CHIP_SELECT, 5), (18, 1), (19, 1)] {
                write(IO_BANK + 8 * pin + 4, function);
            }
            write(SIO + 0x14, 1 << CHIP_SELECT);
            write(SIO + 0x24, 1 << CHIP_SELECT);
            // Eight bits, mode 0, half of the clock.
            write(SPI0 + 0x10, 2);
            write(SPI0, 7);
            write(SPI0 + 4, 1 << 1);
        }
        Spi0
    }
}

impl Exchange for Spi0 {
    fn exchange(&mut self, byte: u8) -> u8 {
        // SAFETY: data and status register of SPI0.
        unsafe {
            while read(SPI0 + 0xc) & 1 << 1 == 0 {}
            write(SPI0 + 8, u32::from(byte));
            while read(SPI0 + 0xc) & 1 << 2 == 0 {}
            read(SPI0 + 8) as u8
        }
    }

    fn select(&mut self, is_low: bool) {
        // SAFETY: set and clear registers of the pins.
        unsafe { write(SIO + if is_low { 0x18 } else { 0x14 }, 1 << CHIP_SELECT) }
    }
}

#[cortex_m_rt::entry]
fn main() -> ! {
    start_heap();
    stop(&count_starts(Device(Spi0::start()), Cycles))
}

#[panic_handler]
fn panic(_: &PanicInfo<'_>) -> ! {
    loop {
        cortex_m::asm::bkpt();
    }
}
