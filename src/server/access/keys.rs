//! The public keys that sign JSON web tokens: PEM (RFC 7468), or a JWK or JWKS file (RFC 7517, 7518, 8037).
//!
//! 1. The type of a key determines its one algorithm: an elliptic curve key never verifies RSA, and no key is used as
//!    the secret of an HMAC.
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::signature::{self, RsaPublicKeyComponents, UnparsedPublicKey};
use serde::Deserialize;
use spki::der::asn1::UintRef;
use spki::der::{Decode, Reader, SliceReader};
use spki::{ObjectIdentifier, SubjectPublicKeyInfoRef};
use tokio_rustls::rustls::pki_types::pem::{PemObject, SectionKind};

/// The maximum of keys in a file: a forged token is checked with each key that may have signed it.
const MOST: usize = 64;
/// The sizes of RSA keys that ring supports.
const RSA_BITS: std::ops::RangeInclusive<usize> = 2048..=8192;

const ED25519: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.3.101.112");
const EC: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.10045.2.1");
const P256: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.10045.3.1.7");
const RSA: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.113549.1.1.1");

/// A key with its algorithm.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Key {
    /// The `kid` in the JWKS.
    id: Option<String>,
    material: Material,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Material {
    Ed25519(Vec<u8>),
    /// An uncompressed point.
    P256(Vec<u8>),
    Rsa {
        n: Vec<u8>,
        e: Vec<u8>,
    },
}

impl Key {
    /// Whether `alg`, in the header of a token or in a JWK, names its algorithm. RFC 9864 has another name for that of
    /// Ed25519.
    pub(super) fn is_for(&self, alg: &str) -> bool {
        alg == self.algorithm() || (alg == "Ed25519" && self.algorithm() == "EdDSA")
    }

    /// The `alg` in the header of the tokens that it signs.
    pub(super) fn algorithm(&self) -> &'static str {
        match self.material {
            Material::Ed25519(_) => "EdDSA",
            Material::P256(_) => "ES256",
            Material::Rsa { .. } => "RS256",
        }
    }

    /// Whether this key may have signed a token with this `kid`, or without one.
    pub(super) fn may_be(&self, id: Option<&str>) -> bool {
        id.is_none() || self.id.is_none() || self.id.as_deref() == id
    }

    pub(super) fn verifies(&self, message: &[u8], signature: &[u8]) -> bool {
        match &self.material {
            Material::Ed25519(key) => UnparsedPublicKey::new(&signature::ED25519, key).verify(message, signature),
            Material::P256(point) => {
                UnparsedPublicKey::new(&signature::ECDSA_P256_SHA256_FIXED, point).verify(message, signature)
            }
            Material::Rsa { n, e } => {
                let key = RsaPublicKeyComponents { n, e };
                key.verify(&signature::RSA_PKCS1_2048_8192_SHA256, message, signature)
            }
        }
        .is_ok()
    }
}

impl Material {
    /// Checks the length only: any other error in a key makes signatures invalid, never valid.
    fn ed25519(key: Vec<u8>) -> Result<Self, String> {
        if key.len() == 32 { Ok(Material::Ed25519(key)) } else { Err("an Ed25519 key has 32 bytes".into()) }
    }

    fn p256(point: Vec<u8>) -> Result<Self, String> {
        match point[..] {
            [4, ..] if point.len() == 65 => Ok(Material::P256(point)),
            _ => Err("a P-256 key must be an uncompressed point of 65 bytes".into()),
        }
    }

    fn rsa(n: &[u8], e: &[u8]) -> Result<Self, String> {
        let [n, e] = [n, e].map(|number| number.iter().skip_while(|&&byte| byte == 0).copied().collect::<Vec<_>>());
        let bits = 8 * n.len() - n.first().map_or(0, |first| first.leading_zeros() as usize);
        match RSA_BITS.contains(&bits) {
            true => Ok(Material::Rsa { n, e }),
            false => Err(format!("an RSA key must have 2048 to 8192 bits; this one has {bits}")),
        }
    }

