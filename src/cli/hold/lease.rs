//! Reports on standard error when the elicitation is lost while the command runs, and closes it afterwards.
//!
//! 1. A warning comes before the server's maximum pause ends the elicitation, as soon as that is known, and before its lease ends
//!    because it cannot be renewed.
//! 2. If the lease expired before the command ended, a warning says so: commands of the thread may have timed out meanwhile.
//! 3. Closing is retried for a few seconds; after that, the lease closes the elicitation.
use super::super::failure::{cause, say};
use crate::client::{Error, Hold, Lease, LeaseRisk, Release};
use std::{convert::Infallible, time::Duration};
use tokio::time::{Instant, sleep, timeout};

/// How long closing is retried: long enough for the coordinator to restart.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(5);
/// The interval between two attempts, and between two checks of an overdue lease.
const RETRY_INTERVAL: Duration = Duration::from_millis(200);

/// The command of this program that holds the elicitation; warnings name it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Reporter(pub(crate) &'static str);

impl Reporter {
    pub(super) fn warn(self, message: &str) {
        say(self.0, message);
    }
}

/// Reports when the server's maximum pause is going to end the elicitation, when the lease cannot be renewed or is lost, and
/// when it is held again.
pub(super) async fn report_loss(hold: &Hold, ttl: Duration, reporter: Reporter) -> Infallible {
    let warn_before_end = async {
        let left = hold.last_end().await.saturating_duration_since(Instant::now());
        let left = super::super::duration::show(left);
        reporter.warn(&format!("the server ends this pause in {left}, the longest that it allows: answer before that"));
        std::future::pending().await
    };
    tokio::select! {
        never = warn_before_end => never,
        never = report_risks(hold, reporter) => never,
        never = report_lost_leases(hold, ttl, reporter) => never,
    }
}

async fn report_risks(hold: &Hold, reporter: Reporter) -> Infallible {
    let mut risk = hold.risk();
    loop {
        if let Ok(Some(LeaseRisk { ends, error })) = risk.wait_for(Option::is_some).await.as_deref() {
            let left = ends.saturating_duration_since(Instant::now());
            let why = error.as_ref().map_or("the coordinator does not respond".to_owned(), cause);
            // After a stop of this process the lease may have ended already.
            if !left.is_zero() {
                reporter.warn(&format!(
                    "cannot renew the lease: {why}; trying again. If that fails for {}, the pause ends, and commands of the thread may \
                      time out",
                    super::super::duration::show(left)
                ));
            }
        }
        // After the end of the lease too, if a coordinator that was away still holds it.
        let _ = risk.wait_for(Option::is_none).await;
        if hold.lease() == Lease::Held {
            reporter.warn("the lease is renewed again: the thread is still paused");
        }
    }
}

async fn report_lost_leases(hold: &Hold, ttl: Duration, reporter: Reporter) -> Infallible {
    loop {
        let lost = hold.lost().await;
        match lost {
            Lease::Held => continue,
            Lease::Overdue => reporter.warn(&format!("no response from the coordinator for {ttl:?}: the pause may be over")),
            Lease::Expired => reporter.warn(
                "the lease has expired, or the pause was as long as the server allows: this command no longer pauses the thread",
            ),
            Lease::Released => reporter.warn("another client closed the elicitation while the command runs"),
            Lease::Unknown => reporter.warn("the coordinator no longer knows the elicitation: the pause is over"),
        }
        // A closed elicitation stays closed; an overdue lease may be renewed.
        while hold.lease() == lost {
            sleep(RETRY_INTERVAL).await;
        }
    }
}

/// Closes the elicitation, and reports if it was closed before the command ended.
pub(crate) async fn close(hold: &Hold, reporter: Reporter) {
    let known = hold.lease();
    match try_to_close(hold).await {
        Ok(Release::Closed { .. }) => {}
        Ok(Release::Expired) => {
            reporter.warn(
                "the lease expired before the command ended, or the pause was as long as the server allows: commands of the \
                  thread may have timed out",
            );
        }
        Ok(Release::Released) if known == Lease::Released => {}
        Ok(Release::Released) => reporter.warn("another client closed the elicitation before the command ended"),
        Ok(Release::Unknown) if known == Lease::Unknown => {}
        Ok(Release::Unknown) => reporter.warn("the coordinator lost the elicitation before the command ended"),
        Err(error) => {
            reporter.warn(&format!("cannot close the elicitation, its lease will end the pause: {}", cause(&error)))
        }
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
            sleep(RETRY_INTERVAL).await;
        }
    };
    match timeout(CLOSE_TIMEOUT, tries).await {
        Ok(result) => result,
        Err(_) => Err(last.unwrap_or_else(|| Error::deadline_exceeded(CLOSE_TIMEOUT))),
    }
}
