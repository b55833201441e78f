package pausewatch

import (
	"sync"
	"time"

	"pausewatch.dev/clients/go/internal/charge"
)

// However short the grace is, a question to the coordinator gets this much time.
const shortestAsk = 250 * time.Millisecond

// Stopwatch is a limit on the time of one command, which does not run while the command's thread is paused, nor while
// the stopwatch is paused itself. It is safe for any number of goroutines. Made by [Client.StartStopwatch].
//
//  1. It expires only after the coordinator, asked once more after the time ran out, said that the thread runs (G1), or
//     when it could not be asked for the whole disconnect grace.
//  2. What is not confirmed ends: cut off, a paused thread counts as paused for the disconnect grace and then runs (G2).
//  3. The charge follows the server's total and is not computed from what was seen, so a pause that nobody here saw is
//     credited like any other (G3).
//  4. Nothing but a look decides: after any wake-up, by a timer or by the thread, everything is read again. Nobody tells
//     a stopwatch that a pause began; it finds out when its timer fires.
//
// It has no goroutine of its own: one timer, and its place in the lists of its thread.
type Stopwatch struct {
	follower *follower
	thread   *threadClock
	threadID string
	limit    time.Duration
	began    time.Time
	expired  chan struct{}
	onExpiry func()

	mu    sync.Mutex
	meter charge.Meter
	// Where it finds its place; nil: it has. Guarded by the thread's lock.
	place *charge.Place
	timer *time.Timer
	// When it first stood at its end, waiting for an answer; zero: it does not.
	asking time.Time
	// What it read at its end; nil while it runs.
	final *Reading
}

// Reading is what a stopwatch says, all of one moment. At its end, by expiry or [Stopwatch.Stop], it stays as it is.
type Reading struct {
	// Wall is the time since its start.
	Wall time.Duration
	// Elapsed is the part of it that was charged. It never goes backwards: where a pause is learnt of only after a lost
	// connection, it stands still until that time is made up for.
	Elapsed time.Duration
	// Remaining is the limit less Elapsed, at least 0. 0 does not mean expired: the coordinator may have to be asked
	// first.
	Remaining time.Duration
	// Paused: it stands still, by a pause of its own or of its thread.
	Paused bool
	// Expired is for ever.
	Expired bool
	// Linked: the state of its thread is known, and changes of it are heard.
	Linked bool
}

// StartStopwatch starts a stopwatch that expires after limit of unpaused time. If the thread is paused, it starts
// paused; pauses before its start are not credited. Stop it when it is not needed any more.
//
// All stopwatches of a client share one stream, and those of a thread what is known of it: a thousand are cheap.
//
// Errors: [*InvalidFieldError]: no thread can have this id.
func (c *Client) StartStopwatch(limit time.Duration, threadID string) (*Stopwatch, error) {
	return c.startStopwatch(limit, threadID, func() {})
}

// startStopwatch: onExpiry runs once, after Expired is closed.
func (c *Client) startStopwatch(limit time.Duration, threadID string, onExpiry func()) (*Stopwatch, error) {
	if err := checkThreadID(threadID); err != nil {
		return nil, err
	}
	s := &Stopwatch{
		follower: c.follower(),
		threadID: threadID,
		limit:    limit,
		began:    time.Now(),
		expired:  make(chan struct{}),
		onExpiry: onExpiry,
	}
	s.thread = s.follower.enter(threadID)
	s.thread.join(s)
	s.mu.Lock()
	s.timer = time.AfterFunc(limit, s.look)
	s.mu.Unlock()
	return s, nil
}

// Expired is closed when the limit is used up and the coordinator has confirmed that the thread runs. A coordinator that
// cannot be asked is waited for at most the disconnect grace.
func (s *Stopwatch) Expired() <-chan struct{} { return s.expired }

// Read reads it.
func (s *Stopwatch) Read() Reading {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.read(false)
}

// Pause pauses it until resume is called. Pauses nest: it runs again when the last one ends. Calling resume again does
// nothing.
func (s *Stopwatch) Pause() (resume func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	seen := s.thread.see(s, false)
	s.meter.Pause(seen.now, seen.pausedTime)
	return sync.OnceFunc(s.resume)
}

func (s *Stopwatch) resume() {
	s.mu.Lock()
	seen := s.thread.see(s, false)
	last := s.meter.Resume(seen.now, seen.pausedTime)
	s.mu.Unlock()
	if last {
		s.look()
	}
}

// Stop ends it before its time: it will not expire any more. It returns the last reading. Calling it again returns the
// same.
func (s *Stopwatch) Stop() Reading {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.final == nil {
		s.end(false)
	}
	return *s.final
}

func (s *Stopwatch) read(expired bool) Reading {
	if s.final != nil {
		return *s.final
	}
	seen := s.thread.see(s, false)
	elapsed, remaining := s.meter.Show(seen.now, seen.pausedTime)
	return Reading{
		Wall:      seen.now.Sub(s.began),
		Elapsed:   elapsed,
		Remaining: remaining,
		Paused:    seen.paused || s.meter.Paused(),
		Expired:   expired,
		Linked:    seen.linked,
	}
}

// look decides what is next. It is called after whatever may have changed something.
func (s *Stopwatch) look() {
	s.mu.Lock()
	expired := s.final == nil && s.decide()
	if expired {
		s.end(true)
	}
	s.mu.Unlock()
	if expired {
		close(s.expired)
		s.onExpiry()
	}
}

// decide says whether the stopwatch has expired; otherwise it sees to it that it is looked at again.
func (s *Stopwatch) decide() (expired bool) {
	seen := s.thread.see(s, true)
	left := s.meter.Left(seen.now, seen.pausedTime)
	switch {
	case s.meter.Paused():
		// The end of the pause is a look.
		s.asking = time.Time{}
	case seen.paused:
		s.asking = time.Time{}
		if !seen.linked {
			s.timer.Reset(seen.validUntil.Sub(seen.now))
		}
	case left > 0:
		s.asking = time.Time{}
		s.timer.Reset(left)
	default:
		return s.confirm(seen, seen.now.Add(left))
	}
	return false
}

// confirm says whether what ran out may expire; otherwise it asks.
func (s *Stopwatch) confirm(seen sight, ranOut time.Time) (expired bool) {
	if !seen.answered.Before(ranOut) {
		return true
	}
	if s.asking.IsZero() {
		s.asking = seen.now
	}
	giveUp := ranOut.Add(seen.graceLeft)
	if enough := s.asking.Add(shortestAsk); enough.After(giveUp) {
		giveUp = enough
	}
	if !seen.now.Before(giveUp) {
		return true
	}
	s.thread.ask(s)
	s.timer.Reset(giveUp.Sub(seen.now))
	return false
}

// end is called with the lock, once.
func (s *Stopwatch) end(expired bool) {
	final := s.read(expired)
	s.final = &final
	s.timer.Stop()
	s.thread.leave(s)
	s.follower.leave(s.threadID)
}
