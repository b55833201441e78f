package pausewatch

import (
	"context"
	"encoding/base64"
	"errors"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

func TestATokenIsRenewedAfterTwoThirdsOfItsRemainingLife(t *testing.T) {
	now := time.Unix(1_000, 0)
	token := func(claims string) string {
		return "e30." + base64.RawURLEncoding.EncodeToString([]byte(claims)) + ".c2ln"
	}
	for token, want := range map[string]time.Duration{
		token(`{"exp":1030}`):       20 * time.Second,
		token(`{"exp":1000000}`):    time.Minute,
		token(`{"exp":9999999999}`): time.Minute,
		token(`{"exp":1e300}`):      time.Minute,
		token(`{"exp":1}`):          time.Second,
		token(`{"exp":"soon"}`):     time.Minute,
		token(`[]`):                 time.Minute,
		"opaque":                    time.Minute,
		"e30.+.c2ln":                time.Minute,
	} {
		if got := renewalDelay(token, now); got != want {
			t.Errorf("%s: %v, not %v", token, got, want)
		}
	}
}

func TestATokenSourceThatFailsIsUnauthenticated(t *testing.T) {
	failed := errors.New("no such vault")
	client, err := NewClient(WithAddress("127.0.0.1:1"), WithTokenSource(func(context.Context) (string, error) { return "", failed }))
	check(t, err)
	defer client.Close()
	if _, err := client.GetPauseState(t.Context(), "t"); !is[*UnauthenticatedError](err) {
		t.Error(err)
	}
	twoWords := tokenSource(func(context.Context) (string, error) { return "two words", nil })
	if _, err := twoWords.checked(t.Context()); status.Code(err) != codes.Unauthenticated {
		t.Error(err)
	}
}

func TestATokenSourceThatIgnoresItsContextDelaysNoCallBeyondItsDeadline(t *testing.T) {
	answer := make(chan string)
	defer close(answer)
	client, err := NewClient(WithAddress("127.0.0.1:1"), WithTokenSource(func(context.Context) (string, error) { return <-answer, nil }))
	check(t, err)
	defer client.Close()
	if _, err := client.WithCallTimeout(time.Millisecond).GetPauseState(t.Context(), "t"); !is[*DeadlineExceededError](err) {
		t.Errorf("%T: %v", err, err)
	}
}

func TestATokenFileIsReadEachTime(t *testing.T) {
	path := filepath.Join(t.TempDir(), "token")
	t.Setenv("PAUSEWATCH_TOKEN_FILE", path)
	found, err := findSettings(settings{}, "", slog.Default())
	check(t, err)
	for _, text := range []string{"first", "second\n"} {
		check(t, os.WriteFile(path, []byte(text), 0o600))
		if token, err := tokenFile(found.TokenFile)(t.Context()); err != nil || token+"\n" != text && token != text {
			t.Errorf("%q, %v", token, err)
		}
	}
	if over, err := findSettings(settings{Token: "over"}, "", slog.Default()); err != nil || over.Token != "over" || over.TokenFile != "" {
		t.Errorf("%+v, %v", over, err)
	}
	t.Setenv("PAUSEWATCH_TOKEN", "t")
	if _, err := NewClient(); err == nil {
		t.Error("a token and a file with one")
	}
}

func TestAnOpenStreamGetsTheNextToken(t *testing.T) {
	withFake(t, func(t *testing.T, f *fake, client *Client) {
		var token atomic.Value
		token.Store("first")
		client.tokens = func(context.Context) (string, error) { return token.Load().(string), nil }
		s := startStopwatch(t, client, time.Hour)
		time.Sleep(time.Minute + time.Second)
		token.Store("second")
		time.Sleep(time.Minute)
		synctest.Wait()
		var sent []string
		for _, request := range f.changes() {
			if request.GetToken() != "" {
				sent = append(sent, request.GetToken())
			}
		}
		if len(sent) != 1 || sent[0] != "second" || f.open() != 1 || !s.Read().Linked {
			t.Errorf("sent %v, %d streams, %+v", sent, f.open(), s.Read())
		}
	})
}

func TestATokenFileThatDoesNotAnswerEndsWithTheContext(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pipe")
	check(t, exec.Command("mkfifo", path).Run())
	source := bounded(tokenFile(path))
	for range 2 {
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		if _, err := source(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
		cancel()
	}
	// The first read goes on until there is something to read.
	check(t, os.WriteFile(path, []byte("first"), 0o600))
	check(t, os.Remove(path))
	check(t, os.WriteFile(path, []byte("second\n"), 0o600))
	if token, err := source(t.Context()); err != nil || token != "second" {
		t.Errorf("%q, %v", token, err)
	}
}

// slowSource is a token source that takes this long, unless its context ends before.
func slowSource(delay time.Duration) tokenSource {
	return func(ctx context.Context) (string, error) {
		select {
		case <-time.After(delay):
			return "token", nil
		case <-ctx.Done():
			return "", ctx.Err()
		}
	}
}

func TestASlowTokenSourceDelaysAWatchAndMovesNoClient(t *testing.T) {
	withFake(t, func(t *testing.T, f *fake, _ *Client) {
		client, err := NewClient(WithAddress("127.0.0.1:1,127.0.0.1:2"), WithDialOptions(grpc.WithContextDialer(f.dial)), WithTokenSource(slowSource(4*time.Second)))
		check(t, err)
		defer client.Close()
		events := watchOne(t, client, "t")
		if took := took(func() { nextState(t, events) }); took != 4*time.Second {
			t.Errorf("after %v", took)
		}
		if moves := client.route.current().moves; moves != 0 {
			t.Errorf("%d moves", moves)
		}
	})
}

func TestAWatchWithoutATokenInTimeNamesTheTokenSourceAndMovesNoClient(t *testing.T) {
	withFake(t, func(t *testing.T, f *fake, _ *Client) {
		client, err := NewClient(WithAddress("127.0.0.1:1,127.0.0.1:2"), WithDialOptions(grpc.WithContextDialer(f.dial)), WithTokenSource(slowSource(time.Hour)))
		check(t, err)
		defer client.Close()
		events := watchOne(t, client, "t")
		lost := nextIs[Disconnected](t, events)
		if !is[*DeadlineExceededError](lost.Err) || lost.Err.Error() != "pausewatch: the token source gave no token within 5s" {
			t.Errorf("%T: %v", lost.Err, lost.Err)
		}
		time.Sleep(time.Minute)
		if moves := client.route.current().moves; moves != 0 {
			t.Errorf("%d moves", moves)
		}
	})
}

func TestAThreadThatIsRemovedBeforeItsTokenHasComeNeedsNoStream(t *testing.T) {
	withFake(t, func(t *testing.T, f *fake, client *Client) {
		client.tokens = slowSource(time.Second)
		watch, err := client.StartWatch(t.Context(), []string{"t"}, WatchOptions{})
		check(t, err)
		synctest.Wait()
		watch.Remove("t")
		time.Sleep(time.Minute)
		if streams := len(f.called("Watch")); streams != 0 {
			t.Errorf("%d streams", streams)
		}
		check(t, watch.Add("u"))
		nextState(t, watch.Events())
	})
}
