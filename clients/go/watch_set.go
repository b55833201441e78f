package pausewatch

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	pausewatchv1 "pausewatch.dev/clients/go/gen/pausewatch/v1"
)

// The most thread ids in one request; the server takes twice as many.
const mostIDs = 500

// watchSet is what one watch follows, all threads or a set that may change while it runs, over one stream that is opened
// again whenever it breaks.
//
//  1. One request of a stream is unanswered at a time. What changes meanwhile is collected, and sent with the next one.
//  2. The listener is told by one goroutine, in the order of the stream, and without a lock.
//  3. Every disconnect is told, and the first state of a thread after it carries the gap.
//  4. A confirmation counts from the moment when its request was made. What was asked for and not answered is asked for
//     again on the next stream.
//
// Locks: the listener's before the set's.
type watchSet struct {
	ctx      context.Context
	client   *Client
	listener watchListener
	options  WatchOptions
	// Every thread; threads are those that are paused.
	all bool
	// Has a token when a confirmation may be wanted sooner than the next stream.
	hurry chan struct{}

	mu      sync.Mutex
	running bool
	threads map[string]*watched
	// Added or removed, and in no request of the stream yet.
	changed map[string]struct{}
	// The threads whose states are to be confirmed.
	questions map[string]question
	// How long an answer to them may take while the stream is silent.
	patience time.Duration
	// nil: there is none.
	stream       *watchStream
	cut          bool // Told as disconnected, and nothing heard since.
	toldComplete bool
}

// watchListener is told what a watch hears.
type watchListener interface {
	// state may wait until there is room for it.
	state(state PauseState, gap bool)
	complete()
	disconnected(threadIDs []string, err error, silentFor time.Duration)
	// confirmed has the answers to a request that was made then.
	confirmed(answers []confirmation, asked time.Time)
}

// confirmation is the confirmed state of a thread; watched: its changes are heard on the same stream.
type confirmation struct {
	state   PauseState
	watched bool
}

// watched is one thread of the set.
type watched struct {
	// Whether a request of this stream has added it.
	added bool
	gap   bool
	// Told as disconnected, and not heard of since.
	cut   bool
	known bool
	told  version
}

// question is how far the confirmation of a thread's state is.
type question int

const (
	unasked question = iota
	asked
	// The token forbids it, on this stream.
	notAllowed
)

// newWatchSet is an empty set, for as long as ctx lasts.
func newWatchSet(ctx context.Context, client *Client, listener watchListener, options WatchOptions) *watchSet {
	return &watchSet{
		ctx:       ctx,
		client:    client,
		listener:  listener,
		options:   options,
		hurry:     make(chan struct{}, 1),
		threads:   make(map[string]*watched),
		changed:   make(map[string]struct{}),
		questions: make(map[string]question),
		patience:  firstPatience,
	}
}

// watchAll is every thread, for as long as ctx lasts.
func watchAll(ctx context.Context, client *Client, listener watchListener, options WatchOptions) *watchSet {
	s := newWatchSet(ctx, client, listener, options)
	s.all, s.running = true, true
	go s.run()
	return s
}

// add watches more threads; those that are watched already stay as they are.
func (s *watchSet) add(threadIDs ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, id := range threadIDs {
		if s.threads[id] == nil {
			s.threads[id] = &watched{gap: true}
			s.changed[id] = struct{}{}
			s.toldComplete = false
		}
	}
	if !s.running {
		s.running = true
		go s.run()
	}
	s.stream.wakeUp()
}

// remove watches one thread less. Without threads there is no stream.
func (s *watchSet) remove(threadID string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.threads, threadID)
	delete(s.questions, threadID)
	s.changed[threadID] = struct{}{}
	if len(s.threads) == 0 && s.stream != nil {
		s.stream.cancel(nil)
	}
	s.stream.wakeUp()
}

// confirm asks for the state of a thread, by a request that is made after this.
func (s *watchSet) confirm(threadID string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.questions[threadID] != notAllowed {
		s.questions[threadID] = unasked
	}
	signal(s.hurry)
	s.stream.watchOver()
	s.stream.wakeUp()
}

