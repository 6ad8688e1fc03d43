//! A chip that keeps nothing: what an index takes of the RAM is seen by formatting it there.

use nandex::{Cause, Geometry, Nand, NandError, Pbn, Ppn};

/// A chip of this shape that forgets what is programmed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BlankChip(pub(crate) Geometry);

impl Nand for BlankChip {
    fn geometry(&self) -> Geometry {
        self.0
    }

    fn read(&mut self, _: Ppn, _: Cause, data: &mut [u8], spare: &mut [u8]) -> Result<(), NandError> {
        data.fill(0xff);
        spare.fill(0xff);
        Ok(())
    }

    fn program(&mut self, _: Ppn, _: Cause, _: &[u8], _: &[u8]) -> Result<(), NandError> {
        Ok(())
    }

    fn erase(&mut self, _: Pbn, _: Cause) -> Result<(), NandError> {
        Ok(())
    }

    fn is_bad(&mut self, _: Pbn) -> Result<bool, NandError> {
        Ok(false)
    }

    fn mark_bad(&mut self, _: Pbn) -> Result<(), NandError> {
        Ok(())
    }
}
