package pausewatch

import (
	"context"
	"errors"
	"io"
	"time"

	"google.golang.org/grpc"

	"pausewatch.dev/clients/go/internal/backoff"

	pausewatchv1 "pausewatch.dev/clients/go/gen/pausewatch/v1"
)

const (
	// The time within which the server promises a heartbeat. A connection that ends after a longer silence was dead during
	// it: its end is what a ping without an answer, or this library, has made of the silence.
	heartbeat = 15 * time.Second
	// The longest silence. TCP may believe in a connection for much longer.
	silence = 2 * heartbeat
	// The longest silence while a confirmation is waited for; doubled each time that none comes.
	firstPatience = 250 * time.Millisecond
	// The pauses before a stream is opened again, and the longest one while a confirmation is waited for.
	firstReopen = 50 * time.Millisecond
	mostReopen  = 3 * time.Second
	askedReopen = 100 * time.Millisecond
)

var errSilent = errors.New("silent")

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
	connection := s.client.connection
	for !s.ended() {
		ctx, cancel := context.WithCancelCause(s.ctx)
		l := &watchStream{set: s, cancel: cancel, wake: make(chan struct{}, 1), watches: make(map[string]struct{})}
		l.watchdog = time.AfterFunc(silence, func() { cancel(errSilent) })
		s.opened(l)
		silentFor, err := l.read(ctx, connection)
		l.watchdog.Stop()
		cancel(nil)
		s.broken(l, err, silentFor)
		if l.answered {
			pauses.Reset()
		}
		if connection != s.client.connection {
			_ = connection.Close()
		}
		connection = s.client.connection
		if l.silent {
			// The connection may be as dead as the stream, and would carry the next one too.
			if another, err := s.client.redial(); err == nil {
				connection = another
			}
		}
		if s.ended() {
			break
		}
		s.rest(pauses.Next())
	}
	if connection != s.client.connection {
		_ = connection.Close()
	}
}

// rest pauses before the next stream. Also after a stream that worked: the clients of a restarted server must not all
// come back at once.
func (s *watchSet) rest(pause time.Duration) {
	s.client.connection.ResetConnectBackoff()
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
		if silentFor = time.Since(lastMessage); silentFor < heartbeat {
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
	stream, err := pausewatchv1.NewElicitationServiceClient(l.set.client.over(connection)).Watch(ctx)
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
		return 0, unavailable("the watch was silent for too long")
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
	l.limit = silence
	if !l.answered {
		l.limit = s.client.callTimeout
	}
	if s.owesAnswer(l) {
		l.limit = s.patience
		if !l.answered {
			l.limit = max(l.limit, connectTimeout)
		}
	}
	if l.limit != before {
		l.watchdog.Reset(l.limit)
	}
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
	l.watchdog.Reset(l.limit)
}
