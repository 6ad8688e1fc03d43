//! Folders of inputs that are not built into the program: the full traces of the repository, names of
//! authors.

use std::path::{Path, PathBuf};

/// Name of the environment variable for the folder of inputs, used if no folder is given.
pub const DATA_VARIABLE: &str = "NANDEX_DATA";

/// Places of the folder in the repository, relative to its root and to a crate.
const USUAL_FOLDERS: [&str; 2] = ["data/full", "../../data/full"];

/// Finds a file in `folder`. Without a folder it is searched in that of [`DATA_VARIABLE`], then in the
/// repository's. The error lists the places searched.
pub fn find(file: &str, folder: Option<&Path>) -> Result<PathBuf, String> {
    let usual = USUAL_FOLDERS.iter().map(PathBuf::from);
    let places: Vec<PathBuf> = match folder {
        Some(folder) => vec![folder.to_path_buf()],
        None => std::env::var_os(DATA_VARIABLE).map(PathBuf::from).into_iter().chain(usual).collect(),
    };
    places.iter().map(|place| place.join(file)).find(|path| path.is_file()).ok_or_else(|| {
        let places: Vec<String> = places.iter().map(|place| place.display().to_string()).collect();
        format!("{file} is not in {}; name its folder with --data or {DATA_VARIABLE}", places.join(", "))
    })
}
