//! Compares `docs/api.md` with the comments of the proto; `docs/generate` writes the page.
//!
//! The descriptors are those that the server returns by reflection, so the page has what a client can query from the
//! server itself. Each RPC is followed by its request and its response; shared messages come at the end.
use prost::Message;
use prost_types::field_descriptor_proto::{Label, Type};
use prost_types::{DescriptorProto, FieldDescriptorProto, FileDescriptorProto, FileDescriptorSet};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

const PROTO: &str = "pausewatch/v1/elicitation_service.proto";
const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/api.md");

// Field numbers of descriptor.proto: a comment is found by a path of these numbers.
const OF_FILE_MESSAGE: i32 = 4;
const OF_FILE_ENUM: i32 = 5;
const OF_FILE_SERVICE: i32 = 6;
const OF_FILE_SYNTAX: i32 = 12;
const OF_MESSAGE_FIELD: i32 = 2;
const OF_ENUM_VALUE: i32 = 2;
const OF_SERVICE_METHOD: i32 = 2;

#[test]
fn the_api_reference_says_what_the_proto_says() {
    let page = Reference::of(&file()).page();
    if std::env::var_os("PAUSEWATCH_UPDATE_SNAPSHOTS").is_some() {
        std::fs::write(PAGE, &page).unwrap();
    }
    let written = std::fs::read_to_string(PAGE).unwrap_or_default();
    assert!(page == written, "docs/api.md differs from the proto: run docs/generate");
}

/// src/proto, which a build uses, equals the proto.
#[test]
fn the_generated_descriptors_are_those_of_the_proto() {
    let protos = concat!(env!("CARGO_MANIFEST_DIR"), "/proto");
    let compiled = protox::compile([PROTO], [protos]).unwrap().encode_to_vec();
    assert!(compiled == pausewatch::proto::DESCRIPTORS, "src/proto differs from the proto: run clients/rust/generate");
}

#[test]
fn every_rpc_message_field_and_reason_is_in_the_reference() {
    let file = file();
    let page = Reference::of(&file).page();
    for method in &file.service[0].method {
        assert!(page.contains(&format!("\n### {}\n", method.name())), "{}", method.name());
    }
    for message in &file.message_type {
        assert!(page.contains(message.name()), "{}", message.name());
        for field in &message.field {
            assert!(page.contains(&format!("\n| `{}` | {} |", field.name(), field.number())), "{}", field.name());
        }
    }
    for of in &file.enum_type {
        for value in &of.value {
            assert!(page.contains(&format!("\n| `{}` | {} |", value.name(), value.number())), "{}", value.name());
        }
    }
    assert!(
        page.contains("\n| `NO_OUTSTANDING_ELICITATION` | FAILED_PRECONDITION |"),
        "the table of reasons is missing"
    );
    assert!(page.contains("[`TOO_MANY_ELICITATIONS`](#errors)"), "the errors of an RPC must be links");
}

fn file() -> FileDescriptorProto {
    let set = FileDescriptorSet::decode(pausewatch::proto::DESCRIPTORS).unwrap();
    set.file.into_iter().find(|file| file.name() == PROTO).expect("the proto of the service is among the descriptors")
}

struct Reference<'a> {
    file: &'a FileDescriptorProto,
    /// The comment above each element, by its path.
    comments: BTreeMap<&'a [i32], String>,
    /// The rows of the table of errors: reason, code, meaning.
    errors: Vec<[String; 3]>,
    introduction: [String; 2],
}

impl<'a> Reference<'a> {
    fn of(file: &'a FileDescriptorProto) -> Self {
        assert!(file.extension.is_empty(), "this generator does not support extensions");
        assert_eq!(file.service.len(), 1, "this generator does not support several services");
        let locations = &file.source_code_info.as_ref().expect("the build keeps comments").location;
        let comments: BTreeMap<_, _> =
            locations.iter().map(|at| (at.path.as_slice(), plain(at.leading_comments()))).collect();
        let (before, errors, after) = around_the_table(&comments[[OF_FILE_SYNTAX].as_slice()]);
        Self { file, comments, errors, introduction: [before, after] }
    }

    fn comment(&self, path: &[i32]) -> &str {
        let comment = self.comments.get(path).map(String::as_str).unwrap_or_default();
        assert!(!comment.is_empty(), "the element at {path:?} of {PROTO} has no comment");
        comment
    }

