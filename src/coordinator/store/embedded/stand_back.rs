//! A thread that lets those go first that serve callers (docs/decisions/0006-checkpoints-stand-back.md).
#![expect(unsafe_code, reason = "no library sets the time slice of a thread")]
use rustix::process::{getpriority_process, setpriority_process};

/// The nice value: a third of the CPU share of the serving threads. Not less: the writer may have to wait for a file, and on a
/// busy machine the lowest priority gets no time for seconds.
const NICE: i32 = 5;
/// The time slice in nanoseconds, the shortest that Linux takes. A thread that wakes up has to wait for the one that has its core until that
/// has had its slice, which is 1.4 to 3 ms otherwise.
const SLICE: u64 = 100_000;

/// Lets the other threads of this process go first, on their cores, from now on. What the system refuses stays as it was: it costs time only.
pub(super) fn stand_back() {
    // On Linux this is the thread's own priority (setpriority(2), notes).
    let _ = setpriority_process(None, NICE);
    let attributes = libc::sched_attr {
        size: size_of::<libc::sched_attr>() as u32,
        sched_policy: libc::SCHED_OTHER as u32,
        sched_flags: 0,
        // Of a process that was nicer already, it stays so.
        sched_nice: getpriority_process(None).unwrap_or(NICE),
        sched_priority: 0,
        sched_runtime: SLICE,
        sched_deadline: 0,
        sched_period: 0,
    };
    let (this_thread, no_flags): (libc::c_long, libc::c_long) = (0, 0);
    // SAFETY: the kernel reads the structure, whose size is in it, during the call, and changes nothing but the scheduling of this thread
    // (sched_setattr(2)).
    unsafe { libc::syscall(libc::SYS_sched_setattr, this_thread, &raw const attributes, no_flags) };
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Since Linux 6.12 a slice can be set (sched_setattr(2), `sched_runtime`).
    fn can_set_slices() -> bool {
        let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap();
        let mut numbers = release.split(['.', '-']).map_while(|number| number.parse::<u32>().ok());
        (numbers.next(), numbers.next()) >= (Some(6), Some(12))
    }

    #[test]
    fn a_thread_that_stands_back_has_a_short_slice_and_is_nice() {
        let thread = std::thread::spawn(|| {
            stand_back();
            (getpriority_process(None).unwrap(), std::fs::read_to_string("/proc/thread-self/sched"))
        });
        let (nice, scheduling) = thread.join().unwrap();
        assert!(nice >= NICE, "{nice}");
        match scheduling {
            Ok(scheduling) if can_set_slices() => {
                let slice = scheduling.lines().find_map(|line| line.strip_prefix("se.slice"));
                let slice = slice.and_then(|rest| rest.trim_start_matches([' ', ':']).parse().ok());
                assert_eq!(slice, Some(SLICE), "{scheduling}");
            }
            Ok(_) => eprintln!("skipped: stand-back: this kernel sets no slices; Linux 6.12 does"),
            Err(error) => eprintln!("skipped: stand-back: /proc/thread-self/sched: {error}"),
        }
    }
}
