package pausewatch

import (
	"maps"
	"slices"
	"sync"
	"time"

	"pausewatch.dev/clients/go/internal/charge"
)

// threadClock is one thread as its stopwatches share it: its paused time, the stopwatches to wake after a change, and
// the confirmation by the coordinator that precedes an expiry.
//
//  1. Pausing is one short critical section (and stopwatches that also await other threads settle their union). Only
//     a resume, a disconnect and a reconnect wake stopwatches, and only those that the thread stops; stopwatches that
//     wait for a timer are not among them.
//  2. A confirmation counts for a stopwatch only if its request was sent after the stopwatch ran out: an earlier one
//     may have missed an increment that was acknowledged since (G1).
//
// Lock order: a stopwatch's, its thread's, the watch's.
type threadClock struct {
	follower *follower
	threadID string

	mu      sync.Mutex
	tracker charge.PausedTimeTracker
	// Woken by a resume, a disconnect and a reconnect.
	waiters map[*Stopwatch]struct{}
	// Woken when a confirmation has arrived.
	confirming map[*Stopwatch]struct{}
	// Stopwatches that also await other threads: they settle at every change, before any check.
	observers map[*Stopwatch]struct{}
	// When the request of the last confirmation was sent.
	confirmedAt time.Time
}

// threadView is the state of a thread, or of all threads of a stopwatch, at one moment.
type threadView struct {
	now         time.Time
	pausedTime  time.Duration
	paused      bool
	connected   bool
	validUntil  time.Time // When a pause that cannot be confirmed stops counting; zero while linked.
	confirmedAt time.Time // When the request of the last confirmation was sent; of several threads the earliest. After a close: now, because none can be requested.
	// How long a stopwatch that has run out may wait for a confirmation. The grace is one budget: a pause that could
	// not be confirmed has used some of it, since the stopwatch joined.
	graceLeft time.Duration
}

func newThreadClock(f *follower, threadID string) *threadClock {
	return &threadClock{
		follower:   f,
		threadID:   threadID,
		tracker:    charge.NewPausedTimeTracker(time.Now(), f.client.grace),
		waiters:    make(map[*Stopwatch]struct{}),
		confirming: make(map[*Stopwatch]struct{}),

		observers: make(map[*Stopwatch]struct{}),
	}
}

// view is called with the stopwatch's lock held. With wait, the stopwatch is woken when the state changes.
func (t *threadClock) view(s *Stopwatch, f *member, now time.Time, wait bool) threadView {
	t.mu.Lock()
	defer t.mu.Unlock()
	validUntil, disconnected := t.tracker.ValidUntil()
	view := threadView{paused: t.tracker.Paused(now), connected: !disconnected, confirmedAt: t.confirmedAt}
	view.pausedTime = f.since.PausedTime(t.tracker.PausedTime(now))
	if disconnected {
		view.validUntil = validUntil
	}
	if t.tracker.Closed() {
		view.confirmedAt = now
	}
	view.graceLeft = t.follower.client.grace - t.tracker.UnconfirmedPause(f.since.Joined())
	if wait && (view.paused || disconnected) {
		t.waiters[s] = struct{}{}
	}
	return view
}

// join starts following the thread for a stopwatch.
func (t *threadClock) join(now time.Time) charge.SinceJoin {
	t.mu.Lock()
	defer t.mu.Unlock()
	assumed, place := t.tracker.Join(now)
	return charge.NewSinceJoin(now, assumed, place)
}

// pausedTime returns the paused time since a stopwatch joined. The stopwatch's lock is held.
func (t *threadClock) pausedTime(f *member, now time.Time) time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	return f.since.PausedTime(t.tracker.PausedTime(now))
}

// isConnected reports whether the state of the thread is known and up to date.
func (t *threadClock) isConnected() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	_, disconnected := t.tracker.ValidUntil()
	return !disconnected
}

// addObserver makes the stopwatch settle at every change from now on. Adding it again does nothing.
func (t *threadClock) addObserver(s *Stopwatch) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.observers[s] = struct{}{}
}

// settle makes the observers settle. Called without the thread's lock, because they take it.
func (t *threadClock) settle(now time.Time) {
	t.mu.Lock()
	observers := slices.Collect(maps.Keys(t.observers))
	t.mu.Unlock()
	for _, s := range observers {
		s.settle(now)
	}
}

// forget removes the stopwatch from all lists.
func (t *threadClock) forget(s *Stopwatch) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.waiters, s)
	if delete(t.confirming, s); len(t.confirming) == 0 {
		t.follower.set.unconfirm(t.threadID)
	}
	delete(t.observers, s)
}

// apply applies a state from the watch. asked: when its confirmation was requested; zero if it is no confirmation.
// watched: whether the watch also delivers changes of the thread.
func (t *threadClock) apply(state PauseState, asked time.Time, watched bool) {
	now := charge.LocalTime{Slept: slept()}
	t.mu.Lock()
	now.At = time.Now()
	var woken []*Stopwatch
	if t.tracker.Apply(now, observedState(state)) {
		woken = wake(t.waiters)
	}
	if !asked.IsZero() {
		t.confirmedAt = asked
		woken = append(woken, wake(t.confirming)...)
	}
	if !watched {
		t.tracker.Disconnect(now.At, now.At)
	}
	t.mu.Unlock()
	t.settle(now.At)
	checkAll(woken)
}

// disconnect notes that the watch has received nothing for this long.
func (t *threadClock) disconnect(silentFor time.Duration) {
	now := time.Now()
	// Until then the state was exact.
	t.settle(now.Add(-silentFor))
	t.mu.Lock()
	var woken []*Stopwatch
	if t.tracker.Disconnect(now, now.Add(-silentFor)) {
		woken = wake(t.waiters)
	}
	t.mu.Unlock()
	checkAll(woken)
}

// close notes that the client is closed. From now on the thread counts as running, without confirmations.
func (t *threadClock) close() {
	now := time.Now()
	t.settle(now)
	t.mu.Lock()
	t.tracker.Close(now)
	woken := append(wake(t.waiters), wake(t.confirming)...)
	t.mu.Unlock()
	checkAll(woken)
}

// wake empties a list and returns its stopwatches.
func wake(list map[*Stopwatch]struct{}) []*Stopwatch {
	woken := slices.Collect(maps.Keys(list))
	clear(list)
	return woken
}

func checkAll(woken []*Stopwatch) {
	for _, s := range woken {
		s.check()
	}
}

// confirm requests a confirmation that is sent after this call, and wakes the stopwatch when it arrives.
func (t *threadClock) confirm(s *Stopwatch) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.confirming[s] = struct{}{}
	t.follower.set.confirm(t.threadID)
}

func observedState(state PauseState) charge.ObservedState {
	// Our servers never send negative times; they credit nothing.
	return charge.ObservedState{
		Version:   state.version(),
		Paused:    state.Paused,
		Total:     max(0, state.PausedTotal),
		PausedFor: max(0, state.PausedFor),
	}
}