    fn page(&self) -> String {
        let service = &self.file.service[0];
        let mut page = format!(
            "# API reference\n\n<!-- Made by docs/generate from proto/{PROTO}: change the comments there. -->\n\n\
             Package `{package}`. A client is generated from the [proto](../proto/{PROTO}) alone; the server also has it by \
             reflection.\n[semantics.md](semantics.md) has the rules that span several calls.\n\n\
             In JSON, names are lowerCamelCase, 64-bit numbers are strings, a Duration is `\"30s\"` and a Timestamp is RFC 3339.\n\
             grpcurl and `--output json` leave out what is 0, false or empty; [HTTP/JSON](http.md) does not.\n\n{before}\n\n",
            package = self.file.package(),
            before = self.introduction[0].rsplit_once("\n\n").map_or("", |(what, _)| what),
        );
        page += "| RPC | does |\n| --- | --- |\n";
        for (at, method) in service.method.iter().enumerate() {
            let comment = self.comment(&[OF_FILE_SERVICE, 0, OF_SERVICE_METHOD, at as i32]);
            let name = method.name();
            let anchor = name.to_lowercase();
            writeln!(page, "| [`{name}`](#{anchor}) | {} |", first_sentence(comment)).unwrap();
        }
        page += &self.error_chapter();
        write!(page, "\n## {}\n\n{}\n", service.name(), self.comment(&[OF_FILE_SERVICE, 0])).unwrap();
        for at in 0..service.method.len() {
            page += &self.method(at);
        }
        page += "\n## Messages that several share\n";
        let named: BTreeSet<_> = service
            .method
            .iter()
            .flat_map(|method| [short(method.input_type()), short(method.output_type())])
            .collect();
        for (at, message) in self.file.message_type.iter().enumerate() {
            if !named.contains(message.name()) {
                let name = message.name();
                write!(page, "\n### {name}\n\n{}", self.message(at, message)).unwrap();
            }
        }
        (0..self.file.enum_type.len()).for_each(|at| page += &self.enumeration(at));
        page
    }

    fn error_chapter(&self) -> String {
        let [before, after] = &self.introduction;
        let rule = before.rsplit_once("\n\n").map_or("", |(_, rule)| rule);
        let mut text = format!("\n## Errors\n\n{rule}\n\n| reason | code | meaning |\n| --- | --- | --- |\n");
        for [reason, code, meaning] in &self.errors {
            writeln!(text, "| `{reason}` | {code} | {} |", cell(meaning)).unwrap();
        }
        write!(text, "\n{after}\n").unwrap();
        text
    }

    fn method(&self, at: usize) -> String {
        let method = &self.file.service[0].method[at];
        let (input, output) = (short(method.input_type()), short(method.output_type()));
        let comment = self.comment(&[OF_FILE_SERVICE, 0, OF_SERVICE_METHOD, at as i32]);
        let mut text = format!("\n### {}\n\n{}\n\n", method.name(), self.with_links(comment));
        for (role, name, is_stream) in
            [("Request", input, method.client_streaming()), ("Response", output, method.server_streaming())]
        {
            let at = self.file.message_type.iter().position(|message| message.name() == name);
            let at = at.expect("requests and responses are of this package");
            let stream = if is_stream { "stream " } else { "" };
            let message = self.message(at, &self.file.message_type[at]);
            writeln!(text, "**{role}**: {stream}`{name}`. {message}").unwrap();
        }
        text.truncate(text.trim_end().len());
        text + "\n"
    }

    /// The comment of a message, and its fields as a table.
    fn message(&self, at: usize, message: &DescriptorProto) -> String {
        assert!(
            message.nested_type.is_empty() && message.enum_type.is_empty(),
            "this generator does not support nested types"
        );
        let mut text = format!("{}\n", self.comment(&[OF_FILE_MESSAGE, at as i32]));
        if message.field.is_empty() {
            return text;
        }
        text += "\n| field | no. | type | meaning |\n| --- | --- | --- | --- |\n";
        for (field_at, field) in message.field.iter().enumerate() {
            let meaning = cell(self.comment(&[OF_FILE_MESSAGE, at as i32, OF_MESSAGE_FIELD, field_at as i32]));
            let (name, number, kind) = (field.name(), field.number(), kind(message, field));
            writeln!(text, "| `{name}` | {number} | {kind} | {meaning} |").unwrap();
        }
        text
    }

