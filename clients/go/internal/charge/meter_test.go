package charge

import (
	"testing"
	"time"
)

const s = time.Second

// meterAt has a limit of 10 s and reads times in seconds since its start.
type meterAt struct {
	Meter
	start time.Time
}

func newMeter() *meterAt {
	start := time.Now()
	return &meterAt{Meter: NewMeter(10*s, start, 0), start: start}
}

func (m *meterAt) at(seconds int) time.Time { return m.start.Add(time.Duration(seconds) * s) }

func equal[T comparable](t *testing.T, what string, got, want T) {
	t.Helper()
	if got != want {
		t.Errorf("%s: got %v, want %v", what, got, want)
	}
}

func TestG3ChargedIsWallTimeLessTheThreadsPausedTime(t *testing.T) {
	m := newMeter()
	equal(t, "charged", m.Charged(m.at(5), 2*s), 3*s)
	equal(t, "left", m.Left(m.at(11), 2*s), 1*s)
	equal(t, "left at the limit", m.Left(m.at(12), 2*s), 0)
	equal(t, "left beyond the limit", m.Left(m.at(15), 2*s), -3*s)
}

func TestPausesNest(t *testing.T) {
	m := newMeter()
	m.Pause(m.at(1), 0)
	m.Pause(m.at(2), 0)
	equal(t, "last", m.Resume(m.at(3), 0), false)
	equal(t, "charged while one is open", m.Charged(m.at(4), 0), 1*s)
	equal(t, "last", m.Resume(m.at(5), 0), true)
	equal(t, "charged when none is", m.Charged(m.at(6), 0), 2*s)
}

func TestG3OverlappingPausesCountOnceAndNeverBelowZero(t *testing.T) {
	m := newMeter()
	// Its own from 0 to 10, the thread's from 5 to 15.
	m.Pause(m.at(0), 0)
	m.Resume(m.at(10), 5*s)
	equal(t, "charged when both have ended", m.Charged(m.at(15), 10*s), 0)
	equal(t, "charged 1 s later", m.Charged(m.at(16), 10*s), 1*s)
}

func TestCreditForTheTimeBeforeItsOwnPauseIsNotLost(t *testing.T) {
	m := newMeter()
	// Cut off: 4 s were charged, of which 3 were paused; that is learnt 1 s into a pause of its own.
	m.Pause(m.at(4), 0)
	equal(t, "charged: 1 s of the 3 may be the last one", m.Charged(m.at(5), 3*s), 2*s)
	m.Resume(m.at(5), 3*s)
	equal(t, "charged", m.Charged(m.at(6), 3*s), 3*s)
}

func TestLessPausedTimeThanWasAssumedIsChargedAfterAll(t *testing.T) {
	m := newMeter()
	m.Settle(m.at(5), 4*s)
	equal(t, "charged", m.Charged(m.at(5), 1*s), 4*s)
	m.Pause(m.at(5), 4*s)
	equal(t, "during a pause of its own too", m.Charged(m.at(6), 1*s), 4*s)
}

func TestWhatIsShownNeverGoesBackwardsAndAddsUp(t *testing.T) {
	m := newMeter()
	shows := func(what string, at int, pausedTime, wantElapsed, wantRemaining time.Duration) {
		t.Helper()
		elapsed, remaining := m.Show(m.at(at), pausedTime)
		equal(t, what+", elapsed", elapsed, wantElapsed)
		equal(t, what+", remaining", remaining, wantRemaining)
	}
	shows("before", 5, 0, 5*s, 5*s)
	shows("late paused time of 4 s is a standstill", 6, 4*s, 5*s, 5*s)
	shows("afterwards", 10, 4*s, 6*s, 4*s)
	equal(t, "both end together: left", m.Left(m.at(14), 4*s), 0)
	shows("at the end", 14, 4*s, 10*s, 0)
	shows("beyond the end", 20, 4*s, 16*s, 0)
}

func TestMoreCreditThanTimeIsNotSpentLater(t *testing.T) {
	m := newMeter()
	equal(t, "charged", m.Charged(m.at(2), 3600*s), 0)
	equal(t, "charged 3 s later", m.Charged(m.at(5), 3600*s), 3*s)
}

func TestPauseBeforeTheStartIsNotCredited(t *testing.T) {
	start := time.Now()
	m := NewMeter(10*s, start, 500*s)
	equal(t, "charged", m.Charged(start.Add(2*s), 501*s), 1*s)
}

func TestTheEndsOfTheTypesAreSafe(t *testing.T) {
	start := time.Now()
	m := NewMeter(forever, start, 0)
	equal(t, "charged with unbounded paused time", m.Charged(start, forever), 0)
	m = NewMeter(forever, start, forever)
	equal(t, "charged with endless debt", m.Charged(start.Add(s), 0), forever)
	equal(t, "left", m.Left(start.Add(s), 0), 0)
	m.Settle(start.Add(s), 0)
	equal(t, "charged later", m.Charged(start.Add(2*s), 0), forever)
	m = NewMeter(-forever, start, 0)
	equal(t, "left of a negative limit", m.Left(start.Add(2*s), 0), -forever)
}
