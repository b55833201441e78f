//! What a stopwatch has measured so far.
use std::time::Duration;

/// The wall time since the start of a stopwatch, and the unpaused part of it, at the same moment: without a pause they
/// are equal.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Times {
    pub(crate) wall: Duration,
    /// At most `wall`.
    pub(crate) active: Duration,
}

impl Times {
    /// The wall, active and paused time in milliseconds; the first is exactly the sum of the others.
    pub(crate) fn milliseconds(self) -> (u64, u64, u64) {
        let ms = |duration: Duration| u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
        let (wall, active) = (ms(self.wall), ms(self.active));
        (wall, active, wall.saturating_sub(active))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::stopwatch::Stopwatch;

    #[test]
    fn without_a_pause_all_wall_time_is_active() {
        let stopwatch = Stopwatch::unlimited();
        std::thread::sleep(Duration::from_millis(1));
        let times = stopwatch.times();
        assert!(times.wall >= Duration::from_millis(1));
        assert_eq!(times.active, times.wall);
    }

    #[test]
    fn active_and_paused_milliseconds_add_up_to_those_of_the_wall_time() {
        let micros = Duration::from_micros;
        for (wall, active, expected) in
            [(0, 0, (0, 0, 0)), (1_999, 1_001, (1, 1, 0)), (10_500, 9_999, (10, 9, 1)), (5_000, 5_000, (5, 5, 0))]
        {
            assert_eq!(Times { wall: micros(wall), active: micros(active) }.milliseconds(), expected);
        }
    }
}
