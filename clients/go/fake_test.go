package pausewatch

import (
	"context"
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/test/bufconn"
	"google.golang.org/protobuf/types/known/durationpb"

	pausewatchv1 "pausewatch.dev/clients/go/gen/pausewatch/v1"
)

// fake is a coordinator that uses the test's clock and can misbehave. It does not validate requests.
type fake struct {
	pausewatchv1.UnimplementedElicitationServiceServer

	mu           sync.Mutex
	threads      map[string]*fakeThread
	elicitations map[string]*fakeElicitation
	answers      map[string]any
	streams      map[*fakeStream]struct{}
	// The requests, by method.
	calls map[string][]any
	// Called before a method, without the lock; an error is returned instead.
	before func(method string, request any) error
	// Called after a method; an error is returned instead of the result.
	after func(method string) error
	// The heartbeat interval, sent to clients; 0: every 15 s, and not sent.
	every time.Duration

	server      *grpc.Server
	listener    *bufconn.Listener
	connections []*fakeConnection
}

// fakeConnection can vanish: data is lost in both directions, but the connection does not end.
type fakeConnection struct {
	net.Conn
	vanished atomic.Bool
}

func (c *fakeConnection) Read(to []byte) (int, error) {
	for {
		n, err := c.Conn.Read(to)
		if err != nil || !c.vanished.Load() {
			return n, err
		}
	}
}

func (c *fakeConnection) Write(from []byte) (int, error) {
	if c.vanished.Load() {
		return len(from), nil
	}
	return c.Conn.Write(from)
}

type fakeThread struct {
	id       string
	count    uint32
	revision uint64
	total    time.Duration
	since    time.Time
}

type fakeElicitation struct {
	thread *fakeThread
	ttl    time.Duration
	lease  *time.Timer
	// Empty while it is open, else the reason to refuse with.
	closed string
}

// fakeStream is a watch; changed receives the ids of changed threads.
type fakeStream struct {
	all       bool
	threadIDs map[string]bool
	changed   chan string
}

func newFake() *fake {
	return &fake{
		threads:      make(map[string]*fakeThread),
		elicitations: make(map[string]*fakeElicitation),
		answers:      make(map[string]any),
		streams:      make(map[*fakeStream]struct{}),
		calls:        make(map[string][]any),
	}
}

// start listens, again after a stop.
func (f *fake) start() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.listener = bufconn.Listen(1 << 20)
	f.server = grpc.NewServer(grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: pingInterval, PermitWithoutStream: true}))
	pausewatchv1.RegisterElicitationServiceServer(f.server, f)
	go func(server *grpc.Server, listener net.Listener) { _ = server.Serve(listener) }(f.server, f.listener)
}

// stop breaks all connections and refuses new ones.
func (f *fake) stop() {
	f.mu.Lock()
	server := f.server
	f.listener = nil
	f.mu.Unlock()
	server.Stop()
}

func (f *fake) dial(ctx context.Context, _ string) (net.Conn, error) {
	f.mu.Lock()
	listener := f.listener
	f.mu.Unlock()
	if listener == nil {
		return nil, errors.New("nobody listens")
	}
	connection, err := listener.DialContext(ctx)
	if err != nil {
		return nil, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.connections = append(f.connections, &fakeConnection{Conn: connection})
	return f.connections[len(f.connections)-1], nil
}

// vanish makes all connections vanish; new connections work.
func (f *fake) vanish() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, connection := range f.connections {
		connection.vanished.Store(true)
	}
}

// withFake runs a test in a bubble of time, with a client of a fake.
func withFake(t *testing.T, test func(t *testing.T, f *fake, client *Client)) {
	clean(t)
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		f.start()
		defer f.stop()
		client := clientOf(t, f)
		defer client.Close()
		test(t, f, client)
		// The client is closed when no stream is being opened: while a connection that has been idle is closed, gRPC 1.84 reads
		// a field of it without the lock (ClientConn.waitForResolvedAddrs), which the race detector reports.
		synctest.Wait()
	})
}

func clientOf(t testing.TB, f *fake) *Client {
	t.Helper()
	client, err := NewClient(WithDialOptions(grpc.WithContextDialer(f.dial)))
	check(t, err)
	t.Cleanup(func() { _ = client.Close() })
	return client
}

// enter counts a call.
func (f *fake) enter(method string, request any) error {
	f.mu.Lock()
	f.calls[method] = append(f.calls[method], request)
	before := f.before
	f.mu.Unlock()
	if before != nil {
		return before(method, request)
	}
	return nil
}

func (f *fake) leave(method string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.after != nil {
		return f.after(method)
	}
	return nil
}

// misbehave sets what is called before methods do anything; nil: nothing.
func (f *fake) misbehave(before func(method string, request any) error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.before = before
}

// lose drops the answers of n calls.
func (f *fake) lose(n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.after = func(string) error {
		if n--; n >= 0 {
			return status.Error(codes.Unavailable, "the answer is lost")
		}
		return nil
	}
}

func (f *fake) called(method string) []any {
	f.mu.Lock()
	defer f.mu.Unlock()
	return append([]any(nil), f.calls[method]...)
}

func (f *fake) thread(id string) *fakeThread {
	if f.threads[id] == nil {
		f.threads[id] = &fakeThread{id: id}
	}
	return f.threads[id]
}

func (f *fake) count(threadID string) uint32 {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.thread(threadID).count
}

// change adds to a thread's count and notifies the watches.
func (f *fake) change(t *fakeThread, by int) {
	if t.count > 0 {
		t.total += time.Since(t.since)
	}
	t.since = time.Now()
	t.count += uint32(by)
	t.revision++
	for stream := range f.streams {
		if stream.threadIDs[t.id] || stream.all {
			stream.changed <- t.id
		}
	}
}

func (t *fakeThread) wire() *pausewatchv1.PauseState {
	state := &pausewatchv1.PauseState{ThreadId: t.id, Count: t.count, Paused: t.count > 0, Revision: t.revision}
	total := t.total
	if t.count > 0 {
		total += time.Since(t.since)
		state.PausedFor = durationpb.New(time.Since(t.since))
	}
	state.PausedTotal = durationpb.New(total)
	return state
}

// pause and resume are other programs' calls.
func (f *fake) pause(threadID string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.change(f.thread(threadID), +1)
}

func (f *fake) resume(threadID string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.change(f.thread(threadID), -1)
}

// unheard sets a thread's revision, paused if it is odd, without notifying the watches.
func (f *fake) unheard(threadID string, revision uint64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	thread := f.thread(threadID)
	thread.count, thread.revision = uint32(revision%2), revision
}

func (f *fake) close(e *fakeElicitation, reason string) {
	if e.closed == "" {
		e.lease.Stop()
		e.closed = reason
		f.change(e.thread, -1)
	}
}

func (f *fake) expire(e *fakeElicitation) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.close(e, "ELICITATION_EXPIRED")
}
