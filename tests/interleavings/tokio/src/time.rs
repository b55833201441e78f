//! Time that stands still until [`advance`] moves it. Each execution starts with [`reset`].
use crate::point;
use std::{
    cell::RefCell,
    collections::BTreeMap,
    ops::{Add, AddAssign, Sub},
    pin::{Pin, pin},
    sync::OnceLock,
    task::{Context, Poll, Waker},
    time::Duration,
};

/// The state of this thread: an execution runs on one thread.
#[derive(Default)]
struct Time {
    passed: Duration,
    sleepers: BTreeMap<(Instant, u64), Waker>,
    last_sleeper: u64,
}

thread_local! {
    static TIME: RefCell<Time> = RefCell::default();
}

/// Resets the time to zero, without sleepers.
pub fn reset() {
    drop(TIME.take());
}

/// How much time has passed.
pub fn passed() -> Duration {
    TIME.with_borrow(|time| time.passed)
}

/// The time until the next sleeper wakes; `None`: there is none.
pub fn until_next() -> Option<Duration> {
    let next = TIME.with_borrow(|time| time.sleepers.keys().next().map(|(until, _)| *until));
    next.map(|until| until.saturating_duration_since(Instant::now()))
}

/// Advances the time and wakes the sleepers that are due. One step: no other task runs in between.
pub fn advance(by: Duration) {
    let woken = TIME.with_borrow_mut(|time| {
        time.passed += by;
        let now = start() + time.passed;
        let later = time.sleepers.split_off(&(Instant(now + Duration::from_nanos(1)), 0));
        std::mem::replace(&mut time.sleepers, later)
    });
    woken.into_values().for_each(Waker::wake);
}

fn start() -> std::time::Instant {
    static START: OnceLock<std::time::Instant> = OnceLock::new();
    *START.get_or_init(std::time::Instant::now)
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Instant(std::time::Instant);

impl Instant {
    pub fn now() -> Self {
        Self(start() + passed())
    }

    pub fn from_std(instant: std::time::Instant) -> Self {
        Self(instant)
    }

    pub fn into_std(self) -> std::time::Instant {
        self.0
    }

    pub fn checked_add(&self, duration: Duration) -> Option<Self> {
        self.0.checked_add(duration).map(Self)
    }

    pub fn checked_sub(&self, duration: Duration) -> Option<Self> {
        self.0.checked_sub(duration).map(Self)
    }

    pub fn saturating_duration_since(&self, earlier: Self) -> Duration {
        self.0.saturating_duration_since(earlier.0)
    }
}

impl Add<Duration> for Instant {
    type Output = Self;

    fn add(self, duration: Duration) -> Self {
        Self(self.0 + duration)
    }
}

impl AddAssign<Duration> for Instant {
    fn add_assign(&mut self, duration: Duration) {
        self.0 += duration;
    }
}

impl Sub<Duration> for Instant {
    type Output = Self;

    fn sub(self, duration: Duration) -> Self {
        Self(self.0 - duration)
    }
}

pub fn sleep(duration: Duration) -> Sleep {
    sleep_until(Instant::now() + duration)
}

pub fn sleep_until(until: Instant) -> Sleep {
    Sleep { until, asleep: None }
}

#[derive(Debug)]
pub struct Sleep {
    until: Instant,
    /// Its number among the sleepers.
    asleep: Option<u64>,
}

impl Sleep {
    fn get_up(&mut self) {
        if let Some(number) = self.asleep.take() {
            TIME.with_borrow_mut(|time| time.sleepers.remove(&(self.until, number)));
        }
    }
}

impl Future for Sleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        point();
        self.get_up();
        if Instant::now() >= self.until {
            return Poll::Ready(());
        }
        let number = TIME.with_borrow_mut(|time| {
            time.last_sleeper += 1;
            time.sleepers.insert((self.until, time.last_sleeper), context.waker().clone());
            time.last_sleeper
        });
        self.asleep = Some(number);
        Poll::Pending
    }
}

impl Drop for Sleep {
    fn drop(&mut self) {
        self.get_up();
    }
}

/// The time was over first.
#[derive(Debug, PartialEq, Eq)]
pub struct Elapsed(());

pub async fn timeout<F: Future>(duration: Duration, future: F) -> Result<F::Output, Elapsed> {
    timeout_at(Instant::now() + duration, future).await
}

pub async fn timeout_at<F: Future>(until: Instant, future: F) -> Result<F::Output, Elapsed> {
    let (mut future, mut sleep) = (pin!(future), sleep_until(until));
    std::future::poll_fn(|context| {
        // As in tokio: a result counts, even if the time is over.
        if let Poll::Ready(output) = future.as_mut().poll(context) {
            return Poll::Ready(Ok(output));
        }
        Pin::new(&mut sleep).poll(context).map(|()| Err(Elapsed(())))
    })
    .await
}
