//! An STM32F4 (Cortex-M4) with the part on SPI1: PA4 chip select, PA5 clock, PA6 MISO, PA7 MOSI. The clock is
//! the internal one of 16 MHz.
#![no_std]
#![no_main]

use core::panic::PanicInfo;
use nandex_boards::{Cycles, Device, Exchange, count_starts, read, start_heap, stop, write};

const RCC: u32 = 0x4002_3800;
const GPIO_A: u32 = 0x4002_0000;
const SPI1: u32 = 0x4001_3000;

struct Spi1;

impl Spi1 {
    fn start() -> Spi1 {
        // SAFETY: registers of the STM32F4 (RM0368, sections 6, 8 and 20), set once after the reset.
        unsafe {
            write(RCC + 0x30, read(RCC + 0x30) | 1);
            write(RCC + 0x44, read(RCC + 0x44) | 1 << 12);
            write(GPIO_A + 0x18, 1 << 4);
            // PA4 drives, PA5 to PA7 are the SPI's (alternate function 5), all fast.
            let modes = read(GPIO_A) & !(0xff << 8);
            write(GPIO_A, modes | 0b10_10_10_01 << 8);
            write(GPIO_A + 8, read(GPIO_A + 8) | 0xff << 8);
            let functions = read(GPIO_A + 0x20) & !(0xfff << 20);
            write(GPIO_A + 0x20, functions | 0x555 << 20);
            // Master, mode 0, half of the bus clock, chip select by hand.
            write(SPI1, 1 << 2 | 1 << 8 | 1 << 9 | 1 << 6);
        }
        Spi1
    }
}

impl Exchange for Spi1 {
    fn exchange(&mut self, byte: u8) -> u8 {
        // SAFETY: status and data register of SPI1.
        unsafe {
            while read(SPI1 + 8) & 1 << 1 == 0 {}
            write(SPI1 + 0xc, u32::from(byte));
            while read(SPI1 + 8) & 1 == 0 {}
            read(SPI1 + 0xc) as u8
        }
    }

    fn select(&mut self, is_low: bool) {
        // SAFETY: the set and reset register of the port.
        unsafe { write(GPIO_A + 0x18, if is_low { 1 << 20 } else { 1 << 4 }) }
    }
}

#[cortex_m_rt::entry]
fn main() -> ! {
    start_heap();
    stop(&count_starts(Device(Spi1::start()), Cycles))
}

#[panic_handler]
fn panic(_: &PanicInfo<'_>) -> ! {
    loop {
        cortex_m::asm::bkpt();
    }
}
