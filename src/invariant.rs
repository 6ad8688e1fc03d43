//! The invariants of indexes and FTLs, with their numbers in the headers of the modules.

use core::fmt;

/// Most invariants with the same letter.
const OF_A_LETTER: u8 = 10;

/// Returns the byte for a name, which is a letter and a number from 1 on.
const fn code(name: &str) -> u8 {
    let name = name.as_bytes();
    let number = match *name {
        [_, digit] => digit - b'0',
        [_, tens, digit] => (tens - b'0') * 10 + digit - b'0',
        _ => 0,
    };
    assert!(name[0].is_ascii_uppercase() && 1 <= number && number <= OF_A_LETTER);
    (name[0] - b'A') * OF_A_LETTER + number - 1
}

macro_rules! invariants {
    ($($name:ident)*) => {
        /// An invariant: a letter and a number, as in the header of the index or FTL.
        ///
        /// Structures share letters, so a number belongs to the index that reports it: M1 of a MicroHash is
        /// not M1 of an MR-tree. A structure on top of another may report an invariant of the lower one.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[repr(u8)]
        #[non_exhaustive]
        pub enum Invariant {
            $(
                #[doc = concat!("Number ", stringify!($name), ".")]
                $name = code(stringify!($name)),
            )*
        }

        #[cfg(test)]
        const ALL: &[(Invariant, &str)] = &[$((Invariant::$name, stringify!($name))),*];
    };
}

invariants! {
    A1 A2 A3
    B1 B2 B3 B4 B5 B6 B7 B8
    C1 C2 C3 C4 C5 C6 C7
    D1 D2
    E1 E2 E3
    F1 F2 F3 F4
    H1
    I1 I2 I3 I4 I5 I6 I7 I8 I9 I10
    J1 J2 J3
    K1 K2 K3 K4
    L1 L2 L3 L4
    M1 M2 M3 M4 M5
    N1 N2 N3 N4 N5 N6 N7 N8
    O1 O2 O3 O4 O5 O6 O7 O8
    P1 P2 P3 P4 P5 P6
    R1 R2 R3 R4 R5 R6 R7 R8 R9
    S1 S2 S3 S4 S5 S6 S7 S8
    T1 T2 T3 T4 T5
    U1 U2 U3 U4 U5 U6 U7
    V1 V2 V3
}

impl fmt::Display for Invariant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let code = *self as u8;
        write!(f, "{}{}", char::from(b'A' + code / OF_A_LETTER), code % OF_A_LETTER + 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;

    #[test]
    fn an_invariant_is_shown_by_its_number() {
        for (invariant, name) in ALL {
            assert_eq!(invariant.to_string(), *name);
        }
    }

    #[test]
    fn an_invariant_is_a_byte() {
        assert_eq!(size_of::<Option<Invariant>>(), 1);
    }
}
