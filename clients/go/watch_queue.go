package pausewatch

import (
	"container/list"
	"context"
	"slices"
	"sync"
	"time"

	"pausewatch.dev/clients/go/internal/charge"
)

// The number of unread events at which the stream of WatchAll is not read any more: the coordinator then keeps the
// latest state of each thread.
const maxUnreadEvents = 10_000

// eventQueue holds the events of a watch that are not delivered yet.
//
//  1. Memory is bounded by the number of threads: for each thread it holds the latest state before and after a
//     disconnect, and at most one disconnect. WatchAll, whose number of threads is unbounded, waits for room.
//  2. The states of one thread are delivered in order, and each disconnect between the states before and after it. If
//     two disconnects are queued, they are merged into the later one, and the states between them are delivered
//     before it. Unless their threads are disconnected again, it does not name them: no newer state may follow it.
type eventQueue struct {
	// A watch of all threads: running threads are forgotten after delivery, because their number is unbounded.
	all bool
	ctx context.Context

	mu sync.Mutex
	// Values: *StateEvent, SnapshotComplete and Disconnected.
	order *list.List
	// The queued states after the disconnect; nil if none is queued.
	states               map[string]*list.Element
	disconnect, snapshot *list.Element
	// The last delivered version of each thread.
	reported map[string]charge.Version
	// Has a token when there may be a new event.
	ready chan struct{}
	// Has a token when there may be room.
	freed chan struct{}
}

func newEventQueue(ctx context.Context, all bool) *eventQueue {
	return &eventQueue{
		all:      all,
		ctx:      ctx,
		order:    list.New(),
		states:   make(map[string]*list.Element),
		reported: make(map[string]charge.Version),
		ready:    make(chan struct{}, 1),
		freed:    make(chan struct{}, 1),
	}
}

// state queues a state, in the place of an earlier one of its thread or at the end. It waits until there is room.
func (q *eventQueue) state(state PauseState, gap bool) {
	for q.full() {
		select {
		case <-q.freed:
		case <-q.ctx.Done():
			return
		}
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	q.put(q.states, q.order.PushBack(&StateEvent{State: state, Gap: gap}))
	signal(q.ready)
}

// put moves a state to the place of an earlier one of its thread, if one is queued.
func (q *eventQueue) put(states map[string]*list.Element, at *list.Element) {
	event := at.Value.(*StateEvent)
	id := event.State.ThreadID
	earlier := states[id]
	if earlier == nil {
		states[id] = at
		return
	}
	event.Gap = event.Gap || earlier.Value.(*StateEvent).Gap
	earlier.Value = event
	q.order.Remove(at)
}

// complete queues a SnapshotComplete after all events that are queued now.
func (q *eventQueue) complete() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.dropSnapshot()
	q.snapshot = q.order.PushBack(SnapshotComplete{})
	signal(q.ready)
}

func (q *eventQueue) dropSnapshot() {
	if q.snapshot != nil {
		q.order.Remove(q.snapshot)
		q.snapshot = nil
	}
}

// disconnected queues a disconnect, and drops a SnapshotComplete that is not delivered yet.
func (q *eventQueue) disconnected(threadIDs []string, err error, silentFor time.Duration) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.dropSnapshot()
	if q.disconnect != nil {
		earlier := q.order.Remove(q.disconnect).(Disconnected).ThreadIDs
		// The others are connected again: their states are delivered before this disconnect.
		lost := slices.DeleteFunc(earlier, func(id string) bool { return q.states[id] != nil })
		threadIDs = union(lost, threadIDs)
		q.conflate()
	}
	clear(q.states)
	q.disconnect = q.order.PushBack(Disconnected{ThreadIDs: threadIDs, Err: err, SilentFor: silentFor})
	signal(q.ready)
}

// conflate keeps only the latest state of each thread. Only states are queued when it is called.
func (q *eventQueue) conflate() {
	states := make(map[string]*list.Element)
	for at := q.order.Front(); at != nil; {
		next := at.Next()
		q.put(states, at)
		at = next
	}
}

// confirmed does nothing: a reader of events requests no confirmations.
func (q *eventQueue) confirmed([]confirmation, time.Time) {}

// full reports whether nothing more should be queued for now.
func (q *eventQueue) full() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.all && q.order.Len() >= maxUnreadEvents
}

// next waits for the next event; false: the context ended.
func (q *eventQueue) next() (Event, bool) {
	for {
		if event := q.pop(); event != nil {
			return event, true
		}
		select {
		case <-q.ready:
		case <-q.ctx.Done():
			return nil, false
		}
	}
}

// pop removes and returns the first event, or returns nil.
func (q *eventQueue) pop() Event {
	q.mu.Lock()
	defer q.mu.Unlock()
	defer signal(q.freed)
	first := q.order.Front()
	if first == nil {
		return nil
	}
	switch event := q.order.Remove(first).(type) {
	case *StateEvent:
		if id := event.State.ThreadID; q.states[id] == first {
			delete(q.states, id)
		}
		q.note(event)
		return *event
	case Disconnected:
		q.disconnect = nil
		return event
	default:
		q.snapshot = nil
		return SnapshotComplete{}
	}
}

// forget drops the queued state of a thread that is not watched any more.
func (q *eventQueue) forget(threadID string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if at := q.states[threadID]; at != nil {
		q.order.Remove(at)
		delete(q.states, threadID)
	}
	delete(q.reported, threadID)
}

// note sets Changed, and remembers the state as reported.
func (q *eventQueue) note(event *StateEvent) {
	id := event.State.ThreadID
	lastReported, known := q.reported[id]
	event.Changed = !known || lastReported != event.State.version()
	if q.all && !event.State.Paused {
		delete(q.reported, id)
	} else {
		q.reported[id] = event.State.version()
	}
}

// signal puts a token into the channel, unless it has one.
func signal(tokens chan<- struct{}) {
	select {
	case tokens <- struct{}{}:
	default:
	}
}

// union returns the elements of both lists, without duplicates.
func union(a, b []string) []string {
	all := slices.Concat(a, b)
	slices.Sort(all)
	return slices.Compact(all)
}
