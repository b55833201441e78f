package charge

import (
	"maps"
	"slices"
	"time"
)

// PausedUnion is how long any of several threads has been paused: time counts once however many are paused. The
// paused time of each thread, by its own count and under its name, is an argument.
//
// While all threads are connected, the union is exact: [PausedUnion.Settle] marks every change of one, and between
// two marks each was paused throughout or not at all. For a gap, in which one was disconnected, only the length of
// the pauses becomes known, not when they were:
//
//  1. A gap counts as much as possible: the sum of the pauses in it, but at most its length, and at least the longest
//     pause. So no pause is ever charged, and the excess is less than the gap.
//  2. A thread that is removed in a gap counts with its paused time as known by then.
type PausedUnion struct {
	// The union up to the mark, and the paused time of each thread there.
	total  time.Duration
	mark   time.Time
	atMark map[string]time.Duration
	// The paused times, since the mark, of the threads that were removed since.
	gone []time.Duration
}

// NewPausedUnion returns the union of no threads.
func NewPausedUnion(now time.Time) PausedUnion {
	return PausedUnion{mark: now, atMark: make(map[string]time.Duration, 1)}
}

// Add adds a thread, which counts from now on.
func (u *PausedUnion) Add(name string, pausedTime time.Duration) { u.atMark[name] = pausedTime }

// Remove removes a thread, which does not count from now on.
func (u *PausedUnion) Remove(name string, pausedTime time.Duration) {
	u.gone = append(u.gone, add(pausedTime, -u.atMark[name]))
	delete(u.atMark, name)
}

// Settle moves the mark: a thread has changed, or a gap has ended. A time before the mark changes nothing.
func (u *PausedUnion) Settle(now time.Time, pausedTimes map[string]time.Duration) {
	if now.Before(u.mark) {
		return
	}
	u.total, u.mark, u.gone = u.Total(now, pausedTimes), now, nil
	maps.Copy(u.atMark, pausedTimes)
}

// Total returns how long any of the threads has been paused, as far as is known now.
func (u *PausedUnion) Total(now time.Time, pausedTimes map[string]time.Duration) time.Duration {
	grown := slices.Clone(u.gone)
	for name, pausedTime := range pausedTimes {
		grown = append(grown, add(pausedTime, -u.atMark[name]))
	}
	var sum time.Duration
	for _, one := range grown {
		sum = add(sum, one)
	}
	// The longest may be longer than the time since the mark: a correction of what was assumed before.
	return add(u.total, max(slices.Max(grown), min(sum, since(u.mark, now))))
}
