//! The recipes for `watch --exec` in docs/faq.md, run against a stub of each service: text from tools arrives
//! unchanged, and no shell executes it.
use crate::page::{Block, blocks};
use crate::skipped::skipped;
use crate::{links, tools};
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

const PAGE: &str = "docs/faq.md";
const PATIENCE: Duration = Duration::from_secs(60);
/// Text from a hostile tool. If a shell executes it, it creates the file `pwned`.
const REASON: &str = "\"'; touch pwned; $(touch pwned) `touch pwned` \\\" | touch pwned &\nPush \\n 100% of 請求書 👩‍💻 <!channel> <b>é</b>?";
const HOLDER: &str = "--help @/etc/passwd $(touch pwned)";

fn faq() -> Vec<Block> {
    blocks(&fs::read_to_string(links::root().join(PAGE)).unwrap())
}

/// The command line of the page that contains `with`.
fn recipe(with: &str) -> String {
    let lines: Vec<_> = faq().into_iter().flat_map(|block| block.text).collect();
    let found = lines.iter().filter(|line| line.starts_with("pausewatch watch ") && line.contains(with));
    let [line] = found.collect::<Vec<_>>()[..] else { panic!("{PAGE}: one recipe with {with}") };
    assert!(line.contains(" --after 30s "), "{line}");
    line.replace(" --after 30s ", " --after 0 ")
}

struct Killed(Child);

impl Drop for Killed {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A directory with a coordinator and stubs.
struct Place {
    directory: tempfile::TempDir,
    _coordinator: Killed,
    address: String,
}

impl Place {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        fs::create_dir(directory.path().join("bin")).unwrap();
        let program = env!("CARGO_BIN_EXE_pausewatch");
        std::os::unix::fs::symlink(program, directory.path().join("bin/pausewatch")).unwrap();
        let mut serve = Command::new(program);
        serve
            .args(["serve", "--store", "memory", "--listen", "127.0.0.1:0"])
            .stdout(Stdio::piped())
            .stderr(Stdio::null());
        let mut coordinator = Killed(serve.spawn().unwrap());
        let mut line = String::new();
        BufReader::new(coordinator.0.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let address = line.trim().strip_prefix("listening ").unwrap().to_owned();
        Self { directory, _coordinator: coordinator, address }
    }

    fn path(&self) -> &Path {
        self.directory.path()
    }

    fn shell(&self, line: &str) -> Command {
        let mut shell = Command::new("sh");
        shell.args(["-c", &format!("exec {line}")]).current_dir(self.path()).stdin(Stdio::null());
        for name in ["TOKEN", "TLS_CA", "TLS_CERT", "TLS_KEY", "CONFIG"] {
            shell.env_remove(format!("PAUSEWATCH_{name}"));
        }
        let path = format!("{}:{}", self.path().join("bin").display(), std::env::var("PATH").unwrap());
        shell.env("PATH", path).env("HOME", self.path()).env_remove("XDG_CONFIG_HOME");
        shell.env("PAUSEWATCH_ADDRESS", &self.address).env("PAUSEWATCH_THREAD_ID", "t").env("NO_PROXY", "*");
        shell
    }

    fn call(&self, line: &str) {
        let mut shell = self.shell(line);
        let ended = shell.env("REASON", REASON).env("HOLDER", HOLDER).output().unwrap();
        assert!(ended.status.success(), "{line}: {ended:?}");
    }

