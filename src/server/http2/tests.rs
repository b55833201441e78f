use super::*;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};

fn guarded<S>(stream: S) -> Guarded<S> {
    Guarded::new(stream, Unread::new(None, LiveCalls::default()))
}

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).expect("it is short").to_be_bytes();
    [&length[1..], &[kind, flags], &stream.to_be_bytes(), payload].concat()
}

#[tokio::test]
async fn every_byte_passes_in_order_whatever_the_sizes_of_reads_and_writes() {
    let frames: Vec<u8> = (0..300_u32)
        .flat_map(|i| frame(if i % 3 == 0 { 1 } else { 0 }, 0, 2 * i + 1, &vec![i as u8; (i % 40) as usize]))
        .collect();
    let all = [&[b'p'; 24][..], &frames].concat();
    for (written, read) in [(1, 1), (7, 3), (8, 8), (100, 5), (4_096, 8_192), (17, 4_096)] {
        let (mut client, server) = duplex(64 << 10);
        let sent = all.clone();
        let sending = tokio::spawn(async move {
            for part in sent.chunks(written) {
                client.write_all(part).await.expect("it is read");
                tokio::task::yield_now().await;
            }
        });
        let received = tokio::spawn(async move {
            let (mut guarded, mut received, mut part) = (guarded(server), Vec::new(), vec![0; read]);
            while let n @ 1.. = guarded.read(&mut part).await.expect("it is open") {
                received.extend_from_slice(&part[..n]);
            }
            received
        });
        sending.await.expect("it ends");
        assert!(received.await.expect("it ends") == all, "written by {written}, read by {read}");
    }
}

#[tokio::test]
async fn other_tasks_run_between_the_parts_of_one_write() {
    let (mut client, server) = duplex(1 << 20);
    let opened: Vec<u8> = (0..160).flat_map(|i| frame(1, 4, 2 * i + 1, b"")).collect();
    client.write_all(&[&[b'p'; 24][..], &opened].concat()).await.expect("there is room");
    drop(client);
    let turns = Arc::<AtomicUsize>::default();
    let counted = turns.clone();
    let other = tokio::spawn(async move {
        loop {
            counted.fetch_add(1, Relaxed);
            tokio::task::yield_now().await;
        }
    });
    let reading = tokio::spawn(async move { guarded(server).read_to_end(&mut Vec::new()).await });
    reading.await.expect("it ends").expect("it is open");
    other.abort();
    assert!(turns.load(Relaxed) >= 9, "{turns:?}: 160 streams are ten turns");
}

#[tokio::test(start_paused = true)]
async fn a_client_that_does_not_read_is_disconnected() {
    let (_client, server) = duplex(10);
    let mut guarded = guarded(server);
    guarded.write_all(&[0; 10]).await.expect("there is room");
    let began = tokio::time::Instant::now();
    let error = guarded.write_all(&[0; 10]).await.expect_err("nobody reads");
    assert_eq!((error.kind(), began.elapsed()), (io::ErrorKind::TimedOut, STUCK));
}

#[tokio::test(start_paused = true)]
async fn a_client_that_reads_slowly_stays() {
    let (mut client, server) = duplex(10);
    let mut guarded = guarded(server);
    let writing = tokio::spawn(async move { guarded.write_all(&[0; 100]).await });
    for _ in 0..100 {
        tokio::time::sleep(STUCK - Duration::from_secs(1)).await;
        client.read_u8().await.expect("it is open");
    }
    writing.await.expect("it ends").expect("it was read");
}
