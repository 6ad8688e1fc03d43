use crate::nand::Part;
pub(super) static PARTS: &[Part] = &[];
