package pausewatch

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"

	pausewatchv1 "pausewatch.dev/clients/go/gen/pausewatch/v1"
)

// authority signs certificates.
type authority struct {
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
	serial      int64
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	check(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "authority"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	check(t, err)
	certificate, err := x509.ParseCertificate(der)
	check(t, err)
	return &authority{certificate: certificate, key: key, serial: 1}
}

func (a *authority) pool() *x509.CertPool {
	pool := x509.NewCertPool()
	pool.AddCert(a.certificate)
	return pool
}

// file is the path of the authority's own certificate.
func (a *authority) file(t *testing.T) string {
	t.Helper()
	return write(t, filepath.Join(t.TempDir(), "ca.pem"), encode("CERTIFICATE", a.certificate.Raw))
}

// sign creates a certificate for 127.0.0.1, and returns the paths of it and its key.
func (a *authority) sign(t *testing.T) (cert, key string) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	check(t, err)
	a.serial++
	template := &x509.Certificate{
		SerialNumber: big.NewInt(a.serial), Subject: pkix.Name{CommonName: "127.0.0.1"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.certificate, &private.PublicKey, a.key)
	check(t, err)
	keyDER, err := x509.MarshalPKCS8PrivateKey(private)
	check(t, err)
	folder := t.TempDir()
	return write(t, filepath.Join(folder, "cert.pem"), encode("CERTIFICATE", der)),
		write(t, filepath.Join(folder, "key.pem"), encode("PRIVATE KEY", keyDER))
}

func encode(kind string, der []byte) string {
	return string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}))
}

// greeter answers reads, and remembers the tokens that came with them.
type greeter struct {
	pausewatchv1.UnimplementedElicitationServiceServer
	tokens chan string
}

func (g *greeter) GetPauseState(ctx context.Context, request *pausewatchv1.GetPauseStateRequest) (*pausewatchv1.GetPauseStateResponse, error) {
	headers, _ := metadata.FromIncomingContext(ctx)
	g.tokens <- strings.Join(headers.Get("authorization"), ",")
	return &pausewatchv1.GetPauseStateResponse{PauseState: &pausewatchv1.PauseState{ThreadId: request.ThreadId}}, nil
}

