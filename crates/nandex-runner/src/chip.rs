//! Chips as people name them: a part of the catalogue, a TOML file of one's own, or an image of a chip on
//! disk.
//!
//! A chip file gives every number by name, or says `like = "mlc-64m"` and gives only what differs:
//!
//! ```toml
//! like = "w25n01gv"
//! blocks = 256
//! read_us = 70.5                # or read_ns
//! ```

use crate::error::LabError;
use crate::input;
use crate::machine;
use crate::results::ChipFacts;
use nandex::nand::sim::SimChip;
use nandex::nand::{Geometry, Pairing, Part, PartError, Supply, Timing, WordTiming, catalogue};
use serde::Deserialize;
use std::borrow::Cow;
use std::fs;
use std::path::Path;

/// Finds a part by its name in the catalogue, or reads it from a chip file.
pub fn find(name_or_file: &str) -> Result<Part, LabError> {
    if let Some(part) = catalogue::find(name_or_file) {
        return Ok(part.clone());
    }
    let path = Path::new(name_or_file);
    if path.extension().is_some_and(|extension| extension == "toml") || path.is_file() {
        return load(path);
    }
    Err(LabError::unknown("chip", name_or_file, catalogue::parts().map(|part| part.name.as_ref())))
}

/// Reads the part that a chip file describes.
pub fn load(path: &Path) -> Result<Part, LabError> {
    let bytes = input::read(path, CHIP_FILE_BYTES_MAX)?;
    let text = input::text(&bytes)
        .map_err(|(_, reason)| LabError::Chip { file: path.display().to_string(), reason })?;
    let name = path.file_stem().map_or(Cow::Borrowed("chip"), |stem| stem.to_string_lossy());
    let part = parse(&text, &name).map_err(|reason| LabError::Chip {
        file: path.display().to_string(),
        reason: reason.trim_end().to_string(),
    })?;
    require_memory(&part)?;
    Ok(part)
}

/// Approximate largest size of tables for each page of a chip, in bytes. The contents are not in it.
const TABLE_BYTES: u128 = 32;

/// Refuses a chip whose tables alone do not fit into the memory of this machine.
fn require_memory(part: &Part) -> Result<(), LabError> {
    let geometry = part.geometry;
    machine::require("blocks", &geometry.blocks.to_string(), u128::from(geometry.pages()) * TABLE_BYTES)
}

/// The facts about a chip that results tell.
pub fn facts(part: &Part) -> ChipFacts {
    let geometry = &part.geometry;
    ChipFacts {
        name: part.name.to_string(),
        page_bytes: geometry.page_bytes,
        spare_bytes: geometry.spare_bytes,
        pages_per_block: geometry.pages_per_block,
        blocks: geometry.blocks,
        page_read_ns: part.page_read_ns(),
        page_program_ns: part.page_program_ns(),
        block_erase_ns: part.timing.erase_ns,
        endurance_erases: part.endurance_erases,
    }
}

/// Writes an image of the chip, compressed.
pub fn save_image(path: &Path, chip: &SimChip) -> Result<(), LabError> {
    let compressed = zstd::bulk::compress(&chip.to_image(), zstd::DEFAULT_COMPRESSION_LEVEL);
    compressed.and_then(|bytes| fs::write(path, bytes)).map_err(|error| LabError::io(path.display(), error))
}

/// Reads an image of a chip, compressed or not.
pub fn load_image(path: &Path) -> Result<SimChip, LabError> {
    let chip = SimChip::from_image(&input::read(path, IMAGE_BYTES_MAX)?)
        .map_err(|error| LabError::Chip { file: path.display().to_string(), reason: error.to_string() })?;
    require_memory(chip.part())?;
    Ok(chip)
}

/// Largest image that is read, in bytes.
const IMAGE_BYTES_MAX: u64 = 8 << 30;

/// Largest chip file that is read, in bytes. Real ones have some hundred bytes.
const CHIP_FILE_BYTES_MAX: u64 = 64 << 10;

/// The fields of a chip file.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ChipFile {
    name: Option<String>,
    like: Option<String>,
    page_bytes: Option<u32>,
    spare_bytes: Option<u32>,
    pages_per_block: Option<u32>,
    blocks: Option<u32>,
    nop: Option<u32>,
    random_order: Option<bool>,
    channels: Option<u32>,
    append_bytes: Option<u16>,
    pairing: Option<String>,
    read_us: Option<f64>,
    read_ns: Option<u64>,
    program_us: Option<f64>,
    program_ns: Option<u64>,
    first_word_us: Option<f64>,
    next_word_us: Option<f64>,
    program_page_bytes: Option<u32>,
    program_page_us: Option<f64>,
    erase_us: Option<f64>,
    erase_ns: Option<u64>,
    transfer_ns_per_byte: Option<f64>,
    endurance: Option<u32>,
    voltage_mv: Option<u32>,
    read_ma: Option<u32>,
    program_ma: Option<u32>,
    erase_ma: Option<u32>,
    transfer_ma: Option<u32>,
}

