package pausewatch

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	pausewatchv1 "pausewatch.dev/clients/go/gen/pausewatch/v1"
	"pausewatch.dev/clients/go/internal/charge"
)

// The maximum number of thread ids in one request; the server accepts twice as many.
const maxIDs = 500

// watchSet is the set of threads that one watch follows, all threads or a set that may change while it runs. It uses
// one stream, which is reopened whenever it ends.
//
//  1. At most one request of a stream is unanswered. Changes meanwhile are collected, and sent with the next request.
//  2. One goroutine calls the listener, in the order of the stream, and without a lock.
//  3. Every disconnect is reported, and the first state of a thread after it has Gap set.
//  4. A confirmation counts from the moment when its request was made. An unanswered one is requested again on the next
//     stream.
//
// Lock order: the listener's, the set's.
type watchSet struct {
	ctx      context.Context
	client   *Client
	listener watchListener
	options  WatchOptions
	// A watch of all threads; threads then has only the paused ones.
	all bool
	// Has a token when a confirmation was requested, which may shorten the wait for the next stream.
	confirmRequested chan struct{}

	mu      sync.Mutex
	running bool
	threads map[string]*watched
	// Threads that were added or removed, and are in no request of the stream yet.
	changed map[string]struct{}
	// The threads whose states must be confirmed.
	confirmations map[string]confirmationState
	// How long the stream may be silent while a confirmation is awaited.
	confirmationTimeout time.Duration
	// nil: there is no stream.
	stream             *watchStream
	disconnectReported bool // The disconnect was reported, and no answer has arrived since.
	completeReported   bool
}

// watchListener receives the events of a watch.
type watchListener interface {
	// state may wait until there is room for it.
	state(state PauseState, gap bool)
	complete()
	disconnected(threadIDs []string, err error, silentFor time.Duration)
	// confirmed receives the confirmed states of a request that was made at asked.
	confirmed(answers []confirmation, asked time.Time)
}

// confirmation is the confirmed state of a thread; watched: its changes arrive on the same stream.
type confirmation struct {
	state   PauseState
	watched bool
}

// watched is one thread of the set.
type watched struct {
	// Whether a request of this stream has added it.
	added bool
	gap   bool
	// Its disconnect, or its refusal, was reported, and no state has arrived since.
	disconnectReported, refusalReported bool
	known                               bool
	lastReported                        charge.Version
}

// hasReported reports whether a version, or a newer one, was reported. Another epoch is always newer: the server lost
// the state that it reported before.
func (w *watched) hasReported(v charge.Version) bool {
	return w.known && v.Epoch == w.lastReported.Epoch && v.Revision <= w.lastReported.Revision
}

// confirmationState is the progress of the confirmation of a thread's state.
type confirmationState int

const (
	confirmationQueued confirmationState = iota
	confirmationSent
	// The token forbids it; not requested again on this stream.
	confirmationForbidden
)

// newWatchSet returns an empty set, which is watched until ctx ends.
func newWatchSet(ctx context.Context, client *Client, listener watchListener, options WatchOptions) *watchSet {
	return &watchSet{
		ctx:                 ctx,
		client:              client,
		listener:            listener,
		options:             options,
		confirmRequested:    make(chan struct{}, 1),
		threads:             make(map[string]*watched),
		changed:             make(map[string]struct{}),
		confirmations:       make(map[string]confirmationState),
		confirmationTimeout: firstConfirmationTimeout,
	}
}

// watchAll starts a watch of all threads, which runs until ctx ends.
func watchAll(ctx context.Context, client *Client, listener watchListener, options WatchOptions) *watchSet {
	s := newWatchSet(ctx, client, listener, options)
	s.all, s.running = true, true
	go s.run()
	return s
}

// threadIDs returns the watched threads, in order; empty if it is all of them.
func (s *watchSet) threadIDs() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.all {
		return nil
	}
	return slices.Sorted(maps.Keys(s.threads))
}

// add adds threads; those that are already watched stay unchanged.
func (s *watchSet) add(threadIDs ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, id := range threadIDs {
		if s.threads[id] == nil {
			s.threads[id] = &watched{gap: true}
			s.changed[id] = struct{}{}
			s.completeReported = false
		}
	}
	if !s.running {
		s.running = true
		go s.run()
	}
	s.stream.wakeUp()
}

// remove removes a thread. Without threads there is no stream.
func (s *watchSet) remove(threadID string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.threads, threadID)
	delete(s.confirmations, threadID)
	s.stream.updateSilenceLimit()
	s.changed[threadID] = struct{}{}
	if len(s.threads) == 0 && s.stream != nil {
		s.stream.cancel(errIdle)
	}
	s.stream.wakeUp()
}

// confirm requests a confirmation of a thread's state, by a request that is made after this call.
func (s *watchSet) confirm(threadID string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.confirmations[threadID] != confirmationForbidden {
		s.confirmations[threadID] = confirmationQueued
	}
	signal(s.confirmRequested)
	s.stream.updateSilenceLimit()
	s.stream.wakeUp()
}

