//! Limits how fast a worker writes the JSON of streams. JSON takes several times the CPU of gRPC's bytes, which streams
//! share, so a thousand pages and many changes would take the whole worker from its callers. A delayed stream loses
//! nothing: it gets the latest states afterwards.
use std::cell::Cell;
use std::time::Duration;
use tokio::time::Instant;

/// Far more than pages for people need, and little enough for callers (`benches/run pages`).
const BYTES_PER_SECOND: u64 = 8 << 20;
/// Shorter delays are skipped: the first states of a page, and changes that people make, are not delayed.
const GRACE: Duration = Duration::from_millis(50);
/// The maximum delay, whatever other streams have written: shorter than a drain, and than the time between heartbeats.
const LONGEST: Duration = Duration::from_secs(3);

thread_local! {
    /// The time by which everything that this worker has written would be written at that rate.
    static WRITTEN_AT: Cell<Option<Instant>> = const { Cell::new(None) };
}

/// Records that a stream of this worker has written this many bytes. Returns the time until which the stream has to
/// wait. A new stream, which has written nothing, may have to wait too: otherwise clients that open streams again and
/// again would not be delayed.
pub(super) fn after(bytes: usize) -> Option<Instant> {
    let now = Instant::now();
    let takes = Duration::from_nanos(bytes as u64 * 1_000_000_000 / BYTES_PER_SECOND);
    let written_at = (WRITTEN_AT.get().map_or(now, |at| at.max(now)) + takes).min(now + LONGEST);
    WRITTEN_AT.set(Some(written_at));
    (written_at > now + GRACE).then_some(written_at)
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::time::advance;

    #[tokio::test(start_paused = true)]
    async fn g7_streams_share_the_rate_of_a_worker() {
        let part = 64 << 10;
        let rounds = BYTES_PER_SECOND as usize / part;
        let began = Instant::now();
        assert_eq!(after(part), None, "a single page does not wait");
        let waits: Vec<_> = (1..rounds).filter_map(|_| after(part)).collect();
        assert!(waits.is_sorted() && waits.len() > rounds / 2);
        assert_eq!((*waits.last().unwrap() - began).as_millis(), 1_000, "together they write what one may in a second");
        advance(Duration::from_secs(2)).await;
        assert_eq!(after(part), None);
    }

    #[tokio::test(start_paused = true)]
    async fn g7_streams_that_wrote_much_delay_each_other_and_new_ones_for_a_short_time() {
        let began = Instant::now();
        assert_eq!(after(0), None, "nothing was written yet");
        (0..1_000).for_each(|_| _ = after(1_400_000));
        assert_eq!(after(0), Some(began + LONGEST));
        advance(LONGEST).await;
        assert_eq!(after(0), None);
    }
}
