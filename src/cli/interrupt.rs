//! Opens an elicitation, and closes it again if a signal ends this process first: nobody else knows its id (G2).
//!
//! 1. After the signal, the answer is awaited and the elicitation closed, within [`UNDO_TIMEOUT`]. If the outcome of the increment is
//!    unknown, it is sent again with the same request id, so that it counts once, and its answer names the elicitation (G4).
//! 2. A further signal ends the wait, but not before [`MIN_UNDO_TIME`]: GNU `timeout` sends two at once.
//! 3. Where connections are refused, nobody waits for a coordinator to start.
use crate::causes::causes;
use crate::client::Error;
use crate::exec::supervise::{Signal, SignalListener};
use rustix::process::Signal as SystemSignal;
use std::{future::ready, io, pin::pin, time::Duration};
use tokio::{task::yield_now, time::sleep};

/// Long enough for one call with the default deadline, and for a coordinator that restarts.
const UNDO_TIMEOUT: Duration = Duration::from_secs(5);
/// Enough for a coordinator that responds.
const MIN_UNDO_TIME: Duration = Duration::from_secs(1);
/// The interval between two attempts.
const RETRY_INTERVAL: Duration = Duration::from_millis(200);
/// The signals by which people and programs end a process.
const ENDING: [SystemSignal; 4] = [SystemSignal::INT, SystemSignal::QUIT, SystemSignal::TERM, SystemSignal::HUP];

/// A signal that came before the elicitation was of use. This process should end by it.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Interrupted {
    pub(super) signal: Signal,
    /// Whether nothing is open, as far as is known.
    pub(super) is_undone: bool,
}

/// Catches the signals that end a process, except those that were ignored at the start.
pub(super) fn ending_signals() -> io::Result<SignalListener> {
    SignalListener::catching(&[], &ENDING)
}

/// Waits for one of the signals that end a process.
pub(super) async fn further_signal() {
    let signalled = async {
        match ending_signals() {
            Ok(mut signals) => _ = signals.recv().await,
            Err(_) => std::future::pending().await,
        }
    };
    tokio::join!(signalled, sleep(MIN_UNDO_TIME));
}

/// Opens an elicitation by `open`, which sends the same request id each time, unless `signal` comes first: then `close` closes it again.
///
/// # Errors
/// The signal came first. The inner error: `open` failed, and no signal came.
pub(super) async fn open<T>(
    mut signal: impl AsyncFnMut() -> Signal,
    open: impl AsyncFn() -> Result<T, Error>,
    close: impl AsyncFn(&T) -> Result<(), Error>,
) -> Result<Result<T, Error>, Interrupted> {
    let mut opening = pin!(open());
    let (signal, answer) = tokio::select! {
        biased;
        answer = &mut opening => {
            // A signal that arrived before may still be on its way through the runtime.
            yield_now().await;
            tokio::select! {
                biased;
                signal = signal() => (signal, Some(answer)),
                () = ready(()) => return Ok(answer),
            }
        }
        signal = signal() => (signal, None),
    };
    let undo = async {
        let mut answer = match answer {
            Some(answer) => answer,
            None => opening.await,
        };
        loop {
            match answer {
                Ok(opened) => return close_again(&opened, close).await,
                Err(error) if !may_be_open(&error) => return,
                Err(_) => sleep(RETRY_INTERVAL).await,
            }
            answer = open().await;
        }
    };
    Err(Interrupted { signal, is_undone: in_time(undo).await })
}

/// Closes an elicitation that is of no use, because `signal` came.
pub(super) async fn undo<T>(signal: Signal, opened: &T, close: impl AsyncFn(&T) -> Result<(), Error>) -> Interrupted {
    Interrupted { signal, is_undone: in_time(close_again(opened, close)).await }
}

/// Whether `undo` is done before its time is over, or a further signal comes.
async fn in_time(undo: impl Future<Output = ()>) -> bool {
    tokio::select! {
        biased;
        () = undo => true,
        () = sleep(UNDO_TIMEOUT) => false,
        () = further_signal() => false,
    }
}