/// Parses the text of a chip file. `file_name` is for errors.
pub fn parse(text: &str, file_name: &str) -> Result<Part, String> {
    let file: ChipFile = toml::from_str(text).map_err(|error| error.to_string())?;
    let like = file.like.as_deref().map(base).transpose()?;
    let geometry = geometry(&file, like.map(|part| part.geometry))?;
    let timing = timing(&file, like.map(|part| part.timing))?;
    let mut part = Part::new("", geometry, timing);
    if let Some(words) = words(&file, like)? {
        part = part.with_words(words);
    }
    part.supply = supply(&file, like.map_or(part.supply, |part| part.supply));
    part.endurance_erases =
        file.endurance.unwrap_or(like.map_or(part.endurance_erases, |part| part.endurance_erases));
    if let Some(name) = &file.pairing {
        part.pairing = Pairing::ALL.into_iter().find(|pairing| pairing.name() == name).ok_or_else(|| {
            let known = Pairing::ALL.map(Pairing::name).join(", ");
            format!("pairing = \"{name}\": one of {known}")
        })?;
    }
    part.name = Cow::Owned(file.name.unwrap_or_else(|| file_name.to_string()));
    part.validate().map_err(|error| refusal(&error))?;
    Ok(part)
}

/// An impossible number, in the words of a chip file.
fn refusal(error: &PartError) -> String {
    match error.field {
        "programs_per_page_max" => format!("nop = {}: {}", error.value, error.reason),
        "transfer_ps_per_byte" => {
            format!("transfer_ns_per_byte = {}: {}", error.value as f64 / 1000.0, error.reason)
        }
        _ => error.to_string(),
    }
}

fn base(name: &str) -> Result<&'static Part, String> {
    catalogue::find(name).ok_or_else(|| {
        let known = catalogue::parts().map(|part| part.name.as_ref());
        format!("like: {}", LabError::unknown("chip", name, known))
    })
}

fn need<T>(field: &str, given: Option<T>, like: Option<T>) -> Result<T, String> {
    given
        .or(like)
        .ok_or_else(|| format!("{field} is missing: give it, or name a known chip with like = \"...\""))
}

fn geometry(file: &ChipFile, like: Option<Geometry>) -> Result<Geometry, String> {
    let mut geometry = Geometry::new(
        need("page_bytes", file.page_bytes, like.map(|g| g.page_bytes))?,
        need("spare_bytes", file.spare_bytes, like.map(|g| g.spare_bytes))?,
        need("pages_per_block", file.pages_per_block, like.map(|g| g.pages_per_block))?,
        need("blocks", file.blocks, like.map(|g| g.blocks))?,
    );
    let words = file.append_bytes.or(like.map(|g| g.append_bytes));
    geometry.append_bytes = words.unwrap_or(geometry.append_bytes);
    let nop = file.nop.or(like.map(|g| g.programs_per_page_max)).unwrap_or(geometry.programs_per_page_max);
    geometry = geometry.with_programs_per_page_max(nop);
    geometry.random_order =
        file.random_order.or(like.map(|g| g.random_order)).unwrap_or(geometry.random_order);
    geometry.channels = file.channels.or(like.map(|g| g.channels)).unwrap_or(geometry.channels);
    Ok(geometry)
}

fn timing(file: &ChipFile, like: Option<Timing>) -> Result<Timing, String> {
    let latency = |name: &str, us: Option<f64>, ns: Option<u64>, like: Option<u64>| match (us, ns) {
        (Some(_), Some(_)) => Err(format!("give {name}_us or {name}_ns, not both")),
        (Some(us), None) => thousandths(&format!("{name}_us"), us),
        (None, ns) => need(&format!("{name}_us"), ns, like),
    };
    let transfer = file.transfer_ns_per_byte.map(|ns| thousandths("transfer_ns_per_byte", ns)).transpose()?;
    Ok(Timing {
        read_ns: latency("read", file.read_us, file.read_ns, like.map(|t| t.read_ns))?,
        program_ns: latency("program", file.program_us, file.program_ns, program_like(file, like))?,
        erase_ns: latency("erase", file.erase_us, file.erase_ns, like.map(|t| t.erase_ns))?,
        transfer_ps_per_byte: need("transfer_ns_per_byte", transfer, like.map(|t| t.transfer_ps_per_byte))?,
    })
}

/// The time of a page where none is given: that of another part. Where single words take their time, a page
/// takes theirs.
fn program_like(file: &ChipFile, like: Option<Timing>) -> Option<u64> {
    like.map(|timing| timing.program_ns).or(file.first_word_us.map(|_| 0))
}

