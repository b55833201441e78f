package charge

import (
	"cmp"
	"time"
)

// A sleep of the machine shorter than this is noise between two clocks.
const shortestSleep = 100 * time.Millisecond

// A state that is on its way for longer has had its connection given up.
const longestWay = 15 * time.Second

// Version is the revision of a state, and the epoch of the server's store in which it counts.
type Version struct{ Epoch, Revision uint64 }

// comparable: whether the revisions and totals can be compared. Epoch 0: the server has none.
func (v Version) comparable(other Version) bool {
	return v.Epoch == other.Epoch || v.Epoch == 0 || other.Epoch == 0
}

// Seen is what a state of a thread says, as far as it matters here.
type Seen struct {
	Version Version
	Paused  bool
	// The server's paused_total: all time that the thread has been paused.
	Total time.Duration
}

// lost: whether the server lost this state before it sent the other one.
func (s Seen) lost(other Seen) bool {
	return !s.Version.comparable(other.Version) || other.Version.Revision < s.Version.Revision || other.Total < s.Total
}

// Now is this process's clock: the moment, and how long the machine has slept since it started.
type Now struct {
	At    time.Time
	Slept time.Duration
}

// Place is where a stopwatch that joined gets its place: the moment of the first state after it joined, and what was pausedTime
// then. Until then At is zero.
type Place struct {
	At         time.Time
	PausedTime time.Duration
}

// PausedTimeTracker is how long one thread has been paused since this process began to follow it, as far as it knows.
//
// The server's total is exact at each state; between states the local clock carries on. So
//
//	pausedTime = total - what it was at the beginning     (+ the local time since the state, while paused)
//
// and a pause that began or ended unseen is in the difference of two totals.
//
//  1. Nothing before the beginning is credited, and never more than the time since then. The first state cannot say
//     which part of its total was before; what may have been after the beginning is credited (the gap until the first
//     state is milliseconds, unless the link was down).
//  2. Cut off, a paused thread counts as paused for a grace, then as running: the leases that would end its pause
//     cannot be seen. A link that died in silence was lost with its last message; but a pause with which a stopwatch has
//     joined since counts until then, or it would be charged for time before. The next state corrects what was assumed,
//     both ways.
//  3. Another epoch, or a total or a revision that fell, means that the server lost its state (or forgot an idle thread).
//     The new total has nothing in common with the old one: the paused time so far stays, and grows by the new total, by
//     the time since the last state at most. A server without epochs sends 0, which is compared by total and revision.
//  4. Local time does not run while the machine sleeps, the server's may. Of a pause that spans a sleep the sleep is
//     left out, so that it cannot pay for time that was charged. A state that was sent before the sleep and came after
//     it does not have it in its total yet, so that nothing is left out there, but of the next.
type PausedTimeTracker struct {
	began time.Time
	grace time.Duration
	known bool
	last  last
	// When the watch was disconnected; zero: it is heard.
	disconnectedAt time.Time
	// When a stopwatch joined last, and the last join before the disconnect was noticed.
	joinedAt, joinedBeforeDisconnect time.Time
	place                            *Place
	// When it was closed: no state will come. Zero: it was not.
	closedAt time.Time
}

// The last state, when it came, and what was pausedTime then.
type last struct {
	seen       Seen
	now        Now
	pausedTime time.Duration
	// What the machine slept before it came and perhaps after it was sent: then it is part of the next total.
	unsettled time.Duration
}

// NewPausedTimeTracker begins to follow a thread of which nothing is known yet.
func NewPausedTimeTracker(now time.Time, grace time.Duration) PausedTimeTracker {
	return PausedTimeTracker{began: now, grace: grace, disconnectedAt: now}
}

// PausedTime is how long the thread has been paused since the beginning.
func (c *PausedTimeTracker) PausedTime(now time.Time) time.Duration {
	if !c.known || !c.last.seen.Paused {
		return c.last.pausedTime
	}
	if validUntil, disconnected := c.ValidUntil(); disconnected && validUntil.Before(now) {
		now = validUntil
	}
	return add(c.last.pausedTime, since(c.last.now.At, now))
}

// Paused says whether the thread is paused.
func (c *PausedTimeTracker) Paused(now time.Time) bool {
	validUntil, disconnected := c.ValidUntil()
	return c.known && c.last.seen.Paused && (!disconnected || now.Before(validUntil))
}

// ValidUntil is when a pause that cannot be confirmed stops counting; false while the watch is heard.
func (c *PausedTimeTracker) ValidUntil() (time.Time, bool) {
	validUntil := c.disconnectedAt.Add(c.grace)
	if validUntil.Before(c.joinedBeforeDisconnect) {
		validUntil = c.joinedBeforeDisconnect
	}
	if !c.closedAt.IsZero() && c.closedAt.Before(validUntil) {
		validUntil = c.closedAt
	}
	return validUntil, !c.disconnectedAt.IsZero()
}

