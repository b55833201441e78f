//! The token of a stream: the source is asked again while the stream is open, and a new token is sent.
use super::super::{Client, Token};
use std::time::{Duration, SystemTime};
use tokio::time::Instant;

/// The source is asked again after two thirds of the token's remaining life, within these bounds.
const MIN_RENEWAL: Duration = Duration::from_secs(1);
const MAX_RENEWAL: Duration = Duration::from_secs(60);

#[derive(Debug, Default)]
pub(super) struct StreamToken {
    /// The last token that was sent.
    token: Option<Token>,
    /// When the source is asked again; `None`: the token does not change.
    due: Option<Instant>,
}

impl StreamToken {
    /// The token of a stream that is opened now.
    pub(super) fn of(client: &Client, now: Instant) -> Self {
        let (token, due) = match client.new_token() {
            Some(Ok(token)) => (Some(token.clone()), Some(now + renewal_delay(&token))),
            // The stream may be opened with a token that the source returns a moment later.
            Some(Err(_)) => (None, Some(now + MIN_RENEWAL)),
            None => (None, None),
        };
        Self { token, due }
    }

    pub(super) fn due(&self) -> Option<Instant> {
        self.due
    }

    /// Asks the source again, if it is time. Returns the new token if it is different.
    pub(super) fn renew(&mut self, client: &Client, now: Instant) -> Option<String> {
        self.due.filter(|due| *due <= now)?;
        let token = match client.new_token()? {
            Ok(token) => token,
            Err(error) => {
                tracing::warn!(%error, "the token cannot be renewed");
                self.due = Some(now + MIN_RENEWAL);
                return None;
            }
        };
        self.due = Some(now + renewal_delay(&token));
        if self.token.as_ref() == Some(&token) {
            return None;
        }
        let secret = token.secret().to_owned();
        self.token = Some(token);
        Some(secret)
    }
}

/// The time until the source is asked again.
fn renewal_delay(token: &Token) -> Duration {
    let rest = token.expires_at().map(|end| end.duration_since(SystemTime::now()).unwrap_or_default());
    rest.map_or(MAX_RENEWAL, |rest| (rest * 2 / 3).clamp(MIN_RENEWAL, MAX_RENEWAL))
}
