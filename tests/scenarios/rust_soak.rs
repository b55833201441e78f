//! The program of clients/soak for the Rust client: this test program, started with `--soak`. A line of JSON in and out for each
//! round; see clients/scenarios/README.md.
mod works;

use pausewatch::client::{Address, Client, Config, Tls, Token};
use serde_json::{Map, Value, json};
use std::{
    collections::HashMap,
    path::Path,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};
use tokio::{
    io::{AsyncBufReadExt, BufReader, stdin},
    runtime::Handle,
    task::JoinSet,
    time::sleep,
};

/// The longest wait for anything.
const HANG: Duration = Duration::from_secs(30);
const TTL: Duration = Duration::from_secs(60);
const COUNTS: [&str; 12] = [
    "holds",
    "cancelled",
    "unknown",
    "expired",
    "early",
    "false_expiries",
    "hangs",
    "disconnects",
    "late_ms",
    "bare_late_ms",
    "clock_error_ms",
    "await_error_ms",
];

/// A round under way, with its counts.
struct Round {
    order: Map<String, Value>,
    end: Instant,
    chance: Mutex<fastrand::Rng>,
    counts: Mutex<HashMap<&'static str, f64>>,
}

/// Plays until standard input ends.
pub(crate) async fn run() {
    let mut lines = BufReader::new(stdin()).lines();
    while let Ok(Some(line)) = lines.next_line().await {
        let Ok(Value::Object(order)) = serde_json::from_str(&line) else { panic!("this line is no round: {line}") };
        println!("{}", Round::new(order).play().await);
    }
}

impl Round {
    fn new(order: Map<String, Value>) -> Arc<Self> {
        let end = Instant::now() + Duration::from_secs_f64(order["seconds"].as_f64().unwrap_or_default());
        let chance = Mutex::new(fastrand::Rng::with_seed(order["seed"].as_u64().unwrap_or_default()));
        Arc::new(Self { order, end, chance, counts: Mutex::new(COUNTS.iter().map(|name| (*name, 0.0)).collect()) })
    }

    async fn play(self: Arc<Self>) -> Value {
        let client = self.client();
        let before = Handle::current().metrics().num_alive_tasks();
        let mut works = JoinSet::new();
        for _ in 0..4 {
            works.spawn(works::holds(self.clone(), client.clone()));
        }
        if self.is("bursts") {
            works.spawn(works::bursts(self.clone(), client.clone()));
        }
        works.spawn(works::short_lives(self.clone()));
        works.spawn(works::deadlines(self.clone(), client.clone()));
        works.spawn(works::person(self.clone(), client.clone()));
        works.spawn(works::clock(self.clone(), client));
        works.join_all().await;
        // Holds that were dropped are released by tasks.
        let give_up = Instant::now() + HANG;
        while Handle::current().metrics().num_alive_tasks() > before && Instant::now() < give_up {
            sleep(Duration::from_millis(10)).await;
        }
        let mut answer = json!({"round": self.order["round"], "tasks": Handle::current().metrics().num_alive_tasks()});
        for (name, value) in self.counts.lock().unwrap_or_else(PoisonError::into_inner).iter() {
            answer[*name] = json!(value);
        }
        answer
    }

    fn client(&self) -> Client {
        let settings = &self.order["settings"];
        let address: Address = settings["address"].as_str().unwrap_or_default().parse().expect("a valid address");
        let token = settings["token"].as_str().map(|token| Token::new(token).expect("a valid token"));
        let tls = settings["tls_ca"].as_str().map(|ca| Tls::load(Some(Path::new(ca)), None).expect("a certificate"));
        Client::with_config(&Config { address, token, tls, ..Config::default() }).expect("valid settings")
    }

    fn is(&self, key: &str) -> bool {
        self.order.get(key).and_then(Value::as_bool).unwrap_or_default()
    }

    fn number(&self, key: &str) -> u64 {
        self.order[key].as_u64().unwrap_or_default()
    }

    fn thread(&self, name: &str) -> String {
        format!("{}{name}", self.order["prefix"].as_str().unwrap_or_default())
    }

    fn is_over(&self) -> bool {
        Instant::now() >= self.end
    }

    fn below(&self, limit: u64) -> u64 {
        self.chance.lock().unwrap_or_else(PoisonError::into_inner).u64(0..limit)
    }

    fn count(&self, name: &'static str) {
        *self.counts.lock().unwrap_or_else(PoisonError::into_inner).entry(name).or_default() += 1.0;
    }

    fn greatest(&self, name: &'static str, value: Duration) {
        let milliseconds = value.as_secs_f64() * 1_000.0;
        let mut counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        let known = counts.entry(name).or_default();
        *known = known.max(milliseconds);
    }

    /// Notes how far `off` lies outside of `least` to `most`.
    fn outside(&self, name: &'static str, off: Duration, least: Duration, most: Duration) {
        self.greatest(name, least.saturating_sub(off).max(off.saturating_sub(most)));
    }
}
