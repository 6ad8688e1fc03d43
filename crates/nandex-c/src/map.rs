//! The R-tree behind a handle: boxes in the plane with identifiers, on the page-mapping FTL.

use crate::error::{Failure, Message};
use crate::ffi::codes::{NANDEX_ERR_CONFIG, NANDEX_ERR_NOT_OPEN, NANDEX_NOT_FOUND, NANDEX_OK};
use crate::open::Open;
use crate::state::Answer;
use nandex::Nand;
use nandex::ftl::page_map::{FtlConfig, PageMapFtl};
use nandex::nand::LentSpare;
use nandex::spatial::r_tree::{RTree, Split, config};
use nandex::spatial::{Rect, SpatialIndex};

/// A box in the plane.
pub(crate) type Plane = Rect<i32, 2>;

type Tree<N> = RTree<PageMapFtl<LentSpare<N>>, i32, 2>;

/// An R-tree on its chip, open or not.
pub(crate) struct MapState<N> {
    pub(crate) chip: N,
    pub(crate) message: Message,
    settings: FtlConfig,
    tree: Option<Tree<N>>,
}

/// The box of two corners.
pub(crate) fn plane(low: [i32; 2], high: [i32; 2]) -> Result<Plane, Failure> {
    Rect::new(low, high)
        .map_err(|_| Failure::Code(NANDEX_ERR_CONFIG, c"box: a low corner is above the high one"))
}

impl<N: Nand + Clone + 'static> MapState<N> {
    /// The state before the map is opened. 0 stands for the defaults of the FTL.
    pub(crate) fn new(chip: N, over_provisioning_ppm: u32, bad_blocks_ppm: u32) -> MapState<N> {
        let default = FtlConfig::default();
        let given = |number: u32, default: u32| if number > 0 { number } else { default };
        let settings = default
            .with_over_provisioning_ppm(given(over_provisioning_ppm, default.over_provisioning_ppm))
            .with_bad_blocks_ppm(given(bad_blocks_ppm, default.bad_blocks_ppm));
        MapState { chip, message: Message::new(), settings, tree: None }
    }

    /// Formats or mounts the tree. An open tree is dropped as by a power cut.
    pub(crate) fn open(&mut self, how: Open) -> Answer {
        self.tree = None;
        let chip = LentSpare::new(self.chip.clone(), nandex::ftl::SPARE_BYTES as u32);
        self.tree = Some(match how {
            Open::Format => {
                Tree::format(PageMapFtl::format(chip, &self.settings)?, &config(Split::Quadratic))?
            }
            Open::Mount => Tree::mount_found(PageMapFtl::mount(chip, &self.settings)?)?,
        });
        Ok(NANDEX_OK)
    }

    /// The open tree; fails if there is none.
    pub(crate) fn tree(&mut self) -> Result<&mut (dyn SpatialIndex<i32, 2> + 'static), Failure> {
        match &mut self.tree {
            Some(tree) => Ok(tree),
            None => Err(Failure::Code(NANDEX_ERR_NOT_OPEN, c"the map is not open: format or mount it first")),
        }
    }

    pub(crate) fn insert(&mut self, place: &Plane, id: u64) -> Answer {
        self.tree()?.insert(place, id)?;
        Ok(NANDEX_OK)
    }

    pub(crate) fn remove(&mut self, place: &Plane, id: u64) -> Answer {
        Ok(if self.tree()?.remove(place, id)? { NANDEX_OK } else { NANDEX_NOT_FOUND })
    }

    /// Syncs and closes; the handle can mount again.
    pub(crate) fn close(&mut self) -> Answer {
        self.tree()?.close()?;
        self.tree = None;
        Ok(NANDEX_OK)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_box_whose_corners_are_swapped_is_refused() {
        assert!(plane([0, 5], [1, 4]).is_err());
        assert_eq!(plane([0, 5], [1, 5]).unwrap().high(), [1, 5]);
    }
}
