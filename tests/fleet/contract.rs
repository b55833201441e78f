//! The guarantees of every store (S1 to S3 in `src/coordinator/store/mod.rs`), for the store of a fleet.
use crate::etcd::Etcd;
use crate::support::model::{Model, writes};
use fastrand::Rng;
use pausewatch::test_support::clock::System;
use pausewatch::test_support::core::Timestamp;
use pausewatch::test_support::etcd::{Endpoints, Fleet, FleetConfig, Term};
use pausewatch::test_support::store::{CommitError, Store};
use std::sync::Arc;
use std::time::Duration;
use tokio::runtime::Runtime;

const NOW: Timestamp = Timestamp { boot: 1_000_000_000_000, wall: 1_800_000_000_000_000_000 };

fn later() -> Timestamp {
    NOW.after(Duration::from_secs(3_600))
}

pub(crate) fn config(etcd: &Etcd, prefix: &str) -> FleetConfig {
    let endpoints = Endpoints { urls: vec![etcd.url.clone()], ..Endpoints::default() };
    FleetConfig { endpoints, prefix: prefix.to_owned(), compact: true }
}

/// Starts a new replica, and waits until it leads.
fn lead(runtime: &Runtime, config: &FleetConfig) -> Term {
    runtime.block_on(async {
        let fleet = Fleet::join(config, Arc::new(System::new())).await.expect("etcd runs");
        fleet.lead("127.0.0.1:1").await.expect("what is stored is sound")
    })
}

#[test]
fn the_store_of_a_fleet_gives_back_what_was_committed_and_nothing_else() {
    let Some(etcd) = Etcd::shared() else { return };
    let runtime = Runtime::new().expect("a runtime");
    let config = config(etcd, "contract");
    let (mut random, mut model) = (Rng::with_seed(0x5eed_0021), Model::with_ballast(20_000));
    let mut epoch = None;
    for round in 0..6 {
        let Term { mut store, mut ended, .. } = lead(&runtime, &config);
        assert!(store.keeps());
        let loaded = store.load(later()).expect("it is sound");
        assert_eq!(*epoch.get_or_insert(loaded.epoch), loaded.epoch, "the history continues, so the epoch must stay");
        assert!(model.is(&loaded, later()), "S2: round {round}");
        store.commit(&[]).expect("nothing is something to commit too");
        for step in 0..60 {
            let batch = model.random_batch(&mut random, NOW.after(Duration::from_millis(100 * round + step)));
            store.begin();
            assert!(!store.is_full());
            store.commit(&writes(&batch)).expect("there is room");
            model.apply(&writes(&batch));
            store.confirm().expect("it leads");
        }
        assert!(ended.try_recv().is_err(), "the term must last as long as the store is open");
        drop(store);
        assert!(runtime.block_on(ended).expect("it says why").contains("gave up"));
    }
}

/// S3: a second process waits, and takes over when the first one has gone; the first one's store then commits nothing
/// more.
#[test]
fn of_two_replicas_one_leads() {
    let Some(etcd) = Etcd::shared() else { return };
    let runtime = Runtime::new().expect("a runtime");
    let config = config(etcd, "two");
    let first = lead(&runtime, &config);
    let waiting = runtime.spawn({
        let config = config.clone();
        async move {
            let fleet = Fleet::join(&config, Arc::new(System::new())).await.expect("etcd runs");
            fleet.lead("127.0.0.1:2").await.expect("what is stored is sound")
        }
    });
    let Term { mut store, pulse, number, .. } = first;
    store.load(NOW).expect("it is sound");
    // Far longer than a silence that makes others challenge the leader: each confirmation is a round trip to etcd.
    for _ in 0..500 {
        store.confirm().expect("it leads");
    }
    assert!(!waiting.is_finished());
    drop((store, pulse));
    let second = runtime.block_on(waiting).expect("no panic");
    assert_eq!(second.number, number + 1);
}

#[test]
fn a_store_whose_etcd_is_gone_is_deposed() {
    let Some(etcd) = Etcd::own(&[]) else { return };
    let runtime = Runtime::new().expect("a runtime");
    let Term { mut store, ended, .. } = lead(&runtime, &config(&etcd, "gone"));
    store.load(NOW).expect("it is sound");
    drop(etcd);
    let mut model = Model::default();
    let mut random = Rng::with_seed(0x5eed_0022);
    let batch = loop {
        let batch = model.random_batch(&mut random, NOW);
        if !batch.is_empty() {
            break batch;
        }
    };
    assert!(matches!(store.commit(&writes(&batch)), Err(CommitError::Deposed(_))));
    assert!(runtime.block_on(ended).expect("it says why").contains("was not reached for 3 s"));
    assert!(matches!(store.confirm(), Err(CommitError::Deposed(_))), "a deposed store must accept nothing");
}
