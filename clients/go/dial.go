package pausewatch

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/keepalive"
)

const (
	// A connection attempt that takes longer is retried. Short enough for a second attempt within the default call
	// timeout.
	connectTimeout = 2 * time.Second
	// Short enough to find a server that is up again within one call.
	firstReconnectDelay = 50 * time.Millisecond
	maxReconnectDelay   = time.Second
	// The interval and the timeout of pings: a peer that died silently is noticed within 15 s, idle or not, and
	// 10,000 clients cost their server 1,000 pings a second.
	pingInterval = 10 * time.Second
	pingTimeout  = 5 * time.Second
)

// dial creates a connection to one address; token is nil if there is none. It connects at the first call, and again
// whenever the connection is lost.
func dial(to string, secure credentials.TransportCredentials, token *bearer, extra []grpc.DialOption) (*grpc.ClientConn, error) {
	address, err := parseAddress(to)
	if err != nil {
		return nil, err
	}
	options := []grpc.DialOption{
		grpc.WithTransportCredentials(secure),
		grpc.WithConnectParams(grpc.ConnectParams{
			Backoff:           backoff.Config{BaseDelay: firstReconnectDelay, Multiplier: 2, Jitter: 0.2, MaxDelay: maxReconnectDelay},
			MinConnectTimeout: connectTimeout,
		}),
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: pingInterval, Timeout: pingTimeout, PermitWithoutStream: true}),
		grpc.WithUserAgent("pausewatch-go/" + Version),
		// The net package resolves names at each connect: a server that moved is found as soon as its name points to
		// it.
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, address.network, address.target)
		}),
	}
	target := address.target
	if address.network == "unix" {
		// The authority header of requests over a Unix socket: any valid value works, and servers log it.
		target = "localhost"
	}
	if token != nil {
		if !address.tls && !address.loopback() {
			return nil, fmt.Errorf("a token is not sent in plain text to another machine: use https://%s", address.target)
		}
		options = append(options, grpc.WithPerRPCCredentials(token))
	}
	return grpc.NewClient("passthrough:///"+target, append(options, extra...)...)
}

// withCredentials adds the token to every call on a connection that the program supplied.
type withCredentials struct {
	grpc.ClientConnInterface
	token grpc.CallOption
}

func (c withCredentials) Invoke(ctx context.Context, method string, request, answer any, opts ...grpc.CallOption) error {
	return c.ClientConnInterface.Invoke(ctx, method, request, answer, append(opts, c.token)...)
}

func (c withCredentials) NewStream(ctx context.Context, desc *grpc.StreamDesc, method string, opts ...grpc.CallOption) (grpc.ClientStream, error) {
	return c.ClientConnInterface.NewStream(ctx, desc, method, append(opts, c.token)...)
}

// transportCredentials returns TLS for https addresses, and plain text for any other. TLS settings with a plain-text
// address are an error, because falling back to plain text would be worse. logger gets the warnings of TLS files; nil:
// the default one.
func transportCredentials(s settings, logger *slog.Logger) (credentials.TransportCredentials, error) {
	if !s.isEncrypted() {
		if s.TLS != nil {
			return nil, fmt.Errorf("a TLS config is given, but the address %q is plain text: write https://host:port, or give none", s.Address)
		}
		if s.TLSCA != "" || s.TLSCert != "" || s.TLSKey != "" {
			return nil, fmt.Errorf("tls_ca, tls_cert or tls_key is given, but the address %q is plain text: write https://host:port, or give none of them", s.Address)
		}
		return insecure.NewCredentials(), nil
	}
	if s.TLS != nil {
		if s.TLSCA != "" || s.TLSCert != "" || s.TLSKey != "" {
			return nil, errors.New("a TLS config and TLS files are given: give one of them")
		}
		return credentials.NewTLS(s.TLS), nil
	}
	switch {
	case s.TLSCert != "" && s.TLSKey == "":
		return nil, errors.New("tls_cert is given without tls_key: give both, or neither")
	case s.TLSKey != "" && s.TLSCert == "":
		return nil, errors.New("tls_key is given without tls_cert: give both, or neither")
	}
	return newTLSFiles(s, logger)
}

// bearer sends a token with every call: the one in the context, which is that of a source, else the fixed one.
type bearer struct{ fixed string }

func (b bearer) GetRequestMetadata(ctx context.Context, _ ...string) (map[string]string, error) {
	token, ok := ctx.Value(tokenKey{}).(string)
	if !ok {
		token = b.fixed
	}
	return map[string]string{"authorization": "Bearer " + token}, nil
}

// RequireTransportSecurity returns false because dial has already checked this, with a finer rule than gRPC's.
func (b bearer) RequireTransportSecurity() bool { return false }

// String keeps the token out of logs.
func (b bearer) String() string { return "bearer token" }

// GoString keeps the token out of logs.
func (b bearer) GoString() string { return b.String() }
