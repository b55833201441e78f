//! Stopwatches against the real server, over a real socket, on the real clock.
use crate::support::timed;
use pausewatch::{
    client::{Address, Client, Config, GetPauseStateRequest},
    server::{self, Listen, Server, StoreConfig},
    stopwatch::{Link, Stopwatch, StopwatchController},
};
use std::{path::Path, time::Duration};
use tokio::{
    sync::oneshot,
    task::JoinHandle,
    time::{Instant, sleep},
};

const fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

struct Running {
    stop: oneshot::Sender<()>,
    task: JoinHandle<()>,
}

impl Running {
    async fn start(directory: &Path) -> Self {
        let server = Server::start(server::Config {
            listen: vec![Listen::Unix(directory.join("p.sock"))],
            store: StoreConfig::Embedded(directory.join("data")),
            anonymous_ttl: None,
            ..server::Config::default()
        });
        let (stop, stopped) = oneshot::channel();
        let server = server.await.unwrap();
        let task = tokio::spawn(server.run(async move { stopped.await.unwrap() }));
        Self { stop, task }
    }

    async fn stop(self) {
        self.stop.send(()).unwrap();
        self.task.await.unwrap();
    }
}

fn client(directory: &Path) -> Client {
    let address: Address = format!("unix:{}", directory.join("p.sock").display()).parse().unwrap();
    Client::with_config(&Config { address, ..Config::default() }).unwrap()
}

async fn controller(client: &Client) -> StopwatchController {
    let controller = StopwatchController::new(client.clone());
    let first = Stopwatch::unlimited();
    let _registered = controller.register("first", &first).unwrap();
    controller.link().wait_for(|link| *link == Link::Connected).await.unwrap();
    controller
}

/// One command, and an increment at this time before its deadline; `None` if it was acknowledged only after the
/// deadline.
async fn race(client: &Client, controller: &StopwatchController, thread_id: &str, before: Duration) -> Option<()> {
    let limit = ms(150);
    // Not later than the deadline of the stopwatch, so that every increment before it is in time.
    let deadline = Instant::now() + limit;
    let stopwatch = Stopwatch::new(limit);
    let _registered = controller.register(thread_id, &stopwatch).unwrap();
    let expired = tokio::spawn({
        let stopwatch = stopwatch.clone();
        async move { stopwatch.expired().await }
    });
    tokio::time::sleep_until(deadline - before).await;
    let hold = client.hold(thread_id).open().await.unwrap();
    let in_time = Instant::now() < deadline;
    tokio::time::sleep_until(deadline + ms(150)).await;
    assert!(
        !(in_time && expired.is_finished()),
        "acknowledged within {before:?} before the deadline, but the command was killed"
    );
    hold.release().await.unwrap();
    expired.await.unwrap();
    in_time.then_some(())
}

#[tokio::test]
async fn g1_twenty_races_of_increment_and_deadline_on_the_real_server_kill_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let running = Running::start(directory.path()).await;
    let client = client(directory.path());
    let controller = controller(&client).await;
    let mut in_time = 0;
    // An increment that was acknowledged too late proves nothing: repeat until twenty were in time.
    for round in 0..30 {
        let mut races = Vec::new();
        for i in 0..20_u64 {
            let (client, controller) = (client.clone(), controller.clone());
            let thread_id = format!("round {round} thread {i}");
            races.push(tokio::spawn(async move { race(&client, &controller, &thread_id, ms(1 + i * 49 / 19)).await }));
        }
        for race in races {
            in_time += u32::from(race.await.unwrap().is_some());
        }
        if in_time >= 20 {
            return running.stop().await;
        }
    }
    panic!("only {in_time} of 600 increments were acknowledged in time");
}

#[tokio::test]
async fn g3_charged_time_is_wall_time_minus_paused_total_across_a_restart() {
    let directory = tempfile::tempdir().unwrap();
    let running = Running::start(directory.path()).await;
    let client = client(directory.path());
    let controller = controller(&client).await;
    let before_start = Instant::now();
    let stopwatch = Stopwatch::unlimited();
    let after_start = Instant::now();
    let _registered = controller.register("t", &stopwatch).unwrap();
    let state = async || {
        let request = GetPauseStateRequest { thread_id: "t".to_owned() };
        client.get_pause_state(request).await.unwrap().pause_state.unwrap()
    };
    let follows = async |paused| {
        let there = async {
            while stopwatch.is_paused() != paused {
                sleep(ms(1)).await;
            }
        };
        timed("the pause or its end", there).await;
    };

    sleep(ms(50)).await;
    let hold = client.hold("t").open().await.unwrap();
    follows(true).await;
    running.stop().await;
    sleep(ms(200)).await;
    assert!(stopwatch.is_paused(), "without a connection, the last state applies");
    let running = Running::start(directory.path()).await;
    hold.release().await.unwrap();
    // And a second pause.
    follows(false).await;
    let hold = client.hold("t").open().await.unwrap();
    sleep(ms(100)).await;
    hold.release().await.unwrap();
    follows(false).await;

    let paused_total: Duration = state().await.paused_total.unwrap().try_into().unwrap();
    let before_end = Instant::now();
    let charged = stopwatch.elapsed();
    let after_end = Instant::now();
    assert!(paused_total >= ms(300), "{paused_total:?}");
    let (least, most) = (before_end - after_start - paused_total, after_end - before_start - paused_total);
    assert!(least <= charged + ms(5) && charged <= most + ms(5), "charged {charged:?}, not {least:?} to {most:?}");
    running.stop().await;
}
