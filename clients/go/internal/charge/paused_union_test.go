package charge

import (
	"fmt"
	"testing"
	"time"
)

// union is that of threads "0", "1", …, whose paused times are given in seconds.
type union struct {
	PausedUnion
	start time.Time
}

func times(pausedTimes ...int) map[string]time.Duration {
	named := make(map[string]time.Duration)
	for i, pausedTime := range pausedTimes {
		named[fmt.Sprint(i)] = time.Duration(pausedTime) * s
	}
	return named
}

func newUnion(pausedTimes ...int) *union {
	u := &union{start: time.Now()}
	u.PausedUnion = NewPausedUnion(u.start)
	for name, pausedTime := range times(pausedTimes...) {
		u.Add(name, pausedTime)
	}
	return u
}

func (u *union) settle(after int, pausedTimes map[string]time.Duration) {
	u.Settle(u.start.Add(time.Duration(after)*s), pausedTimes)
}

func (u *union) is(t *testing.T, after int, pausedTimes map[string]time.Duration, want int) {
	t.Helper()
	equal(t, fmt.Sprint(pausedTimes), u.Total(u.start.Add(time.Duration(after)*s), pausedTimes), time.Duration(want)*s)
}

func TestASingleThreadCountsExactlyAlsoAfterCorrections(t *testing.T) {
	u := newUnion(0)
	for _, at := range [][2]int{{5, 3}, {6, 2}, {7, 7}, {7, 9}, {8, -1}} {
		u.is(t, at[0], times(at[1]), at[1])
	}
}

func TestG3OverlappingPausesCountOnce(t *testing.T) {
	// One is paused from 10 s to 20 s, the other from 15 s to 40 s.
	u := newUnion(100, 200)
	u.settle(10, times(100, 200))
	u.settle(15, times(105, 200))
	u.is(t, 18, times(108, 203), 8)
	u.settle(20, times(110, 205))
	u.is(t, 30, times(110, 215), 20)
	u.settle(40, times(110, 225))
	u.is(t, 50, times(110, 225), 30)
}

func TestG1AGapCountsAsMuchAsPossible(t *testing.T) {
	// From 10 s to 20 s, of which only the paused times are known afterwards.
	for _, missed := range [][3]int{{4, 5, 9}, {8, 7, 10}, {0, 6, 6}, {0, 0, 0}, {10, 10, 10}, {12, 1, 12}, {-3, 0, 0}, {-3, 5, 5}} {
		u := newUnion(0, 0)
		u.settle(10, times(10, 0))
		after := times(10+missed[0], missed[1])
		u.is(t, 20, after, 10+missed[2])
		u.settle(20, after)
		u.is(t, 30, after, 10+missed[2])
	}
}

func TestThreadsCountFromTheirAdditionToTheirRemoval(t *testing.T) {
	u := newUnion(0, 0)
	two := func(own, added int) map[string]time.Duration {
		return map[string]time.Duration{"0": time.Duration(own) * s, "2": time.Duration(added) * s}
	}
	u.settle(10, times(0, 0))
	u.Remove("1", 6*s)
	u.is(t, 16, times(0), 6)
	u.Add("2", 1_000*s)
	u.is(t, 20, two(2, 1_001), 9)
	u.is(t, 20, two(9, 1_009), 10) // Never more than the gap.
	u.settle(20, two(2, 1_001))
	u.is(t, 30, two(2, 1_011), 19)
}

func TestSettlingBeforeTheMarkChangesNothing(t *testing.T) {
	u := newUnion(0, 0)
	u.settle(20, times(10, 0))
	u.settle(15, times(5, 0))
	u.is(t, 20, times(10, 0), 10)
}
