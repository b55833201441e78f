// Package backoff says how long to pause between attempts.
package backoff

import (
	"math/rand/v2"
	"time"
)

// Backoff gives pauses that double from First to Most, each with up to as much again at random, so that the clients of
// a restarted server do not come back as one. Its zero value has no pauses.
type Backoff struct {
	First, Most time.Duration
	next        time.Duration
}

// Next is the next pause.
func (b *Backoff) Next() time.Duration {
	pause := min(max(b.next, b.First), b.Most)
	b.next = 2 * pause
	return Jitter(pause)
}

// Reset begins anew.
func (b *Backoff) Reset() { b.next = 0 }

// Jitter is d and up to as much again at random.
func Jitter(d time.Duration) time.Duration {
	if d <= 0 {
		return 0
	}
	return d + rand.N(d)
}
