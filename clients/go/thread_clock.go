package pausewatch

import (
	"maps"
	"slices"
	"sync"
	"time"

	"pausewatch.dev/clients/go/internal/charge"
)

// threadClock is one thread as its stopwatches share it: its paused time, who waits for a change of it, and the question to
// the coordinator that comes before an expiry.
//
//  1. Pausing is one short critical section (and the stopwatches that await other threads too settle their union). Only a resume, a break and its end wake stopwatches, and only those that
//     stand still because of the thread; those that wait for a timer are not among them.
//  2. An answer counts for a stopwatch only if it was asked for after its time ran out: an earlier one may have missed an
//     increment that was acknowledged since (G1).
//
// Locks: a stopwatch's before its thread's before the watch's.
type threadClock struct {
	follower *follower
	threadID string

	mu      sync.Mutex
	tracker charge.PausedTimeTracker
	// Woken when what is known of the thread changes in their favour, or against them.
	waiting map[*Stopwatch]struct{}
	// Woken when a question was answered.
	asking map[*Stopwatch]struct{}
	// Those that await other threads too: they settle at every change, before anybody looks.
	observers map[*Stopwatch]struct{}
	// When the last question that was answered began.
	answered time.Time
}

// sight is what a stopwatch sees of one of its threads, or of all of them, all of one moment.
type sight struct {
	now        time.Time
	pausedTime time.Duration
	paused     bool
	linked     bool
	validUntil time.Time // When a pause that cannot be confirmed stops counting; zero while linked.
	answered   time.Time // When the last question that was answered began; of several threads the earliest. Closed: now, as nobody can be asked.
	// How long a stopwatch that has run out may wait for an answer. The grace is one budget: a pause that could not be
	// confirmed has used some of it, since the stopwatch joined.
	graceLeft time.Duration
}

func newThreadClock(f *follower, threadID string) *threadClock {
	return &threadClock{
		follower: f,
		threadID: threadID,
		tracker:  charge.NewPausedTimeTracker(time.Now(), f.client.grace),
		waiting:  make(map[*Stopwatch]struct{}),
		asking:   make(map[*Stopwatch]struct{}),

		observers: make(map[*Stopwatch]struct{}),
	}
}

// see is called with the stopwatch's lock. With wait, the stopwatch is woken when what it saw changes.
func (t *threadClock) see(s *Stopwatch, f *follow, now time.Time, wait bool) sight {
	t.mu.Lock()
	defer t.mu.Unlock()
	validUntil, disconnected := t.tracker.ValidUntil()
	seen := sight{paused: t.tracker.Paused(now), linked: !disconnected, answered: t.answered}
	seen.pausedTime = f.since.PausedTime(t.tracker.PausedTime(now))
	if disconnected {
		seen.validUntil = validUntil
	}
	if t.tracker.Closed() {
		seen.answered = now
	}
	seen.graceLeft = t.follower.client.grace - t.tracker.UnconfirmedPause(f.since.Joined())
	if wait && (seen.paused || disconnected) {
		t.waiting[s] = struct{}{}
	}
	return seen
}

// join is for a stopwatch that follows it from now on.
func (t *threadClock) join(now time.Time) charge.Since {
	t.mu.Lock()
	defer t.mu.Unlock()
	assumed, place := t.tracker.Join(now)
	return charge.NewSince(now, assumed, place)
}

// pausedTime is how long it has been paused since a stopwatch, whose lock is held, joined it.
func (t *threadClock) pausedTime(f *follow, now time.Time) time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	return f.since.PausedTime(t.tracker.PausedTime(now))
}

// linked: its state is known, and changes of it are heard.
func (t *threadClock) linked() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	_, disconnected := t.tracker.ValidUntil()
	return !disconnected
}

// observe: the stopwatch settles at every change from now on. Again does nothing.
func (t *threadClock) observe(s *Stopwatch) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.observers[s] = struct{}{}
}

// settle has the observers settle; without the lock, which they take.
func (t *threadClock) settle(now time.Time) {
	t.mu.Lock()
	observers := slices.Collect(maps.Keys(t.observers))
	t.mu.Unlock()
	for _, s := range observers {
		s.settle(now)
	}
}

// leave: the stopwatch needs nothing any more.
func (t *threadClock) leave(s *Stopwatch) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.waiting, s)
	if delete(t.asking, s); len(t.asking) == 0 {
		t.follower.set.unconfirm(t.threadID)
	}
	delete(t.observers, s)
}

// heard takes a state from the watch. asked: when it was asked for; zero if it came by itself. watched: so will the
// changes of it.
func (t *threadClock) heard(state PauseState, asked time.Time, watched bool) {
	now := charge.Now{Slept: slept()}
	t.mu.Lock()
	now.At = time.Now()
	var woken []*Stopwatch
	if t.tracker.Take(now, seen(state)) {
		woken = wake(t.waiting)
	}
	if !asked.IsZero() {
		t.answered = asked
		woken = append(woken, wake(t.asking)...)
	}
	if !watched {
		t.tracker.Disconnect(now.At, now.At)
	}
	t.mu.Unlock()
	t.settle(now.At)
	lookAll(woken)
}

// disconnect notes that the watch has not been received any more for so long.
func (t *threadClock) disconnect(silentFor time.Duration) {
	now := time.Now()
	// Until then it was exact.
	t.settle(now.Add(-silentFor))
	t.mu.Lock()
	var woken []*Stopwatch
	if t.tracker.Disconnect(now, now.Add(-silentFor)) {
		woken = wake(t.waiting)
	}
	t.mu.Unlock()
	lookAll(woken)
}

// close: the client is closed. From now on the thread counts as running, and nobody is asked about it.
func (t *threadClock) close() {
	now := time.Now()
	t.settle(now)
	t.mu.Lock()
	t.tracker.Close(now)
	woken := append(wake(t.waiting), wake(t.asking)...)
	t.mu.Unlock()
	lookAll(woken)
}

// wake empties a list and returns who was on it.
func wake(list map[*Stopwatch]struct{}) []*Stopwatch {
	woken := slices.Collect(maps.Keys(list))
	clear(list)
	return woken
}

func lookAll(woken []*Stopwatch) {
	for _, s := range woken {
		s.look()
	}
}

// ask sees to it that a question is asked after this, and that the stopwatch is woken when it was answered.
func (t *threadClock) ask(s *Stopwatch) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.asking[s] = struct{}{}
	t.follower.set.confirm(t.threadID)
}

func seen(state PauseState) charge.Seen {
	// A negative total is no server of ours; it credits nothing.
	return charge.Seen{Version: charge.Version(state.version()), Paused: state.Paused, Total: max(0, state.PausedTotal)}
}
