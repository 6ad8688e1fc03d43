//! The limits of this machine. Requested sizes are compared with them before anything is allocated: a failed
//! allocation would end the program without telling which option was too large.
//!
//! The limits only decide what is refused; no result depends on them.

use crate::error::LabError;
use std::fs;
use std::sync::OnceLock;

/// Assumed memory of a system that does not report it, in bytes.
const UNKNOWN_BYTES: u64 = 16 << 30;

/// Bytes of memory that were free at the first call: the bytes available on the system, or below the limit of
/// this process if that is less.
pub fn memory_bytes() -> u64 {
    static FREE: OnceLock<u64> = OnceLock::new();
    *FREE.get_or_init(|| {
        let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
        let number = |path: &str| read(path).trim().parse::<u64>().ok();
        let limit = number("/sys/fs/cgroup/memory.max");
        let used = number("/sys/fs/cgroup/memory.current").unwrap_or(0);
        let limited = limit.map(|limit| limit.saturating_sub(used));
        let available = available_bytes(&read("/proc/meminfo"));
        [available, limited].into_iter().flatten().min().unwrap_or(UNKNOWN_BYTES)
    })
}

fn available_bytes(meminfo: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
}

/// Refuses the value of an option if it needs more memory than is free.
pub fn require(name: &str, value: &str, bytes: u128) -> Result<(), LabError> {
    let free = memory_bytes();
    if bytes <= u128::from(free) {
        return Ok(());
    }
    let reason =
        format!("takes {} of memory, and this machine has {} free", shown(bytes), shown(free.into()));
    Err(LabError::bad_option(name, value, reason))
}

/// The size in its largest binary unit, rounded down.
pub fn shown(bytes: u128) -> String {
    let units = [(40, "TiB"), (30, "GiB"), (20, "MiB"), (10, "KiB")];
    let unit = units.into_iter().find(|(bits, _)| bytes >> bits > 0);
    unit.map_or_else(|| format!("{bytes} B"), |(bits, name)| format!("{} {name}", bytes >> bits))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_of_the_system_is_read() {
        let text = "MemTotal:  24 kB\nMemAvailable:    3 kB\nBuffers: 1 kB\n";
        assert_eq!(available_bytes(text), Some(3072));
        assert_eq!(available_bytes("MemTotal: 24 kB\n"), None);
        assert_eq!(available_bytes("MemAvailable: much\n"), None);
        assert!(memory_bytes() > 0);
    }

    #[test]
    fn what_does_not_fit_is_refused_with_both_sizes() {
        assert!(require("ram", "1", 1).is_ok());
        let error = require("ram", "9", u128::from(u64::MAX) << 30).unwrap_err().to_string();
        assert!(error.starts_with("option ram: '9' takes ") && error.contains("this machine has"), "{error}");
        assert_eq!([shown(900), shown(2048), shown(5 << 30)], ["900 B", "2 KiB", "5 GiB"]);
    }
}
