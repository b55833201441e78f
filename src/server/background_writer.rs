//! A thread that writes lines to a destination that may block: a stopped terminal, a pipe that nobody reads, a disk.
//!
//! - O1: adding a line never waits for the write.
//! - O2: lines are written completely and in their order. A line that exceeds the buffer is refused, and the caller
//!   learns it.
use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread;
use std::time::Duration;

/// How long the end of the process waits for unwritten lines.
const LAST_WORDS: Duration = Duration::from_secs(3);
/// The time between two attempts to write.
const TRY_AGAIN_AFTER: Duration = Duration::from_secs(1);

/// The destination of the lines. Called by one thread.
pub(crate) trait Sink: Send + 'static {
    /// Writes all of `lines`.
    ///
    /// # Errors
    /// Not all could be written. The written part was removed from `lines`.
    fn write(&mut self, lines: &mut Vec<u8>) -> io::Result<()>;

    /// Whether lines that could not be written are retried. Otherwise they are dropped.
    fn retries_failed_writes(&self) -> bool;
}

/// Accepts lines. Dropping it waits up to `LAST_WORDS` until they are written.
pub(crate) struct BackgroundWriter {
    shared: Arc<Shared>,
    most: usize,
}

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    waiting: Vec<u8>,
    /// Bytes that the thread has taken and not written yet.
    taken: usize,
    stopping: bool,
    ended: bool,
}

impl State {
    fn is_empty(&self) -> bool {
        self.waiting.is_empty() && self.taken == 0
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("nothing panics while it holds the lines")
    }
}

impl BackgroundWriter {
    /// Starts the thread `name`. `most`: the maximum of waiting bytes.
    ///
    /// # Errors
    /// The system cannot start a thread.
    pub(crate) fn start(name: &str, most: usize, sink: impl Sink) -> io::Result<Self> {
        let shared = Arc::<Shared>::default();
        let writer = shared.clone();
        thread::Builder::new().name(name.into()).spawn(move || write(&writer, sink))?;
        Ok(BackgroundWriter { shared, most })
    }

    /// Adds a line, including its newline. `false`: the buffer is full.
    pub(crate) fn push(&self, line: &[u8]) -> bool {
        let mut state = self.shared.lock();
        if state.waiting.len() + state.taken + line.len() > self.most {
            return false;
        }
        let first = state.waiting.is_empty();
        state.waiting.extend_from_slice(line);
        drop(state);
        if first {
            self.shared.changed.notify_all();
        }
        true
    }

    /// Whether all lines are written.
    pub(crate) fn is_empty(&self) -> bool {
        self.shared.lock().is_empty()
    }

    /// Waits until all lines are written, at most this long.
    pub(crate) fn wait_until_written(&self, at_most: Duration) {
        let state = self.shared.lock();
        drop(self.shared.changed.wait_timeout_while(state, at_most, |state| !state.is_empty()));
    }

    /// Whether less than a quarter of the buffer is free.
    pub(crate) fn is_nearly_full(&self) -> bool {
        let state = self.shared.lock();
        state.waiting.len() + state.taken > self.most / 4 * 3
    }

    /// Waits up to `LAST_WORDS` until all lines are written. Returns the number of unwritten bytes, which are dropped.
    pub(crate) fn close(&self) -> usize {
        let mut state = self.shared.lock();
        state.stopping = true;
        self.shared.changed.notify_all();
        let waited = self.shared.changed.wait_timeout_while(state, LAST_WORDS, |state| !state.ended);
        let (state, _) = waited.expect("nothing panics while it holds the lines");
        state.waiting.len() + state.taken
    }
}

impl Drop for BackgroundWriter {
    fn drop(&mut self) {
        let is_closed = self.shared.lock().stopping;
        if !is_closed {
            self.close();
        }
    }
}

