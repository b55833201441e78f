//! A command as process 1 of a container. The kernel drops a signal to process 1 unless that has a handler for it, so without
//! this a command that leaves signals alone could only be killed from outside of the container.
use crate::exec::supervise::was_ignored;
use rustix::process::{Signal, getpid};
use signal_hook::flag::register_conditional_shutdown;
use std::sync::{Arc, atomic::AtomicBool};

/// The signals by which people and service managers end a process.
pub(super) const ENDING: &[Signal] = &[Signal::HUP, Signal::INT, Signal::QUIT, Signal::TERM];

/// If this is process 1: lets the signals that the command does not catch itself end this process, with 128 + n.
pub(super) fn end_by_signals(caught: &[Signal]) {
    if !getpid().is_init() {
        return;
    }
    for signal in ENDING.iter().filter(|signal| !caught.contains(signal) && !was_ignored(**signal)) {
        let number = signal.as_raw();
        // Without the handler, the signal is dropped as before.
        let _ = register_conditional_shutdown(number, 128 + number, Arc::new(AtomicBool::new(true)));
    }
}
