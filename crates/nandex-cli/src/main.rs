//! The `nandex` program.

fn main() {}
