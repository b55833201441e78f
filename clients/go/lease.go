package pausewatch

import (
	"context"
	"sync"
	"time"

	"pausewatch.dev/clients/go/internal/backoff"
)

// Lease is the state of the lease of a [Hold], as far as it is known.
type Lease int

const (
	// Held: the elicitation is open.
	Held Lease = iota
	// Overdue: no renewal succeeded for a whole TTL: the lease has ended, or its server is down. Renewals continue;
	// if one succeeds, the lease is Held again.
	Overdue
	// Expired: the lease ended; the elicitation is closed, and its thread runs unless another one is open.
	Expired
	// Released: a decrement closed the elicitation, that of this hold or another one.
	Released
	// Unknown: the server does not know the elicitation: it lost its state, or forgot it long ago.
	Unknown
	// NotOpen: a best-effort hold could not be opened: see [Hold.Failure].
	NotOpen
)

// String returns the name in lower case.
func (l Lease) String() string {
	if l < Held || l > NotOpen {
		return "invalid"
	}
	return [...]string{"held", "overdue", "expired", "released", "unknown", "not_open"}[l]
}

// The maximum delay between two attempts to renew, unless TTL/6 is shorter. A random part may double it. After an
// outage the server gives the lease its full TTL again, and a renewal must succeed within that time.
const maxRenewalRetryDelay = 2 * time.Second

// leaseStatus is the state of a lease. It becomes overdue by itself when no renewal arrives in time.
type leaseStatus struct {
	mu    sync.Mutex
	lease Lease
	// Closed while the lease is not Held.
	lost         chan struct{}
	overdueAt    time.Time
	overdueTimer *time.Timer
}

// newLeaseStatus returns a lease that is held for ttl from now: the server's lease started before its response
// arrived, so it ends at this time at the latest.
func newLeaseStatus(ttl time.Duration) *leaseStatus {
	b := &leaseStatus{lost: make(chan struct{}), overdueAt: time.Now().Add(ttl)}
	b.overdueTimer = time.AfterFunc(ttl, b.checkOverdue)
	return b
}

func (b *leaseStatus) checkOverdue() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.lease == Held && !time.Now().Before(b.overdueAt) {
		b.set(Overdue)
	}
}

// set is called with the lock held.
func (b *leaseStatus) set(lease Lease) {
	switch {
	case b.lease == Held && lease != Held:
		close(b.lost)
	case b.lease != Held && lease == Held:
		b.lost = make(chan struct{})
	}
	b.lease = lease
}

// renewed notes that the lease is held for ttl from now.
func (b *leaseStatus) renewed(ttl time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.lease > Overdue {
		return
	}
	b.overdueAt = time.Now().Add(ttl)
	b.overdueTimer.Reset(ttl)
	b.set(Held)
}

// end notes the final state of the lease.
func (b *leaseStatus) end(lease Lease) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.overdueTimer.Stop()
	if b.lease <= Overdue {
		b.set(lease)
	}
}

func (b *leaseStatus) read() (Lease, <-chan struct{}) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.lease, b.lost
}

// renewLease renews a lease until ctx ends or the server reports that the elicitation is closed. sent is when the
// increment was sent. The interval between two renewals is TTL/3, so two may fail before the lease ends.
func renewLease(ctx context.Context, status *leaseStatus, ttl time.Duration, sent time.Time, renew func() error) {
	retryDelays := backoff.Backoff{First: min(ttl/30, 100*time.Millisecond), Max: min(ttl/6, maxRenewalRetryDelay)}
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
			status.renewed(ttl)
			retryDelays.Reset()
			next = sent.Add(ttl / 3)
		case closed:
			status.end(ending)
			return
		default:
			next = time.Now().Add(retryDelays.Next())
		}
	}
}

// leaseAfter returns the final state of a lease if err reports that its elicitation is closed.
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
