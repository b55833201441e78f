//! The messages of the suite, by their descriptors.
use prost::Message;
use prost_reflect::{DescriptorPool, DynamicMessage, ReflectMessage, Value};
use std::time::Duration;
use tonic::codegen::http::{HeaderMap, HeaderName, HeaderValue};
use tonic::{Code, Status};

pub(crate) fn pool(descriptors: &[u8]) -> DescriptorPool {
    DescriptorPool::decode(descriptors).expect("protox makes valid descriptors")
}

/// The value of a field, or its default.
pub(crate) fn field(message: &DynamicMessage, name: &str) -> Value {
    message.get_field_by_name(name).unwrap_or_else(|| panic!("{name} in {}", message.descriptor().name())).into_owned()
}

/// A message in a field, if it is set.
pub(crate) fn inner(message: &DynamicMessage, name: &str) -> Option<DynamicMessage> {
    message.has_field_by_name(name).then(|| field(message, name).as_message().expect("a message").clone())
}

/// All messages in a field.
pub(crate) fn all(message: &DynamicMessage, name: &str) -> Vec<DynamicMessage> {
    let values = field(message, name);
    values.as_list().expect("a list").iter().map(|value| value.as_message().expect("a message").clone()).collect()
}

pub(crate) fn new(pool: &DescriptorPool, name: &str) -> DynamicMessage {
    let name = format!("connectrpc.conformance.v1.{name}");
    DynamicMessage::new(pool.get_message_by_name(&name).unwrap_or_else(|| panic!("{name}")))
}

pub(crate) fn delay(definition: &DynamicMessage) -> Duration {
    Duration::from_millis(field(definition, "response_delay_ms").as_u32().expect("a number").into())
}

/// Adds the headers from a field.
pub(crate) fn append_headers(headers: &mut HeaderMap, message: &DynamicMessage, name: &str) {
    for header in all(message, name) {
        let values = field(&header, "value");
        let name = field(&header, "name");
        let name: HeaderName = name.as_str().expect("text").parse().expect("the suite has valid names");
        for value in values.as_list().expect("a list") {
            let value = HeaderValue::from_str(value.as_str().expect("text")).expect("the suite has valid values");
            headers.append(&name, value);
        }
    }
}

/// A `Header` of the suite.
pub(crate) fn header<'a>(pool: &DescriptorPool, name: &str, values: impl Iterator<Item = &'a str>) -> Value {
    let mut header = new(pool, "Header");
    header.set_field_by_name("name", Value::String(name.to_owned()));
    header.set_field_by_name("value", Value::List(values.map(|value| Value::String(value.to_owned())).collect()));
    Value::Message(header)
}

/// The form of a message in error details.
pub(crate) fn any(message: &DynamicMessage) -> prost_types::Any {
    let type_url = format!("type.googleapis.com/{}", message.descriptor().full_name());
    prost_types::Any { type_url, value: message.encode_to_vec() }
}

/// An `Error` of the suite, with `more` in its details.
pub(crate) fn status(error: &DynamicMessage, more: Option<prost_types::Any>) -> Status {
    let code = Code::from_i32(field(error, "code").as_enum_number().expect("an enum"));
    let message = field(error, "message").as_str().expect("text").to_owned();
    let details = all(error, "details").iter().map(|any| any.transcode_to().expect("an Any")).collect::<Vec<_>>();
    let details = details.into_iter().chain(more).collect();
    let all = tonic_types::pb::Status { code: code as i32, message: message.clone(), details };
    Status::with_details(code, message, all.encode_to_vec().into())
}
