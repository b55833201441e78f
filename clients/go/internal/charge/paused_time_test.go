package charge

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

func (c *threadAt) now(seconds int) Now { return Now{At: c.at(seconds)} }

func (c *threadAt) pausedTime(seconds int) int { return int(c.PausedTime(c.at(seconds)) / s) }

// The epoch of states that a test gives no other.
const epoch = 1

func version(revision uint64) Version { return Version{Epoch: epoch, Revision: revision} }

func seen(revision uint64, paused bool, total int) Seen {
	return seenIn(epoch, revision, paused, total)
}

func seenIn(epoch, revision uint64, paused bool, total int) Seen {
	return Seen{Version: Version{Epoch: epoch, Revision: revision}, Paused: paused, Total: time.Duration(total) * s}
}

func TestG3PausedTimeFollowsTheTotalAndRunsOnWhilePaused(t *testing.T) {
	c := newThread()
	c.Watched(c.now(0), seen(4, false, 100), true)
	equal(t, "paused time while running", c.pausedTime(9), 0)
	c.Watched(c.now(10), seen(5, true, 100), false)
	equal(t, "paused time while paused", c.pausedTime(13), 3)
	equal(t, "paused", c.Paused(c.at(13)), true)
	c.Watched(c.now(14), seen(6, false, 104), false)
	equal(t, "paused time afterwards", c.pausedTime(20), 4)
	equal(t, "paused", c.Paused(c.at(20)), false)
}

func TestTheFirstStateCreditsNoMoreThanTheTimeSinceTheBeginning(t *testing.T) {
	paused := newThread()
	paused.Watched(paused.now(2), seen(9, true, 3600), true)
	equal(t, "paused time", paused.pausedTime(2), 2)
	equal(t, "paused time later", paused.pausedTime(5), 5)
	less := newThread()
	less.Watched(less.now(9), seen(9, false, 4), true)
	equal(t, "paused time of a small total", less.pausedTime(20), 4)
}

func TestG3PauseWithinABreakIsCreditedAfterwards(t *testing.T) {
	c := newThread()
	c.Watched(c.now(0), seen(1, false, 0), true)
	equal(t, "nobody waits for the resume of a running thread", c.Disconnect(c.at(10), c.at(10)), false)
	equal(t, "paused time while cut off", c.pausedTime(25), 0)
	equal(t, "waiters look again", c.Watched(c.now(25), seen(3, false, 9), true), true)
	equal(t, "paused time", c.pausedTime(30), 9)
}

func TestG3PauseThatEndedWithinABreakIsCreditedToItsEndOnly(t *testing.T) {
	c := newThread()
	c.Watched(c.now(0), seen(1, true, 0), true)
	equal(t, "those who wait for the resume must now see to themselves", c.Disconnect(c.at(10), c.at(10)), true)
	equal(t, "assumed", c.pausedTime(25), 25)
	equal(t, "waiters look again", c.Watched(c.now(25), seen(2, false, 12), true), true)
	equal(t, "paused time", c.pausedTime(25), 12)
	equal(t, "paused time later", c.pausedTime(40), 12)
}

func TestG2CutOffAPauseCountsForTheGraceOnly(t *testing.T) {
	c := newThread()
	c.Watched(c.now(0), seen(1, true, 0), true)
	c.Disconnect(c.at(10), c.at(10))
	equal(t, "paused within the grace", c.Paused(c.at(39)), true)
	equal(t, "paused after the grace", c.Paused(c.at(40)), false)
	equal(t, "assumed", c.pausedTime(100), 40)
	// The pause was real: all of it is credited.
	c.Watched(c.now(100), seen(1, true, 100), true)
	equal(t, "paused", c.Paused(c.at(100)), true)
	equal(t, "paused time", c.pausedTime(101), 101)
}

func TestG3SnapshotThatAnAnswerHasOvertakenChangesNothing(t *testing.T) {
	c := newThread()
	c.Watched(c.now(0), seen(1, false, 0), true)
	c.Disconnect(c.at(10), c.at(10))
	equal(t, "waiters look again", c.Asked(c.now(20), seen(3, false, 4), version(1)), true)
	// Its stream was opened before the answer was given.
	equal(t, "the link is up again: waiters look again", c.Watched(c.now(25), seen(2, true, 3), true), true)
	_, disconnected := c.ValidUntil()
	equal(t, "disconnected", disconnected, false)
	equal(t, "paused time", c.pausedTime(26), 4)
	equal(t, "paused", c.Paused(c.at(26)), false)
	c.Watched(c.now(27), seen(3, false, 4), false)
	equal(t, "paused time afterwards", c.pausedTime(30), 4)
	equal(t, "paused afterwards", c.Paused(c.at(30)), false)
}

