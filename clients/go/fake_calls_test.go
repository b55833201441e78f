package pausewatch

import (
	"context"
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

func (f *fake) WatchPauseState(request *pausewatchv1.WatchPauseStateRequest, to grpc.ServerStreamingServer[pausewatchv1.WatchPauseStateResponse]) error {
	if err := f.enter("Watch", request); err != nil {
		return err
	}
	stream := &fakeStream{threadIDs: make(map[string]bool), changed: make(chan string, 10_000)}
	snapshot := request.ThreadIds
	f.mu.Lock()
	for _, id := range request.ThreadIds {
		stream.threadIDs[id] = true
	}
	if len(snapshot) == 0 {
		for id, thread := range f.threads {
			if thread.count > 0 {
				snapshot = append(snapshot, id)
			}
		}
	}
	f.streams[stream] = struct{}{}
	f.mu.Unlock()
	defer func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		delete(f.streams, stream)
	}()
	for _, id := range snapshot {
		if err := to.Send(f.event(id)); err != nil {
			return err
		}
	}
	if err := f.enter("SnapshotComplete", request); err != nil {
		return err
	}
	complete := &pausewatchv1.WatchPauseStateResponse_SnapshotComplete{SnapshotComplete: &pausewatchv1.SnapshotComplete{}}
	if err := to.Send(&pausewatchv1.WatchPauseStateResponse{Event: complete}); err != nil {
		return err
	}
	heartbeat := &pausewatchv1.WatchPauseStateResponse_Heartbeat{Heartbeat: &pausewatchv1.Heartbeat{}}
	for {
		var message *pausewatchv1.WatchPauseStateResponse
		select {
		case id := <-stream.changed:
			message = f.event(id)
		case <-time.After(15 * time.Second):
			message = &pausewatchv1.WatchPauseStateResponse{Event: heartbeat}
		case <-to.Context().Done():
			return to.Context().Err()
		}
		// A test mutes the watch by an error here.
		if f.enter("Tell", request) != nil {
			continue
		}
		if err := to.Send(message); err != nil {
			return err
		}
	}
}

func (f *fake) event(threadID string) *pausewatchv1.WatchPauseStateResponse {
	f.mu.Lock()
	defer f.mu.Unlock()
	return &pausewatchv1.WatchPauseStateResponse{
		Event: &pausewatchv1.WatchPauseStateResponse_PauseState{PauseState: f.thread(threadID).wire()},
	}
}

// watching is how many streams name the thread.
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
