//! A program that asks people: with the guard of the client library, or with its own calls.
use crate::net;
use crate::oracle::{Ended, Oracle, Token};
use crate::run::Place;
use fastrand::Rng;
use pausewatch::client::{
    Client, DecrementElicitationRequest, DecrementElicitationResponse, Error, GetPauseStateRequest,
    IncrementElicitationRequest, IncrementElicitationResponse, Release, RenewElicitationRequest,
};
use std::time::Duration;
use tokio::time::sleep;

/// The number of questions at the same time.
const LANES: u64 = 2;

/// Runs the process; never returns.
pub(crate) async fn run(place: Place, oracle: Oracle) -> turmoil::Result {
    let client = net::client(&place.host, &oracle, Duration::from_secs(5));
    for lane in 0..LANES {
        let holder = Holder { client: client.clone(), place: place.clone(), oracle: oracle.clone() };
        tokio::spawn(holder.ask_people(place.random(lane)));
    }
    std::future::pending().await
}

struct Holder {
    client: Client,
    place: Place,
    oracle: Oracle,
}

impl Holder {
    async fn ask_people(self, mut random: Rng) {
        loop {
            sleep(Duration::from_millis(random.u64(100..6_000))).await;
            if self.oracle.is_over() {
                continue;
            }
            let thread = self.place.any_thread(&mut random);
            match random.u8(..10) {
                0..5 => self.hold(&thread, &mut random).await,
                5..9 => self.count_by_hand(&thread, &mut random).await,
                _ => self.look(&thread).await,
            }
        }
    }

    /// Asks with the guard.
    async fn hold(&self, thread: &str, random: &mut Rng) {
        let ttl = Duration::from_secs(random.u64(1..7));
        let asks_for = Duration::from_millis(random.u64(50..9_000));
        let token = self.oracle.asks(&self.place.host, thread, ttl);
        let hold = match self.client.hold(thread).reason(token.to_string()).ttl(ttl).open().await {
            Ok(hold) => hold,
            Err(error) => {
                self.oracle.expect_transient("open a hold", &error);
                return self.oracle.abandons(token);
            }
        };
        let opened = hold.opened();
        self.oracle.opened(token, opened.count, opened.revision, &hold.elicitation().elicitation_id);
        self.oracle.keeps_renewing(token);
        sleep(asks_for).await;
        self.oracle.releases(token);
        if random.u8(..4) == 0 {
            drop(hold);
            return self.oracle.abandons(token);
        }
        match hold.release().await {
            Ok(Release::Closed { revision, .. }) => self.oracle.closed(token, Ended::Released, Some(revision)),
            Ok(Release::Expired) => self.oracle.closed(token, Ended::Expired, None),
            // Closed by a decrement without an elicitation id.
            Ok(Release::Released) => self.oracle.closed(token, Ended::Released, None),
            Ok(Release::Unknown) => self.oracle.violation("G5", format!("{token} was acknowledged, and is unknown")),
            Err(error) => self.oracle.expect_transient("release a hold", &error),
        }
        drop(hold);
        self.oracle.abandons(token);
    }

    /// Asks with calls and its own request ids: repeated without an answer, sent twice at once, repeated late.
    async fn count_by_hand(&self, thread: &str, random: &mut Rng) {
        let ttl = Duration::from_secs(random.u64(1..7));
        let token = self.oracle.asks(&self.place.host, thread, ttl);
        let request = IncrementElicitationRequest {
            thread_id: thread.to_owned(),
            request_id: format!("open-{token}"),
            reason: token.to_string(),
            ttl: Some(prost_types::Duration { seconds: ttl.as_secs() as i64, nanos: 0 }),
            ..Default::default()
        };
        let twice = random.bool();
        let Some(opened) = self.increment(&request, twice, random).await else { return self.oracle.abandons(token) };
        let id = opened.elicitation.as_ref().expect("an increment opens one").elicitation_id.clone();
        self.oracle.opened(token, opened.count, opened.revision, &id);
        for _ in 0..random.u8(..3) {
            sleep(Duration::from_millis(random.u64(50..3_000))).await;
            let (thread_id, elicitation_id) = (thread.to_owned(), id.clone());
            let sent = self.oracle.now();
            let renewed =
                self.client.renew_elicitation(RenewElicitationRequest { thread_id, elicitation_id, ttl: None });
            match renewed.await {
                Ok(_) => self.oracle.renewed(token, sent),
                Err(Error::ElicitationExpired(_)) => self.oracle.closed(token, Ended::Expired, None),
                Err(Error::ElicitationReleased(_)) => self.oracle.closed(token, Ended::Released, None),
                Err(error) => self.oracle.expect_transient("renew", &error),
            }
        }
        self.oracle.abandons(token);
        if random.u8(..4) == 0
            && let Some(again) = self.increment(&request, false, random).await
            && Same::of(&again) != Same::of(&opened)
        {
            self.oracle.violation("G4", format!("{token} was opened again: {again:?}, at first {opened:?}"));
        }
        match random.u8(..8) {
            0 => {}
            // Without an id, it closes the oldest, which may belong to another program.
            1 => self.decrement(thread, None, token, random).await,
            _ => self.decrement(thread, Some(id), token, random).await,
        }
    }