    /// The comment of an enum, and its values as a table.
    fn enumeration(&self, at: usize) -> String {
        let (path, of) = ([OF_FILE_ENUM, at as i32], &self.file.enum_type[at]);
        let head = format!(
            "\n### {}\n\n{}\n\n| value | no. | meaning |\n| --- | --- | --- |\n",
            of.name(),
            self.comment(&path)
        );
        let values = of.value.iter().enumerate().map(|(value_at, value)| {
            let meaning = cell(self.comment(&[path[0], path[1], OF_ENUM_VALUE, value_at as i32]));
            format!("| `{}` | {} | {meaning} |\n", value.name(), value.number())
        });
        head + &values.collect::<String>()
    }

    /// Turns reasons of errors into links to their table.
    fn with_links(&self, text: &str) -> String {
        let Some((before, errors)) = text.split_once("Errors: ") else { return text.to_owned() };
        let mut errors = errors.to_owned();
        for [reason, ..] in &self.errors {
            errors = errors.replace(reason.as_str(), &format!("[`{reason}`](#errors)"));
        }
        format!("{before}Errors: {errors}")
    }
}

/// The name without its package.
fn short(name: &str) -> &str {
    name.rsplit('.').next().unwrap_or(name)
}

fn kind(message: &DescriptorProto, field: &FieldDescriptorProto) -> String {
    let name = match field.r#type() {
        Type::Message | Type::Enum => {
            let name = short(field.type_name());
            match field.type_name().strip_prefix(".google.protobuf.") {
                Some(_) => format!(
                    "[{name}](https://protobuf.dev/reference/protobuf/google.protobuf/#{})",
                    name.to_lowercase()
                ),
                None => format!("[{name}](#{})", name.to_lowercase()),
            }
        }
        Type::String => "string".to_owned(),
        Type::Bool => "bool".to_owned(),
        Type::Int32 => "int32".to_owned(),
        Type::Uint32 => "uint32".to_owned(),
        Type::Uint64 => "uint64".to_owned(),
        Type::Fixed64 => "fixed64".to_owned(),
        other => panic!("teach this generator {other:?}"),
    };
    let oneof = field.oneof_index.filter(|_| !field.proto3_optional());
    match (field.label() == Label::Repeated, field.proto3_optional(), oneof) {
        (true, ..) => format!("repeated {name}"),
        (_, true, _) => format!("optional {name}"),
        (.., Some(at)) => format!("one of `{}`: {name}", message.oneof_decl[at as usize].name()),
        _ => name,
    }
}

/// The comment without the space at the start of each line.
fn plain(comment: &str) -> String {
    let lines = comment.lines().map(|line| line.strip_prefix(' ').unwrap_or(line).trim_end());
    lines.collect::<Vec<_>>().join("\n").trim().to_owned()
}

/// One line, escaped for a table.
fn cell(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ").replace('|', "\\|")
}

fn first_sentence(text: &str) -> String {
    let line = cell(text);
    line.split_once(". ").map_or(line.clone(), |(sentence, _)| format!("{sentence}."))
}

/// The text before and after the indented table of reasons at the start of the proto, and the rows of the table.
fn around_the_table(head: &str) -> (String, Vec<[String; 3]>, String) {
    let is_row = |line: &&str| line.starts_with("  ");
    let rows = head.lines().filter(is_row).map(|line| {
        let mut columns = line.split("  ").map(str::trim).filter(|column| !column.is_empty());
        let row = [columns.next(), columns.next(), columns.next()].map(|column| column.unwrap_or_default().to_owned());
        assert!(
            !row[2].is_empty() && columns.next().is_none(),
            "not three columns with two spaces between them: {line:?}"
        );
        row
    });
    let before = head.lines().take_while(|line| !is_row(line)).collect::<Vec<_>>().join("\n");
    let after = head.lines().skip_while(|line| !is_row(line)).skip_while(is_row).collect::<Vec<_>>().join("\n");
    (before.trim().to_owned(), rows.collect(), after.trim().to_owned())
}
