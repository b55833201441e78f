//! The hold guard.
use super::{a_while, all_wait, join, now, run_until};
use crate::client::{Client, Release};
use crate::runner::Case;
use crate::world::{s, server::Server};
use shuttle::future::{block_on, spawn};
use std::{
    sync::{Arc, atomic::Ordering::SeqCst},
    time::Duration,
};
use tokio::task::yield_now;

const TTL: Duration = s(3);

/// Opens a hold, keeps it for a moment, and releases or drops it, as the scheduler likes.
async fn use_a_hold(client: Client) {
    let Ok(hold) = client.hold("t").ttl(TTL).open().await else { return };
    yield_now().await;
    if tokio::choose() {
        let _ = hold.release().await;
    }
}

pub(super) const CLOSED_AT_ONCE: Case = Case {
    name: "a_hold_that_is_dropped_anywhere_is_closed_at_once",
    run: a_hold_that_is_dropped_anywhere_is_closed_at_once,
    share: 1,
};

/// No message is lost, and no time passes: so the lease does not end it.
fn a_hold_that_is_dropped_anywhere_is_closed_at_once() {
    let server = Server::start();
    let client = Client::new(&server, 0);
    let user = spawn(use_a_hold(client.clone()));
    a_while();
    user.abort();
    let _ = block_on(user);
    all_wait();
    assert_eq!(now(), s(0));
    let state = server.state("t");
    assert!(
        state == (0, 0) || state == (0, 2),
        "it must be never opened, or opened once and closed once, not {state:?}"
    );
}

pub(super) const CLOSED_IN_TIME: Case = Case {
    name: "a_hold_that_is_dropped_anywhere_is_closed_in_time",
    run: a_hold_that_is_dropped_anywhere_is_closed_in_time,
    share: 1,
};

/// Two messages are lost. If no decrement closes the elicitation, its lease does, because nothing renews it.
fn a_hold_that_is_dropped_anywhere_is_closed_in_time() {
    let server = Server::start();
    let client = Client::new(&server, 2);
    let user = spawn(use_a_hold(client.clone()));
    a_while();
    user.abort();
    let _ = block_on(user);
    let dropped = now();
    // A repeated increment opens the elicitation late, by at most its deadline.
    let bound = dropped + client.deadline() + TTL;
    run_until(|| now() > bound);
    let (open, revision) = server.state("t");
    assert_eq!(open, 0, "open for ever");
    assert!(revision == 0 || revision == 2, "opened once and closed once, not {revision} changes");
    let renewals = server.renewals.load(SeqCst);
    run_until(|| now() > bound + 10 * TTL);
    assert_eq!(
        (server.state("t"), server.renewals.load(SeqCst)),
        ((0, revision), renewals),
        "nothing may happen any more"
    );
}

pub(super) const RELEASED_ONCE: Case =
    Case { name: "a_hold_is_released_once_by_many", run: a_hold_is_released_once_by_many, share: 1 };

/// Two tasks release it at the same time and one of them is dropped half-way; one message is lost. A task that waits
/// for the loss of the hold is woken.
fn a_hold_is_released_once_by_many() {
    let server = Server::start();
    let client = Client::new(&server, 1);
    let hold = spawn(client.hold("t").ttl(TTL).open());
    run_until(|| hold.is_finished());
    let Ok(hold) = join(hold) else { panic!("one loss is not enough to fail") };
    let hold = Arc::new(hold);
    let lost = {
        let hold = hold.clone();
        spawn(async move { hold.lost().await })
    };
    let [kept, dropped] = [(); 2].map(|()| {
        let hold = hold.clone();
        spawn(async move { hold.release().await.expect("one loss is not enough to fail") })
    });
    a_while();
    dropped.abort();
    run_until(|| kept.is_finished() && dropped.is_finished());
    let release = join(kept);
    assert!(matches!(release, Release::Closed { count: 0, .. }), "it was {release:?}");
    // Without any time passing, although the renewal task, which would report it, has ended.
    join(lost);
    drop(hold);
    all_wait();
    assert_eq!(server.state("t"), (0, 2), "opened once, closed once");
}
