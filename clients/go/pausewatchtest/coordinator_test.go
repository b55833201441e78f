package pausewatchtest_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	pausewatch "pausewatch.dev/clients/go"
	"pausewatch.dev/clients/go/pausewatchtest"
)

// needsProgram fails in CI, which has the program, and skips elsewhere with the reason.
func needsProgram(t *testing.T) {
	t.Helper()
	if os.Getenv("PAUSEWATCH_PROGRAM") != "" {
		return
	}
	if os.Getenv("CI") == "true" {
		t.Fatal("PAUSEWATCH_PROGRAM is not set")
	}
	t.Skip("PAUSEWATCH_PROGRAM does not name a built pausewatch")
}

func TestItServesAndRestartsAtTheSameAddress(t *testing.T) {
	needsProgram(t)
	coordinator := pausewatchtest.Start(t, "--max-pause", "1h")
	client, address := coordinator.Client(pausewatch.WithRetries(0)), coordinator.Address()
	if _, err := client.IncrementElicitation(context.Background(), "t", pausewatch.IncrementOptions{}); err != nil {
		t.Fatal(err)
	}
	coordinator.Stop()
	coordinator.Stop()
	if _, err := client.GetPauseState(context.Background(), "t"); !errors.As(err, new(*pausewatch.UnavailableError)) {
		t.Errorf("%v", err)
	}
	coordinator.Start()
	state, err := coordinator.Client().GetPauseState(context.Background(), "t")
	if err != nil || state.Count != 0 || coordinator.Address() != address {
		t.Errorf("%+v, %v at %s", state, err, coordinator.Address())
	}
}

func TestItRestartsWithTLS(t *testing.T) {
	needsProgram(t)
	unused := httptest.NewTLSServer(nil)
	defer unused.Close()
	key, err := x509.MarshalPKCS8PrivateKey(unused.TLS.Certificates[0].PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	write := func(name, kind string, der []byte) string {
		path := filepath.Join(t.TempDir(), name)
		if err := os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	coordinator := pausewatchtest.Start(t,
		"--tls-cert", write("cert.pem", "CERTIFICATE", unused.Certificate().Raw), "--tls-key", write("key.pem", "PRIVATE KEY", key))
	address := coordinator.Address()
	coordinator.Stop()
	coordinator.Start()
	roots := x509.NewCertPool()
	roots.AddCert(unused.Certificate())
	client := coordinator.Client(pausewatch.WithTLSConfig(&tls.Config{RootCAs: roots}))
	if _, err := client.GetPauseState(context.Background(), "t"); err != nil || coordinator.Address() != address {
		t.Errorf("%v at %s", err, coordinator.Address())
	}
}

// failing is a test that only notes how it fails.
type failing struct {
	testing.TB
	why string
}

func (f *failing) Helper()        {}
func (f *failing) Cleanup(func()) {}
func (f *failing) Fatal(args ...any) {
	f.why += args[0].(string)
	panic(f)
}
func (f *failing) Fatalf(format string, args ...any) {
	f.why += format
	for _, arg := range args {
		if text, ok := arg.(string); ok {
			f.why += " " + text
		}
	}
	panic(f)
}

func whyNot(t *testing.T, options ...string) (why string) {
	f := &failing{TB: t}
	defer func() {
		if recover() != any(f) {
			t.Error("it starts")
		}
		why = f.why
	}()
	pausewatchtest.Start(f, options...)
	return ""
}

func TestAFailedStartReportsTheCause(t *testing.T) {
	needsProgram(t)
	if why := whyNot(t, "--no-such-option"); !strings.Contains(why, "--no-such-option") {
		t.Error(why)
	}
	t.Setenv("PAUSEWATCH_PROGRAM", "")
	t.Setenv("PATH", "/nowhere")
	if why := whyNot(t); !strings.Contains(why, "PAUSEWATCH_PROGRAM") {
		t.Error(why)
	}
}

func TestATimeoutIsPausedByAHold(t *testing.T) {
	needsProgram(t)
	client := pausewatchtest.Start(t).Client()
	hold, err := client.Hold(context.Background(), "t", pausewatch.HoldOptions{})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := client.WithPausableTimeout(context.Background(), 50*time.Millisecond, "t")
	defer cancel()
	events, err := client.Watch(ctx, []string{"t"}, pausewatch.WatchOptions{})
	if err != nil {
		t.Fatal(err)
	}
	<-events
	if err := hold.Release(context.Background()); err != nil {
		t.Fatal(err)
	}
	<-ctx.Done()
	if !errors.Is(ctx.Err(), context.DeadlineExceeded) {
		t.Errorf("%v", ctx.Err())
	}
}
