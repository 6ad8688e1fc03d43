//! Contenders of an experiment: an index with options, RAM and a name of its own.
//!
//! An experiment lists an index under the index's name (`indexes`), or several times as contenders with names
//! of their own and different options (`[[contender]]`): the same tree under LRU, CFLRU and CFDC, for
//! example. Cells are named by contender.
//!
//! Options come from three places; later ones win. First the variant's, of which each contender gets those
//! that its index knows. Then the contender's own. Last the variant's options for this contender alone. An
//! option that no contender knows is refused.

use super::definition::{Definition, Durable, Variant};
use super::text::texts;
use crate::LabError;
use crate::keys::Trees;
use crate::registry::{self, Hosting, IndexEntry};
use crate::runner::Prepared;
use nandex::Nand;
use nandex::nand::Part;
use nandex::nand::sim::SimChip;
use nandex::ordered::Durability;
use nandex_stacks::options::{self, Options, Settings};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// An index taking part in an experiment.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Contender {
    /// The contender's name in cells, tables and claims.
    pub name: String,
    /// The index, by its name in the registry.
    pub index: String,
    /// The durability class, if it differs from the variant's.
    pub durable: Option<Durable>,
    /// Options of the index.
    #[serde(default, deserialize_with = "texts")]
    pub options: BTreeMap<String, String>,
}

/// RAM for buffers, page caches and pools. The tables of the FTL, and of a plain B+-tree on it, are added. So
/// the amount is the same for all contenders and all chip sizes.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Memory {
    /// The size in bytes.
    Bytes(u64),
    /// A percentage of the size of the records of all keys in the workload.
    Percent(f64),
}

impl Contender {
    /// Everybody who takes part in an experiment, in the order of the cells: the plain indexes first.
    pub fn all(definition: &Definition) -> Vec<Contender> {
        let plain = definition.indexes.iter().map(|index| Contender::plain(index));
        plain.chain(definition.contenders.iter().cloned()).collect()
    }

    /// An index with its default options, under its own name.
    fn plain(index: &str) -> Contender {
        Contender { name: index.to_string(), index: index.to_string(), ..Contender::default() }
    }

    pub(super) fn entry(&self) -> Result<&'static IndexEntry, LabError> {
        Ok(registry::index(&self.index)?)
    }
}

impl Variant {
    /// The contenders of the experiment that take part, each with the options of its runs.
    pub(super) fn cast(&self, of: &Definition) -> Result<Vec<(Contender, Options)>, LabError> {
        let all = Contender::all(of);
        let known = |name: &str| all.iter().any(|contender| contender.name == name);
        for name in self.contenders.iter().chain(self.of.keys()).chain(self.blocks_of.keys()) {
            if !known(name) {
                return Err(LabError::unknown("contender", name, all.iter().map(|c| c.name.as_str())));
            }
        }
        let mut taking_part = Vec::new();
        for contender in all {
            if self.contenders.is_empty() || self.contenders.contains(&contender.name) {
                taking_part.push(contender);
            }
        }
        let mut set = Options::default();
        self.options.iter().for_each(|(name, value)| set.set(name, value));
        let with_own = |contender: &Contender, mut options: Options| {
            let of_variant = self.of.get(&contender.name).into_iter().flatten();
            contender.options.iter().chain(of_variant).for_each(|(name, value)| options.set(name, value));
            options
        };
        let known = |contender: &Contender| Ok(contender.entry()?.known(&with_own(contender, set.clone())));
        let takers = taking_part.iter().map(known).collect::<Result<Vec<_>, LabError>>()?;
        let dealt = nandex_stacks::options::sharing::deal(&set, &takers)?;
        let dealt = taking_part.into_iter().zip(dealt).map(|(contender, options)| {
            let options = with_own(&contender, options);
            (contender, options)
        });
        Ok(dealt.collect())
    }
}

impl Memory {
    /// All RAM of a run with this index: the memory and the tables.
    pub(super) fn ram_bytes(
        self,
        index: &IndexEntry,
        part: &Part,
        settings: &Settings,
        prepared: &Prepared<'_>,
    ) -> Result<usize, LabError> {
        let records = prepared.keys().len() as u64 * settings.record.entry_bytes() as u64;
        let memory = match self {
            Memory::Bytes(bytes) => bytes,
            Memory::Percent(percent) => (records as f64 * percent / 100.0) as u64,
        };
        let trees = match prepared.keys().trees() {
            Trees::One => 1,
            Trees::PerIndex => prepared.keys().shares().len(),
        };
        Ok(tables_bytes(index, part, settings, trees)? + memory as usize)
    }
}

