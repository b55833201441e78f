//! Clients with their own connection and stream, which watch one thread.
use crate::link::Link;
use crate::result::Result;
use crate::sink::Sink;
use crate::target::{Address, Server};
use tokio::task::JoinSet;

/// The number of connections that are opened at once.
const OPENING: usize = 64;

/// Opens `count` clients, with the sink of each.
pub(crate) async fn open(server: &Server, count: usize, sink: impl Fn(usize) -> Sink) -> Result<Vec<Link>> {
    let (mut opening, mut links) = (JoinSet::new(), Vec::new());
    for client in 0..count {
        if opening.len() >= OPENING {
            links.push(opening.join_next().await.ok_or("just counted")???);
        }
        let (address, sink) = (server.client_address().of_client(client), sink(client));
        opening.spawn(async move { one(&address, sink).await });
    }
    while let Some(link) = opening.join_next().await {
        links.push(link??);
    }
    Ok(links)
}

/// Opens one client; when this returns, its watch has received its snapshot.
pub(crate) async fn one(address: &Address, sink: Sink) -> Result<Link> {
    let link = address.connect().await?;
    link.watch(0..1, sink).await?;
    Ok(link)
}
