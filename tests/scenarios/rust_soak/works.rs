//! What happens at the same time in a round. The future of a call that is cancelled is dropped.
use super::{HANG, Round, TTL};
use pausewatch::client::{Client, Error, Event, GetPauseStateRequest};
use pausewatch::stopwatch::{Registration, Stopwatch, StopwatchController};
use std::{
    sync::Arc,
    time::{Duration, Instant},
};
use tokio::{
    task::JoinSet,
    time::{sleep, timeout},
};

/// Opens and releases; two of three are cancelled meanwhile.
pub(super) async fn holds(round: Arc<Round>, client: Client) {
    while !round.is_over() {
        let (thread, moment) = (round.thread(&format!("hold-{}", round.below(20))), round.below(3));
        let soon = Duration::from_micros(round.below(20_000));
        let limit = |is_cancelled| if is_cancelled { soon } else { HANG };
        round.count("holds");
        match timeout(limit(moment == 1), client.hold(thread).ttl(TTL).open()).await {
            Err(_) => round.count(if moment == 1 { "cancelled" } else { "hangs" }),
            Ok(Err(_)) => round.count("unknown"),
            Ok(Ok(hold)) => {
                let released = match timeout(limit(moment == 2), hold.release()).await {
                    Err(_) => {
                        round.count(if moment == 2 { "cancelled" } else { "hangs" });
                        hold.release().await
                    }
                    Ok(released) => released,
                };
                if released.is_err() {
                    round.count("unknown");
                }
            }
        }
    }
}

/// Makes many calls that are cancelled at once.
pub(super) async fn bursts(round: Arc<Round>, client: Client) {
    while !round.is_over() {
        let mut calls = JoinSet::new();
        for _ in 0..100 {
            let (client, thread_id) = (client.clone(), round.thread("burst"));
            calls.spawn(async move { client.get_pause_state(GetPauseStateRequest { thread_id }).await });
        }
        sleep(Duration::from_millis(2)).await;
        calls.shutdown().await;
        sleep(Duration::from_secs(1)).await;
    }
}

/// Drops clients with everything open, also while a hold is being opened.
pub(super) async fn short_lives(round: Arc<Round>) {
    while !round.is_over() {
        let client = round.client();
        let life = async {
            let mut watch = client.watch();
            let (controller, stopwatch) = (StopwatchController::new(client.clone()), Stopwatch::new(TTL));
            let _registration = controller.register(&round.thread("short-0"), &stopwatch);
            let _ = watch.add(&round.thread("short-1"));
            let hold = client.hold(round.thread("short-hold")).ttl(TTL).open().await;
            if hold.is_err() {
                round.count("unknown");
            }
            loop {
                watch.next().await;
            }
        };
        let _ = timeout(Duration::from_micros(round.below(50_000)), life).await;
    }
}

pub(super) async fn deadlines(round: Arc<Round>, client: Client) {
    let controller = StopwatchController::new(client);
    while !round.is_over() {
        let mut works = JoinSet::new();
        for number in 0..round.number("deadlines") {
            let limit = Duration::from_millis(200 + round.below(800));
            let (thread, began) = (round.thread(&format!("free-{}", number % 20)), Instant::now());
            let started = start(&controller, &thread, limit);
            let timed = round.clone();
            works.spawn(async move {
                if timeout(HANG, started.0.expired()).await.is_err() {
                    return timed.count("hangs");
                }
                timed.count("expired");
                timed.greatest("late_ms", began.elapsed().saturating_sub(limit));
                if began.elapsed() + Duration::from_millis(5) < limit {
                    timed.count("early");
                }
            });
            let bare = round.clone();
            works.spawn(async move {
                let began = Instant::now();
                sleep(limit).await;
                bare.greatest("bare_late_ms", began.elapsed().saturating_sub(limit));
            });
        }
        works.join_all().await;
    }
}

/// A person holds a thread for most of the round: its timeout must not expire before the release, and must after it.
pub(super) async fn person(round: Arc<Round>, client: Client) {
    let thread = round.thread("person");
    let Ok(hold) = client.hold(&thread).ttl(TTL).open().await else { return round.count("unknown") };
    let controller = StopwatchController::new(client.clone());
    let (stopwatch, _registration) = start(&controller, &thread, Duration::from_millis(300));
    let mut watch = client.watch();
    watch.add(&thread).expect("a valid thread");
    let stay = round.end.saturating_duration_since(Instant::now()).saturating_sub(Duration::from_secs(1));
    let watching = async {
        loop {
            if matches!(watch.next().await, Event::Disconnected { .. }) {
                round.count("disconnects");
            }
        }
    };
    tokio::select! {
        () = watching => {}
        () = stopwatch.expired() => round.count("false_expiries"),
        () = sleep(stay.max(Duration::from_millis(600))) => {}
    }
    match hold.release().await {
        Ok(pausewatch::client::Release::Closed { .. }) => {}
        Ok(_) => round.count("false_expiries"),
        Err(_) => round.count("unknown"),
    }
    if timeout(HANG, stopwatch.expired()).await.is_err() {
        round.count("hangs");
    } else if stopwatch.elapsed() < Duration::from_millis(295) {
        round.count("early");
    }
}

/// Compares pauses with the monotonic clock.
pub(super) async fn clock(round: Arc<Round>, client: Client) {
    let controller = StopwatchController::new(client.clone());
    let (stopwatch, registration) = start(&controller, &round.thread("clock"), TTL);
    let (began, charged, outer) = (Instant::now(), stopwatch.elapsed(), Instant::now());
    let pause = stopwatch.pause();
    let inner = Instant::now();
    sleep(Duration::from_millis(100 + round.below(400))).await;
    let least = inner.elapsed();
    drop(pause);
    let most = outer.elapsed();
    let off = began.elapsed().saturating_sub(stopwatch.elapsed() - charged);
    round.outside("clock_error_ms", off, least, most);
    if !round.is("disturbed")
        && let Err(error) = awaited(&round, &client, &stopwatch, &registration).await
    {
        eprintln!("a calm server refused: {error}");
        round.count("unknown");
    }
}

async fn awaited(
    round: &Round,
    client: &Client,
    stopwatch: &Stopwatch,
    registration: &Registration,
) -> Result<(), Error> {
    let child = round.thread("child");
    let _awaited = registration.await_thread(&child)?;
    let (began, charged, opening) = (Instant::now(), stopwatch.elapsed(), Instant::now());
    let hold = client.hold(&child).ttl(TTL).open().await?;
    let opened = Instant::now();
    sleep(Duration::from_millis(100 + round.below(400))).await;
    let least = opened.elapsed();
    hold.release().await?;
    let most = opening.elapsed();
    if timeout(HANG, stopwatch.pause_changed(true)).await.is_err() {
        round.count("hangs");
    }
    let off = began.elapsed().saturating_sub(stopwatch.elapsed() - charged);
    round.outside("await_error_ms", off, least, most);
    Ok(())
}

fn start(controller: &StopwatchController, thread: &str, limit: Duration) -> (Stopwatch, Registration) {
    let stopwatch = Stopwatch::new(limit);
    let registration = controller.register(thread, &stopwatch).expect("a valid thread");
    (stopwatch, registration)
}
