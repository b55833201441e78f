//! Ends the process when it must not continue.
use crate::coordinator::Fatal;
use std::time::Duration;

/// How long a process that must end waits until its message is printed.
const TIME_FOR_LAST_MESSAGE: Duration = Duration::from_millis(500);

/// Ends the process because the content of the disk is unknown, so that no call may be answered. A new process starts
/// from the store.
pub(super) fn end_process(fatal: Fatal) {
    if let Fatal::Gone(why) = fatal {
        stop_without_store(&why);
    }
    stop_at_once(&format!(
        "{fatal}. Stopping at once; start again when the disk is sound: nothing that was acknowledged is lost"
    ));
}

/// Ends the process because its store was deleted or replaced. `why`: what happened.
pub(super) fn stop_without_store(why: &str) -> ! {
    stop_at_once(&format!(
        "{why}: its threads and elicitations are lost, unless it was only moved. Stopping at once; put it back, or restore a \
         backup with `pausewatch restore`, and start again"
    ))
}

/// Ends the process with this message.
pub(super) fn stop_at_once(why: &str) -> ! {
    tracing::error!(why, "stopping at once");
    let message = format!("pausewatch: {why}");
    let (printed, is_printed) = std::sync::mpsc::channel::<()>();
    // On another thread: standard error may be a pipe that nobody reads.
    let print = move || {
        eprintln!("{message}");
        drop(printed);
    };
    let _ = std::thread::Builder::new().spawn(print);
    let _ = is_printed.recv_timeout(TIME_FOR_LAST_MESSAGE);
    std::process::exit(1);
}
