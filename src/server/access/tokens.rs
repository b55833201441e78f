//! The file of static tokens: TOML, a table `[[token]]` for each.
//!
//! ```toml
//! [[token]]
//! subject = "build"                           # who it is, for logs
//! role = "holder"                             # watcher, holder or admin
//! threads = ["build-17"]                      # the threads that it opens,
//! prefixes = ["ci/"]                          # and what others begin with
//! secret_sha256 = "2bb80d53...c0e4"           # of the token, in hexadecimal digits; or `secret`, the token itself
//! expires = 2027-01-01T00:00:00Z              # if it ends by itself
//! ```
use super::grant::{Grant, Rights, Role};
use serde::Deserialize;
use std::collections::HashMap;
use std::hash::{Hash, Hasher};
use subtle::ConstantTimeEq;

/// Tokens can be guessed over the network and, from a digest, offline: 16 random letters withstand both.
const SHORTEST: usize = 16;

/// The digest of a token. It is compared in constant time, and hashed with a random key.
#[derive(Clone, Copy)]
pub(super) struct Digest([u8; 32]);

/// Static tokens and what they grant.
pub(super) type Tokens = HashMap<Digest, Grant>;

impl Digest {
    pub(super) fn of(token: &[u8]) -> Self {
        let digest = ring::digest::digest(&ring::digest::SHA256, token);
        Digest(digest.as_ref().try_into().expect("SHA-256 has 32 bytes"))
    }

    fn parse(digits: &str) -> Option<Self> {
        let digits: &[u8; 64] = digits.as_bytes().try_into().ok()?;
        let mut bytes = [0; 32];
        for (byte, digits) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
            let digit = |digit: u8| (digit as char).to_digit(16);
            *byte = u8::try_from(digit(digits[0])? << 4 | digit(digits[1])?).expect("two digits");
        }
        Some(Digest(bytes))
    }

    pub(super) fn to_hex(self) -> String {
        self.0.iter().map(|byte| format!("{byte:02x}")).collect()
    }
}

impl PartialEq for Digest {
    fn eq(&self, other: &Self) -> bool {
        self.0.ct_eq(&other.0).into()
    }
}

impl Eq for Digest {}

impl Hash for Digest {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write(&self.0);
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    token: Option<Vec<toml::Spanned<Entry>>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    subject: String,
    role: Role,
    threads: Option<Vec<String>>,
    prefixes: Option<Vec<String>>,
    // Any type: the parser's error for a value that is not a string would contain the secret.
    secret: Option<toml::Value>,
    secret_sha256: Option<toml::Value>,
    expires: Option<toml::value::Datetime>,
}

/// The tokens of a file. `None`: the file has no entry `token`, not even an empty one.
///
/// # Errors
/// The line, and what is wrong there.
pub(super) fn parse(text: &str) -> Result<Option<Tokens>, String> {
    let line = |at: usize| text.get(..at).unwrap_or_default().matches('\n').count() + 1;
    let file: File = toml::from_str(text).map_err(|error| {
        let why = error.message().trim().replace('\n', ", ");
        format!("line {}: {why}", line(error.span().map_or(0, |span| span.start)))
    })?;
    let Some(entries) = file.token else { return Ok(None) };
    let mut tokens = Tokens::new();
    for entry in entries {
        let wrong = |why: String| format!("line {}: {why}", line(entry.span().start));
        let (digest, grant) = entry.get_ref().parse().map_err(wrong)?;
        if tokens.insert(digest, grant).is_some() {
            return Err(wrong("a token before has the same secret".into()));
        }
    }
    Ok(Some(tokens))
}

