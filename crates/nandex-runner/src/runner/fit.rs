//! Chooses the FTL of an index over a store if none is named.

use super::records::format;
use super::{Job, medium};
use nandex::IndexError;
use nandex_stacks::options::Settings;
use std::borrow::Cow;

/// The job with an FTL that fits the RAM, if the job leaves the choice of the FTL open. If no FTL fits, it
/// is the one that asks for the least RAM. To find out, each FTL is formatted on a chip of its own.
pub(super) fn fitting<'j, 'a>(job: &'j Job<'a>) -> Cow<'j, Job<'a>> {
    let settings: Vec<Settings> = job.index.fitting(&job.settings).collect();
    if settings.len() < 2 {
        return Cow::Borrowed(job);
    }
    let mut least: Option<(usize, Job<'a>)> = None;
    for settings in settings {
        let tried = Job { settings, ..job.clone() };
        let Ok((_, nand)) = medium::new_chip(job.part, &job.options) else { break };
        match format(&tried, nand) {
            Ok(_) => return Cow::Owned(tried),
            Err(IndexError::TooLittleRam { needed, .. }) => {
                if least.as_ref().is_none_or(|(known, _)| needed < *known) {
                    least = Some((needed, tried));
                }
            }
            // What the first refuses besides, it tells; what another does is no reason that helps anybody.
            Err(_) if least.is_none() => return Cow::Borrowed(job),
            Err(_) => {}
        }
    }
    least.map_or(Cow::Borrowed(job), |(_, job)| Cow::Owned(job))
}

#[cfg(test)]
mod tests {
    use crate::registry::index;
    use crate::results::Run;
    use crate::runner::{Control, Job, Prepared, RunOptions, run};
    use crate::workload::{Op, OpKind, PhaseOps, Values, Workload};
    use nandex::nand::catalogue::mlc_64m;
    use nandex::ordered::RecordFormat;
    use nandex_stacks::options::Settings;
    use std::collections::BTreeMap;

    fn run_in(ram_bytes: usize, ftl: Option<&str>) -> Run {
        let ops = (0..50).map(|key| Op::new(OpKind::Insert, key * 7919 % 1000)).collect();
        let workload = Workload {
            name: String::from("few"),
            seed: 0,
            options: BTreeMap::new(),
            values: Values::default(),
            phases: vec![PhaseOps::measured("all", ops)],
        };
        let prepared = Prepared::new(&workload, 4).unwrap();
        let settings = Settings { ram_bytes: Some(ram_bytes), ..Settings::new(RecordFormat::new(4, 4)) };
        let settings = ftl.map_or(settings.clone(), |ftl| settings.clone().with("ftl", ftl));
        let (index, part) = (index("bplus").unwrap(), mlc_64m());
        let options = RunOptions { mount: true, ..RunOptions::default() };
        run(&Job { index, part: &part, prepared: &prepared, settings, options }, &Control::default())
    }

    #[test]
    fn an_index_takes_an_ftl_that_fits_where_none_is_named_and_its_row_says_so() {
        let roomy = run_in(640 << 10, None);
        assert_eq!((roomy.storage.as_str(), &roomy.error), ("page-map+lru", &None));
        assert!(roomy.mount.is_some_and(|costs| costs.page_reads > 0));
        let closed = roomy.mount_closed.map(|costs| costs.page_reads);
        assert!(closed > Some(0) && closed <= roomy.mount.map(|costs| costs.page_reads), "{closed:?}");
        let (first, session) = (roomy.first_change.unwrap(), roomy.session.unwrap());
        assert_eq!((first.operations, session.operations), (1, 51), "the last insertion, and all of them");
        assert!(first.page_reads + first.page_programs > 0 && first.page_reads <= session.page_reads);
        assert!(
            session.flash_time_max_ns >= first.flash_time_ns && session.flash_time_ns > first.flash_time_ns
        );
        let booted = crate::results::mount_and_change_ns(&roomy).unwrap();
        assert_eq!(booted - first.flash_time_ns, roomy.mount.unwrap().flash_time_ns);
        assert!(roomy.ram_needed_bytes.is_some_and(|needed| needed > 4096 && needed <= roomy.ram_bytes));
        let tight = run_in(40 << 10, None);
        assert_eq!((tight.storage.as_str(), tight.error), ("dftl+lru", None));
        let named = run_in(40 << 10, Some("page-map")).error.unwrap();
        assert!(named.contains("RAM"), "{named}");
        let least = run_in(100, None).error.unwrap();
        assert_ne!(least, run_in(100, Some("page-map")).error.unwrap(), "it names the least need");
    }
}
