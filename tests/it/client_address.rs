//! The addresses and tokens that every client accepts or refuses: the same vectors are used in each language.
use pausewatch::client::{Address, Token};
use serde::Deserialize;

/// `clients/vectors/addresses.json`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Vectors {
    #[serde(rename = "about")]
    _about: String,
    addresses_taken: Vec<String>,
    addresses_refused: Vec<String>,
    tokens_taken: Vec<String>,
    tokens_refused: Vec<String>,
}

#[test]
fn addresses_and_tokens_are_taken_and_refused_as_the_vectors_say() {
    let text = include_str!("../../clients/vectors/addresses.json");
    let vectors: Vectors = serde_json::from_str(text).unwrap();
    assert!(vectors.addresses_refused.len() > 20);
    for taken in &vectors.addresses_taken {
        assert!(taken.parse::<Address>().is_ok(), "{taken:?}");
    }
    for refused in &vectors.addresses_refused {
        assert!(refused.parse::<Address>().is_err(), "{refused:?}");
    }
    for taken in &vectors.tokens_taken {
        assert!(Token::new(taken).is_ok(), "{taken:?}");
    }
    for refused in &vectors.tokens_refused {
        assert!(Token::new(refused).is_err(), "{refused:?}");
    }
}
