//! Chips of a few blocks: refused at format with what is needed, or good for some records.

use super::*;

#[test]
fn a_chip_that_takes_no_record_is_refused_at_format() {
    for kind in kinds() {
        let mut accepted = 0;
        for blocks in 1..14 {
            let mut kind = kind.clone();
            kind.part.geometry.blocks = blocks;
            let Ok(chip) = SimChip::new(&kind.part) else { continue };
            let chip = Harmed::new(chip);
            let mut index = match kind.format(&chip) {
                Ok(index) => index,
                Err(error) if error.is_unsupported() => {
                    let why = error.to_string();
                    assert!(why.contains("block") || why.contains("chip"), "{}: {why}", kind.name);
                    continue;
                }
                Err(error) => panic!("{} on {blocks} blocks: {error}", kind.name),
            };
            accepted += 1;
            for key in 1..20u32 {
                let done = index.insert(&key.to_be_bytes(), &[0; 4]);
                assert_eq!(done, Ok(false), "{} on {blocks} blocks: record {key}", kind.name);
            }
            index.close().unwrap();
            assert_eq!(contents(&mut kind.mount(&chip).unwrap()).unwrap().len(), 19);
        }
        assert!(accepted > 0 || kind.name == "vmtree-ow-log", "{}", kind.name);
    }
}
