//! Any bytes as the files of an experiment.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| nandex_testkit::fuzz::files::experiment_file(bytes));
