package charge

import (
	"maps"
	"slices"
	"time"
)

// PausedUnion is how long any of several threads has been paused. The paused time of each is an argument, by its own
// count and by its name.
//
// While all of them are heard, that is exact: [PausedUnion.Settle] marks every change of one, and between two marks each
// was paused all the while or not at all. Of a gap, in which one could not be heard, it is learnt how long each was
// paused, but not when:
//
//  1. A gap counts as much as is possible: the sum of their pauses, but at most its length, and at least the longest. So
//     no pause is ever charged, and what is too much is less than the gap.
//  2. A thread that is removed in a gap counts with what is known of it by then.
type PausedUnion struct {
	// The union up to the mark, and the paused time of each thread there.
	total  time.Duration
	mark   time.Time
	atMark map[string]time.Duration
	// How long those were paused that were removed since the mark.
	gone []time.Duration
}

// NewPausedUnion has no threads yet.
func NewPausedUnion(now time.Time) PausedUnion {
	return PausedUnion{mark: now, atMark: make(map[string]time.Duration, 1)}
}

// Add: from now on that thread counts too.
func (u *PausedUnion) Add(name string, pausedTime time.Duration) { u.atMark[name] = pausedTime }

// Remove: from now on that thread does not count.
func (u *PausedUnion) Remove(name string, pausedTime time.Duration) {
	u.gone = append(u.gone, add(pausedTime, -u.atMark[name]))
	delete(u.atMark, name)
}

// Settle moves the mark: a change of a thread, or the end of a gap. What is earlier than the mark changes nothing.
func (u *PausedUnion) Settle(now time.Time, pausedTimes map[string]time.Duration) {
	if now.Before(u.mark) {
		return
	}
	u.total, u.mark, u.gone = u.Total(now, pausedTimes), now, nil
	maps.Copy(u.atMark, pausedTimes)
}

// Total is how long any of them has been paused, as far as is known now.
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
