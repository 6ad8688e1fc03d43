//! Bytes choose an index, store or spatial index, a workload and its power cuts.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| nandex_testkit::fuzz::chips::power_cut(bytes));
