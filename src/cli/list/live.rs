//! `pausewatch list --watch`: follows all threads and shows the table again when it changes.
//!
//! 1. A watch delivers the changes; a list every few seconds delivers what has no revision: renewals and watchers.
//! 2. However many changes come, it draws at most once per [`MIN_INTERVAL`], and the last change is always drawn.
//! 3. It ends with 0 on a signal, when standard output is closed, and on a terminal by `q`.
use super::super::{
    connection, failure, failure::Failure, format, output, output::Json, output::Output, screen::Screen,
};
use super::board::{Board, Version};
use super::pages::all_pages;
use super::terminal::{self, Request, Requests};
use super::view;
use crate::client::{Client, Error, Event, ListPauseStatesResponse, Settings};
use crate::clock::{Clock, System};
use std::{io, pin::Pin, time::Duration};
use tokio::time::{Instant, sleep_until};

/// The shortest time between two drawings.
const MIN_INTERVAL: Duration = Duration::from_millis(250);
/// The time between two drawings on a terminal while nothing changes, because durations grow.
const TICK: Duration = Duration::from_secs(1);
/// The time between two lists, and before the list for a new thread.
const LIST_INTERVAL: Duration = Duration::from_secs(3);
const NEW_THREAD_DELAY: Duration = Duration::from_millis(250);
/// How long a table without a terminal waits for the watchers of its threads.
const WATCHERS_DELAY: Duration = Duration::from_secs(5);

pub(super) async fn follow(output: Output, client: Client, settings: &Settings) -> Result<(), Failure> {
    let address = settings.address.clone().unwrap_or_default().to_string();
    let mut watch = client.watch_all().with_elicitations().as_observer();
    // Before the terminal shows anything else.
    let first = connection::first_event(&mut watch).await?;
    let mut requests = Requests::new()?;
    let target = match output.json("ListPauseStatesResponse") {
        Some(json) => Target::Json(json),
        None if Screen::is_supported(io::stdout()) => {
            requests = requests.with_screen()?;
            Target::Screen(terminal::enter()?)
        }
        None => Target::Text,
    };
    let mut live = Live::new(address, target);
    live.take(first);
    let mut lists = Lists::new(client);
    let has_screen = matches!(live.target, Target::Screen(_));
    let closed = output::closed();
    tokio::pin!(closed);
    loop {
        let is_connected = live.board.lost_at().is_none();
        tokio::select! {
            event = watch.next() => live.take(event),
            listed = lists.next(), if is_connected => live.take_list(listed),
            () = sleep_until(live.due()) => tokio::select! {
                is_open = live.show() => {
                    if !is_open? {
                        return Ok(());
                    }
                }
                // A reader that does not read must not delay signals.
                _ = requests.next(), if !has_screen => return Ok(()),
                () = &mut closed, if !has_screen => return Ok(()),
            },
            request = requests.next() => match request {
                Request::End => return Ok(()),
                Request::Resized => live.note_change(),
                Request::Stop => live.stop()?,
            },
            () = &mut closed, if !has_screen => return Ok(()),
        }
        if live.board.lost_at().is_some() {
            lists.cancel();
        } else if !live.board.knows_watchers() {
            lists.refresh_soon();
        }
    }
}

enum Target {
    Screen(Screen),
    Text,
    Json(Json),
}

struct Live {
    clock: System,
    board: Board,
    address: String,
    /// Why the connection is lost.
    cause: String,
    target: Target,
    out: tokio::io::Stdout,
    /// The last table that was shown, and when.
    shown: Option<Version>,
    shown_at: Instant,
    /// Since when there may be something else to show.
    changed_at: Option<Instant>,
}

impl Live {
    fn new(address: String, target: Target) -> Self {
        Self {
            clock: System::new(),
            board: Board::default(),
            address,
            cause: String::new(),
            target,
            out: tokio::io::stdout(),
            shown: None,
            shown_at: Instant::now(),
            changed_at: None,
        }
    }

    fn now(&self) -> Duration {
        Duration::from_nanos(self.clock.boot().unsigned_abs())
    }

    fn take(&mut self, event: Event) {
        let now = self.now();
        match event {
            Event::State(update) => self.board.changed(update.state, now),
            Event::SnapshotComplete => {
                if self.board.lost_at().is_some() {
                    self.say("connected again");
                }
                self.board.completed();
            }
            Event::Disconnected { since, error, .. } => {
                self.cause = failure::cause(&error);
                self.say(&format!("the connection to {} is lost: {}; trying again", self.address, self.cause));
                self.board.disconnected(now.saturating_sub(since.elapsed()));
            }
        }
        self.note_change();
    }

    fn take_list(&mut self, list: ListPauseStatesResponse) {
        if self.board.listed(list.pause_states, self.now()) {
            self.note_change();
        }
    }

