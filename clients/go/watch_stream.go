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
	// The time within which a server promises a heartbeat that does not say its own. A connection that ends after a longer silence was dead during
	// it: its end is what a ping without an answer, or this library, has made of the silence.
	heartbeat = 15 * time.Second
	// The longest silence; two and a half intervals of a server that says its own. TCP may believe in a connection for much
	// longer.
	silence = 2 * heartbeat
	// The shortest interval that a server may say.
	leastHeartbeat = 100 * time.Millisecond
	// The longest silence while a confirmation is waited for; doubled each time that none comes.
	firstPatience = 250 * time.Millisecond
	// The pauses before a stream is opened again, and the longest one while a confirmation is waited for.
	firstReopen = 50 * time.Millisecond
	mostReopen  = 3 * time.Second
	askedReopen = 100 * time.Millisecond
)

var (
	errSilent = errors.New("silent")
	errMoved  = errors.New("moved")
)

// watchStream is one stream of a watch. It has a goroutine that sends; the one that reads is the set's.
type watchStream struct {
	set    *watchSet
	cancel context.CancelCauseFunc
	// Has a token when there may be something to send.
	wake chan struct{}
	// Ends the stream when it is silent for longer than limit.
	watchdog *time.Timer
	// It has.
	silent bool
	// Only the answer to a confirmation was awaited for too long.
	slow bool
	// How often the server sends a heartbeat, if it has said so.
	interval time.Duration

	// The rest is the set's, under its lock.

	limit time.Duration
	// The request that is not answered, and when the latest one was made.
	sent *pausewatchv1.WatchRequest
	// To be sent; empty: none.
	nextToken string
	sentAt    time.Time
	// Whether any request was.
	answered bool
	// What the server watches when it has answered.
	watches map[string]struct{}
	// A limit was met: not before these.
	addFrom, confirmFrom time.Time
}

// run keeps a stream open until nothing is left to watch.
func (s *watchSet) run() {
	pauses := backoff.Backoff{First: firstReopen, Most: mostReopen}
	route, unanswered := s.client.route, 0
	// A connection of its own, since the client's was silent, as long as the client does not move.
	var own position
	disown := func() {
		if own.connection != nil {
			_ = own.connection.Close()
		}
		own = position{}
	}
	defer disown()
	for !s.ended() {
		at := route.now()
		if own.moves != at.moves {
			disown()
		}
		connection := at.connection
		if own.connection != nil {
			connection = own.connection
		}
		ctx, cancel := context.WithCancelCause(s.ctx)
		l := &watchStream{set: s, cancel: cancel, wake: make(chan struct{}, 1), watches: make(map[string]struct{})}
		l.watchdog = time.AfterFunc(silence, func() { cancel(errSilent) })
		s.opened(l)
		if route.several() {
			go l.follow(ctx, at)
		}
		silentFor, err := l.read(ctx, connection)
		l.watchdog.Stop()
		moved := errors.Is(context.Cause(ctx), errMoved)
		cancel(nil)
		s.broken(l, err, silentFor)
		if l.answered {
			pauses.Reset()
			unanswered = 0
		}
		disown()
		if l.silent && !s.client.foreign {
			// The connection may be as dead as the stream, and would carry the next one too.
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
		case s.ended():
			return
		case moved:
		case leaves && unanswered%len(route.addresses) != 0:
			s.rest(backoff.Jitter(firstReopen))
		default:
			s.rest(pauses.Next())
		}
	}
}

// follow ends the stream some time after the client has moved: not all streams of a replica at once.
func (l *watchStream) follow(ctx context.Context, at position) {
	select {
	case <-at.left:
	case <-ctx.Done():
		return
	}
	select {
	case <-time.After(rand.N(mostMoveDelay)):
		l.cancel(errMoved)
	case <-ctx.Done():
	}
}

