package charge

import (
	"cmp"
	"time"
)

// Shorter sleeps of the machine are noise between two clocks.
const minSleep = 100 * time.Millisecond

// The maximum delivery time of a state: after this time, its connection has been given up.
const maxDeliveryDelay = 15 * time.Second

// Version is the revision of a state, and the epoch of the server's store in which it counts.
type Version struct{ Epoch, Revision uint64 }

// isComparableWith reports whether the revisions and totals can be compared. Epoch 0: the server has no epochs.
func (v Version) isComparableWith(other Version) bool {
	return v.Epoch == other.Epoch || v.Epoch == 0 || other.Epoch == 0
}

// ObservedState has the fields of a state that matter here.
type ObservedState struct {
	Version Version
	Paused  bool
	// The server's paused_total: the total time that the thread has been paused.
	Total time.Duration
	// How long the open pause has lasted.
	PausedFor time.Duration
}

// after returns this state after the last one: no open pause gets shorter.
func (s ObservedState) after(last ObservedState) ObservedState {
	if last.Paused && s.Version.Epoch == last.Version.Epoch && s.Version.Epoch != 0 {
		s.Total = max(s.Total, last.Total)
	}
	return s
}

// wasLostBefore reports whether the server lost this state before it sent the other one.
func (s ObservedState) wasLostBefore(other ObservedState) bool {
	return !s.Version.isComparableWith(other.Version) || other.Version.Revision < s.Version.Revision || other.Total < s.Total
}

// LocalTime is a reading of this process's clock, and how long the machine has slept since it started.
type LocalTime struct {
	At    time.Time
	Slept time.Duration
}

// JoinBaseline is set by the first state after a stopwatch joined: the time of that state, the paused time then, and how
// long the open pause had lasted. Until then At is zero.
type JoinBaseline struct {
	At                    time.Time
	PausedTime, PausedFor time.Duration
}

// PausedTimeTracker is how long one thread has been paused since this process began to follow it, as far as is known.
//
// The server's total is exact in each state; between states the local clock carries on:
//
//	pausedTime = total - total at the start     (+ the local time since the last state, while paused)
//
// The difference of two totals includes every pause that this process did not see.
//
//  1. Time before the start is never credited, and never more than the time since the start. The first state cannot
//     say which part of its total is older than the start; whatever may be newer is credited (the gap until the first
//     state is milliseconds, unless the link was down).
//  2. While disconnected, a paused thread counts as paused for the grace and then as running: the leases that would
//     end its pause cannot be seen. A link that died silently was lost with its last message. But if a stopwatch has
//     joined since, a pause counts until that join; otherwise time before the join would be charged to it. The next
//     state corrects the assumption in both directions.
//  3. Another epoch, or a lower total or revision, means that the server lost its state (or forgot an idle thread). The
//     new total has nothing in common with the old one: the paused time so far is kept, and grows by the new total, by
//     the time since the last state at most. A server without epochs sends 0, which is compared by total and revision.
//     A lower total after an open pause, in the same epoch, is an exception: it is the total at an earlier moment,
//     for example by another replica. Then the known total is used.
//  4. Local time stops while the machine sleeps; the server's may not. A sleep within a pause is left out, so that it
//     cannot pay for time that was charged. The total of a state that was sent before the sleep and arrived after it
//     does not include the sleep: it is then left out of the next total.
type PausedTimeTracker struct {
	startedAt time.Time
	grace     time.Duration
	known     bool
	last      lastState
	// When the watch was disconnected; zero: connected.
	disconnectedAt time.Time
	// The last join, and the last join before the disconnect was noticed.
	joinedAt, joinedBeforeDisconnect time.Time
	joinBaseline                     *JoinBaseline
	// When it was closed: no state will come. Zero: it is open.
	closedAt time.Time
}

// lastState is the last state, when it arrived, and the paused time then.
type lastState struct {
	state      ObservedState
	now        LocalTime
	pausedTime time.Duration
	// Sleep of the machine before this state arrived and perhaps after it was sent: then the next total includes it.
	unsettledSleep time.Duration
}

// NewPausedTimeTracker begins to follow a thread whose state is not known yet.
func NewPausedTimeTracker(now time.Time, grace time.Duration) PausedTimeTracker {
	return PausedTimeTracker{startedAt: now, grace: grace, disconnectedAt: now}
}

// PausedTime returns how long the thread has been paused since the start.
func (c *PausedTimeTracker) PausedTime(now time.Time) time.Duration {
	if !c.known || !c.last.state.Paused {
		return c.last.pausedTime
	}
	if validUntil, disconnected := c.ValidUntil(); disconnected && validUntil.Before(now) {
		now = validUntil
	}
	return add(c.last.pausedTime, since(c.last.now.At, now))
}

// Paused reports whether the thread is paused.
func (c *PausedTimeTracker) Paused(now time.Time) bool {
	validUntil, disconnected := c.ValidUntil()
	return c.known && c.last.state.Paused && (!disconnected || now.Before(validUntil))
}

// ValidUntil returns when an unconfirmed pause stops counting; false while connected.
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

