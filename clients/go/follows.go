package pausewatch

import (
	"time"

	"pausewatch.dev/clients/go/internal/charge"
)

// follows are the threads whose pauses stop one stopwatch: its own, and those that it awaits. The stopwatch's lock
// guards them.
//
//  1. A thread that is awaited several times is followed once, until the last of these waits ends.
//  2. The union of their pauses is settled at every change while all of them are connected, and not within a gap: see
//     [charge.PausedUnion].
type follows struct {
	// The stopwatch's own thread is the first.
	all   []*member
	union charge.PausedUnion
}

// member is one of these threads.
type member struct {
	thread  *threadClock
	since   charge.SinceJoin
	awaited int
	// When the request of the last confirmation was sent, as last seen.
	confirmedAt time.Time
}

func (f *follows) find(threadID string) *member {
	for _, one := range f.all {
		if one.thread.threadID == threadID {
			return one
		}
	}
	return nil
}

// add starts following a thread.
func (f *follows) add(thread *threadClock, now time.Time) {
	one := &member{thread: thread, since: thread.join(now), awaited: 1}
	f.all = append(f.all, one)
	f.union.Add(thread.threadID, thread.pausedTime(one, now))
}

// remove stops following a thread that is not awaited any more.
func (f *follows) remove(gone *member, now time.Time) {
	f.union.Remove(gone.thread.threadID, gone.thread.pausedTime(gone, now))
	rest := make([]*member, 0, len(f.all)-1)
	for _, one := range f.all {
		if one != gone {
			rest = append(rest, one)
		}
	}
	f.all = rest
}

// settle ends a window of the union because a thread changes; within a gap it does nothing.
func (f *follows) settle(now time.Time) {
	pausedTimes := make(map[string]time.Duration, len(f.all))
	for _, one := range f.all {
		if !one.thread.isConnected() {
			return
		}
		pausedTimes[one.thread.threadID] = one.thread.pausedTime(one, now)
	}
	f.union.Settle(now, pausedTimes)
}

// view returns the combined state of the threads at one moment. With wait, the stopwatch is woken when that state
// changes.
func (f *follows) view(s *Stopwatch, wait bool) threadView {
	now := time.Now()
	view := threadView{now: now, connected: true, graceLeft: never}
	pausedTimes := make(map[string]time.Duration, len(f.all))
	for i, one := range f.all {
		part := one.thread.view(s, one, now, wait)
		pausedTimes[one.thread.threadID], one.confirmedAt = part.pausedTime, part.confirmedAt
		view.paused = view.paused || part.paused
		view.connected = view.connected && part.connected
		// The grace is one budget, no matter which thread has used it.
		view.graceLeft = min(view.graceLeft, part.graceLeft)
		if part.paused && !part.connected && (view.validUntil.IsZero() || part.validUntil.Before(view.validUntil)) {
			view.validUntil = part.validUntil
		}
		if i == 0 || part.confirmedAt.Before(view.confirmedAt) {
			view.confirmedAt = part.confirmedAt
		}
	}
	view.pausedTime = f.union.Total(now, pausedTimes)
	return view
}

// markUsed notes that the stopwatch has used the paused time of that moment.
func (f *follows) markUsed(now time.Time) {
	for _, one := range f.all {
		one.since.Settle(one.thread.pausedTime(one, now))
	}
}
