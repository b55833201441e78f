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
	// How long a replica may take to answer before the next one is asked: longer than a takeover.
	noAnswer = 1500 * time.Millisecond
	// The longest random delay before a stream follows its client to another address.
	mostMoveDelay = 500 * time.Millisecond
	// Nothing uses the connection to a replica any longer that was left so long ago.
	leftBehind = noAnswer + mostMoveDelay
)

// route is which replica a client uses, and the connection to it.
//
//  1. There is one connection at a time, for everything that a client does: what moves, moves everything.
//  2. Several callers that fail at one replica move once: a move names the position that it leaves.
//  3. With one address nothing ever moves.
type route struct {
	// In random order; one for a connection of the program's own.
	addresses []string
	dial      func(address string) (*grpc.ClientConn, error)

	mu     sync.Mutex
	at     position
	closed bool
	// Connections that were left, until they are closed.
	behind []*grpc.ClientConn
}

// position is where a client is.
type position struct {
	// How often it has moved.
	moves      int
	connection *grpc.ClientConn
	// Closed by the next move.
	left chan struct{}
}

// newRoute checks every address.
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
		r.at = position{connection: connection, left: make(chan struct{})}
	}
	return r, nil
}

func (r *route) several() bool { return len(r.addresses) > 1 }

func (r *route) now() position {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.at
}

// moveOn goes to the next address, unless that was done since the client had moved so often. False: there is no other.
func (r *route) moveOn(moves int) bool {
	if !r.several() {
		return false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.at.moves != moves || r.closed {
		return true
	}
	// It has been dialled before.
	connection, err := r.dial(r.addresses[(moves+1)%len(r.addresses)])
	if err != nil {
		return true
	}
	old := r.at
	r.at = position{moves: moves + 1, connection: connection, left: make(chan struct{})}
	close(old.left)
	r.behind = append(r.behind, old.connection)
	time.AfterFunc(leftBehind, func() { r.forget(old.connection) })
	return true
}

// forget closes a connection that was left.
func (r *route) forget(connection *grpc.ClientConn) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.behind = slices.DeleteFunc(r.behind, func(each *grpc.ClientConn) bool { return each == connection })
	_ = connection.Close()
}

// separate is another connection to the address of a position.
func (r *route) separate(at position) (*grpc.ClientConn, error) {
	return r.dial(r.addresses[at.moves%len(r.addresses)])
}

func (r *route) close() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.closed = true
	for _, connection := range r.behind {
		_ = connection.Close()
	}
	return r.at.connection.Close()
}

type connectionKey struct{}

// routed is the connection of a call's position, as the stubs use it.
type routed struct {
	route *route
	// A connection as it is to be used.
	over func(*grpc.ClientConn) grpc.ClientConnInterface
}

func (r routed) of(ctx context.Context) grpc.ClientConnInterface {
	if connection, ok := ctx.Value(connectionKey{}).(*grpc.ClientConn); ok {
		return r.over(connection)
	}
	return r.over(r.route.now().connection)
}

func (r routed) Invoke(ctx context.Context, method string, request, answer any, opts ...grpc.CallOption) error {
	return r.of(ctx).Invoke(ctx, method, request, answer, opts...)
}

func (r routed) NewStream(ctx context.Context, desc *grpc.StreamDesc, method string, opts ...grpc.CallOption) (grpc.ClientStream, error) {
	return r.of(ctx).NewStream(ctx, desc, method, opts...)
}
