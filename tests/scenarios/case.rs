//! Parses the cases, and checks all of them before any is played.
//!
//! 1. An unknown key or value is an error that names file and step: a misspelt `expect` must not count as no
//!    expectation.
//! 2. Cases are played in the order of their file names.
use crate::{
    expect,
    ops::{self, Op},
};
use serde::Deserialize;
use serde_json::{Map, Value};
use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
    time::Duration,
};

/// The rows of the table in clients/README.md, in order.
pub(crate) const FEATURES: [&str; 12] = [
    "calls",
    "errors",
    "retries",
    "unix sockets",
    "tls and tokens",
    "hold",
    "watch",
    "several addresses",
    "pausable timeout",
    "maximum wall time",
    "awaited threads",
    "story",
];
const GUARANTEES: [&str; 8] = ["G1", "G2", "G3", "G4", "G5", "G6", "G7", "G8"];
/// With fewer cases, they were probably not found.
const LEAST: usize = 25;
/// The default time for which a step waits for `until`.
const PATIENCE: Duration = Duration::from_secs(20);

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Case {
    pub(crate) name: String,
    pub(crate) feature: String,
    guarantees: Vec<String>,
    pub(crate) why: String,
    #[serde(default)]
    proxy: bool,
    /// The number of proxies; each is an address of the server.
    #[serde(default)]
    replicas: usize,
    #[serde(default)]
    pub(crate) listen: Listen,
    /// More options of `pausewatch serve`.
    #[serde(default)]
    pub(crate) serve: Vec<String>,
    /// Whether the server has TLS and requires tokens.
    #[serde(default)]
    pub(crate) secure: bool,
    /// The client of each named player; empty: all use the client under test.
    #[serde(default)]
    pub(crate) players: BTreeMap<String, String>,
    #[serde(rename = "steps")]
    raw_steps: Vec<Map<String, Value>>,
    #[serde(skip)]
    pub(crate) steps: Vec<Step>,
}

#[derive(Default, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Listen {
    #[default]
    Tcp,
    Unix,
}

pub(crate) struct Step {
    pub(crate) action: Action,
    pub(crate) arguments: Map<String, Value>,
    pub(crate) keys: Keys,
    /// The text of the file, for messages.
    pub(crate) text: String,
}

pub(crate) enum Action {
    Do { player: String, op: String },
    Stage(String),
    Await(String),
}

/// The keys that every step may have.
#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields)]
pub(crate) struct Keys {
    #[serde(rename = "as")]
    pub(crate) started_as: Option<String>,
    pub(crate) expect: Option<Value>,
    #[serde(default)]
    pub(crate) error: Option<OneOrMore>,
    pub(crate) field: Option<String>,
    #[serde(default)]
    pub(crate) message: Vec<String>,
    #[serde(default)]
    pub(crate) save: BTreeMap<String, String>,
    pub(crate) mark: Option<String>,
    #[serde(default)]
    pub(crate) since: BTreeMap<String, (f64, f64)>,
    pub(crate) took_ms: Option<(f64, f64)>,
    pub(crate) until: Option<Value>,
    within_ms: Option<u64>,
    pub(crate) repeat: Option<usize>,
    #[serde(rename = "why")]
    _why: Option<String>,
}

#[derive(Deserialize)]
#[serde(untagged)]
pub(crate) enum OneOrMore {
    One(String),
    More(Vec<String>),
}

impl OneOrMore {
    pub(crate) fn all(&self) -> &[String] {
        match self {
            Self::One(one) => std::slice::from_ref(one),
            Self::More(more) => more,
        }
    }
}

impl Keys {
    const NAMES: [&str; 13] = [
        "as",
        "expect",
        "error",
        "field",
        "message",
        "save",
        "mark",
        "since",
        "took_ms",
        "until",
        "within_ms",
        "repeat",
        "why",
    ];

    /// Whether the step has its own time to wait.
    pub(crate) fn waits(&self) -> bool {
        self.within_ms.is_some()
    }

    pub(crate) fn within(&self) -> Duration {
        self.within_ms.map_or(PATIENCE, Duration::from_millis)
    }
}

impl Case {
    /// The number of proxies before the server.
    pub(crate) fn proxies(&self) -> usize {
        self.replicas.max(usize::from(self.proxy))
    }

    /// The players that its steps name, each once.
    pub(crate) fn player_names(&self) -> BTreeSet<&str> {
        let named = self.steps.iter().filter_map(|step| match &step.action {
            Action::Do { player, .. } => Some(player.as_str()),
            Action::Stage(_) => step.arguments.get("player").and_then(Value::as_str),
            Action::Await(_) => None,
        });
        named.collect()
    }
}

