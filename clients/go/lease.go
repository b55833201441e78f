package pausewatch

import (
	"context"
	"sync"
	"time"

	"pausewatch.dev/clients/go/internal/backoff"
)

// Lease is what is known of the lease of a [Hold].
type Lease int

const (
	// Held: the elicitation is open.
	Held Lease = iota
	// Overdue: no renewal got through for a whole TTL: the lease is over, or its server is down. Renewals are still
	// tried; if one succeeds, the lease is Held again.
	Overdue
	// Expired: the lease ended; the elicitation is closed, and its thread runs unless another one is open.
	Expired
	// Released: the elicitation was closed by a decrement, of this hold or another's.
	Released
	// Unknown: the server does not know the elicitation: it lost its state, or has long forgotten it.
	Unknown
	// NotOpen: a best-effort hold that could not be opened: nothing was paused.
	NotOpen
)

// String is the name in small letters.
func (l Lease) String() string {
	if l < Held || l > NotOpen {
		return "invalid"
	}
	return [...]string{"held", "overdue", "expired", "released", "unknown", "not_open"}[l]
}

// The longest pause between two tries to renew, unless a sixth of the TTL is shorter: it may become twice as long at random,
// and after an outage the lease must be renewed before the server, which gives it its full TTL again, ends it.
const mostRenewRetry = 2 * time.Second

// leaseBoard shows what is known of a lease, and calls it overdue when its time has come.
type leaseBoard struct {
	mu    sync.Mutex
	lease Lease
	// Closed while the lease is not Held.
	lost    chan struct{}
	over    time.Time
	overdue *time.Timer
}

// newLeaseBoard shows a lease that is held, for ttl from now: the server counted from some moment before its answer
// came, so not later than this it is over.
func newLeaseBoard(ttl time.Duration) *leaseBoard {
	b := &leaseBoard{lost: make(chan struct{}), over: time.Now().Add(ttl)}
	b.overdue = time.AfterFunc(ttl, b.look)
	return b
}

func (b *leaseBoard) look() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.lease == Held && !time.Now().Before(b.over) {
		b.show(Overdue)
	}
}

// show is called with the lock.
func (b *leaseBoard) show(lease Lease) {
	switch {
	case b.lease == Held && lease != Held:
		close(b.lost)
	case b.lease != Held && lease == Held:
		b.lost = make(chan struct{})
	}
	b.lease = lease
}

// renewed: the lease is held for ttl from now.
func (b *leaseBoard) renewed(ttl time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.lease > Overdue {
		return
	}
	b.over = time.Now().Add(ttl)
	b.overdue.Reset(ttl)
	b.show(Held)
}

// ended: the lease is over for ever.
func (b *leaseBoard) ended(lease Lease) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.overdue.Stop()
	if b.lease <= Overdue {
		b.show(lease)
	}
}

func (b *leaseBoard) read() (Lease, <-chan struct{}) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.lease, b.lost
}

// renewLease renews a lease until ctx ends or the server says that the elicitation is closed. sent is when the increment
// was sent. A third of the TTL lies between two renewals, so two may fail before the lease ends.
func renewLease(ctx context.Context, board *leaseBoard, ttl time.Duration, sent time.Time, renew func() error) {
	pauses := backoff.Backoff{First: min(ttl/30, 100*time.Millisecond), Most: min(ttl/6, mostRenewRetry)}
	next := sent.Add(ttl / 3)
	for {
		select {
		case <-time.After(time.Until(next)):
		case <-ctx.Done():
			return
		}
		sent := time.Now()
		err := renew()
		ending, closed := leaseAfter(err)
		switch {
		case err == nil:
			board.renewed(ttl)
			pauses.Reset()
			next = sent.Add(ttl / 3)
		case closed:
			board.ended(ending)
			return
		default:
			next = time.Now().Add(pauses.Next())
		}
	}
}

// leaseAfter says what became of a lease whose elicitation was refused as closed.
func leaseAfter(err error) (ending Lease, closed bool) {
	switch {
	case is[*ElicitationExpiredError](err):
		return Expired, true
	case is[*ElicitationReleasedError](err):
		return Released, true
	case is[*ElicitationUnknownError](err):
		return Unknown, true
	default:
		return Held, false
	}
}
