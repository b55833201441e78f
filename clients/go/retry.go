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
//  3. With several addresses, an attempt that finds nobody, or gets no answer in time, goes on at the next one at once; the
//     pause comes after a full lap, which is one attempt. STORE_UNAVAILABLE and limits stay: another replica has the same
//     store.
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
	unanswered := 0
	for retries := 0; ; {
		at := c.route.now()
		answer, failed := attempt(ctx, c, at, send, request)
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
		errors.As(err, &last)
		if is[*UnavailableError](err) && c.route.moveOn(at.moves) && ctx.Err() == nil {
			if unanswered++; unanswered%len(c.route.addresses) != 0 {
				continue
			}
		}
		if retries == c.retries {
			return answer, err
		}
		retries++
		// The next attempt finds a connection if there can be one: the pauses of this call are pause enough.
		at.connection.ResetConnectBackoff()
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
	connection := c.route.now().connection
	if connection.GetState() != connectivity.TransientFailure {
		return
	}
	connection.ResetConnectBackoff()
	ctx, cancel := context.WithTimeout(ctx, reconnectTime)
	defer cancel()
	connection.WaitForStateChange(ctx, connectivity.TransientFailure)
}

// attempt sends the request once, with the token of now, to where the client is. With several addresses an answer has its
// time: half of a short patience, so that another replica has the other half.
func attempt[Q, A any](
	ctx context.Context,
	c *Client,
	at position,
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
	ctx = context.WithValue(ctx, connectionKey{}, at.connection)
	if !c.route.several() {
		return send(ctx, request)
	}
	limit := min(noAnswer, c.callTimeout/2)
	limited, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	end, _ := limited.Deadline()
	answer, err = send(limited, request)
	// The server ends the call at its deadline too, and may be a little early to this clock.
	if code := status.Code(err); (code == codes.DeadlineExceeded || code == codes.Canceled) && ctx.Err() == nil && time.Until(end) <= tick {
		if whole, ok := ctx.Deadline(); !ok || whole.After(end) {
			err = status.Errorf(codes.Unavailable, "no answer within %v", limit)
		}
	}
	return answer, err
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
