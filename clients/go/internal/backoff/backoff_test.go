package backoff

import (
	"testing"
	"time"
)

func TestDelaysDoubleUpToMaxAndRestart(t *testing.T) {
	b := Backoff{First: 25 * time.Millisecond, Max: 100 * time.Millisecond}
	for _, least := range []time.Duration{25, 50, 100, 100} {
		least *= time.Millisecond
		if delay := b.Next(); delay < least || delay >= 2*least {
			t.Errorf("delay %v, want from %v to %v", delay, least, 2*least)
		}
	}
	b.Reset()
	if delay := b.Next(); delay >= 50*time.Millisecond {
		t.Errorf("after a reset: %v", delay)
	}
}

func TestTheZeroValueReturnsNoDelay(t *testing.T) {
	if delay := new(Backoff).Next(); delay != 0 {
		t.Errorf("delay %v", delay)
	}
}
