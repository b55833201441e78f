package charge

import "time"

// Since is the paused time of a thread since a stopwatch joined it.
//
// At which paused time it joined was only assumed; the next state says it. The difference may be from before the join,
// so it counts no more than the time since. What was settled meanwhile is never charged again: a pause of the
// stopwatch's own may have been in it.
type Since struct {
	joined  time.Time
	assumed time.Duration
	// Where it finds its place; nil: it has.
	place *Place
	// From the thread's paused time to the one since it joined.
	shift   time.Duration
	settled time.Duration
}

// NewSince is for a stopwatch that joined then: see [PausedTimeTracker.Join].
func NewSince(joined time.Time, assumed time.Duration, place *Place) Since {
	return Since{joined: joined, assumed: assumed, place: place, shift: -assumed}
}

// Joined is when it joined.
func (s *Since) Joined() time.Time { return s.joined }

// PausedTime is how long the thread has been paused since; pausedTime is what it has been paused in all.
func (s *Since) PausedTime(pausedTime time.Duration) time.Duration {
	if s.place != nil && !s.place.At.IsZero() {
		growth := min(max(0, add(s.place.PausedTime, -s.assumed)), since(s.joined, s.place.At))
		s.shift = add(max(growth, s.settled), -s.place.PausedTime)
		s.place = nil
	}
	return add(pausedTime, s.shift)
}

// Settle notes that the stopwatch has used that paused time since it joined.
func (s *Since) Settle(pausedTime time.Duration) { s.settled = pausedTime }
