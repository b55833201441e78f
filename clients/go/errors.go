package pausewatch

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	pausewatchv1 "pausewatch.dev/clients/go/gen/pausewatch/v1"
)

// domain is the error domain of the coordinator's reasons.
const domain = "pausewatch"

// ErrClosed is returned by every use of a client after [Client.Close], wrapped in a [*CallError].
var ErrClosed = errors.New("the client is closed")

// CallError is the error of a failed call. Every error of a call is one, or wraps one:
//
//	var failed *pausewatch.CallError
//	if errors.As(err, &failed) { log.Print(failed.Reason(), failed.Metadata()) }
//
// Errors that a caller may want to handle have their own types, which wrap it: [*InvalidFieldError],
// [*RequestIDReusedError], [*NoOutstandingElicitationError], [*ElicitationUnknownError], [*ElicitationReleasedError],
// [*ElicitationExpiredError], [*TooManyElicitationsError], [*LimitExceededError], [*UnauthenticatedError],
// [*PermissionDeniedError], [*StoreUnavailableError], [*UnavailableError], [*DeadlineExceededError]. The type depends
// on the reason or the code that the coordinator sends, never on the text.
//
// It unwraps to the local cause, if there is one: [context.Canceled], [context.DeadlineExceeded], [ErrClosed].
type CallError struct {
	status *status.Status
	info   *errdetails.ErrorInfo
	cause  error
}

// Error returns the coordinator's message, or that of this library.
func (e *CallError) Error() string { return "pausewatch: " + e.status.Message() }

// GRPCStatus returns the status as received, or as this library created it if none was received.
func (e *CallError) GRPCStatus() *status.Status { return e.status }

// Code returns the gRPC code.
func (e *CallError) Code() codes.Code { return e.status.Code() }

// Reason returns the coordinator's reason, such as "ELICITATION_EXPIRED"; empty if it sent none or did not answer.
func (e *CallError) Reason() string { return e.info.GetReason() }

// Metadata returns the variable parts of the message, such as "thread_id".
func (e *CallError) Metadata() map[string]string { return maps.Clone(e.info.GetMetadata()) }

// Unwrap returns the local cause, or nil.
func (e *CallError) Unwrap() error { return e.cause }

// InvalidFieldError: a field is out of its limits. Nothing changed; repeating the same call always fails.
type InvalidFieldError struct {
	*CallError
	// Field is the name of the field in the proto, for example "thread_id".
	Field string
	// Description says what the value was and what is allowed.
	Description string
}

// RequestIDReusedError: a call with other content has used the request id. This call changed nothing.
type RequestIDReusedError struct{ *CallError }

// NoOutstandingElicitationError: a decrement at count 0: there is no open elicitation to close. Nothing changed.
type NoOutstandingElicitationError struct{ *CallError }

// ElicitationUnknownError: the elicitation never existed on this thread, or was closed so long ago that the server has
// forgotten it. Nothing changed.
type ElicitationUnknownError struct{ *CallError }

// ElicitationReleasedError: a decrement has already closed the elicitation. Nothing changed.
type ElicitationReleasedError struct{ *CallError }

// ElicitationExpiredError: the elicitation was closed when its lease ended; commands of its thread may have timed out
// since. Nothing changed.
type ElicitationExpiredError struct{ *CallError }

// TooManyElicitationsError: the thread has the maximum number of open elicitations. Nothing changed; the call can
// succeed after one of them is closed.
type TooManyElicitationsError struct{ *CallError }

// LimitExceededError: this caller, or all callers together, have reached a limit of the coordinator. Nothing changed.
// If it is the limit of calls per second, retries until the deadline did not help.
type LimitExceededError struct {
	*CallError
	// Limit is the name of the limit in the coordinator, for example "streams-per-caller".
	Limit string
	// RetryAfter is the delay after which a retry may succeed; 0: at once, or the coordinator sent none.
	RetryAfter    time.Duration
	hasRetryAfter bool
}

// UnauthenticatedError: the token is missing, wrong or has expired; the reason says which. Nothing changed.
type UnauthenticatedError struct{ *CallError }

// PermissionDeniedError: the token does not grant access to this thread, or its role may not do this; the reason says
// which. Nothing changed.
type PermissionDeniedError struct{ *CallError }

// StoreUnavailableError: the coordinator could not store the change, and retries until the deadline did not help. Call
// again with the same request id: the call counts once.
type StoreUnavailableError struct{ *CallError }

// UnavailableError: no coordinator answered (none listens at the address, it is draining, or the connection broke), and
// retries until the deadline did not help. The outcome is unknown. Call again with the same request id: the call counts
// once.
type UnavailableError struct{ *CallError }

// DeadlineExceededError: the call timed out; the error wraps [context.DeadlineExceeded] too. The outcome is unknown.
// Call again with the same request id: the call counts once.
type DeadlineExceededError struct{ *CallError }

// Each type unwraps to its CallError, so that errors.As finds both.

func (e *InvalidFieldError) Unwrap() error             { return e.CallError }
func (e *RequestIDReusedError) Unwrap() error          { return e.CallError }
func (e *NoOutstandingElicitationError) Unwrap() error { return e.CallError }
func (e *ElicitationUnknownError) Unwrap() error       { return e.CallError }
func (e *ElicitationReleasedError) Unwrap() error      { return e.CallError }
func (e *ElicitationExpiredError) Unwrap() error       { return e.CallError }
func (e *TooManyElicitationsError) Unwrap() error      { return e.CallError }
func (e *LimitExceededError) Unwrap() error            { return e.CallError }
func (e *UnauthenticatedError) Unwrap() error          { return e.CallError }
func (e *PermissionDeniedError) Unwrap() error         { return e.CallError }
func (e *StoreUnavailableError) Unwrap() error         { return e.CallError }
func (e *UnavailableError) Unwrap() error              { return e.CallError }
func (e *DeadlineExceededError) Unwrap() error         { return e.CallError }

