package pausewatch

import (
	"context"
	"fmt"
	"time"
	"unicode"
	"unicode/utf8"
)

// Event is one event of a watch: a [StateEvent], a [SnapshotComplete] or a [Disconnected].
type Event interface{ event() }

// StateEvent is the state of a thread: the first one, a change, or the first one after a break.
type StateEvent struct {
	// State has its Elicitations if [WatchOptions] asked for them.
	State PauseState
	// Gap: changes may have been missed before this state: it is the first of its thread, or the first after a break.
	Gap bool
	// Changed: the revision or the epoch differs from what was told last. False only after a gap: nothing happened in it.
	Changed bool
}

// SnapshotComplete: every watched thread has been told, and all changes come as they happen. Told again after every
// break.
type SnapshotComplete struct{}

// Disconnected: from here on nothing is known of these threads until their next state comes. The watch is trying again.
type Disconnected struct {
	// ThreadIDs are the threads; empty with [Client.WatchAll], where it is all of them.
	ThreadIDs []string
	// Err says why.
	Err error
	// SilentFor is how long ago the last message came, if the connection died in silence; 0 if its end was noticed at once.
	SilentFor time.Duration
}

func (StateEvent) event()       {}
func (SnapshotComplete) event() {}
func (Disconnected) event()     {}

// WatchOptions are what a watch may ask for. The zero value is fine.
type WatchOptions struct {
	// IncludeElicitations fills the Elicitations of each state.
	IncludeElicitations bool
	// Observer says that this watch shows pauses to people, and freezes nothing: it does not count among the Watchers of a
	// thread.
	Observer bool
}

// Watch tells the states of threads, across lost connections, until ctx ends or the client is closed; then the channel
// is closed. First each thread once, then [SnapshotComplete], then changes as they happen.
//
//	events, err := client.Watch(ctx, []string{"thread-1"}, pausewatch.WatchOptions{})
//	if err != nil {
//		return err
//	}
//	for event := range events {
//		if state, ok := event.(pausewatch.StateEvent); ok { … }
//	}
//
// A break of the connection, or 30 s of silence (two heartbeats), is told as [Disconnected]; then it connects again,
// after 50 ms at first, after 3 to 6 s at most. A reader that is slow gets the latest state of each thread, not every
// one in between: memory is bounded by the number of threads. Whoever stops to read must end ctx.
//
// Threads that the token does not open, or that are too many, are told as [Disconnected] with the refusal as its Err; the
// others are watched. The former are tried again with the next connection, the latter when the coordinator says.
//
// Errors: [*InvalidFieldError]: no thread can have one of these ids, or there is none.
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

// Watch is a watch whose threads can change. Made by [Client.StartWatch]; safe for any number of goroutines.
type Watch struct {
	events <-chan Event
	set    *watchSet
	queue  *eventQueue
}

// StartWatch is [Client.Watch] of threads that can change; it may begin with none.
//
// Errors: [*InvalidFieldError]: no thread can have one of these ids.
func (c *Client) StartWatch(ctx context.Context, threadIDs []string, opts WatchOptions) (*Watch, error) {
	for _, threadID := range threadIDs {
		if err := checkThreadID(threadID); err != nil {
			return nil, err
		}
	}
	ctx, cancel, queue := c.watchContext(ctx, false)
	watch := &Watch{set: newWatchSet(ctx, c, queue, opts), queue: queue}
	if len(threadIDs) > 0 {
		watch.set.add(threadIDs...)
	}
	watch.events = tell(ctx, cancel, queue)
	return watch, nil
}

// Events has what happens, as the channel of [Client.Watch]; always the same one.
func (w *Watch) Events() <-chan Event { return w.events }

// Add watches one thread more: its state is told, then [SnapshotComplete] again. Nothing happens if it is watched already.
//
// Errors: [*InvalidFieldError]: no thread can have this id.
func (w *Watch) Add(threadID string) error {
	if err := checkThreadID(threadID); err != nil {
		return err
	}
	w.set.add(threadID)
	return nil
}

// Remove watches one thread less. Events of it that are on their way may still come.
func (w *Watch) Remove(threadID string) {
	w.set.remove(threadID)
	w.queue.forget(threadID)
}

// WatchAll is [Client.Watch] of every thread that this client may see: first the paused ones. What was resumed while it
// was cut off is told too. Of a reader that is slow 10,000 events wait here, and the latest state of each further thread
// at the coordinator.
func (c *Client) WatchAll(ctx context.Context, opts WatchOptions) <-chan Event {
	ctx, cancel, queue := c.watchContext(ctx, true)
	watchAll(ctx, c, queue, opts)
	return tell(ctx, cancel, queue)
}

// watchContext lasts as long as ctx and the client.
func (c *Client) watchContext(ctx context.Context, all bool) (context.Context, func(), *eventQueue) {
	ctx, cancel := context.WithCancel(ctx)
	unlink := context.AfterFunc(c.life, cancel)
	end := func() {
		unlink()
		cancel()
	}
	return ctx, end, newEventQueue(ctx, all)
}

// tell hands the events of a queue on until ctx ends.
func tell(ctx context.Context, end func(), queue *eventQueue) <-chan Event {
	events := make(chan Event)
	go func() {
		defer close(events)
		defer end()
		for {
			event, ok := queue.next(ctx)
			if !ok {
				return
			}
			select {
			case events <- event:
			case <-ctx.Done():
				return
			}
		}
	}()
	return events
}

// checkThreadID refuses what the server would refuse, and with it every other thread of the stream.
func checkThreadID(threadID string) error {
	problem := ""
	switch {
	case threadID == "":
		problem = "is empty; allowed: 1 to 256 bytes"
	case len(threadID) > 256:
		problem = fmt.Sprintf("has %d bytes; allowed: 1 to 256", len(threadID))
	case !utf8.ValidString(threadID):
		problem = "is not UTF-8"
	case hasControl(threadID):
		problem = "has a control character; allowed: none"
	default:
		return nil
	}
	return invalidField("thread_id", "thread_id "+problem)
}

func hasControl(text string) bool {
	for _, c := range text {
		if unicode.IsControl(c) {
			return true
		}
	}
	return false
}