// rest pauses before the next stream. Also after a stream that worked: the clients of a restarted server must not all
// come back at once.
func (s *watchSet) rest(pause time.Duration) {
	s.client.route.now().connection.ResetConnectBackoff()
	began, shorter := time.Now(), backoff.Jitter(askedReopen)
	for {
		left := pause
		if s.asks() {
			left = min(pause, shorter)
		}
		if left -= time.Since(began); left <= 0 {
			return
		}
		select {
		case <-time.After(left):
		case <-s.hurry:
		case <-s.ctx.Done():
			return
		}
	}
}

// read reads one stream to its end: for how long it has been dead, and why it ended.
func (l *watchStream) read(ctx context.Context, connection *grpc.ClientConn) (silentFor time.Duration, err error) {
	began := time.Now()
	lastMessage := began
	defer func() {
		if silentFor = time.Since(lastMessage); silentFor < cmp.Or(l.interval, heartbeat) {
			silentFor = 0
		}
	}()
	token := ""
	if tokens := l.set.client.tokens; tokens != nil {
		if token, err = tokens.checked(ctx); err != nil {
			return 0, l.set.client.typed(ctx, err, began)
		}
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
		// While the listener has too much to tell, nobody listens, so nothing is silent; that the connection lives is seen by
		// the pings meanwhile.
		l.watchdog.Stop()
		// Heartbeats, and events of a newer server, are signs of life.
		switch event := message.GetEvent().(type) {
		case *pausewatchv1.WatchResponse_PauseState:
			l.set.state(l, stateFromWire(event.PauseState))
		case *pausewatchv1.WatchResponse_Confirmation:
			l.set.confirmed(l, event.Confirmation.GetPauseStates())
		case *pausewatchv1.WatchResponse_Heartbeat:
			l.set.mu.Lock()
			l.interval = 0
			if every := event.Heartbeat.GetInterval().AsDuration(); every > 0 {
				l.interval = max(every, leastHeartbeat)
			}
			l.set.mu.Unlock()
		case *pausewatchv1.WatchResponse_SnapshotComplete:
			l.set.answered(l)
		case *pausewatchv1.WatchResponse_Refusal:
			if err := l.set.refused(l, event.Refusal); err != nil {
				return 0, err
			}
		}
		l.alive()
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

// send sends what there is to send until ctx ends.
func (l *watchStream) send(ctx context.Context, stream grpc.BidiStreamingClient[pausewatchv1.WatchRequest, pausewatchv1.WatchResponse]) {
	for {
		for request := l.set.nextRequest(l); request != nil; request = l.set.nextRequest(l) {
			if stream.Send(request) != nil {
				// Whoever reads is told why.
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

// wakeUp: there may be something to send. Without a stream, nothing is.
func (l *watchStream) wakeUp() {
	if l != nil {
		signal(l.wake)
	}
}

// watchOver is called with the set's lock when what is waited for may have changed: sets how long a silence may be.
func (l *watchStream) watchOver() {
	if l == nil {
		return
	}
	s, before := l.set, l.limit
	l.limit = l.longestSilence()
	if !l.answered {
		l.limit = s.client.callTimeout
	}
	if s.owesAnswer(l) {
		l.limit = min(s.patience, l.longestSilence())
		if !l.answered {
			l.limit = max(l.limit, connectTimeout)
		}
	}
	if !l.answered && s.client.route.several() {
		l.limit = min(l.limit, noAnswer)
	}
	if l.limit != before {
		l.watchdog.Reset(l.limit)
	}
}

// longestSilence is that of a stream that works.
func (l *watchStream) longestSilence() time.Duration {
	if l.interval > 0 {
		return l.interval * 5 / 2
	}
	return silence
}

// owesAnswer says whether a confirmation has been asked for, or is about to be.
func (s *watchSet) owesAnswer(l *watchStream) bool {
	asksNow := !time.Now().Before(l.confirmFrom)
	for _, question := range s.questions {
		if question == asked || question == unasked && asksNow {
			return true
		}
	}
	return false
}

// alive: a message has come and was told.
func (l *watchStream) alive() {
	l.set.mu.Lock()
	defer l.set.mu.Unlock()
	l.watchOver()
	l.watchdog.Reset(l.limit)
}
