//! FTLs behind a Transit Buffer Manager.

use super::part;
use nandex::nand::sim::SimChip;
use nandex::ordered::RecordFormat;
use nandex::{Cause, Lpn, Shared};
use nandex_stacks::options::Settings;
use nandex_stacks::registry::STORES;
use nandex_stacks::tbm::{OPTIONS, TBM_STORES, find};

fn settings(options: &[(&str, u32)]) -> Settings {
    let settings = Settings::new(RecordFormat::new(4, 4));
    options.iter().fold(settings, |settings, (name, value)| settings.with(name, value))
}

#[test]
fn each_is_the_store_that_its_name_says() {
    assert_eq!(TBM_STORES.len(), STORES.len());
    for (behind, alone) in TBM_STORES.iter().zip(STORES) {
        assert_eq!(behind.name, format!("tbm+{}", alone.name));
        assert_eq!(behind.options.len(), alone.options.len() + OPTIONS.len());
        assert_eq!(find(behind.name).unwrap().name, behind.name);
        assert_eq!(find(alone.name).unwrap().name, alone.name);
    }
    let told = |name| find(name).unwrap_err().to_string();
    assert!(told("tbm+fats").contains("did you mean 'tbm+fast'?"), "{}", told("tbm+fats"));
    assert!(told("pagemap").contains("did you mean 'page-map'?"), "{}", told("pagemap"));
}

#[test]
fn what_was_written_is_there_after_a_mount_over_every_ftl() {
    let part = part(2048, 16, 64);
    for entry in TBM_STORES {
        let settings = settings(&[("tbm_blocks", 5), ("whole_from", 6)]);
        let chip = Shared::new(SimChip::new(&part).unwrap());
        let mut store = (entry.format)(Box::new(chip.clone()), &settings).unwrap();
        assert!(store.atomic_pages_max() == 5 && store.durable_writes(), "{}", entry.name);
        let pages = store.page_count();
        let page = |lpn: u32, round: u32| [lpn as u8, round as u8].repeat(1024);
        let mut newest = vec![0; pages as usize];
        for i in 0..3000u32 {
            let lpn = i.wrapping_mul(2_654_435_761) % pages.min(400);
            newest[lpn as usize] = i;
            store.write(Lpn(lpn), Cause::Host, &page(lpn, i)).unwrap();
        }
        let stats = store.stats();
        assert!(stats.conversions > 100 && stats.converted_pages > stats.conversions, "{stats:?}");
        assert!(stats.mapping_bytes as usize <= store.ram_bytes(), "{}", entry.name);
        drop(store);
        let mut store = (entry.mount)(Box::new(chip), &settings).unwrap();
        let mut found = vec![0; 2048];
        for lpn in 0..pages {
            store.read(Lpn(lpn), Cause::Host, &mut found).unwrap();
            let last = newest[lpn as usize];
            let expected = if last == 0 { vec![0; 2048] } else { page(lpn, last) };
            // The first write of all is round 0.
            assert!(found == expected || lpn == 0 && last == 0, "{} lpn {lpn}", entry.name);
        }
    }
}

#[test]
fn what_makes_no_sense_is_refused_in_words() {
    let part = part(2048, 64, 64);
    let fast = find("tbm+fast").unwrap();
    let refusal = |settings: &Settings| {
        let chip = Box::new(SimChip::new(&part).unwrap());
        (fast.format)(chip, settings).map(|_| ()).unwrap_err().to_string()
    };
    let cases: [(&[(&str, u32)], &str); 4] = [
        (&[("tbm_blocks", 0)], "tbm_blocks = 0, tbm_spare_blocks = 2: 1 and 2 at least are possible"),
        (&[("tbm_blocks", 64)], "68 blocks for the TBM leave none of 64 for the FTL"),
        (&[("tbm_blocks", 8), ("tbm_spare_blocks", 1)], "1 and 2 at least are possible"),
        (&[("whole_from", 65)], "whole_from: '65' is not between 0 and 64"),
    ];
    for (options, why) in cases {
        let told = refusal(&settings(options));
        assert!(told.contains(why), "{told}");
    }
    let poor = Settings { ram_bytes: Some(10_000), ..settings(&[]) };
    let told = refusal(&poor);
    assert!(told.contains("FTL and TBM hold up to") && told.contains("10000 were given"), "{told}");
}