// IsTransient reports whether the call that failed with err may succeed if it is repeated with the same request id.
func IsTransient(err error) bool {
	_, rateLimited := rateLimitDelay(err)
	return rateLimited || is[*StoreUnavailableError](err) || is[*UnavailableError](err) || is[*DeadlineExceededError](err)
}

// rateLimitDelay returns the retry delay if err is the limit of calls per second. Any other limit lasts until
// something is closed.
func rateLimitDelay(err error) (wait time.Duration, rateLimited bool) {
	var exceeded *LimitExceededError
	if !errors.As(err, &exceeded) || !strings.HasPrefix(exceeded.Limit, "calls-per-second") {
		return 0, false
	}
	if !exceeded.hasRetryAfter {
		return time.Second, true
	}
	return exceeded.RetryAfter, true
}

// is reports whether err is or wraps an error of type E.
func is[E error](err error) bool {
	var found E
	return errors.As(err, &found)
}

// fromStatus converts a status of the coordinator or the transport into the error type for it.
func fromStatus(sent *status.Status) error {
	base := &CallError{status: sent}
	var violation *errdetails.BadRequest_FieldViolation
	var retryDelay *durationpb.Duration
	for _, detail := range sent.Details() {
		switch detail := detail.(type) {
		case *errdetails.ErrorInfo:
			if detail.GetDomain() == domain {
				base.info = detail
			}
		case *errdetails.BadRequest:
			if violations := detail.GetFieldViolations(); len(violations) > 0 {
				violation = violations[0]
			}
		case *errdetails.RetryInfo:
			retryDelay = detail.GetRetryDelay()
		}
	}
	switch base.Reason() {
	case "INVALID_FIELD":
		description := violation.GetDescription()
		if description == "" {
			description = sent.Message()
		}
		return &InvalidFieldError{CallError: base, Field: violation.GetField(), Description: description}
	case "REQUEST_ID_REUSED":
		return &RequestIDReusedError{base}
	case "NO_OUTSTANDING_ELICITATION":
		return &NoOutstandingElicitationError{base}
	case "ELICITATION_UNKNOWN":
		return &ElicitationUnknownError{base}
	case "ELICITATION_RELEASED":
		return &ElicitationReleasedError{base}
	case "ELICITATION_EXPIRED":
		return &ElicitationExpiredError{base}
	case "TOO_MANY_ELICITATIONS":
		return &TooManyElicitationsError{base}
	case "LIMIT_EXCEEDED":
		return &LimitExceededError{
			CallError:     base,
			Limit:         base.info.GetMetadata()["limit"],
			RetryAfter:    max(0, retryDelay.AsDuration()),
			hasRetryAfter: retryDelay != nil,
		}
	case "STORE_UNAVAILABLE":
		return &StoreUnavailableError{base}
	}
	switch sent.Code() {
	case codes.Unavailable:
		return &UnavailableError{base}
	// These two are recognized by their code: a proxy in front of the server may require tokens as well.
	case codes.Unauthenticated:
		return &UnauthenticatedError{base}
	case codes.PermissionDenied:
		return &PermissionDeniedError{base}
	case codes.DeadlineExceeded:
		base.cause = context.DeadlineExceeded
		return &DeadlineExceededError{base}
	default:
		return base
	}
}

// invalidField returns the error that the coordinator would return, with the same wording.
func invalidField(field, description string) error {
	refusal := status.New(codes.InvalidArgument, description)
	detailed, err := refusal.WithDetails(
		&errdetails.ErrorInfo{Reason: "INVALID_FIELD", Domain: domain, Metadata: map[string]string{"field": field}},
		&errdetails.BadRequest{FieldViolations: []*errdetails.BadRequest_FieldViolation{
			{Field: field, Description: description},
		}},
	)
	if err == nil {
		refusal = detailed
	}
	return fromStatus(refusal)
}

// fromRefusal returns the error that a call would have returned for the same reason.
func fromRefusal(refusal *pausewatchv1.Refusal) error {
	sent := status.New(codes.Code(refusal.GetCode()), refusal.GetMessage())
	info := &errdetails.ErrorInfo{Reason: refusal.GetReason(), Domain: domain}
	detailed, err := sent.WithDetails(info, &errdetails.RetryInfo{RetryDelay: refusal.GetRetryAfter()})
	if err == nil {
		sent = detailed
	}
	return fromStatus(sent)
}

func unavailable(format string, arguments ...any) error {
	return fromStatus(status.Newf(codes.Unavailable, format, arguments...))
}

// callEnded returns the error of a call that ended on this side: cause is ErrClosed or an error of a context.
func callEnded(cause error, after time.Duration) error {
	if errors.Is(cause, context.DeadlineExceeded) {
		return fromStatus(status.Newf(codes.DeadlineExceeded, "no answer within %v", after.Round(time.Millisecond)))
	}
	return &CallError{status: status.New(codes.Canceled, fmt.Sprint(cause)), cause: cause}
}