/// A refusal means that it is closed already.
async fn close_again<T>(opened: &T, close: impl AsyncFn(&T) -> Result<(), Error>) {
    while close(opened).await.is_err_and(|error| error.is_transient()) {
        sleep(RETRY_INTERVAL).await;
    }
}

/// Whether an increment that failed may have opened an elicitation.
pub(super) fn may_be_open(error: &Error) -> bool {
    let is_unknown = matches!(error, Error::Unavailable(_) | Error::DeadlineExceeded(_));
    let is_refused = |cause: &(dyn std::error::Error + 'static)| {
        let kind = cause.downcast_ref::<io::Error>().map(io::Error::kind);
        matches!(kind, Some(io::ErrorKind::ConnectionRefused | io::ErrorKind::NotFound))
    };
    is_unknown && !causes(error.status()).any(is_refused)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{cell::RefCell, future::pending};
    use tokio::time::{Duration, Instant};

    fn unanswered() -> Error {
        Error::deadline_exceeded(Duration::from_secs(5))
    }

    fn refused() -> Error {
        let mut status = tonic::Status::unavailable("tcp connect error");
        status.set_source(std::sync::Arc::new(io::Error::from(io::ErrorKind::ConnectionRefused)));
        Error::Unavailable(Box::new(status))
    }

    /// Opens with these answers, each after a second, while a signal comes after half a second. Returns the result, the number of
    /// openings, those that were closed again, and how long it took.
    async fn interrupted(answers: Vec<Result<u32, Error>>) -> (Interrupted, usize, Vec<u32>, Duration) {
        let (all, began) = (answers.len(), Instant::now());
        let (answers, closed) = (RefCell::new(answers.into_iter()), RefCell::new(Vec::new()));
        let mut signals = vec![Signal::of(SystemSignal::TERM)].into_iter();
        let signal = async || {
            sleep(Duration::from_millis(500)).await;
            match signals.next() {
                Some(signal) => signal,
                None => pending().await,
            }
        };
        let answer = async || {
            let answer = answers.borrow_mut().next();
            sleep(Duration::from_secs(1)).await;
            answer.unwrap_or_else(|| Err(unanswered()))
        };
        let result = open(signal, answer, async |opened: &u32| {
            closed.borrow_mut().push(*opened);
            // The first answer is lost.
            if closed.borrow().len() == 1 { Err(unanswered()) } else { Ok(()) }
        });
        let result = result.await.expect_err("a signal came");
        (result, all - answers.into_inner().count(), closed.into_inner(), began.elapsed())
    }

    #[tokio::test(start_paused = true)]
    async fn g4_an_increment_without_an_answer_is_sent_again_until_it_is_known_what_to_close() {
        let signal = Signal::of(SystemSignal::TERM);
        let (result, openings, closed, _) = interrupted(vec![Err(unanswered()), Err(unanswered()), Ok(7)]).await;
        assert_eq!((result, openings), (Interrupted { signal, is_undone: true }, 3));
        assert_eq!(closed, [7, 7], "closing it is repeated too");
        let (result, _, closed, took) = interrupted(vec![]).await;
        assert_eq!((result, closed), (Interrupted { signal, is_undone: false }, vec![]));
        assert_eq!(took, Duration::from_millis(500) + UNDO_TIMEOUT);
    }

    #[tokio::test(start_paused = true)]
    async fn nobody_waits_where_connections_are_refused() {
        let (result, openings, closed, took) = interrupted(vec![Err(refused()), Ok(7)]).await;
        assert_eq!((result.is_undone, openings, closed.is_empty()), (true, 1, true));
        assert_eq!(took, Duration::from_secs(1));
    }

    #[tokio::test]
    async fn without_a_signal_the_answer_counts() {
        let opened = open(async || pending().await, async || Ok(7), async |_: &u32| panic!("it stays open")).await;
        assert_eq!(opened.expect("no signal").expect("opened"), 7);
        let failed = open(async || pending().await, async || Err(refused()), async |_: &u32| Ok(())).await;
        assert!(failed.expect("no signal").is_err());
    }
}