// unconfirm: nobody waits for the answer any more.
func (s *watchSet) unconfirm(threadID string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.questions, threadID)
}

// asks says whether anybody waits for a confirmation.
func (s *watchSet) asks() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.questions) > 0
}

// hasStream says whether there is a stream, perhaps one that is being opened.
func (s *watchSet) hasStream() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.stream != nil
}

// ended says whether nothing is left to watch. After that, the next thread starts it anew.
func (s *watchSet) ended() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.running = s.ctx.Err() == nil && (s.all || len(s.threads) > 0)
	return !s.running
}

// opened: from here on what changes is sent by that stream, and first of all everything.
func (s *watchSet) opened(l *watchStream) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stream = l
	clear(s.changed)
	for id := range s.threads {
		s.changed[id] = struct{}{}
	}
	l.watchOver()
}

// broken: the stream has ended, or could not be opened.
func (s *watchSet) broken(l *watchStream, err error, silentFor time.Duration) {
	s.mu.Lock()
	if l.silent && len(s.questions) > 0 {
		s.patience = min(2*s.patience, silence)
	}
	s.stream = nil
	for id := range s.questions {
		s.questions[id] = unasked
	}
	for _, thread := range s.threads {
		thread.added, thread.gap = false, true
	}
	s.toldComplete = false
	lost := s.cutOff(slices.Collect(maps.Keys(s.threads)))
	tell := len(lost) > 0
	if s.all {
		lost, tell, s.cut = nil, !s.cut, true
	}
	s.mu.Unlock()
	if tell {
		s.listener.disconnected(lost, err, silentFor)
	}
}

// cutOff gives those of the threads that were not cut off before.
func (s *watchSet) cutOff(threadIDs []string) []string {
	return slices.DeleteFunc(threadIDs, func(id string) bool {
		thread := s.threads[id]
		before := thread == nil || thread.cut
		if !before {
			thread.cut = true
		}
		return before
	})
}

// state: the stream tells the state of a thread. It is passed on, unless it is no news.
func (s *watchSet) state(l *watchStream, state PauseState) {
	s.mu.Lock()
	thread := s.threads[state.ThreadID]
	if thread == nil && s.all {
		thread = &watched{gap: !l.answered}
		s.threads[state.ThreadID] = thread
	}
	if thread == nil || !thread.gap && thread.known && state.version().isNoNews(thread.told) {
		s.mu.Unlock()
		return
	}
	gap := thread.gap
	thread.known, thread.told, thread.gap, thread.cut = true, state.version(), false, false
	if s.all && !state.Paused {
		delete(s.threads, state.ThreadID)
	}
	s.mu.Unlock()
	s.listener.state(state, gap)
}

// answered: the latest request is answered.
func (s *watchSet) answered(l *watchStream) {
	s.mu.Lock()
	complete := s.settled(l)
	s.mu.Unlock()
	if complete {
		s.listener.complete()
	}
	l.wakeUp()
}

// settled: the latest request is answered or refused. It says whether the snapshot is complete, and that is news.
func (s *watchSet) settled(l *watchStream) bool {
	l.sent, l.answered, s.cut = nil, true, false
	l.watchOver()
	if s.toldComplete || s.hasChanges(l) {
		return false
	}
	s.toldComplete = true
	return true
}

// confirmed: the stream answers questions.
func (s *watchSet) confirmed(l *watchStream, states []*pausewatchv1.PauseState) {
	s.mu.Lock()
	s.patience = firstPatience
	answers := make([]confirmation, 0, len(states))
	for _, wire := range states {
		state := stateFromWire(wire)
		// Asked again meanwhile, it stays.
		if s.questions[state.ThreadID] == asked {
			delete(s.questions, state.ThreadID)
		}
		thread := s.threads[state.ThreadID]
		answers = append(answers, confirmation{state, thread != nil && !thread.gap})
	}
	since := l.sentAt
	s.mu.Unlock()
	s.listener.confirmed(answers, since)
}
