package pausewatch

import (
	"context"
	"errors"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/status"

	"pausewatch.dev/clients/go/internal/backoff"
)

const (
	firstRetry = 25 * time.Millisecond
	mostRetry  = time.Second
	// How long a connection is waited for that could not be made before.
	reconnectTime = 250 * time.Millisecond
	// The grain of timers.
	tick = 2 * time.Millisecond
)

// call makes one unary call, and makes it again while nobody answers, or there are too many calls in this second.
//
//  1. The client's call timeout covers everything: connecting, every attempt, every pause between them. So does the
//     caller's context.
//  2. UNAVAILABLE is tried again: the coordinator refused nothing, and the request id in the request makes the
//     repetition count once. So is the limit of calls a second, when the coordinator says; that changed nothing.
//     Nothing else is.
func call[Q, A any](
	ctx context.Context,
	c *Client,
	send func(context.Context, Q, ...grpc.CallOption) (A, error),
	request Q,
) (A, error) {
	began, caller := time.Now(), ctx
	ctx, cancel := context.WithTimeout(ctx, c.callTimeout)
	defer cancel()
	if c.retries == 0 {
		c.reconnect(ctx)
	}
	pauses := backoff.Backoff{First: firstRetry, Most: mostRetry}
	var last *UnavailableError
	for retries := 0; ; retries++ {
		answer, failed := attempt(ctx, c, send, request)
		if failed == nil {
			return answer, nil
		}
		err := c.typed(ctx, failed, began)
		if is[*DeadlineExceededError](err) && last != nil && caller.Err() == nil {
			// It waited for a connection: that there was none is what the caller must know.
			return answer, unavailable("%v; %v", last, err)
		}
		wait, tooOften := callLessOften(err)
		if !tooOften && !is[*UnavailableError](err) && !is[*StoreUnavailableError](err) {
			return answer, err
		}
		if retries == c.retries {
			return answer, err
		}
		errors.As(err, &last)
		// The next attempt finds a connection if there can be one: the pauses of this call are pause enough.
		c.connection.ResetConnectBackoff()
		pause := pauses.Next()
		// Compared without a sum: a server may say any time, and a sum may be more than there is.
		if deadline, ok := ctx.Deadline(); ok && time.Until(deadline)-pause <= wait {
			// Waiting past the deadline would only hide the reason behind DEADLINE_EXCEEDED.
			return answer, err
		}
		select {
		case <-time.After(wait + pause):
		case <-ctx.Done():
			return answer, ended(ctx.Err(), time.Since(began))
		case <-c.life.Done():
			return answer, ended(ErrClosed, 0)
		}
	}
}

// reconnect has a connection that could not be made before made anew, and waits for it a moment. Until the next attempt
// to connect, gRPC answers every call with the failure of the one before; a call that is not made again would never learn
// that the coordinator is back.
func (c *Client) reconnect(ctx context.Context) {
	if c.connection.GetState() != connectivity.TransientFailure {
		return
	}
	c.connection.ResetConnectBackoff()
	ctx, cancel := context.WithTimeout(ctx, reconnectTime)
	defer cancel()
	c.connection.WaitForStateChange(ctx, connectivity.TransientFailure)
}

// attempt sends the request once, with the token of now.
func attempt[Q, A any](
	ctx context.Context,
	c *Client,
	send func(context.Context, Q, ...grpc.CallOption) (A, error),
	request Q,
) (answer A, err error) {
	if c.tokens != nil {
		// Before there is a connection: a token that is missing is told also where nobody listens.
		token, err := c.tokens.checked(ctx)
		if err != nil {
			return answer, err
		}
		ctx = context.WithValue(ctx, tokenKey{}, token)
	}
	return send(ctx, request)
}

// typed gives the error of a call, or of a stream, its type.
func (c *Client) typed(ctx context.Context, failed error, began time.Time) error {
	if c.life.Err() != nil {
		return ended(ErrClosed, 0)
	}
	if err := ctx.Err(); err != nil {
		return ended(err, time.Since(began))
	}
	sent := status.Convert(failed)
	if sent.Code() == codes.Canceled {
		// Nobody here cancelled it. A server ends a call at its deadline, and may be a little early to this clock;
		// otherwise something on the way reset the call.
		if deadline, ok := ctx.Deadline(); ok && time.Until(deadline) <= tick {
			return ended(context.DeadlineExceeded, time.Since(began))
		}
		return unavailable("connection lost: %s", sent.Message())
	}
	return fromStatus(sent)
}