impl Entry {
    fn parse(&self) -> Result<(Digest, Grant), String> {
        let (secret, digest) = (self.secret.as_ref(), self.secret_sha256.as_ref());
        let digest = match (secret.map(toml::Value::as_str), digest.map(toml::Value::as_str)) {
            (Some(Some(secret)), None) if secret.len() < SHORTEST || !secret.bytes().all(|b| b.is_ascii_graphic()) => {
                return Err(format!(
                    "secret must have at least {SHORTEST} visible ASCII characters, preferably random"
                ));
            }
            (Some(Some(secret)), None) => Digest::of(secret.as_bytes()),
            (None, Some(digits)) => {
                let digest = digits.and_then(Digest::parse);
                digest.ok_or("secret_sha256 is to be a string of 64 hexadecimal digits")?
            }
            (Some(None), None) => return Err("secret must be a string".into()),
            _ => return Err("either secret or secret_sha256 is needed".into()),
        };
        let expires = self.expires.map(|expires| {
            let time: Result<jiff::Timestamp, _> = expires.to_string().parse();
            let time = time.map_err(|_| "expires is to be a time with its zone, such as 2027-01-01T00:00:00Z")?;
            Ok::<_, String>(i64::try_from(time.as_nanosecond()).unwrap_or(i64::MAX))
        });
        let rights = Rights { role: self.role, threads: self.threads.clone(), prefixes: self.prefixes.clone() };
        Ok((digest, Grant::parse(&self.subject, &rights, expires.transpose()?)?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::scope::Scope;
    use crate::core::types::ThreadId;

    #[test]
    fn a_token_is_known_by_itself_or_by_its_digest() {
        let digest = Digest::of(b"a token of the file").to_hex();
        let text = format!(
            "[[token]]\nsubject = \"one\"\nrole = \"holder\"\nthreads = [\"t\"]\nsecret = \"secret-of-the-file\"\n\
             [[token]]\nsubject = \"two\"\nrole = \"admin\"\nsecret_sha256 = \"{}\"\nexpires = 1970-01-01T01:00:01+01:00\n",
            digest.to_uppercase()
        );
        let tokens = parse(&text).unwrap().unwrap();
        let one = &tokens[&Digest::of(b"secret-of-the-file")];
        let t = ThreadId::parse("", "t").unwrap();
        assert_eq!((one.subject(), one.role(), one.scope()), ("one", Role::Holder, &Scope::one(&t)));
        assert_eq!(one.left(i64::MAX), std::time::Duration::MAX);
        let two = &tokens[&Digest::of(b"a token of the file")];
        assert_eq!((two.role(), two.scope()), (Role::Admin, &Scope::ALL));
        assert_eq!(two.left(0), std::time::Duration::from_secs(1));
        assert!(!tokens.contains_key(&Digest::of(b"secret-of-the-fil")));
        assert!(parse("# nobody yet\n").unwrap().is_none());
        assert!(parse("token = []").unwrap().unwrap().is_empty());
    }

    #[test]
    fn errors_name_the_line_and_not_the_secret() {
        let entry = |more: &str| format!("\n[[token]]\nsubject = \"s\"\nrole = \"holder\"\n{more}");
        let secret = "secret = \"0123456789abcdef\"\n";
        let cases = [
            (entry("threads = [\"t\"]\n"), "line 2: either secret or secret_sha256 is needed"),
            (entry(&format!("{secret}secret_sha256 = \"\"\nthreads = []\n")), "line 2: either secret or secret_sha256"),
            (entry("threads = [\"t\"]\nsecret = \"hunter2hunter2\"\n"), "line 2: secret must have at least 16 visible"),
            (entry("threads = [\"t\"]\nsecret = 72623859790382856\n"), "line 2: secret must be a string"),
            (entry("threads = [\"t\"]\nsecret_sha256 = \"72623859790382856\"\n"), "line 2: secret_sha256 is to be"),
            (entry(secret), "line 2: no threads"),
            (entry(&format!("{secret}threads = [\"\"]\n")), "line 2: threads[0] is empty"),
            (entry(&format!("{secret}thread = [\"t\"]\n")), "line 6: unknown field `thread`"),
            (entry(&format!("{secret}threads = [\"t\"]\nexpires = 2027-01-01\n")), "line 2: expires is to be a time"),
            (entry(secret).replace("holder", "owner"), "line 4: unknown variant `owner`, expected one of `watcher`"),
            (
                entry(&format!("{secret}threads = [\"t\"]\n")).replace("holder", "admin"),
                "line 2: an admin covers every",
            ),
            (entry(&format!("{secret}threads = [\"t\"]\n")).replace("\"s\"", "\"\""), "line 2: the subject must"),
            (entry(&format!("{secret}threads = [\"t\"]\n")).repeat(2), "line 8: a token before has the same secret"),
        ];
        for (text, why) in cases {
            let error = parse(&text).map(|_| ()).unwrap_err();
            assert!(error.starts_with(why), "{error}\n{text}");
            for secret in ["0123456789abcdef", "hunter2", "7262385"] {
                assert!(!error.contains(secret), "{error}");
            }
        }
    }
}
