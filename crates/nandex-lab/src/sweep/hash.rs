//! The hash by which cells are stored.

/// FNV-1a with 128 bits. It protects against accidents only, so whoever reads a cell must compare its
/// request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Hash(u128);

const OFFSET: u128 = 0x6c62_272e_07bb_0142_62b8_2175_6295_c58d;
const PRIME: u128 = 0x0000_0000_0100_0000_0000_0000_0000_013b;

impl Hash {
    pub(super) fn of(bytes: &[u8]) -> Hash {
        let step = |hash: u128, byte: &u8| (hash ^ u128::from(*byte)).wrapping_mul(PRIME);
        Hash(bytes.iter().fold(OFFSET, step))
    }

    pub(super) fn hex(self) -> String {
        format!("{:032x}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_values() {
        // From the reference code of FNV.
        assert_eq!(Hash::of(b"").hex(), "6c62272e07bb014262b821756295c58d");
        assert_eq!(Hash::of(b"a").hex(), "d228cb696f1a8caf78912b704e4a8964");
    }
}
