//! The heartbeat for a service manager: it is sent only if each worker has answered a health check over a separate
//! connection, like those of clients. A timer alone would continue even if nothing is served.
use super::notify::Manager;
use crate::client::channel_over;
use crate::server::InProcessConnector;
use hyper_util::rt::TokioIo;
use std::time::Duration;
use tokio::task::JoinSet;
use tokio::time::{MissedTickBehavior, interval, timeout};
use tonic::transport::Channel;
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::health_client::HealthClient;

/// The number of heartbeats within the manager's timeout: one may be late.
const SIGNS: u32 = 3;

/// Sends heartbeats as long as all workers answer. Never ends.
pub(super) async fn keep_alive(manager: &Manager, workers: Vec<InProcessConnector>) {
    let Some(watchdog_timeout) = manager.watchdog_timeout() else { return std::future::pending().await };
    let workers: Vec<_> = workers.into_iter().map(client).collect();
    let mut ticks = interval(watchdog_timeout / SIGNS);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        match all_answer(&workers, watchdog_timeout / SIGNS).await {
            Ok(()) => manager.tell("WATCHDOG=1"),
            Err(why) => tracing::error!(why, "the watchdog of the service manager is not notified"),
        }
    }
}

fn client(worker: InProcessConnector) -> HealthClient<Channel> {
    let connect = move |_| {
        let worker = worker.clone();
        async move { worker.connect().await.map(TokioIo::new) }
    };
    HealthClient::new(channel_over(tower::service_fn(connect)))
}

async fn all_answer(workers: &[HealthClient<Channel>], within: Duration) -> Result<(), String> {
    // At the same time: each has the whole time.
    let mut checks = JoinSet::new();
    for (number, mut worker) in workers.iter().cloned().enumerate() {
        checks.spawn(async move {
            match timeout(within, worker.check(HealthCheckRequest::default())).await {
                Ok(Ok(answer)) if answer.get_ref().status() == ServingStatus::Serving => Ok(()),
                Ok(Ok(_)) => Err(format!("worker {number} is being stopped")),
                Ok(Err(status)) => Err(format!("worker {number}: {status}")),
                Err(_) => Err(format!("worker {number} does not answer")),
            }
        });
    }
    while let Some(checked) = checks.join_next().await {
        checked.map_err(|panic| panic.to_string())??;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::server::{Config, Server};
    use std::{io, sync::Arc};
    use tokio::{io::DuplexStream, sync::Barrier};

    #[tokio::test]
    async fn the_workers_are_checked_at_the_same_time() {
        // None of the connections proceeds before both are requested.
        let both = Arc::new(Barrier::new(2));
        let connect = move |_| {
            let both = both.clone();
            async move {
                both.wait().await;
                Err::<TokioIo<DuplexStream>, _>(io::Error::other("refused on purpose"))
            }
        };
        let workers =
            [connect.clone(), connect].map(|connect| HealthClient::new(channel_over(tower::service_fn(connect))));
        let why = all_answer(&workers, Duration::from_secs(60)).await.unwrap_err();
        assert!(!why.contains("does not answer"), "{why}");
    }

    #[tokio::test]
    async fn a_server_that_answers_no_more_gives_no_sign_of_life() {
        let listen = vec!["127.0.0.1:0".parse().unwrap()];
        let server = Server::start(Config { listen, workers: 2, ..Config::default() }).await.unwrap();
        let workers: Vec<_> = server.inside().into_iter().map(client).collect();
        assert_eq!(workers.len(), 2);
        let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
        let served = tokio::spawn(server.run(async move { _ = stopped.await }));
        assert_eq!(all_answer(&workers, Duration::from_secs(30)).await, Ok(()));
        drop(stop);
        served.await.unwrap();
        for worker in &workers {
            assert!(all_answer(std::slice::from_ref(worker), Duration::from_secs(1)).await.is_err());
        }
    }
}
