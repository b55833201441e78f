package pausewatch

import (
	"cmp"
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"time"

	"google.golang.org/grpc"

	"pausewatch.dev/clients/go/internal/backoff"

	pausewatchv1 "pausewatch.dev/clients/go/gen/pausewatch/v1"
)

const (
	// The heartbeat interval of a server that does not send its own. If a connection ends after a longer silence, it
	// was dead during the silence: a ping without an answer, or this library, ended it because of the silence.
	maxHeartbeatInterval = 15 * time.Second
	// The maximum silence; if the server sends its heartbeat interval, two and a half intervals. TCP may treat a dead
	// connection as alive for much longer.
	silenceTimeout = 2 * maxHeartbeatInterval
	// The minimum and the maximum heartbeat interval that are accepted from a server.
	minAcceptedInterval = 100 * time.Millisecond
	maxAcceptedInterval = time.Hour
	// The maximum silence while a confirmation is awaited; doubled each time that none arrives.
	firstConfirmationTimeout = 250 * time.Millisecond
	// The first and the maximum delay before a stream is reopened, and the maximum one while a confirmation is
	// awaited; each plus up to 100 % at random.
	firstReopenDelay     = 50 * time.Millisecond
	maxReopenDelay       = 3 * time.Second
	maxConfirmationDelay = 100 * time.Millisecond
)

var (
	errSilent = errors.New("silent")
	errMoved  = errors.New("moved")
	errIdle   = errors.New("nothing is watched")
)

// watchStream is one stream of a watch. One goroutine sends; the set's goroutine reads.
type watchStream struct {
	set    *watchSet
	cancel context.CancelCauseFunc
	// Has a token when there may be something to send.
	wake chan struct{}
	// Ends the stream when it is silent for longer than limit.
	watchdog *watchdog
	// Whether the watchdog has ended the stream.
	silent bool
	// Whether only a confirmation was late: the silence was shorter than the maximum silence of a stream that awaits
	// no confirmation.
	slow bool
	// Whether the stream was ended because no thread was watched any more. Threads that are watched now were added
	// later.
	idle bool
	// The server's heartbeat interval; 0 if it has sent none.
	interval time.Duration

	// The set's lock guards the fields below.

	limit time.Duration
	// The unanswered request, and when the latest one was made.
	sent *pausewatchv1.WatchRequest
	// The token to send; empty: none.
	nextToken string
	sentAt    time.Time
	// Whether any request was answered.
	answered bool
	// The threads that the server watches once it has answered the latest request.
	watches map[string]struct{}
	// After a limit was exceeded: the earliest time for the next additions and confirmations.
	addFrom, confirmFrom time.Time
}

// run keeps a stream open until nothing is left to watch.
func (s *watchSet) run() {
	retryDelays := backoff.Backoff{First: firstReopenDelay, Max: maxReopenDelay}
	route, unanswered := s.client.route, 0
	// A separate connection, because the client's was silent; used until the client moves.
	var own position
	disown := func() {
		if own.connection != nil {
			_ = own.connection.Close()
		}
		own = position{}
	}
	defer disown()
	for !s.isDone() {
		// Before the stream is opened: the time of the token source is no silence of a replica.
		token, err := s.firstToken()
		if err != nil {
			s.streamEnded(&watchStream{set: s}, err, 0)
			if s.isDone() {
				return
			}
			s.waitToReopen(retryDelays.Next(), err)
			continue
		}
		at := route.current()
		if own.moves != at.moves {
			disown()
		}
		connection := at.connection
		if own.connection != nil {
			connection = own.connection
		}
		ctx, cancel := context.WithCancelCause(s.ctx)
		l := &watchStream{set: s, cancel: cancel, wake: make(chan struct{}, 1), watches: make(map[string]struct{})}
		l.watchdog = newWatchdog(silenceTimeout, func() { cancel(errSilent) })
		s.streamOpened(l)
		if route.hasSeveral() {
			go l.followMove(ctx, at)
		}
		silentFor, err := l.read(ctx, connection, token)
		l.watchdog.Stop()
		moved := errors.Is(context.Cause(ctx), errMoved)
		l.idle = errors.Is(context.Cause(ctx), errIdle)
		cancel(nil)
		s.streamEnded(l, err, silentFor)
		if l.answered {
			retryDelays.Reset()
			unanswered = 0
		}
		disown()
		if l.silent && !s.client.isExternal {
			// The connection may be dead, and the next stream on it would be silent too.
			if another, err := route.separate(at); err == nil {
				own = position{moves: at.moves, connection: another}
			}
		}
		// A refusal is the same everywhere.
		leaves := !l.slow && is[*UnavailableError](err) && route.moveOn(at.moves)
		if leaves {
			unanswered++
		}
		switch {
		case s.isDone():
			return
		case moved, l.idle:
		case leaves && unanswered%len(route.addresses) != 0:
			s.waitToReopen(backoff.Jitter(firstReopenDelay), err)
		default:
			s.waitToReopen(retryDelays.Next(), err)
		}
	}
}

// followMove ends the stream a random delay after the client has moved, so that not all streams of a replica end at
// once.
func (l *watchStream) followMove(ctx context.Context, at position) {
	select {
	case <-at.moved:
	case <-ctx.Done():
		return
	}
	select {
	case <-time.After(rand.N(maxMoveDelay)):
		l.cancel(errMoved)
	case <-ctx.Done():
	}
}

