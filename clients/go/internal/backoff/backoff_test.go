package backoff

import (
	"testing"
	"time"
)

func TestPausesDoubleUpToTheMostAndStartAgain(t *testing.T) {
	b := Backoff{First: 25 * time.Millisecond, Most: 100 * time.Millisecond}
	for _, least := range []time.Duration{25, 50, 100, 100} {
		least *= time.Millisecond
		if pause := b.Next(); pause < least || pause >= 2*least {
			t.Errorf("pause %v, want from %v to %v", pause, least, 2*least)
		}
	}
	b.Reset()
	if pause := b.Next(); pause >= 50*time.Millisecond {
		t.Errorf("after a reset: %v", pause)
	}
}

func TestNoPauseIsNoPause(t *testing.T) {
	if pause := new(Backoff).Next(); pause != 0 {
		t.Errorf("pause %v", pause)
	}
}
