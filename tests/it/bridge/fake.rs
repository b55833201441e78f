//! An app-server that sends only what a test makes it send.
//!
//! 1. As a command it consists of two `cat` behind named pipes, so that every byte passes through the test.
//! 2. On a Unix socket it accepts one connection after another, and each message is a text frame.
use futures_util::SinkExt;
use serde_json::{Value, json};
use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::mpsc;
use std::time::Duration;
use tokio::net::UnixListener;
use tokio_stream::StreamExt;
use tokio_tungstenite::{accept_async, tungstenite::Message};

/// Far longer than anything takes, even on a machine that is busy with other tests.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// Messages to the app-server; `None` is the end of its input.
type Received = mpsc::Receiver<Option<Vec<u8>>>;

/// A running app-server.
pub(crate) struct AppServer {
    received: Received,
    said: Said,
}

enum Said {
    Pipe(Option<File>),
    Socket(tokio::sync::mpsc::UnboundedSender<Option<String>>),
}

/// The pipes of an app-server that is a command, before it runs.
pub(crate) struct Pipes(PathBuf, PathBuf);

impl Pipes {
    pub(crate) fn new(directory: &Path) -> Self {
        let [input, output] = ["input", "output"].map(|name| directory.join(name));
        let made = Command::new("mkfifo").args([&input, &output]).status().unwrap();
        assert!(made.success());
        Self(input, output)
    }

    /// The command line that starts it.
    pub(crate) fn command(&self) -> [String; 6] {
        let [input, output] = [&self.0, &self.1].map(|path| path.to_str().unwrap().to_owned());
        ["--", "sh", "-c", "cat <\"$1\" 2>/dev/null & cat >\"$0\"; wait", &input, &output].map(str::to_owned)
    }

    /// Waits until it runs.
    pub(crate) fn open(&self) -> AppServer {
        let (sender, received) = mpsc::channel();
        let mut input = BufReader::new(File::open(&self.0).unwrap());
        std::thread::spawn(move || {
            loop {
                let mut line = Vec::new();
                if input.read_until(b'\n', &mut line).unwrap_or(0) == 0 {
                    return sender.send(None);
                }
                if sender.send(Some(line)).is_err() {
                    return Ok(());
                }
            }
        });
        let output = File::options().write(true).open(&self.1).unwrap();
        AppServer { received, said: Said::Pipe(Some(output)) }
    }
}

impl AppServer {
    /// Listens on a socket.
    pub(crate) fn listen(socket: &Path) -> Self {
        let (sender, received) = mpsc::channel();
        let (said, mut queue) = tokio::sync::mpsc::unbounded_channel::<Option<String>>();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let listener = runtime.block_on(async { UnixListener::bind(socket).unwrap() });
        let serve = async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                let mut frames = accept_async(stream).await.unwrap();
                loop {
                    tokio::select! {
                        message = queue.recv() => match message {
                            // If the peer was killed, this fails.
                            Some(Some(text)) => if frames.send(Message::text(text)).await.is_err() { break },
                            Some(None) => break,
                            None => return,
                        },
                        frame = frames.next() => match frame {
                            Some(Ok(Message::Text(text))) => _ = sender.send(Some(text.as_bytes().to_vec())),
                            Some(Ok(_)) => {}
                            Some(Err(_)) | None => break,
                        }
                    }
                }
                if sender.send(None).is_err() {
                    return;
                }
            }
        };
        std::thread::spawn(move || runtime.block_on(serve));
        Self { received, said: Said::Socket(said) }
    }

    pub(crate) fn say(&mut self, message: &Value) {
        self.say_bytes(format!("{message}\n").as_bytes());
    }

    pub(crate) fn say_bytes(&mut self, bytes: &[u8]) {
        match &mut self.said {
            Said::Pipe(pipe) => pipe.as_mut().unwrap().write_all(bytes).unwrap(),
            Said::Socket(socket) => socket.send(Some(String::from_utf8(bytes.to_vec()).unwrap())).unwrap(),
        }
    }

    /// Closes its output, or the connection.
    pub(crate) fn close(&mut self) {
        match &mut self.said {
            Said::Pipe(pipe) => drop(pipe.take()),
            Said::Socket(socket) => socket.send(None).unwrap(),
        }
    }

    /// The next message that it receives; `None`: the end of its input.
    pub(crate) fn next(&self) -> Option<Vec<u8>> {
        self.received.recv_timeout(PATIENCE).expect("it gets something")
    }

    /// The next message, which must be a call of `method`.
    pub(crate) fn call(&self, method: &str) -> Value {
        let message = self.next().unwrap_or_else(|| panic!("the end instead of {method}"));
        let message: Value = serde_json::from_slice(&message).unwrap();
        assert_eq!(message["method"], method, "{message}");
        message
    }

    /// Answers the next message, which must be `method` about `thread`, with `rest`: a result or an error.
    pub(crate) fn answer_with(&mut self, method: &str, thread: &str, rest: &Value) {
        let call = self.call(method);
        assert_eq!(call["params"]["threadId"], thread, "{call}");
        let mut answer = json!({"id": call["id"]});
        answer.as_object_mut().unwrap().extend(rest.as_object().unwrap().clone());
        self.say(&answer);
    }

    pub(crate) fn increment(&mut self, thread: &str) {
        self.answer_with("thread/increment_elicitation", thread, &json!({"result": {"count": 1, "paused": true}}));
    }

    pub(crate) fn decrement(&mut self, thread: &str) {
        self.answer_with("thread/decrement_elicitation", thread, &json!({"result": {"count": 0, "paused": false}}));
    }

    /// Announces that it has loaded a thread.
    pub(crate) fn start_thread(&mut self, thread: &str) {
        self.say(&json!({"method": "thread/started", "params": {"thread": {"id": thread}}}));
    }

    /// Answers the messages that every connection to a socket begins with.
    pub(crate) fn accept(&mut self, version: &str, loaded: &[&str]) {
        let initialize = self.call("initialize");
        assert_eq!(initialize["params"]["capabilities"]["experimentalApi"], true, "{initialize}");
        self.say(&json!({"id": initialize["id"], "result": {"userAgent": format!("fake/{version} (test)")}}));
        self.call("initialized");
        let list = self.call("thread/loaded/list");
        self.say(&json!({"id": list["id"], "result": {"data": loaded, "nextCursor": null}}));
    }
}
