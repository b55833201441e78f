package pausewatch

import (
	"context"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"google.golang.org/grpc"
)

const (
	// How long a replica may take to answer before the next one is tried: longer than a takeover.
	answerTimeout = 1500 * time.Millisecond
	// The longest random delay before a stream follows its client to another address.
	maxMoveDelay = 500 * time.Millisecond
	// The delay before the connection to a previous replica is closed: by then nothing uses it any more.
	closeDelay = answerTimeout + maxMoveDelay
)

// route is the replica that a client uses, and the connection to it.
//
//  1. There is one connection at a time, for everything that a client does: a move affects all of it.
//  2. Several callers that fail at one replica move once: a move names the position that it leaves.
//  3. With one address the route never moves.
type route struct {
	// In random order; a single entry for a connection that the program supplied.
	addresses []string
	dial      func(address string) (*grpc.ClientConn, error)

	mu     sync.Mutex
	at     position
	closed bool
	// Connections to previous replicas, until they are closed.
	oldConnections []*grpc.ClientConn
}

// position is the replica that a client uses now.
type position struct {
	// The number of moves so far.
	moves      int
	connection *grpc.ClientConn
	// Closed by the next move.
	moved chan struct{}
}

// newRoute validates every address.
func newRoute(addresses []string, dial func(string) (*grpc.ClientConn, error)) (*route, error) {
	rand.Shuffle(len(addresses), func(i, j int) { addresses[i], addresses[j] = addresses[j], addresses[i] })
	r := &route{addresses: addresses, dial: dial}
	for i := len(addresses) - 1; i >= 0; i-- {
		connection, err := dial(addresses[i])
		if err != nil {
			return nil, err
		}
		if i > 0 {
			_ = connection.Close()
			continue
		}
		r.at = position{connection: connection, moved: make(chan struct{})}
	}
	return r, nil
}

func (r *route) hasSeveral() bool { return len(r.addresses) > 1 }

func (r *route) current() position {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.at
}

// moveOn moves to the next address, unless the client has moved since position moves. It returns false if there is no
// other address.
func (r *route) moveOn(moves int) bool {
	if !r.hasSeveral() {
		return false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.at.moves != moves || r.closed {
		return true
	}
	// Does not fail: newRoute has dialled it before, with the same credentials.
	connection, err := r.dial(r.addresses[(moves+1)%len(r.addresses)])
	if err != nil {
		return true
	}
	old := r.at
	r.at = position{moves: moves + 1, connection: connection, moved: make(chan struct{})}
	close(old.moved)
	r.oldConnections = append(r.oldConnections, old.connection)
	time.AfterFunc(closeDelay, func() { r.forget(old.connection) })
	return true
}

// forget closes the connection to a previous replica.
func (r *route) forget(connection *grpc.ClientConn) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.oldConnections = slices.DeleteFunc(r.oldConnections, func(each *grpc.ClientConn) bool { return each == connection })
	_ = connection.Close()
}

// separate returns a new connection to the address of a position.
func (r *route) separate(at position) (*grpc.ClientConn, error) {
	return r.dial(r.addresses[at.moves%len(r.addresses)])
}

func (r *route) close() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.closed = true
	for _, connection := range r.oldConnections {
		_ = connection.Close()
	}
	return r.at.connection.Close()
}

type connectionKey struct{}

// routed sends each call over the connection of its position; the generated stubs use it.
type routed struct {
	route *route
	// Adds credentials to a connection, if it needs them.
	over func(*grpc.ClientConn) grpc.ClientConnInterface
}

func (r routed) of(ctx context.Context) grpc.ClientConnInterface {
	if connection, ok := ctx.Value(connectionKey{}).(*grpc.ClientConn); ok {
		return r.over(connection)
	}
	return r.over(r.route.current().connection)
}

func (r routed) Invoke(ctx context.Context, method string, request, answer any, opts ...grpc.CallOption) error {
	return r.of(ctx).Invoke(ctx, method, request, answer, opts...)
}

func (r routed) NewStream(ctx context.Context, desc *grpc.StreamDesc, method string, opts ...grpc.CallOption) (grpc.ClientStream, error) {
	return r.of(ctx).NewStream(ctx, desc, method, opts...)
}
