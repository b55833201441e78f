//! Lines that pass through `bridge codex`, from the client and from the app-server.
use pausewatch::test_support::cli::{ClientLine, complete_initialize, is_for_client};
use serde_json::Value;

pub(super) fn check(input: &[u8]) {
    assert!(is_for_client(input), "only an answer to the bridge is withheld from the client");
    let ClientLine::Completed(completed) = complete_initialize(input) else { return };
    // A valid line may be nested deeper, or have larger numbers, than this library can represent.
    let Ok(mut before) = serde_json::from_slice::<Value>(input) else { return };
    let after: Value = serde_json::from_slice(&completed).expect("it stays JSON");
    let capabilities = &mut before["params"]["capabilities"];
    if capabilities.is_null() {
        *capabilities = serde_json::json!({});
    }
    capabilities["experimentalApi"] = true.into();
    assert_eq!(before, after, "only the capability was added");
    let common = input.iter().zip(&completed).take_while(|(one, other)| one == other).count();
    let rest = input[common..]
        .iter()
        .rev()
        .zip(completed[common..].iter().rev())
        .take_while(|(one, other)| one == other)
        .count();
    assert!(input.len() - common - rest <= "null".len(), "the other bytes are unchanged");
}

pub(super) fn seeds() -> Vec<Vec<u8>> {
    super::texts(&[
        "{\"id\":0,\"method\":\"initialize\",\"params\":{\"clientInfo\":{\"name\":\"a\"},\"capabilities\":{\"x\":[1.5]}}}\n",
        "{ \"method\" : \"initialize\", \"id\" : \"a\", \"params\" : { \"capabilities\" : null , \"a\": {} } }\r\n",
        "{\"id\":1,\"method\":\"initialize\",\"params\":{}}\n",
        "{\"id\":1,\"method\":\"initialize\",\"params\":{\"capabilities\":{\"experimentalApi\":false}}}\n",
        "{\"id\":2,\"result\":{\"userAgent\":\"a/0.169.0 (b)\",\"thread\":{\"id\":\"a\",\"status\":{\"type\":\"idle\"}}}}\n",
        "{\"method\":\"thread/status/changed\",\"params\":{\"threadId\":\"a\",\"status\":{\"type\":\"active\",\"activeFlags\":[\"waitingOnApproval\"]}}}\n",
        "{\"id\":\"pausewatch-0-1\",\"error\":{\"code\":-32600,\"message\":\"thread not found\"}}\n",
    ])
}
