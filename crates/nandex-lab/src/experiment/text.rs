//! Values of options as people write them in a file: text, whole numbers, fractions, `true` and `false`; all
//! are text to an option.

use serde::de::{Deserialize, Deserializer, Error, Visitor};
use std::collections::BTreeMap;
use std::fmt;

/// A value of any simple type, read as text.
struct Text(String);

struct AnyPlain;

impl Visitor<'_> for AnyPlain {
    type Value = Text;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a text, a number, true or false")
    }

    fn visit_str<E: Error>(self, value: &str) -> Result<Text, E> {
        Ok(Text(value.to_string()))
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<Text, E> {
        Ok(Text(value.to_string()))
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<Text, E> {
        Ok(Text(value.to_string()))
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<Text, E> {
        Ok(Text(value.to_string()))
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<Text, E> {
        Ok(Text(value.to_string()))
    }
}

impl<'de> Deserialize<'de> for Text {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Text, D::Error> {
        from.deserialize_any(AnyPlain)
    }
}

fn plain(read: BTreeMap<String, Text>) -> BTreeMap<String, String> {
    read.into_iter().map(|(name, Text(value))| (name, value)).collect()
}

/// Reads options by name.
pub(crate) fn texts<'de, D: Deserializer<'de>>(from: D) -> Result<BTreeMap<String, String>, D::Error> {
    BTreeMap::deserialize(from).map(plain)
}

/// Reads options by name, for several contenders by theirs.
pub(super) fn texts_of<'de, D: Deserializer<'de>>(
    from: D,
) -> Result<BTreeMap<String, BTreeMap<String, String>>, D::Error> {
    let read = BTreeMap::<String, BTreeMap<String, Text>>::deserialize(from)?;
    Ok(read.into_iter().map(|(name, options)| (name, plain(options))).collect())
}
