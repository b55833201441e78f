package pausewatch

import (
	"context"
	"crypto/tls"
	"log/slog"
	"time"

	"google.golang.org/grpc"
)

// Option is one setting of [NewClient]. An option overrides the environment, which overrides the config file. An
// empty string counts as not set.
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

// WithAddress sets the coordinator's address: `host:port`, `http://…`, `https://…` (TLS), `unix:PATH` or
// `unix:///PATH`. A host is a name of ASCII letters, digits, `-`, `_` and `.`, an IPv4 address, or an IPv6 address in
// brackets, without a zone. For several replicas, separate their addresses with commas. Variable: PAUSEWATCH_ADDRESS;
// default: [DefaultAddress].
func WithAddress(address string) Option { return func(o *options) { o.Address = address } }

// WithThreadID sets the thread that this program belongs to, which [Client.ThreadID] returns. Variable:
// PAUSEWATCH_THREAD_ID, else CODEX_THREAD_ID, else CLAUDE_CODE_SESSION_ID: those agents set theirs for their
// commands.
func WithThreadID(threadID string) Option { return func(o *options) { o.ThreadID = threadID } }

// WithToken sets the token that is sent with every call. It is sent only over TLS or to this machine. Variable:
// PAUSEWATCH_TOKEN.
func WithToken(token string) Option { return func(o *options) { o.Token = token } }

// WithTokenSource sets a function that returns the token, for a token that is replaced before it expires. It is
// called for every attempt of a call. While a watch or a timeout is open, it is also called after two thirds of the
// token's remaining life (of a JSON web token, and at least once a minute); the stream then continues with the new
// token. If it returns an error, the call ends with [*UnauthenticatedError]. The function must be safe for concurrent
// use, and should cache a token that it gets from elsewhere. Variable: PAUSEWATCH_TOKEN_FILE, a file that is read
// each time.
func WithTokenSource(source func(context.Context) (string, error)) Option {
	return func(o *options) { o.Tokens = source }
}

// WithTLSCA sets a PEM file of the authorities to trust; default: those of the system. It is read again for each
// connection, and while it cannot be used, the previous authorities are used. Variable: PAUSEWATCH_TLS_CA.
func WithTLSCA(path string) Option { return func(o *options) { o.TLSCA = path } }

// WithTLSCertificate sets PEM files with this program's certificate and its key, for mutual TLS. They are read again
// for each connection, and while they cannot be used, the previous ones are used. Variables: PAUSEWATCH_TLS_CERT and
// PAUSEWATCH_TLS_KEY.
func WithTLSCertificate(certPath, keyPath string) Option {
	return func(o *options) { o.TLSCert, o.TLSKey = certPath, keyPath }
}

// WithTLSConfig sets the TLS configuration of an https address, instead of files: for certificates that are in no file.
func WithTLSConfig(config *tls.Config) Option { return func(o *options) { o.TLS = config } }

// WithConfigFile sets the config file, which must exist. Variable: PAUSEWATCH_CONFIG; default: pausewatch/config.toml
// under $XDG_CONFIG_HOME or ~/.config, which need not exist.
func WithConfigFile(path string) Option { return func(o *options) { o.configFile = path } }

// WithCallTimeout sets the timeout of a call, retries included. Default: 5 s. See [Client.WithCallTimeout].
func WithCallTimeout(d time.Duration) Option { return func(o *options) { o.callTimeout = d } }

// WithRetries sets the maximum number of retries of a call, within its timeout. Default, and with less than 0: as
// many as fit. With 0, a call reports at once that no coordinator runs.
func WithRetries(n int) Option { return func(o *options) { o.retries = n } }

// WithDisconnectGrace sets the disconnect grace: while disconnected, how long a paused thread still counts as paused,
// and how long a timeout that ran out waits for a reconnect. Default: 30 s. See [Client.WithDisconnectGrace].
func WithDisconnectGrace(d time.Duration) Option { return func(o *options) { o.grace = d } }

// WithConn sets a connection of the program, instead of an address and its settings. It is not closed with the
// client. Its pings and reconnects are configured by the program. A token is sent over it as it is, encrypted or not.
func WithConn(connection *grpc.ClientConn) Option {
	return func(o *options) { o.connection = connection }
}

// WithLogger sets the logger for warnings. Default: [slog.Default].
func WithLogger(logger *slog.Logger) Option { return func(o *options) { o.logger = logger } }

// WithLinkObserver sets a function that is called when the timeouts of the client are connected, when they are
// disconnected, and when the disconnect grace has passed since: one call at a time, in order, on a goroutine of its
// own.
func WithLinkObserver(observe func(Link)) Option { return func(o *options) { o.onLink = observe } }

// WithDialOptions adds options of gRPC, such as interceptors. They are applied last and override others.
func WithDialOptions(extra ...grpc.DialOption) Option {
	return func(o *options) { o.dial = append(o.dial, extra...) }
}
