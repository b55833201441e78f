package pausewatch

import (
	"context"
	"errors"
	"fmt"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/protoadapt"
	"google.golang.org/protobuf/types/known/durationpb"

	pausewatchv1 "pausewatch.dev/clients/go/gen/pausewatch/v1"
)

func refuse(code codes.Code, reason string) error {
	refusal, err := status.New(code, reason).WithDetails(&errdetails.ErrorInfo{Reason: reason, Domain: domain})
	if err != nil {
		return err
	}
	return refusal.Err()
}

// exceeds is a refusal for a limit, which says when to try again.
func exceeds(limit string, retryAfter time.Duration) error {
	return exceedsWith(limit, &errdetails.RetryInfo{RetryDelay: durationpb.New(retryAfter)})
}

// exceedsWith is a refusal for a limit, with more details.
func exceedsWith(limit string, more ...protoadapt.MessageV1) error {
	info := &errdetails.ErrorInfo{Reason: "LIMIT_EXCEEDED", Domain: domain, Metadata: map[string]string{"limit": limit}}
	details := append([]protoadapt.MessageV1{info}, more...)
	refusal, err := status.New(codes.ResourceExhausted, "in words").WithDetails(details...)
	if err != nil {
		return err
	}
	return refusal.Err()
}

func (f *fake) IncrementElicitation(_ context.Context, request *pausewatchv1.IncrementElicitationRequest) (*pausewatchv1.IncrementElicitationResponse, error) {
	if err := f.enter("Increment", request); err != nil {
		return nil, err
	}
	f.mu.Lock()
	answer, again := f.answers[request.RequestId].(*pausewatchv1.IncrementElicitationResponse)
	if !again {
		thread := f.thread(request.ThreadId)
		id := fmt.Sprintf("e%d", len(f.elicitations)+1)
		e := &fakeElicitation{thread: thread, ttl: request.GetTtl().AsDuration()}
		e.lease = time.AfterFunc(e.ttl, func() { f.expire(e) })
		f.elicitations[id] = e
		f.change(thread, +1)
		answer = &pausewatchv1.IncrementElicitationResponse{
			Count: thread.count, Paused: true, Revision: thread.revision,
			Elicitation: &pausewatchv1.Elicitation{
				ElicitationId: id, ThreadId: thread.id, Reason: request.Reason, Holder: request.Holder,
			},
		}
		f.answers[request.RequestId] = answer
	}
	f.mu.Unlock()
	return answer, f.leave("Increment")
}

func (f *fake) DecrementElicitation(_ context.Context, request *pausewatchv1.DecrementElicitationRequest) (*pausewatchv1.DecrementElicitationResponse, error) {
	if err := f.enter("Decrement", request); err != nil {
		return nil, err
	}
	f.mu.Lock()
	answer, again := f.answers[request.RequestId].(*pausewatchv1.DecrementElicitationResponse)
	if !again {
		e := f.elicitations[request.GetElicitationId()]
		if e == nil || e.closed != "" {
			f.mu.Unlock()
			return nil, refusalOf(e)
		}
		f.close(e, "ELICITATION_RELEASED")
		answer = &pausewatchv1.DecrementElicitationResponse{
			Count: e.thread.count, Paused: e.thread.count > 0, Revision: e.thread.revision,
		}
		f.answers[request.RequestId] = answer
	}
	f.mu.Unlock()
	return answer, f.leave("Decrement")
}

func refusalOf(e *fakeElicitation) error {
	if e == nil {
		return refuse(codes.NotFound, "ELICITATION_UNKNOWN")
	}
	return refuse(codes.NotFound, e.closed)
}