// Join is the paused time at which a stopwatch joins, as far as is known, and where the next state says how much it was
// then. Even when the link seems to be up: it may be dead without anyone noticing.
func (c *PausedTimeTracker) Join(now time.Time) (time.Duration, *Place) {
	c.joinedAt = now
	if c.place == nil {
		c.place = new(Place)
	}
	return c.PausedTime(now), c.place
}

// UnconfirmedPause is how much of the grace the open pause has used, for a stopwatch that joined then: what cannot be
// confirmed.
func (c *PausedTimeTracker) UnconfirmedPause(joined time.Time) time.Duration {
	validUntil, disconnected := c.ValidUntil()
	if !disconnected || !c.known || !c.last.seen.Paused {
		return 0
	}
	if joined.Before(c.disconnectedAt) {
		joined = c.disconnectedAt
	}
	return since(joined, validUntil)
}

// Disconnect: the watch has not been heard any more since then. It says whether those who wait for the thread must look
// again.
func (c *PausedTimeTracker) Disconnect(now, since time.Time) bool {
	wasPaused := c.Paused(now)
	// An answer may have confirmed the state later.
	if c.known && since.Before(c.last.now.At) {
		since = c.last.now.At
	}
	if c.disconnectedAt.IsZero() {
		c.disconnectedAt, c.joinedBeforeDisconnect = since, c.joinedAt
	}
	return wasPaused
}

// Close: nothing will be heard any more. From now on the thread counts as running.
func (c *PausedTimeTracker) Close(now time.Time) {
	c.Disconnect(now, now)
	c.closedAt = now
}

// Closed says whether it was closed.
func (c *PausedTimeTracker) Closed() bool { return !c.closedAt.IsZero() }

// Take takes a state from the watch. It says whether those who wait for the thread must look again: after a resume, and
// when what was assumed is corrected.
func (c *PausedTimeTracker) Take(now Now, seen Seen) (wake bool) {
	assumed, wasPaused := !c.disconnectedAt.IsZero(), c.Paused(now.At)
	pausedTime, unsettled := c.pausedTimeWith(now, seen)
	pausedTime = min(pausedTime, since(c.began, now.At))
	if !seen.Paused {
		unsettled = 0
	}
	c.settlePlace(now.At, pausedTime)
	c.known, c.last = true, last{seen: seen, now: now, pausedTime: pausedTime, unsettled: unsettled}
	c.disconnectedAt = time.Time{}
	return assumed || (wasPaused && !seen.Paused)
}

// settlePlace gives those who joined since the last state their place.
func (c *PausedTimeTracker) settlePlace(at time.Time, pausedTime time.Duration) {
	if c.place != nil {
		*c.place = Place{At: at, PausedTime: pausedTime}
		c.place = nil
	}
}

// pausedTimeWith is what is pausedTime with this state, and what the machine slept that may be in the next total.
func (c *PausedTimeTracker) pausedTimeWith(now Now, seen Seen) (pausedTime, unsettled time.Duration) {
	before := c.last
	switch {
	case !c.known:
		return seen.Total, 0
	case before.seen.lost(seen):
		// A pause was seen until the disconnect; the new total can be in addition to it.
		seenUntil := before.now.At
		if before.seen.Paused {
			seenUntil = now.At
			if !c.disconnectedAt.IsZero() {
				seenUntil = c.disconnectedAt
			}
		}
		return max(c.PausedTime(now.At), add(c.PausedTime(seenUntil), min(seen.Total, since(seenUntil, now.At)))), 0
	}
	credited, unsettled := awake(before, now, seen.Total-before.seen.Total)
	return add(before.pausedTime, credited), unsettled
}

// awake is the part of growth, paused between the last state and now, in which this machine was awake; and what it slept
// that may be in the next total instead.
//
// Paused when last heard of, the thread was mostly paused all the while: then the growth is as long as the time awake and
// those sleeps that are in it. The combination that comes closest is chosen.
func awake(before last, now Now, growth time.Duration) (credited, unsettled time.Duration) {
	timeAwake := since(before.now.At, now.At)
	fresh, old := now.Slept-before.now.Slept, before.unsettled
	if fresh < shortestSleep {
		fresh = 0
	}
	switch {
	case fresh == 0 && old == 0:
		return growth, 0
	case !before.seen.Paused:
		return min(growth, timeAwake), fresh
	}
	within, unsettled := time.Duration(0), cmp.Or(fresh, old)
	for _, choice := range [][2]time.Duration{{fresh, 0}, {old, fresh}, {old + fresh, 0}} {
		if choice[0] <= growth && (growth-timeAwake-choice[0]).Abs() < (growth-timeAwake-within).Abs() {
			within, unsettled = choice[0], choice[1]
		}
	}
	if within > 0 {
		return growth - within, unsettled
	}
	// What was known last may have been on its way for some time, which is in the growth too.
	return min(growth, timeAwake+longestWay), unsettled
}
