//! Standard output: text for people, or the response in the JSON mapping of the proto.
//!
//! 1. A reader that has gone away is no error: the command ends quietly.
//! 2. Text output does not load the descriptors, which only JSON needs.
use super::failure::{Failure, exit_code};
use crate::client::Address;
use crate::escape::escaped_json;
use crate::exec::supervise::was_closed;
use crate::proto;
use prost::Message;
use prost_reflect::{DescriptorPool, DynamicMessage, MessageDescriptor};
use serde::Serialize;
use std::io::{self, ErrorKind, Write};
use std::os::fd::{AsFd, AsRawFd};
use std::process::ExitCode;
use tokio::io::{AsyncWriteExt, Interest};
use tokio::net::unix::pipe;

#[derive(Clone, Copy, Debug, clap::Args)]
pub(crate) struct Output {
    /// Text for people, or the response message as JSON, in the form that grpcurl prints.
    #[arg(long, value_name = "FORM", default_value = "text")]
    output: Form,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Form {
    Text,
    Json,
}

impl Output {
    /// Whether text for people is selected.
    pub(crate) fn is_text(self) -> bool {
        self.output == Form::Text
    }

    /// Prints the response, a `message_name` of our package, as JSON or as the result of `text`.
    pub(crate) fn show<M: Message>(
        self,
        message_name: &str,
        response: &M,
        text: impl FnOnce(&M) -> String,
    ) -> Result<(), Failure> {
        print(self.text_of(message_name, response, text)?.as_bytes())
    }

    /// What [`Output::show`] prints.
    pub(crate) fn text_of<M: Message>(
        self,
        message_name: &str,
        response: &M,
        text: impl FnOnce(&M) -> String,
    ) -> Result<String, Failure> {
        match self.json(message_name) {
            Some(json) => json.format(response, serde_json::to_string_pretty),
            None => Ok(text(response)),
        }
    }

    /// Prints a value that is no message of the proto, as JSON or as the result of `text`.
    pub(crate) fn show_value<V: Serialize>(self, value: &V, text: impl FnOnce(&V) -> String) -> Result<(), Failure> {
        let text = match self.output {
            Form::Json => escaped_json(&serde_json::to_string_pretty(value).map_err(not_json)?).into_owned() + "\n",
            Form::Text => text(value),
        };
        print(text.as_bytes())
    }

    /// A formatter for messages of one type, if JSON is selected.
    pub(crate) fn json(self, message_name: &str) -> Option<Json> {
        if self.output != Form::Json {
            return None;
        }
        Some(Json::of(message_name))
    }
}

/// Formats messages of one type in the canonical JSON mapping.
pub(crate) struct Json(MessageDescriptor);

impl Json {
    /// A formatter for `message_name` of our package.
    pub(crate) fn of(message_name: &str) -> Self {
        let pool = DescriptorPool::decode(proto::DESCRIPTORS).expect("they are generated");
        let descriptor = pool.get_message_by_name(&format!("pausewatch.v1.{message_name}"));
        Self(descriptor.expect("the name is one of the proto's"))
    }

    /// Fails if the coordinator sent a value that the mapping does not allow, such as a time after the year 9999.
    pub(crate) fn format(
        &self,
        message: &impl Message,
        to_json: impl FnOnce(&DynamicMessage) -> serde_json::Result<String>,
    ) -> Result<String, Failure> {
        let message = DynamicMessage::decode(self.0.clone(), message.encode_to_vec().as_slice());
        let message = message.expect("the name is that of the message's own type");
        match to_json(&message) {
            Ok(json) => Ok(escaped_json(&json).into_owned() + "\n"),
            Err(error) => Err(not_json(error)),
        }
    }
}

fn not_json(error: serde_json::Error) -> Failure {
    Failure::System("format the response as JSON".into(), error.into())
}

/// Writes the result of a command to standard output, and returns the exit code.
pub(crate) fn finish(command: &str, text: &str) -> ExitCode {
    exit_code(command, &Address::default(), print(text.as_bytes()))
}

/// Writes the messages of a starting server to standard output on a separate thread, because its parent may not read
/// them.
pub(crate) fn print_in_background(text: String) {
    // If the system cannot start a thread, the server still serves.
    let _ = std::thread::Builder::new().spawn(move || print(text.as_bytes()));
}

/// Fails if this process was started without standard output (`>&-`).
pub(crate) fn check_open() -> Result<(), Failure> {
    match was_closed(io::stdout().as_raw_fd()) {
        true => Err(Failure::System("write to standard output".into(), rustix::io::Errno::BADF.into())),
        false => Ok(()),
    }
}

/// Writes all bytes to standard output, and flushes them.
pub(crate) fn print(bytes: &[u8]) -> Result<(), Failure> {
    check_open()?;
    let mut out = io::stdout().lock();
    match out.write_all(bytes).and_then(|()| out.flush()) {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        result => result.map_err(|error| Failure::System("write to standard output".into(), error)),
    }
}

/// Writes a part of a continuing output, without blocking the runtime. `false`: the reader has gone away.
pub(crate) async fn print_part(out: &mut tokio::io::Stdout, text: &str) -> Result<bool, Failure> {
    let written = async {
        out.write_all(text.as_bytes()).await?;
        out.flush().await
    };
    match written.await {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(false),
        Err(error) => Err(Failure::System("write to standard output".into(), error)),
    }
}

/// Waits until the other end of standard output is closed, where the system reports that: for a pipe, not for a file.
pub(crate) async fn closed() {
    // Unchecked, because the checked way sets the pipe, which others may share, to non-blocking.
    let out = io::stdout().as_fd().try_clone_to_owned().and_then(pipe::Sender::from_owned_fd_unchecked);
    if let Ok(out) = out {
        let _ = out.ready(Interest::ERROR).await;
        return;
    }
    std::future::pending().await
}
