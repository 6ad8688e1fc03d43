//! Any bytes as the image of a chip, mounted with every index and store.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| nandex_testkit::fuzz::chip_image(bytes));
