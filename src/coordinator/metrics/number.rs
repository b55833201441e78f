//! Numbers that many threads increase and one reads. They are relaxed atomics, because they order no other memory
//! accesses.
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// A number that only increases.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    /// Starts at 0.
    pub(super) const fn new() -> Self {
        Counter(AtomicU64::new(0))
    }

    /// One more.
    pub fn add_one(&self) {
        self.add(1);
    }

    /// Adds `more`.
    pub fn add(&self, more: u64) {
        self.0.fetch_add(more, Relaxed);
    }

    /// The present value.
    pub fn get(&self) -> u64 {
        self.0.load(Relaxed)
    }
}

/// A histogram. Values are integers (durations in nanoseconds), so that adding to the sum needs no loop.
#[derive(Debug)]
pub struct Histogram {
    /// The upper bound of each bucket except the last, which has none.
    bounds: &'static [u64],
    buckets: Box<[AtomicU64]>,
    sum: AtomicU64,
}

/// The values of a [`Histogram`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Distribution {
    /// Bounds of the buckets.
    pub bounds: &'static [u64],
    /// Values in each bucket; one more than there are bounds.
    pub buckets: Vec<u64>,
    /// The sum of all values.
    pub sum: u64,
}

impl Histogram {
    /// `bounds`: rising.
    pub fn new(bounds: &'static [u64]) -> Self {
        Histogram { bounds, buckets: (0..=bounds.len()).map(|_| AtomicU64::new(0)).collect(), sum: AtomicU64::new(0) }
    }

    /// Records a value.
    pub fn observe(&self, value: u64) {
        self.buckets[self.bounds.partition_point(|&bound| bound < value)].fetch_add(1, Relaxed);
        self.sum.fetch_add(value, Relaxed);
    }

    /// Records a duration.
    pub fn observe_time(&self, time: Duration) {
        self.observe(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX));
    }

    /// The recorded values.
    pub fn read(&self) -> Distribution {
        let buckets = self.buckets.iter().map(|bucket| bucket.load(Relaxed)).collect();
        Distribution { bounds: self.bounds, buckets, sum: self.sum.load(Relaxed) }
    }
}

impl Distribution {
    /// Adds what another histogram with the same bounds has seen.
    pub(super) fn merge(&mut self, other: &Distribution) {
        self.buckets.iter_mut().zip(&other.buckets).for_each(|(sum, more)| *sum += more);
        self.sum = self.sum.wrapping_add(other.sum);
    }

    /// How many values.
    pub fn count(&self) -> u64 {
        self.buckets.iter().sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_at_a_bound_belongs_below_it() {
        let histogram = Histogram::new(&[10, 100]);
        [0, 10, 11, 100, 101].iter().for_each(|&value| histogram.observe(value));
        let seen = histogram.read();
        assert_eq!((seen.buckets.as_slice(), seen.sum, seen.count()), (&[2, 2, 1][..], 222, 5));
    }
}
