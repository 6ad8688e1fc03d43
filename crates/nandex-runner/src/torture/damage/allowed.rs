//! The complete list of exceptions: answers that an index may give on a damaged chip besides the truth, an
//! error and a refused mount.
//!
//! Each exception names the subjects, damages and ends for which it holds, the answer that it allows, and the
//! reason why the damage cannot be told from something that happens to a sound chip. `docs/guarantees.md`
//! prints the list. A run reports every other answer as a finding.

use super::Finding;
use super::image::End;
use super::kinds::Kind;
use super::trial::Outcome;
use crate::crash::Target;
use crate::torture::Victim;

/// The victims that an exception applies to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Who {
    /// All victims.
    All,
    /// The named victims on any storage, and stores of long values above them.
    Named(&'static [&'static str]),
    /// The named FTLs and all victims above them.
    OnFtl(&'static [&'static str]),
}

/// The ends of a life that an exception applies to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ends {
    /// Every end.
    Any,
    /// A power cut.
    Cut,
    /// A power cut with damage to a page that was programmed late. The youngest damaged page was programmed
    /// by the operation in flight, by the last one that programmed, or by at most this many before them.
    Newest(u64),
    /// A power cut with damage to the page programmed last in its block.
    CutEndOfBlock,
    /// A power cut with damage to an anchor, a checkpoint or a note.
    CutRecord,
    /// Every end, but only with two damages of which one strikes an anchor, a checkpoint or a note.
    RecordAndAnother,
    /// Every end, but only with two pages or blocks damaged at once, of which the youngest was programmed
    /// late as in [`Ends::Newest`]. An exchange damages two.
    NewestOfTwo(u64),
}

/// A wrong answer that an exception allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum May {
    /// The newest changes are lost: for each damage at most this many, or those of one sync.
    BeOlder(u64),
    /// Some slots hold a former value. A tree above may then contradict itself.
    BeStale,
}

/// An allowed wrong answer: for which victims, damages and ends.
#[derive(Clone, Copy, Debug)]
pub struct Exception {
    /// The victims it applies to.
    pub who: Who,
    /// The damages it applies to.
    pub damages: &'static [Kind],
    /// The ends it applies to.
    pub ends: Ends,
    /// Answer that the exception allows.
    pub may: May,
    /// Why the damage cannot be distinguished from something that happens to a sound chip.
    pub reason: &'static str,
}

const PAGE: &[Kind] = &[
    Kind::Flip,
    Kind::Flips,
    Kind::Zero,
    Kind::Ones,
    Kind::Random,
    Kind::Unreadable,
    Kind::Exchange,
    Kind::Older,
    Kind::Twin,
];

const BLOCK: &[Kind] =
    &[Kind::BlockFlip, Kind::BlockZero, Kind::BlockOnes, Kind::BlockUnreadable, Kind::BlockExchange];

/// The damages of a page that change more than one bit and do not replace it by another intact page, and
/// all damages of a block.
const SPOILT_OR_BLOCK: &[Kind] = &[
    Kind::Flips,
    Kind::Zero,
    Kind::Ones,
    Kind::Random,
    Kind::Unreadable,
    Kind::Older,
    Kind::Twin,
    Kind::BlockFlip,
    Kind::BlockZero,
    Kind::BlockOnes,
    Kind::BlockUnreadable,
    Kind::BlockExchange,
];

const RAW: &[&str] = &["mu", "mu-star", "wandering", "vmtree", "ipl", "dipl"];

/// Most changes of one operation or of one group of operations.
const ONE_GROUP: u64 = 8;

/// FTLs that are built on the shared ground.
const ON_GROUND: &[&str] = &["nftl", "bast", "sast", "fast", "superblock", "dftl", "lazy", "cftl", "hftl"];

const FTLS: &[&str] =
    &["page-map", "nftl", "bast", "sast", "fast", "superblock", "dftl", "lazy", "cftl", "hftl"];

