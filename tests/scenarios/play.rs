//! Plays one case: its server, its proxies, its players, its saved values, and each step in order.
//!
//! 1. Whatever happens, the end is the same: the proxies are repaired, the players are reset while the server still
//!    answers, then the server is stopped. Only a player that completed all its steps is reused.
//! 2. A step is checked by the time at which its answer arrived; later events do not matter.
use crate::{
    case::{Action, Case, Step},
    expect,
    player::{Answer, Pending, Player, Refusal},
    pool::Pool,
    proxy::Proxy,
    server::Server,
    variables::{self, Variables},
};
use serde_json::{Map, Value, json};
use std::{
    collections::{BTreeMap, HashMap},
    time::{Duration, Instant},
};
use tokio::time::sleep;

/// The error of a call that reached no server, or only one that is not serving.
const UNAVAILABLE: &str = "UNAVAILABLE";
/// The time between two attempts of a step with `until`.
const LOOK_AGAIN: Duration = Duration::from_millis(5);

pub(crate) struct Play<'a> {
    pub(crate) case: &'a Case,
    client: &'a str,
    pool: &'a mut Pool,
    pub(crate) server: Server,
    /// The proxies before the server; several look like replicas.
    pub(crate) proxies: Vec<Proxy>,
    players: BTreeMap<String, Player>,
    started: HashMap<String, Pending>,
    variables: Variables,
}

/// The result of a step: its start, and each value with its time.
struct Outcome {
    began: Instant,
    answer: Answer,
}

/// Plays a case. `client` is used for every player for which the case names no client.
pub(crate) async fn play(case: &Case, client: &str, pool: &mut Pool) -> Result<(), String> {
    let server = Server::start(case).await?;
    let proxies = server.port().into_iter().flat_map(|port| (0..case.proxies()).map(move |_| Proxy::start(port)));
    let proxies: Vec<_> = proxies.collect::<Result<_, _>>().map_err(|error| format!("start a proxy: {error}"))?;
    let addresses: Vec<_> = proxies.iter().map(|proxy| proxy.address().to_string()).collect();
    let address = if addresses.is_empty() { server.address() } else { addresses.join(",") };
    let mut variables = Variables::default();
    variables.set("address", address.into());
    if let Some(secrets) = &server.secrets {
        variables.set("tls_ca", secrets.ca().into());
        variables.set("token", secrets.admin.clone().into());
    }
    let (players, started) = Default::default();
    let mut play = Play { case, client, pool, server, proxies, players, started, variables };
    let result = play.steps().await;
    play.end(result).await
}

