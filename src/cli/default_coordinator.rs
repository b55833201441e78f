//! The coordinator of `run` and `exec-server` when a thread is named and no address is configured: the one at the default
//! address, which all other commands use, if it answers; else a private one.
//!
//! 1. Only an answer to a call about the thread counts. Another program may listen there, or a coordinator that refuses our
//!    token: then a warning says why the pauses of the thread are not followed.
//! 2. If there is no coordinator, nothing waits: a connection on loopback is refused at once.
use super::failure;
use crate::client::{Address, Client, Config, GetPauseStateRequest, Settings};
use std::time::Duration;
use tokio::{net::TcpStream, time::timeout};

/// The maximum time for the connection.
const MAX_CONNECT_TIME: Duration = Duration::from_secs(1);
/// The maximum time for the answer. It is longer, because a server has accepted the connection, and without the answer
/// the pauses of the thread do not count.
const MAX_ANSWER_TIME: Duration = Duration::from_secs(5);

/// Sets the address of `settings` to the default if a coordinator answers there for the thread. `private`: removes it, so
/// that a private coordinator is used.
pub(crate) async fn choose(command: &str, settings: &mut Settings, thread_id: Option<&str>, private: bool) {
    if private {
        settings.address = None;
        return;
    }
    let (None, Some(thread_id)) = (&settings.address, thread_id) else { return };
    let address = Address::default();
    let connected = timeout(MAX_CONNECT_TIME, TcpStream::connect(address.to_string())).await;
    if !connected.is_ok_and(|connected| connected.is_ok()) {
        return;
    }
    // Without TLS settings, which are for another coordinator.
    let found = Settings { address: Some(address.clone()), ..Settings::default() }.or(settings.clone());
    match ask(&found, thread_id).await {
        Ok(()) => *settings = found,
        Err(why) => failure::say(
            command,
            &format!(
                "warning: no answer for thread {thread_id:?} from {address}: {why}; using a private coordinator, so that \
                 pauses of the thread elsewhere do not count"
            ),
        ),
    }
}

/// Reads the state of the thread.
async fn ask(settings: &Settings, thread_id: &str) -> Result<(), String> {
    let config = settings.config().map_err(|why| why.to_string())?;
    let config = Config { retries: 0, deadline: MAX_ANSWER_TIME, ..config };
    let client = Client::with_config(&config).map_err(|why| why.to_string())?;
    let answer = client.get_pause_state(GetPauseStateRequest { thread_id: thread_id.to_owned() }).await;
    answer.map(drop).map_err(|error| failure::cause(&error))
}