/// All exceptions, in the order in which `docs/guarantees.md` counts them.
pub const EXCEPTIONS: &[Exception] = &[
    Exception {
        who: Who::All,
        damages: PAGE,
        ends: Ends::Newest(1),
        may: May::BeOlder(ONE_GROUP),
        reason: "A page of the operation that programmed last looks like one that was being programmed when the power failed.",
    },
    Exception {
        who: Who::All,
        damages: BLOCK,
        ends: Ends::Newest(1),
        may: May::BeOlder(u64::MAX),
        reason: "The whole block that was written to looks like one that was being erased, or was not yet written to.",
    },
    Exception {
        who: Who::Named(&["wpcb"]),
        damages: PAGE,
        ends: Ends::Cut,
        may: May::BeStale,
        reason: "A page that ends its buffer block, and that nothing newer names, looks like one that was being programmed; so does the page \
                 that the FTL below programmed last, however many pages of buffer blocks came after it (docs/indexes/wpcb.md).",
    },
    Exception {
        who: Who::Named(&["wpcb"]),
        damages: BLOCK,
        ends: Ends::Cut,
        may: May::BeStale,
        reason: "A whole buffer block looks like one that was being erased (docs/indexes/wpcb.md).",
    },
    Exception {
        who: Who::Named(&["vmtree-ow"]),
        damages: &[Kind::Older, Kind::Twin],
        ends: Ends::Any,
        may: May::BeStale,
        reason: "A page is overwritten where it stands, and no other page knows how often: what it was before an overwrite is whole, too.",
    },
    Exception {
        who: Who::Named(ON_GROUND),
        damages: &Kind::ALL,
        ends: Ends::CutRecord,
        may: May::BeStale,
        reason: "The note of trims that a sync made last looks like one that was being programmed: pages trimmed may hold again what they \
                 held (docs/ftl/ground.md).",
    },
    Exception {
        who: Who::OnFtl(FTLS),
        damages: &Kind::ALL,
        ends: Ends::RecordAndAnother,
        may: May::BeStale,
        reason: "Of two damages at once one strikes a record by which a mount knows what was programmed last, the other what would \
                 contradict the record before it.",
    },
    Exception {
        who: Who::Named(RAW),
        damages: &Kind::ALL,
        ends: Ends::NewestOfTwo(1),
        may: May::BeOlder(u64::MAX),
        reason: "The newest checkpoint and the newest page damaged at once look like a checkpoint that a failing chip refused, and a cut \
                 after it.",
    },
    Exception {
        who: Who::Named(&["ipl", "dipl"]),
        damages: SPOILT_OR_BLOCK,
        ends: Ends::Cut,
        may: May::BeStale,
        reason: "A whole block opened since the checkpoint, or the only page in one, looks like one that was given back and was being erased \
                 (docs/indexes/ipl.md).",
    },
    Exception {
        who: Who::Named(&["ipl", "dipl"]),
        damages: &Kind::ALL,
        ends: Ends::NewestOfTwo(1),
        may: May::BeStale,
        reason: "Without the newest checkpoint a tree that was closed looks like one that was cut, and the block damaged at the same time like \
                 one that was given back.",
    },
    Exception {
        who: Who::Named(&["ipl", "dipl"]),
        damages: PAGE,
        ends: Ends::CutEndOfBlock,
        may: May::BeStale,
        reason: "The last page of a block that no checkpoint knows of looks like one that was being programmed, once the page after it was merged \
                 away (docs/indexes/ipl.md).",
    },
    Exception {
        who: Who::Named(&["sbits", "plow", "furrow"]),
        damages: &Kind::ALL,
        ends: Ends::NewestOfTwo(1),
        may: May::BeOlder(u64::MAX),
        reason: "The two pages that a close writes look like pages that two power cuts tore, one after the other; the block of one of them \
                 like one that was being erased then (docs/indexes/sbits.md, docs/indexes/plow.md).",
    },
];

/// The damage with the state of the chip that the exceptions ask about.
pub(super) struct Hit {
    victim: Victim,
    is_cut: bool,
    kinds: Vec<Kind>,
    age: Option<u64>,
    records: usize,
    ends_a_block: bool,
}

impl Hit {
    pub(super) fn of(finding: &Finding) -> Hit {
        Hit {
            victim: finding.victim,
            is_cut: matches!(finding.end, End::Cut(_)),
            kinds: finding.blow.0.iter().map(|damage| damage.kind).collect(),
            age: finding.age,
            records: finding.records,
            ends_a_block: finding.ends_a_block,
        }
    }
}

impl Who {
    pub(super) fn is_about(self, victim: &Victim) -> bool {
        match self {
            Who::All => true,
            Who::Named(names) => {
                let name = victim.target.name();
                names.contains(&name) || names.contains(&name.rsplit(':').next().unwrap_or(name))
            }
            Who::OnFtl(names) => {
                let itself = matches!(victim.target, Target::Store(entry) if names.contains(&entry.name));
                itself || victim.ftl.is_some_and(|ftl| names.contains(&ftl.name))
            }
        }
    }
}

impl Exception {
    fn covers(&self, hit: &Hit, outcome: &Outcome) -> bool {
        let damages = hit.kinds.len() as u64;
        let may = match (self.may, outcome) {
            (May::BeOlder(most), Outcome::Older(lost)) => *lost <= most.saturating_mul(damages),
            (May::BeOlder(most), Outcome::OlderBySyncs(lost, syncs)) => {
                *lost <= most.saturating_mul(damages) || *syncs <= damages
            }
            // A state before is a mixture too.
            (May::BeStale, Outcome::Older(_) | Outcome::OlderBySyncs(..) | Outcome::Stale(_)) => true,
            (May::BeStale, Outcome::Wrong(_)) => !matches!(hit.victim.target, Target::Store(_)),
            _ => false,
        };
        let ends = match self.ends {
            Ends::Any => true,
            Ends::Cut => hit.is_cut,
            Ends::CutEndOfBlock => hit.is_cut && hit.ends_a_block,
            Ends::CutRecord => hit.is_cut && hit.records > 0,
            Ends::RecordAndAnother => hit.records > 0 && hit.kinds.len() > 1,
            Ends::NewestOfTwo(before) => {
                let are_two = hit.kinds.len() > 1 || hit.kinds.iter().any(|kind| kind.names_another());
                are_two && hit.age.is_some_and(|age| age <= before)
            }
            Ends::Newest(before) => hit.is_cut && hit.age.is_some_and(|age| age <= before),
        };
        let is_such = hit.kinds.iter().any(|kind| self.damages.contains(kind));
        may && ends && is_such && self.who.is_about(&hit.victim)
    }
}

/// The index of the exception that allows this outcome.
pub(super) fn allowed(hit: &Hit, outcome: &Outcome) -> Option<usize> {
    EXCEPTIONS.iter().position(|exception| exception.covers(hit, outcome))
}
