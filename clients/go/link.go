package pausewatch

import (
	"sync"
	"time"
)

// LinkState is the state of the link between the timeouts of a client and the coordinator.
type LinkState int

const (
	// LinkConnected: the state of every followed thread is known and up to date, except of threads that the coordinator
	// refuses; a refusal is logged.
	LinkConnected LinkState = iota
	// LinkDisconnected: the state of at least one thread may be out of date; timeouts continue with the last known one.
	LinkDisconnected
	// LinkGraceSpent: disconnected for longer than the disconnect grace. Paused threads count as running, and timeouts
	// that run out expire without a confirmation.
	LinkGraceSpent
)

// String returns the name in lower case.
func (s LinkState) String() string {
	if s < LinkConnected || s > LinkGraceSpent {
		return "invalid"
	}
	return [...]string{"connected", "disconnected", "grace_spent"}[s]
}

// Link is a change of the link between the timeouts of a client and the coordinator: see [WithLinkObserver].
type Link struct {
	State LinkState
	// Since is when the connection was lost; if it was silent for 15 s before, when its last message arrived. Zero:
	// connected.
	Since time.Time
	// Err is the cause. nil: connected.
	Err error
}

// linkReporter reports the link of one follower to the program, and logs it. The first loss counts: all threads share
// one grace.
type linkReporter struct {
	client *Client

	mu       sync.Mutex
	last     Link
	reported bool
	closed   bool
	spent    *time.Timer
	// Changes that are not delivered yet. One goroutine delivers them, and ends when the queue is empty.
	queue []Link
}

func newLinkReporter(c *Client) *linkReporter { return &linkReporter{client: c} }

func (r *linkReporter) connected() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed || r.reported && r.last.State == LinkConnected {
		return
	}
	if r.reported {
		r.spent.Stop()
		r.client.log().Info("pausewatch: connected to the coordinator again")
	}
	r.change(Link{})
}

func (r *linkReporter) disconnected(err error, silentFor time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	// Close ends the watch before it ends the reports.
	if r.closed || r.client.life.Err() != nil || r.reported && r.last.State != LinkConnected {
		return
	}
	r.client.log().Warn("pausewatch: the coordinator is unreachable, timeouts continue with the last known states", "error", err)
	lost := Link{State: LinkDisconnected, Since: time.Now().Add(-silentFor), Err: err}
	r.change(lost)
	r.spent = time.AfterFunc(r.client.grace-silentFor, func() { r.graceSpent(lost) })
}

func (r *linkReporter) graceSpent(lost Link) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed || r.last.State != LinkDisconnected || !r.last.Since.Equal(lost.Since) {
		return
	}
	r.client.log().Warn("pausewatch: the disconnect grace is spent, paused threads count as running", "error", lost.Err)
	lost.State = LinkGraceSpent
	r.change(lost)
}

// close ends all reports.
func (r *linkReporter) close() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.closed = true
	if r.spent != nil {
		r.spent.Stop()
	}
}

// change is called with the lock held.
func (r *linkReporter) change(link Link) {
	r.last, r.reported = link, true
	if r.client.onLink == nil {
		return
	}
	if r.queue = append(r.queue, link); len(r.queue) == 1 {
		go r.deliver()
	}
}

func (r *linkReporter) deliver() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for len(r.queue) > 0 {
		link := r.queue[0]
		r.mu.Unlock()
		r.client.onLink(link)
		r.mu.Lock()
		r.queue = r.queue[1:]
	}
}
