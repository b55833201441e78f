package charge

// Beyond clients/vectors: settling, the result of Resume, and saturation.

import (
	"testing"
	"time"
)

const s = time.Second

func equal[T comparable](t *testing.T, what string, got, want T) {
	t.Helper()
	if got != want {
		t.Errorf("%s: got %v, want %v", what, got, want)
	}
}

func TestResumeReturnsWhetherItWasTheLast(t *testing.T) {
	start := time.Now()
	m := NewMeter(10*s, start, 0)
	m.Pause(start, 0)
	m.Pause(start, 0)
	equal(t, "the first", m.Resume(start, 0), false)
	equal(t, "the last", m.Resume(start, 0), true)
	equal(t, "one too many", m.Resume(start, 0), false)
}

func TestAWronglyAssumedPauseIsChargedAfterwards(t *testing.T) {
	start := time.Now()
	m := NewMeter(10*s, start, 0)
	m.Settle(start.Add(5*s), 4*s)
	equal(t, "charged", m.Charged(start.Add(5*s), 1*s), 4*s)
	m.Pause(start.Add(5*s), 4*s)
	equal(t, "during a pause of its own too", m.Charged(start.Add(6*s), 1*s), 4*s)
}

func TestArithmeticSaturates(t *testing.T) {
	start := time.Now()
	m := NewMeter(maxDuration, start, 0)
	equal(t, "charged with unbounded paused time", m.Charged(start, maxDuration), 0)
	m = NewMeter(maxDuration, start, maxDuration)
	equal(t, "charged with endless debt", m.Charged(start.Add(s), 0), maxDuration)
	equal(t, "left", m.Left(start.Add(s), 0), 0)
	m.Settle(start.Add(s), 0)
	equal(t, "charged later", m.Charged(start.Add(2*s), 0), maxDuration)
	m = NewMeter(-maxDuration, start, 0)
	equal(t, "left of a negative limit", m.Left(start.Add(2*s), 0), -maxDuration)
}
