//! Messages that overtake each other. Tests of the watch on a network are in `tests/it`.
use super::*;
use crate::client::{Address, Client};

/// A watch of every thread whose stream never opens: the test delivers its messages.
struct ScriptedWatch {
    watch: Watch,
    started: Instant,
}

impl ScriptedWatch {
    fn start() -> Self {
        let client = Client::new(&"127.0.0.1:1".parse::<Address>().unwrap()).unwrap();
        let mut watch = client.watch_all();
        watch.open_next(false);
        Self { watch, started: Instant::now() }
    }

    fn times(&self, opened: u64, received: u64) -> Times {
        let at = |seconds| self.started + Duration::from_secs(seconds);
        Times { opened: at(opened), received: at(received) }
    }

    fn receive(&mut self, opened: u64, received: u64, event: StreamEvent) {
        let times = self.times(opened, received);
        self.watch.handle(Message { stream_id: 1, times, event });
    }

    /// The response to a query that was sent at `opened`.
    fn answer_query(&mut self, opened: u64, received: u64, state: PauseState) {
        let times = self.times(opened, received);
        let thread_id = self.watch.missing.pop().expect("a thread is missing");
        self.watch.on_query_response(thread_id, state, times);
    }

    /// The revisions reported since the last call.
    fn reported(&mut self) -> Vec<u64> {
        let reported = |event| if let Event::State(update) = event { Some(update.state.revision) } else { None };
        self.watch.ready.drain(..).filter_map(reported).collect()
    }
}

fn state(revision: u64) -> PauseState {
    let paused = !revision.is_multiple_of(2);
    PauseState { thread_id: "t".to_owned(), revision, paused, count: paused.into(), ..PauseState::default() }
}

fn disconnected() -> StreamEvent {
    StreamEvent::Disconnected(Instant::now(), Error::Unavailable(Box::new(tonic::Status::unavailable("cut"))))
}

/// A watch whose thread was paused, and was missing from the snapshot of a stream that was opened at 2.
fn missing() -> ScriptedWatch {
    let mut scripted = ScriptedWatch::start();
    scripted.receive(0, 1, StreamEvent::State(state(1)));
    scripted.receive(0, 1, StreamEvent::SnapshotComplete);
    scripted.receive(0, 2, disconnected());
    scripted.receive(2, 3, StreamEvent::SnapshotComplete);
    assert_eq!(scripted.reported(), [1]);
    scripted
}

#[tokio::test]
async fn g6_older_states_of_the_stream_are_dropped_after_a_query_response() {
    let mut scripted = missing();
    scripted.answer_query(4, 5, state(4));
    scripted.receive(2, 6, StreamEvent::State(state(3)));
    scripted.receive(2, 6, StreamEvent::State(state(4)));
    scripted.receive(2, 6, StreamEvent::State(state(5)));
    assert_eq!(scripted.reported(), [4, 5]);
}

#[tokio::test]
async fn g6_older_states_of_a_stream_opened_before_the_query_response_are_dropped() {
    let mut scripted = missing();
    scripted.answer_query(4, 9, state(4));
    // The stream broke during the query, and was reopened.
    scripted.receive(2, 5, disconnected());
    scripted.receive(6, 7, StreamEvent::State(state(3)));
    scripted.receive(6, 7, StreamEvent::SnapshotComplete);
    assert_eq!(scripted.reported(), [4]);
    scripted.receive(6, 10, StreamEvent::State(state(5)));
    assert_eq!(scripted.reported(), [5]);
}

#[tokio::test]
async fn queried_threads_are_forgotten_after_the_snapshot_of_a_later_stream() {
    let mut scripted = missing();
    scripted.answer_query(4, 5, state(4));
    assert_eq!(scripted.watch.queried.len(), 1);
    scripted.receive(2, 6, disconnected());
    scripted.receive(7, 8, StreamEvent::SnapshotComplete);
    assert!(scripted.watch.queried.is_empty());
}

#[tokio::test]
async fn lower_revisions_on_a_new_stream_are_reported() {
    let mut scripted = ScriptedWatch::start();
    scripted.receive(0, 1, StreamEvent::State(state(7)));
    scripted.receive(0, 1, StreamEvent::SnapshotComplete);
    scripted.receive(0, 2, disconnected());
    scripted.receive(3, 4, StreamEvent::State(state(1)));
    assert_eq!(scripted.reported(), [7, 1]);
}

#[tokio::test]
async fn states_of_another_epoch_are_changes_whatever_their_revision() {
    let mut scripted = missing();
    scripted.answer_query(4, 9, state(4));
    scripted.receive(2, 5, disconnected());
    // The stream was opened before the response came, but the server has lost its state meanwhile.
    let of_another_epoch = |revision| StreamEvent::State(PauseState { store_epoch: 2, ..state(revision) });
    scripted.receive(6, 10, of_another_epoch(3));
    scripted.receive(6, 10, of_another_epoch(4));
    assert_eq!(scripted.reported(), [4, 3, 4]);
}
