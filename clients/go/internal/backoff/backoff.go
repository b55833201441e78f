// Package backoff computes retry delays.
package backoff

import (
	"math/rand/v2"
	"time"
)

// Backoff returns delays that double from First to Max, each plus up to 100 % at random, so that the clients of a
// restarted server do not reconnect all at once. Its zero value returns zero delays.
type Backoff struct {
	First, Max time.Duration
	next       time.Duration
}

// Next returns the next delay.
func (b *Backoff) Next() time.Duration {
	delay := min(max(b.next, b.First), b.Max)
	b.next = 2 * delay
	return Jitter(delay)
}

// Reset starts again with First.
func (b *Backoff) Reset() { b.next = 0 }

// Jitter returns d plus up to 100 % at random.
func Jitter(d time.Duration) time.Duration {
	if d <= 0 {
		return 0
	}
	return d + rand.N(d)
}