    /// Reads a SubjectPublicKeyInfo, which is the content of a public key in PEM.
    fn from_spki(der: &[u8]) -> Result<Self, String> {
        let malformed = |error: spki::der::Error| format!("no public key: {error}");
        let info = SubjectPublicKeyInfoRef::from_der(der).map_err(malformed)?;
        let key = info.subject_public_key.as_bytes().ok_or("a public key is to have whole bytes")?;
        match info.algorithm.oid {
            ED25519 => Self::ed25519(key.to_vec()),
            EC if info.algorithm.parameters_oid().is_ok_and(|curve| curve == P256) => Self::p256(key.to_vec()),
            EC => Err("the only supported elliptic curve is P-256".into()),
            RSA => {
                let reader = &mut SliceReader::new(key).map_err(malformed)?;
                let numbers = reader.sequence(|reader| {
                    let (n, e) = (UintRef::decode(reader)?, UintRef::decode(reader)?);
                    Ok::<_, spki::der::Error>((n.as_bytes().to_vec(), e.as_bytes().to_vec()))
                });
                let (n, e) = numbers.map_err(malformed)?;
                Self::rsa(&n, &e)
            }
            other => Err(format!("a key for {other}: supported are Ed25519, P-256 and RSA")),
        }
    }
}

#[derive(Deserialize)]
struct JwkSet {
    keys: Vec<serde_json::Value>,
}

/// The members of a JWK that are used; others are ignored.
#[derive(Deserialize)]
struct Jwk {
    kty: String,
    kid: Option<String>,
    alg: Option<String>,
    #[serde(rename = "use")]
    usage: Option<String>,
    crv: Option<String>,
    x: Option<String>,
    y: Option<String>,
    n: Option<String>,
    e: Option<String>,
}

impl Jwk {
    /// `None`: the key is for another purpose, or of another type.
    fn key(self) -> Result<Option<Key>, String> {
        let part = |name: &str, text: &Option<String>| {
            let text = text.as_deref().ok_or_else(|| format!("{name} is missing"))?;
            URL_SAFE_NO_PAD.decode(text).map_err(|_| format!("{name} is not base64url"))
        };
        if self.usage.as_deref().is_some_and(|usage| usage != "sig") {
            return Ok(None);
        }
        let material = match (self.kty.as_str(), self.crv.as_deref()) {
            ("OKP", Some("Ed25519")) => Material::ed25519(part("x", &self.x)?)?,
            ("EC", Some("P-256")) => Material::p256([vec![4], part("x", &self.x)?, part("y", &self.y)?].concat())?,
            ("RSA", _) => Material::rsa(&part("n", &self.n)?, &part("e", &self.e)?)?,
            _ => return Ok(None),
        };
        let key = Key { id: self.kid, material };
        Ok(self.alg.as_deref().is_none_or(|alg| key.is_for(alg)).then_some(key))
    }
}

/// # Errors
/// The problem, and the key that has it.
pub(super) fn parse(text: &str) -> Result<Vec<Key>, String> {
    let keys = if text.trim_start().starts_with('{') { parse_jwks(text)? } else { parse_pem(text)? };
    match keys.len() {
        0 => Err("it contains no public key for EdDSA, ES256 or RS256 signatures".into()),
        1..=MOST => Ok(keys),
        many => Err(format!("it contains {many} keys; at most {MOST} are allowed")),
    }
}

fn parse_pem(text: &str) -> Result<Vec<Key>, String> {
    let mut keys = Vec::new();
    for section in <(SectionKind, Vec<u8>)>::pem_slice_iter(text.as_bytes()) {
        match section.map_err(|error| format!("it is not PEM: {error}"))? {
            (SectionKind::PublicKey, der) => keys.push(Key { id: None, material: Material::from_spki(&der)? }),
            (SectionKind::PrivateKey | SectionKind::EcPrivateKey | SectionKind::RsaPrivateKey, _) => {
                return Err("there is a private key in it, which the server is not to have: name the file of the \
                            public one"
                    .into());
            }
            _ => {}
        }
    }
    Ok(keys)
}

fn parse_jwks(text: &str) -> Result<Vec<Key>, String> {
    let malformed = |error: serde_json::Error| format!("it is not a JWKS: {error}");
    let value: serde_json::Value = serde_json::from_str(text).map_err(malformed)?;
    let keys = match value.get("keys") {
        Some(_) => serde_json::from_value::<JwkSet>(value).map_err(malformed)?.keys,
        None => vec![value],
    };
    let mut parsed = Vec::new();
    for (i, key) in keys.into_iter().enumerate() {
        let secret = |key: &serde_json::Value| key.get("d").is_some() || key.get("k").is_some();
        if secret(&key) {
            return Err(format!("key {i} has a private part, which the server must not have: remove it"));
        }
        let key: Jwk = serde_json::from_value(key).map_err(|error| format!("key {i}: {error}"))?;
        parsed.extend(key.key().map_err(|why| format!("key {i}: {why}"))?);
    }
    Ok(parsed)
}

#[cfg(test)]
#[path = "keys_tests.rs"]
mod tests;
