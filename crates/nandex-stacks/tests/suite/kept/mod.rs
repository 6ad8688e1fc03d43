//! Chips of earlier releases: each image of the corpus (`tests/corpus`) mounts, has the expected contents,
//! takes changes and mounts again.
//!
//! An image is never recorded again. `NANDEX_RECORD=1 cargo test -p nandex-stacks --test suite kept::` adds
//! missing ones: those of a new index, or all of a new folder.

#![allow(clippy::unwrap_used)]

pub(crate) mod history;
pub(crate) mod image;
pub(crate) mod judge;
pub(crate) mod record;
pub(crate) mod subject;

use image::{FOLDERS, corpus, images};
use std::fs;

/// Bytes of the whole corpus at most.
const BYTES_MAX: u64 = 2_000_000;

#[test]
fn chips_of_former_releases_mount_and_take_changes() {
    if std::env::var_os("NANDEX_RECORD").is_some() {
        println!("recorded: {:?}", record::record_missing());
    }
    let mut faults = Vec::new();
    for image in FOLDERS.iter().flat_map(|folder| images(folder)) {
        if let Err(fault) = judge::image(&image, &image.chip()) {
            faults.push(format!("{}/{}: {fault}", image.folder, image.name));
        }
    }
    assert!(faults.is_empty(), "\n{}", faults.join("\n"));
}

#[test]
fn the_corpus_has_every_subject_and_is_small() {
    let lacking = record::without_images();
    assert!(lacking.is_empty(), "no image of {lacking:?}; NANDEX_RECORD=1 records them");
    let mut bytes = 0;
    for folder in FOLDERS {
        let files = fs::read_dir(corpus().join(folder)).unwrap();
        bytes += files.map(|file| file.unwrap().metadata().unwrap().len()).sum::<u64>();
    }
    assert!(bytes < BYTES_MAX, "{bytes} bytes");
}
