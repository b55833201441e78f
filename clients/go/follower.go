package pausewatch

import (
	"maps"
	"slices"
	"sync"
	"time"
)

// How long a thread without stopwatches is still followed.
const linger = 30 * time.Second

// follower knows which stopwatch follows which thread, and keeps the threads' clocks in step with one watch.
//
//  1. A client has one follower for each disconnect grace, whatever the number of threads and stopwatches.
//  2. Its stopwatches outlive the client: closed, it stops none of them, and their threads count as running.
//  3. A thread is followed for some time after its last stopwatch: the next command of the thread starts with exact
//     knowledge and costs the coordinator nothing.
//
// Locks: a stopwatch's before the follower's before the watch's.
type follower struct {
	client *Client
	set    *watchSet
	link   *linkReporter

	mu      sync.Mutex
	threads map[string]*followed
	closed  bool
}

// followed is one thread.
type followed struct {
	clock       *threadClock
	stopwatches int
	// Fires some time after the last stopwatch left; nil before one has.
	forget *time.Timer
}

// follower gives the one for the client's disconnect grace; nil: the client is closed.
func (c *Client) follower() *follower {
	c.mu.Lock()
	defer c.mu.Unlock()
	// Looked at under the lock: Close either finds the follower, or is seen here.
	if c.life.Err() != nil {
		return nil
	}
	f := c.followers[c.grace]
	if f == nil {
		f = &follower{client: c, threads: make(map[string]*followed), link: newLinkReporter(c)}
		f.set = newWatchSet(c.life, c, f, WatchOptions{})
		c.followers[c.grace] = f
	}
	return f
}

// enter counts one more stopwatch of a thread.
func (f *follower) enter(threadID string) *threadClock {
	f.mu.Lock()
	defer f.mu.Unlock()
	thread := f.threads[threadID]
	if thread == nil {
		thread = &followed{clock: newThreadClock(f, threadID)}
		f.threads[threadID] = thread
		if f.closed {
			thread.clock.close()
		} else {
			f.set.add(threadID)
		}
	}
	thread.stopwatches++
	return thread.clock
}

// leave counts one less.
func (f *follower) leave(threadID string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	thread := f.threads[threadID]
	thread.stopwatches--
	if thread.stopwatches > 0 {
		return
	}
	if thread.forget == nil {
		thread.forget = time.AfterFunc(linger, func() { f.forgetIfIdle(threadID, thread) })
	} else {
		thread.forget.Reset(linger)
	}
}

// close follows no more.
func (f *follower) close() {
	f.mu.Lock()
	f.closed = true
	f.link.close()
	threads := slices.Collect(maps.Values(f.threads))
	f.mu.Unlock()
	for _, thread := range threads {
		thread.clock.close()
	}
}

func (f *follower) forgetIfIdle(threadID string, thread *followed) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if thread.stopwatches == 0 && f.threads[threadID] == thread {
		delete(f.threads, threadID)
		if !f.closed {
			f.set.remove(threadID)
		}
	}
}

// state, disconnected and confirmed are what the watch tells.
func (f *follower) state(state PauseState, _ bool) {
	if clock := f.clock(state.ThreadID); clock != nil {
		clock.heard(state, time.Time{}, true)
	}
}

func (f *follower) disconnected(threadIDs []string, err error, silentFor time.Duration) {
	// Threads that are refused on a stream that goes on are no loss of the link.
	if !f.set.hasStream() {
		f.link.disconnected(err, silentFor)
	}
	for _, id := range threadIDs {
		if clock := f.clock(id); clock != nil {
			clock.disconnect(silentFor)
		}
	}
}

func (f *follower) confirmed(answers []confirmation, asked time.Time) {
	for _, answer := range answers {
		if clock := f.clock(answer.state.ThreadID); clock != nil {
			clock.heard(answer.state, asked, answer.watched)
		}
	}
}

func (f *follower) complete() { f.link.connected() }

func (f *follower) clock(threadID string) *threadClock {
	f.mu.Lock()
	defer f.mu.Unlock()
	if thread := f.threads[threadID]; thread != nil {
		return thread.clock
	}
	return nil
}