/// Bytes of the tables of an FTL and of the given number of plain B+-trees on it. For an index on raw NAND,
/// or one that shares the chip with the FTL: its RAM without a cache.
fn tables_bytes(
    index: &IndexEntry,
    part: &Part,
    settings: &Settings,
    trees: usize,
) -> Result<usize, LabError> {
    let refused = |error: nandex::nand::PartError| LabError::Chip {
        file: part.name.to_string(),
        reason: error.to_string(),
    };
    let chip = SimChip::new(part).map_err(refused)?;
    let nand: Box<dyn Nand> = Box::new(chip);
    let settings = &Settings { ram_bytes: None, ..settings.clone() };
    if index.hosting == Hosting::Raw {
        return Ok((index.format)(nand, settings).map_err(LabError::Index)?.ram_bytes());
    }
    if index.divides_chip {
        return registry::wpcb_table_bytes(nand, settings).map_err(LabError::Index);
    }
    let ftl = registry::store(settings.options.text("ftl").unwrap_or("page-map"))?;
    let store = (ftl.format)(nand, settings).map_err(|error| LabError::Index(error.into()))?;
    // In the class whose tables are largest, so that all classes get the same.
    let tree = options::bplus::config(settings).map_err(LabError::Index)?.with_durability(Durability::None);
    Ok(store.ram_bytes() + tree.ram_bytes_max(&store).map_err(LabError::Index)? * trees)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn definition(text: &str) -> Definition {
        let head = "name = 'x'\npaper = 'x'\nshows = 'x'\nsummary = 'x'\nchip = 'mlc-64m'\nkey_bytes = 4\n\
                    value_bytes = 4\nseeds = 1\n";
        toml::from_str(&format!("{head}{text}\n[smoke]\n")).unwrap()
    }

    const FOUR: &str = "
        indexes = ['mu']
        [[contender]]
        name = 'LRU'
        index = 'bplus'
        options = { cache = 'lru' }
        [[contender]]
        name = 'CFLRU'
        index = 'bplus'
        durable = 'never'
        options = { cache = 'cflru' }
        ";

    fn options_of(definition: &Definition, variant: usize) -> Vec<String> {
        let of = definition.variants[variant].cast(definition).unwrap();
        let text = |(contender, options): (Contender, Options)| {
            let options: Vec<String> =
                options.iter().map(|(name, value)| format!("{name}={value}")).collect();
            format!("{}: {}", contender.name, options.join(" "))
        };
        of.into_iter().map(text).collect()
    }

    #[test]
    fn a_contender_gets_what_it_knows_and_its_own() {
        let text = "
            [[variant]]
            name = 'a'
            options = { cache_pages = '9', read_pages = '3', cache = 'fifo' }
            of.CFLRU = { cache_window = '25', cache_pages = '7' }
            [[variant]]
            name = 'b'
            contenders = ['CFLRU']
            ";
        let definition = definition(&format!("{FOUR}{text}"));
        let first = ["mu: read_pages=3", "LRU: cache=lru cache_pages=9"];
        assert_eq!(options_of(&definition, 0)[..2], first);
        assert_eq!(options_of(&definition, 0)[2], "CFLRU: cache=cflru cache_pages=7 cache_window=25");
        assert_eq!(options_of(&definition, 1), ["CFLRU: cache=cflru"]);
        assert_eq!(Contender::all(&definition)[2].durable, Some(Durable::Never));
    }

    #[test]
    fn what_nobody_knows_is_refused() {
        let refused = |variant: &str| {
            let definition = definition(&format!("{FOUR}\n[[variant]]\nname = 'a'\n{variant}"));
            definition.variants[0].cast(&definition).unwrap_err().to_string()
        };
        assert!(refused("options = { cache_page = '3' }").contains("did you mean 'cache_pages'?"));
        assert!(refused("of.CFLU = { order = '9' }").contains("no contender 'CFLU'; did you mean 'CFLRU'?"));
        assert!(refused("contenders = ['LR']").contains("did you mean 'LRU'?"));
        assert!(refused("blocks_of = { LR = 100 }").contains("no contender 'LR'; did you mean 'LRU'?"));
    }

    #[test]
    fn memory_comes_on_top_of_the_tables() {
        use crate::workload::{Op, OpKind, PhaseOps, Values, Workload};
        let ops = (0..1000).map(|key| Op::new(OpKind::Insert, key)).collect();
        let phases = vec![PhaseOps::measured("only", ops)];
        let workload = Workload {
            name: String::new(),
            seed: 0,
            options: BTreeMap::new(),
            values: Values::default(),
            phases,
        };
        let prepared = Prepared::new(&workload, 4).unwrap();
        let part = crate::chip::find("mlc-64m").unwrap();
        let mut settings = Settings::new(nandex::ordered::RecordFormat::new(4, 4));
        settings.ram_bytes = Some(1);
        let ram = |memory: Memory, index: &str| {
            memory.ram_bytes(registry::index(index).unwrap(), &part, &settings, &prepared).unwrap()
        };
        for index in ["bplus", "mu"] {
            let tables = ram(Memory::Bytes(0), index);
            assert!(tables > 0);
            assert_eq!(ram(Memory::Bytes(5000), index), tables + 5000);
            assert_eq!(ram(Memory::Percent(12.5), index), tables + 1000);
        }
    }
}