func TestG3FirstSnapshotMayBeOvertakenTooAndWhoJoinedHasAPlace(t *testing.T) {
	c := newThread()
	c.Asked(c.now(1), seen(2, true, 0), Version{})
	_, place := c.Join(c.at(3))
	c.Watched(c.now(5), seen(1, false, 0), true)
	equal(t, "paused time", c.pausedTime(5), 4)
	equal(t, "the pause goes on", c.Paused(c.at(5)), true)
	equal(t, "place", *place, Place{At: c.at(5), PausedTime: 4 * s})
}

func TestG3OfTwoViewsOfOnePauseTheOlderChangesNothing(t *testing.T) {
	c := newThread()
	c.Watched(c.now(0), seen(1, false, 0), true)
	c.Watched(c.now(10), seen(2, true, 6), false)
	c.Asked(c.now(11), seen(2, true, 3), version(1))
	equal(t, "paused time: the answer was on its way for long", c.pausedTime(12), 8)
	equal(t, "paused", c.Paused(c.at(12)), true)
	c.Disconnect(c.at(12), c.at(12))
	c.Asked(c.now(14), seen(2, true, 10), version(2))
	c.Watched(c.now(15), seen(2, true, 8), true)
	equal(t, "paused time: so was the snapshot", c.pausedTime(15), 11)
	_, disconnected := c.ValidUntil()
	equal(t, "disconnected", disconnected, false)
	c.Watched(c.now(16), seen(3, false, 12), false)
	equal(t, "paused time afterwards", c.pausedTime(20), 12)
}

func TestRevisionBelowWhatTheWatchHasToldMeansLostStateWhateverWasAskedFor(t *testing.T) {
	c := newThread()
	c.Watched(c.now(0), seen(7, false, 0), true)
	c.Disconnect(c.at(10), c.at(10))
	c.Asked(c.now(12), seen(9, false, 2), version(7))
	c.Watched(c.now(20), seen(1, true, 0), true)
	equal(t, "what was credited stays, and counts on", c.pausedTime(23), 5)
	equal(t, "paused", c.Paused(c.at(23)), true)
}

func TestG2AnswerWhileTheWatchIsCutCountsForOneMoreGrace(t *testing.T) {
	c := newThread()
	c.Watched(c.now(0), seen(1, false, 0), true)
	c.Disconnect(c.at(10), c.at(10))
	c.Asked(c.now(20), seen(2, true, 5), version(1))
	equal(t, "paused within the grace", c.Paused(c.at(49)), true)
	equal(t, "paused after the grace", c.Paused(c.at(50)), false)
	equal(t, "paused time", c.pausedTime(60), 35)
}

func TestAServerThatLostItsStateTakesNoCreditBack(t *testing.T) {
	c := newThread()
	c.Watched(c.now(0), seen(7, true, 50), true)
	c.Watched(c.now(10), seen(8, false, 60), false)
	c.Disconnect(c.at(10), c.at(10))
	c.Watched(c.now(20), seen(1, true, 3), true)
	equal(t, "10 s before the loss, 3 s since", c.pausedTime(20), 13)
	equal(t, "5 s more", c.pausedTime(25), 18)
	// The total is higher by chance; the revision tells.
	c.Watched(c.now(30), seen(0, true, 13), true)
	equal(t, "paused time", c.pausedTime(30), 23)
}

func TestStatesThatAreOvertakenAreIgnoredAndLostStateIsNot(t *testing.T) {
	c := newThread()
	c.Watched(c.now(0), seen(5, false, 0), true)
	c.Asked(c.now(1), seen(7, true, 0), version(5))
	c.Watched(c.now(1), seen(6, false, 0), false)
	equal(t, "revision 6 was on its way when 7 was asked for", c.Paused(c.at(1)), true)
	c.Asked(c.now(2), seen(6, false, 0), version(5))
	equal(t, "so was this answer", c.Paused(c.at(2)), true)
	c.Asked(c.now(3), seen(1, false, 0), version(7))
	equal(t, "an answer below what was known before the question is of another life", c.Paused(c.at(3)), false)
}

