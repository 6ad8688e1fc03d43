//! Names typed by users: options with their defaults, look-up in a list, and the nearest known name.

use std::fmt;

/// An option of a workload, an index or a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OptionInfo {
    /// The option's name, as in `--set name=value`.
    pub name: &'static str,
    /// The default value as text. A default that follows from the chip or the RAM is described in words.
    pub default: &'static str,
    /// The effect of the option in one line, with its unit.
    pub help: &'static str,
}

/// A short way to write an [`OptionInfo`].
pub const fn option(name: &'static str, default: &'static str, help: &'static str) -> OptionInfo {
    OptionInfo { name, default, help }
}

/// Number of different names in these lists.
pub(crate) const fn count_names(lists: &[&[OptionInfo]]) -> usize {
    let (mut count, mut list) = (0, 0);
    while list < lists.len() {
        let mut at = 0;
        while at < lists[list].len() {
            count += is_first(lists, list, at) as usize;
            at += 1;
        }
        list += 1;
    }
    count
}

/// Joins lists of options and keeps each name once; `N` must be the result of [`count_names`].
pub(crate) const fn union<const N: usize>(lists: &[&[OptionInfo]]) -> [OptionInfo; N] {
    let mut all = [option("", "", ""); N];
    let (mut count, mut list) = (0, 0);
    while list < lists.len() {
        let mut at = 0;
        while at < lists[list].len() {
            if is_first(lists, list, at) {
                all[count] = lists[list][at];
                count += 1;
            }
            at += 1;
        }
        list += 1;
    }
    all
}

/// Joins lists of options to a constant slice and keeps each name once.
macro_rules! union_of {
    ($($list:expr),+ $(,)?) => {{
        const LISTS: &[&[$crate::names::OptionInfo]] = &[$(&$list),+];
        const ALL: [$crate::names::OptionInfo; $crate::names::count_names(LISTS)] = $crate::names::union(LISTS);
        &ALL
    }};
}

pub(crate) use union_of;

/// Whether no earlier option has the same name.
const fn is_first(lists: &[&[OptionInfo]], list: usize, at: usize) -> bool {
    let name = lists[list][at].name.as_bytes();
    let mut before = 0;
    while before <= list {
        let mut i = 0;
        while i < lists[before].len() && (before < list || i < at) {
            if is_same(lists[before][i].name.as_bytes(), name) {
                return false;
            }
            i += 1;
        }
        before += 1;
    }
    true
}

pub(crate) const fn is_same(a: &[u8], b: &[u8]) -> bool {
    if a.len() != b.len() {
        return false;
    }
    let mut i = 0;
    while i < a.len() {
        if a[i] != b[i] {
            return false;
        }
        i += 1;
    }
    true
}

/// An error: a name that is in no list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownName {
    /// The kind of name that was looked up, such as "index", "store" or "option".
    pub what: &'static str,
    /// The unknown name.
    pub name: String,
    /// The most similar known name, if one is similar enough.
    pub nearest: Option<String>,
    /// All known names.
    pub known: Vec<String>,
}

impl UnknownName {
    /// The error for an unknown name, with the most similar known one.
    pub fn of<'a>(what: &'static str, name: &str, known: impl IntoIterator<Item = &'a str>) -> UnknownName {
        let known: Vec<String> = known.into_iter().map(str::to_string).collect();
        let nearest = nearest(name, known.iter().map(String::as_str)).map(str::to_string);
        UnknownName { what, name: name.to_string(), nearest, known }
    }
}

impl fmt::Display for UnknownName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let UnknownName { what, name, nearest, known } = self;
        match nearest {
            Some(nearest) => write!(f, "there is no {what} '{name}'; did you mean '{nearest}'?"),
            None => write!(f, "there is no {what} '{name}'; known: {}", known.join(", ")),
        }
    }
}

impl std::error::Error for UnknownName {}

/// The candidate most similar to `name`; `None` if none is similar enough to be a likely typing error.
pub fn nearest<'a>(name: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let likeness = |candidate: &str| strsim::jaro_winkler(&name.to_lowercase(), &candidate.to_lowercase());
    let scored = candidates.into_iter().map(|c| (likeness(c), c)).filter(|(score, _)| *score >= 0.7);
    scored.max_by(|a, b| a.0.total_cmp(&b.0)).map(|(_, candidate)| candidate)
}

/// The item with this name; the error for an unknown name has the most similar known one.
pub fn find<'a, T>(
    what: &'static str,
    name: &str,
    items: &'a [T],
    name_of: impl Fn(&T) -> &'static str,
) -> Result<&'a T, UnknownName> {
    items
        .iter()
        .find(|item| name_of(item) == name)
        .ok_or_else(|| UnknownName::of(what, name, items.iter().map(name_of)))
}
