//! Any bytes as the pages of a chip, mounted with every index, store and spatial index.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| nandex_testkit::fuzz::chips::chip_pages(bytes));
