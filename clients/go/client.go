package pausewatch

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"

	pausewatchv1 "pausewatch.dev/clients/go/gen/pausewatch/v1"
)

const (
	defaultCallTimeout = 5 * time.Second
	defaultGrace       = 30 * time.Second
)

// Client is a connection to a coordinator. It connects at the first call, and reconnects when the connection is lost.
// With the addresses of several replicas it connects to one of them, and moves to the next one when that replica is
// unavailable or has not answered for 1.5 s. It is safe for concurrent use. One client per process is enough: see
// [DefaultClient].
type Client struct {
	*shared
	callTimeout time.Duration
	// The maximum number of retries; -1: as many as fit into the call timeout.
	retries int
	grace   time.Duration
}

// shared is the state that a client shares with the clients made from it with another timeout or grace.
type shared struct {
	route    *route
	stub     pausewatchv1.ElicitationServiceClient
	threadID string
	// Shown in errors; empty if the program supplied the connection.
	address string
	// Cancelled by Close, which ends everything that runs in the background.
	life    context.Context
	end     context.CancelFunc
	closing sync.Once

	// The source of a token that may change; nil: there is no such token.
	tokens tokenSource
	// Whether the program supplied the connection.
	isExternal bool
	// nil: the default logger.
	logger *slog.Logger
	onLink func(Link)

	mu        sync.Mutex
	followers map[time.Duration]*follower
	// Set by Close before it waits for the releases: from then on, no hold is opened.
	isClosing bool
	// The operations under way that open or close elicitations. The channel of each is closed when it ends.
	releases map[chan struct{}]struct{}
}

// NewClient creates a client from options, the environment and the config file, in this order of precedence: see
// [Option]. It does not connect yet.
//
// Errors: a setting is invalid; the text says which one and what to do.
func NewClient(opts ...Option) (*Client, error) {
	o := options{grace: defaultGrace, retries: -1}
	for _, set := range opts {
		set(&o)
	}
	found, err := findSettings(o.settings, o.configFile, cmp.Or(o.logger, slog.Default()))
	if err != nil {
		return nil, fmt.Errorf("pausewatch: %w", err)
	}
	fixed, tokens, err := found.tokens()
	if err != nil {
		return nil, fmt.Errorf("pausewatch: %w", err)
	}
	var token *bearer
	if fixed != "" || tokens != nil {
		token = &bearer{fixed}
	}
	var secure credentials.TransportCredentials
	dialOne := func(address string) (*grpc.ClientConn, error) { return dial(address, secure, token, o.dial) }
	addresses, err := splitAddresses(found.Address)
	over := func(connection *grpc.ClientConn) grpc.ClientConnInterface { return connection }
	if o.connection != nil {
		if o.Address != "" || o.TLS != nil || len(o.dial) > 0 {
			return nil, errors.New("pausewatch: WithConn cannot be combined with an address, a TLS config or dial options: configure them on the connection")
		}
		found.Address = ""
		addresses, err = []string{""}, nil
		dialOne = func(string) (*grpc.ClientConn, error) { return o.connection, nil }
		if token != nil {
			sent := grpc.PerRPCCredentials(token)
			over = func(connection *grpc.ClientConn) grpc.ClientConnInterface { return withCredentials{connection, sent} }
		}
	}
	if err == nil && o.connection == nil {
		// Once for all addresses, so that a move to another address cannot fail because the files have changed.
		secure, err = transportCredentials(found, o.logger)
	}
	if err != nil {
		return nil, fmt.Errorf("pausewatch: %w", err)
	}
	route, err := newRoute(addresses, dialOne)
	if err != nil {
		return nil, fmt.Errorf("pausewatch: %w", err)
	}
	life, end := context.WithCancel(context.Background())
	return &Client{
		shared: &shared{
			route:      route,
			stub:       pausewatchv1.NewElicitationServiceClient(routed{route, over}),
			threadID:   found.ThreadID,
			address:    found.Address,
			life:       life,
			end:        end,
			tokens:     tokens,
			isExternal: o.connection != nil,
			logger:     o.logger,
			onLink:     o.onLink,
			followers:  make(map[time.Duration]*follower),
			releases:   make(map[chan struct{}]struct{}),
		},
		callTimeout: callTimeoutOrDefault(o.callTimeout),
		retries:     o.retries,
		grace:       max(0, o.grace),
	}, nil
}

