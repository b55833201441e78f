package pausewatch

import (
	"math"
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
//     when it could not be asked for the whole disconnect grace. Only its limit on wall time ([WithMaxWall]) ends it
//     without: neither a pause nor a question extends that.
//  2. What is not confirmed ends: cut off, a paused thread counts as paused for the disconnect grace and then runs (G2).
//  3. The charge follows the server's total and is not computed from what was seen, so a pause that nobody here saw is
//     credited like any other (G3).
//  4. Nothing but a look decides: after any wake-up, by a timer or by the thread, everything is read again. Nobody tells
//     a stopwatch that a pause began; it finds out when its timer fires.
//
// It has no goroutine of its own: one timer, and its place in the lists of its thread.
type Stopwatch struct {
	follower *follower
	threadID string
	limit    time.Duration
	began    time.Time
	wallEnd  time.Time // Zero: it has no limit on wall time.
	expired  chan struct{}
	onExpiry func(EndedBy)

	mu      sync.Mutex
	meter   charge.Meter
	follows follows
	timer   *time.Timer
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
	// Paused: it stands still, by a pause of its own, of its thread or of one that it awaits.
	Paused bool
	// Expired is for ever.
	Expired bool
	// EndedBy says which limit it was, once it has expired.
	EndedBy EndedBy
	// Linked: the state of its thread, and of those that it awaits, is known, and changes of it are heard.
	Linked bool
}

// StartStopwatch starts a stopwatch that expires after limit of unpaused time. If the thread is paused, it starts
// paused; pauses before its start are not credited. Stop it when it is not needed any more.
//
// All stopwatches of a client share one stream, and those of a thread what is known of it: a thousand are cheap.
//
// Errors: [*InvalidFieldError]: no thread can have this id. [ErrClosed]: the client is closed.
func (c *Client) StartStopwatch(limit time.Duration, threadID string, opts ...TimeoutOption) (*Stopwatch, error) {
	return c.startStopwatch(limit, threadID, opts, func(EndedBy) {})
}

// startStopwatch: onExpiry runs once, after Expired is closed.
func (c *Client) startStopwatch(limit time.Duration, threadID string, opts []TimeoutOption, onExpiry func(EndedBy)) (*Stopwatch, error) {
	if err := checkThreadID(threadID); err != nil {
		return nil, err
	}
	follower := c.follower()
	if follower == nil {
		return nil, ended(ErrClosed, 0)
	}
	o := timeoutOptionsOf(opts)
	s := &Stopwatch{
		follower: follower,
		threadID: threadID,
		limit:    limit,
		began:    time.Now(),
		expired:  make(chan struct{}),
		onExpiry: onExpiry,
	}
	if o.maxWall != nil {
		s.wallEnd = s.began.Add(max(0, *o.maxWall))
	}
	s.meter = charge.NewMeter(limit, s.began, 0)
	s.mu.Lock()
	s.follows.union = charge.NewPausedUnion(s.began)
	s.follows.add(s.follower.enter(threadID), s.began)
	s.timer = time.AfterFunc(s.inTime(limit, s.began), s.look)
	s.mu.Unlock()
	return s, nil
}

// Expired is closed when the limit is used up and the coordinator has confirmed that the thread runs. A coordinator that
// cannot be asked is waited for at most the disconnect grace. It is closed at the end of its limit on wall time at the
// latest; [Reading.EndedBy] says which it was.
func (s *Stopwatch) Expired() <-chan struct{} { return s.expired }

// Read reads it.
func (s *Stopwatch) Read() Reading {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.read(notEnded)
}

// Pause pauses it until resume is called. Pauses nest: it runs again when the last one ends. Calling resume again does
// nothing.
func (s *Stopwatch) Pause() (resume func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	seen := s.follows.see(s, false)
	s.follows.used(seen.now)
	s.meter.Pause(seen.now, seen.pausedTime)
	return sync.OnceFunc(s.resume)
}

func (s *Stopwatch) resume() {
	s.mu.Lock()
	seen := s.follows.see(s, false)
	s.follows.used(seen.now)
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
		s.end(notEnded)
	}
	return *s.final
}

func (s *Stopwatch) read(endedBy EndedBy) Reading {
	if s.final != nil {
		return *s.final
	}
	seen := s.follows.see(s, false)
	elapsed, remaining := s.meter.Show(seen.now, seen.pausedTime)
	return Reading{
		Wall:      seen.now.Sub(s.began),
		Elapsed:   elapsed,
		Remaining: remaining,
		Paused:    seen.paused || s.meter.Paused(),
		Expired:   endedBy != notEnded,
		EndedBy:   endedBy,
		Linked:    seen.linked,
	}
}

// look decides what is next. It is called after whatever may have changed something.
func (s *Stopwatch) look() {
	s.mu.Lock()
	endedBy := notEnded
	if s.final == nil {
		endedBy = s.decide()
	}
	if endedBy != notEnded {
		s.end(endedBy)
	}
	s.mu.Unlock()
	if endedBy != notEnded {
		close(s.expired)
		s.onExpiry(endedBy)
	}
}

// decide says whether the stopwatch has expired, by which limit; otherwise it sees to it that it is looked at again.
func (s *Stopwatch) decide() EndedBy {
	seen := s.follows.see(s, true)
	left := s.meter.Left(seen.now, seen.pausedTime)
	switch {
	case !s.wallEnd.IsZero() && !seen.now.Before(s.wallEnd):
		return EndedByMaxWall
	case s.meter.Paused():
		// The end of the pause is a look.
		s.asking = time.Time{}
		s.lookAfter(never, seen.now)
	case seen.paused:
		s.asking = time.Time{}
		wait := never
		if !seen.validUntil.IsZero() {
			wait = seen.validUntil.Sub(seen.now)
		}
		s.lookAfter(wait, seen.now)
	case left > 0:
		s.asking = time.Time{}
		s.lookAfter(left, seen.now)
	case s.confirm(seen, seen.now.Add(left)):
		return EndedByLimit
	}
	return notEnded
}

const never = time.Duration(math.MaxInt64)

// lookAfter has it looked at again after d, and at the end of its limit on wall time at the latest.
func (s *Stopwatch) lookAfter(d time.Duration, now time.Time) {
	if d = s.inTime(d, now); d != never {
		s.timer.Reset(d)
	}
}

// inTime is d, or if that is sooner, what is left of the limit on wall time.
func (s *Stopwatch) inTime(d time.Duration, now time.Time) time.Duration {
	if s.wallEnd.IsZero() {
		return d
	}
	return min(d, s.wallEnd.Sub(now))
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
	for _, one := range s.follows.all {
		if one.answered.Before(ranOut) {
			one.thread.ask(s)
		}
	}
	s.lookAfter(giveUp.Sub(seen.now), seen.now)
	return false
}

// end is called with the lock, once.
func (s *Stopwatch) end(endedBy EndedBy) {
	final := s.read(endedBy)
	s.final = &final
	s.timer.Stop()
	for _, one := range s.follows.all {
		one.thread.leave(s)
		s.follower.leave(one.thread.threadID)
	}
}
