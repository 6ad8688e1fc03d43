//! A byte-level model of the parts, behind `SpiDevice`: commands, registers, busy times, ECC, failing cells,
//! cuts of the power.
//!
//! The model knows what a part is sent, byte by byte, and holds a driver to the protocol: a command while the
//! part is busy, a program without write-enable, pages of a block out of order, a page programmed twice, a
//! column beyond the page, an unknown command, all of these panic with the reason, since a part would
//! silently do something else. Time passes by the bytes on the bus and by the delays that the driver asks
//! for.
//!
//! The model was written from the same tables as the driver: it shows that the driver keeps to them, not that
//! a part does.

mod array;
mod bus;
mod cells;

use crate::parts::SpiPart;
use array::Array;
pub use cells::Trouble;
use embedded_hal::delay::DelayNs;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A part, shared by the bus that a driver has and the test that looks on.
#[derive(Clone, Debug)]
pub struct Model(Arc<Mutex<Array>>);

/// The bus to a model.
#[derive(Clone, Debug)]
pub struct Bus(Model);

/// Delays that let the time of a model pass.
#[derive(Clone, Debug)]
pub struct Clock(Model);

impl Model {
    /// A fresh part, every block good and erased, just powered on.
    pub fn new(part: &SpiPart) -> Model {
        Model(Arc::new(Mutex::new(Array::new(*part))))
    }

    fn lock(&self) -> MutexGuard<'_, Array> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The bus and the delay that a driver needs.
    pub fn handles(&self) -> (Bus, Clock) {
        (Bus(self.clone()), Clock(self.clone()))
    }

    /// Sets the failures that happen from now on.
    pub fn set_trouble(&self, trouble: Trouble) {
        self.lock().cells.trouble = trouble;
    }

    /// Cuts the power in the physical operation with this number: programs and erases count, from 0.
    pub fn cut_at(&self, operation: u64) {
        self.lock().cells.cut_at = Some(operation);
    }

    /// Switches the power on again: registers are as after power-up, cells as they were.
    pub fn power_on(&self) {
        self.lock().power_on();
    }

    /// Programs and erases so far.
    pub fn operations(&self) -> u64 {
        self.lock().cells.operations
    }

    /// Whether the power is on.
    pub fn is_powered(&self) -> bool {
        self.lock().powered
    }

    /// Time that passed, in nanoseconds.
    pub fn time_ns(&self) -> u64 {
        self.lock().time_ns
    }

    /// Marks a block bad as a factory does.
    pub fn mark_in_factory(&self, block: u32) {
        self.lock().mark_with(block, 0);
    }

    /// Sets the byte of a block's bad-block mark.
    pub fn mark_with(&self, block: u32, mark: u8) {
        self.lock().mark_with(block, mark);
    }

    /// Holds the write-protect pin low, or not.
    pub fn hold_write_protect(&self, held: bool) {
        self.lock().pin_held = held;
    }

    /// Answers with this identification instead of the part's.
    pub fn set_id(&self, id: [u8; 3]) {
        self.lock().id = id;
    }

    /// Sets the parameter page of the part.
    pub fn set_parameter_page(&self, page: [u8; 256]) {
        self.lock().parameter_page = Some(page);
    }

    /// Lets time pass, as if the part had stood idle.
    pub fn pass(&self, ns: u64) {
        self.lock().time_ns += ns;
    }
}

impl DelayNs for Clock {
    fn delay_ns(&mut self, ns: u32) {
        self.0.pass(u64::from(ns));
    }
}
