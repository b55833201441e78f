package pausewatch

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

const (
	// A token is requested again after two thirds of its remaining life, within these bounds.
	minRenewalDelay = time.Second
	maxRenewalDelay = time.Minute
)

// tokenSource returns the current token.
type tokenSource func(context.Context) (string, error)

// tokenFile is a source that reads a file each time; white space around the token is ignored. Only one read is under
// way at a time, because each may occupy a thread of the operating system.
func tokenFile(path string) tokenSource {
	reading := make(chan struct{}, 1)
	return func(ctx context.Context) (string, error) {
		select {
		case reading <- struct{}{}:
		case <-ctx.Done():
			return "", ctx.Err()
		}
		defer func() { <-reading }()
		text, err := os.ReadFile(path)
		return strings.TrimSpace(string(text)), err
	}
}

// bounded wraps a source, so that it returns when ctx ends even if the source ignores ctx, like a read of a file that
// does not respond.
func bounded(source tokenSource) tokenSource {
	type answer struct {
		token string
		err   error
	}
	return func(ctx context.Context) (string, error) {
		done := make(chan answer, 1)
		go func() {
			token, err := source(ctx)
			done <- answer{token, err}
		}()
		select {
		case got := <-done:
			return got.token, got.err
		case <-ctx.Done():
			return "", ctx.Err()
		}
	}
}

// checked returns the token, or an error with the code for a missing token.
func (source tokenSource) checked(ctx context.Context) (string, error) {
	token, err := source(ctx)
	if err == nil {
		err = checkToken(token)
	}
	if err != nil {
		return "", status.Error(codes.Unauthenticated, fmt.Sprintf("no token: %v", err))
	}
	return token, nil
}

func checkToken(token string) error {
	if token == "" {
		return errors.New("the token is empty")
	}
	for _, c := range []byte(token) {
		if c <= ' ' || c > '~' {
			return errors.New("the token has a character that is not visible ASCII")
		}
	}
	return nil
}

// firstToken returns the token for the next stream; empty: the client has no source. The source has as much time as for
// a call.
func (s *watchSet) firstToken() (string, error) {
	c := s.client
	if c.tokens == nil {
		return "", nil
	}
	began := time.Now()
	ctx, cancel := context.WithTimeout(s.ctx, c.callTimeout)
	defer cancel()
	token, err := c.tokens.checked(ctx)
	switch {
	case err == nil:
		return token, nil
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return "", fromStatus(status.Newf(codes.DeadlineExceeded, "the token source gave no token within %v", c.callTimeout))
	default:
		return "", c.typed(ctx, err, began)
	}
}

// renewToken requests the token of an open stream again in time, and sends it if it has changed, until ctx ends.
func (l *watchStream) renewToken(ctx context.Context, token string) {
	for wait := renewalDelay(token, time.Now()); ; {
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return
		}
		next, err := l.set.client.tokens.checked(ctx)
		if err != nil {
			l.set.client.log().WarnContext(ctx, "pausewatch: the token cannot be renewed", "error", err)
			wait = minRenewalDelay
			continue
		}
		if next != token {
			token = next
			l.set.mu.Lock()
			l.nextToken = next
			l.set.mu.Unlock()
			l.wakeUp()
		}
		wait = renewalDelay(token, time.Now())
	}
}

func renewalDelay(token string, now time.Time) time.Duration {
	end, ok := expiryOf(token)
	if !ok {
		return maxRenewalDelay
	}
	// In floating-point seconds, which do not overflow: a token may expire centuries from now.
	delay := (end - float64(now.UnixMicro())/1e6) * 2 / 3
	delay = min(max(delay, minRenewalDelay.Seconds()), maxRenewalDelay.Seconds())
	return time.Duration(delay * float64(time.Second))
}

// expiryOf returns the expiry of a JSON web token, in seconds since the epoch, if it has one; its signature is not
// verified.
func expiryOf(token string) (seconds float64, ok bool) {
	parts := strings.Split(token, ".")
	if len(parts) != 3 {
		return 0, false
	}
	payload, err := base64.RawURLEncoding.DecodeString(parts[1])
	var claims struct {
		End *float64 `json:"exp"`
	}
	if err != nil || json.Unmarshal(payload, &claims) != nil || claims.End == nil {
		return 0, false
	}
	return *claims.End, true
}

// tokenKey is the context key of the token that a call or a stream got before it was sent.
type tokenKey struct{}