/// The time of single words; `None` if neither the file nor the part that it is like has any.
fn words(file: &ChipFile, like: Option<&Part>) -> Result<Option<WordTiming>, String> {
    let like = like.and_then(|part| part.words);
    let is_given = file.first_word_us.is_some() || file.next_word_us.is_some();
    if !is_given && like.is_none() {
        return Ok(None);
    }
    let time = |name: &str, us: Option<f64>, like: Option<u64>| {
        let ns = us.map(|us| thousandths(name, us)).transpose()?;
        need(name, ns, like)
    };
    Ok(Some(WordTiming::new(
        time("first_word_us", file.first_word_us, like.map(|words| words.first_ns))?,
        time("next_word_us", file.next_word_us, like.map(|words| words.next_ns))?,
        need("program_page_bytes", file.program_page_bytes, like.map(|words| words.page_bytes))?,
        time("program_page_us", file.program_page_us, like.map(|words| words.page_ns))?,
    )))
}

/// Converts a time to the unit a thousand times smaller, rounded.
fn thousandths(field: &str, value: f64) -> Result<u64, String> {
    if value.is_finite() && value >= 0.0 {
        Ok((value * 1000.0).round() as u64)
    } else {
        Err(format!("{field} = {value}: a time is not negative"))
    }
}

