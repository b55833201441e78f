package pausewatch

import (
	"bytes"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// tlsFolder has the certificates of a server and its client, always at the same paths, whichever authority signed
// them.
type tlsFolder string

func (f tlsFolder) path(name string) string { return filepath.Join(string(f), name) }

func (f tlsFolder) replace(t *testing.T, name, by string) {
	t.Helper()
	text, err := os.ReadFile(by)
	check(t, err)
	write(t, f.path(name), string(text))
}

// renew replaces all files by those of an authority.
func (f tlsFolder) renew(t *testing.T, by *authority) {
	t.Helper()
	f.replace(t, "ca.pem", by.file(t))
	for _, name := range []string{"server", "client"} {
		cert, key := by.sign(t)
		f.replace(t, name+".pem", cert)
		f.replace(t, name+"-key.pem", key)
	}
}

// startRealTLS starts a coordinator that wants certificates of its clients, and a client with one.
func startRealTLS(t *testing.T, options ...Option) (*real, tlsFolder, *Client) {
	t.Helper()
	f := tlsFolder(t.TempDir())
	f.renew(t, newAuthority(t))
	r := startReal(t, "127.0.0.1:0", "--tls-cert", f.path("server.pem"), "--tls-key", f.path("server-key.pem"), "--tls-client-ca", f.path("ca.pem"))
	client, err := NewClient(append(options, WithAddress(r.address), WithCallTimeout(10*time.Second),
		WithTLSCA(f.path("ca.pem")), WithTLSCertificate(f.path("client.pem"), f.path("client-key.pem")))...)
	check(t, err)
	t.Cleanup(func() { _ = client.Close() })
	return r, f, client
}

func TestRealClientsUseRenewedCertificatesForTheirNextConnection(t *testing.T) {
	r, f, client := startRealTLS(t)
	stopwatch, err := client.StartStopwatch(time.Hour, "t")
	check(t, err)
	defer stopwatch.Stop()
	for range 2 {
		r.kill()
		f.renew(t, newAuthority(t))
		r.start(t)
		hold, err := client.Hold(ctx, "t", HoldOptions{})
		check(t, err)
		awaitPaused(t, stopwatch, true)
		check(t, hold.Release(ctx))
		awaitPaused(t, stopwatch, false)
	}
}

func awaitPaused(t *testing.T, stopwatch *Stopwatch, paused bool) {
	t.Helper()
	for late := time.Now().Add(30 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		reading := stopwatch.Read()
		if reading.Linked && reading.Paused == paused {
			return
		}
		if time.Now().After(late) {
			t.Fatalf("%+v", reading)
		}
	}
}

func TestRealClientsKeepTheLastGoodCertificates(t *testing.T) {
	var logged lockedBuffer
	r, f, client := startRealTLS(t, WithLogger(slog.New(slog.NewTextHandler(&logged, nil))))
	restart := func() {
		t.Helper()
		r.kill()
		r.start(t)
		_, err := client.GetPauseState(ctx, "t")
		check(t, err)
	}
	good, err := os.ReadFile(f.path("ca.pem"))
	check(t, err)
	restart()
	if text := logged.String(); text != "" {
		t.Errorf("good files are warned of: %s", text)
	}
	_, foreignKey := newAuthority(t).sign(t)
	for _, wrong := range []struct {
		why  string
		make func()
	}{
		{"ca.pem: there is no PEM certificate in it", func() { write(t, f.path("ca.pem"), string(good[:len(good)/2])) }},
		{"no such file", func() { check(t, os.Remove(f.path("ca.pem"))) }},
		{"client-key.pem: tls: private key does not match", func() {
			write(t, f.path("ca.pem"), string(good))
			f.replace(t, "client-key.pem", foreignKey)
		}},
	} {
		// The server reads them at its start.
		r.kill()
		r.arguments = withOwnAuthority(t, r.arguments, good)
		wrong.make()
		r.start(t)
		_, err := client.GetPauseState(ctx, "t")
		check(t, err)
		restart()
		if n := strings.Count(logged.String(), wrong.why); n != 1 {
			t.Errorf("%q is logged %d times: %s", wrong.why, n, logged.String())
		}
	}
	f.renew(t, newAuthority(t))
	r.arguments = replaced(r.arguments, "--tls-client-ca", f.path("ca.pem"))
	restart()
}

func withOwnAuthority(t *testing.T, arguments []string, ca []byte) []string {
	return replaced(arguments, "--tls-client-ca", write(t, filepath.Join(t.TempDir(), "server-ca.pem"), string(ca)))
}

func replaced(arguments []string, option, value string) []string {
	for i, each := range arguments {
		if each == option {
			arguments[i+1] = value
		}
	}
	return arguments
}

// lockedBuffer is a buffer that may be written while it is read.
type lockedBuffer struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (b *lockedBuffer) Write(text []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(text)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}
