package pausewatch

import (
	"maps"
	"slices"
	"sync"
	"time"
)

// How long a thread is still followed after its last stopwatch.
const linger = 30 * time.Second

// follower keeps the clocks of all followed threads up to date, over one watch.
//
//  1. A client has one follower per disconnect grace, whatever the number of threads and stopwatches.
//  2. Stopwatches outlive the client: after Close they keep running, and their threads count as running.
//  3. A thread stays followed for some time after its last stopwatch: the next command of the thread then starts with
//     exact state and costs the coordinator nothing.
//
// Lock order: a stopwatch's, the follower's, the watch's.
type follower struct {
	client *Client
	set    *watchSet
	link   *linkReporter

	mu      sync.Mutex
	threads map[string]*followedThread
	closed  bool
}

// followedThread is one thread.
type followedThread struct {
	clock       *threadClock
	stopwatches int
	// Fires some time after the last stopwatch was released; nil until one has been.
	forget *time.Timer
}

// follower returns the follower for the client's disconnect grace; nil: the client is closed.
func (c *Client) follower() *follower {
	c.mu.Lock()
	defer c.mu.Unlock()
	// Checked under the lock: either Close finds this follower, or this check sees that the client is closed.
	if c.life.Err() != nil {
		return nil
	}
	f := c.followers[c.grace]
	if f == nil {
		f = &follower{client: c, threads: make(map[string]*followedThread), link: newLinkReporter(c)}
		f.set = newWatchSet(c.life, c, f, WatchOptions{})
		c.followers[c.grace] = f
	}
	return f
}

// acquire adds a stopwatch to a thread.
func (f *follower) acquire(threadID string) *threadClock {
	f.mu.Lock()
	defer f.mu.Unlock()
	thread := f.threads[threadID]
	if thread == nil {
		thread = &followedThread{clock: newThreadClock(f, threadID)}
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

// release removes a stopwatch from a thread.
func (f *follower) release(threadID string) {
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

// close stops following all threads.
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

func (f *follower) forgetIfIdle(threadID string, thread *followedThread) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if thread.stopwatches == 0 && f.threads[threadID] == thread {
		delete(f.threads, threadID)
		if !f.closed {
			f.set.remove(threadID)
		}
	}
}

// state, disconnected, confirmed and complete receive the events of the watch.
func (f *follower) state(state PauseState, _ bool) {
	if clock := f.clock(state.ThreadID); clock != nil {
		clock.apply(state, time.Time{}, true)
	}
}

func (f *follower) disconnected(threadIDs []string, err error, silentFor time.Duration) {
	// A refusal of threads on a stream that stays open is no loss of the link.
	if f.set.hasStream() {
		f.client.log().Warn("pausewatch: a thread is not watched, its timeouts run without its pauses", "thread_ids", threadIDs, "error", err)
	} else {
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
			clock.apply(answer.state, asked, answer.watched)
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
