//! `--socket`: a connection of our own to an app-server that listens on a Unix socket, beside the client that people use.
//!
//! The app-server announces the threads of all its clients to each of them.
//!
//! 1. After a lost connection, the bridge tries to connect again without a time limit, because people restart
//!    app-servers.
//! 2. Each connection begins with the list of the threads that are loaded already.
//! 3. An app-server that speaks another protocol, also after a restart, ends the bridge.
use super::connection::{Connection, Problem};
use super::follow::{Input, Inputs};
use super::message::{Ids, Message, Outcome};
use super::report::say;
use std::{path::Path, time::Duration};
use tokio::{sync::mpsc, time::sleep};

/// The interval between two attempts to connect again.
const RETRY_INTERVAL: Duration = Duration::from_secs(1);

/// Keeps the bridge connected until it ends. `connection`: the first one.
pub(super) async fn keep_connected(mut connection: Connection, socket: &Path, ids: &Ids, inputs: Inputs) {
    loop {
        let why = match relay(&mut connection, ids, &inputs).await {
            Ok(()) => return,
            Err(Problem::Lost(why)) => why,
            Err(Problem::Differs(why)) => return give_up(&inputs, why).await,
        };
        if inputs.send(Input::Disconnected).await.is_err() {
            return;
        }
        say(&format!("the connection to the app-server at {} is lost: {why}; trying again", socket.display()));
        connection = loop {
            tokio::select! {
                () = inputs.closed() => return,
                () = sleep(RETRY_INTERVAL) => {}
            }
            match Connection::open(socket, ids).await {
                Ok(connection) => break connection,
                Err(Problem::Lost(_)) => {}
                Err(Problem::Differs(why)) => return give_up(&inputs, why).await,
            }
        };
        say("connected to the app-server again");
    }
}

async fn give_up(inputs: &Inputs, why: String) {
    // This fails if the bridge has already ended; then the result of the bridge counts.
    let _ = inputs.send(Input::Unusable(why)).await;
}

/// Passes messages on until the connection is lost, or, with `Ok`, until the bridge has ended.
async fn relay(connection: &mut Connection, ids: &Ids, inputs: &Inputs) -> Result<(), Problem> {
    let (requests, mut queue) = mpsc::unbounded_channel();
    let loaded = Input::Loaded(connection.list(ids).await?);
    let news = connection.news.drain(..).map(Input::News);
    for input in [loaded].into_iter().chain(news).chain([Input::Connected(requests)]) {
        if inputs.send(input).await.is_err() {
            return Ok(());
        }
    }
    loop {
        let input = tokio::select! {
            request = queue.recv() => match request {
                Some(request) => {
                    connection.send(request).await?;
                    continue;
                }
                None => return Ok(()),
            },
            text = connection.receive() => match ids.read(text?.as_bytes()) {
                Message::Ours(number, answer) => Input::Answer(number, answer.map_or_else(|why| why, |_| Outcome::Done)),
                Message::Theirs(Some(news)) => Input::News(news),
                Message::Theirs(None) => continue,
            },
        };
        if inputs.send(input).await.is_err() {
            return Ok(());
        }
    }
}
