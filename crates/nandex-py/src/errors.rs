//! The exceptions, and which error of the engine or the lab becomes which.

use nandex::nand::NandError;
use nandex::{IndexError, StoreError};
use nandex_lab::LabError;
use nandex_os::LockError;
use pyo3::PyErr;
use pyo3::create_exception;
use pyo3::exceptions::PyException;

create_exception!(nandex, NandexError, PyException, "Whatever nandex refuses or fails to do.");
create_exception!(nandex, RequestError, NandexError, "A request that makes no sense, or cannot run so.");
create_exception!(
    nandex,
    StorageError,
    NandexError,
    "The storage below an index failed, or holds no such index."
);
create_exception!(
    nandex,
    PowerLost,
    StorageError,
    "The power of the simulated chip was cut; `mount` switches it on."
);
create_exception!(
    nandex,
    InUseError,
    StorageError,
    "Somebody else has the device or image open, or opened it before this process was forked."
);
create_exception!(nandex, FullError, StorageError, "No room is left; nothing was changed.");

/// The exception for a lock that is refused.
pub(crate) fn of_lock(error: &LockError) -> PyErr {
    match error {
        LockError::InUse(words) => InUseError::new_err(words.clone()),
        failed @ LockError::Failed { .. } => StorageError::new_err(failed.to_string()),
    }
}

/// The exception for an error of the lab.
pub(crate) fn of_lab(error: LabError) -> PyErr {
    match error {
        LabError::Index(error) => of_index(&error),
        error @ LabError::Io { .. } => StorageError::new_err(error.to_string()),
        other => RequestError::new_err(other.to_string()),
    }
}

/// The exception for an error of an index.
pub(crate) fn of_index(error: &IndexError) -> PyErr {
    let words = error.to_string();
    match error {
        IndexError::Store(StoreError::Nand(NandError::PowerLost)) => PowerLost::new_err(words),
        IndexError::Store(StoreError::InUse(words)) => InUseError::new_err(words.clone()),
        error if error.is_refusal() => FullError::new_err(words),
        IndexError::WrongLength { .. } | IndexError::NotAscending => RequestError::new_err(words),
        error if error.is_unsupported() => RequestError::new_err(words),
        _ => StorageError::new_err(words),
    }
}
