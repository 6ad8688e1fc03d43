//! The header agrees with the sources. `NANDEX_BLESS=1` generates it again.

use std::path::Path;

const TOP: &str = "\
/* Nandex: ordered indexes for flash memory. The interface for C and C++; docs/c.md explains it.

   Every function that answers int32_t answers a NANDEX_... code: 0 is success, NANDEX_NOT_FOUND no failure. Lengths and sizes are
   bytes. A handle, with its cursors, is used by one thread at a time, whichever. In a build for firmware all calls are made one
   at a time, unless the allocator handed over may be called by several threads. Made from the sources; do not edit. */";

fn generate() -> String {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/ffi");
    let sizes = cbindgen::Config { usize_is_size_t: true, ..cbindgen::Config::default() };
    let mut builder = cbindgen::Builder::new()
        .with_config(sizes)
        .with_language(cbindgen::Language::C)
        .with_cpp_compat(true)
        .with_style(cbindgen::Style::Both)
        .with_documentation(true)
        .with_include_guard("NANDEX_H")
        .with_no_includes()
        .with_sys_include("stddef.h")
        .with_sys_include("stdint.h")
        .with_header(TOP);
    for file in ["codes", "types", "memory", "index", "cursor", "handle", "map"] {
        builder = builder.with_src(folder.join(file).with_extension("rs"));
    }
    let mut bytes = Vec::new();
    builder.generate().expect("the sources can be read").write(&mut bytes);
    without_rust_sections(&String::from_utf8(bytes).expect("text"))
}

/// Removes the heading of the caller's promises, which is for Rust only, from the header.
fn without_rust_sections(text: &str) -> String {
    let mut lines: Vec<&str> = Vec::new();
    for line in text.lines() {
        if line.trim() == "* # Safety" {
            // And the empty line before it stays; the one after it goes.
            continue;
        }
        let is_empty = |line: &str| line.trim() == "*";
        if is_empty(line) && lines.last().is_some_and(|last| is_empty(last)) {
            continue;
        }
        lines.push(line);
    }
    lines.join("\n") + "\n"
}

#[test]
fn the_header_is_up_to_date() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("include/nandex.h");
    let made = generate();
    if std::env::var_os("NANDEX_BLESS").is_some() {
        std::fs::write(&path, &made).expect("the header can be written");
    }
    let committed = std::fs::read_to_string(&path).unwrap_or_default().replace("\r\n", "\n");
    assert!(
        committed == made,
        "include/nandex.h is not what the sources make: NANDEX_BLESS=1 cargo test -p nandex-c --test suite header::"
    );
}