    /// Repeats an increment until there is an answer, or until it gives up.
    async fn increment(
        &self,
        request: &IncrementElicitationRequest,
        twice: bool,
        random: &mut Rng,
    ) -> Option<IncrementElicitationResponse> {
        for attempt in 0..random.u8(2..8) {
            if attempt > 0 {
                self.oracle.count("calls made again with the same request id");
                sleep(Duration::from_millis(random.u64(10..2_000))).await;
            }
            let call = || self.client.increment_elicitation(request.clone());
            let answer = match twice {
                false => call().await,
                true => {
                    self.oracle.count("calls made twice at once");
                    let (first, second) = tokio::join!(call(), call());
                    if let (Ok(first), Ok(second)) = (&first, &second)
                        && Same::of(first) != Same::of(second)
                    {
                        self.oracle.violation("G4", format!("one call, two answers: {first:?} and {second:?}"));
                    }
                    first
                }
            };
            match answer {
                Ok(answer) => return Some(answer),
                Err(error) => self.oracle.expect_transient("increment", &error),
            }
        }
        None
    }

    async fn decrement(&self, thread: &str, elicitation_id: Option<String>, token: Token, random: &mut Rng) {
        let named = elicitation_id.is_some();
        let request_id = format!("close-{token}");
        let request = DecrementElicitationRequest { thread_id: thread.to_owned(), elicitation_id, request_id };
        match named {
            true => self.oracle.releases(token),
            false => self.oracle.releases_any(thread),
        }
        let mut first: Option<DecrementElicitationResponse> = None;
        for attempt in 0..random.u8(2..8) {
            if attempt > 0 {
                self.oracle.count("calls made again with the same request id");
                sleep(Duration::from_millis(random.u64(10..2_000))).await;
            }
            match self.client.decrement_elicitation(request.clone()).await {
                Ok(answer) => match &first {
                    Some(first) if *first != answer => {
                        self.oracle.violation("G4", format!("one call, two answers: {first:?} and {answer:?}"));
                    }
                    Some(_) => {}
                    None => {
                        match named {
                            true => self.oracle.closed(token, Ended::Released, Some(answer.revision)),
                            false => self.oracle.acknowledged(thread, answer.revision),
                        }
                        first = Some(answer);
                        // Sometimes the same call again.
                        if random.u8(..3) > 0 {
                            return;
                        }
                    }
                },
                Err(_) if first.is_some() => return,
                Err(Error::ElicitationExpired(_)) if named => return self.oracle.closed(token, Ended::Expired, None),
                Err(Error::ElicitationReleased(_)) if named => return self.oracle.closed(token, Ended::Released, None),
                Err(Error::NoOutstandingElicitation(_)) if !named => return,
                Err(error) => self.oracle.expect_transient("decrement", &error),
            }
        }
    }

    /// Reads a thread: all changes acknowledged before must be visible.
    async fn look(&self, thread: &str) {
        let at_least = self.oracle.acknowledged_revision(thread);
        match self.client.get_pause_state(GetPauseStateRequest { thread_id: thread.to_owned() }).await {
            Ok(answer) => self.oracle.read(thread, at_least, &answer.pause_state.expect("an answer has a state")),
            Err(error) => self.oracle.expect_transient("get", &error),
        }
    }
}

/// The parts that must be the same in each answer to one increment; `watchers` is the current number.
#[derive(PartialEq)]
struct Same<'a>(u32, u64, Option<&'a str>);

impl<'a> Same<'a> {
    fn of(answer: &'a IncrementElicitationResponse) -> Self {
        let id = answer.elicitation.as_ref().map(|elicitation| elicitation.elicitation_id.as_str());
        Same(answer.count, answer.revision, id)
    }
}
