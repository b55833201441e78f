//! `leases`: how late the server ends leases that are not renewed.
//!
//! 1,000 elicitations with a lease of 1 s each, on a server with its store on disk. The delay is the length of the
//! pause, by the clock of the server, minus the lease.
use crate::measure::Latencies;
use crate::result::Result;
use crate::settings::Settings;
use crate::table::Table;
use crate::target::{Server, Target};
use pausewatch::proto::v1::elicitation_service_client::ElicitationServiceClient;
use pausewatch::proto::v1::watch_pause_state_response::Event;
use pausewatch::proto::v1::{IncrementElicitationRequest, WatchPauseStateRequest};
use std::time::Duration;

const LEASES: usize = 1_000;
const LEASE: Duration = Duration::from_secs(1);
const CASE: &str = "1,000 leases of 1 s";
const LATE: &str = "late, p99, us";

pub(crate) fn run(settings: &Settings) -> Result<Table> {
    let target = Target::Embedded;
    let mut table = Table::new("leases: how late they end when nobody renews them", [target.label()]);
    for run in 1..=settings.runs {
        eprintln!("leases: run {run} of {}", settings.runs);
        let server = target.start(settings)?;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let [p50, p99] = runtime.block_on(lateness(&server))?.percentiles([50.0, 99.0]);
        table.add((CASE, "late, p50, us", target.label()), p50);
        table.add((CASE, LATE, target.label()), p99);
    }
    table.goal_at_most("a lease ends", (CASE, LATE, target.label()), 100_000.0, "us after its time");
    Ok(table)
}

async fn lateness(server: &Server) -> Result<Latencies> {
    let mut stub = ElicitationServiceClient::connect(format!("http://{}", server.address())).await?;
    let mut states = stub.watch_pause_state(WatchPauseStateRequest::default()).await?.into_inner();
    for lease in 0..LEASES {
        let thread_id = format!("lease {lease}");
        let ttl = Some(prost_types::Duration::try_from(LEASE)?);
        stub.increment_elicitation(IncrementElicitationRequest { thread_id, ttl, ..Default::default() }).await?;
    }
    let mut latencies = Latencies::default();
    while latencies.count() < LEASES as f64 {
        let message = states.message().await?.ok_or("the watch ended")?;
        if let Some(Event::PauseState(state)) = message.event
            && state.count == 0
        {
            let paused: Duration = state.paused_total.unwrap_or_default().try_into()?;
            latencies.record(paused.checked_sub(LEASE).ok_or("a lease ended early")?);
        }
    }
    Ok(latencies)
}
