use super::*;
use crate::server::access::grant::Role;
use crate::server::access::keys;
use crate::server::access::mint::{Pair, Signer, Token};
use std::time::Duration;

const NOW: i64 = 1_000 * SECOND;

/// A key made by `openssl`; otherwise we do not use it.
const RSA_PEM: &str = "-----BEGIN PUBLIC KEY-----\n\
    MIIBIjANBgkqhkiG9w0BAQEFAAOCAQ8AMIIBCgKCAQEA2VU1p6yUkkss69s4/NIk\n\
    WTK2kQpPToGi0Cn1BfOi0CzTooG+hQ4oJW56Byx9GsPHO1roqI6XmVcOyQQNkTrn\n\
    ve5bB36744QyJWeOiv9Fu34K5z6YEHluNGh6dMJAqIb9TnXeKx7erc1wTi/cJY9U\n\
    e1XaYhvHa+P21C73zXQ5pc8k/nPC9o+nPqeVSwg14OYGQLwzXYxFYFAc8TcHpImd\n\
    JmucIDHWqTddvmAu+Doa7XgrAKdkEr2UmOZojI7IBbSmwicLvsBe9JC2o/2kQw0O\n\
    yM2fHj9BSghB8MWcjRITQ4HlkTuJ/x6u6YFG0xKIVDc7p6eJz7MDgjt67dQldMXg\n\
    XQIDAQAB\n-----END PUBLIC KEY-----\n";
const RSA_TOKEN: &str = "eyJhbGciOiJSUzI1NiIsImtpZCI6ImFueSJ9.eyJzdWIiOiJyIiwiYXVkIjpbIngiLCJwYXVzZXdhdGNoIl0sImV4cCI6MjAwMDAwMDAwMCwicGF1c2V3YXRjaCI6eyJyb2xlIjoid2F0Y2hlciIsInByZWZpeGVzIjpbImEvIl19fQ.dXkXHCQA_otGLRVGrZTexA3M4Gva-DzOlLijbObVXqa_AYUxnSypPxmINySGWHKN3ZYJTXckBdIDEd0CXLeB8WE--8Myvewpv-PutsE3H-I6Dy_7ASXOeQFcLdMIhpGLS4nN3bjwFMaDA-Zmj7pJAKCgCJozzGVzk4_xYHN4AUbceeWkiVaHFIMo7tnmd--zacbnOYSvK2dNgypPWZa2T8nVywHBR55ccjXHhredacDB2QcntbbKxhLcZjEgGsBDEi_tp8u-QYX9mbZHYnKhuqSO75aqhV85HZ4VintomVda7MGwtbgUuZaK87PqbuyhDP05SYP3-ZgAUArv-TigLA";

fn expected() -> Expected {
    Expected { audience: "pausewatch".into(), issuer: None }
}

fn keys(text: &str) -> Vec<Arc<Key>> {
    keys::parse(text).unwrap().into_iter().map(Arc::new).collect()
}

/// A key pair, and tokens that it signs.
struct Issuer {
    pair: Pair,
    keys: Vec<Arc<Key>>,
}

impl Issuer {
    fn new() -> Self {
        let pair = Pair::generate().unwrap();
        Issuer { keys: keys(&pair.public), pair }
    }

    fn sign(&self, header: &str, claims: &str) -> String {
        use ring::signature::Ed25519KeyPair;
        let pem = self.pair.private.lines().nth(1).unwrap();
        let der = base64::engine::general_purpose::STANDARD.decode(pem).unwrap();
        let message = format!("{}.{}", URL_SAFE_NO_PAD.encode(header), URL_SAFE_NO_PAD.encode(claims));
        let signature = Ed25519KeyPair::from_pkcs8_maybe_unchecked(&der).unwrap().sign(message.as_bytes());
        format!("{message}.{}", URL_SAFE_NO_PAD.encode(signature))
    }

    fn verify(&self, token: &str, wall: i64) -> Result<Grant, Denial> {
        verify(token.as_bytes(), &self.keys, &expected(), wall).map(|(grant, _)| grant)
    }
}

const HEADER: &str = r#"{"alg":"EdDSA"}"#;

/// Valid claims at `NOW`, with `replacement` in place of the claim that begins with `replaced`.
fn claims(replaced: &str, replacement: &str) -> String {
    let all = [
        r#""sub":"s""#,
        r#""aud":"pausewatch""#,
        r#""exp":1001"#,
        r#""nbf":1000"#,
        r#""pausewatch":{"role":"holder","threads":["t"]}"#,
    ];
    let replace = |claim: &&'static str| {
        let claim = *claim;
        if !replaced.is_empty() && claim.starts_with(replaced) { replacement.to_owned() } else { claim.to_owned() }
    };
    let claims: Vec<_> = all.iter().map(replace).filter(|claim| !claim.is_empty()).collect();
    format!("{{{}}}", claims.join(","))
}

