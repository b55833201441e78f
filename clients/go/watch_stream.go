package pausewatch

import (
	"context"
	"errors"
	"io"
	"time"

	"pausewatch.dev/clients/go/internal/backoff"

	pausewatchv1 "pausewatch.dev/clients/go/gen/pausewatch/v1"
)

const (
	// The time within which the server promises a heartbeat. A connection that ends after a longer silence was dead during
	// it: its end is what a ping without an answer, or this library, has made of the silence.
	heartbeat = 15 * time.Second
	// The longest silence. TCP may believe in a connection for much longer.
	silence = 2 * heartbeat
	// The pauses before a stream is opened again.
	firstReopen = 50 * time.Millisecond
	mostReopen  = 3 * time.Second
)

// watchStream is one stream of a watch, reopened whenever it breaks. It passes what it receives to its set.
type watchStream struct {
	set       *watchSet
	threadIDs []string
	stop      context.CancelFunc

	// The rest is the set's, under its lock.

	// How many threads belong to it.
	live     int
	complete bool
	broken   bool
	// The streams that it takes over when its snapshot is complete, and what it has told of their threads until then.
	replaces []*watchStream
	heldBack map[string]PauseState
}

// worn: most of its ids are dead, so it is to be opened anew, unless it is small.
func (l *watchStream) worn() bool {
	return len(l.threadIDs) > smallStream && l.live < len(l.threadIDs)/2
}

func (l *watchStream) holdBack(state PauseState) {
	if l.heldBack == nil {
		l.heldBack = make(map[string]PauseState)
	}
	l.heldBack[state.ThreadID] = state
}

// run reads the stream, again and again, until ctx ends.
func (l *watchStream) run(ctx context.Context) {
	pauses := backoff.Backoff{First: firstReopen, Most: mostReopen}
	for {
		complete, silentFor, err := l.read(ctx)
		if ctx.Err() != nil {
			return
		}
		l.set.broken(l, err, silentFor)
		if complete {
			pauses.Reset()
		}
		l.set.client.connection.ResetConnectBackoff()
		// Also after a stream that worked: the clients of a restarted server must not all come back at once.
		select {
		case <-time.After(pauses.Next()):
		case <-ctx.Done():
			return
		}
	}
}

// read reads one stream to its end: whether its snapshot was complete, for how long it has been dead, and why it ended.
func (l *watchStream) read(ctx context.Context) (complete bool, silentFor time.Duration, err error) {
	began := time.Now()
	lastMessage := began
	defer func() {
		if silentFor = time.Since(lastMessage); silentFor < heartbeat {
			silentFor = 0
		}
	}()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	silent := time.AfterFunc(l.set.client.callTimeout, func() { cancel(errSilent) })
	defer silent.Stop()
	request := &pausewatchv1.WatchPauseStateRequest{ThreadIds: l.threadIDs, IncludeElicitations: l.set.elicitations}
	stream, err := l.set.client.stub.WatchPauseState(ctx, request)
	for err == nil {
		if err = l.awaitRoom(ctx, silent); err != nil {
			break
		}
		lastMessage = time.Now()
		var message *pausewatchv1.WatchPauseStateResponse
		if message, err = stream.Recv(); err != nil {
			break
		}
		silent.Reset(silence)
		// Heartbeats, and events of a newer server, are signs of life.
		switch event := message.GetEvent().(type) {
		case *pausewatchv1.WatchPauseStateResponse_PauseState:
			l.set.state(l, stateFromWire(event.PauseState))
		case *pausewatchv1.WatchPauseStateResponse_SnapshotComplete:
			complete = true
			l.set.complete(l)
		}
	}
	switch {
	case errors.Is(context.Cause(ctx), errSilent):
		return complete, 0, unavailable("the watch was silent for too long")
	case errors.Is(err, io.EOF):
		return complete, 0, unavailable("the watch ended")
	default:
		return complete, 0, l.set.client.typed(ctx, err, began)
	}
}

// awaitRoom lets the stream stand while the reader of the watch has too much to read. Then nobody listens, so nothing is
// silent; that its connection lives is seen by the pings meanwhile.
func (l *watchStream) awaitRoom(ctx context.Context, silent *time.Timer) error {
	if !l.set.queue.full() {
		return nil
	}
	silent.Stop()
	if !l.set.queue.room(ctx) {
		return ctx.Err()
	}
	silent.Reset(silence)
	return nil
}

var errSilent = errors.New("silent")
