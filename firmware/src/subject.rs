//! The index that is built in: the feature says which.

#[cfg(not(feature = "r-tree"))]
pub use ordered::{ASCENDING, Index, format, get, insert, mount, sync};
#[cfg(feature = "r-tree")]
pub use spatial::{ASCENDING, Index, format, get, insert, mount, sync};

#[cfg(not(feature = "r-tree"))]
mod ordered {
    use crate::chip::Chip;
    use nandex::IndexError;
    use nandex::ordered::{OrderedIndex, RecordFormat};

    /// Whether the index takes keys in ascending order only.
    pub const ASCENDING: bool = cfg!(feature = "sbits");

    const RECORD: RecordFormat = RecordFormat::new(4, 8);

    #[cfg(not(any(feature = "bplus-page-map", feature = "bplus-dftl", feature = "r-tree")))]
    macro_rules! with_config {
        ($index:ty, $config:expr) => {
            pub type Index = $index;

            pub fn format(chip: Chip) -> Result<Index, IndexError> {
                Index::format(chip, &$config)
            }

            pub fn mount(chip: Chip) -> Result<Index, IndexError> {
                Index::mount(chip, &$config)
            }
        };
    }

    #[cfg(feature = "sbits")]
    const RAM: Option<usize> = Some(48 << 10);
    #[cfg(feature = "plow")]
    const RAM: Option<usize> = Some(16 << 10);

    #[cfg(any(feature = "bplus-page-map", feature = "bplus-dftl"))]
    macro_rules! bplus_on {
        ($ftl:ty, $config:expr, $mount:expr) => {
            pub type Index = nandex::ordered::bplus::BPlusTree<$ftl>;

            pub fn format(chip: Chip) -> Result<Index, IndexError> {
                let store = <$ftl>::format(chip, &Default::default())?;
                Index::format(store, &$config)
            }

            pub fn mount(chip: Chip) -> Result<Index, IndexError> {
                $mount(<$ftl>::mount(chip, &Default::default())?)
            }
        };
    }

    #[cfg(feature = "mu")]
    with_config!(nandex::MuTree<Chip>, nandex::RawConfig::new(RECORD));
    #[cfg(feature = "wandering")]
    with_config!(nandex::WanderingTree<Chip>, nandex::RawConfig::new(RECORD));
    #[cfg(feature = "vmtree")]
    with_config!(nandex::VmTree<Chip>, nandex::VmConfig::new(RECORD));
    #[cfg(feature = "sbits")]
    with_config!(nandex::Sbits<Chip>, nandex::SbitsConfig::new(RECORD).with_ram_bytes(RAM));
    #[cfg(feature = "plow")]
    with_config!(nandex::Plow<Chip>, nandex::PlowConfig::new(RECORD).with_ram_bytes(RAM));
    #[cfg(feature = "bplus-page-map")]
    bplus_on!(nandex::PageMapFtl<Chip>, nandex::ordered::bplus::BPlusConfig::new(RECORD), Index::mount_found);
    #[cfg(feature = "bplus-dftl")]
    bplus_on!(nandex::DftlFtl<Chip>, LEAST, |store| Index::mount(store, &LEAST));
    #[cfg(feature = "bplus-dftl")]
    const LEAST: nandex::ordered::bplus::BPlusConfig =
        nandex::ordered::bplus::BPlusConfig::new(RECORD).with_ram(nandex::ordered::bplus::TreeRam::Least);

    pub fn insert(index: &mut Index, key: u32, value: u32) -> Result<(), IndexError> {
        let mut bytes = [0; 8];
        bytes[..4].copy_from_slice(&value.to_le_bytes());
        index.insert(&key.to_be_bytes(), &bytes)?;
        Ok(())
    }

    pub fn get(index: &mut Index, key: u32) -> Result<Option<u32>, IndexError> {
        let mut bytes = [0; 8];
        let is_there = index.get(&key.to_be_bytes(), &mut bytes)?;
        let [a, b, c, d, ..] = bytes;
        Ok(is_there.then_some(u32::from_le_bytes([a, b, c, d])))
    }

    pub fn sync(index: &mut Index) -> Result<(), IndexError> {
        index.sync()
    }
}

#[cfg(feature = "r-tree")]
mod spatial {
    use crate::chip::Chip;
    use core::ops::ControlFlow;
    use nandex::IndexError;
    use nandex::PageMapFtl;
    use nandex::spatial::r_tree::{RTree, Split, config};
    use nandex::spatial::{Rect, Relation, SpatialIndex};

    /// Whether the index takes keys in ascending order only.
    pub const ASCENDING: bool = false;

    pub type Index = RTree<PageMapFtl<Chip>, i32, 2>;

    pub fn format(chip: Chip) -> Result<Index, IndexError> {
        Index::format(PageMapFtl::format(chip, &Default::default())?, &config(Split::Linear))
    }

    pub fn mount(chip: Chip) -> Result<Index, IndexError> {
        Index::mount_found(PageMapFtl::mount(chip, &Default::default())?)
    }

    /// Where a key lies in the plane.
    fn place(key: u32) -> Result<Rect<i32, 2>, IndexError> {
        let at = [(key % 50) as i32, (key / 50) as i32];
        Rect::point(at).map_err(|_| IndexError::NO_BLOCK)
    }

    pub fn insert(index: &mut Index, key: u32, value: u32) -> Result<(), IndexError> {
        index.insert(&place(key)?, u64::from(value))
    }

    pub fn get(index: &mut Index, key: u32) -> Result<Option<u32>, IndexError> {
        let mut found = None;
        index.window(&place(key)?, Relation::Intersects, &mut |_, id| {
            found = u32::try_from(id).ok();
            ControlFlow::Break(())
        })?;
        Ok(found)
    }

    pub fn sync(index: &mut Index) -> Result<(), IndexError> {
        index.sync()
    }
}
