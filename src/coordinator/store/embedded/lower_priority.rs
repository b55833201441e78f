//! Gives a thread a lower priority than the threads that serve callers (docs/decisions/0006-checkpoints-have-a-lower-priority.md).
#![expect(unsafe_code, reason = "no library sets the time slice of a thread")]
use rustix::process::{getpriority_process, setpriority_process};

/// The nice value: a third of the CPU share of the serving threads. Not less: the writer may have to wait for a file, and on a
/// busy machine the lowest priority gets no time for seconds.
const NICE: i32 = 5;
/// The time slice in nanoseconds, the shortest of Linux. A thread that wakes up waits for the running thread on its
/// core until that has used its slice, which is 1.4 to 3 ms by default.
const SLICE: u64 = 100_000;

/// Lowers the priority of this thread from now on. If the system refuses a part, that part stays unchanged: it costs
/// only time.
pub(crate) fn lower_priority() {
    // A process that is nicer already stays so. On Linux each thread has a nice value of its own (setpriority(2), notes).
    let nice = getpriority_process(None).unwrap_or(0).max(NICE);
    let _ = setpriority_process(None, nice);
    let attributes = libc::sched_attr {
        size: size_of::<libc::sched_attr>() as u32,
        sched_policy: libc::SCHED_OTHER as u32,
        sched_flags: 0,
        sched_nice: nice,
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
