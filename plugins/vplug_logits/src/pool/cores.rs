//! Where threads run, and where helpers may.

/// Lets this thread run where any thread of the process may.
///
/// Hosts bind their own threads to cores one by one, and a thread inherits the core of the one that started it.
#[cfg(target_os = "linux")]
pub(super) fn widen() {
    use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

    let Ok(threads) = std::fs::read_dir("/proc/self/task") else {
        return;
    };
    let mut union = CpuSet::new();
    for entry in threads.flatten() {
        let number = entry.file_name().to_str().and_then(|name| name.parse().ok());
        let Some(Ok(set)) = number
            .and_then(rustix::process::Pid::from_raw)
            .map(|pid| sched_getaffinity(Some(pid)))
        else {
            continue;
        };
        for core in (0..CpuSet::MAX_CPU).filter(|&core| set.is_set(core)) {
            union.set(core);
        }
    }
    if union.count() > 0 {
        // Where it is refused the thread stays where its parent was, which is slower and nothing else.
        let _stays = sched_setaffinity(None, &union);
    }
}

/// The core that this thread is on.
#[cfg(target_os = "linux")]
pub(super) fn here() -> usize {
    rustix::thread::sched_getcpu()
}

/// Whether this thread may run on more than one: else all are on that one.
#[cfg(target_os = "linux")]
pub(super) fn several() -> bool {
    rustix::thread::sched_getaffinity(None).is_ok_and(|cores| cores.count() > 1)
}

/// No core: nothing is known of it.
#[cfg(not(target_os = "linux"))]
pub(super) const fn here() -> usize {
    0
}

#[cfg(not(target_os = "linux"))]
pub(super) const fn several() -> bool {
    false
}

#[cfg(not(target_os = "linux"))]
pub(super) const fn widen() {}
