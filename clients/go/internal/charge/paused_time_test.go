package charge

// Beyond clients/vectors: joins, checks of waiters, and saturation.

import (
	"testing"
	"time"
)

// threadAt has a grace of 30 s and reads times in seconds since it began.
type threadAt struct {
	PausedTimeTracker
	start time.Time
}

func newThread() *threadAt {
	start := time.Now()
	return &threadAt{PausedTimeTracker: NewPausedTimeTracker(start, 30*s), start: start}
}

func (c *threadAt) at(seconds int) time.Time { return c.start.Add(time.Duration(seconds) * s) }

func (c *threadAt) take(seconds int, revision uint64, paused bool, total time.Duration) (wake bool) {
	return c.Apply(LocalTime{At: c.at(seconds)}, ObservedState{Version: Version{Epoch: 1, Revision: revision}, Paused: paused, Total: total})
}

func (c *threadAt) pausedTime(seconds int) int { return int(c.PausedTime(c.at(seconds)) / s) }

func TestWaitersCheckAgainAfterAResumeAndACorrection(t *testing.T) {
	c := newThread()
	equal(t, "the first state", c.take(0, 1, false, 0), true)
	equal(t, "a pause", c.take(1, 2, true, 0), false)
	equal(t, "a resume", c.take(2, 3, false, s), true)
	equal(t, "a disconnect while it runs", c.Disconnect(c.at(3), c.at(3)), false)
	equal(t, "the first state after a disconnect", c.take(4, 3, false, s), true)
	c.take(5, 4, true, s)
	equal(t, "a disconnect while it is paused", c.Disconnect(c.at(6), c.at(6)), true)
}

func TestTheNextStateSetsTheJoinBaseline(t *testing.T) {
	c := newThread()
	c.take(0, 1, false, 0)
	c.Disconnect(c.at(10), c.at(10))
	pausedTime, joinBaseline := c.Join(c.at(15))
	equal(t, "assumed", pausedTime, 0)
	equal(t, "not known yet", joinBaseline.At.IsZero(), true)
	c.take(20, 3, false, 10*s)
	equal(t, "baseline", *joinBaseline, JoinBaseline{At: c.at(20), PausedTime: 10 * s})
	_, later := c.Join(c.at(21))
	equal(t, "who joins later waits for a state of its own", later.At.IsZero(), true)
	state := ObservedState{Version: Version{Epoch: 1, Revision: 4}, Paused: true, Total: 13 * s, PausedFor: 3 * s}
	c.Apply(LocalTime{At: c.at(30)}, state)
	equal(t, "later baseline", *later, JoinBaseline{At: c.at(30), PausedTime: 13 * s, PausedFor: 3 * s})
}

func TestEndlessTotalsAreSafe(t *testing.T) {
	c := newThread()
	c.take(0, 1, true, 0)
	c.take(1, 2, true, maxDuration)
	equal(t, "paused time: no more than the time since the beginning", c.pausedTime(1), 1)
	equal(t, "paused time later", c.pausedTime(3), 3)
}

func TestG1PauseCountsUntilTheLastJoinBeforeTheLinkWasKnownToBeDead(t *testing.T) {
	c := newThread()
	c.take(0, 1, true, 0)
	c.Join(c.at(38))
	c.Disconnect(c.at(40), c.at(5))
	equal(t, "paused at the join", c.Paused(c.at(38)), false)
	equal(t, "paused time: else time before the join would be charged", c.pausedTime(50), 38)
	c.Join(c.at(45))
	equal(t, "paused time after a later join", c.pausedTime(50), 38)
}

func TestTheGraceThatAnOpenPauseHasUsedCountsFromTheJoin(t *testing.T) {
	c := newThread()
	c.take(0, 1, true, 0)
	equal(t, "while it is heard", c.UnconfirmedPause(c.at(0)), 0)
	c.Disconnect(c.at(10), c.at(10))
	equal(t, "for one that joined before", c.UnconfirmedPause(c.at(5)), 30*s)
	equal(t, "for one that joined later", c.UnconfirmedPause(c.at(15)), 25*s)
}
