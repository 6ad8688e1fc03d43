//! Names as people type them: options with their defaults, look-up in a list, and the nearest when there is
//! none.

use std::fmt;

/// An option that a workload, an index or a store understands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OptionInfo {
    /// The option's name, as in `--set name=value`.
    pub name: &'static str,
    /// The option's value when not set, as text; what follows from the chip or the RAM is described in
    /// words.
    pub default: &'static str,
    /// The effect of the option, in one line, with its unit.
    pub help: &'static str,
}

/// Shorthand for a row of a table of options.
pub const fn option(name: &'static str, default: &'static str, help: &'static str) -> OptionInfo {
    OptionInfo { name, default, help }
}

/// How many names these lists have together.
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

/// Lists of options as one, each name once; N is what [`count_names`] says of them.
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

/// Lists of options as one constant slice, each name once.
macro_rules! union_of {
    ($($list:expr),+ $(,)?) => {{
        const LISTS: &[&[$crate::names::OptionInfo]] = &[$(&$list),+];
        const ALL: [$crate::names::OptionInfo; $crate::names::count_names(LISTS)] = $crate::names::union(LISTS);
        &ALL
    }};
}

pub(crate) use union_of;

/// Whether no option before this one has its name.
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

/// A name that stands in no list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownName {
    /// The kind of name that was looked up: "index", "store", "option", ...
    pub what: &'static str,
    /// The name given.
    pub name: String,
    /// The known name most like it.
    pub nearest: Option<String>,
    /// Every known name.
    pub known: Vec<String>,
}

impl UnknownName {
    /// The refusal of a name, with the nearest of the known ones.
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

/// The candidate most like `name`, if any is alike enough to be what was meant.
pub fn nearest<'a>(name: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let likeness = |candidate: &str| strsim::jaro_winkler(&name.to_lowercase(), &candidate.to_lowercase());
    let scored = candidates.into_iter().map(|c| (likeness(c), c)).filter(|(score, _)| *score >= 0.7);
    scored.max_by(|a, b| a.0.total_cmp(&b.0)).map(|(_, candidate)| candidate)
}

/// The item called `name`; an unknown name is refused with the nearest known one.
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