// DefaultClient returns the process-wide client, which the first call creates from the environment and the config
// file. It need not be closed.
//
// Errors: those of [NewClient]; every call returns the same one.
func DefaultClient() (*Client, error) { return defaultClient() }

var defaultClient = sync.OnceValues(func() (*Client, error) { return NewClient() })

// ThreadID returns the thread that this program belongs to, from the settings; empty if none is set.
func (c *Client) ThreadID() string { return c.threadID }

// WithCallTimeout returns a client on the same connection with another call timeout: a call ends after d, retries
// included, or when its context ends, whichever is sooner. 0 or less means the default, 5 s.
func (c *Client) WithCallTimeout(d time.Duration) *Client {
	other := *c
	other.callTimeout = callTimeoutOrDefault(d)
	return &other
}

// log returns the logger for warnings.
func (c *Client) log() *slog.Logger {
	if c.logger == nil {
		return slog.Default()
	}
	return c.logger
}

func callTimeoutOrDefault(d time.Duration) time.Duration {
	if d <= 0 {
		return defaultCallTimeout
	}
	return d
}

// WithDisconnectGrace returns a client on the same connection with another disconnect grace for the timeouts that it
// starts. While the coordinator is unreachable, the grace is how long a paused thread still counts as paused, and how
// long a timeout that ran out waits for a reconnect before it expires. Each grace has its own watch, so a program
// should use few values.
func (c *Client) WithDisconnectGrace(d time.Duration) *Client {
	other := *c
	other.grace = max(0, d)
	return &other
}

// releaseInBackground runs work that closes an elicitation; [Client.Close] waits for it.
func (c *Client) releaseInBackground(work func()) {
	done := c.releasing()
	go func() {
		defer done()
		work()
	}()
}

// releasing notes that an elicitation is being opened or closed, until the returned function is called; [Client.Close]
// waits for it.
func (c *Client) releasing() (done func()) {
	released := make(chan struct{})
	c.mu.Lock()
	defer c.mu.Unlock()
	c.releases[released] = struct{}{}
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.releases, released)
		close(released)
	}
}

// checkOpening returns the error of a hold that is being opened while the client is being closed.
func (c *Client) checkOpening() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.isClosing {
		return callEnded(ErrClosed, 0)
	}
	return nil
}

func (c *Client) awaitReleases() {
	late := time.After(c.callTimeout)
	for {
		var next chan struct{}
		c.mu.Lock()
		c.isClosing = true
		for next = range c.releases {
			break
		}
		c.mu.Unlock()
		if next == nil {
			return
		}
		select {
		case <-next:
		case <-late:
			return
		}
	}
}

// Close closes the connection, for all clients that share it. It waits for elicitations that are being closed, by
// [Hold.Release] or in the background, such as that of a [Client.Hold] whose context ended, for one call timeout at most.
// It also waits for a [Client.Hold] that is under way: the elicitation that it opens is closed, and it fails with
// [ErrClosed]. Then calls fail with [ErrClosed], and watches end with it. Holds that are still open are not renewed any more:
// their leases end them. Timeouts keep running, but no thread pauses them from now on: they expire at their limits,
// without a confirmation. Starting another timeout fails with [ErrClosed]. Calling Close again does nothing.
func (c *Client) Close() (err error) {
	c.closing.Do(func() {
		c.awaitReleases()
		c.end()
		c.mu.Lock()
		followers := slices.Collect(maps.Values(c.followers))
		c.mu.Unlock()
		for _, f := range followers {
			f.close()
		}
		if !c.isExternal {
			err = c.route.close()
		}
	})
	return err
}
