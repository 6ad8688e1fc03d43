//! Any bytes as a chip file.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| nandex_testkit::fuzz::files::chip_file(bytes));