/// Reads all cases of a directory.
pub(crate) fn load(directory: &Path) -> Result<Vec<Case>, String> {
    let entries = fs::read_dir(directory).map_err(|error| format!("read {}: {error}", directory.display()))?;
    let mut paths: Vec<_> = entries.filter_map(|entry| Some(entry.ok()?.path())).collect();
    paths.sort();
    let cases = paths.iter().map(|path| read(path).map_err(|error| format!("{}: {error}", path.display())));
    let cases: Vec<Case> = cases.collect::<Result<_, _>>()?;
    match cases.len() {
        enough if enough >= LEAST => Ok(cases),
        few => Err(format!("{}: {few} cases, and at least {LEAST} are expected", directory.display())),
    }
}

fn read(path: &Path) -> Result<Case, String> {
    let text = fs::read_to_string(path).map_err(|error| error.to_string())?;
    let mut case: Case = serde_json::from_str(&text).map_err(|error| error.to_string())?;
    if path.file_name().is_none_or(|name| name != format!("{}.json", case.name).as_str()) {
        return Err(format!("the name is {:?}, not the file's", case.name));
    }
    if !FEATURES.contains(&case.feature.as_str()) {
        return Err(format!("the feature {:?} is not one of {FEATURES:?}", case.feature));
    }
    if let Some(unknown) = case.guarantees.iter().find(|name| !GUARANTEES.contains(&name.as_str())) {
        return Err(format!("there is no guarantee {unknown:?}"));
    }
    if case.why.is_empty() || case.raw_steps.is_empty() {
        return Err("a case has a why and steps".to_owned());
    }
    if case.proxies() > 0 && case.listen == Listen::Unix {
        return Err("the proxy speaks TCP only".to_owned());
    }
    if case.secure && (case.proxies() > 0 || case.listen == Listen::Unix) {
        return Err("TLS is over TCP, and no proxy looks into it".to_owned());
    }
    let steps = std::mem::take(&mut case.raw_steps).into_iter().enumerate();
    let steps = steps.map(|(index, step)| parse(&case, step).map_err(|error| format!("step {}: {error}", index + 1)));
    case.steps = steps.collect::<Result<_, _>>()?;
    Ok(case)
}

fn parse(case: &Case, raw: Map<String, Value>) -> Result<Step, String> {
    let text = Value::Object(raw.clone()).to_string();
    let (keys, mut arguments): (Map<_, _>, Map<_, _>) =
        raw.into_iter().partition(|(key, _)| Keys::NAMES.contains(&key.as_str()));
    let keys: Keys = serde_json::from_value(Value::Object(keys)).map_err(|error| error.to_string())?;
    let mut take = |key: &str| match arguments.remove(key) {
        None => Ok(None),
        Some(Value::String(text)) => Ok(Some(text)),
        Some(other) => Err(format!("{key}: {other} is no name")),
    };
    let action = match (take("do")?, take("stage")?, take("await")?) {
        (Some(op), None, None) => Action::Do { player: take("player")?.unwrap_or_else(|| "a".to_owned()), op },
        (None, Some(op), None) => Action::Stage(op),
        (None, None, Some(name)) => Action::Await(name),
        _ => return Err("a step has one of do, stage and await".to_owned()),
    };
    check(case, &action, &keys, &mut arguments)?;
    Ok(Step { action, arguments, keys, text })
}

fn check(case: &Case, action: &Action, keys: &Keys, arguments: &mut Map<String, Value>) -> Result<(), String> {
    for pattern in keys.expect.iter().chain(&keys.until) {
        expect::validate(pattern)?;
    }
    if (keys.field.is_some() || !keys.message.is_empty()) && keys.error.is_none() {
        return Err("a field and a message are those of an error".to_owned());
    }
    if keys.error.is_some() && (keys.expect.is_some() || keys.until.is_some()) {
        return Err("what fails has no answer to expect".to_owned());
    }
    let names_player = |name: &String| case.players.is_empty() || case.players.contains_key(name);
    match action {
        Action::Do { player, op: name } => {
            let op = Op::of_player(name).ok_or_else(|| format!("players do no {name:?}"))?;
            if op.needs("client") {
                arguments.entry("client").or_insert_with(|| "c".into());
            }
            if op.needs("within_ms") && keys.until.is_none() {
                arguments.insert("within_ms".to_owned(), keys.within_ms.into());
            }
            if !names_player(player) {
                return Err(format!("no player {player:?} in this case"));
            }
            op.check(arguments.keys())
        }
        _ if keys.started_as.is_some() => Err("only what a player does can go on meanwhile".to_owned()),
        Action::Stage(name) => {
            let op = Op::of_stage(name).ok_or_else(|| format!("the stage does no {name:?}"))?;
            if ops::NEED_PROXY.contains(&name.as_str()) && case.proxies() == 0 {
                return Err(format!("{name} needs the proxy"));
            }
            let replica = arguments.get("replica");
            if replica.is_some_and(|replica| replica != "connected" && replica != "others") {
                return Err("a replica is connected or others".to_owned());
            }
            if name == "token" && !case.secure {
                return Err("a token is that of a secure server".to_owned());
            }
            op.check(arguments.keys())
        }
        Action::Await(_) if arguments.is_empty() => Ok(()),
        Action::Await(_) => Err("an await takes no arguments".to_owned()),
    }
}