// Join returns the paused time at which a stopwatch joins, as far as is known, and the baseline that the next state
// sets. Needed even when the link seems to be up: it may already be dead without having been noticed.
func (c *PausedTimeTracker) Join(now time.Time) (time.Duration, *JoinBaseline) {
	c.joinedAt = now
	if c.joinBaseline == nil {
		c.joinBaseline = new(JoinBaseline)
	}
	return c.PausedTime(now), c.joinBaseline
}

// UnconfirmedPause returns how much of the grace the open pause has used, for a stopwatch that joined at joined: the
// part that cannot be confirmed.
func (c *PausedTimeTracker) UnconfirmedPause(joined time.Time) time.Duration {
	validUntil, disconnected := c.ValidUntil()
	if !disconnected || !c.known || !c.last.state.Paused {
		return 0
	}
	if joined.Before(c.disconnectedAt) {
		joined = c.disconnectedAt
	}
	return since(joined, validUntil)
}

// Disconnect notes that the watch has been disconnected since then. It returns whether waiting stopwatches must check
// again.
func (c *PausedTimeTracker) Disconnect(now, since time.Time) bool {
	wasPaused := c.Paused(now)
	// A confirmation may have delivered the last state after that time.
	if c.known && since.Before(c.last.now.At) {
		since = c.last.now.At
	}
	if c.disconnectedAt.IsZero() {
		c.disconnectedAt, c.joinedBeforeDisconnect = since, c.joinedAt
	}
	return wasPaused
}

// Close notes that no state will come any more. From now on the thread counts as running.
func (c *PausedTimeTracker) Close(now time.Time) {
	c.Disconnect(now, now)
	c.closedAt = now
}

// Closed reports whether it was closed.
func (c *PausedTimeTracker) Closed() bool { return !c.closedAt.IsZero() }

// Apply applies a state from the watch. It returns whether waiting stopwatches must check again: after a resume, and
// when an assumption was corrected.
func (c *PausedTimeTracker) Apply(now LocalTime, state ObservedState) (wake bool) {
	assumed, wasPaused := !c.disconnectedAt.IsZero(), c.Paused(now.At)
	if c.known {
		state = state.after(c.last.state)
	}
	pausedTime, unsettledSleep := c.pausedTimeWith(now, state)
	pausedTime = min(pausedTime, since(c.startedAt, now.At))
	if !state.Paused {
		unsettledSleep = 0
	}
	c.setJoinBaseline(JoinBaseline{At: now.At, PausedTime: pausedTime, PausedFor: state.PausedFor})
	c.known, c.last = true, lastState{state: state, now: now, pausedTime: pausedTime, unsettledSleep: unsettledSleep}
	c.disconnectedAt = time.Time{}
	return assumed || (wasPaused && !state.Paused)
}

// setJoinBaseline sets the baseline of the stopwatches that joined since the last state.
func (c *PausedTimeTracker) setJoinBaseline(baseline JoinBaseline) {
	if c.joinBaseline != nil {
		*c.joinBaseline = baseline
		c.joinBaseline = nil
	}
}

// pausedTimeWith returns the paused time with this state, and the sleep of the machine that the next total may include.
func (c *PausedTimeTracker) pausedTimeWith(now LocalTime, state ObservedState) (pausedTime, unsettledSleep time.Duration) {
	before := c.last
	switch {
	case !c.known:
		return state.Total, 0
	case before.state.wasLostBefore(state):
		// A pause was seen until the disconnect; the new total can be in addition to it.
		seenUntil := before.now.At
		if before.state.Paused {
			seenUntil = now.At
			if !c.disconnectedAt.IsZero() {
				seenUntil = c.disconnectedAt
			}
		}
		return max(c.PausedTime(now.At), add(c.PausedTime(seenUntil), min(state.Total, since(seenUntil, now.At)))), 0
	}
	credited, unsettledSleep := splitGrowth(before, now, state.Total-before.state.Total)
	return add(before.pausedTime, credited), unsettledSleep
}

// splitGrowth splits growth, the paused time between the last state and now: it returns the part in which this
// machine was awake, and the sleep that the next total may include instead.
//
// If the thread was paused in the last state, it was most likely paused throughout: then the growth is the time awake
// plus those sleeps that it includes. The combination of sleeps that comes closest is chosen.
func splitGrowth(before lastState, now LocalTime, growth time.Duration) (credited, unsettledSleep time.Duration) {
	timeAwake := since(before.now.At, now.At)
	slept, oldSleep := now.Slept-before.now.Slept, before.unsettledSleep
	if slept < minSleep {
		slept = 0
	}
	switch {
	case slept == 0 && oldSleep == 0:
		return growth, 0
	case !before.state.Paused:
		return min(growth, timeAwake), slept
	}
	within, unsettledSleep := time.Duration(0), cmp.Or(slept, oldSleep)
	for _, choice := range [][2]time.Duration{{slept, 0}, {oldSleep, slept}, {oldSleep + slept, 0}} {
		if choice[0] <= growth && (growth-timeAwake-choice[0]).Abs() < (growth-timeAwake-within).Abs() {
			within, unsettledSleep = choice[0], choice[1]
		}
	}
	if within > 0 {
		return growth - within, unsettledSleep
	}
	// The growth also includes the time that the last state took to arrive.
	return min(growth, timeAwake+maxDeliveryDelay), unsettledSleep
}