impl Play<'_> {
    async fn steps(&mut self) -> Result<(), String> {
        let case = self.case;
        // The start time of a process does not matter, and must not change what a step measures.
        for name in case.player_names() {
            self.player(name).await?;
        }
        for (index, step) in case.steps.iter().enumerate() {
            self.step(step).await.map_err(|error| format!("step {}: {}\n  {error}", index + 1, step.text))?;
        }
        match self.started.keys().next() {
            Some(forgotten) => Err(format!("the case ends before it awaits {forgotten:?}")),
            None => Ok(()),
        }
    }

    async fn step(&mut self, step: &Step) -> Result<(), String> {
        let arguments = self.variables.put_into_all(&step.arguments)?;
        if let (Some(name), Action::Do { player, op }) = (&step.keys.started_as, &step.action) {
            let pending = self.player(player).await?.send(op, arguments).await?;
            self.started.insert(name.clone(), pending);
            return Ok(());
        }
        for repetition in 0..step.keys.repeat.unwrap_or(1) {
            let arguments = match step.keys.repeat {
                Some(_) => variables::number(&arguments, repetition),
                None => arguments.clone(),
            };
            let outcome = self.until(step, arguments).await?;
            self.judge(step, outcome)?;
        }
        Ok(())
    }

    /// Repeats a step until its answer is the expected one; without an expectation, runs it once. An unavailable server
    /// is retried; any other error ends the step.
    async fn until(&mut self, step: &Step, arguments: Map<String, Value>) -> Result<Outcome, String> {
        let Some(wish) = step.until() else { return self.once(step, arguments).await };
        let wish = self.variables.put_into(wish)?;
        let end = Instant::now() + step.keys.within();
        loop {
            let outcome = self.once(step, arguments.clone()).await?;
            let differs = match &outcome.answer.result {
                Ok(answer) => expect::check(&wish, answer),
                Err(refusal) if refusal.kind == UNAVAILABLE => Err(tell(refusal)),
                Err(_) => return Ok(outcome),
            };
            match differs {
                Ok(()) => return Ok(outcome),
                Err(difference) if outcome.answer.at > end => {
                    return Err(format!("not within {:?}: {difference}", step.keys.within()));
                }
                Err(_) => sleep(LOOK_AGAIN).await,
            }
        }
    }

    async fn once(&mut self, step: &Step, arguments: Map<String, Value>) -> Result<Outcome, String> {
        match &step.action {
            Action::Do { player, op } => {
                let pending = self.player(player).await?.send(op, arguments).await?;
                Ok(Outcome { began: pending.sent, answer: pending.answer().await? })
            }
            Action::Await(name) => {
                let pending = self.started.remove(name).ok_or_else(|| format!("nothing was started as {name:?}"))?;
                Ok(Outcome { began: pending.sent, answer: pending.answer().await? })
            }
            Action::Stage(op) => {
                let began = Instant::now();
                let answer = self.stage(op, &arguments, step).await?;
                Ok(Outcome { began, answer: Answer { result: Ok(answer), at: Instant::now() } })
            }
        }
    }

    /// Checks the result of a step, and saves the values that the case names.
    fn judge(&mut self, step: &Step, outcome: Outcome) -> Result<(), String> {
        let Outcome { began, answer: Answer { result, at } } = outcome;
        let keys = &step.keys;
        match (&keys.error, result) {
            (None, Ok(answer)) => {
                if let Some(pattern) = &keys.expect {
                    let pattern = self.variables.put_into(pattern)?;
                    expect::check(&pattern, &answer).map_err(|error| format!("{error}\n  the answer: {answer}"))?;
                }
                self.variables.save(&keys.save, &answer)?;
            }
            (None, Err(refusal)) => return Err(format!("failed with {}", tell(&refusal))),
            (Some(_), Ok(answer)) => return Err(format!("should have failed, and answered {answer}")),
            (Some(kinds), Err(refusal)) => {
                let right = kinds.all().contains(&refusal.kind);
                if !right || keys.field.as_ref().is_some_and(|field| refusal.field.as_ref() != Some(field)) {
                    return Err(format!("failed with another error: {}", tell(&refusal)));
                }
                let said = refusal.message.to_lowercase();
                for part in &keys.message {
                    let part = self.variables.put_into(&part.as_str().into())?;
                    let part = part.as_str().ok_or("a part of a message is a string")?;
                    if !said.contains(&part.to_lowercase()) {
                        return Err(format!("the message does not say {part:?}: {}", tell(&refusal)));
                    }
                }
            }
        }
        if let Some((least, most)) = keys.took_ms {
            within("it took", (at - began).as_secs_f64() * 1e3, least, most)?;
        }
        for (mark, (least, most)) in &keys.since {
            within(&format!("since {mark:?}"), self.variables.since(mark, at)?, *least, *most)?;
        }
        if let Some(name) = &keys.mark {
            self.variables.mark(name, at);
        }
        Ok(())
    }

    /// The player with this name; if it does not run, it is started with its first client.
    pub(crate) async fn player(&mut self, name: &str) -> Result<&mut Player, String> {
        if !self.players.contains_key(name) {
            let client = self.case.players.get(name).map_or(self.client, String::as_str);
            let mut player = self.pool.take(client)?;
            let mut first = json!({"client": "c", "address": "$address"});
            if self.case.secure {
                (first["tls_ca"], first["token"]) = ("$tls_ca".into(), "$token".into());
            }
            let made = warm_up(&mut player, self.variables.put_into(&first)?).await;
            // Kept even after a failure, because its standard error may have the cause.
            self.players.insert(name.to_owned(), player);
            made?;
        }
        self.players.get_mut(name).ok_or_else(|| format!("no player {name:?}"))
    }

    pub(crate) fn put_in(&self, value: &Value) -> Result<Value, String> {
        self.variables.put_into(value)
    }

    pub(crate) async fn kill_player(&mut self, name: &str) -> Result<(), String> {
        let player = self.players.remove(name).ok_or_else(|| format!("no player {name:?} has done anything yet"))?;
        player.kill().await;
        Ok(())
    }

    async fn end(mut self, mut result: Result<(), String>) -> Result<(), String> {
        for proxy in &mut self.proxies {
            proxy.mend().await.unwrap_or_default();
        }
        let mut said = String::new();
        for (name, mut player) in std::mem::take(&mut self.players) {
            if result.is_ok() {
                let reset = player.call("reset", Map::new()).await;
                result = reset.and_then(|answer| answer.result.map(drop).map_err(|refusal| tell(&refusal)));
                result = result.map_err(|error| format!("reset of player {name}: {error}"));
            }
            match &result {
                Ok(()) => self.pool.give_back(player),
                Err(_) if player.said().is_empty() => {}
                Err(_) => said += &format!("\n  player {name} said on standard error:{}", player.said()),
            }
        }
        let server_said = self.server.end().await;
        if !server_said.is_empty() {
            said +=
                &format!("\n  the server said on standard error:\n    {}", server_said.trim().replace('\n', "\n    "));
        }
        result.map_err(|error| error + &said)
    }
}

impl Step {
    /// The expectation of the step: its `until`, or for a query of the stage, its `expect`.
    fn until(&self) -> Option<&Value> {
        let looks = matches!(&self.action, Action::Stage(op) if op == "state" || op == "streams");
        let drains = matches!(&self.action, Action::Stage(op) if op == "drain_watch");
        let expected = self.keys.expect.as_ref().filter(|_| looks && self.keys.waits());
        self.keys.until.as_ref().filter(|_| !drains).or(expected)
    }
}

/// Makes the first client of a player, and its first call, so that the slow first steps of a process are over. On a busy
/// machine they may take longer than a call may.
async fn warm_up(player: &mut Player, first: Value) -> Result<(), String> {
    let mut call = async |op, arguments: &Value| {
        let Value::Object(arguments) = arguments else { unreachable!("an object was written") };
        let answer = player.call(op, arguments.clone()).await?;
        answer.result.map(drop).map_err(|refusal| format!("the player's first {op} failed: {}", tell(&refusal)))
    };
    call("client", &first).await?;
    let get = json!({"client": "c", "thread_id": "warm-up"});
    let mut got = Err(String::new());
    for _ in 0..3 {
        got = call("get", &get).await;
        if got.is_ok() {
            break;
        }
    }
    got
}

fn within(what: &str, ms: f64, least: f64, most: f64) -> Result<(), String> {
    if (least..=most).contains(&ms) { Ok(()) } else { Err(format!("{what} {ms:.1} ms, not {least} to {most}")) }
}

pub(crate) fn tell(refusal: &Refusal) -> String {
    let field = refusal.field.as_ref().map(|field| format!(" of {field:?}")).unwrap_or_default();
    format!("{}{field}: {}", refusal.kind, refusal.message)
}
