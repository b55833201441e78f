package pausewatch

import (
	"math"
	"sync"
	"time"

	"pausewatch.dev/clients/go/internal/charge"
)

// The minimum time for a confirmation, even if less of the grace is left.
const minConfirmationTime = 250 * time.Millisecond

// If a check finds later than lateAfter that the time ran out, the process was stopped, or the link was dead without
// notice, so that no confirmation could be requested earlier. Then the confirmation has a time limit of its own,
// within which a new stream can be opened.
const (
	lateAfter            = time.Second
	lateConfirmationTime = 2 * time.Second
)

// Stopwatch is a limit on the time of one command that does not count the time while the command's thread is paused,
// or while the stopwatch itself is paused. It is safe for concurrent use. Created by [Client.StartStopwatch].
//
//  1. It expires only after the coordinator, asked after the time ran out, has confirmed that the thread runs (G1),
//     or after the coordinator was unreachable for the whole disconnect grace. Only the limit on wall time
//     ([WithMaxWall]) ends it without a confirmation: neither a pause nor a confirmation extends that limit.
//  2. An unconfirmed pause ends: while disconnected, a paused thread counts as paused for the disconnect grace and
//     then as running (G2).
//  3. The charged time follows the server's total instead of the events received, so a pause that was not seen here is
//     credited like any other (G3).
//  4. Only a check decides: after any wake-up, by the timer or by the thread, the state is read again. A stopwatch is
//     not notified when a pause begins; the check when its timer fires finds the pause.
//
// It has no goroutine of its own: only one timer, and an entry in the lists of its threads.
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
	// When the wait for a confirmation began; zero: there is none.
	confirmingSince time.Time
	// The last reading, after its end; nil while it runs.
	final *Reading
}

// Reading is a reading of a stopwatch at one moment. After it has expired or [Stopwatch.Stop] was called, it does not
// change.
type Reading struct {
	// Wall is the time since the start.
	Wall time.Duration
	// Elapsed is the part of it that was charged. It never decreases: when a reconnect reveals a pause that was charged
	// meanwhile, it stands still for as long.
	Elapsed time.Duration
	// Remaining is the limit minus Elapsed, at least 0. 0 does not mean expired: the coordinator may have to confirm it
	// first.
	Remaining time.Duration
	// Paused: a pause of the stopwatch, of its thread or of an awaited thread stops it.
	Paused bool
	// Expired: it has expired, which is final.
	Expired bool
	// EndedBy is the limit that ended it, once it has expired.
	EndedBy EndedBy
	// Linked: the states of its thread and of the awaited threads are known and up to date.
	Linked bool
}

// StartStopwatch starts a stopwatch that expires after limit of unpaused time. If the thread is paused, it starts
// paused; pauses before its start are not credited. Call [Stopwatch.Stop] when it is not needed any more.
//
// All stopwatches of a client share one stream, and those of one thread share its state: a thousand are cheap.
//
// Errors: [*InvalidFieldError]: no thread can have this id. [ErrClosed]: the client is closed.
func (c *Client) StartStopwatch(limit time.Duration, threadID string, opts ...TimeoutOption) (*Stopwatch, error) {
	return c.startStopwatch(limit, threadID, opts, func(EndedBy) {})
}

// startStopwatch is StartStopwatch with a function that runs once, after Expired is closed.
func (c *Client) startStopwatch(limit time.Duration, threadID string, opts []TimeoutOption, onExpiry func(EndedBy)) (*Stopwatch, error) {
	if err := checkThreadID(threadID); err != nil {
		return nil, err
	}
	follower := c.follower()
	if follower == nil {
		return nil, callEnded(ErrClosed, 0)
	}
	o := timeoutOptionsOf(opts)
	// Before the stopwatch starts: the paused time of a new thread begins here, and time before that is charged.
	thread := follower.acquire(threadID)
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
	s.follows.add(thread, s.began)
	s.timer = time.AfterFunc(s.limitByWall(limit, s.began), s.check)
	s.mu.Unlock()
	return s, nil
}

// Expired returns a channel that is closed when the limit is used up and the coordinator has confirmed that the
// thread runs. If the coordinator is unreachable, it is closed after at most the disconnect grace; and at the limit
// on wall time at the latest. [Reading.EndedBy] says which limit it was.
func (s *Stopwatch) Expired() <-chan struct{} { return s.expired }

