//! Makes tokens, and the keys that sign them.
use super::grant::{Grant, Rights, Role};
use super::jwt::AUDIENCE;
use super::tokens::Digest;
use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use ring::rand::{SecureRandom, SystemRandom};
use ring::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, Ed25519KeyPair, KeyPair};
use serde::Serialize;
use std::fmt::Write;
use std::time::Duration;
use tokio_rustls::rustls::pki_types::pem::{PemObject, SectionKind};

/// The prefix of an Ed25519 key in PKCS #8 and SubjectPublicKeyInfo (RFC 8410, 7 and 4).
const PRIVATE: &[u8] = &[0x30, 0x2e, 2, 1, 0, 0x30, 5, 6, 3, 0x2b, 0x65, 0x70, 4, 0x22, 4, 0x20];
const PUBLIC: &[u8] = &[0x30, 0x2a, 0x30, 5, 6, 3, 0x2b, 0x65, 0x70, 3, 0x21, 0];

/// The content of a new token.
#[derive(Clone, Debug)]
pub struct Token {
    /// The name of the caller in logs.
    pub subject: String,
    /// The role.
    pub role: Role,
    /// The threads that it opens.
    pub threads: Vec<String>,
    /// Prefixes of further threads.
    pub prefixes: Vec<String>,
}

/// A private key that signs JSON web tokens.
pub struct Signer {
    key: SigningKey,
    /// The audience that the server expects. Default: `pausewatch`.
    pub audience: String,
    /// The issuer that the server expects, if any.
    pub issuer: Option<String>,
}

enum SigningKey {
    Ed25519(Ed25519KeyPair),
    P256(Box<EcdsaKeyPair>, SystemRandom),
}

/// A new key pair, as PEM.
pub struct Pair {
    /// The private key, as PEM. Keep it secret.
    pub private: String,
    /// The public key, as PEM, for the servers that accept its tokens.
    pub public: String,
}

#[derive(Serialize)]
struct Claims<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    iss: Option<&'a str>,
    sub: &'a str,
    aud: &'a str,
    iat: i64,
    exp: i64,
    pausewatch: Rights,
}

impl Token {
    fn rights(&self) -> Rights {
        let some = |texts: &Vec<String>| Some(texts.clone()).filter(|texts| !texts.is_empty());
        Rights { role: self.role, threads: some(&self.threads), prefixes: some(&self.prefixes) }
    }

    /// Whether a server would accept it.
    ///
    /// # Errors
    /// Why not.
    pub fn check(&self) -> Result<(), String> {
        Grant::parse(&self.subject, &self.rights(), None).map(|_| ())
    }
}

