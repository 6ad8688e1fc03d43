//! The result of a part's ECC for a page. Each maker encodes it in a way of its own.
//!
//! The encodings are those of the drivers of Linux (`drivers/mtd/nand/spi`), which the makers maintain.

/// How a part reports the work of its ECC, and how many bits that can correct.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ecc {
    /// One bit of 512 bytes: status 1 is corrected, 2 and 3 are not (W25N01GV).
    OneBit,
    /// Status 1 and 3 are corrected, the number is the upper half of register 0x30; 2 is not (W25N02KV,
    /// TC58CV).
    Counted {
        /// Bits that can be corrected in 512 bytes.
        strength: u8,
    },
    /// Status 1 is corrected, the command 0x7C tells how many bits; others are not (MX35LF1GE4AB).
    Asked {
        /// Bits that can be corrected in 512 bytes.
        strength: u8,
    },
    /// Status 1 is one to seven bits, 3 is eight, 2 is not corrected (GD5FxGQ4xA).
    SevenOrEight,
    /// Status 1 is refined by a second status: four (or fewer) to seven bits; 3 is eight, 2 is not corrected
    /// (GD5FxGQ4xE).
    FourToEight,
    /// Three bits: 1 is up to three, 2 to 6 are four to eight, 7 is not corrected (GD5FxGQ4xF).
    ThreeToEight,
    /// Status 1 is refined by a second status: one to four bits; others are not corrected (GD5FxGQ5xE).
    OneToFour,
    /// Three bits: 1 is up to three, 3 up to six, 5 up to eight, others are not corrected (MT29F with eight
    /// bits).
    InSteps,
    /// Known by its parameter page only: status 1 means corrected, by an unknown number of bits; any other
    /// status means not correctable.
    Unknown {
        /// Bits that can be corrected.
        strength: u8,
    },
}

/// The verdict on a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// Corrected at most this many bits; 0 if there were no wrong ones.
    Corrected(u8),
    /// More than can be corrected.
    Lost,
}

/// Further query, besides the status, that is needed to judge a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ask {
    Nothing,
    /// Set this register.
    Register(u8),
    /// The command of Macronix.
    Command,
}

impl Ecc {
    /// Bits that can be corrected in each 512 bytes.
    pub const fn strength(self) -> u8 {
        match self {
            Ecc::OneBit => 1,
            Ecc::Counted { strength } | Ecc::Asked { strength } | Ecc::Unknown { strength } => strength,
            Ecc::SevenOrEight | Ecc::FourToEight | Ecc::ThreeToEight | Ecc::InSteps => 8,
            Ecc::OneToFour => 4,
        }
    }

    /// Number of wrong bits from which a page should be moved soon: three quarters of the correctable ones,
    /// at least two. A part that corrects a single bit gives no warning, since every flip would be one.
    pub const fn weak_from(self) -> u8 {
        let most = self.strength() - self.strength() / 4;
        if most < 2 { 2 } else { most }
    }

    const fn bits(self, status: u8) -> u8 {
        match self {
            Ecc::ThreeToEight | Ecc::InSteps => status >> 4 & 7,
            _ => status >> 4 & 3,
        }
    }

    pub(crate) const fn ask(self, status: u8) -> Ask {
        match (self, self.bits(status)) {
            (Ecc::Counted { .. }, 1 | 3) => Ask::Register(crate::feature::CORRECTED),
            (Ecc::Asked { .. }, 1) => Ask::Command,
            (Ecc::FourToEight | Ecc::OneToFour, 1) => Ask::Register(crate::feature::STATUS_2),
            _ => Ask::Nothing,
        }
    }

