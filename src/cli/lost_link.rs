//! The warnings that a command's time limit has lost its coordinator, or that the coordinator refuses its thread.
use super::{duration::show, failure::without_number};
use crate::client::{
    Address,
    stopwatch::{Link, Refusal, StopwatchController},
};
use std::time::Duration;
use tokio::{sync::watch, time::timeout};

/// How long a client of several replicas may take to reach another one: longer than a takeover.
const MOVE: Duration = Duration::from_secs(4);

/// Warns once of a loss and once of a refusal, in tasks that end with the controller.
pub(super) fn warn(address: &Address, controller: &StopwatchController, grace: Duration, say: fn(&str)) {
    tokio::spawn(warn_of_loss(address.clone(), controller.link(), grace, say));
    tokio::spawn(warn_of_refusal(address.clone(), controller.refusal(), grace, say));
}

/// Warns when the coordinator becomes unreachable for the first time; with several replicas, when none was reachable for
/// some time.
async fn warn_of_loss(address: Address, mut link: watch::Receiver<Link>, grace: Duration, say: fn(&str)) {
    loop {
        let Some(why) = lost(&mut link).await else { return };
        let found = async { link.wait_for(|link| link.reason().is_none()).await.is_ok() };
        if address.each().len() > 1 && timeout(MOVE, found).await == Ok(true) {
            continue;
        }
        // The cause may begin with the address.
        let why = why.strip_prefix(&format!("{address}: ")).unwrap_or(&why);
        let (why, grace) = (without_number(why), show(grace));
        say(&format!("warning: no coordinator at {address}: {why}. The time limit holds, plus at most {grace}"));
        return;
    }
}

/// Waits until the coordinator is unreachable; returns the cause.
async fn lost(link: &mut watch::Receiver<Link>) -> Option<String> {
    let lost = link.wait_for(|link| link.reason().is_some()).await.ok()?;
    lost.reason().map(ToString::to_string)
}

async fn warn_of_refusal(
    address: Address,
    mut refusals: watch::Receiver<Option<Refusal>>,
    grace: Duration,
    say: fn(&str),
) {
    let refusal = refusals.wait_for(Option::is_some).await.ok().and_then(|refusal| refusal.clone());
    let Some(Refusal { thread_ids, reason }) = refusal else { return };
    let threads = match &thread_ids[..] {
        [] => return,
        [thread_id] => format!("thread {thread_id}"),
        [first, others @ ..] => format!("thread {first} and {} others", others.len()),
    };
    let grace = show(grace);
    say(&format!(
        "warning: the coordinator at {address} refuses {threads}: {reason}. The time limit holds, plus at most {grace}"
    ));
}
