//! What a watch tells of messages that have overtaken each other. How it behaves on a network is tested in `tests/it`.
use super::*;
use crate::client::{Address, Client};

/// A watch of everything whose stream never opens: the test plays it.
struct Played {
    watch: Watch,
    began: Instant,
}

impl Played {
    fn start() -> Self {
        let client = Client::new(&"127.0.0.1:1".parse::<Address>().unwrap()).unwrap();
        let mut watch = client.watch_all();
        watch.open_next(false);
        Self { watch, began: Instant::now() }
    }

    fn times(&self, opened: u64, came: u64) -> Times {
        let at = |seconds| self.began + Duration::from_secs(seconds);
        Times { opened: at(opened), came: at(came) }
    }

    fn hears(&mut self, opened: u64, came: u64, what: What) {
        let times = self.times(opened, came);
        self.watch.take(Message { leg: 1, times, what });
    }

    /// An answer to a question that was put at `opened`.
    fn is_answered(&mut self, opened: u64, came: u64, state: PauseState) {
        let times = self.times(opened, came);
        let thread_id = self.watch.missing.pop().expect("a thread is missing");
        self.watch.answered(thread_id, state, times);
    }

    /// The revisions that were told since the last call.
    fn told(&mut self) -> Vec<u64> {
        let told = |event| if let Event::State(update) = event { Some(update.state.revision) } else { None };
        self.watch.ready.drain(..).filter_map(told).collect()
    }
}

fn state(revision: u64) -> PauseState {
    let paused = !revision.is_multiple_of(2);
    PauseState { thread_id: "t".to_owned(), revision, paused, count: paused.into(), ..PauseState::default() }
}

fn broken() -> What {
    What::Broken(Error::Unavailable(Box::new(tonic::Status::unavailable("cut"))))
}

/// A watch whose thread was paused, and was missing from the snapshot of a stream that was opened at 2.
fn missing() -> Played {
    let mut played = Played::start();
    played.hears(0, 1, What::State(state(1)));
    played.hears(0, 1, What::Complete);
    played.hears(0, 2, broken());
    played.hears(2, 3, What::Complete);
    assert_eq!(played.told(), [1]);
    played
}

#[tokio::test]
async fn g6_an_answer_is_not_followed_by_what_its_stream_still_has() {
    let mut played = missing();
    played.is_answered(4, 5, state(4));
    played.hears(2, 6, What::State(state(3)));
    played.hears(2, 6, What::State(state(4)));
    played.hears(2, 6, What::State(state(5)));
    assert_eq!(played.told(), [4, 5]);
}

#[tokio::test]
async fn g6_nor_by_what_a_stream_shows_that_was_opened_before_the_answer() {
    let mut played = missing();
    played.is_answered(4, 9, state(4));
    // It broke while the question was under way, and was opened again.
    played.hears(2, 5, broken());
    played.hears(6, 7, What::State(state(3)));
    played.hears(6, 7, What::Complete);
    assert_eq!(played.told(), [4]);
    played.hears(6, 10, What::State(state(5)));
    assert_eq!(played.told(), [5]);
}

#[tokio::test]
async fn what_was_asked_for_is_forgotten_when_a_later_stream_has_told_everything() {
    let mut played = missing();
    played.is_answered(4, 5, state(4));
    assert_eq!(played.watch.asked.len(), 1);
    played.hears(2, 6, broken());
    played.hears(7, 8, What::Complete);
    assert!(played.watch.asked.is_empty());
}

#[tokio::test]
async fn a_server_that_lost_its_state_is_believed() {
    let mut played = Played::start();
    played.hears(0, 1, What::State(state(7)));
    played.hears(0, 1, What::Complete);
    played.hears(0, 2, broken());
    played.hears(3, 4, What::State(state(1)));
    assert_eq!(played.told(), [7, 1]);
}
