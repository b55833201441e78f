//! The program's own token, signed with the configured key, and signed again long before it expires: a pause may last
//! longer than a token should.
use crate::client::{ConfigError, Token, TokenSource};
use crate::server::access::mint::{self, Signer};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// The lifetime of each token. The client asks for another one after two thirds of it.
const TTL: Duration = Duration::from_secs(60 * 60);

/// Signs `content`, and signs it again when half of a token's life is over. `now`: the time since 1970.
///
/// # Errors
/// No server would accept the token.
pub(crate) fn signed_anew(
    signer: Arc<Signer>,
    content: mint::Token,
    now: impl Fn() -> Duration + Send + Sync + 'static,
) -> Result<TokenSource, String> {
    content.check()?;
    let last: Mutex<Option<(Duration, Token)>> = Mutex::default();
    Ok(TokenSource::new(move || {
        let now = now();
        let mut last = last.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((signed, token)) = &*last
            // If the clock was set back after that, the token is not valid yet.
            && now.checked_sub(*signed).is_some_and(|age| age < TTL / 2)
        {
            return Ok(token.clone());
        }
        let token = signer.sign(&content, now, TTL).map_err(|why| ConfigError::new(format!("sign a token: {why}")))?;
        let token = Token::new(&token)?;
        *last = Some((now, token.clone()));
        Ok(token)
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::server::access::Role;
    use std::sync::atomic::{AtomicU64, Ordering};

    #[test]
    fn another_token_is_signed_before_the_last_one_ends() {
        let signer = Arc::new(Signer::from_pem(&mint::Pair::generate().unwrap().private).unwrap());
        let content = |threads: &[&str]| mint::Token {
            subject: "s".to_owned(),
            role: Role::Watcher,
            threads: threads.iter().map(ToString::to_string).collect(),
            prefixes: Vec::new(),
        };
        let seconds = Arc::new(AtomicU64::new(1_000_000));
        let clock = seconds.clone();
        let now = move || Duration::from_secs(clock.load(Ordering::Relaxed));
        let source = signed_anew(signer.clone(), content(&["t"]), now.clone()).unwrap();
        let at = |time| {
            seconds.store(time, Ordering::Relaxed);
            source.token().unwrap()
        };
        let first = at(1_000_000);
        let half = TTL.as_secs() / 2;
        assert_eq!(at(1_000_000 + half - 1), first);
        let second = at(1_000_000 + half);
        assert_ne!(second, first);
        assert_eq!(at(1_000_000 + half + 1), second);
        assert_ne!(at(1_000_000), second, "the clock was set back");
        assert!(signed_anew(signer, content(&[]), now).is_err(), "it opens no thread");
    }
}
