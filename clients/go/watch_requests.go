package pausewatch

import (
	"slices"
	"time"

	pausewatchv1 "pausewatch.dev/clients/go/gen/pausewatch/v1"
)

// nextRequest returns the next request to send; nil: there is none, or the previous one is not answered yet.
//
//  1. Options have a request of their own, the first one: a refused request has no effect, and they cannot be sent
//     later.
//  2. Confirmations have requests of their own, before all others: threads that may not be added delay no confirmation.
func (s *watchSet) nextRequest(l *watchStream) *pausewatchv1.WatchRequest {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	request := &pausewatchv1.WatchRequest{}
	switch {
	case s.stream != l || l.sent != nil:
		return nil
	case !l.answered && (s.all || s.options != WatchOptions{}):
		request.AllThreads = s.all
		request.IncludeElicitations, request.Observer = s.options.IncludeElicitations, s.options.Observer
	case l.answered && l.nextToken != "":
		// Sent alone: if it is refused, nothing else must be sent again.
		request.Token, l.nextToken = l.nextToken, ""
	case s.takeConfirmations(l, request, now):
	case now.Before(l.addFrom) || !s.takeChanges(l, request):
		return nil
	}
	l.sent, l.sentAt = request, now
	return request
}

// takeConfirmations adds queued confirmations to a request, and returns whether there are any.
func (s *watchSet) takeConfirmations(l *watchStream, request *pausewatchv1.WatchRequest, now time.Time) bool {
	if now.Before(l.confirmFrom) {
		return false
	}
	for id, state := range s.confirmations {
		if state == confirmationQueued && len(request.Confirm) < maxIDs {
			s.confirmations[id] = confirmationSent
			request.Confirm = append(request.Confirm, id)
		}
	}
	return len(request.Confirm) > 0
}

// takeChanges adds the added and removed threads to a request, and returns whether there are any.
func (s *watchSet) takeChanges(l *watchStream, request *pausewatchv1.WatchRequest) bool {
	for id := range s.changed {
		if len(request.Add)+len(request.Remove) == maxIDs {
			break
		}
		delete(s.changed, id)
		if add, remove := s.changeOf(l, id); add {
			s.threads[id].added, l.watches[id] = true, struct{}{}
			request.Add = append(request.Add, id)
		} else if remove {
			delete(l.watches, id)
			request.Remove = append(request.Remove, id)
		}
	}
	return len(request.Add)+len(request.Remove) > 0
}

// changeOf returns what the server must be sent about a thread. A watch of all threads adds those that were paused
// before this stream and are not among the paused ones now: they have resumed.
func (s *watchSet) changeOf(l *watchStream, threadID string) (add, remove bool) {
	thread := s.threads[threadID]
	if thread == nil {
		_, watches := l.watches[threadID]
		return false, watches && !s.all
	}
	return !thread.added && (!s.all || thread.gap), false
}

// hasChanges reports whether takeChanges would find any.
func (s *watchSet) hasChanges(l *watchStream) bool {
	for id := range s.changed {
		if add, remove := s.changeOf(l, id); add || remove {
			return true
		}
		delete(s.changed, id)
	}
	return false
}

// onRefusal handles the refusal of the latest request, which then had no effect. Threads that the token forbids are
// left out until the next stream; the rest is sent again, after a limit when the coordinator allows it. An error
// means that this stream is useless.
func (s *watchSet) onRefusal(l *watchStream, refusal *pausewatchv1.Refusal) error {
	err := fromRefusal(refusal)
	limited, forbidden := is[*LimitExceededError](err), refusal.GetThreadIds()
	s.mu.Lock()
	request := l.sent
	hasOptions := request != nil && (request.AllThreads || request.IncludeElicitations || request.Observer)
	if request.GetToken() != "" {
		// The stream keeps its previous token until that expires.
		complete := s.onRequestDone(l)
		s.mu.Unlock()
		if complete {
			s.listener.complete()
		}
		l.wakeUp()
		return nil
	}
	if request == nil || hasOptions || !limited && len(forbidden) == 0 {
		s.mu.Unlock()
		return err
	}
	lost := slices.Clone(request.Add)
	if limited {
		wait := max(refusal.GetRetryAfter().AsDuration(), firstReopenDelay)
		again := time.Now().Add(wait)
		if len(request.Confirm) > 0 {
			l.confirmFrom = again
			time.AfterFunc(wait, func() { s.confirmAgain(l) })
		} else {
			l.addFrom = again
			time.AfterFunc(wait, l.wakeUp)
		}
	} else {
		lost = slices.DeleteFunc(lost, func(id string) bool { return !slices.Contains(forbidden, id) })
	}
	for _, id := range request.Confirm {
		s.requeueConfirmation(id, slices.Contains(forbidden, id))
	}
	for _, id := range request.Remove {
		l.watches[id], s.changed[id] = struct{}{}, struct{}{}
	}
	for _, id := range request.Add {
		delete(l.watches, id)
		if thread := s.threads[id]; thread != nil && !slices.Contains(forbidden, id) {
			thread.added, s.changed[id] = false, struct{}{}
		}
	}
	if s.all {
		for _, id := range forbidden {
			delete(s.threads, id)
		}
	}
	if lost = s.markDisconnected(lost, true); s.all {
		lost = nil
	}
	complete := s.onRequestDone(l)
	s.mu.Unlock()
	if len(lost) > 0 {
		s.listener.disconnected(lost, err, 0)
	}
	if complete {
		s.listener.complete()
	}
	l.wakeUp()
	return nil
}

// confirmAgain requests refused confirmations again. Only from now on does a silence count as a late answer.
func (s *watchSet) confirmAgain(l *watchStream) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stream == l {
		l.updateSilenceLimit()
		l.wakeUp()
	}
}

// requeueConfirmation handles a refused confirmation. forbidden: it is not requested again on this stream.
func (s *watchSet) requeueConfirmation(threadID string, forbidden bool) {
	if _, waits := s.confirmations[threadID]; !waits {
		return
	}
	s.confirmations[threadID] = confirmationQueued
	if forbidden {
		s.confirmations[threadID] = confirmationForbidden
	}
}
