//! A proxy that sometimes cuts all its connections, or holds their data back for a while.
use fastrand::Rng;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::time::sleep;

#[derive(Clone, Copy, Default)]
struct Weather {
    /// The number of cuts.
    cuts: u64,
    held: bool,
}

/// Starts it; returns its address.
pub(crate) async fn start(server: String, mut random: Rng) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("it is bound").to_string();
    let (change, weather) = watch::channel(Weather::default());
    tokio::spawn(async move {
        loop {
            sleep(Duration::from_millis(200 + random.u64(..4_000))).await;
            if random.bool() {
                change.send_modify(|weather| weather.cuts += 1);
            } else {
                change.send_modify(|weather| weather.held = true);
                sleep(Duration::from_millis(random.u64(..1_500))).await;
                change.send_modify(|weather| weather.held = false);
            }
        }
    });
    tokio::spawn(async move {
        while let Ok((client, _)) = listener.accept().await {
            let (server, weather) = (server.clone(), weather.clone());
            tokio::spawn(async move { _ = carry(client, &server, weather).await });
        }
    });
    address
}

/// Copies bytes in both directions, until one side closes or the connection is cut.
async fn carry(client: TcpStream, server: &str, mut weather: watch::Receiver<Weather>) -> std::io::Result<()> {
    let server = TcpStream::connect(server).await?;
    let (mut from_client, mut to_client) = client.into_split();
    let (mut from_server, mut to_server) = server.into_split();
    let cuts = weather.borrow().cuts;
    let (there, back) = (weather.clone(), weather.clone());
    tokio::select! {
        _ = weather.wait_for(|weather| weather.cuts != cuts) => Ok(()),
        done = copy(&mut from_client, &mut to_server, there) => done,
        done = copy(&mut from_server, &mut to_client, back) => done,
    }
}

async fn copy(
    from: &mut (impl AsyncReadExt + Unpin),
    to: &mut (impl AsyncWriteExt + Unpin),
    mut weather: watch::Receiver<Weather>,
) -> std::io::Result<()> {
    let mut bytes = vec![0; 16 << 10];
    loop {
        let read = from.read(&mut bytes).await?;
        if read == 0 {
            return Ok(());
        }
        let _ = weather.wait_for(|weather| !weather.held).await;
        to.write_all(&bytes[..read]).await?;
    }
}
