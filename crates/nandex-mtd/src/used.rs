//! Looking whether a chip holds something, before it is overwritten.

use nandex::nand::NandError;
use nandex::{Cause, Nand, Ppn};

/// Whether the first page of any block holds something.
pub fn is_used(nand: &mut dyn Nand) -> Result<bool, NandError> {
    let geometry = nand.geometry();
    let (mut data, mut spare) =
        (vec![0; geometry.page_bytes as usize], vec![0; geometry.spare_bytes as usize]);
    for block in 0..geometry.blocks {
        let page = Ppn(block * geometry.pages_per_block);
        match nand.read(page, Cause::Check, &mut data, &mut spare) {
            Ok(_) if data.iter().chain(&spare).all(|byte| *byte == 0xff) => {}
            Ok(_) | Err(NandError::Uncorrectable(_)) => return Ok(true),
            Err(NandError::BadBlock(_)) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(false)
}
