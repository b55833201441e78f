//! The server for Connect's conformance suite (github.com/connectrpc/conformance): the suite's own service behind the
//! same layers as the service of pausewatch. `tests/connect/conformance` starts the suite, which starts this program.
//!
//! The suite writes its requirements for the server to standard input, and reads the server's address from standard
//! output. The service uses the descriptors of the suite's protos, whose directory is the first argument.
mod messages;
mod service;

use messages::{field, pool};
use pausewatch::test_support::server::serve_service;
use prost::Message;
use prost_reflect::{DynamicMessage, Value};
use service::Conformance;
use std::error::Error;
use std::io::{self, Read, Write};
use tokio::net::TcpListener;

/// The maximum if the suite sets no limit.
const MAX_REQUEST: usize = 16 << 20;

fn main() -> Result<(), Box<dyn Error>> {
    // `cargo test` runs this without arguments.
    let Some(protos) = std::env::args_os().nth(1).filter(|argument| !argument.to_string_lossy().starts_with('-'))
    else {
        println!("this is the server for the conformance suite of Connect: run tests/connect/conformance");
        return Ok(());
    };
    let files = ["service", "server_compat"].map(|name| format!("connectrpc/conformance/v1/{name}.proto"));
    let descriptors = protox::compile(files, [protos])?.encode_to_vec();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(serve(descriptors))
}

async fn serve(descriptors: Vec<u8>) -> Result<(), Box<dyn Error>> {
    let pool = pool(&descriptors);
    let message =
        |name: &str| pool.get_message_by_name(&format!("connectrpc.conformance.v1.{name}")).expect("its protos");
    let wanted = DynamicMessage::decode(message("ServerCompatRequest"), &read()?[..])?;
    let limit = field(&wanted, "message_receive_limit").as_u32().unwrap_or_default() as usize;
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    let mut there = DynamicMessage::new(message("ServerCompatResponse"));
    there.set_field_by_name("host", Value::String(address.ip().to_string()));
    there.set_field_by_name("port", Value::U32(address.port().into()));
    write(&there.encode_to_vec())?;
    let max_request = if limit == 0 { MAX_REQUEST } else { limit };
    Ok(serve_service(listener, Conformance::new(pool), descriptors, max_request).await?)
}

/// Reads a message with its length prefix.
fn read() -> io::Result<Vec<u8>> {
    let mut length = [0; 4];
    io::stdin().read_exact(&mut length)?;
    let mut message = vec![0; u32::from_be_bytes(length) as usize];
    io::stdin().read_exact(&mut message)?;
    Ok(message)
}

fn write(message: &[u8]) -> io::Result<()> {
    let length = u32::try_from(message.len()).expect("it is short");
    let mut out = io::stdout();
    out.write_all(&length.to_be_bytes())?;
    out.write_all(message)?;
    out.flush()
}
