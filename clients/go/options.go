package pausewatch

import (
	"context"
	"crypto/tls"
	"log/slog"
	"time"

	"google.golang.org/grpc"
)

// Option is one setting of [NewClient]. An option that is given goes before the environment, which goes before the
// config file; one with an empty text counts as not given.
type Option func(*options)

type options struct {
	settings
	configFile  string
	callTimeout time.Duration
	grace       time.Duration
	retries     int
	dial        []grpc.DialOption
	connection  *grpc.ClientConn
	logger      *slog.Logger
	onLink      func(Link)
}

// WithAddress says where the coordinator listens: `host:port`, `http://…`, `https://…` (TLS), `unix:PATH` or
// `unix:///PATH`. A host is a name of ASCII letters, digits, `-`, `_` and `.`, an IPv4 address, or an IPv6 address in
// brackets, without a zone. Of several replicas: their addresses with commas between them. Variable: PAUSEWATCH_ADDRESS; default: [DefaultAddress].
func WithAddress(address string) Option { return func(o *options) { o.Address = address } }

// WithThreadID says which thread this program belongs to: what [Client.ThreadID] returns. Variable:
// PAUSEWATCH_THREAD_ID, else CODEX_THREAD_ID, else CLAUDE_CODE_SESSION_ID: those agents set theirs for their commands.
func WithThreadID(threadID string) Option { return func(o *options) { o.ThreadID = threadID } }

// WithToken sends a token with every call. It goes over TLS, or to this machine. Variable: PAUSEWATCH_TOKEN.
func WithToken(token string) Option { return func(o *options) { o.Token = token } }

// WithTokenSource has the token asked for again, for one that ends and is replaced before it does: for every attempt of a
// call, and while a watch or a timeout is open also after two thirds of the rest of its life (of a JSON web token, and at
// least once a minute). The stream then goes on with the new token. An error ends the call with [*UnauthenticatedError]. The
// source must be safe for any number of goroutines, and keep what it got from elsewhere. Variable: PAUSEWATCH_TOKEN_FILE,
// a file that is read each time.
func WithTokenSource(source func(context.Context) (string, error)) Option {
	return func(o *options) { o.Tokens = source }
}

// WithTLSCA names a PEM file with the authorities that may sign the server's certificate; without, those of the system.
// Variable: PAUSEWATCH_TLS_CA.
func WithTLSCA(path string) Option { return func(o *options) { o.TLSCA = path } }

// WithTLSCertificate names PEM files with this program's certificate and its key, for a server that asks for one.
// Variables: PAUSEWATCH_TLS_CERT and PAUSEWATCH_TLS_KEY.
func WithTLSCertificate(certPath, keyPath string) Option {
	return func(o *options) { o.TLSCert, o.TLSKey = certPath, keyPath }
}

// WithTLSConfig is the TLS of an https address, instead of what files say: for certificates that are in no file, or are renewed.
func WithTLSConfig(config *tls.Config) Option { return func(o *options) { o.TLS = config } }

// WithConfigFile names the config file, which must be there. Variable: PAUSEWATCH_CONFIG; default:
// pausewatch/config.toml under $XDG_CONFIG_HOME or ~/.config, which may be missing.
func WithConfigFile(path string) Option { return func(o *options) { o.configFile = path } }

// WithCallTimeout says how long a call may take, retries included. Default: 5 s. See [Client.WithCallTimeout].
func WithCallTimeout(d time.Duration) Option { return func(o *options) { o.callTimeout = d } }

// WithRetries says how often a call is made again at most, within its time. Default, and with less than 0: as often as
// fits. 0 says at once that no coordinator runs.
func WithRetries(n int) Option { return func(o *options) { o.retries = n } }

// WithDisconnectGrace says how long a timeout that ran out while cut off waits for the link. Default: 30 s. See
// [Client.WithDisconnectGrace].
func WithDisconnectGrace(d time.Duration) Option { return func(o *options) { o.grace = d } }

// WithConn is a connection of your own instead of an address and what belongs to it. It is not closed with the client. How it
// pings and reconnects is yours to say. A token is sent over it as it is, encrypted or not.
func WithConn(connection *grpc.ClientConn) Option {
	return func(o *options) { o.connection = connection }
}

// WithLogger says where warnings go. Default: [slog.Default].
func WithLogger(logger *slog.Logger) Option { return func(o *options) { o.logger = logger } }

// WithLinkObserver has a function called when the timeouts of the client are connected, cut off, or have been for the whole
// disconnect grace: one call at a time, in order, on a goroutine of its own.
func WithLinkObserver(observe func(Link)) Option { return func(o *options) { o.onLink = observe } }

// WithDialOptions adds options of gRPC's own, such as interceptors. They go last, so they win.
func WithDialOptions(extra ...grpc.DialOption) Option {
	return func(o *options) { o.dial = append(o.dial, extra...) }
}
