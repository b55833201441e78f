//! A store and a backup of format 1, written when that format was new: every later version must be able to read them.
//!
//! `tests/it/fixtures/store-1` and `backup-1` were made by
//!
//! ```sh
//! PAUSEWATCH_MAKE_FIXTURES=1 cargo test --all-features --test it backup::fixture
//! ```
//!
//! A new format gets new fixtures beside them; these stay unchanged.
use super::{Place, pausewatch, serve, succeeds};
use crate::support::Api;
use rustix::process::Signal;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

const SECTOR: usize = 512;

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/fixtures").join(name)
}

/// The files of a store without zeros: name, length, and the sectors that are not empty, each with its number.
fn pack(directory: &Path) -> Vec<u8> {
    let mut packed = Vec::new();
    for name in ["pausewatch.redb", "journal-0", "journal-1"] {
        let bytes = fs::read(directory.join(name)).unwrap();
        let sectors = bytes.chunks(SECTOR).enumerate().filter(|(_, sector)| sector.iter().any(|byte| *byte != 0));
        let sectors: Vec<_> = sectors.collect();
        packed.extend([name.len() as u32, bytes.len() as u32, sectors.len() as u32].map(u32::to_be_bytes).concat());
        packed.extend(name.as_bytes());
        for (number, sector) in sectors {
            packed.extend((number as u32).to_be_bytes());
            packed.extend(sector);
        }
    }
    packed
}

fn unpack(mut packed: &[u8], directory: &Path) {
    fs::create_dir_all(directory).unwrap();
    let take = |from: &mut &[u8], length: usize| from.split_off(..length).unwrap().to_vec();
    let number = |from: &mut &[u8]| u32::from_be_bytes(take(from, 4).try_into().unwrap()) as usize;
    while !packed.is_empty() {
        let [name, length, sectors] = [(); 3].map(|()| number(&mut packed));
        let name = String::from_utf8(take(&mut packed, name)).unwrap();
        let mut bytes = vec![0; length];
        for _ in 0..sectors {
            let at = number(&mut packed) * SECTOR;
            bytes[at..at + SECTOR].copy_from_slice(&take(&mut packed, SECTOR));
        }
        fs::write(directory.join(name), bytes).unwrap();
    }
}

/// Fills a store with every kind of row, some in the database and some in the journal.
async fn make() {
    let place = Place::new();
    let data = place.path("data");
    let server = serve(&data).await;
    let mut api = server.api().await;
    api.try_increment("paused", "a request", Some(Duration::from_secs(24 * 60 * 60))).await.unwrap();
    api.increment("running", None).await;
    api.try_decrement("running", "another request", None).await.unwrap();
    server.signal(Signal::TERM);
    tokio::task::spawn_blocking(|| server.end()).await.unwrap();
    // What follows is only in the journal.
    let server = serve(&data).await;
    let mut api = server.api().await;
    api.increment("paused", None).await;
    api.increment("in the journal", None).await;
    server.kill();
    fs::write(fixture("store-1"), pack(&data)).unwrap();
    succeeds(pausewatch("backup", &data, &[fixture("backup-1").to_str().unwrap()]));
}

async fn holds_what_it_should(api: &mut Api) {
    let paused = api.get("paused").await;
    assert_eq!((paused.count, paused.paused), (2, true));
    let said = |of: usize| (paused.elicitations[of].reason.as_str(), paused.elicitations[of].holder.as_str());
    assert_eq!((said(0), said(1)), (("a reason", "a holder"), ("a reason", "a holder")));
    assert_eq!(api.get("in the journal").await.count, 1);
    let running = api.get("running").await;
    assert_eq!((running.count, running.paused, running.revision > 0), (0, false, true));
    assert!(running.paused_total.is_some());
    // The pause continues, and the open elicitations can be closed.
    for left in [1, 0] {
        assert_eq!(api.try_decrement("paused", "", None).await.unwrap().count, left);
    }
}

#[tokio::test]
async fn a_store_of_format_1_is_read() {
    if std::env::var_os("PAUSEWATCH_MAKE_FIXTURES").is_some() {
        make().await;
    }
    let place = Place::new();
    let data = place.path("data");
    unpack(&fs::read(fixture("store-1")).unwrap(), &data);
    let told = succeeds(pausewatch("check", &data, &[]));
    assert!(told.contains("3 threads, 2 paused; 3 open elicitations; revisions up to 2"), "{told}");
    let server = serve(&data).await;
    let mut api = server.api().await;
    assert_eq!(api.get("paused").await.revision, 2);
    holds_what_it_should(&mut api).await;
    // It was written before stores had an epoch; on the first load it got a permanent one.
    let epoch = api.get("paused").await.store_epoch;
    assert_ne!(epoch, 0);
    server.kill();
    assert_eq!(serve(&data).await.api().await.get("paused").await.store_epoch, epoch);
}

#[tokio::test]
async fn a_backup_of_format_1_is_restored() {
    let place = Place::new();
    let data = place.path("data");
    succeeds(pausewatch("restore", &data, &[fixture("backup-1").to_str().unwrap()]));
    holds_what_it_should(&mut serve(&data).await.api().await).await;
}
