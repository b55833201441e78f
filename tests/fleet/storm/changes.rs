//! Clients that know all replicas. Each has its own thread, so every change that is lost or made twice shows in the
//! next answer.
use super::books::{Books, DOUBLED, LOST};
use crate::caller::Caller;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::time::{Duration, Instant};
use tokio::time::sleep;

/// The time between two calls.
const PAUSE: Duration = Duration::from_millis(20);

/// Opens and closes one elicitation after another, and reads, until `stop`.
pub(super) async fn change(caller: Caller, number: usize, stop: Arc<AtomicBool>, books: Arc<Books>) {
    let thread = format!("thread {number}");
    let (mut revision, mut call) = (0, 0);
    while !stop.load(SeqCst) {
        for is_open in [true, false] {
            call += 1;
            let (request_id, began) = (format!("{number}-{call}"), Instant::now());
            let answer = match is_open {
                true => caller.increment(&thread, &request_id).await,
                false => caller.decrement(&thread, &request_id).await,
            };
            books.answered(began);
            compare(&books, &request_id, answer, (u32::from(is_open), revision + 1));
            revision = answer.1;
            sleep(PAUSE).await;
        }
        let began = Instant::now();
        let state = caller.get(&thread).await;
        books.answered(began);
        compare(&books, &format!("{thread}, read after {number}-{call}"), (state.count, state.revision), (0, revision));
        revision = state.revision;
    }
}

fn compare(books: &Books, what: &str, found: (u32, u64), expected: (u32, u64)) {
    if found != expected {
        let how = if found.1 < expected.1 { LOST } else { DOUBLED };
        books.fail(how, format!("{what}: count and revision are {found:?}, not {expected:?}"));
    }
}
