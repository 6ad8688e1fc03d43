//! Puts the memory map of the board where the linker finds it: the target says which board.

use std::path::PathBuf;
use std::{env, fs};

fn main() {
    let target = env::var("TARGET").unwrap_or_default();
    let map = if target.starts_with("thumbv6m") { "rp2040.x" } else { "stm32f4.x" };
    let out = PathBuf::from(env::var_os("OUT_DIR").unwrap_or_default());
    let text = fs::read_to_string(map).unwrap_or_else(|error| panic!("{map}: {error}"));
    fs::write(out.join("memory.x"), text).unwrap_or_else(|error| panic!("{}: {error}", out.display()));
    println!("cargo:rustc-link-search={}", out.display());
    println!("cargo:rustc-link-arg=-Tlink.x");
    println!("cargo:rerun-if-changed={map}");
}
