//! Tools that ask and die: their leases end the pause, not before their time, and not much later (G2).
use crate::world::{World, worst};
use fastrand::Rng;
use pausewatch::client::{Client, IncrementElicitationRequest};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};
use tokio::task::JoinHandle;
use tokio::time::sleep;

const DESERTERS: usize = 8;
/// The maximum delay until an end is visible: 100 ms of the server, and an fsync on a busy disk.
const LATE: Duration = Duration::from_secs(5);

pub(crate) fn start(world: &Arc<World>, random: &mut Rng) -> Vec<JoinHandle<()>> {
    let deserter = |number| {
        let (world, client, random) = (world.clone(), world.client(number), random.fork());
        tokio::spawn(run(number, world, client, random))
    };
    (0..DESERTERS).map(deserter).collect()
}

async fn run(number: usize, world: Arc<World>, client: Client, mut random: Rng) {
    let mut asked = 0;
    while let Some(_working) = world.work().await {
        asked += 1;
        let thread_id = format!("left open by {number}, {asked}");
        let ttl = Duration::from_millis(1_000 + random.u64(..2_000));
        match left_open(&world, &client, &thread_id, ttl).await {
            Ok(()) => world.counts.deserted.fetch_add(1, Relaxed),
            Err(what) => {
                world.fail(format!("{thread_id}: {what}"));
                continue;
            }
        };
    }
}

async fn left_open(world: &World, client: &Client, thread_id: &str, ttl: Duration) -> Result<(), String> {
    let request = IncrementElicitationRequest {
        thread_id: thread_id.to_owned(),
        request_id: thread_id.to_owned(),
        ttl: Some(ttl.try_into().map_err(|error| format!("{error}"))?),
        ..Default::default()
    };
    let called = Instant::now();
    world
        .answered(async || client.increment_elicitation(request.clone()).await)
        .await
        .map_err(|error| format!("{error:?}"))?;
    let acknowledged = Instant::now();
    loop {
        let asked = Instant::now();
        let count = world.get(client, thread_id).await.count;
        if count == 0 && called.elapsed() < ttl {
            return Err(format!("its lease of {ttl:?} was over after {:?}", called.elapsed()));
        }
        if count == 0 {
            return Ok(());
        }
        // A restarted server gives every lease a full ttl again.
        let over = acknowledged.max(*world.up()) + ttl;
        let late = asked.saturating_duration_since(over);
        worst(&world.counts.worst_lease, late);
        if late > LATE {
            return Err(format!("still open {late:?} after its lease"));
        }
        sleep(Duration::from_millis(25)).await;
    }
}
