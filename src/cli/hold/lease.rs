//! What becomes of the elicitation while the command runs and when it has ended, said on standard error.
//!
//! 1. An answer that came too late is said to be late: commands of the thread may have run out of time meanwhile.
//! 2. Closing is tried for a few seconds at most; then the lease does it.
use super::super::failure::{cause, say};
use crate::client::{Error, Hold, Lease, Release};
use std::{convert::Infallible, time::Duration};
use tokio::time::{sleep, timeout};

/// How long closing is tried: a coordinator that restarts is back by then.
const CLOSE_PATIENCE: Duration = Duration::from_secs(5);
/// Between two tries, and between two looks at a lease that is overdue.
const PAUSE: Duration = Duration::from_millis(200);

/// Says when the lease is lost, and when it is back.
pub(super) async fn look_after(hold: &Hold, ttl: Duration) -> Infallible {
    loop {
        let lost = hold.lost().await;
        match lost {
            Lease::Held => continue,
            Lease::Overdue => warn(&format!("no answer from the coordinator for {ttl:?}: the pause may be over")),
            Lease::Expired => warn("the lease has ended: the thread is not paused by this command any more"),
            Lease::Released => warn("the elicitation was closed by somebody else while the command runs"),
            Lease::Unknown => warn("the coordinator does not know the elicitation any more: the pause is over"),
        }
        // What is closed stays closed; what is overdue may come back.
        while hold.lease() == lost {
            sleep(PAUSE).await;
        }
        if hold.lease() == Lease::Held {
            warn("the coordinator answers again: the thread is still paused");
        }
    }
}

/// Closes the elicitation, and says if it was not open to the end.
pub(super) async fn close(hold: &Hold) {
    let known = hold.lease();
    match try_to_close(hold).await {
        Ok(Release::Closed { .. }) => {}
        Ok(Release::Expired) => {
            warn("the command ended too late: its lease had ended, and the thread's commands may have run out of time");
        }
        Ok(Release::Released) if known == Lease::Released => {}
        Ok(Release::Released) => warn("the elicitation had been closed by somebody else before the command ended"),
        Ok(Release::Unknown) if known == Lease::Unknown => {}
        Ok(Release::Unknown) => warn("the coordinator had lost the elicitation before the command ended"),
        Err(error) => warn(&format!("the pause could not be ended, its lease will end it: {}", cause(&error))),
    }
}

async fn try_to_close(hold: &Hold) -> Result<Release, Error> {
    let mut last = None;
    let tries = async {
        loop {
            match hold.release().await {
                Err(error) if error.is_transient() => last = Some(error),
                result => return result,
            }
            sleep(PAUSE).await;
        }
    };
    match timeout(CLOSE_PATIENCE, tries).await {
        Ok(result) => result,
        Err(_) => Err(last.unwrap_or_else(|| Error::deadline_exceeded(CLOSE_PATIENCE))),
    }
}

fn warn(message: &str) {
    say("hold", message);
}
