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

// domain is the domain of the reasons that the coordinator gives.
const domain = "pausewatch"

// ErrClosed is what everything ends with that is used after [Client.Close], inside of a [*CallError].
var ErrClosed = errors.New("the client is closed")

// CallError is why a call failed. Every error of a call is one, or has one inside:
//
//	var failed *pausewatch.CallError
//	if errors.As(err, &failed) { log.Print(failed.Reason(), failed.Metadata()) }
//
// What a caller may want to do something about has a type of its own around it: [*InvalidFieldError],
// [*RequestIDReusedError], [*NoOutstandingElicitationError], [*ElicitationUnknownError], [*ElicitationReleasedError],
// [*ElicitationExpiredError], [*TooManyElicitationsError], [*LimitExceededError], [*UnauthenticatedError],
// [*PermissionDeniedError], [*StoreUnavailableError], [*UnavailableError], [*DeadlineExceededError]. They are told apart
// by the reason that the coordinator sends, never by a text.
//
// It unwraps to what ended the call on this side, if anything did: [context.Canceled], [context.DeadlineExceeded],
// [ErrClosed].
type CallError struct {
	status *status.Status
	info   *errdetails.ErrorInfo
	cause  error
}

// Error is the coordinator's text, or that of this library.
func (e *CallError) Error() string { return "pausewatch: " + e.status.Message() }

// GRPCStatus is the status as it came, or as this library made it when nothing came.
func (e *CallError) GRPCStatus() *status.Status { return e.status }

// Code is the gRPC code.
func (e *CallError) Code() codes.Code { return e.status.Code() }

// Reason is the coordinator's reason, such as "ELICITATION_EXPIRED"; empty when it gave none, or never answered.
func (e *CallError) Reason() string { return e.info.GetReason() }

// Metadata has every part of the message that is not fixed, such as "thread_id".
func (e *CallError) Metadata() map[string]string { return maps.Clone(e.info.GetMetadata()) }

// Unwrap is what ended the call on this side, or nil.
func (e *CallError) Unwrap() error { return e.cause }

// InvalidFieldError: a field is out of its limits. Nothing changed; the same call will always be refused.
type InvalidFieldError struct {
	*CallError
	// Field is named as in the proto, for example "thread_id".
	Field string
	// Description says what it was and what is allowed.
	Description string
}

// RequestIDReusedError: the request id was used by a call with other content. Nothing changed by this call.
type RequestIDReusedError struct{ *CallError }

// NoOutstandingElicitationError: a decrement at count 0, there is nothing to close. Nothing changed.
type NoOutstandingElicitationError struct{ *CallError }

// ElicitationUnknownError: the named elicitation never was on this thread, or was closed so long ago that it is
// forgotten. Nothing changed.
type ElicitationUnknownError struct{ *CallError }

// ElicitationReleasedError: the named elicitation was closed before, by a decrement. Nothing changed.
type ElicitationReleasedError struct{ *CallError }

// ElicitationExpiredError: the named elicitation was closed before, by the end of its lease; commands of its thread may
// have timed out meanwhile. Nothing changed.
type ElicitationExpiredError struct{ *CallError }

// TooManyElicitationsError: the thread has as many open elicitations as are allowed. Nothing changed; there is room
// when one closes.
type TooManyElicitationsError struct{ *CallError }

// LimitExceededError: the caller, or all callers together, have as much as the coordinator lets them have. Nothing
// changed. For a limit of calls a second, trying again until the deadline did not help.
type LimitExceededError struct {
	*CallError
	// Limit is which one, as the coordinator names it, for example "streams-per-caller".
	Limit string
	// RetryAfter is when another try may help; 0: at once, or the coordinator did not say.
	RetryAfter time.Duration
	saidWhen   bool
}

// UnauthenticatedError: the token is missing, wrong or has expired; the reason says which. Nothing changed.
type UnauthenticatedError struct{ *CallError }

// PermissionDeniedError: the token does not open this thread, or its role may not do this; the reason says which.
// Nothing changed.
type PermissionDeniedError struct{ *CallError }

// StoreUnavailableError: the coordinator could not store the change, and trying again until the deadline did not help.
// Call again with the same request id: it counts once.
type StoreUnavailableError struct{ *CallError }

// UnavailableError: no coordinator answered (none listens there, it is draining, or the connection broke), and trying
// again until the deadline did not help. The outcome is unknown. Call again with the same request id: it counts once.
type UnavailableError struct{ *CallError }

// DeadlineExceededError: the time for the call passed; it is a [context.DeadlineExceeded] too. The outcome is unknown.
// Call again with the same request id: it counts once.
type DeadlineExceededError struct{ *CallError }

// Each type has the base inside, so that errors.As finds both.

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

// IsTransient says whether the call that failed with err may succeed if it is made again just so, with the same request
// id.
func IsTransient(err error) bool {
	_, tooOften := callLessOften(err)
	return tooOften || is[*StoreUnavailableError](err) || is[*UnavailableError](err) || is[*DeadlineExceededError](err)
}

// callLessOften is how long to wait, if it is only that there were too many calls in this second. Any other limit is met
// until somebody closes something.
func callLessOften(err error) (wait time.Duration, tooOften bool) {
	var exceeded *LimitExceededError
	if !errors.As(err, &exceeded) || !strings.HasPrefix(exceeded.Limit, "calls-per-second") {
		return 0, false
	}
	if !exceeded.saidWhen {
		return time.Second, true
	}
	return exceeded.RetryAfter, true
}

// is says whether err has an error of type E inside.
func is[E error](err error) bool {
	var found E
	return errors.As(err, &found)
}

// fromStatus gives what the coordinator sent, or the transport said in its stead, its type.
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
			CallError:  base,
			Limit:      base.info.GetMetadata()["limit"],
			RetryAfter: max(0, retryDelay.AsDuration()),
			saidWhen:   retryDelay != nil,
		}
	case "STORE_UNAVAILABLE":
		return &StoreUnavailableError{base}
	}
	switch sent.Code() {
	case codes.Unavailable:
		return &UnavailableError{base}
	// By their code: a proxy in front of the server may ask for tokens as well.
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

// invalidField refuses what the coordinator would refuse, worded as it words it.
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

// fromRefusal is the error that a call would have ended with.
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

// ended is the error of a call that its caller ended: cause is ErrClosed or an error of a context.
func ended(cause error, after time.Duration) error {
	if errors.Is(cause, context.DeadlineExceeded) {
		return fromStatus(status.Newf(codes.DeadlineExceeded, "no answer within %v", after.Round(time.Millisecond)))
	}
	return &CallError{status: status.New(codes.Canceled, fmt.Sprint(cause)), cause: cause}
}