    /// The verdict by the status and the answer to [`Ecc::ask`].
    pub(crate) const fn verdict(self, status: u8, answer: u8) -> Verdict {
        let strength = self.strength();
        Verdict::Corrected(match (self, self.bits(status)) {
            (_, 0) => 0,
            (Ecc::OneBit, 1) => 1,
            (Ecc::Counted { .. }, 1 | 3) => clamp(answer >> 4, strength),
            (Ecc::Asked { .. }, 1) => clamp(answer & 0x0f, strength),
            (Ecc::SevenOrEight, 1) => 7,
            (Ecc::FourToEight, 1) => 4 + (answer >> 4 & 3),
            (Ecc::SevenOrEight | Ecc::FourToEight, 3) => 8,
            (Ecc::ThreeToEight, 1) => 3,
            (Ecc::ThreeToEight, bits @ 2..=6) => bits + 2,
            (Ecc::OneToFour, 1) => 1 + (answer >> 4 & 3),
            (Ecc::InSteps, 1) => 3,
            (Ecc::InSteps, 3) => 6,
            (Ecc::InSteps, 5) => 8,
            (Ecc::Unknown { .. }, 1) => strength,
            _ => return Verdict::Lost,
        })
    }
}

/// Replaces an impossible number of bits by the most that the ECC corrects.
const fn clamp(bits: u8, strength: u8) -> u8 {
    if bits == 0 || bits > strength { strength } else { bits }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Verdict::{Corrected, Lost};

    /// Rows of status, answer, and expected verdict.
    type Cases = &'static [(u8, u8, Verdict)];

    /// The tables of the makers: status, answer, verdict.
    #[test]
    fn every_status_has_the_verdict_of_its_maker() {
        let rows: [(Ecc, Cases); 9] = [
            (Ecc::OneBit, &[(0, 9, Corrected(0)), (0x10, 0, Corrected(1)), (0x20, 0, Lost), (0x30, 0, Lost)]),
            (
                Ecc::Counted { strength: 8 },
                &[
                    (0, 0x40, Corrected(0)),
                    (0x10, 0x30, Corrected(3)),
                    (0x30, 0x80, Corrected(8)),
                    (0x10, 0x00, Corrected(8)),
                    (0x10, 0xf0, Corrected(8)),
                    (0x20, 0x10, Lost),
                ],
            ),
            (
                Ecc::Asked { strength: 4 },
                &[(0x10, 0x02, Corrected(2)), (0x10, 0x09, Corrected(4)), (0x20, 0, Lost), (0x30, 1, Lost)],
            ),
            (Ecc::SevenOrEight, &[(0x10, 0, Corrected(7)), (0x30, 0, Corrected(8)), (0x20, 0, Lost)]),
            (
                Ecc::FourToEight,
                &[
                    (0x10, 0x00, Corrected(4)),
                    (0x10, 0x30, Corrected(7)),
                    (0x30, 0, Corrected(8)),
                    (0x20, 0, Lost),
                ],
            ),
            (
                Ecc::ThreeToEight,
                &[(0x10, 0, Corrected(3)), (0x20, 0, Corrected(4)), (0x60, 0, Corrected(8)), (0x70, 0, Lost)],
            ),
            (
                Ecc::OneToFour,
                &[(0x10, 0x00, Corrected(1)), (0x10, 0x30, Corrected(4)), (0x20, 0, Lost), (0x30, 0, Lost)],
            ),
            (
                Ecc::InSteps,
                &[
                    (0x10, 0, Corrected(3)),
                    (0x30, 0, Corrected(6)),
                    (0x50, 0, Corrected(8)),
                    (0x20, 0, Lost),
                    (0x70, 0, Lost),
                ],
            ),
            (Ecc::Unknown { strength: 4 }, &[(0x10, 0, Corrected(4)), (0x20, 0, Lost), (0x30, 0, Lost)]),
        ];
        for (ecc, cases) in rows {
            for &(status, answer, verdict) in cases {
                assert_eq!(ecc.verdict(status, answer), verdict, "{ecc:?} {status:#x} {answer:#x}");
                // Busy, write enable and failures are other bits.
                assert_eq!(ecc.verdict(status | 0x8f, answer), verdict, "{ecc:?} {status:#x} with others");
            }
        }
    }

    #[test]
    fn a_warning_comes_before_the_limit() {
        assert_eq!(Ecc::OneBit.weak_from(), 2);
        assert_eq!([Ecc::OneToFour.weak_from(), Ecc::InSteps.weak_from()], [3, 6]);
    }
}