// serveTLS serves on 127.0.0.1, by the protocol that config says, or in plain text without one.
func serveTLS(t *testing.T, config *tls.Config) (port string, g *greeter) {
	t.Helper()
	var options []grpc.ServerOption
	if config != nil {
		options = append(options, grpc.Creds(credentials.NewTLS(config)))
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	check(t, err)
	g = &greeter{tokens: make(chan string, 100)}
	server := grpc.NewServer(options...)
	pausewatchv1.RegisterElicitationServiceServer(server, g)
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(server.Stop)
	_, port, err = net.SplitHostPort(listener.Addr().String())
	check(t, err)
	return port, g
}

// readBy makes a client and reads a thread by it, once: what fails has no retry that could run out of time first.
func readBy(t *testing.T, options ...Option) error {
	t.Helper()
	client, err := NewClient(append(options, WithRetries(0))...)
	if err != nil {
		return err
	}
	defer client.Close()
	_, err = client.WithCallTimeout(time.Minute).GetPauseState(ctx, "t")
	return err
}

func TestTLSTrustsTheNamedAuthority(t *testing.T) {
	clean(t)
	ours, foreign := newAuthority(t), newAuthority(t)
	certificate, err := tls.LoadX509KeyPair(ours.sign(t))
	check(t, err)
	port, g := serveTLS(t, &tls.Config{Certificates: []tls.Certificate{certificate}})
	address := WithAddress("https://127.0.0.1:" + port)
	check(t, readBy(t, address, WithTLSCA(ours.file(t)), WithToken("secret")))
	if token := <-g.tokens; token != "Bearer secret" {
		t.Errorf("token %q", token)
	}
	for name, option := range map[string]Option{"a foreign one": WithTLSCA(foreign.file(t)), "those of the system": func(*options) {}} {
		if err := readBy(t, address, option); !is[*UnavailableError](err) || !strings.Contains(err.Error(), "certificate") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := readBy(t, WithAddress("127.0.0.1:"+port)); err == nil {
		t.Error("plain text is taken")
	}
	t.Setenv("PAUSEWATCH_ADDRESS", "https://127.0.0.1:"+port)
	t.Setenv("PAUSEWATCH_TLS_CA", ours.file(t))
	check(t, readBy(t))
}

func TestMutualTLSShowsACertificate(t *testing.T) {
	clean(t)
	ours := newAuthority(t)
	certificate, err := tls.LoadX509KeyPair(ours.sign(t))
	check(t, err)
	port, _ := serveTLS(t, &tls.Config{
		Certificates: []tls.Certificate{certificate}, ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: ours.pool(),
	})
	address, ca := WithAddress("https://127.0.0.1:"+port), WithTLSCA(ours.file(t))
	check(t, readBy(t, address, ca, WithTLSCertificate(ours.sign(t))))
	if err := readBy(t, address, ca); !is[*UnavailableError](err) {
		t.Errorf("without one: %v", err)
	}
	if err := readBy(t, address, ca, WithTLSCertificate(newAuthority(t).sign(t))); !is[*UnavailableError](err) {
		t.Errorf("with a foreign one: %v", err)
	}
}

func TestATLSConfigOverridesFilesOfTheEnvironment(t *testing.T) {
	clean(t)
	ours := newAuthority(t)
	certificate, err := tls.LoadX509KeyPair(ours.sign(t))
	check(t, err)
	port, _ := serveTLS(t, &tls.Config{Certificates: []tls.Certificate{certificate}})
	t.Setenv("PAUSEWATCH_TLS_CA", newAuthority(t).file(t))
	check(t, readBy(t, WithAddress("https://127.0.0.1:"+port), WithTLSConfig(&tls.Config{RootCAs: ours.pool()})))
}

func TestASuppliedConnectionIsUsedAndNotClosed(t *testing.T) {
	clean(t)
	port, g := serveTLS(t, nil)
	connection, err := grpc.NewClient("127.0.0.1:"+port, grpc.WithTransportCredentials(insecure.NewCredentials()))
	check(t, err)
	defer connection.Close()
	for range 2 {
		check(t, readBy(t, WithConn(connection), WithToken("secret")))
		if token := <-g.tokens; token != "Bearer secret" {
			t.Errorf("token %q", token)
		}
	}
	check(t, readBy(t, WithConn(connection)))
	if token := <-g.tokens; token != "" {
		t.Errorf("token %q", token)
	}
	if _, err := NewClient(WithConn(connection), WithAddress("127.0.0.1:1")); err == nil || !strings.Contains(err.Error(), "WithConn cannot be combined") {
		t.Errorf("an address beside it: %v", err)
	}
}

func TestAClosedClientCallsNobodyOverASuppliedConnection(t *testing.T) {
	withFake(t, func(t *testing.T, f *fake, _ *Client) {
		connection, err := grpc.NewClient("passthrough:///fake", grpc.WithContextDialer(f.dial), grpc.WithTransportCredentials(insecure.NewCredentials()))
		check(t, err)
		defer connection.Close()
		client, err := NewClient(WithConn(connection))
		check(t, err)
		_, err = client.GetPauseState(ctx, "t")
		check(t, err)
		check(t, client.Close())
		if _, err := client.GetPauseState(ctx, "t"); !errors.Is(err, ErrClosed) {
			t.Errorf("a read: %v", err)
		}
		if hold, err := client.Hold(ctx, "t", HoldOptions{}); hold != nil || !errors.Is(err, ErrClosed) {
			t.Errorf("a hold that nobody would renew: %v, %v", hold, err)
		}
	})
}

func TestStopwatchesWorkOverASuppliedConnection(t *testing.T) {
	withFake(t, func(t *testing.T, f *fake, _ *Client) {
		connection, err := grpc.NewClient("passthrough:///fake", grpc.WithContextDialer(f.dial), grpc.WithTransportCredentials(insecure.NewCredentials()))
		check(t, err)
		defer connection.Close()
		client, err := NewClient(WithConn(connection), WithTokenSource(func(context.Context) (string, error) { return "secret", nil }))
		check(t, err)
		defer client.Close()
		stopwatch := startStopwatch(t, client, time.Minute)
		f.pause("t")
		time.Sleep(time.Hour)
		f.resume("t")
		f.stop()
		f.start()
		time.Sleep(59 * time.Second)
		if reading := stopwatch.Stop(); !reading.Linked || reading.Elapsed != 59*time.Second {
			t.Errorf("%+v", reading)
		}
	})
}

func TestContradictoryTLSSettingsAreRejected(t *testing.T) {
	clean(t)
	ours := newAuthority(t)
	cert, key := ours.sign(t)
	https, plain := WithAddress("https://127.0.0.1:1"), WithAddress("127.0.0.1:1")
	for name, c := range map[string]struct {
		options []Option
		why     string
	}{
		"a CA with a plain address":          {[]Option{plain, WithTLSCA(ours.file(t))}, "write https://"},
		"a certificate with a plain address": {[]Option{plain, WithTLSCertificate(cert, key)}, "write https://"},
		"a CA with a Unix socket":            {[]Option{WithAddress("unix:/p"), WithTLSCA(ours.file(t))}, "write https://"},
		"a CA that is missing":               {[]Option{https, WithTLSCA("/missing.pem")}, "/missing.pem"},
		"a CA that is none":                  {[]Option{https, WithTLSCA(key)}, "no PEM certificate"},
		"a certificate that is none":         {[]Option{https, WithTLSCertificate(key, key)}, key},
		"a TLS config with a plain address":  {[]Option{plain, WithTLSConfig(&tls.Config{})}, "write https://"},
		"a TLS config beside a CA":           {[]Option{https, WithTLSConfig(&tls.Config{}), WithTLSCA(ours.file(t))}, "give one of them"},
		"a wrong address":                    {[]Option{WithAddress("https://host:port")}, "host:port"},
	} {
		if client, err := NewClient(c.options...); err == nil {
			client.Close()
			t.Errorf("%s is taken", name)
		} else if !strings.Contains(err.Error(), c.why) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestG8ATokenIsSentOnlyOverTLSOrToThisMachine(t *testing.T) {
	clean(t)
	for address, taken := range map[string]bool{
		"127.0.0.1:1": true, "localhost:1": true, "[::1]:1": true, "unix:/p": true, "https://example.com": true,
		"example.com:1": false, "http://10.0.0.1:1": false, "0.0.0.0:1": false,
	} {
		client, err := NewClient(WithAddress(address), WithToken("secret"))
		if (err == nil) != taken {
			t.Errorf("%s: %v", address, err)
		}
		if err == nil {
			client.Close()
		} else if strings.Contains(err.Error(), "secret") {
			t.Errorf("the token is in the error: %v", err)
		}
	}
	port, g := serveTLS(t, nil)
	check(t, readBy(t, WithAddress("127.0.0.1:"+port), WithToken("secret")))
	check(t, readBy(t, WithAddress("127.0.0.1:"+port)))
	if with, without := <-g.tokens, <-g.tokens; with != "Bearer secret" || without != "" {
		t.Errorf("tokens %q and %q", with, without)
	}
}

func TestATokenIsNotShown(t *testing.T) {
	clean(t)
	_, err := NewClient(WithToken("sec\nret"))
	if err == nil || strings.Contains(err.Error(), "ret") {
		t.Errorf("got %v", err)
	}
	token := bearer{"secret"}
	client, err := NewClient(WithToken("secret"))
	check(t, err)
	defer client.Close()
	for _, format := range []string{"%v", "%+v", "%#v", "%s"} {
		if text := fmt.Sprintf(format, token) + fmt.Sprintf(format, &token) + fmt.Sprintf(format, client); strings.Contains(text, "secret") {
			t.Errorf("%s shows it: %s", format, text)
		}
	}
}

// cutter forwards calls to a server, and breaks its first connection after that many bytes from the server.
type cutter struct {
	net.Listener
	server string
	first  int
}

func (c *cutter) run() {
	for n := 0; ; n++ {
		from, err := c.Accept()
		if err != nil {
			return
		}
		go c.bring(from.(*net.TCPConn), n == 0)
	}
}

func (c *cutter) bring(from *net.TCPConn, cut bool) {
	to, err := net.Dial("tcp", c.server)
	if err != nil {
		from.Close()
		return
	}
	defer to.Close()
	// What the server sent is lost: a reset, not an orderly end.
	defer from.Close()
	defer from.SetLinger(0)
	go func() { _, _ = to.(*net.TCPConn).ReadFrom(from) }()
	left, buffer := c.first, make([]byte, 4096)
	for {
		n, err := to.Read(buffer)
		if cut {
			n = min(n, left)
			left -= n
		}
		if _, failed := from.Write(buffer[:n]); failed != nil || err != nil || (cut && left == 0) {
			return
		}
	}
}

func TestG4ACallIsRetriedWhereverInTheResponseItsConnectionBreaks(t *testing.T) {
	clean(t)
	f := newFake()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	check(t, err)
	server := grpc.NewServer()
	pausewatchv1.RegisterElicitationServiceServer(server, f)
	go func() { _ = server.Serve(listener) }()
	defer server.Stop()
	for cut := 1; cut < 200; cut += 9 {
		front, err := net.Listen("tcp", "127.0.0.1:0")
		check(t, err)
		go (&cutter{Listener: front, server: listener.Addr().String(), first: cut}).run()
		client, err := NewClient(WithAddress(front.Addr().String()))
		check(t, err)
		thread := fmt.Sprint(cut)
		made, err := client.IncrementElicitation(ctx, thread, IncrementOptions{TTL: time.Minute})
		if err != nil || made.Count != 1 || f.count(thread) != 1 {
			t.Errorf("cut after %d bytes: %v, count %d", cut, err, f.count(thread))
		}
		client.Close()
		front.Close()
	}
	for _, e := range f.elicitations {
		e.lease.Stop()
	}
}

func TestAConnectionThatIsDroppedAtOnceCountsAsUnavailable(t *testing.T) {
	clean(t)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	check(t, err)
	defer listener.Close()
	go func() {
		for {
			connection, err := listener.Accept()
			if err != nil {
				return
			}
			connection.Close()
		}
	}()
	if err := readBy(t, WithAddress(listener.Addr().String())); !is[*UnavailableError](err) {
		t.Errorf("%T: %v", err, err)
	}
}

func TestAServerWithoutTLSIsUnavailableWithItsAddress(t *testing.T) {
	clean(t)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	check(t, err)
	defer listener.Close()
	go func() {
		for {
			connection, err := listener.Accept()
			if err != nil {
				return
			}
			_, _ = fmt.Fprint(connection, "HTTP/1.1 400 Bad Request\r\n\r\n")
			_ = connection.Close()
		}
	}()
	address := "https://" + listener.Addr().String()
	client, err := NewClient(WithAddress(address), WithRetries(0))
	check(t, err)
	defer client.Close()
	if _, err := client.GetPauseState(ctx, "t"); !is[*UnavailableError](err) || !strings.Contains(err.Error(), address) {
		t.Errorf("%T: %v", err, err)
	}
}
