//! Opening an index or an FTL on a medium without losing any data: `open` formats a blank medium only, and
//! `format` refuses any other.

use crate::check::IndexError;
use crate::nand::{Nand, is_blank};
use crate::shared::Shared;
use core::fmt;

/// The error of an opening, with the medium.
///
/// An example stands at [`format`](fn@crate::format).
#[cfg_attr(not(feature = "unstable"), non_exhaustive)]
pub struct Unopened<M> {
    /// Reason of the error.
    pub error: IndexError,
    /// The medium; `None` if the function that mounts or formats kept it.
    pub medium: Option<M>,
}

impl<M> From<Unopened<M>> for IndexError {
    fn from(unopened: Unopened<M>) -> IndexError {
        unopened.error
    }
}

impl<M> fmt::Debug for Unopened<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.error)
    }
}

impl<M> fmt::Display for Unopened<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.error)
    }
}

impl<M> core::error::Error for Unopened<M> {}

/// Mounts what stands on a chip or a store, or formats a blank one. Whatever else is on it stays as it is.
///
/// This is the one line for the start of a device, for every index and FTL:
///
/// ```
/// use nandex::nand::{catalogue, sim::SimChip};
/// use nandex::{MuTree, OrderedIndex, RawConfig, RecordFormat};
///
/// let chip = SimChip::new(&catalogue::mlc_64m())?;
/// let config = RawConfig::new(RecordFormat::new(8, 8));
/// let mut index = nandex::open(chip, &config, MuTree::mount, MuTree::format)?;
/// index.insert(&7u64.to_be_bytes(), &[1; 8])?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// An FTL is opened first, and the index on it. A power cut in a first format leaves a chip that is blank as
/// long as only erases were done. The few programs at the end take milliseconds; after a cut in these the
/// chip is [`Unfit::Other`](crate::nand::Unfit::Other), as nobody can say that nothing else was on it.
///
/// # Errors
///
/// What the mount said, with the medium, unless the medium is blank.
pub fn open<M, C: Clone, T, E: Into<IndexError>>(
    medium: M,
    config: C,
    mount: impl FnOnce(Shared<M>, C) -> Result<T, E>,
    format: impl FnOnce(Shared<M>, C) -> Result<T, E>,
) -> Result<T, Unopened<M>> {
    let shared = Shared::new(medium);
    let opened = match mount(shared.clone(), config.clone()).map_err(E::into) {
        Err(error) if error.is_blank() => format(shared.clone(), config).map_err(E::into),
        other => other,
    };
    opened.map_err(|error| Unopened { error, medium: shared.into_inner() })
}

/// Formats a blank chip: [`IndexError::NotBlank`] where anything was programmed. An index's own `format`
/// takes away whatever stands on a chip.
///
/// ```
/// use nandex::nand::{catalogue, sim::SimChip};
/// use nandex::{IndexError, Plow, PlowConfig, RecordFormat};
///
/// let chip = SimChip::new(&catalogue::mlc_64m())?;
/// let config = PlowConfig::new(RecordFormat::new(8, 8));
/// let chip = nandex::format(chip, &config, Plow::format)?.into_nand();
/// let refused = nandex::format(chip, &config, Plow::format).map(drop).unwrap_err();
/// assert_eq!(refused.error, IndexError::NotBlank);
/// Plow::format(refused.medium.unwrap(), &config)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
///
/// With the chip, that it is not blank, or that it cannot be read. A format that fails keeps it.
pub fn format<N: Nand, C, T, E: Into<IndexError>>(
    mut chip: N,
    config: C,
    format: impl FnOnce(N, C) -> Result<T, E>,
) -> Result<T, Unopened<N>> {
    match is_blank(&mut chip) {
        Ok(true) => format(chip, config).map_err(|error| Unopened { error: error.into(), medium: None }),
        Ok(false) => Err(Unopened { error: IndexError::NotBlank, medium: Some(chip) }),
        Err(error) => Err(Unopened { error: error.into(), medium: Some(chip) }),
    }
}