fn write(shared: &Shared, mut sink: impl Sink) {
    let mut lines = Vec::new();
    loop {
        let mut state = shared.lock();
        while lines.is_empty() && state.waiting.is_empty() && !state.stopping {
            state = shared.changed.wait(state).expect("nothing panics while it holds the lines");
        }
        if lines.is_empty() {
            if state.waiting.is_empty() {
                state.ended = true;
                shared.changed.notify_all();
                return;
            }
            std::mem::swap(&mut lines, &mut state.waiting);
        } else {
            // Unwritten lines go first.
            lines.append(&mut state.waiting);
        }
        state.taken = lines.len();
        drop(state);
        let written = sink.write(&mut lines);
        if written.is_ok() || !sink.retries_failed_writes() {
            lines.clear();
        }
        let mut state = shared.lock();
        state.taken = lines.len();
        if state.is_empty() {
            shared.changed.notify_all();
        }
        if !lines.is_empty() {
            if state.stopping {
                state.ended = true;
                shared.changed.notify_all();
                return;
            }
            let pause = shared.changed.wait_timeout_while(state, TRY_AGAIN_AFTER, |state| !state.stopping);
            drop(pause.expect("nothing panics while it holds the lines"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;

    /// Writes as far as the test allows, and reports what it wrote.
    struct SteppedSink {
        may: mpsc::Receiver<bool>,
        said: mpsc::Sender<String>,
        retries: bool,
    }

    impl Sink for SteppedSink {
        fn write(&mut self, lines: &mut Vec<u8>) -> io::Result<()> {
            self.said.send(String::from_utf8(lines.clone()).unwrap()).unwrap();
            match self.may.recv() {
                Ok(true) => Ok(()),
                _ => Err(io::Error::other("the test said so")),
            }
        }

        fn retries_failed_writes(&self) -> bool {
            self.retries
        }
    }

    fn stepped(retries: bool) -> (BackgroundWriter, mpsc::Sender<bool>, mpsc::Receiver<String>) {
        let ((may, allowed), (said, heard)) = (mpsc::channel(), mpsc::channel());
        (BackgroundWriter::start("test", 16, SteppedSink { may: allowed, said, retries }).unwrap(), may, heard)
    }

    #[test]
    fn g7_a_sink_that_hangs_delays_no_caller_and_its_buffer_is_bounded() {
        let (writer, may, heard) = stepped(false);
        assert!(writer.push(b"one\n"));
        assert_eq!(heard.recv().unwrap(), "one\n");
        assert!(writer.push(b"two\n") && writer.push(b"three\n") && writer.is_nearly_full());
        assert!(!writer.push(b"four\n"), "16 bytes are all that may wait");
        may.send(true).unwrap();
        assert_eq!(heard.recv().unwrap(), "two\nthree\n");
        may.send(true).unwrap();
        drop(writer);
        assert!(heard.recv().is_err(), "and nothing else");
    }

    #[test]
    fn unwritten_lines_are_retried_before_later_lines() {
        let (writer, may, heard) = stepped(true);
        assert!(writer.push(b"one\n"));
        assert_eq!(heard.recv().unwrap(), "one\n");
        assert!(writer.push(b"two\n"));
        may.send(false).unwrap();
        assert_eq!(heard.recv().unwrap(), "one\ntwo\n");
        may.send(true).unwrap();
        assert_eq!(writer.close(), 0);
    }

    #[test]
    fn what_is_not_written_in_the_end_is_counted() {
        let (writer, may, heard) = stepped(true);
        assert!(writer.push(b"one\n"));
        assert_eq!(heard.recv().unwrap(), "one\n");
        assert!(writer.push(b"three\n"));
        may.send(false).unwrap();
        may.send(false).unwrap();
        may.send(false).unwrap();
        assert_eq!(writer.close(), 10);
    }

    #[test]
    fn a_sink_without_retries_drops_failed_lines() {
        let (writer, may, heard) = stepped(false);
        assert!(writer.push(b"one\n"));
        assert_eq!(heard.recv().unwrap(), "one\n");
        may.send(false).unwrap();
        assert!(writer.push(b"two\n"));
        assert_eq!(heard.recv().unwrap(), "two\n");
        may.send(true).unwrap();
    }
}