// waitToReopen waits for the delay before the next stream is opened, or a shorter time while a confirmation is awaited,
// but after a limit at least as long as the server has requested. It also waits after a stream that worked: the clients
// of a restarted server must not all reconnect at once.
func (s *watchSet) waitToReopen(delay time.Duration, ended error) {
	s.client.route.current().connection.ResetConnectBackoff()
	began, shorter := time.Now(), backoff.Jitter(maxConfirmationDelay)
	var minimum time.Duration
	if limit := (*LimitExceededError)(nil); errors.As(ended, &limit) {
		minimum = limit.RetryAfter
	}
	for {
		left := delay
		if s.isConfirming() {
			left = min(delay, shorter)
		}
		if left = max(left, minimum) - time.Since(began); left <= 0 {
			return
		}
		select {
		case <-time.After(left):
		case <-s.confirmRequested:
		case <-s.ctx.Done():
			return
		}
	}
}

// read reads one stream to its end, and returns how long it was dead and why it ended. token is empty if there is no
// source of tokens.
func (l *watchStream) read(ctx context.Context, connection *grpc.ClientConn, token string) (silentFor time.Duration, err error) {
	began := time.Now()
	lastMessage := began
	defer func() {
		if silentFor = time.Since(lastMessage); silentFor < cmp.Or(l.interval, maxHeartbeatInterval) {
			silentFor = 0
		}
	}()
	if token != "" {
		ctx = context.WithValue(ctx, tokenKey{}, token)
	}
	stream, err := l.set.client.stub.Watch(context.WithValue(ctx, connectionKey{}, connection))
	if err == nil {
		if token != "" {
			go l.renewToken(ctx, token)
		}
		go l.send(ctx, stream)
	}
	for err == nil {
		lastMessage = time.Now()
		var message *pausewatchv1.WatchResponse
		if message, err = stream.Recv(); err != nil {
			break
		}
		// While the listener has no room, the stream is not read. Silence means nothing then; pings detect a dead
		// connection.
		l.watchdog.Stop()
		// Heartbeats and unknown events, of a newer server, also show that the stream is alive.
		switch event := message.GetEvent().(type) {
		case *pausewatchv1.WatchResponse_PauseState:
			l.set.state(l, stateFromWire(event.PauseState))
		case *pausewatchv1.WatchResponse_Confirmation:
			l.set.confirmed(l, event.Confirmation.GetPauseStates())
		case *pausewatchv1.WatchResponse_Heartbeat:
			l.set.mu.Lock()
			l.interval = 0
			if every := event.Heartbeat.GetInterval().AsDuration(); every > 0 {
				l.interval = min(max(every, minAcceptedInterval), maxAcceptedInterval)
			}
			l.set.mu.Unlock()
		case *pausewatchv1.WatchResponse_SnapshotComplete:
			l.set.onAnswer(l)
		case *pausewatchv1.WatchResponse_Refusal:
			if err := l.set.onRefusal(l, event.Refusal); err != nil {
				return 0, err
			}
		}
		l.restartWatchdog()
	}
	switch {
	case errors.Is(context.Cause(ctx), errSilent):
		l.silent = true
		l.set.mu.Lock()
		defer l.set.mu.Unlock()
		l.slow = l.answered && l.limit < l.longestSilence()
		return 0, unavailable("the watch was silent for too long")
	case errors.Is(context.Cause(ctx), errMoved):
		return 0, unavailable("the client has moved to another address")
	case errors.Is(err, io.EOF):
		return 0, unavailable("the watch ended")
	default:
		return 0, l.set.client.typed(ctx, err, began)
	}
}

// send sends requests until ctx ends.
func (l *watchStream) send(ctx context.Context, stream grpc.BidiStreamingClient[pausewatchv1.WatchRequest, pausewatchv1.WatchResponse]) {
	for {
		for request := l.set.nextRequest(l); request != nil; request = l.set.nextRequest(l) {
			if stream.Send(request) != nil {
				// The reader receives the error.
				return
			}
		}
		select {
		case <-l.wake:
		case <-ctx.Done():
			return
		}
	}
}

// wakeUp notifies the sender that there may be a request. Without a stream it does nothing.
func (l *watchStream) wakeUp() {
	if l != nil {
		signal(l.wake)
	}
}

// updateSilenceLimit sets how long the stream may be silent. It is called with the set's lock held, whenever the
// reason for the limit may have changed.
func (l *watchStream) updateSilenceLimit() {
	if l == nil {
		return
	}
	s, before := l.set, l.limit
	l.limit = l.longestSilence()
	if !l.answered {
		l.limit = s.client.callTimeout
	}
	if s.awaitsConfirmation(l) {
		l.limit = min(s.confirmationTimeout, l.longestSilence())
		if !l.answered {
			l.limit = max(l.limit, connectTimeout)
		}
	}
	if !l.answered && s.client.route.hasSeveral() {
		l.limit = min(l.limit, answerTimeout)
	}
	if l.limit != before {
		l.watchdog.Reset(l.limit)
	}
}

// longestSilence returns the maximum silence of a stream that works.
func (l *watchStream) longestSilence() time.Duration {
	if l.interval > 0 {
		return l.interval * 5 / 2
	}
	return silenceTimeout
}

// awaitsConfirmation reports whether a confirmation was requested, or is about to be.
func (s *watchSet) awaitsConfirmation(l *watchStream) bool {
	mayConfirm := !time.Now().Before(l.confirmFrom)
	for _, state := range s.confirmations {
		if state == confirmationSent || state == confirmationQueued && mayConfirm {
			return true
		}
	}
	return false
}

// restartWatchdog is called after a message was handled.
func (l *watchStream) restartWatchdog() {
	l.set.mu.Lock()
	defer l.set.mu.Unlock()
	l.updateSilenceLimit()
	l.watchdog.Reset(l.limit)
}
