package pausewatch

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"google.golang.org/grpc"

	pausewatchv1 "pausewatch.dev/clients/go/gen/pausewatch/v1"
)

const (
	defaultCallTimeout = 5 * time.Second
	defaultGrace       = 30 * time.Second
)

// Client is a connection to a coordinator, which is made at the first call and made again when it is lost. With the
// addresses of several replicas it is a connection to one of them, and moves to the next one when that is unavailable, or
// has not answered for 1.5 s. It is safe for any number of goroutines. One for a process is enough: see [DefaultClient].
type Client struct {
	*shared
	callTimeout time.Duration
	grace       time.Duration
}

// shared is what a client has in common with those that were made from it with another patience.
type shared struct {
	route    *route
	stub     pausewatchv1.ElicitationServiceClient
	threadID string
	// Ends with Close, and with it everything that runs in the background.
	life    context.Context
	end     context.CancelFunc
	closing sync.Once

	// Where the token comes from that may be another one later; nil: it may not.
	tokens tokenSource
	// -1: as often as fits into the time of the call.
	retries int
	// The connection is the program's own.
	foreign bool
	// nil: the default one.
	logger *slog.Logger
	onLink func(Link)

	mu        sync.Mutex
	followers map[time.Duration]*follower
}

// NewClient makes a client from options, the environment and the config file, in this order: see [Option]. It does not
// connect yet.
//
// Errors: a setting is wrong; the text says which and what to do.
func NewClient(opts ...Option) (*Client, error) {
	o := options{grace: defaultGrace, retries: -1}
	for _, set := range opts {
		set(&o)
	}
	found, err := findSettings(o.settings, o.configFile)
	if err != nil {
		return nil, fmt.Errorf("pausewatch: %w", err)
	}
	tokens, renewed, err := found.tokens()
	if err != nil {
		return nil, fmt.Errorf("pausewatch: %w", err)
	}
	dialOne := func(address string) (*grpc.ClientConn, error) {
		one := found
		one.Address = address
		return dial(one, o.dial)
	}
	addresses, err := splitAddresses(found.Address)
	over := func(connection *grpc.ClientConn) grpc.ClientConnInterface { return connection }
	if o.connection != nil {
		if o.Address != "" || o.TLS != nil || len(o.dial) > 0 {
			return nil, errors.New("pausewatch: a connection is given, and an address, a TLS config or dial options: they are the connection's own; give one of them")
		}
		addresses, err = []string{""}, nil
		dialOne = func(string) (*grpc.ClientConn, error) { return o.connection, nil }
		if tokens != nil {
			token := grpc.PerRPCCredentials(bearer{tokens})
			over = func(connection *grpc.ClientConn) grpc.ClientConnInterface { return withCredentials{connection, token} }
		}
	}
	if err != nil {
		return nil, fmt.Errorf("pausewatch: %w", err)
	}
	route, err := newRoute(addresses, dialOne)
	if err != nil {
		return nil, fmt.Errorf("pausewatch: %w", err)
	}
	if !renewed {
		tokens = nil
	}
	life, end := context.WithCancel(context.Background())
	return &Client{
		shared: &shared{
			route:     route,
			stub:      pausewatchv1.NewElicitationServiceClient(routed{route, over}),
			threadID:  found.ThreadID,
			life:      life,
			end:       end,
			retries:   o.retries,
			tokens:    tokens,
			foreign:   o.connection != nil,
			logger:    o.logger,
			onLink:    o.onLink,
			followers: make(map[time.Duration]*follower),
		},
		callTimeout: patience(o.callTimeout),
		grace:       max(0, o.grace),
	}, nil
}

// DefaultClient is one client for the whole process, made at the first call from the environment and the config file.
// Nobody needs to close it.
//
// Errors: as with [NewClient], and the same each time.
func DefaultClient() (*Client, error) { return defaultClient() }

var defaultClient = sync.OnceValues(func() (*Client, error) { return NewClient() })

// ThreadID is the thread that this program belongs to, as the settings say; empty if they do not.
func (c *Client) ThreadID() string { return c.threadID }

// WithCallTimeout is the same connection with another patience: a call ends after d, retries included, or when its
// context does, whichever is sooner. 0 or less is the default, 5 s.
func (c *Client) WithCallTimeout(d time.Duration) *Client {
	other := *c
	other.callTimeout = patience(d)
	return &other
}

// log is where warnings go.
func (c *Client) log() *slog.Logger {
	if c.logger == nil {
		return slog.Default()
	}
	return c.logger
}

func patience(d time.Duration) time.Duration {
	if d <= 0 {
		return defaultCallTimeout
	}
	return d
}

// WithDisconnectGrace is the same connection with another grace for the timeouts that it starts: how long, while the
// coordinator cannot be reached, a paused thread still counts as paused, and how long a timeout that ran out waits for
// the link before it expires. Each grace has a watch of its own, so a program should have few.
func (c *Client) WithDisconnectGrace(d time.Duration) *Client {
	other := *c
	other.grace = max(0, d)
	return &other
}

// Close ends the connection, for all clients that share it. Calls fail with [ErrClosed], watches end. Holds that are
// still open are renewed no more: their leases end them. Timeouts run on, and from now on no thread pauses them: they end
// at their limits, and nobody is asked before. A timeout that is started afterwards is refused with [ErrClosed]. Calling
// it again does nothing.
func (c *Client) Close() (err error) {
	c.closing.Do(func() {
		c.end()
		c.mu.Lock()
		followers := slices.Collect(maps.Values(c.followers))
		c.mu.Unlock()
		for _, f := range followers {
			f.close()
		}
		if !c.foreign {
			err = c.route.close()
		}
	})
	return err
}
