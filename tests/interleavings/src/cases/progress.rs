//! The progress of a follower, between the thread that applies the log and the tasks that query the leader and serve
//! clients.
use super::join;
use crate::coordinator::hub::Hub;
use crate::core::Timestamp;
use crate::progress::Progress;
use crate::runner::Case;
use shuttle::{future::spawn, thread};
use std::sync::Arc;

/// The time that the leader has confirmed, with the entry [`SEQ`].
const HORIZON: i64 = 30;
const SEQ: u64 = 2;

pub(super) const TOLD_AS_FAR: Case = Case {
    name: "who_has_waited_for_an_entry_is_told_durations_as_far_as_it_holds",
    run: who_has_waited_for_an_entry_is_told_durations_as_far_as_it_holds,
    share: 4,
};

/// P1: a client that comes from another replica has already seen durations up to this time; a lower value would look
/// like a loss of state.
fn who_has_waited_for_an_entry_is_told_durations_as_far_as_it_holds() {
    let hub = Arc::<Hub>::default();
    let progress = Arc::new(Progress::new(hub.clone()));
    progress.begin(0);
    let asks = spawn({
        let (progress, hub) = (progress.clone(), hub.clone());
        async move {
            progress.holds(SEQ, HORIZON);
            assert!(progress.shows(SEQ).await);
            let now = Timestamp { boot: 40, wall: 40 };
            hub.safe_time().limit(now).boot
        }
    });
    let applies = thread::spawn(move || (1..=SEQ).for_each(|seq| progress.applied(seq, i64::MIN)));
    assert!(join(asks) >= HORIZON, "it must not get a lower time");
    applies.join().expect("no panic");
}
