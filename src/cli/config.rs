//! The config file: what stays the same from call to call.
//!
//! 1. A file that was named must be there; the one in its usual place may be missing.
//! 2. A key that is unknown is refused, with its name and line: a typing error must not quietly mean the default.
use crate::client::Address;
use serde::{Deserialize, Deserializer, de::Error as _};
use std::{fs, io::ErrorKind, path::Path, path::PathBuf};

/// Names the config file, unless `--config` does.
const VARIABLE: &str = "PAUSEWATCH_CONFIG";

/// What a config file may say.
#[derive(Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(deny_unknown_fields)]
pub(crate) struct ConfigFile {
    /// Where the coordinator listens.
    #[serde(default, deserialize_with = "address")]
    pub(crate) address: Option<Address>,
    /// The thread to work on.
    pub(crate) thread_id: Option<String>,
}

impl ConfigFile {
    /// Reads the file that `--config` names, else that of `PAUSEWATCH_CONFIG`, else the one in its usual place.
    ///
    /// # Errors
    /// It was named and cannot be read, or it is there and wrong: the text says which file and where in it.
    pub(crate) fn load(named: Option<&Path>) -> Result<Self, String> {
        let named = named.map(Path::to_owned).or_else(|| set(VARIABLE));
        let must_exist = named.is_some();
        let Some(path) = named.or_else(usual_place) else { return Ok(Self::default()) };
        match fs::read_to_string(&path) {
            Ok(text) => Self::parse(&text).map_err(|why| format!("config file {}: {why}", path.display())),
            Err(error) if error.kind() == ErrorKind::NotFound && !must_exist => Ok(Self::default()),
            Err(error) => Err(format!("config file {}: {error}", path.display())),
        }
    }

    fn parse(text: &str) -> Result<Self, String> {
        toml::from_str(text).map_err(|error| {
            let before = error.span().and_then(|span| text.get(..span.start)).unwrap_or_default();
            let why = error.message().trim().replace('\n', ", ");
            format!("line {}: {why}", before.matches('\n').count() + 1)
        })
    }
}

fn address<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Address>, D::Error> {
    String::deserialize(from)?.parse().map(Some).map_err(D::Error::custom)
}

fn usual_place() -> Option<PathBuf> {
    // The XDG base directory specification: a relative path is to be ignored.
    let config = set("XDG_CONFIG_HOME").filter(|path| path.is_absolute());
    Some(config.or_else(|| Some(set("HOME")?.join(".config")))?.join("pausewatch/config.toml"))
}

fn set(variable: &str) -> Option<PathBuf> {
    std::env::var_os(variable).filter(|value| !value.is_empty()).map(PathBuf::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_config_file_says_address_and_thread() {
        let file = ConfigFile::parse("address = \"unix:/run/p.sock\"\nthread_id = \"t\"\n").unwrap();
        assert_eq!(file, ConfigFile { address: "unix:/run/p.sock".parse().ok(), thread_id: Some("t".into()) });
        assert_eq!(ConfigFile::parse("# nothing yet\n"), Ok(ConfigFile::default()));
    }

    #[test]
    fn what_is_wrong_in_a_config_file_is_named_with_its_line() {
        for (text, why) in [
            (
                "thread_id = \"t\"\nadress = \"h:1\"\n",
                "line 2: unknown field `adress`, expected `address` or `thread_id`",
            ),
            ("\n\naddress = \"host\"\n", "line 3: address \"host\": the port is missing"),
            ("thread_id = 7\n", "line 1: invalid type: integer `7`, expected a string"),
            ("thread_id = \"t\"\n= 7\n", "line 2: "),
        ] {
            let error = ConfigFile::parse(text).unwrap_err();
            assert!(error.starts_with(why), "{error}");
        }
    }
}
