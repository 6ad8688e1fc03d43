//! Shares, computed bit by bit. A division of 64 or 128 bits is a routine of its own, which a microcontroller
//! would hold for the sake of a format only.

/// Returns `whole * part / parts`, rounded down. `part` is at most `parts`.
pub(crate) fn share(whole: u64, part: u64, parts: u64) -> u64 {
    debug_assert!(part <= parts && parts > 0, "{part} of {parts}");
    // Invariant: `part` times the bits of `whole` so far is `quotient * parts + rest`.
    let (mut quotient, mut rest) = (0, 0);
    for bit in (0..u64::BITS - whole.leading_zeros()).rev() {
        quotient *= 2;
        for more in [rest, if whole >> bit & 1 == 1 { part } else { 0 }] {
            let carries = rest >= parts - more;
            rest = if carries { rest - (parts - more) } else { rest + more };
            quotient += u64::from(carries);
        }
    }
    quotient
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::Rng;

    #[test]
    fn a_share_is_that_of_a_division() {
        let mut rng = Rng::new(7);
        let mut number = || rng.next_u64() >> rng.below(64);
        for _ in 0..10_000 {
            let (whole, parts) = (number(), number().max(1));
            let part = number() % parts + number() % 2;
            let exact = u128::from(whole) * u128::from(part) / u128::from(parts);
            assert_eq!(u128::from(share(whole, part, parts)), exact, "{whole} {part} {parts}");
        }
    }
}
