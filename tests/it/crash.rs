//! kill -9 of the server at random moments under 64 callers who retry: the state is exactly what was acknowledged.
//!
//! `PAUSEWATCH_CRASH_ROUNDS` (50) makes it longer, `PAUSEWATCH_CRASH_SEED` repeats the actions of the callers.
use crate::support::{PATIENCE, Process, timed};
use fastrand::Rng;
use pausewatch::client::{Client, Config, DecrementElicitationRequest, Error, IncrementElicitationRequest};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::time::{Duration, Instant};
use tokio::task::JoinSet;

const CALLERS: u64 = 64;
/// Threads that all callers change.
const SHARED: usize = 4;
/// The maximum number of elicitations that a caller has open on one thread.
const MOST: usize = 6;

/// What all tasks share.
#[derive(Default)]
struct Race {
    over: AtomicBool,
    /// The number of answered calls.
    answered: AtomicU64,
    /// The number of repeated calls.
    retried: AtomicU64,
}

/// What a caller knows it has done to one thread.
#[derive(Clone, Debug, Default)]
struct Book {
    open: Vec<String>,
    changes: u64,
}

struct Caller {
    number: u64,
    client: Client,
    random: Rng,
    race: Arc<Race>,
    calls: u64,
}

impl Caller {
    fn request_id(&mut self) -> String {
        self.calls += 1;
        format!("caller {} call {}", self.number, self.calls)
    }

    /// Waits until it is time to call again. Any error except a refusal leaves the outcome of the call unknown.
    async fn call_again(&self, error: Error) {
        assert!(matches!(error, Error::Unavailable(_)), "caller {}: {error:?}", self.number);
        self.race.retried.fetch_add(1, SeqCst);
        // The server is being restarted: there is no event to wait for.
        tokio::time::sleep(Duration::from_millis(5)).await;
    }

    async fn increment(&mut self, thread: &str, book: &mut Book) -> u32 {
        let (thread_id, request_id) = (thread.to_owned(), self.request_id());
        let request = IncrementElicitationRequest { thread_id, request_id, ..Default::default() };
        loop {
            match self.client.increment_elicitation(request.clone()).await {
                Ok(answer) => {
                    self.race.answered.fetch_add(1, SeqCst);
                    book.open.push(answer.elicitation.unwrap().elicitation_id);
                    book.changes += 1;
                    return answer.count;
                }
                Err(error) => self.call_again(error).await,
            }
        }
    }

    /// `named`: the index in the book of the elicitation to close; `None`: the oldest.
    async fn decrement(&mut self, thread: &str, book: &mut Book, named: Option<usize>) -> u32 {
        let (thread_id, request_id) = (thread.to_owned(), self.request_id());
        let id = book.open.remove(named.unwrap_or(0));
        let elicitation_id = named.map(|_| id);
        let request = DecrementElicitationRequest { thread_id, elicitation_id, request_id };
        loop {
            match self.client.decrement_elicitation(request.clone()).await {
                Ok(answer) => {
                    self.race.answered.fetch_add(1, SeqCst);
                    book.changes += 1;
                    return answer.count;
                }
                Err(error) => self.call_again(error).await,
            }
        }
    }

    /// Changes threads until the race ends; returns the books.
    async fn run(mut self) -> BTreeMap<String, Book> {
        let own = format!("own {}", self.number);
        let mut books: BTreeMap<String, Book> = BTreeMap::new();
        while !self.race.over.load(SeqCst) {
            let shared = self.random.usize(..3) == 0;
            let thread = if shared { format!("shared {}", self.random.usize(..SHARED)) } else { own.clone() };
            let mut book = books.remove(&thread).unwrap_or_default();
            let grows = book.open.is_empty() || book.open.len() < MOST && self.random.bool();
            let before = book.open.len();
            let count = match (grows, shared || self.random.bool()) {
                (true, _) => self.increment(&thread, &mut book).await,
                (false, true) => {
                    let named = self.random.usize(..before);
                    self.decrement(&thread, &mut book, Some(named)).await
                }
                // None of its elicitations has a ttl, so the oldest is the first in the book.
                (false, false) => self.decrement(&thread, &mut book, None).await,
            };
            assert!(shared || count as usize == book.open.len(), "{thread}: {count}, and the book says {book:?}");
            books.insert(thread, book);
        }
        books
    }
}

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| text.parse().unwrap_or_else(|_| panic!("{name} is a number")))
}

