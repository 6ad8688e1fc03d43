//! Any bytes as a trace, in every form and format.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| nandex_testkit::fuzz::files::trace(bytes));
