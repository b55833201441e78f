//! The `authorization` header, and the files of tokens and keys: no caller is mistaken for another, and an invalid file
//! is refused with its name and without a secret.
use pausewatch::test_support::access::{Access, AccessConfig, Grant, JwtConfig, Role, mint};
use pausewatch::test_support::clock::Manual;
use pausewatch::test_support::core::Timestamp;
use pausewatch::test_support::core::scope::Scope;
use std::path::PathBuf;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

const SECRET: &str = "a-secret-of-the-server";
const ISSUER: &str = "-----BEGIN PRIVATE KEY-----\nMC4CAQAwBQYDK2VwBCIEICTwQUPoVeufM2RnhJVL3J2ZCI3zUYM2uDFq/AtYrngT\n-----END PRIVATE KEY-----\n";
const PUBLIC: &str = "-----BEGIN PUBLIC KEY-----\nMCowBQYDK2VwAyEASjACJmaQk8gs3pRTwErnoPkzX+cCPUblcZDVDDFWkq8=\n-----END PUBLIC KEY-----\n";
const JWKS: &str = r#"{"keys":[{"kty":"OKP","crv":"Ed25519","kid":"k","x":"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"},{"kty":"EC","crv":"P-256","x":"f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU","y":"x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0"}]}"#;
const TOKENS: &str = "[[token]]\nsubject = \"s\"\nrole = \"holder\"\nthreads = [\"t\"]\nprefixes = [\"a/\"]\nsecret = \"a-secret-of-a-file\"\n\
                      expires = 2027-01-01T00:00:00Z\n";

static JWT: LazyLock<String> = LazyLock::new(|| {
    let token = mint::Token { subject: "s".into(), role: Role::Holder, threads: vec!["t".into()], prefixes: vec![] };
    let signer = mint::Signer::from_pem(ISSUER).expect("a key");
    signer.sign(&token, Duration::from_secs(1), Duration::from_secs(1_000)).expect("a token")
});

static SITE: LazyLock<(tempfile::TempDir, Arc<Access>)> = LazyLock::new(|| {
    let directory = tempfile::tempdir().expect("a directory");
    let keys = directory.path().join("keys");
    std::fs::write(&keys, PUBLIC).expect("it can be written");
    let given = vec![(SECRET.to_owned(), Grant::new("s", Role::Admin, Scope::ALL))];
    let config = AccessConfig { jwt: Some(JwtConfig::new(keys)), given, tokens: None };
    let access = load(config).expect("the files are right");
    (directory, access)
});

fn load(config: AccessConfig) -> Result<Arc<Access>, String> {
    Access::load(config, Arc::new(Manual::new(Timestamp { boot: 0, wall: 1_000_000_000 }, 1)))
}

pub(super) fn check(input: &[u8]) {
    let (directory, access) = &*SITE;
    if access.authenticate([input]).is_ok() {
        let token = input[b"bearer ".len()..].trim_ascii();
        assert!(token == SECRET.as_bytes() || token == JWT.as_bytes(), "taken: {:?}", String::from_utf8_lossy(input));
    }
    let path: PathBuf = directory.path().join(format!("{:?}", std::thread::current().id()));
    std::fs::write(&path, input).expect("it can be written");
    let tokens = AccessConfig { tokens: Some(path.clone()), ..AccessConfig::default() };
    let keys = AccessConfig { jwt: Some(JwtConfig::new(&path)), ..AccessConfig::default() };
    for (config, flag) in [(tokens, "--tokens"), (keys, "--jwt-keys")] {
        if let Err(why) = load(config) {
            assert!(why.starts_with(&format!("{flag} {}: ", path.display())), "{why}");
            let secret = String::from_utf8_lossy(input).contains("secret = \"a-secret-of-a-file\"");
            assert!(!secret || !why.contains("a-secret-of-a-file"), "the secret is in the message: {why}");
        }
    }
}

pub(super) fn seeds() -> Vec<Vec<u8>> {
    super::texts(&[&format!("Bearer {SECRET}"), &format!("Bearer {}", *JWT), TOKENS, PUBLIC, JWKS])
}
