//! Compiles littlefs' C, which the crate `littlefs2-sys` ships. The crate itself is not built, since it makes
//! its bindings with libclang, which is not everywhere; Cargo only fetches it.

use std::path::PathBuf;
use std::process::Command;
use std::{env, error, fs};

fn main() -> Result<(), Box<dyn error::Error>> {
    let cargo = env::var("CARGO")?;
    let asked = ["metadata", "--format-version", "1", "--locked", "--all-features"];
    let told = Command::new(cargo).args(asked).output()?;
    let told = String::from_utf8(told.stdout)?;
    let manifest = told
        .split("\"manifest_path\":\"")
        .filter_map(|rest| rest.split('"').next())
        .map(PathBuf::from)
        .find(|path| path.to_string_lossy().contains("littlefs2-sys-"))
        .ok_or("cargo metadata names no littlefs2-sys")?;
    let sources = manifest.with_file_name("littlefs");
    let shim = "src/stores/littlefs.c";
    println!("cargo::rerun-if-changed={shim}");
    println!("cargo::rerun-if-changed=Cargo.lock");
    let mut build = cc::Build::new();
    for define in ["LFS_NO_DEBUG", "LFS_NO_WARN", "LFS_NO_ERROR", "LFS_NO_ASSERT", "LFS_NO_MALLOC"] {
        build.define(define, None);
    }
    build.std("c99").include(&sources).file(shim);
    for source in ["lfs.c", "lfs_util.c"] {
        build.file(sources.join(source));
    }
    build.compile("littlefs");
    // The version stands in the header alone.
    let header = fs::read_to_string(sources.join("lfs.h"))?;
    if !header.contains("#define LFS_VERSION 0x0002") {
        return Err("another littlefs than version 2".into());
    }
    Ok(())
}
