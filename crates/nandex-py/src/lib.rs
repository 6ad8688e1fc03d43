//! The module that Python loads as `nandex._native`: the lab and the indexes behind plain text and bytes.
//!
//! Requests and results cross the border as JSON, keys and values as bytes. The package in `python/nandex`
//! wraps them for users. Without the feature `python` the module is empty.
#![cfg(feature = "python")]

mod errors;
mod index;
mod lab;
mod lists;
mod place;

use pyo3::prelude::*;

/// The native part of nandex.
#[pymodule]
mod _native {
    #[pymodule_export]
    use super::errors::{FullError, InUseError, NandexError, PowerLost, RequestError, StorageError};
    #[pymodule_export]
    use super::index::RawIndex;
    #[pymodule_export]
    use super::lab::{
        advise, columns, commit, details, grid_cells, load_grid, request_key, rows, run_cell, run_cells,
        run_experiment, store_find, store_put, version,
    };
    #[pymodule_export]
    use super::lists::list_of;
}
