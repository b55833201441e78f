//! The config file: it yields settings, or an error that names the file and does not contain the token.
use pausewatch::client::Settings;
use std::cell::RefCell;
use std::path::Path;

pub(super) fn check(input: &[u8]) {
    thread_local! {
        static DIRECTORY: RefCell<tempfile::TempDir> = RefCell::new(tempfile::tempdir().expect("a directory"));
    }
    DIRECTORY.with_borrow(|directory| {
        let path = directory.path().join("config.toml");
        std::fs::write(&path, input).expect("it can be written");
        check_file(&path, input);
    });
}

/// The input as plain TOML.
fn table(input: &[u8]) -> Option<toml::Table> {
    toml::from_str(std::str::from_utf8(input).ok()?).ok()
}

fn check_file(path: &Path, input: &[u8]) {
    let table = table(input);
    let text_of = |key: &str| table.as_ref().and_then(|table| table.get(key)).and_then(|value| value.as_str());
    match Settings::from_env_and(Some(path)) {
        Ok(settings) => {
            let table = table.as_ref().expect("only TOML is accepted");
            // Clients ignore the server's table.
            for key in table.keys().filter(|key| *key != "serve") {
                let known = ["address", "thread_id", "token", "tls_ca", "tls_cert", "tls_key"];
                assert!(known.contains(&key.as_str()), "{key:?} was ignored");
                assert!(text_of(key).is_some(), "{key:?} is not a string, and was accepted");
            }
            assert_eq!(settings.thread_id.as_deref(), text_of("thread_id"));
            assert_eq!(settings.address, text_of("address").and_then(|address| address.parse().ok()));
            assert_eq!(settings.token.is_some(), text_of("token").is_some());
            assert_eq!(settings.tls_ca.as_deref(), text_of("tls_ca").map(Path::new));
            assert_eq!(settings.tls_cert.as_deref(), text_of("tls_cert").map(Path::new));
            assert_eq!(settings.tls_key.as_deref(), text_of("tls_key").map(Path::new));
        }
        Err(error) => {
            let text = error.to_string();
            assert!(text.starts_with(&format!("config file {}: ", path.display())), "{text}");
            // A shorter token could occur in the message by chance.
            let token = text_of("token").filter(|token| token.len() >= 12);
            let elsewhere = |token: &str| {
                let text = String::from_utf8_lossy(input);
                text.matches(token).count() > 1 || path.to_string_lossy().contains(token)
            };
            let is_leaked = token.is_some_and(|token| text.contains(token) && !elsewhere(token));
            assert!(!is_leaked, "the token is in the message: {text}");
        }
    }
}

pub(super) fn seeds() -> Vec<Vec<u8>> {
    super::texts(&[
        "",
        "# nothing yet\n",
        "address = \"https://h:1\"\nthread_id = \"t\"\ntoken = \"0123456789abcdef\"\ntls_ca = \"/ca\"\ntls_cert = \"/cert\"\ntls_key = \"/key\"\n",
        "token = \"two words of a secret\"\n",
        "address = \"host\"\ntoken = \"0123456789abcdef\"\n",
        "thread_id = 7\n",
        "thread_id = 't'\n[serve]\nlisten = 7\n",
        "[server]\nadress = 'h:1'\n",
        "thread_id = \"\"\"\nt\\u0000\"\"\"\n",
        "address = \"unix:/run/p.sock\"\nthread_id = \"\u{e4}\"\n",
    ])
}
