//! How the FTLs on the shared ground are opened.

use crate::entry::Open;
use crate::options::OptionError;
use nandex::ftl::mapping::{Scheme, SchemeFtl};
use nandex::{Nand, PageStore, StoreError};

/// Makes or mounts a store with a mapping scheme.
pub(crate) fn scheme<S: Scheme + 'static>(
    nand: Box<dyn Nand>,
    settings: Result<S::Config, OptionError>,
    open: Open,
) -> Result<Box<dyn PageStore>, StoreError> {
    Ok(match open {
        Open::Format => Box::new(SchemeFtl::<_, S>::format(nand, &settings?)?),
        _ => Box::new(SchemeFtl::<_, S>::mount(nand, &settings?)?),
    })
}
