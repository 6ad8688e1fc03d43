//! Where inputs that do not come with the program are looked for: captured traces, names of authors.

use std::path::{Path, PathBuf};

/// Names the folder of the inputs, unless it is given.
pub const DATA_VARIABLE: &str = "NANDEX_DATA";

/// Where they usually lie, seen from the working directory.
const USUAL_FOLDERS: [&str; 3] = ["data/full", "../shared/data", "../../shared/data"];

/// The file of this name in the folder given, else in the one that [`DATA_VARIABLE`] names, else in the usual ones. An error
/// says where it is not.
pub fn find(file: &str, folder: Option<&Path>) -> Result<PathBuf, String> {
    let places: Vec<PathBuf> = match folder {
        Some(folder) => vec![folder.to_path_buf()],
        None => match std::env::var_os(DATA_VARIABLE) {
            Some(folder) => vec![folder.into()],
            None => USUAL_FOLDERS.iter().map(PathBuf::from).collect(),
        },
    };
    places.iter().map(|place| place.join(file)).find(|path| path.is_file()).ok_or_else(|| {
        let places: Vec<String> = places.iter().map(|place| place.display().to_string()).collect();
        format!("{file} is not in {}; name its folder with --data or {DATA_VARIABLE}", places.join(", "))
    })
}
