//! Callers that record what was acknowledged: no acknowledged change is lost, none is counted twice (G4, G5).
use crate::world::World;
use fastrand::Rng;
use pausewatch::client::{Client, DecrementElicitationRequest, IncrementElicitationRequest};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::task::JoinHandle;

const CALLERS: usize = 24;
/// Threads that all callers change.
const SHARED: usize = 4;
/// The maximum number of elicitations that a caller has open on one thread.
const MOST: usize = 6;

/// What a caller knows about one thread.
#[derive(Clone, Debug, Default)]
struct Book {
    open: Vec<String>,
    changes: u64,
}

type Books = Arc<Mutex<BTreeMap<String, Book>>>;

pub(crate) struct Callers {
    pub(crate) tasks: Vec<JoinHandle<()>>,
    books: Vec<Books>,
}

fn shared(number: usize) -> String {
    format!("books shared {number}")
}

fn own(number: usize) -> String {
    format!("books of {number}")
}

/// All threads that the callers change.
pub(crate) fn thread_ids() -> impl Iterator<Item = String> {
    (0..SHARED).map(shared).chain((0..CALLERS).map(own))
}

pub(crate) fn start(world: &Arc<World>, random: &mut Rng) -> Callers {
    let books: Vec<Books> = (0..CALLERS).map(|_| Books::default()).collect();
    let tasks = books.iter().enumerate().map(|(number, books)| {
        let random = random.fork();
        let caller = Caller {
            number,
            client: world.client(number),
            random,
            world: world.clone(),
            books: books.clone(),
            calls: 0,
        };
        tokio::spawn(caller.run())
    });
    Callers { tasks: tasks.collect(), books }
}

struct Caller {
    number: usize,
    client: Client,
    random: Rng,
    world: Arc<World>,
    books: Books,
    calls: u64,
}

impl Caller {
    async fn run(mut self) {
        let world = self.world.clone();
        while let Some(_working) = world.work().await {
            let is_shared = self.random.usize(..3) == 0;
            let thread_id = match is_shared {
                true => shared(self.random.usize(..SHARED)),
                false => own(self.number),
            };
            let mut book = self.books.lock().expect("no panic").get(&thread_id).cloned().unwrap_or_default();
            self.calls += 1;
            let request_id = format!("caller {} call {}", self.number, self.calls);
            let grows = book.open.is_empty() || book.open.len() < MOST && self.random.bool();
            let count = match grows {
                true => self.increment(&thread_id, request_id, &mut book).await,
                false => self.decrement(&thread_id, request_id, is_shared, &mut book).await,
            };
            if let Some(count) = count.filter(|count| !is_shared && *count as usize != book.open.len()) {
                world.fail(format!("{thread_id}: the count was {count}, and the book says {book:?}"));
            }
            self.books.lock().expect("no panic").insert(thread_id, book);
            tokio::time::sleep(Duration::from_millis(self.random.u64(..20))).await;
        }
    }

    async fn increment(&mut self, thread_id: &str, request_id: String, book: &mut Book) -> Option<u32> {
        let thread_id = thread_id.to_owned();
        let request = IncrementElicitationRequest { thread_id, request_id, ..Default::default() };
        let client = &self.client;
        match self.world.answered(|| client.increment_elicitation(request.clone())).await {
            Ok(answer) => {
                book.open.push(answer.elicitation.expect("it has one").elicitation_id);
                book.changes += 1;
                Some(answer.count)
            }
            Err(error) => self.refused(&error),
        }
    }

    async fn decrement(&mut self, thread_id: &str, request_id: String, named: bool, book: &mut Book) -> Option<u32> {
        // On the caller's own thread no elicitation has a ttl, so a decrement without an id closes the oldest.
        let named = named || self.random.bool();
        let closed = book.open.remove(if named { self.random.usize(..book.open.len()) } else { 0 });
        let (thread_id, elicitation_id) = (thread_id.to_owned(), named.then_some(closed));
        let request = DecrementElicitationRequest { thread_id, elicitation_id, request_id };
        let client = &self.client;
        match self.world.answered(|| client.decrement_elicitation(request.clone())).await {
            Ok(answer) => {
                book.changes += 1;
                Some(answer.count)
            }
            Err(error) => self.refused(&error),
        }
    }

    fn refused(&self, error: &pausewatch::client::Error) -> Option<u32> {
        self.world.fail(format!("caller {}: {error:?}", self.number));
        None
    }
}

/// Compares all records with the state of the server, while no caller works.
pub(crate) async fn compare(world: &World, callers: &Callers) {
    let mut expected: BTreeMap<String, Book> = BTreeMap::new();
    for books in &callers.books {
        for (thread_id, book) in books.lock().expect("no panic").clone() {
            let total = expected.entry(thread_id).or_default();
            total.changes += book.changes;
            total.open.extend(book.open);
        }
    }
    let client = world.client(0);
    for (thread_id, book) in expected {
        let state = world.get(&client, &thread_id).await;
        let open: BTreeSet<_> = state.elicitations.iter().map(|open| open.elicitation_id.as_str()).collect();
        if open != book.open.iter().map(String::as_str).collect() || state.revision != book.changes {
            world.fail(format!("{thread_id}: the books say {book:?}, the server {state:?}"));
        }
        world.counts.compared.fetch_add(1, Relaxed);
    }
}
