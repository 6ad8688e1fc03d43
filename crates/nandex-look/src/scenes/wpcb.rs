//! WPCB-tree: node pages are appended to buffer blocks. A full buffer block is written to the FTL in page
//! order.

use super::{Played, Stop, after, figure, list, other, programs_of, rise, seen_after};
use crate::scan::Scan;
use crate::session::{At, Session, Setup, What};

struct Conversion {
    step: usize,
    victim: u32,
    /// Logical pages in the victim, in the order of writing.
    held: Vec<u32>,
    /// Logical pages that went to the FTL, in order.
    converted: Vec<u32>,
    /// Physical pages that were programmed for the conversion.
    programmed: Vec<u32>,
}

fn conversion(session: &Session, step: usize) -> Result<Option<Conversion>, String> {
    let (before, behind) = (seen_after(session, step - 1)?, seen_after(session, step)?);
    let Some(first) = behind.decoder.buffer_from else { return Ok(None) };
    let per_block = behind.decoder.geometry.pages_per_block;
    let events = &session.steps()[step].events;
    let erased =
        events.iter().filter(|event| event.what == What::Erase && event.at >= first).map(|event| event.at);
    let below = events.iter().filter(|event| event.what == What::Program && event.at < first * per_block);
    let programmed: Vec<u32> = below.map(|event| event.at).collect();
    let number = |scan: &Scan, page: u32| {
        let page = &scan.pages[page as usize];
        page.logical.filter(|_| page.whole && matches!(page.kind, b'H' | b'L' | b'S' | b'D' | b'B' | b'h'))
    };
    let converted: Vec<u32> = programmed.iter().filter_map(|&page| number(&behind, page)).collect();
    let mut best: Option<(u32, Vec<u32>)> = None;
    for victim in erased {
        let held: Vec<u32> =
            (victim * per_block..(victim + 1) * per_block).filter_map(|page| number(&before, page)).collect();
        if best.as_ref().is_none_or(|found| found.1.len() < held.len()) {
            best = Some((victim, held));
        }
    }
    let Some((victim, held)) = best else { return Ok(None) };
    let is_plain = programmed.len() == converted.len() && !converted.is_empty();
    Ok(is_plain.then_some(Conversion { step, victim, held, converted, programmed }))
}

fn is_ascending(numbers: &[u32]) -> bool {
    numbers.windows(2).all(|pair| pair[0] < pair[1])
}

/// The conversion that shows the most: its pages were written out of order and several times, and go to the
/// FTL in order.
fn find(session: &Session) -> Result<Conversion, String> {
    let mut best: Option<Conversion> = None;
    let steps = (1..session.steps().len()).filter(|&step| rise(session, step, "conversions") == 1);
    for step in steps.collect::<Vec<_>>().into_iter().rev().take(40) {
        let Some(found) = conversion(session, step)? else { continue };
        let scattered = !is_ascending(&found.held) && found.held.len() > found.converted.len();
        let more = best.as_ref().is_none_or(|best| best.converted.len() < found.converted.len());
        if scattered && is_ascending(&found.converted) && more {
            best = Some(found);
        }
    }
    best.ok_or_else(|| "no conversion put scattered pages in order".to_string())
}

pub(super) fn play() -> Played {
    let mut setup =
        Setup { ftl: Some("fast".into()), operations: 600, blocks: 40, seed: 2, ..Setup::new("wpcb") };
    setup.options = vec![("tbm_blocks".into(), "8".into())];
    let session = Session::run(setup.clone())?;
    let Conversion { step, victim, held, converted, programmed } = find(&session)?;
    let per_block = session.part().geometry.pages_per_block;
    let victims: Vec<u32> = (0..held.len() as u32).map(|page| victim * per_block + page).collect();
    let events = &session.steps()[step].events;
    let erase = events.iter().position(|event| event.what == What::Erase && event.at == victim).unwrap_or(0);
    let moved =
        events.iter().rposition(|event| event.what == What::Program && programmed.contains(&event.at));
    let bplus = other(&Setup { durability: "none".into(), ..setup }, "bplus")?;
    let last = session.steps().len() - 1;
    let stop = |at, title: &str, text: String, pages: Vec<u32>| Stop { at, title: title.into(), text, pages };
    let mut stops = vec![
        stop(
            after(&session, step - 1),
            "Node pages wait in buffer blocks",
            format!(
                "Each change of a node is one program into the buffer block of its logical block; {} such blocks are \
                 taken. Block {victim} holds the logical pages {} in the order in which they came.",
                figure(&session, step - 1, "buffer_blocks"),
                list(&held)
            ),
            victims.clone(),
        ),
        stop(
            At { step, event: moved.map_or(0, |event| event + 1) },
            "The converter at work",
            format!(
                "Of every node only the newest page goes on, and in ascending order: {} to the FTL. What was scattered \
                 in time is a row for the FTL's log block.",
                list(&converted)
            ),
            programmed,
        ),
        stop(
            At { step, event: erase + 1 },
            "The victim is erased",
            format!(
                "Block {victim} is free for another logical block. Until then a power cut would have lost nothing: the \
                 page that waited names the block whose contents went down."
            ),
            victims,
        ),
        stop(
            after(&session, last),
            "What it was for",
            format!(
                "{} conversions in this run; {} pages went to the FTL and {} older ones never did. Programs in all: {}, \
                 and {} of a B+-tree on the same FTL without a buffer (and without a promise about cuts).",
                figure(&session, last, "conversions"),
                figure(&session, last, "converted_pages"),
                figure(&session, last, "dropped_pages"),
                programs_of(&session),
                programs_of(&bplus)
            ),
            Vec::new(),
        ),
    ];
    stops.sort_by_key(|stop| stop.at);
    Ok((session, stops))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_goes_down_is_the_newest_of_each_page_in_order() {
        let (session, _) = play().unwrap();
        let found = find(&session).unwrap();
        let mut newest = found.held.clone();
        newest.sort_unstable();
        newest.dedup();
        // A group that the waiting operation replaces may not go down; no page goes that was not held.
        assert!(found.converted.iter().all(|page| newest.contains(page)));
        assert!(is_ascending(&found.converted) && found.converted.len() >= 2);
        let behind = seen_after(&session, found.step).unwrap();
        let per_block = behind.decoder.geometry.pages_per_block;
        let is_blank = |page: u32| behind.pages[page as usize].role == crate::decode::Role::Erased;
        let pages = found.victim * per_block..(found.victim + 1) * per_block;
        let newer = behind.decoder.buffer_from.unwrap();
        assert!(found.victim >= newer && pages.clone().filter(|&page| is_blank(page)).count() >= 1);
    }
}