func TestG3SleepOfTheMachineWithinAPausePaysForNothing(t *testing.T) {
	c := newThread()
	now := func(at, slept int) Now { return Now{At: c.at(at), Slept: time.Duration(slept) * s} }
	c.Watched(now(0, 7), seen(1, false, 0), true)
	c.Watched(now(600, 7), seen(2, true, 0), false)
	c.Watched(now(640, 7+3600), seen(3, false, 3610), true)
	equal(t, "of 40 s awake, 10 s were paused", c.pausedTime(640), 10)
	// Fell asleep running: no more than the time awake.
	c.Watched(now(660, 7+7200), seen(5, false, 7200), true)
	equal(t, "paused time", c.pausedTime(660), 30)
}

func TestG3StateThatASleepOfTheMachineOvertookIsCreditedWhole(t *testing.T) {
	c := newThread()
	now := func(at, slept int) Now { return Now{At: c.at(at), Slept: time.Duration(slept) * s} }
	c.Watched(now(0, 7), seen(1, true, 0), true)
	c.Watched(now(22, 7+3600), seen(2, true, 20), false)
	equal(t, "sent at 20; the machine slept for an hour at 21", c.pausedTime(22), 20)
	c.Watched(now(30, 7+3600), seen(3, false, 3630), false)
	equal(t, "paused time", c.pausedTime(40), 30)
	c.Watched(now(50, 7+3600), seen(4, true, 3630), false)
	c.Watched(now(60, 107+3600), seen(5, false, 3639), false)
	equal(t, "resumed, then the sleep, then the news of it", c.pausedTime(60), 39)
	c.Watched(now(70, 207+3600), seen(6, true, 3639), false)
	c.Watched(now(80, 207+3600), seen(7, false, 3649), false)
	equal(t, "a sleep while it ran is none of the next pause", c.pausedTime(80), 49)
	c.Watched(now(90, 307+3600), seen(8, true, 3649), false)
	c.Watched(now(100, 357+3600), seen(9, true, 3709), false)
	c.Watched(now(105, 357+3600), seen(10, false, 3714), false)
	equal(t, "two of them, the second of which is in the pause", c.pausedTime(105), 64)
}

func TestWhoJoinsGetsItsPlaceWithTheNextState(t *testing.T) {
	c := newThread()
	c.Watched(c.now(0), seen(1, false, 0), true)
	c.Disconnect(c.at(10), c.at(10))
	pausedTime, place := c.Join(c.at(15))
	equal(t, "assumed", pausedTime, 0)
	equal(t, "not known yet", place.At.IsZero(), true)
	c.Watched(c.now(20), seen(3, false, 10), true)
	equal(t, "place", *place, Place{At: c.at(20), PausedTime: 10 * s})
	_, later := c.Join(c.at(21))
	equal(t, "who joins later waits for a state of its own", later.At.IsZero(), true)
}

func TestEndlessTotalsAreSafe(t *testing.T) {
	c := newThread()
	c.Watched(c.now(0), Seen{Version: version(1), Paused: true}, true)
	c.Watched(c.now(1), Seen{Version: version(2), Paused: true, Total: forever}, false)
	equal(t, "paused time: no more than the time since the beginning", c.pausedTime(1), 1)
	equal(t, "paused time later", c.pausedTime(3), 3)
}

func TestG3LostTotalThatIsExceededMeanwhileIsCreditedInFull(t *testing.T) {
	c := newThread()
	c.Watched(c.now(0), seen(1, false, 0), true)
	c.Watched(c.now(10), seen(2, true, 0), false)
	c.Watched(c.now(12), seen(3, false, 2), false)
	c.Disconnect(c.at(20), c.at(20))
	// Lost 2 s; a pause began 4 s ago, so that the total exceeds the lost one.
	c.Watched(c.now(25), seenIn(2, 900, true, 4), true)
	equal(t, "paused time", c.pausedTime(25), 6)
	equal(t, "paused time later", c.pausedTime(33), 14)
	c.Watched(c.now(34), seenIn(2, 901, false, 13), false)
	equal(t, "paused time afterwards", c.pausedTime(40), 15)
}

func TestG3PauseOnBothSidesOfALossIsCreditedBeyondTheGrace(t *testing.T) {
	c := newThread()
	c.Watched(c.now(0), seen(1, false, 0), true)
	c.Watched(c.now(10), seen(2, true, 0), false)
	c.Disconnect(c.at(20), c.at(20))
	// Paused for 10 s until the disconnect, again since 25.
	c.Watched(c.now(100), seenIn(2, 900, true, 75), true)
	equal(t, "paused time", c.pausedTime(100), 85)
	equal(t, "paused time later", c.pausedTime(101), 86)
}

