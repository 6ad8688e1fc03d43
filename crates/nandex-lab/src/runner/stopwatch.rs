//! The processor time of the thread: what others do on the same core is not in it.

#[cfg(unix)]
pub(crate) fn thread_ns() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// Wall time, where the system has no better.
#[cfg(not(unix))]
pub(crate) fn thread_ns() -> u64 {
    use std::sync::LazyLock;
    use std::time::Instant;
    static START: LazyLock<Instant> = LazyLock::new(Instant::now);
    START.elapsed().as_nanos() as u64
}

#[cfg(test)]
mod tests {
    use super::thread_ns;
    use std::time::{Duration, Instant};

    #[test]
    fn sleep_is_no_work() {
        let (before, wall) = (thread_ns(), Instant::now());
        std::thread::sleep(Duration::from_millis(20));
        assert!(thread_ns() - before < 10_000_000, "{}", thread_ns() - before);
        let mut sum = 0u64;
        while thread_ns() - before < 1_000_000 {
            sum = std::hint::black_box(sum + 1);
        }
        assert!(sum > 0 && wall.elapsed() >= Duration::from_millis(20));
    }
}
