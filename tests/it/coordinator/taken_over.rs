//! A store that another process can take over: every answer is confirmed first, and nothing is answered afterwards.
use super::clock;
use crate::support::model::{Obedient, thread_id};
use pausewatch::test_support::coordinator::{Coordinator, Fatal};
use pausewatch::test_support::core::{Command, Refusal};
use std::sync::{Arc, Mutex};

fn increment() -> Command {
    Command::Increment { request_id: "".into(), reason: "".into(), holder: "".into(), ttl: None }
}

fn decrement() -> Command {
    Command::Decrement { request_id: "".into(), elicitation: None, by_admin: false }
}

#[tokio::test]
async fn whoever_waits_when_the_store_is_taken_over_learns_that_the_outcome_is_unknown() {
    for slow in [false, true] {
        let (store, fatal) = (Obedient::default(), Arc::<Mutex<Vec<Fatal>>>::default());
        store.orders().slow = slow;
        let told = fatal.clone();
        let told = move |error| told.lock().expect("no panic while locked").push(error);
        let coordinator = Coordinator::start(Box::new(store.clone()), clock(), None, told).expect("it is sound");
        coordinator.call(thread_id("a"), increment()).await.expect("the store is ours");
        coordinator.confirm().await.expect("the store is ours");
        store.orders().deposed = true;
        let (call, read) = tokio::join!(coordinator.call(thread_id("a"), increment()), coordinator.confirm());
        let not_leading = Refusal::NotLeading { leader: None };
        assert_eq!((call.unwrap_err(), read.unwrap_err()), (not_leading.clone(), not_leading.clone()));
        assert_eq!(
            coordinator.call(thread_id("b"), increment()).await.unwrap_err(),
            not_leading,
            "all later calls are refused too"
        );
        assert_eq!(coordinator.confirm().await.unwrap_err(), not_leading);
        assert_eq!(coordinator.hub().get(&thread_id("a")).open.len(), 1, "the change was not published");
        assert!(matches!(fatal.lock().expect("no panic while locked")[..], [Fatal::Deposed(_)]));
    }
}

#[tokio::test]
async fn answers_without_a_commit_and_reads_are_confirmed_and_those_of_one_batch_at_once() {
    let store = Obedient::default();
    let fatal = |fatal| panic!("{fatal}");
    let coordinator = Coordinator::start(Box::new(store.clone()), clock(), None, fatal).expect("it is sound");
    coordinator.call(thread_id("a"), increment()).await.expect("it is accepted");
    coordinator.call(thread_id("a"), decrement()).await.expect("it is accepted");
    assert_eq!(store.orders().confirmed, 0, "a commit also confirms it");
    coordinator.call(thread_id("a"), decrement()).await.expect_err("there is nothing to close");
    assert_eq!(store.orders().confirmed, 1);
    let reads = tokio::join!(coordinator.confirm(), coordinator.confirm(), coordinator.confirm());
    assert_eq!(reads, (Ok(()), Ok(()), Ok(())));
    assert_eq!(store.orders().confirmed, 2);
    let both = tokio::join!(coordinator.call(thread_id("a"), increment()), coordinator.confirm());
    assert!(both.0.is_ok() && both.1.is_ok());
    assert_eq!(store.orders().confirmed, 2);
}
