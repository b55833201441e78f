package pausewatch

import (
	"context"
	"errors"
	"time"
	"unicode/utf8"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"pausewatch.dev/clients/go/internal/backoff"
)

const (
	firstRetryDelay = 25 * time.Millisecond
	maxRetryDelay   = time.Second
	// The maximum wait for a connection that could not be established before.
	reconnectTime = 250 * time.Millisecond
	// The resolution of timers.
	tick = 2 * time.Millisecond
)

// call makes one unary call, and retries it while no coordinator answers, or the limit of calls per second is exceeded.
//
//  1. The client's call timeout covers everything: connecting, all attempts and the delays between them. So does the
//     caller's context.
//  2. UNAVAILABLE is retried: the coordinator refused nothing, and the request id makes the repeated call count once.
//     The limit of calls per second is retried after the delay that the coordinator sends; such a call changed
//     nothing. STORE_UNAVAILABLE is retried like UNAVAILABLE. No other error is retried.
//  3. With several addresses, an attempt that fails to connect, or gets no answer in time, continues at once at the
//     next address; the retry delay comes after a full lap, which counts as one attempt. After STORE_UNAVAILABLE or a
//     limit the client stays: the other replicas have the same store.
func call[Q proto.Message, A any](
	ctx context.Context,
	c *Client,
	send func(context.Context, Q, ...grpc.CallOption) (A, error),
	request Q,
) (A, error) {
	if err := checkText(request); err != nil {
		return *new(A), err
	}
	began, caller := time.Now(), ctx
	ctx, cancel := context.WithTimeout(ctx, c.callTimeout)
	defer cancel()
	// A connection of the program is not closed with the client.
	defer context.AfterFunc(c.life, cancel)()
	// The context may end before the call timeout: then half of that time, so that another replica gets the other half.
	deadline, _ := ctx.Deadline()
	limit := min(answerTimeout, c.callTimeout/2, deadline.Sub(began)/2)
	if c.life.Err() != nil {
		return *new(A), callEnded(ErrClosed, 0)
	}
	if c.retries == 0 {
		c.reconnect(ctx)
	}
	retryDelays := backoff.Backoff{First: firstRetryDelay, Max: maxRetryDelay}
	var last *UnavailableError
	unanswered := 0
	for retries := 0; ; {
		at := c.route.current()
		answer, failed := attempt(ctx, c, at, limit, send, request)
		if failed == nil {
			return answer, nil
		}
		err := c.typed(ctx, failed, began)
		if is[*DeadlineExceededError](err) && last != nil && caller.Err() == nil {
			// It was waiting for a connection: the caller must learn that there was none.
			return answer, unavailable("%v; %v", last, err)
		}
		wait, rateLimited := rateLimitDelay(err)
		if !rateLimited && !is[*UnavailableError](err) && !is[*StoreUnavailableError](err) {
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
		// Connect again at once in the next attempt: the delay of this call is delay enough.
		at.connection.ResetConnectBackoff()
		delay := retryDelays.Next()
		// Compared without an addition: a server may send any delay, and the sum may overflow.
		if time.Until(deadline)-delay <= wait {
			// A wait past the deadline would only replace the reason by DEADLINE_EXCEEDED.
			return answer, err
		}
		select {
		case <-time.After(wait + delay):
		case <-ctx.Done():
			return answer, c.typed(ctx, ctx.Err(), began)
		}
	}
}

// checkText returns the error for a text that is not UTF-8, which gRPC could not send.
func checkText(request proto.Message) (err error) {
	request.ProtoReflect().Range(func(field protoreflect.FieldDescriptor, value protoreflect.Value) bool {
		if field.Kind() == protoreflect.StringKind && !utf8.ValidString(value.String()) {
			name := string(field.Name())
			err = invalidField(name, name+" is not UTF-8")
		}
		return err == nil
	})
	return err
}

// reconnect retries a connection that could not be established before, and waits a moment for it. Until the next
// connection attempt, gRPC fails every call with the previous failure; a call without retries would never learn that
// the coordinator is up again.
func (c *Client) reconnect(ctx context.Context) {
	connection := c.route.current().connection
	if connection.GetState() != connectivity.TransientFailure {
		return
	}
	connection.ResetConnectBackoff()
	ctx, cancel := context.WithTimeout(ctx, reconnectTime)
	defer cancel()
	connection.WaitForStateChange(ctx, connectivity.TransientFailure)
}

// attempt sends the request once, with the current token, to the current address. With several addresses it must be
// answered within limit.
func attempt[Q, A any](
	ctx context.Context,
	c *Client,
	at position,
	limit time.Duration,
	send func(context.Context, Q, ...grpc.CallOption) (A, error),
	request Q,
) (answer A, err error) {
	if c.tokens != nil {
		// Before a connection is needed: a missing token is reported even if no coordinator listens.
		token, err := c.tokens.checked(ctx)
		if err != nil {
			return answer, err
		}
		ctx = context.WithValue(ctx, tokenKey{}, token)
	}
	ctx = context.WithValue(ctx, connectionKey{}, at.connection)
	if !c.route.hasSeveral() {
		return send(ctx, request)
	}
	limited, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	end, _ := limited.Deadline()
	answer, err = send(limited, request)
	// The server ends the call at its deadline too, possibly a little early by this clock.
	if code := status.Code(err); (code == codes.DeadlineExceeded || code == codes.Canceled) && ctx.Err() == nil && time.Until(end) <= tick {
		if whole, ok := ctx.Deadline(); !ok || whole.After(end) {
			err = status.Errorf(codes.Unavailable, "no answer within %v", limit)
		}
	}
	return answer, err
}

// typed converts the error of a call or a stream into its type.
func (c *Client) typed(ctx context.Context, failed error, began time.Time) error {
	if c.life.Err() != nil {
		return callEnded(ErrClosed, 0)
	}
	if err := ctx.Err(); err != nil {
		return callEnded(err, time.Since(began))
	}
	sent := status.Convert(failed)
	if sent.Code() == codes.Canceled {
		// It was not cancelled on this side. A server ends a call at its deadline, possibly a little early by this
		// clock; otherwise something on the way reset the call.
		if deadline, ok := ctx.Deadline(); ok && time.Until(deadline) <= tick {
			return callEnded(context.DeadlineExceeded, time.Since(began))
		}
		return unavailable("connection lost: %s", sent.Message())
	}
	err := fromStatus(sent)
	if is[*UnavailableError](err) && c.address != "" {
		return unavailable("%s: %s", c.address, sent.Message())
	}
	return err
}
