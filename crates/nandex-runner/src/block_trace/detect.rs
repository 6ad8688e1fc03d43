//! Which format a trace has, by the first line that means anything.

use super::{BlockFormat, FORMATS};

/// The format that this line can have. No two formats accept the same line.
pub(super) fn format(line: &str) -> Result<&'static BlockFormat, String> {
    FORMATS.iter().find(|f| (f.looks_like)(line)).ok_or_else(|| {
        let names: Vec<&str> = FORMATS.iter().map(|f| f.name).collect();
        let shown: String = line.chars().take(60).collect();
        format!("'{shown}' is of no format known here; name it: {}", names.join(", "))
    })
}