impl Signer {
    /// Reads a private key: Ed25519 or P-256, PEM of PKCS #8.
    ///
    /// # Errors
    /// It is not one of these.
    pub fn from_pem(text: &str) -> Result<Self, String> {
        const WANTED: &str = "expected an Ed25519 or P-256 key, PEM of PKCS #8 (BEGIN PRIVATE KEY), as \
                              `pausewatch token key` makes it, or `openssl genpkey`";
        let sections = <(SectionKind, Vec<u8>)>::pem_slice_iter(text.as_bytes());
        let mut keys = sections.filter_map(|section| match section {
            Ok((SectionKind::PrivateKey, der)) => Some(der),
            _ => None,
        });
        let der = keys.next().ok_or_else(|| format!("there is no private key in it: {WANTED}"))?;
        let random = SystemRandom::new();
        let key = match Ed25519KeyPair::from_pkcs8_maybe_unchecked(&der) {
            Ok(key) => SigningKey::Ed25519(key),
            Err(_) => match EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &der, &random) {
                Ok(key) => SigningKey::P256(Box::new(key), random),
                Err(_) => return Err(format!("its key is of another kind: {WANTED}")),
            },
        };
        Ok(Signer { key, audience: AUDIENCE.into(), issuer: None })
    }

    /// A JSON web token that is valid from `now` (since 1970), for `ttl`.
    ///
    /// # Errors
    /// No server would accept it.
    pub fn sign(&self, token: &Token, now: Duration, ttl: Duration) -> Result<String, String> {
        token.check()?;
        let seconds = |time: Duration| i64::try_from(time.as_secs()).unwrap_or(i64::MAX);
        let claims = Claims {
            iss: self.issuer.as_deref(),
            sub: &token.subject,
            aud: &self.audience,
            iat: seconds(now),
            // Valid from the time of signing.
            exp: seconds(now.saturating_add(ttl).saturating_add(Duration::from_nanos(999_999_999))),
            pausewatch: token.rights(),
        };
        let alg = match self.key {
            SigningKey::Ed25519(_) => "EdDSA",
            SigningKey::P256(..) => "ES256",
        };
        let claims = serde_json::to_vec(&claims).map_err(|error| error.to_string())?;
        let header = URL_SAFE_NO_PAD.encode(format!(r#"{{"alg":"{alg}","typ":"JWT"}}"#));
        let message = format!("{header}.{}", URL_SAFE_NO_PAD.encode(claims));
        let signature = match &self.key {
            SigningKey::Ed25519(key) => key.sign(message.as_bytes()).as_ref().to_vec(),
            SigningKey::P256(key, random) => {
                let signature = key.sign(random, message.as_bytes());
                signature.map_err(|_| "the system gives no random numbers")?.as_ref().to_vec()
            }
        };
        Ok(format!("{message}.{}", URL_SAFE_NO_PAD.encode(signature)))
    }
}

impl Pair {
    /// An Ed25519 key pair.
    ///
    /// # Errors
    /// The system gives no random numbers.
    pub fn generate() -> Result<Self, String> {
        let mut seed = [0; 32];
        SystemRandom::new().fill(&mut seed).map_err(|_| "the system gives no random numbers")?;
        let key = Ed25519KeyPair::from_seed_unchecked(&seed).map_err(|error| error.to_string())?;
        Ok(Pair {
            private: pem("PRIVATE KEY", &[PRIVATE, &seed].concat()),
            public: pem("PUBLIC KEY", &[PUBLIC, key.public_key().as_ref()].concat()),
        })
    }
}

fn pem(label: &str, der: &[u8]) -> String {
    // Keys of this length fit on one line.
    format!("-----BEGIN {label}-----\n{}\n-----END {label}-----\n", STANDARD.encode(der))
}

/// A new static token: 256 random bits.
///
/// # Errors
/// The system gives no random numbers.
pub fn secret() -> Result<String, String> {
    let mut bytes = [0; 32];
    SystemRandom::new().fill(&mut bytes).map_err(|_| "the system gives no random numbers")?;
    Ok(format!("pw_{}", URL_SAFE_NO_PAD.encode(bytes)))
}

/// The entry of `secret` for the file of static tokens; `expires`: RFC 3339.
///
/// # Errors
/// No server would accept it.
pub fn entry(secret: &str, token: &Token, expires: Option<&str>) -> Result<String, String> {
    token.check()?;
    let quoted = |text: &String| toml_string(text);
    let list = |texts: &[String]| texts.iter().map(quoted).collect::<Vec<_>>().join(", ");
    let mut text = format!("[[token]]\nsubject = {}\nrole = \"{}\"\n", quoted(&token.subject), token.role.name());
    for (key, texts) in [("threads", &token.threads), ("prefixes", &token.prefixes)] {
        if !texts.is_empty() {
            let _ = writeln!(text, "{key} = [{}]", list(texts));
        }
    }
    let _ = writeln!(text, "secret_sha256 = \"{}\"", Digest::of(secret.as_bytes()).to_hex());
    if let Some(expires) = expires {
        let _ = writeln!(text, "expires = {expires}");
    }
    Ok(text)
}

/// Whether a server would accept a file of static tokens with this text.
///
/// # Errors
/// The line, and what is wrong there.
pub fn check_file(text: &str) -> Result<(), String> {
    super::tokens::parse(text).map(|_| ())
}

/// A basic string of TOML. What was checked has no control characters.
fn toml_string(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
}

#[cfg(test)]
#[path = "mint_tests.rs"]
mod tests;
