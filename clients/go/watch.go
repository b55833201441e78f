package pausewatch

import (
	"context"
	"fmt"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// Event is one event of a watch: a [StateEvent], a [SnapshotComplete] or a [Disconnected].
type Event interface{ event() }

// StateEvent reports the state of a thread: the first one, a change, or the first one after a disconnect.
type StateEvent struct {
	// State is the state, with its Elicitations if [WatchOptions] requests them.
	State PauseState
	// Gap: changes may have been missed before this state, because it is the first one of its thread, or the first
	// after a disconnect.
	Gap bool
	// Changed: the revision or the epoch differs from the last state reported for the thread. It is false only after
	// a gap in which nothing changed.
	Changed bool
}

// SnapshotComplete: every watched thread has been reported; changes follow as they happen. Reported again after every
// disconnect.
type SnapshotComplete struct{}

// Disconnected: the states of these threads are unknown until the next state of each is reported. The watch is
// reconnecting.
type Disconnected struct {
	// ThreadIDs are the disconnected threads; empty with [Client.WatchAll], where it is all of them.
	ThreadIDs []string
	// Err is the cause.
	Err error
	// SilentFor is the time since the last message, if the connection died silently; 0 if its end was noticed at once.
	SilentFor time.Duration
}

func (StateEvent) event()       {}
func (SnapshotComplete) event() {}
func (Disconnected) event()     {}

// WatchOptions are the options of a watch. The zero value is valid.
type WatchOptions struct {
	// IncludeElicitations fills the Elicitations of each state.
	IncludeElicitations bool
	// Observer says that this watch only shows pauses to people, and freezes nothing: it does not count among the
	// Watchers of a thread.
	Observer bool
}

// Watch reports the states of threads, across lost connections, until ctx ends or the client is closed; then the
// channel is closed. It first reports each thread once, then [SnapshotComplete], then changes as they happen. If the
// client is closed, the last event is a [Disconnected] with [ErrClosed]: nothing more is known of the threads.
//
//	events, err := client.Watch(ctx, []string{"thread-1"}, pausewatch.WatchOptions{})
//	if err != nil {
//		return err
//	}
//	for event := range events {
//		if state, ok := event.(pausewatch.StateEvent); ok { … }
//	}
//
// A lost connection, or 30 s without a message (two heartbeats; two and a half, if the server sends their interval),
// is reported as [Disconnected]. Then the watch reconnects, with a retry delay of 50 to 100 ms at first and 3 to 6 s
// at most. A slow reader receives the latest state of each thread, not every one in between: memory is bounded by the
// number of threads. End ctx to stop reading.
//
// Threads that the token may not read, and threads beyond a limit, are reported as [Disconnected] with the refusal as
// Err; the other threads are watched. The former are retried with the next connection, the latter after the delay
// that the coordinator sends.
//
// Errors: [*InvalidFieldError]: no thread can have one of these ids, or the list is empty. [ErrClosed]: the client is
// closed.
func (c *Client) Watch(ctx context.Context, threadIDs []string, opts WatchOptions) (<-chan Event, error) {
	if len(threadIDs) == 0 {
		return nil, invalidField("thread_ids", "thread_ids is empty; WatchAll watches every thread")
	}
	watch, err := c.StartWatch(ctx, threadIDs, opts)
	if err != nil {
		return nil, err
	}
	return watch.Events(), nil
}

// Watch is a watch whose threads can change. Created by [Client.StartWatch]; safe for concurrent use.
type Watch struct {
	events <-chan Event
	set    *watchSet
	queue  *eventQueue
}

// StartWatch is [Client.Watch] for a set of threads that can change; the set may be empty at first.
//
// Errors: [*InvalidFieldError]: no thread can have one of these ids. [ErrClosed]: the client is closed.
func (c *Client) StartWatch(ctx context.Context, threadIDs []string, opts WatchOptions) (*Watch, error) {
	for _, threadID := range threadIDs {
		if err := checkThreadID(threadID); err != nil {
			return nil, err
		}
	}
	if c.life.Err() != nil {
		return nil, callEnded(ErrClosed, 0)
	}
	watchCtx, cancel, queue := c.watchContext(ctx, false)
	watch := &Watch{set: newWatchSet(watchCtx, c, queue, opts), queue: queue}
	if len(threadIDs) > 0 {
		watch.set.add(threadIDs...)
	}
	watch.events = deliver(ctx, cancel, queue, watch.set)
	return watch, nil
}

// Events returns the channel of events, as [Client.Watch] does; always the same one.
func (w *Watch) Events() <-chan Event { return w.events }

// Add adds a thread: its state is reported, then [SnapshotComplete] again. Does nothing if the thread is already
// watched.
//
// Errors: [*InvalidFieldError]: no thread can have this id.
func (w *Watch) Add(threadID string) error {
	if err := checkThreadID(threadID); err != nil {
		return err
	}
	w.set.add(threadID)
	return nil
}

// Remove removes a thread. Events of it that are already being delivered may still arrive.
func (w *Watch) Remove(threadID string) {
	w.set.remove(threadID)
	w.queue.forget(threadID)
}

// WatchAll is [Client.Watch] for every thread that this client may read, paused threads first. Threads that resumed
// during a disconnect are reported too. For a slow reader, up to 10,000 events are buffered here, and the coordinator
// keeps the latest state of each further thread. If the client is closed already, a [Disconnected] with [ErrClosed] is
// the only event.
func (c *Client) WatchAll(ctx context.Context, opts WatchOptions) <-chan Event {
	if c.life.Err() != nil {
		events := make(chan Event, 1)
		events <- Disconnected{Err: callEnded(ErrClosed, 0)}
		close(events)
		return events
	}
	watchCtx, cancel, queue := c.watchContext(ctx, true)
	return deliver(ctx, cancel, queue, watchAll(watchCtx, c, queue, opts))
}

// watchContext returns a context that ends with ctx or with the client.
func (c *Client) watchContext(ctx context.Context, all bool) (context.Context, func(), *eventQueue) {
	ctx, cancel := context.WithCancel(ctx)
	unlink := context.AfterFunc(c.life, cancel)
	end := func() {
		unlink()
		cancel()
	}
	return ctx, end, newEventQueue(ctx, all)
}

// deliver sends the events of a queue to a channel until the queue's context ends. If that was not the end of ctx, the
// client was closed, which is the last event. The channel has room for it, so that this ends without a reader too.
func deliver(ctx context.Context, end func(), queue *eventQueue, set *watchSet) <-chan Event {
	events := make(chan Event, 1)
	go func() {
		defer close(events)
		defer end()
		for {
			event, ok := queue.next()
			if ok {
				select {
				case events <- event:
					continue
				case <-queue.ctx.Done():
				}
			}
			if ctx.Err() == nil {
				select {
				case <-events: // It is out of date.
				default:
				}
				events <- Disconnected{ThreadIDs: set.threadIDs(), Err: callEnded(ErrClosed, 0)}
			}
			return
		}
	}()
	return events
}

// checkThreadID returns the error that the server would return, which would end the stream for all other threads too.
func checkThreadID(threadID string) error {
	problem := ""
	switch {
	case threadID == "":
		problem = "is empty; allowed: 1 to 256 bytes"
	case len(threadID) > 256:
		problem = fmt.Sprintf("has %d bytes; allowed: 1 to 256", len(threadID))
	case !utf8.ValidString(threadID):
		problem = "is not UTF-8"
	case strings.ContainsFunc(threadID, unicode.IsControl):
		problem = "has a control character; allowed: none"
	default:
		return nil
	}
	return invalidField("thread_id", "thread_id "+problem)
}