// Read returns the current reading.
func (s *Stopwatch) Read() Reading {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.read(notEnded)
}

// Pause pauses the stopwatch until resume is called. Pauses nest: it runs again when the last one ends. Calling
// resume again does nothing.
func (s *Stopwatch) Pause() (resume func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.final != nil {
		return func() {}
	}
	view := s.follows.view(s, false)
	s.follows.markUsed(view.now)
	s.meter.Pause(view.now, view.pausedTime)
	return sync.OnceFunc(s.resume)
}

func (s *Stopwatch) resume() {
	s.mu.Lock()
	view := s.follows.view(s, false)
	s.follows.markUsed(view.now)
	last := s.meter.Resume(view.now, view.pausedTime)
	s.mu.Unlock()
	if last {
		s.check()
	}
}

// Stop ends the stopwatch, which then never expires, and returns its last reading. Calling it again returns the same.
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
	view := s.follows.view(s, false)
	elapsed, remaining := s.meter.Report(view.now, view.pausedTime)
	return Reading{
		Wall:      view.now.Sub(s.began),
		Elapsed:   elapsed,
		Remaining: remaining,
		Paused:    view.paused || s.meter.Paused(),
		Expired:   endedBy != notEnded,
		EndedBy:   endedBy,
		Linked:    view.connected,
	}
}

// check decides what to do next. It is called after every event that may have changed something.
func (s *Stopwatch) check() {
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

// decide returns the limit that ended the stopwatch; otherwise it makes sure that there will be another check.
func (s *Stopwatch) decide() EndedBy {
	view := s.follows.view(s, true)
	left := s.meter.Left(view.now, view.pausedTime)
	switch {
	case !s.wallEnd.IsZero() && !view.now.Before(s.wallEnd):
		return EndedByMaxWall
	case s.meter.Paused():
		// The end of the pause causes a check.
		s.confirmingSince = time.Time{}
		s.checkAfter(never, view.now)
	case view.paused:
		s.confirmingSince = time.Time{}
		wait := never
		if !view.validUntil.IsZero() {
			wait = view.validUntil.Sub(view.now)
		}
		s.checkAfter(wait, view.now)
	case left > 0:
		s.confirmingSince = time.Time{}
		s.checkAfter(left, view.now)
	case s.confirm(view, view.now.Add(left)):
		return EndedByLimit
	}
	return notEnded
}

const never = time.Duration(math.MaxInt64)

// checkAfter schedules a check after d, and at the end of the limit on wall time at the latest.
func (s *Stopwatch) checkAfter(d time.Duration, now time.Time) {
	if d = s.limitByWall(d, now); d != never {
		s.timer.Reset(d)
	}
}

// limitByWall returns d, or what is left of the limit on wall time if that is less.
func (s *Stopwatch) limitByWall(d time.Duration, now time.Time) time.Duration {
	if s.wallEnd.IsZero() {
		return d
	}
	return min(d, s.wallEnd.Sub(now))
}

// confirm returns whether the stopwatch, which ran out at ranOut, may expire; otherwise it requests a confirmation.
func (s *Stopwatch) confirm(view threadView, ranOut time.Time) (expired bool) {
	if !view.confirmedAt.Before(ranOut) {
		return true
	}
	if s.confirmingSince.IsZero() {
		s.confirmingSince = view.now
	}
	giveUp, least := ranOut.Add(view.graceLeft), minConfirmationTime
	if s.confirmingSince.Sub(ranOut) > lateAfter {
		least = lateConfirmationTime
	}
	if enough := s.confirmingSince.Add(least); enough.After(giveUp) {
		giveUp = enough
	}
	if !view.now.Before(giveUp) {
		return true
	}
	for _, one := range s.follows.all {
		if one.confirmedAt.Before(ranOut) {
			one.thread.confirm(s)
		}
	}
	s.checkAfter(giveUp.Sub(view.now), view.now)
	return false
}

// end is called once, with the lock held.
func (s *Stopwatch) end(endedBy EndedBy) {
	final := s.read(endedBy)
	s.final = &final
	s.timer.Stop()
	for _, one := range s.follows.all {
		one.thread.forget(s)
		s.follower.release(one.thread.threadID)
	}
}
