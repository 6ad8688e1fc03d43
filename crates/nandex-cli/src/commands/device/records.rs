//! Keys and values as people write them: numbers, or bytes in hexadecimal.

use anyhow::Result;
use nandex::ordered::RecordFormat;
use nandex_lab::LabError;
use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::path::Path;

/// Most bytes of a number written in decimal.
const NUMBER_BYTES: usize = 8;

pub(super) struct Record {
    pub(super) key: Vec<u8>,
    pub(super) value: Vec<u8>,
}

/// The bytes of a text: a decimal number, encoded as `bytes` big-endian bytes, or `0x` and all bytes in
/// hexadecimal.
pub(super) fn encode(what: &str, text: &str, bytes: u8) -> Result<Vec<u8>, LabError> {
    let bytes = usize::from(bytes);
    let refused = |why: String| LabError::bad_option(what, text, why);
    if let Some(digits) = text.strip_prefix("0x") {
        let pairs = digits.as_bytes().chunks(2);
        let parsed: Option<Vec<u8>> = pairs.map(hex).collect();
        return match parsed.filter(|parsed| parsed.len() == bytes && digits.len() == 2 * bytes) {
            Some(parsed) => Ok(parsed),
            None => Err(refused(format!("give 0x and {} hexadecimal digits", 2 * bytes))),
        };
    }
    let number: u64 = text
        .parse()
        .map_err(|_| refused(format!("give a number, or 0x and {} hexadecimal digits", 2 * bytes)))?;
    let whole = number.to_be_bytes();
    let mut out = vec![0; bytes.saturating_sub(NUMBER_BYTES)];
    let cut = NUMBER_BYTES.saturating_sub(bytes);
    if whole[..cut].iter().any(|byte| *byte != 0) {
        return Err(refused(format!("the number does not fit {bytes} bytes")));
    }
    out.extend(&whole[cut..]);
    Ok(out)
}

fn hex(pair: &[u8]) -> Option<u8> {
    let digit = |byte: &u8| char::from(*byte).to_digit(16);
    match pair {
        [high, low] => Some((digit(high)? * 16 + digit(low)?) as u8),
        _ => None,
    }
}

/// The text of some bytes: a number if there are at most eight, otherwise hexadecimal.
pub(super) fn decode(bytes: &[u8]) -> String {
    if bytes.len() <= NUMBER_BYTES {
        return bytes.iter().fold(0u64, |number, byte| number << 8 | u64::from(*byte)).to_string();
    }
    bytes.iter().fold("0x".to_string(), |text, byte| format!("{text}{byte:02x}"))
}

/// Parses a key and a value that are separated by `between`.
pub(super) fn pair(text: &str, between: char, format: RecordFormat) -> Result<Record, LabError> {
    let text = text.trim();
    let (key, value) = text
        .split_once(between)
        .ok_or_else(|| LabError::bad_option("record", text, format!("give KEY{between}VALUE")))?;
    Ok(Record {
        key: encode("key", key.trim(), format.key_bytes)?,
        value: encode("value", value.trim(), format.value_bytes)?,
    })
}

/// Lines of a file, or of stdin if no file is given.
pub(super) fn lines(path: Option<&Path>) -> Result<Box<dyn Iterator<Item = io::Result<String>>>, LabError> {
    Ok(match path {
        None => Box::new(BufReader::new(io::stdin()).lines()),
        Some(path) => {
            let file = File::open(path).map_err(|e| LabError::io(path.display(), e))?;
            Box::new(BufReader::new(file).lines())
        }
    })
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_hexadecimal_are_bytes_and_back() {
        assert_eq!(encode("k", "258", 2).unwrap(), [1, 2]);
        assert_eq!(encode("k", "258", 10).unwrap(), [0, 0, 0, 0, 0, 0, 0, 0, 1, 2]);
        assert_eq!(encode("k", "0x0aFF", 2).unwrap(), [10, 255]);
        assert_eq!(
            (decode(&[1, 2]), decode(&[0, 1, 2, 3, 4, 5, 6, 7, 8])),
            ("258".into(), "0x000102030405060708".into())
        );
        for text in ["256", "0x1", "0x0102", "0xzz", "x", "-1", ""] {
            assert!(encode("k", text, 1).is_err(), "{text}");
        }
        let record = pair(" 1, 0x02 ", ',', RecordFormat::new(1, 1)).unwrap();
        assert_eq!((record.key, record.value), (vec![1], vec![2]));
        assert!(pair("1", '=', RecordFormat::new(1, 1)).is_err());
    }
}