fn supply(file: &ChipFile, like: Supply) -> Supply {
    Supply {
        voltage_mv: file.voltage_mv.unwrap_or(like.voltage_mv),
        read_ma: file.read_ma.unwrap_or(like.read_ma),
        program_ma: file.program_ma.unwrap_or(like.program_ma),
        erase_ma: file.erase_ma.unwrap_or(like.erase_ma),
        transfer_ma: file.transfer_ma.or(file.read_ma).unwrap_or(like.transfer_ma),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nandex::nand::Nand;
    use nandex::{Cause, Pbn, Ppn};

    const WHOLE: &str = "page_bytes = 2048\nspare_bytes = 64\npages_per_block = 64\nblocks = 128\n\
                         read_us = 25\nprogram_ns = 200_100\nerase_us = 1500.5\ntransfer_ns_per_byte = 19.231\n";

    fn refused(text: &str) -> String {
        parse(text, "mine").unwrap_err()
    }

    #[test]
    fn a_name_finds_its_part_and_a_near_one_is_suggested() {
        assert_eq!(find("mlc-64m").unwrap(), catalogue::mlc_64m());
        let error = find("mlc64m").unwrap_err().to_string();
        assert_eq!(error, "there is no chip 'mlc64m'; did you mean 'mlc-64m'?");
    }

    #[test]
    fn a_chip_file_describes_a_part() {
        let part = parse(WHOLE, "mine").unwrap();
        assert_eq!((part.name.as_ref(), part.geometry), ("mine", Geometry::new(2048, 64, 64, 128)));
        let timing = part.timing;
        assert_eq!((timing.read_ns, timing.program_ns, timing.erase_ns), (25_000, 200_100, 1_500_500));
        assert_eq!(timing.transfer_ps_per_byte, 19_231);
        let more =
            "name = \"x\"\nnop = 4\nrandom_order = true\nendurance = 7\nvoltage_mv = 1800\nread_ma = 9\n";
        let part = parse(&format!("{more}{WHOLE}"), "mine").unwrap();
        assert_eq!((part.name.as_ref(), part.endurance_erases), ("x", 7));
        assert!(part.geometry.random_order && part.geometry.programs_per_page_max == 4);
        assert_eq!((part.pairing, part.geometry.append_bytes), (Pairing::None, 0));
        let odd = parse(&WHOLE.replace("2048", "2000"), "mine").unwrap();
        assert_eq!(odd.geometry, Geometry::new(2000, 64, 64, 128));
        let words = parse(&format!("append_bytes = 8\n{WHOLE}"), "mine").unwrap();
        assert_eq!(words.geometry, Geometry::new(2048, 64, 64, 128).with_append_bytes(8));
        let nor = parse(&format!("nop = 4294967295\n{WHOLE}"), "mine").unwrap();
        assert!(nor.geometry.overwrites() && nor.geometry.append_bytes == 1);
        let timed = "append_bytes = 1\nfirst_word_us = 30\nnext_word_us = 2.5\nprogram_page_bytes = 256\n\
                     program_page_us = 400\n";
        let words = parse(&format!("{timed}{WHOLE}"), "mine").unwrap();
        assert_eq!(words.words, Some(WordTiming::new(30_000, 2_500, 256, 400_000)));
        assert_eq!(words.timing.program_ns, 8 * 400_000 + 30_000 + 63 * 2_500);
        assert!(refused(&format!("first_word_us = 30\n{WHOLE}")).starts_with("next_word_us is missing"));
        assert!(
            refused(&format!("{timed}{WHOLE}").replace("= 1\n", "= 0\n")).starts_with("append_bytes = 0: ")
        );
        assert!(
            refused(&format!("{timed}{WHOLE}").replace("256", "0")).starts_with("program_page_bytes = 0: ")
        );
        assert!(refused(&format!("{timed}{WHOLE}").replace("2.5", "1e300")).starts_with("next_word_ns = "));
        assert!(refused(&format!("append_bytes = 7\n{WHOLE}")).starts_with("append_bytes = 7: "));
        let paired = parse(&format!("pairing = \"dist3\"\n{WHOLE}"), "mine").unwrap();
        assert_eq!(paired.pairing, Pairing::Three);
        assert_eq!(
            refused(&format!("pairing = \"dist9\"\n{WHOLE}")),
            "pairing = \"dist9\": one of none, dist3"
        );
        let supply = part.supply;
        assert_eq!(
            (supply.voltage_mv, supply.read_ma, supply.transfer_ma, supply.erase_ma),
            (1800, 9, 9, 25)
        );
    }

    #[test]
    fn a_chip_file_may_say_what_it_is_like() {
        let part = parse("like = \"mlc-64m\"\nblocks = 16\nprogram_us = 905.8", "mine").unwrap();
        let mlc = catalogue::mlc_64m();
        assert_eq!(part.geometry, mlc.clone().with_blocks(16).geometry);
        assert_eq!(part.timing, Timing { program_ns: 905_800, ..mlc.timing });
        assert_eq!((part.supply, part.endurance_erases), (mlc.supply, mlc.endurance_erases));
        let error = refused("like = \"w25n01gw\"");
        assert_eq!(error, "like: there is no chip 'w25n01gw'; did you mean 'w25n01gv'?");
    }

    #[test]
    fn what_is_wrong_with_a_chip_file_is_named() {
        assert!(refused("page_bytes = 2048").starts_with("spare_bytes is missing"));
        assert!(refused(&WHOLE.replace("read_us", "raed_us")).contains("unknown field `raed_us`"));
        assert!(refused(&WHOLE.replace("128", "\"many\"")).contains("invalid type"));
        assert!(refused(&format!("{WHOLE}read_ns = 5")).contains("give read_us or read_ns, not both"));
        assert!(refused(&WHOLE.replace("2048", "60")).starts_with("page_bytes = 60: "));
        assert!(
            refused(&WHOLE.replace("1500.5", "-1.0")).starts_with("erase_us = -1: a time is not negative")
        );
        assert!(refused(&WHOLE.replace("1500.5", "nan")).starts_with("erase_us = NaN"));
        assert!(refused(&format!("nop = 0\n{WHOLE}")).starts_with("nop = 0: "));
        assert!(refused(&WHOLE.replace("19.231", "1e9")).starts_with("transfer_ns_per_byte = 1000000000: "));
    }

    #[test]
    fn the_sample_file_is_a_chip_and_errors_name_the_file() {
        let sample = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/chip.toml");
        assert_eq!(find(sample).unwrap().name, "my-slc");
        let missing = find("no/such/chip.toml").unwrap_err().to_string();
        assert!(missing.starts_with("no/such/chip.toml: "), "{missing}");
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("odd.toml");
        fs::write(&path, WHOLE.replace("2048", "60")).unwrap();
        let error = load(&path).unwrap_err().to_string();
        assert!(error.contains("odd.toml: page_bytes = 60: "), "{error}");
    }

    #[test]
    fn an_image_goes_to_a_file_and_back() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("chip.image");
        let mut chip = SimChip::new(&catalogue::mlc_64m().with_blocks(4)).unwrap();
        chip.program(Ppn(5), Cause::Host, &[7; 100], &[1]).unwrap();
        chip.erase(Pbn(2), Cause::Host).unwrap();
        save_image(&path, &chip).unwrap();
        assert_eq!(load_image(&path).unwrap().to_image(), chip.to_image());
        fs::write(&path, chip.to_image()).unwrap();
        assert_eq!(load_image(&path).unwrap().to_image(), chip.to_image());
        fs::write(&path, b"something else").unwrap();
        let error = load_image(&path).unwrap_err().to_string();
        assert!(
            error.ends_with("chip.image: no image of a chip: it does not begin with NANDEXCH"),
            "{error}"
        );
        let mut broken = zstd::bulk::compress(&chip.to_image(), 3).unwrap();
        broken.truncate(broken.len() - 9);
        fs::write(&path, broken).unwrap();
        assert!(load_image(&path).is_err());
    }

    #[test]
    fn facts_count_the_transfer() {
        let facts = facts(&catalogue::mlc_64m());
        let times = (facts.page_read_ns, facts.page_program_ns, facts.block_erase_ns);
        assert_eq!(times, (165_600, 905_800, 1_500_000));
    }
}
