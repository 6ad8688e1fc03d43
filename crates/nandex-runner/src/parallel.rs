//! Runs independent work on several cores. Results are in the order of the work, whatever the number of
//! threads.

use crate::results::Run;
use crate::runner::{Control, Job, run};
use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

/// Number of processor cores, for use as the number of threads; 1 if it is unknown.
pub fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, NonZeroUsize::get)
}

/// Applies `work` to every item on `threads` threads. Each thread takes the next item when it is done with
/// one.
pub fn map<T: Sync, R: Send>(items: &[T], threads: usize, work: impl Fn(&T) -> R + Sync) -> Vec<R> {
    let next = AtomicUsize::new(0);
    let done: Mutex<Vec<(usize, R)>> = Mutex::new(Vec::with_capacity(items.len()));
    let take = || {
        loop {
            let place = next.fetch_add(1, Ordering::Relaxed);
            let Some(item) = items.get(place) else { return };
            let result = work(item);
            done.lock().unwrap_or_else(PoisonError::into_inner).push((place, result));
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..threads.clamp(1, items.len().max(1)) {
            scope.spawn(take);
        }
    });
    let mut results = done.into_inner().unwrap_or_else(PoisonError::into_inner);
    results.sort_unstable_by_key(|(place, _)| *place);
    results.into_iter().map(|(_, result)| result).collect()
}

/// Does every run. `finished` is called with the index of each job and its result as soon as the job ends.
pub fn run_all(
    jobs: &[Job<'_>],
    threads: usize,
    control: &Control,
    finished: impl Fn(usize, &Run) + Sync,
) -> Vec<Run> {
    let numbered: Vec<(usize, &Job<'_>)> = jobs.iter().enumerate().collect();
    map(&numbered, threads, |(place, job)| {
        let result = run(job, control);
        finished(*place, &result);
        result
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_keep_the_order_of_the_work() {
        let items: Vec<u64> = (0..200).collect();
        let slow_square = |n: &u64| {
            std::thread::sleep(std::time::Duration::from_micros(200 - n));
            n * n
        };
        let alone = map(&items, 1, slow_square);
        for threads in [0, 2, 7, 500] {
            assert_eq!(map(&items, threads, slow_square), alone);
        }
        assert_eq!(alone[13], 169);
        assert!(map(&[], 4, slow_square).is_empty());
    }
}
