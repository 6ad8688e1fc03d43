//! Facts about a device in `/sys/class/mtd` that do not fit the structures of the requests.

use crate::error::MtdError;
use std::fs;
use std::path::{Path, PathBuf};

/// The folder of a device.
pub(crate) struct Sysfs {
    folder: PathBuf,
}

impl Sysfs {
    /// The folder of a device such as `/dev/mtd3`, by its name; links are followed.
    pub(crate) fn of(device: &Path) -> Result<Sysfs, MtdError> {
        let real = fs::canonicalize(device).map_err(|e| MtdError::system(device, "find", &e))?;
        let name = real.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let number = name.strip_prefix("mtd").unwrap_or_default().trim_end_matches("ro");
        if number.is_empty() || !number.bytes().all(|b| b.is_ascii_digit()) {
            let why = "is no MTD device: one is called /dev/mtd0, /dev/mtd1 and so on";
            return Err(MtdError::unsupported(&device.display().to_string(), why));
        }
        Ok(Sysfs { folder: Path::new("/sys/class/mtd").join(format!("mtd{number}")) })
    }

    #[cfg(test)]
    fn at(folder: &Path) -> Sysfs {
        Sysfs { folder: folder.to_path_buf() }
    }

    /// A line of text.
    pub(crate) fn text(&self, name: &str) -> Result<String, MtdError> {
        let path = self.folder.join(name);
        let text = fs::read_to_string(&path).map_err(|e| MtdError::system(&path, "read", &e))?;
        Ok(text.trim().to_string())
    }

    /// Reads a file that contains a number.
    pub(crate) fn number(&self, name: &str) -> Result<u64, MtdError> {
        let text = self.text(name)?;
        text.parse().map_err(|_| {
            let path = self.folder.join(name);
            MtdError::unsupported(&path.display().to_string(), format!("'{text}' is no number"))
        })
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_answers_and_what_is_no_device_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("size"), "4294967296\n").unwrap();
        fs::write(folder.path().join("name"), "NAND 0\n").unwrap();
        let sysfs = Sysfs::at(folder.path());
        assert_eq!(sysfs.number("size").unwrap(), 4 << 30);
        assert!(sysfs.number("name").unwrap_err().to_string().contains("'NAND 0' is no number"));
        assert!(sysfs.text("oobavail").unwrap_err().to_string().contains("oobavail"));
        let refused = Sysfs::of(folder.path()).err().unwrap().to_string();
        assert!(refused.contains("no MTD device"), "{refused}");
        assert!(Sysfs::of(Path::new("/dev/mtd987")).err().unwrap().to_string().contains("cannot find"));
    }
}