func TestPauseThatALossEndedKeepsWhatWasAssumed(t *testing.T) {
	c := newThread()
	c.Watched(c.now(0), seen(1, true, 0), true)
	c.Disconnect(c.at(10), c.at(10))
	equal(t, "waiters for the resume look again", c.Watched(c.now(15), seenIn(2, 900, false, 0), true), true)
	equal(t, "paused time", c.pausedTime(15), 15)
	equal(t, "paused time later", c.pausedTime(30), 15)
}

func TestEpochThatWasLeftDoesNotComeBackByLateStates(t *testing.T) {
	c := newThread()
	c.Watched(c.now(0), seen(7, true, 0), true)
	c.Asked(c.now(4), seenIn(2, 900, false, 0), version(7))
	equal(t, "paused time", c.pausedTime(9), 4)
	equal(t, "paused", c.Paused(c.at(9)), false)
	c.Watched(c.now(5), seen(8, true, 5), false)
	equal(t, "paused by a state that was on its way when the answer came", c.Paused(c.at(5)), false)
	c.Asked(c.now(5), seen(8, true, 5), version(7))
	equal(t, "paused by an answer that was on its way too", c.Paused(c.at(5)), false)
	c.Asked(c.now(6), seenIn(3, 1000, true, 0), version(7))
	equal(t, "paused, of a server that lost its state twice while the question was open", c.Paused(c.at(6)), true)
	// The operator went back to the first store, and the watch says so.
	c.Disconnect(c.at(8), c.at(8))
	c.Watched(c.now(9), seen(8, false, 5), true)
	equal(t, "paused after all", c.Paused(c.at(9)), false)
	equal(t, "paused time after all", c.pausedTime(12), 7)
}

func TestRevisionsAreBoundsWithinTheirEpochOnly(t *testing.T) {
	c := newThread()
	c.Watched(c.now(0), seen(900, false, 0), true)
	c.Disconnect(c.at(1), c.at(1))
	c.Asked(c.now(2), seenIn(2, 7, true, 0), version(900))
	// Its stream was opened before the answer; that its revision is lower says nothing.
	c.Watched(c.now(3), seenIn(2, 6, false, 0), true)
	equal(t, "paused despite an older snapshot", c.Paused(c.at(3)), true)
	c.Watched(c.now(4), seenIn(2, 8, false, 2), false)
	equal(t, "paused time", c.pausedTime(9), 2)
}

func TestStatesWithoutAnEpochAreComparedByTotalAndRevision(t *testing.T) {
	c := newThread()
	c.Watched(c.now(0), seenIn(0, 5, false, 0), true)
	c.Watched(c.now(5), seenIn(0, 6, true, 0), false)
	c.Disconnect(c.at(6), c.at(6))
	// The server was upgraded, and kept its store.
	c.Watched(c.now(10), seenIn(2, 7, false, 3), true)
	equal(t, "paused time", c.pausedTime(20), 3)
}

func TestG2LinkThatDiedInSilenceWasLostWithItsLastMessage(t *testing.T) {
	c := newThread()
	c.Watched(c.now(0), seen(1, true, 0), true)
	equal(t, "waiters for the resume look again", c.Disconnect(c.at(40), c.at(5)), true)
	equal(t, "paused after the grace", c.Paused(c.at(40)), false)
	equal(t, "paused time", c.pausedTime(50), 35)
	// An answer after the last message confirmed the pause.
	asked := newThread()
	asked.Watched(asked.now(0), seen(1, true, 0), true)
	asked.Asked(asked.now(20), seen(1, true, 20), version(1))
	asked.Disconnect(asked.at(40), asked.at(5))
	equal(t, "paused within the grace", asked.Paused(asked.at(49)), true)
	equal(t, "paused time of the confirmed pause", asked.pausedTime(60), 50)
}

func TestG1PauseCountsUntilTheLastJoinBeforeTheLinkWasKnownToBeDead(t *testing.T) {
	c := newThread()
	c.Watched(c.now(0), seen(1, true, 0), true)
	c.Join(c.at(38))
	c.Disconnect(c.at(40), c.at(5))
	equal(t, "paused at the join", c.Paused(c.at(38)), false)
	equal(t, "paused time: else time before the join would be charged", c.pausedTime(50), 38)
	c.Join(c.at(45))
	equal(t, "paused time after a later join", c.pausedTime(50), 38)
}
