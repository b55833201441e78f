package pausewatch

import (
	"time"

	"pausewatch.dev/clients/go/internal/charge"
)

// follows are the threads whose pauses stop one stopwatch: its own, and those that it awaits. They are guarded by the
// stopwatch's lock.
//
//  1. A thread that is awaited several times is followed once, until the last of these waits ends.
//  2. The union of their pauses is settled at every change while all of them are heard, and not within a gap: see
//     [charge.PausedUnion].
type follows struct {
	// Its own first.
	all   []*follow
	union charge.PausedUnion
}

// follow is one of them.
type follow struct {
	thread  *threadClock
	since   charge.Since
	awaited int
	// When the last question that was answered began, as seen last.
	answered time.Time
}

func (f *follows) find(threadID string) *follow {
	for _, one := range f.all {
		if one.thread.threadID == threadID {
			return one
		}
	}
	return nil
}

// add follows one more thread.
func (f *follows) add(thread *threadClock, now time.Time) {
	one := &follow{thread: thread, since: thread.join(now), awaited: 1}
	f.all = append(f.all, one)
	f.union.Add(thread.threadID, thread.pausedTime(one, now))
}

// remove takes one away that is awaited no more.
func (f *follows) remove(gone *follow, now time.Time) {
	f.union.Remove(gone.thread.threadID, gone.thread.pausedTime(gone, now))
	rest := make([]*follow, 0, len(f.all)-1)
	for _, one := range f.all {
		if one != gone {
			rest = append(rest, one)
		}
	}
	f.all = rest
}

// settle marks that one of them changes, unless it is within a gap.
func (f *follows) settle(now time.Time) {
	pausedTimes := make(map[string]time.Duration, len(f.all))
	for _, one := range f.all {
		if !one.thread.linked() {
			return
		}
		pausedTimes[one.thread.threadID] = one.thread.pausedTime(one, now)
	}
	f.union.Settle(now, pausedTimes)
}

// see is what a stopwatch sees of its threads, all of one moment. With wait, it is woken when what it saw changes.
func (f *follows) see(s *Stopwatch, wait bool) sight {
	now := time.Now()
	seen := sight{now: now, linked: true, graceLeft: never}
	pausedTimes := make(map[string]time.Duration, len(f.all))
	for i, one := range f.all {
		part := one.thread.see(s, one, now, wait)
		pausedTimes[one.thread.threadID], one.answered = part.pausedTime, part.answered
		seen.paused = seen.paused || part.paused
		seen.linked = seen.linked && part.linked
		// The grace is one budget, whichever thread has used it.
		seen.graceLeft = min(seen.graceLeft, part.graceLeft)
		if part.paused && !part.linked && (seen.validUntil.IsZero() || part.validUntil.Before(seen.validUntil)) {
			seen.validUntil = part.validUntil
		}
		if i == 0 || part.answered.Before(seen.answered) {
			seen.answered = part.answered
		}
	}
	seen.pausedTime = f.union.Total(now, pausedTimes)
	return seen
}

// used notes that the stopwatch has used the paused time of that moment.
func (f *follows) used(now time.Time) {
	for _, one := range f.all {
		one.since.Settle(one.thread.pausedTime(one, now))
	}
}
