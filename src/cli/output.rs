//! What goes to standard output: text for people, or the response in the proto's JSON mapping.
//!
//! 1. A reader that went away is no error: the command ends quietly.
//! 2. Text output does not pay for the descriptors that JSON needs.
use super::{escape::escaped_json, failure::Failure};
use crate::proto;
use prost::Message;
use prost_reflect::{DescriptorPool, DynamicMessage, MessageDescriptor};
use std::io::{self, ErrorKind, Write};

/// The option that chooses the form of the output.
#[derive(Clone, Copy, Debug, clap::Args)]
pub(crate) struct Output {
    /// Text for people, or the response message in the JSON mapping of its proto, as grpcurl prints it.
    #[arg(long, value_name = "FORM", default_value = "text")]
    output: Form,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Form {
    Text,
    Json,
}

impl Output {
    /// Prints the response, in text as `text` has it.
    pub(crate) fn show<M: Message>(
        self,
        message_name: &str,
        response: &M,
        text: impl FnOnce(&M) -> String,
    ) -> Result<(), Failure> {
        print(&match self.json(message_name) {
            Some(json) => json.pretty(response)?,
            None => text(response),
        })
    }

    /// The writer of JSON for one type of message of our package, if JSON is asked for.
    pub(crate) fn json(self, message_name: &str) -> Option<Json> {
        (self.output == Form::Json).then(|| Json::new(message_name))
    }
}

/// Writes messages of one type in the canonical JSON mapping.
pub(crate) struct Json(MessageDescriptor);

impl Json {
    fn new(message_name: &str) -> Self {
        let pool = DescriptorPool::decode(proto::DESCRIPTORS).expect("build.rs wrote them");
        let descriptor = pool.get_message_by_name(&format!("pausewatch.v1.{message_name}"));
        Self(descriptor.expect("the name is one of the proto's"))
    }

    /// Over several lines, indented by two spaces.
    fn pretty(&self, message: &impl Message) -> Result<String, Failure> {
        self.write(message, serde_json::to_string_pretty)
    }

    /// On one line.
    pub(crate) fn line(&self, message: &impl Message) -> Result<String, Failure> {
        self.write(message, serde_json::to_string)
    }

    /// Fails if the coordinator sent what the mapping does not allow: a time after the year 9999, say.
    fn write(
        &self,
        message: &impl Message,
        to_json: impl FnOnce(&DynamicMessage) -> serde_json::Result<String>,
    ) -> Result<String, Failure> {
        let bytes = message.encode_to_vec();
        let message = DynamicMessage::decode(self.0.clone(), bytes.as_slice());
        let message = message.expect("the name is that of the message's own type");
        let json = to_json(&message).map_err(|error| Failure::System("write the answer as JSON", error.into()))?;
        Ok(escaped_json(&json) + "\n")
    }
}

/// Writes to standard output, all of it, now.
pub(crate) fn print(text: &str) -> Result<(), Failure> {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        result => result.map_err(|error| Failure::System("write to standard output", error)),
    }
}
