//! The first of several set-ups that the RAM suffices for.

use super::medium::{self, Device};
use super::records::Records;
use super::{Failure, Job};
use nandex::IndexError;

/// Formats the index as the first of these jobs that fits in its RAM, each on a new chip. Where none does,
/// the refusal is the one that asks for the least.
pub(super) fn open<'j>(jobs: &'j [Job<'j>]) -> Result<(&'j Job<'j>, Device, Records<'j>), Failure> {
    let mut least: Option<(usize, IndexError)> = None;
    for job in jobs {
        let (device, nand) = medium::new_chip(job.part, &job.options)?;
        match (Records::open(job, nand), &least) {
            (Ok(records), _) => return Ok((job, device, records)),
            (Err(error @ IndexError::TooLittleRam { needed, .. }), _) => {
                if least.as_ref().is_none_or(|(known, _)| needed < *known) {
                    least = Some((needed, error));
                }
            }
            // What another FTL refuses besides is no reason that the user could do anything about.
            (Err(_), Some(_)) => {}
            (Err(error), None) => return Err(error.into()),
        }
    }
    let refused = || Failure::Refused(String::from("there is nothing to try"));
    Err(least.map_or_else(refused, |(_, error)| error.into()))
}

#[cfg(test)]
mod tests {
    use crate::registry::index;
    use crate::results::Run;
    use crate::runner::{Control, Job, Prepared, RunOptions, run};
    use crate::workload::{Op, OpKind, PhaseOps, Workload};
    use nandex::nand::catalogue::mlc_64m;
    use nandex::ordered::RecordFormat;
    use nandex_stacks::options::Settings;

    fn run_in(ram_bytes: usize, ftl: Option<&str>) -> Run {
        let ops = (0..50).map(|key| Op::new(OpKind::Insert, key * 7919 % 1000)).collect();
        let workload = Workload {
            name: String::from("few"),
            seed: 0,
            options: Default::default(),
            phases: vec![PhaseOps::measured("all", ops)],
        };
        let prepared = Prepared::new(&workload, 4).unwrap();
        let settings = Settings { ram_bytes: Some(ram_bytes), ..Settings::new(RecordFormat::new(4, 4)) };
        let settings = ftl.map_or(settings.clone(), |ftl| settings.clone().with("ftl", ftl));
        let (index, part) = (index("bplus").unwrap(), mlc_64m());
        let options = RunOptions::default();
        run(&Job { index, part: &part, prepared: &prepared, settings, options }, &Control::default())
    }

    #[test]
    fn an_index_takes_an_ftl_that_fits_where_none_is_named_and_its_row_says_so() {
        let roomy = run_in(640 << 10, None);
        assert_eq!((roomy.storage.as_str(), roomy.error), ("page-map+lru", None));
        let tight = run_in(60 << 10, None);
        assert_eq!((tight.storage.as_str(), tight.error), ("dftl+lru", None));
        let named = run_in(60 << 10, Some("page-map")).error.unwrap();
        assert!(named.contains("RAM"), "{named}");
        let none = run_in(100, None);
        assert_eq!(none.storage, "page-map+lru");
        assert_ne!(
            none.error.unwrap(),
            run_in(100, Some("page-map")).error.unwrap(),
            "it names the least need"
        );
    }
}
