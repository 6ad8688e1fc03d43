//! Parses sizes, record formats and durability classes, from command lines and files. Every error names the
//! fault.

use crate::LabError;
use crate::machine;
use nandex::ordered::{Durability, RecordFormat};
use nandex_stacks::options::whole_number;

/// Parses a number of bytes, which may end with KiB, MiB or GiB.
pub fn bytes(text: &str) -> Result<usize, String> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let factor = match &text[digits.len()..] {
        "" | "B" => 1u64,
        "KiB" | "K" | "k" => 1 << 10,
        "MiB" | "M" => 1 << 20,
        "GiB" | "G" => 1 << 30,
        // A thousand or 1,024? Whoever writes it may mean either, so neither is taken in silence.
        unit @ ("KB" | "kB" | "MB" | "GB") => {
            let (digits, prefix) = (digits.trim_end(), unit[..1].to_uppercase());
            return Err(format!("'{unit}' may mean two sizes; write {digits}{prefix}iB, or all the bytes"));
        }
        unit => return Err(format!("'{unit}' is no unit; give B, KiB, MiB or GiB")),
    };
    let number = count_to(digits.trim_end(), u64::MAX)?;
    let (bytes, free) = (u128::from(number) * u128::from(factor), machine::memory_bytes());
    if bytes > u128::from(free) {
        let free = machine::shown(free.into());
        return Err(format!("that is more than the {free} of memory that this machine has free"));
    }
    usize::try_from(bytes).map_err(|_| "that is more than this computer can address".to_string())
}

/// Parses numbers of bytes separated by commas, and sorts them without repeats. `16KiB..640KiB` stands for
/// both ends and the powers of two between them.
pub fn byte_list(text: &str) -> Result<Vec<usize>, String> {
    let mut all = Vec::new();
    for part in text.split(',') {
        let Some((low, high)) = part.split_once("..") else {
            all.push(bytes(part.trim())?);
            continue;
        };
        let (low, high) = (bytes(low.trim())?, bytes(high.trim())?);
        if low > high {
            return Err(format!("'{part}' goes downwards"));
        }
        all.extend([low, high]);
        let powers = (0..usize::BITS).map(|bit| 1usize << bit);
        all.extend(powers.filter(|power| (low..high).contains(power)));
    }
    all.sort_unstable();
    all.dedup();
    Ok(all)
}

/// Parses a whole number from 1 to `most`; `_` may separate its digits.
pub fn count_to(text: &str, most: u64) -> Result<u64, String> {
    match whole_number(text, 1..=most) {
        Err(_) if text == "0" => Err("at least 1 is needed".to_string()),
        Err(why) => Err(format!("'{text}' {why}")),
        number => number,
    }
}

/// Parses the sizes of key and value in bytes, such as `8/4`.
pub fn record(text: &str) -> Result<RecordFormat, String> {
    let halves = text.split_once('/').ok_or("give bytes of key and value, such as 8/4")?;
    let size = |half: &str| half.parse::<u8>().map_err(|_| format!("'{half}' is not between 0 and 255"));
    match (size(halves.0)?, size(halves.1)?) {
        (0, _) => Err("a key has at least one byte".to_string()),
        (key, value) => Ok(RecordFormat::new(key, value)),
    }
}

/// The durability classes, strongest first.
pub static CLASSES: [Durability; 3] = [Durability::EveryOperation, Durability::EverySync, Durability::None];

/// Parses the name of a durability class; its words may be joined by `-`.
pub fn durability(text: &str) -> Result<&'static Durability, LabError> {
    let given = text.replace([' ', '_'], "-");
    let name = |class: &Durability| class.name().replace(' ', "-");
    CLASSES.iter().find(|class| name(class) == given).ok_or_else(|| {
        let known = CLASSES.map(|class| name(&class));
        LabError::unknown("durability class", text, known.iter().map(String::as_str))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_bytes_have_ranges() {
        assert_eq!(byte_list("64KiB,16KiB, 64KiB"), Ok(vec![16 << 10, 64 << 10]));
        let kib: Vec<usize> = byte_list("12KiB..80KiB").unwrap().iter().map(|b| b >> 10).collect();
        assert_eq!(kib, [12, 16, 32, 64, 80]);
        assert_eq!(byte_list("64KiB..16KiB").unwrap_err(), "'64KiB..16KiB' goes downwards");
        assert!(byte_list("16KiB,,").is_err() && byte_list("16KiB..").is_err());
    }
}
