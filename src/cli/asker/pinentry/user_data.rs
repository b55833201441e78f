//! The settings in `PINENTRY_USER_DATA`. gpg-agent is a daemon; this is the variable that it passes on from the program
//! that needs a key, which may be any program that can connect to gpg-agent.
use crate::cli::failure::say;
use crate::client::Settings;
use std::{collections::HashMap, ffi::OsString};

/// The settings of which the value is a file.
const FILES: [&str; 4] = ["PAUSEWATCH_TOKEN_FILE", "PAUSEWATCH_TLS_CA", "PAUSEWATCH_TLS_CERT", "PAUSEWATCH_TLS_KEY"];

/// Reads `PAUSEWATCH_ADDRESS=...,PAUSEWATCH_THREAD_ID=...,PAUSEWATCH_TOKEN=...`, in any order. Everything else in the text
/// belongs to other programs. The address of several replicas has commas of its own. Files are ignored, with a warning.
///
/// # Errors
/// A value is invalid. The text does not have it: it may be a token.
pub(super) fn settings(text: &str) -> Result<Settings, String> {
    let mut entries: Vec<(&str, String)> = Vec::new();
    for entry in text.split([',', ' ', ';']) {
        match (entry.split_once('='), entries.last_mut()) {
            (Some((name, value)), _) => entries.push((name, value.to_owned())),
            (None, Some(("PAUSEWATCH_ADDRESS", address))) if entry.contains(':') => {
                address.push(',');
                address.push_str(entry);
            }
            (None, _) => {}
        }
    }
    let entries: HashMap<_, _> = entries.into_iter().filter(|(_, value)| !value.is_empty()).collect();
    for name in FILES.iter().filter(|name| entries.contains_key(**name)) {
        say("pinentry", &format!("PINENTRY_USER_DATA: {name} is ignored: set it for gpg-agent, or in the config file"));
    }
    let value = |name: &str| entries.get(name).filter(|_| name.starts_with("PAUSEWATCH_")).map(OsString::from);
    Settings::of_other_process(&value).map_err(|why| format!("PINENTRY_USER_DATA: {why}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::Token;

    #[test]
    fn settings_are_found_beside_the_data_of_others() {
        let read =
            settings("USE_CURSES=1,PAUSEWATCH_ADDRESS=unix:/r/s,PAUSEWATCH_THREAD_ID=t,PAUSEWATCH_TOKEN=k3y").unwrap();
        let token = Token::new("k3y").ok();
        let address = "unix:/r/s".parse().ok();
        assert_eq!((read.address, read.thread_id.as_deref(), read.token), (address, Some("t"), token));
        let file = "PAUSEWATCH_TOKEN_FILE=/run/token";
        for nothing in ["", "USE_TTY=1", "x", "PAUSEWATCH_ADDRESS=", "CODEX_THREAD_ID=t", file] {
            assert_eq!(settings(nothing), Ok(Settings::default()));
        }
        let replicas = settings("PAUSEWATCH_ADDRESS=a:1,b:1,PAUSEWATCH_THREAD_ID=t,x").unwrap();
        assert_eq!((replicas.address, replicas.thread_id), ("a:1,b:1".parse().ok(), Some("t".into())));
        assert!(settings("PAUSEWATCH_ADDRESS=nowhere").is_err());
    }
}
