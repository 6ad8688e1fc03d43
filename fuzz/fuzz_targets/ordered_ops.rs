//! The first byte chooses an index; the others a chip, settings, operations, remounts and power cuts.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| nandex_testkit::fuzz::ordered_ops(bytes));