// unconfirm drops a confirmation that is not awaited any more.
func (s *watchSet) unconfirm(threadID string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.confirmations, threadID)
	// Nothing is late any more.
	s.stream.updateSilenceLimit()
}

// isConfirming reports whether a confirmation is awaited.
func (s *watchSet) isConfirming() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.confirmations) > 0
}

// hasStream reports whether there is a stream, perhaps one that is being opened.
func (s *watchSet) hasStream() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.stream != nil
}

// isDone reports whether nothing is left to watch. After that, the next added thread starts the watch again.
func (s *watchSet) isDone() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.running = s.ctx.Err() == nil && (s.all || len(s.threads) > 0)
	return !s.running
}

// streamOpened notes that this stream now sends the changes; first it sends the whole set. If all threads were removed
// a moment ago, it ends the stream.
func (s *watchSet) streamOpened(l *watchStream) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stream = l
	clear(s.changed)
	for id := range s.threads {
		s.changed[id] = struct{}{}
	}
	l.updateSilenceLimit()
	if !s.all && len(s.threads) == 0 {
		l.cancel(errIdle)
	}
}

// streamEnded notes that the stream has ended, or could not be opened, and reports the disconnect.
func (s *watchSet) streamEnded(l *watchStream, err error, silentFor time.Duration) {
	s.mu.Lock()
	if l.silent && len(s.confirmations) > 0 {
		s.confirmationTimeout = min(2*s.confirmationTimeout, silenceTimeout)
	}
	s.stream = nil
	for id := range s.confirmations {
		s.confirmations[id] = confirmationQueued
	}
	for _, thread := range s.threads {
		thread.added, thread.gap = false, true
	}
	s.completeReported = false
	var lost []string
	if !l.idle {
		lost = s.markDisconnected(slices.Collect(maps.Keys(s.threads)), false)
	}
	report := len(lost) > 0
	if s.all {
		lost, report, s.disconnectReported = nil, !s.disconnectReported, true
	}
	s.mu.Unlock()
	if report {
		s.listener.disconnected(lost, err, silentFor)
	}
}

// markDisconnected marks the threads as disconnected or as refused, and returns those that were not marked so before.
// A refusal says more than a disconnect, so it replaces that mark.
func (s *watchSet) markDisconnected(threadIDs []string, refused bool) []string {
	return slices.DeleteFunc(threadIDs, func(id string) bool {
		thread := s.threads[id]
		if thread == nil || thread.refusalReported || thread.disconnectReported && !refused {
			return true
		}
		thread.disconnectReported, thread.refusalReported = true, refused
		return false
	})
}

// state reports a state from the stream, unless it is not newer than the last one reported.
func (s *watchSet) state(l *watchStream, state PauseState) {
	s.mu.Lock()
	thread := s.threads[state.ThreadID]
	if thread == nil && s.all {
		thread = &watched{gap: !l.answered}
		s.threads[state.ThreadID] = thread
	}
	if thread == nil || !thread.gap && thread.hasReported(state.version()) {
		s.mu.Unlock()
		return
	}
	gap := thread.gap
	thread.known, thread.lastReported, thread.gap = true, state.version(), false
	thread.disconnectReported, thread.refusalReported = false, false
	if s.all && !state.Paused {
		delete(s.threads, state.ThreadID)
	}
	s.mu.Unlock()
	s.listener.state(state, gap)
}

// onAnswer notes that the latest request is answered.
func (s *watchSet) onAnswer(l *watchStream) {
	s.mu.Lock()
	complete := s.onRequestDone(l)
	s.mu.Unlock()
	if complete {
		s.listener.complete()
	}
	l.wakeUp()
}

// onRequestDone notes that the latest request is answered or refused. It returns whether the snapshot is now
// complete, and that has not been reported yet.
func (s *watchSet) onRequestDone(l *watchStream) bool {
	l.sent, l.answered, s.disconnectReported = nil, true, false
	l.updateSilenceLimit()
	if s.completeReported || s.hasChanges(l) {
		return false
	}
	s.completeReported = true
	return true
}

// confirmed reports confirmed states from the stream.
func (s *watchSet) confirmed(l *watchStream, states []*pausewatchv1.PauseState) {
	s.mu.Lock()
	s.confirmationTimeout = firstConfirmationTimeout
	answers := make([]confirmation, 0, len(states))
	for _, wire := range states {
		state := stateFromWire(wire)
		// A confirmation that was requested again meanwhile stays queued.
		if s.confirmations[state.ThreadID] == confirmationSent {
			delete(s.confirmations, state.ThreadID)
		}
		thread := s.threads[state.ThreadID]
		answers = append(answers, confirmation{state, thread != nil && !thread.gap})
	}
	since := l.sentAt
	s.mu.Unlock()
	s.listener.confirmed(answers, since)
}