    /// On standard error, as `watch` does; a screen shows it itself.
    fn say(&self, message: &str) {
        if !matches!(self.target, Target::Screen(_)) {
            failure::say("list", message);
        }
    }

    fn note_change(&mut self) {
        self.changed_at.get_or_insert_with(Instant::now);
    }

    /// When the table is shown next.
    fn due(&self) -> Instant {
        let soonest = if self.shown.is_some() { self.shown_at + MIN_INTERVAL } else { self.shown_at };
        /// As good as never.
        const IDLE: Duration = Duration::from_secs(3_600);
        let idle = Instant::now() + IDLE;
        let (is_lost, is_complete) = (self.board.lost_at().is_some(), self.board.is_complete());
        match (&self.target, self.changed_at) {
            (Target::Screen(_), _) if !is_complete && !is_lost => idle,
            (Target::Screen(_), None) => self.shown_at + TICK,
            (Target::Screen(_), Some(_)) => soonest,
            // A change while the connection is lost is printed when the connection is back.
            (_, None) => idle,
            (_, Some(_)) if !is_complete || is_lost => idle,
            (_, Some(_)) if self.board.knows_watchers() => soonest,
            (_, Some(changed_at)) => soonest.max(changed_at + WATCHERS_DELAY),
        }
    }

    /// Shows the present state. `false`: nobody sees it any more.
    async fn show(&mut self) -> Result<bool, Failure> {
        self.shown_at = Instant::now();
        let version = self.board.version();
        let is_screen = matches!(self.target, Target::Screen(_));
        if !is_screen && self.shown.as_ref() == Some(&version) {
            self.changed_at = None;
            return Ok(true);
        }
        let rows = self.board.rows(self.now());
        let is_open = match &self.target {
            Target::Screen(screen) => {
                let lost = self.board.lost_at().map(|at| self.since(at));
                let view = view::View { rows: &rows, address: &self.address, lost: lost.as_deref() };
                match terminal::draw(screen, &view) {
                    Some(true) => true,
                    // The terminal has not accepted the last drawing yet.
                    Some(false) => return Ok(true),
                    None => false,
                }
            }
            Target::Text => {
                let time = format::local_time_to_the_millisecond(self.clock.now().wall);
                output::print_part(&mut self.out, &view::text(&rows, &time)).await?
            }
            Target::Json(json) => {
                let pause_states = rows.into_iter().map(|row| row.state).collect();
                let list = ListPauseStatesResponse { pause_states, ..Default::default() };
                output::print_part(&mut self.out, &json.format(&list, serde_json::to_string)?).await?
            }
        };
        (self.shown, self.changed_at) = (Some(version), None);
        Ok(is_open)
    }

    /// `since 22:30:00 (12s): Connection refused`
    fn since(&self, lost_at: Duration) -> String {
        let ago = self.now().saturating_sub(lost_at);
        let at = self.clock.now().wall.saturating_sub(i64::try_from(ago.as_nanos()).unwrap_or(i64::MAX));
        format!("since {} ({}): {}", format::local_time_of_day(at), view::whole_seconds(ago), self.cause)
    }

    /// Stops the process, as a shell expects it, and draws again when it goes on.
    fn stop(&mut self) -> Result<(), Failure> {
        if let Target::Screen(screen) = &mut self.target {
            terminal::stop(screen)?;
            self.note_change();
        }
        Ok(())
    }
}

/// Lists, one after the other.
struct Lists {
    client: Client,
    due: Instant,
    /// The soonest time for a list that a new thread brings about.
    not_before: Instant,
    running: Option<Running>,
}

type Running = Pin<Box<dyn Future<Output = Result<ListPauseStatesResponse, Error>>>>;

impl Lists {
    fn new(client: Client) -> Self {
        let now = Instant::now();
        Self { client, due: now, not_before: now, running: None }
    }

    /// The next list. Cancel safe.
    async fn next(&mut self) -> ListPauseStatesResponse {
        loop {
            sleep_until(self.due).await;
            let client = self.client.clone();
            let running = self.running.get_or_insert_with(|| Box::pin(async move { all_pages(&client, false).await }));
            let result = running.await;
            self.running = None;
            let now = Instant::now();
            self.due = now + LIST_INTERVAL;
            match result {
                Ok(list) => {
                    self.not_before = now + NEW_THREAD_DELAY;
                    return list;
                }
                // The watch reports what is wrong.
                Err(_) => self.not_before = self.due,
            }
        }
    }

    /// A thread is new.
    fn refresh_soon(&mut self) {
        if self.running.is_none() {
            self.due = self.due.min(self.not_before.max(Instant::now()));
        }
    }

    /// A list of an earlier connection says nothing of this one.
    fn cancel(&mut self) {
        self.running = None;
    }
}
