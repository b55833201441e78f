package pausewatch

import (
	"context"
	"errors"
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

func refused(t *testing.T, code codes.Code, reason, domain string) *status.Status {
	t.Helper()
	info := &errdetails.ErrorInfo{Reason: reason, Domain: domain, Metadata: map[string]string{"thread_id": "t"}}
	refusal, err := status.New(code, "in words").WithDetails(info)
	if err != nil {
		t.Fatal(err)
	}
	return refusal
}

func TestTypesFollowTheReasonNotTheCodeOrText(t *testing.T) {
	err := fromStatus(refused(t, codes.NotFound, "ELICITATION_EXPIRED", domain))
	if !is[*ElicitationExpiredError](err) || is[*ElicitationReleasedError](err) {
		t.Errorf("%T", err)
	}
	var base *CallError
	if !errors.As(err, &base) {
		t.Fatalf("%T has no CallError inside", err)
	}
	if base.Code() != codes.NotFound || base.Reason() != "ELICITATION_EXPIRED" || base.Metadata()["thread_id"] != "t" {
		t.Errorf("code %v, reason %q, metadata %v", base.Code(), base.Reason(), base.Metadata())
	}
	if got := status.Code(err); got != codes.NotFound {
		t.Errorf("gRPC's own helpers see %v", got)
	}

	foreign := fromStatus(refused(t, codes.NotFound, "ELICITATION_EXPIRED", "example.com"))
	if is[*ElicitationExpiredError](foreign) || !errors.As(foreign, &base) || base.Reason() != "" {
		t.Errorf("a foreign reason is taken for one of ours: %T", foreign)
	}
	if err := fromStatus(status.New(codes.NotFound, "ELICITATION_EXPIRED")); is[*ElicitationExpiredError](err) {
		t.Error("a text is taken for a reason")
	}
}

func TestStoreErrorsAndLostConnectionsHaveDifferentTypesAndAreTransient(t *testing.T) {
	store := fromStatus(refused(t, codes.Unavailable, "STORE_UNAVAILABLE", domain))
	if !is[*StoreUnavailableError](store) || is[*UnavailableError](store) || !IsTransient(store) {
		t.Errorf("%T", store)
	}
	draining := fromStatus(status.New(codes.Unavailable, "draining"))
	if !is[*UnavailableError](draining) || !IsTransient(draining) {
		t.Errorf("%T", draining)
	}
	if err := fromStatus(status.New(codes.Unknown, "the server's own words")); IsTransient(err) {
		t.Errorf("%T is transient", err)
	}
}

func TestTokenErrorsHaveTypes(t *testing.T) {
	expired := fromStatus(refused(t, codes.Unauthenticated, "TOKEN_EXPIRED", domain))
	if !is[*UnauthenticatedError](expired) || !is[*CallError](expired) || IsTransient(expired) {
		t.Errorf("%T", expired)
	}
	if forbidden := fromStatus(refused(t, codes.PermissionDenied, "THREAD_FORBIDDEN", domain)); !is[*PermissionDeniedError](forbidden) {
		t.Errorf("%T", forbidden)
	}
}

func TestALimitErrorHasTheLimitAndTheRetryDelay(t *testing.T) {
	for given, want := range map[time.Duration]time.Duration{20 * time.Millisecond: 20 * time.Millisecond, 0: 0, -time.Second: 0} {
		err := fromStatus(status.Convert(exceeds("open-elicitations-per-caller", given)))
		var exceeded *LimitExceededError
		if !errors.As(err, &exceeded) || !is[*CallError](err) || is[*TooManyElicitationsError](err) {
			t.Fatalf("%T", err)
		}
		if exceeded.Limit != "open-elicitations-per-caller" || exceeded.RetryAfter != want {
			t.Errorf("limit %q, after %v, want %v", exceeded.Limit, exceeded.RetryAfter, want)
		}
		if exceeded.Code() != codes.ResourceExhausted || exceeded.Reason() != "LIMIT_EXCEEDED" {
			t.Errorf("code %v, reason %q", exceeded.Code(), exceeded.Reason())
		}
	}
}

func TestOnlyTheLimitOfCallsPerSecondIsTransient(t *testing.T) {
	for _, limit := range []string{"calls-per-second", "calls-per-second-per-caller"} {
		for want, refusal := range map[time.Duration]error{
			20 * time.Millisecond: exceeds(limit, 20*time.Millisecond),
			0:                     exceeds(limit, 0),
			time.Second:           exceedsWith(limit),
		} {
			err := fromStatus(status.Convert(refusal))
			if wait, rateLimited := rateLimitDelay(err); !rateLimited || wait != want || !IsTransient(err) {
				t.Errorf("%s: wait %v, want %v", limit, wait, want)
			}
		}
		withoutDelay := fromStatus(status.Convert(exceedsWith(limit, &errdetails.RetryInfo{})))
		if wait, _ := rateLimitDelay(withoutDelay); wait != time.Second {
			t.Errorf("%s: wait %v without a delay", limit, wait)
		}
	}
	for _, limit := range []string{"open-elicitations-per-caller", "streams", ""} {
		err := fromStatus(status.Convert(exceeds(limit, time.Second)))
		if wait, rateLimited := rateLimitDelay(err); rateLimited || wait != 0 || IsTransient(err) {
			t.Errorf("%s: wait %v", limit, wait)
		}
	}
}

func TestLocalErrorsHaveTheServersWording(t *testing.T) {
	var refusal *InvalidFieldError
	if err := invalidField("thread_id", "thread_id is empty"); !errors.As(err, &refusal) {
		t.Fatalf("%T", err)
	}
	if refusal.Field != "thread_id" || refusal.Description != "thread_id is empty" || refusal.Reason() != "INVALID_FIELD" {
		t.Errorf("%+v", refusal)
	}
}

func TestALocalEndOfACallIsTheCauseOfItsError(t *testing.T) {
	if err := callEnded(context.DeadlineExceeded, time.Second); !is[*DeadlineExceededError](err) || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%T: %v", err, err)
	}
	for _, cause := range []error{context.Canceled, ErrClosed} {
		if err := callEnded(cause, 0); !errors.Is(err, cause) || !is[*CallError](err) || IsTransient(err) {
			t.Errorf("%T: %v", err, err)
		}
	}
}
