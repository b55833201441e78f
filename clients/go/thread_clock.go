package pausewatch

import (
	"maps"
	"slices"
	"sync"
	"time"

	"pausewatch.dev/clients/go/internal/backoff"
	"pausewatch.dev/clients/go/internal/charge"
)

// threadClock is one thread as its stopwatches share it: its paused time, who waits for a change of it, and the question to
// the coordinator that comes before an expiry.
//
//  1. Pausing is one short critical section. Only a resume, a break and its end wake stopwatches, and only those that
//     stand still because of the thread; those that wait for a timer are not among them.
//  2. At most one call is in flight at a time. An answer counts for a stopwatch only if the question began
//     after its time ran out: an earlier one may have missed an increment that was acknowledged since (G1).
//
// Locks: a stopwatch's before its thread's.
type threadClock struct {
	client   *Client
	threadID string

	mu      sync.Mutex
	tracker charge.PausedTimeTracker
	// Woken when what is known of the thread changes in their favour, or against them.
	waiting map[*Stopwatch]struct{}
	// Woken when a question was answered.
	asking      map[*Stopwatch]struct{}
	questioning bool
	// When the last question that was answered began.
	answered time.Time
}

// sight is what a stopwatch sees of its thread, all of one moment.
type sight struct {
	now        time.Time
	pausedTime time.Duration
	paused     bool
	linked     bool
	validUntil time.Time // When a pause that cannot be confirmed stops counting; zero while linked.
	answered   time.Time
	// How long a stopwatch that has run out may wait for an answer. The grace is one budget: a pause that could not be
	// confirmed has used some of it, since the stopwatch joined.
	graceLeft time.Duration
}

func newThreadClock(client *Client, threadID string) *threadClock {
	return &threadClock{
		client:   client,
		threadID: threadID,
		tracker:  charge.NewPausedTimeTracker(time.Now(), client.grace),
		waiting:  make(map[*Stopwatch]struct{}),
		asking:   make(map[*Stopwatch]struct{}),
	}
}

// see is called with the stopwatch's lock. With wait, the stopwatch is woken when what it saw changes.
func (t *threadClock) see(s *Stopwatch, wait bool) sight {
	t.mu.Lock()
	defer t.mu.Unlock()
	if s.place != nil && !s.place.At.IsZero() {
		s.meter.Place(s.place.At, s.place.PausedTime)
		s.place = nil
	}
	now := time.Now()
	validUntil, disconnected := t.tracker.ValidUntil()
	seen := sight{now: now, pausedTime: t.tracker.PausedTime(now), paused: t.tracker.Paused(now), linked: !disconnected, answered: t.answered}
	if disconnected {
		seen.validUntil = validUntil
	}
	seen.graceLeft = t.client.grace - t.tracker.UnconfirmedPause(s.began)
	if wait && (seen.paused || disconnected) {
		t.waiting[s] = struct{}{}
	}
	return seen
}

// join gives a stopwatch its place; it is called before others know the stopwatch.
func (t *threadClock) join(s *Stopwatch) {
	t.mu.Lock()
	defer t.mu.Unlock()
	var pausedTime time.Duration
	pausedTime, s.place = t.tracker.Join(s.began)
	s.meter = charge.NewMeter(s.limit, s.began, pausedTime)
}

// leave: the stopwatch needs nothing any more.
func (t *threadClock) leave(s *Stopwatch) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.waiting, s)
	delete(t.asking, s)
}

// watched takes a state from the watch.
func (t *threadClock) watched(event StateEvent) {
	slept := slept()
	t.mu.Lock()
	var woken []*Stopwatch
	if t.tracker.Watched(charge.Now{At: time.Now(), Slept: slept}, seen(event.State), event.Gap) {
		woken = wake(t.waiting)
	}
	t.mu.Unlock()
	lookAll(woken)
}

// disconnect notes that the watch has not been received any more for so long.
func (t *threadClock) disconnect(silentFor time.Duration) {
	now := time.Now()
	t.mu.Lock()
	var woken []*Stopwatch
	if t.tracker.Disconnect(now, now.Add(-silentFor)) {
		woken = wake(t.waiting)
	}
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

// ask sees to it that a question begins after this, and that the stopwatch is woken when it was answered.
func (t *threadClock) ask(s *Stopwatch) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.asking[s] = struct{}{}
	if !t.questioning && t.client.life.Err() == nil {
		t.questioning = true
		go t.question()
	}
}

// question asks until it was answered and nobody wants another answer.
func (t *threadClock) question() {
	for {
		t.mu.Lock()
		if len(t.asking) == 0 || t.client.life.Err() != nil {
			t.questioning = false
			t.mu.Unlock()
			return
		}
		known := t.tracker.Version()
		t.mu.Unlock()

		began := time.Now()
		state, err := t.client.GetPauseState(t.client.life, t.threadID)
		if err != nil {
			select {
			case <-time.After(backoff.Jitter(askAgain)):
			case <-t.client.life.Done():
			}
			continue
		}
		slept := slept()
		t.mu.Lock()
		woken := wake(t.asking)
		if t.tracker.Asked(charge.Now{At: time.Now(), Slept: slept}, seen(state), known) {
			woken = append(woken, wake(t.waiting)...)
		}
		t.answered = began
		t.mu.Unlock()
		lookAll(woken)
	}
}

func seen(state PauseState) charge.Seen {
	// A negative total is no server of ours; it credits nothing.
	return charge.Seen{Version: charge.Version(state.version()), Paused: state.Paused, Total: max(0, state.PausedTotal)}
}