#[test]
fn rsa_signatures_of_openssl_are_valid() {
    let (grant, _) = verify(RSA_TOKEN.as_bytes(), &keys(RSA_PEM), &expected(), NOW).unwrap();
    assert_eq!((grant.subject(), grant.role()), ("r", Role::Watcher));
    assert_eq!(grant.left(NOW), Duration::from_secs(2_000_000_000 - 1_000));
}

#[test]
fn both_names_of_the_algorithm_of_ed25519_are_accepted() {
    let issuer = Issuer::new();
    for (alg, is_known) in [("EdDSA", true), ("Ed25519", true), ("ES256", false), ("none", false)] {
        let token = issuer.sign(&format!("{{\"alg\":\"{alg}\"}}"), &claims("", ""));
        assert_eq!(issuer.verify(&token, NOW).is_ok(), is_known, "{alg}");
    }
}

/// G8: each claim that is missing, wrong or not valid yet makes the token invalid.
#[test]
fn g8_a_token_is_valid_only_with_all_its_claims() {
    let issuer = Issuer::new();
    let token = |replaced: &str, with: &str| issuer.verify(&issuer.sign(HEADER, &claims(replaced, with)), NOW);
    assert!(token("", "").is_ok());
    assert!(token("\"aud\"", r#""aud":["a","pausewatch"]"#).is_ok());
    assert!(token("\"nbf\"", "").is_ok());
    assert!(token("\"nbf\"", r#""nbf":1005"#).is_ok(), "clocks may differ by up to 5 s");
    assert!(token("\"exp\"", r#""exp":1000.5"#).is_ok());
    assert!(token("\"sub\"", r#""sub":"s","other":{"pausewatch":1}"#).is_ok(), "unknown claims must be ignored");
    for (replaced, with, why) in [
        ("\"exp\"", "", "no `exp`"),
        ("\"exp\"", r#""exp":1000"#, "expired"),
        ("\"exp\"", r#""exp":-1e300"#, "expired"),
        ("\"exp\"", r#""exp":"1001""#, "cannot be read"),
        ("\"exp\"", r#""exp":1001,"exp":2000"#, "cannot be read"),
        ("\"nbf\"", r#""nbf":1005.1"#, "not valid yet"),
        ("\"aud\"", "", "audience"),
        ("\"aud\"", r#""aud":"pausewatch2""#, "audience"),
        ("\"aud\"", r#""aud":[]"#, "audience"),
        ("\"sub\"", "", "no `sub`"),
        ("\"sub\"", r#""sub":"""#, "`sub`"),
        ("\"pausewatch\"", "", "no claim `pausewatch`"),
        ("\"pausewatch\"", r#""pausewatch":{"role":"holder"}"#, "claim `pausewatch` is wrong"),
        ("\"pausewatch\"", r#""pausewatch":{"role":"admin","threads":["t"]}"#, "claim `pausewatch` is wrong"),
        ("\"pausewatch\"", r#""pausewatch":{"role":"root","threads":["t"]}"#, "cannot be read"),
        ("\"pausewatch\"", r#""pausewatch":{"role":"holder","threads":["t"],"until":1}"#, "cannot be read"),
    ] {
        let denied = token(replaced, with).unwrap_err().to_string();
        assert!(denied.contains(why), "{with}: {denied}");
    }
    let named = Expected { issuer: Some("us".into()), ..expected() };
    let check = |claims: &str| verify(issuer.sign(HEADER, claims).as_bytes(), &issuer.keys, &named, NOW).is_ok();
    assert!(check(&claims("\"sub\"", r#""sub":"s","iss":"us""#)));
    assert!(!check(&claims("", "")) && !check(&claims("\"sub\"", r#""sub":"s","iss":"them""#)));
}

/// G8: what a token claims about its own signature grants nothing.
#[test]
fn g8_the_algorithm_is_the_keys_and_not_the_tokens() {
    let issuer = Issuer::new();
    let valid = claims("", "");
    assert!(issuer.verify(&issuer.sign(r#"{"alg":"EdDSA","typ":"JWT","kid":"k","more":1}"#, &valid), NOW).is_ok());
    let none = format!("{}.{}.", URL_SAFE_NO_PAD.encode(r#"{"alg":"none"}"#), URL_SAFE_NO_PAD.encode(&valid));
    // Signed with public data: the public key as the secret of an HMAC.
    let message = format!("{}.{}", URL_SAFE_NO_PAD.encode(r#"{"alg":"HS256"}"#), URL_SAFE_NO_PAD.encode(&valid));
    let secret = ring::hmac::Key::new(ring::hmac::HMAC_SHA256, issuer.pair.public.as_bytes());
    let hmac = format!("{message}.{}", URL_SAFE_NO_PAD.encode(ring::hmac::sign(&secret, message.as_bytes())));
    let signed = issuer.sign(HEADER, &valid);
    let (message, signature) = signed.rsplit_once('.').unwrap();
    let (header, body) = message.split_once('.').unwrap();
    let other = Issuer::new().sign(HEADER, &valid);
    let forged = [
        none,
        hmac,
        issuer.sign(r#"{"alg":"ES256"}"#, &valid),
        issuer.sign(r#"{"alg":"eddsa"}"#, &valid),
        issuer.sign(r#"{"alg":"EdDSA","crit":["exp"],"exp":1}"#, &valid),
        issuer.sign(r#"{"kid":"k"}"#, &valid),
        issuer.sign("", &valid),
        other.clone(),
        format!("{header}.{}.{signature}", URL_SAFE_NO_PAD.encode(claims("\"sub\"", r#""sub":"x""#))),
        format!("{header}.{body}.{}", other.rsplit_once('.').unwrap().1),
        format!("{header}.{body}."),
        format!("{header}.{body}"),
        format!("{signed}="),
        format!("{signed}.{signature}"),
        format!(" {signed}"),
        "..".into(),
        String::new(),
    ];
    for token in forged {
        assert_eq!(issuer.verify(&token, NOW), Err(UNKNOWN), "{token}");
    }
    // A key of another type, which the token names.
    let rsa = Issuer { keys: keys(RSA_PEM), ..Issuer::new() };
    assert_eq!(rsa.verify(&rsa.sign(r#"{"alg":"RS256"}"#, &valid), NOW), Err(UNKNOWN));
}

#[test]
fn a_named_key_is_looked_for_by_its_name() {
    let issuer = Issuer::new();
    let x = &issuer.pair.public.lines().nth(1).unwrap();
    let der = base64::engine::general_purpose::STANDARD.decode(x).unwrap();
    let x = URL_SAFE_NO_PAD.encode(&der[12..]);
    let named = keys(&format!(r#"{{"kty":"OKP","crv":"Ed25519","kid":"k","x":"{x}"}}"#));
    let check = |header: &str| {
        let token = issuer.sign(header, &claims("", ""));
        verify(token.as_bytes(), &named, &expected(), NOW).is_ok()
    };
    assert!(check(r#"{"alg":"EdDSA","kid":"k"}"#) && check(HEADER));
    assert!(!check(r#"{"alg":"EdDSA","kid":"other"}"#));
}

#[test]
fn tokens_signed_by_both_kinds_of_keys_are_valid_until_they_expire() {
    // Made by `openssl genpkey`.
    const P256: &str = "-----BEGIN PRIVATE KEY-----\n\
        MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQgmLiNN5S3BlxRCS5v\n\
        x9SRmgDGY2fpqMrfUKZNLRbklsyhRANCAAQRRQVhjxzMJtE0Bz+OrycXAbuw16C0\n\
        bYwyHZHhwxqATGmvEcqBb7EInrpDrMFcjsRWWnSA67153a6kmtbL5a5f\n-----END PRIVATE KEY-----\n";
    const P256_PUBLIC: &str = "-----BEGIN PUBLIC KEY-----\n\
        MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAEEUUFYY8czCbRNAc/jq8nFwG7sNeg\n\
        tG2MMh2R4cMagExprxHKgW+xCJ66Q6zBXI7EVlp0gOu9ed2upJrWy+WuXw==\n-----END PUBLIC KEY-----\n";
    const ED25519: &str = "-----BEGIN PRIVATE KEY-----\nMC4CAQAwBQYDK2VwBCIEICTwQUPoVeufM2RnhJVL3J2ZCI3zUYM2uDFq/AtYrngT\n-----END PRIVATE KEY-----\n";
    const ED25519_PUBLIC: &str = "-----BEGIN PUBLIC KEY-----\nMCowBQYDK2VwAyEASjACJmaQk8gs3pRTwErnoPkzX+cCPUblcZDVDDFWkq8=\n-----END PUBLIC KEY-----\n";
    let pair = Pair::generate().unwrap();
    for (private, public) in [(P256, P256_PUBLIC), (ED25519, ED25519_PUBLIC), (&pair.private, &pair.public)] {
        let token = Token { subject: "s".into(), role: Role::Holder, threads: vec!["t".into()], prefixes: vec![] };
        let signer = Signer::from_pem(private).unwrap();
        let signed = signer.sign(&token, Duration::from_millis(1_000_500), Duration::from_secs(10)).unwrap();
        let check = |wall| verify(signed.as_bytes(), &keys(public), &expected(), wall).map(|(grant, _)| grant);
        let grant = check(NOW).unwrap();
        assert_eq!((grant.subject(), grant.role()), ("s", Role::Holder));
        assert!(grant.scope().contains(&crate::core::types::ThreadId::parse("", "t").unwrap()));
        assert_eq!(check(NOW + 11 * SECOND), Err(Denial::Expired));
    }
}
