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

    #[cfg(any(feature = "mu", feature = "wandering"))]
    macro_rules! with_log_config {
        ($index:ty) => {
            pub type Index = $index;

            pub fn format(chip: Chip) -> Result<Index, IndexError> {
                Index::format(chip, RECORD, nandex::LogConfig::default())
            }

            pub fn mount(chip: Chip) -> Result<Index, IndexError> {
                Index::mount(chip, RECORD, nandex::LogConfig::default())
            }
        };
    }

    #[cfg(any(feature = "vmtree", feature = "sbits", feature = "plow"))]
    macro_rules! with_settings {
        ($index:ty) => {
            pub type Index = $index;

            fn settings() -> nandex::ordered::Settings {
                nandex::ordered::Settings { ram_bytes: Some(48 << 10), ..nandex::ordered::Settings::new(RECORD) }
            }

            pub fn format(chip: Chip) -> Result<Index, IndexError> {
                Index::format_with(chip, &settings())
            }

            pub fn mount(chip: Chip) -> Result<Index, IndexError> {
                Index::mount_with(chip, &settings())
            }
        };
    }

    #[cfg(any(feature = "bplus-page-map", feature = "bplus-dftl"))]
    macro_rules! bplus_on {
        ($ftl:ty) => {
            pub type Index = nandex::ordered::bplus::BPlusTree<$ftl>;

            pub fn format(chip: Chip) -> Result<Index, IndexError> {
                let store = <$ftl>::format(chip, Default::default())?;
                Index::format(store, nandex::ordered::bplus::BPlusConfig::new(RECORD))
            }

            pub fn mount(chip: Chip) -> Result<Index, IndexError> {
                Index::mount(<$ftl>::mount(chip, Default::default())?)
            }
        };
    }

    #[cfg(feature = "mu")]
    with_log_config!(nandex::ordered::mu::MuTree<Chip>);
    #[cfg(feature = "wandering")]
    with_log_config!(nandex::ordered::wandering::WanderingTree<Chip>);
    #[cfg(feature = "vmtree")]
    with_settings!(nandex::ordered::vm::VmTree<Chip>);
    #[cfg(feature = "sbits")]
    with_settings!(nandex::ordered::sbits::Sbits<Chip>);
    #[cfg(feature = "plow")]
    with_settings!(nandex::ordered::plow::Plow<Chip>);
    #[cfg(feature = "bplus-page-map")]
    bplus_on!(nandex::PageMapFtl<Chip>);
    #[cfg(feature = "bplus-dftl")]
    bplus_on!(nandex::DftlFtl<Chip>);

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
        Index::format(PageMapFtl::format(chip, Default::default())?, &config(Split::Linear))
    }

    pub fn mount(chip: Chip) -> Result<Index, IndexError> {
        Index::mount(PageMapFtl::mount(chip, Default::default())?)
    }

    /// Where a key lies in the plane.
    fn place(key: u32) -> Result<Rect<i32, 2>, IndexError> {
        let at = [(key % 50) as i32, (key / 50) as i32];
        Rect::point(at).map_err(|_| IndexError::Full)
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