async fn serve(directory: &Path) -> Process {
    let (data, listen) = (directory.join("data"), format!("unix:{}", directory.join("p.sock").display()));
    tokio::task::spawn_blocking(move || Process::serve(&data, &listen)).await.unwrap()
}

/// G4, G5: no acknowledged change is lost, and none is counted twice.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn kill_9_loses_no_acknowledged_change_and_counts_none_twice() {
    let rounds = number("PAUSEWATCH_CRASH_ROUNDS").unwrap_or(50);
    let now = std::time::UNIX_EPOCH.elapsed().unwrap().as_nanos() as u64;
    let seed = number("PAUSEWATCH_CRASH_SEED").unwrap_or(now);
    println!("PAUSEWATCH_CRASH_SEED={seed} PAUSEWATCH_CRASH_ROUNDS={rounds}");
    let mut random = Rng::with_seed(seed);
    let directory = tempfile::tempdir().unwrap();
    let mut server = serve(directory.path()).await;
    let race = Arc::<Race>::default();
    let mut callers = JoinSet::new();
    for number in 0..CALLERS {
        let address = server.address.parse().unwrap();
        // The client does not retry; this test does, so that it sees each failure.
        let client = Client::with_config(&Config { address, deadline: PATIENCE, retries: 0, ..Config::default() });
        let (client, random, race) = (client.unwrap(), random.fork(), race.clone());
        callers.spawn(Caller { number, client, random, race, calls: 0 }.run());
    }
    for round in 0..rounds {
        // Waits until calls are answered again, then for a random number of further calls.
        let until = race.answered.load(SeqCst) + random.u64(..400);
        let under_way = async {
            while race.answered.load(SeqCst) < until {
                tokio::time::sleep(Duration::from_micros(100)).await;
                assert!(callers.try_join_next().is_none(), "a caller has given up in round {round}");
            }
        };
        timed("the callers", under_way).await;
        let moment = Instant::now() + Duration::from_micros(random.u64(..3_000));
        while Instant::now() < moment {
            std::hint::spin_loop();
        }
        server.kill();
        server = serve(directory.path()).await;
    }
    race.over.store(true, SeqCst);
    let books = timed("the last calls", callers.join_all()).await;

    let mut expected: BTreeMap<String, Book> = BTreeMap::new();
    for (thread, book) in books.into_iter().flatten() {
        let total = expected.entry(thread).or_default();
        total.changes += book.changes;
        total.open.extend(book.open);
    }
    let mut api = server.api().await;
    for (thread, book) in &expected {
        let state = api.get(thread).await;
        let open: BTreeSet<_> = state.elicitations.iter().map(|open| open.elicitation_id.clone()).collect();
        assert_eq!(open, book.open.iter().cloned().collect(), "{thread}: what is open; seed {seed}");
        assert_eq!(state.count as usize, book.open.len(), "{thread}; seed {seed}");
        assert_eq!(state.revision, book.changes, "{thread}: a change that was lost or counted twice; seed {seed}");
    }
    let (answered, retried) = (race.answered.load(SeqCst), race.retried.load(SeqCst));
    println!("{answered} calls answered, {retried} retries, {} threads", expected.len());
    assert!(retried >= rounds, "every kill has interrupted a call");
    assert_eq!(expected.len() as u64, CALLERS + SHARED as u64);
}
