package pausewatch

import (
	"testing"
	"time"
)

func TestAnInterruptionBetweenTheClocksIsNoSleep(t *testing.T) {
	for _, interruptions := range [][]time.Duration{{}, {0, 0, 500}, {0, 500}, {0, 0, 500, 0, 0, 500, 0, 500, 500}, {900, 9, 0}} {
		now, next := 7*time.Second, 0
		// The process is interrupted before each reading of a clock, for so many milliseconds.
		tick := func() time.Duration {
			if next < len(interruptions) {
				now += interruptions[next] * time.Millisecond
			}
			next++
			return now
		}
		if found := difference(tick, func() time.Duration { return tick() + time.Hour }); found != time.Hour {
			t.Errorf("%v: %v", interruptions, found)
		}
	}
}
