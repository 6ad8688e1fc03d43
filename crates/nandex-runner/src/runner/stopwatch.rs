//! Processor time of the thread, without that of other threads on the same core.

#[cfg(unix)]
pub(crate) fn thread_ns() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// Wall time, since the system offers no processor time of a thread.
#[cfg(not(unix))]
pub(crate) fn thread_ns() -> u64 {
    use std::sync::LazyLock;
    use std::time::Instant;
    static START: LazyLock<Instant> = LazyLock::new(Instant::now);
    START.elapsed().as_nanos() as u64
}
