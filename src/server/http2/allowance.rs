//! How often a client may do something.
use std::time::Duration;
use tokio::time::Instant;

/// An allowance that refills: `burst` at once, then one each `every`.
#[derive(Debug)]
pub(super) struct Allowance {
    burst: u32,
    every: Duration,
    left: u32,
    since: Option<Instant>,
}

impl Allowance {
    pub(super) const fn new(burst: u32, every: Duration) -> Self {
        Allowance { burst, every, left: burst, since: None }
    }

    /// Takes one; `false`: none is left.
    pub(super) fn take(&mut self) -> bool {
        if self.left < self.burst {
            let now = Instant::now();
            let since = *self.since.get_or_insert(now);
            let refilled = u32::try_from(now.duration_since(since).as_nanos() / self.every.as_nanos());
            let refilled = refilled.unwrap_or(u32::MAX).min(self.burst - self.left);
            self.left += refilled;
            self.since = if self.left == self.burst { None } else { Some(since + self.every * refilled) };
        }
        let is_left = self.left > 0;
        if is_left {
            self.left -= 1;
            self.since.get_or_insert_with(Instant::now);
        }
        is_left
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::time::advance;

    #[tokio::test(start_paused = true)]
    async fn a_burst_is_allowed_then_one_each_interval() {
        let mut allowance = Allowance::new(3, Duration::from_secs(1));
        let mut taken = async |after_ms| {
            advance(Duration::from_millis(after_ms)).await;
            (0..9).take_while(|_| allowance.take()).count()
        };
        assert_eq!(taken(0).await, 3);
        assert_eq!(taken(1_500).await, 1);
        assert_eq!(taken(500).await, 1, "the half is not lost");
        assert_eq!(taken(60_000).await, 3, "no more than a burst");
        assert_eq!(taken(999).await, 0);
    }
}