func (f *fake) RenewElicitation(_ context.Context, request *pausewatchv1.RenewElicitationRequest) (*pausewatchv1.RenewElicitationResponse, error) {
	if err := f.enter("Renew", request); err != nil {
		return nil, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	e := f.elicitations[request.ElicitationId]
	if e == nil || e.closed != "" {
		return nil, refusalOf(e)
	}
	e.lease.Reset(e.ttl)
	return &pausewatchv1.RenewElicitationResponse{}, nil
}

func (f *fake) GetPauseState(_ context.Context, request *pausewatchv1.GetPauseStateRequest) (*pausewatchv1.GetPauseStateResponse, error) {
	if err := f.enter("Get", request); err != nil {
		return nil, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	return &pausewatchv1.GetPauseStateResponse{PauseState: f.thread(request.ThreadId).wire()}, nil
}

// fakeRefusal is an error by which a test refuses a request of a watch.
type fakeRefusal struct{ *pausewatchv1.Refusal }

func (fakeRefusal) Error() string { return "refused" }

// forbidden is the refusal of threads that the token does not grant.
func forbidden(threadIDs ...string) error {
	return fakeRefusal{&pausewatchv1.Refusal{Code: int32(codes.PermissionDenied), Reason: "THREAD_FORBIDDEN", ThreadIds: threadIDs}}
}

// errSwallowed leaves a request of a watch unanswered.
var errSwallowed = errors.New("swallowed")

func (f *fake) Watch(to grpc.BidiStreamingServer[pausewatchv1.WatchRequest, pausewatchv1.WatchResponse]) error {
	if err := f.enter("Watch", nil); err != nil {
		return err
	}
	stream := &fakeStream{threadIDs: make(map[string]bool), changed: make(chan string, 10_000)}
	f.mu.Lock()
	f.streams[stream] = struct{}{}
	f.mu.Unlock()
	defer func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		delete(f.streams, stream)
	}()
	requests := make(chan *pausewatchv1.WatchRequest)
	go func() {
		for {
			request, err := to.Recv()
			if err != nil {
				return
			}
			select {
			case requests <- request:
			case <-to.Context().Done():
				return
			}
		}
	}()
	for number := uint64(1); ; {
		every, said := f.heartbeat()
		var messages []*pausewatchv1.WatchResponse
		select {
		case request := <-requests:
			err := f.answer(stream, request, number, to)
			if number++; err != nil {
				return err
			}
			continue
		case id := <-stream.changed:
			messages = f.events(id)
		case <-time.After(min(every, maxHeartbeatInterval)):
			heartbeat := &pausewatchv1.WatchResponse_Heartbeat{Heartbeat: &pausewatchv1.Heartbeat{Interval: said}}
			messages = []*pausewatchv1.WatchResponse{{Event: heartbeat}}
		case <-to.Context().Done():
			return to.Context().Err()
		}
		// A test mutes the watch by an error here.
		if f.enter("Tell", nil) != nil {
			continue
		}
		if err := sendAll(to, messages); err != nil {
			return err
		}
	}
}

func sendAll(to grpc.BidiStreamingServer[pausewatchv1.WatchRequest, pausewatchv1.WatchResponse], messages []*pausewatchv1.WatchResponse) error {
	for _, message := range messages {
		if err := to.Send(message); err != nil {
			return err
		}
	}
	return nil
}

// answer answers one request: "Confirm" if it has threads to confirm, else "Change".
func (f *fake) answer(stream *fakeStream, request *pausewatchv1.WatchRequest, number uint64, to grpc.BidiStreamingServer[pausewatchv1.WatchRequest, pausewatchv1.WatchResponse]) error {
	method := "Change"
	if len(request.Confirm) > 0 {
		method = "Confirm"
	}
	var refusal fakeRefusal
	switch err := f.enter(method, request); {
	case errors.Is(err, errSwallowed):
		return nil
	case errors.As(err, &refusal):
		refusal.Request = number
		return to.Send(&pausewatchv1.WatchResponse{Event: &pausewatchv1.WatchResponse_Refusal{Refusal: refusal.Refusal}})
	case err != nil:
		return err
	}
	states := request.Add
	f.mu.Lock()
	stream.all = stream.all || request.AllThreads
	for _, id := range request.Remove {
		delete(stream.threadIDs, id)
	}
	for _, id := range request.Add {
		stream.threadIDs[id] = true
	}
	if request.AllThreads {
		for id, thread := range f.threads {
			if thread.count > 0 {
				states = append(states, id)
			}
		}
	}
	confirmation := &pausewatchv1.Confirmation{}
	for _, id := range request.Confirm {
		confirmation.PauseStates = append(confirmation.PauseStates, f.thread(id).wire())
	}
	f.mu.Unlock()
	messages := f.events(states...)
	if method == "Confirm" {
		messages = append(messages, &pausewatchv1.WatchResponse{Event: &pausewatchv1.WatchResponse_Confirmation{Confirmation: confirmation}})
	}
	if err := sendAll(to, messages); err != nil {
		return err
	}
	if err := f.enter("SnapshotComplete", request); err != nil {
		return err
	}
	complete := &pausewatchv1.WatchResponse_SnapshotComplete{SnapshotComplete: &pausewatchv1.SnapshotComplete{Requests: number}}
	return to.Send(&pausewatchv1.WatchResponse{Event: complete})
}

func (f *fake) events(threadIDs ...string) (messages []*pausewatchv1.WatchResponse) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, id := range threadIDs {
		state := &pausewatchv1.WatchResponse_PauseState{PauseState: f.thread(id).wire()}
		messages = append(messages, &pausewatchv1.WatchResponse{Event: state})
	}
	return messages
}

// watching returns the number of streams that watch the thread.
func (f *fake) watching(threadID string) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	n := 0
	for stream := range f.streams {
		if stream.threadIDs[threadID] {
			n++
		}
	}
	return n
}

func (f *fake) open() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.streams)
}

// beat sets the heartbeat interval, and sends it to the clients.
func (f *fake) beat(every time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.every = every
}

// heartbeat returns the interval, and its message.
func (f *fake) heartbeat() (time.Duration, *durationpb.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.every == 0 {
		return maxHeartbeatInterval, nil
	}
	return f.every, durationpb.New(f.every)
}
