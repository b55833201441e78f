//! The settings in `PINENTRY_USER_DATA`. gpg-agent is a daemon; this is the variable that it passes on from the program
//! that needs a key.
use crate::client::{Address, Settings, Token};

/// Reads `PAUSEWATCH_ADDRESS=...,PAUSEWATCH_THREAD_ID=...,PAUSEWATCH_TOKEN=...`, in any order. Everything else in the text
/// belongs to other programs. The address of several replicas has commas of its own.
///
/// # Errors
/// A value is invalid. The text does not have it: it may be a token.
pub(super) fn settings(text: &str) -> Result<Settings, String> {
    let mut settings = Settings::default();
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
    for (name, value) in &entries {
        if value.is_empty() {
            continue;
        }
        let invalid = |why: &dyn std::fmt::Display| format!("PINENTRY_USER_DATA: {name}: {why}");
        match *name {
            "PAUSEWATCH_ADDRESS" => settings.address = Some(value.parse::<Address>().map_err(|why| invalid(&why))?),
            "PAUSEWATCH_THREAD_ID" => settings.thread_id = Some(value.clone()),
            "PAUSEWATCH_TOKEN" => settings.token = Some(Token::new(value).map_err(|why| invalid(&why))?),
            "PAUSEWATCH_TOKEN_FILE" => settings.token_file = Some(value.into()),
            "PAUSEWATCH_TLS_CA" => settings.tls_ca = Some(value.into()),
            "PAUSEWATCH_TLS_CERT" => settings.tls_cert = Some(value.into()),
            "PAUSEWATCH_TLS_KEY" => settings.tls_key = Some(value.into()),
            _ => {}
        }
    }
    Ok(settings)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_found_beside_the_data_of_others() {
        let read =
            settings("USE_CURSES=1,PAUSEWATCH_ADDRESS=unix:/r/s,PAUSEWATCH_THREAD_ID=t,PAUSEWATCH_TOKEN=k3y").unwrap();
        let token = Token::new("k3y").ok();
        let address = "unix:/r/s".parse().ok();
        assert_eq!(read, Settings { address, thread_id: Some("t".into()), token, ..Settings::default() });
        let file = Settings { token_file: Some("/run/token".into()), ..Settings::default() };
        assert_eq!(settings("PAUSEWATCH_TOKEN_FILE=/run/token"), Ok(file));
        for nothing in ["", "USE_TTY=1", "x", "PAUSEWATCH_ADDRESS="] {
            assert_eq!(settings(nothing), Ok(Settings::default()));
        }
        let replicas = settings("PAUSEWATCH_ADDRESS=a:1,b:1,PAUSEWATCH_THREAD_ID=t,x").unwrap();
        assert_eq!((replicas.address, replicas.thread_id), ("a:1,b:1".parse().ok(), Some("t".into())));
        assert!(settings("PAUSEWATCH_ADDRESS=nowhere").is_err());
    }
}
