package charge

import "time"

// SinceJoin is the paused time of a thread since a stopwatch joined it.
//
// The paused time at the join was only assumed; the next state corrects it. The difference may be older than the join,
// so at most the time since the join is credited, and at least the open pause of that state. Time that was settled
// meanwhile is never charged again: it may contain a pause of the stopwatch's own.
type SinceJoin struct {
	joined  time.Time
	assumed time.Duration
	// The baseline to wait for; nil: it has arrived.
	joinBaseline *JoinBaseline
	// The difference between the paused time since the join and the thread's total one.
	shift   time.Duration
	settled time.Duration
}

// NewSinceJoin returns the paused time for a stopwatch that joined at joined: see [PausedTimeTracker.Join].
func NewSinceJoin(joined time.Time, assumed time.Duration, joinBaseline *JoinBaseline) SinceJoin {
	return SinceJoin{joined: joined, assumed: assumed, joinBaseline: joinBaseline, shift: -assumed}
}

// Joined returns when the stopwatch joined.
func (s *SinceJoin) Joined() time.Time { return s.joined }

// PausedTime returns the paused time since the join; pausedTime is the thread's total paused time.
func (s *SinceJoin) PausedTime(pausedTime time.Duration) time.Duration {
	if s.joinBaseline != nil && !s.joinBaseline.At.IsZero() {
		growth := max(s.joinBaseline.PausedFor, add(s.joinBaseline.PausedTime, -s.assumed))
		growth = min(growth, since(s.joined, s.joinBaseline.At))
		s.shift = add(max(growth, s.settled), -s.joinBaseline.PausedTime)
		s.joinBaseline = nil
	}
	return add(pausedTime, s.shift)
}

// Settle notes that the stopwatch has used this paused time since the join.
func (s *SinceJoin) Settle(pausedTime time.Duration) { s.settled = pausedTime }