    /// Runs the recipe for a question and for its answer. Returns what `received` extracts from each.
    fn play<T>(&self, recipe: &str, variables: &[(&str, &str)], received: impl Fn(&str) -> Option<T>) -> [T; 2] {
        let said = fs::File::create(self.path().join("said")).unwrap();
        let mut watch = self.shell(recipe);
        watch.envs(variables.iter().copied()).stdout(Stdio::null()).stderr(said);
        let _watch = Killed(watch.spawn().unwrap());
        let wait = |event: &str| {
            let end = Instant::now() + PATIENCE;
            loop {
                if let Some(received) = received(event) {
                    return received;
                }
                let said = fs::read_to_string(self.path().join("said")).unwrap();
                assert!(Instant::now() < end && said.is_empty(), "{recipe}: nothing is received; it says: {said}");
                std::thread::sleep(Duration::from_millis(20));
            }
        };
        self.call("pausewatch increment --reason \"$REASON\" --holder=\"$HOLDER\"");
        let waiting = wait("waiting");
        self.call("pausewatch decrement");
        let received = [waiting, wait("resumed")];
        let pwned = fs::read_dir(self.path()).unwrap().flatten().any(|entry| entry.file_name() == "pwned");
        assert!(!pwned, "{recipe}: the text was executed");
        received
    }
}

fn expected(event: &str) -> String {
    format!("{event}: {REASON} ({HOLDER})")
}

#[test]
fn a_desktop_notification_has_the_question_as_it_is() {
    let place = Place::new();
    let stub = place.path().join("bin/notify-send");
    let script = "#!/bin/sh\nfor it; do printf '%s\\0' \"$it\"; done >part && mv part notified-$PAUSEWATCH_EVENT\n";
    fs::write(&stub, script).unwrap();
    fs::set_permissions(&stub, fs::Permissions::from_mode(0o755)).unwrap();
    let notified = |event: &str| fs::read_to_string(place.path().join(format!("notified-{event}"))).ok();
    let received = place.play(&recipe("notify-send"), &[], notified);
    for (event, arguments) in ["waiting", "resumed"].into_iter().zip(received) {
        let arguments: Vec<_> = arguments.split_terminator('\0').collect();
        let end_of_options = arguments.iter().position(|argument| *argument == "--").expect("an end of the options");
        // The first text has no markup; a second one would have, but there is none.
        assert_eq!(arguments[end_of_options + 1..], [expected(event)]);
    }
}

/// A request, as the stub received it.
struct Received {
    path: String,
    content_type: String,
    body: String,
}

/// Serves every request with 200.
fn http_stub() -> (String, mpsc::Receiver<Received>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    let (sender, received) = mpsc::channel();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            if sender.send(receive(&stream.unwrap())).is_err() {
                return;
            }
        }
    });
    (address, received)
}

fn receive(mut stream: &TcpStream) -> Received {
    let mut reader = BufReader::new(stream);
    let mut line = || {
        let mut line = String::new();
        reader.read_line(&mut line).unwrap();
        line.trim_end().to_owned()
    };
    let request = line();
    let [method, path, _] = request.split(' ').collect::<Vec<_>>()[..] else { panic!("{request}") };
    assert_eq!(method, "POST");
    let (mut length, mut content_type) = (0, String::new());
    loop {
        let header = line();
        match header.to_ascii_lowercase().split_once(": ") {
            Some(("content-length", value)) => length = value.parse().unwrap(),
            Some(("content-type", value)) => content_type = value.to_owned(),
            Some(_) => {}
            None => break,
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).unwrap();
    stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\nconnection: close\r\n\r\nok").unwrap();
    Received { path: path.to_owned(), content_type, body: String::from_utf8(body).unwrap() }
}

#[test]
fn ntfy_receives_the_question_as_it_is() {
    if let Some(reason) = tools::lacks("curl") {
        return skipped("curl", reason);
    }
    let (place, (stub, requests)) = (Place::new(), http_stub());
    let line = recipe("https://ntfy.sh").replace("https://ntfy.sh", &stub);
    let received = place.play(&line, &[], |_| requests.try_recv().ok());
    for (event, request) in ["waiting", "resumed"].into_iter().zip(received) {
        assert_eq!((request.path.as_str(), request.body), ("/my-topic", expected(event)));
    }
}

#[test]
fn slack_receives_valid_json_with_the_question_as_plain_text() {
    if let Some(reason) = ["curl", "jq"].into_iter().find_map(tools::lacks) {
        return skipped("curl or jq", reason);
    }
    let (place, (stub, requests)) = (Place::new(), http_stub());
    let script = faq().into_iter().find(|block| block.attributes.get("file").is_some_and(|name| name == "slack"));
    fs::write(place.path().join("slack"), script.expect("the script of the page").text.join("\n") + "\n").unwrap();
    let webhook = format!("{stub}/services/T/B/secret");
    let received = place.play(&recipe("slack"), &[("SLACK_WEBHOOK", &webhook)], |_| requests.try_recv().ok());
    for (event, request) in ["waiting", "resumed"].into_iter().zip(received) {
        assert_eq!(
            (request.path.as_str(), request.content_type.as_str()),
            ("/services/T/B/secret", "application/json")
        );
        let message: serde_json::Value = serde_json::from_str(&request.body).unwrap();
        let text = &message["blocks"][0]["text"];
        assert_eq!((&text["type"], &text["text"]), (&"plain_text".into(), &expected(event).into()));
        // Slack shows this text in the notification, with links and mentions: it must not contain text from a tool.
        assert!(message["text"].as_str().is_some_and(|text| !text.contains("Push")), "{message}");
    }
}
