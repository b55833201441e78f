package pausewatch

import (
	"slices"
	"time"

	pausewatchv1 "pausewatch.dev/clients/go/gen/pausewatch/v1"
)

// nextRequest is what to send now; nil: nothing, or the request before is not answered.
//
//  1. Options have a request of their own, the first one: a refused request has done nothing, and they cannot be sent
//     later.
//  2. Confirmations have requests of their own, before all others: what may not be added delays nobody's answer.
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
		// Alone: refused, it has nothing that must be sent again.
		request.Token, l.nextToken = l.nextToken, ""
	case s.takeQuestions(l, request, now):
	case now.Before(l.addFrom) || !s.takeChanges(l, request):
		return nil
	}
	l.sent, l.sentAt = request, now
	return request
}

// takeQuestions fills a request with confirmations, and says whether there are any.
func (s *watchSet) takeQuestions(l *watchStream, request *pausewatchv1.WatchRequest, now time.Time) bool {
	if now.Before(l.confirmFrom) {
		return false
	}
	for id, question := range s.questions {
		if question == unasked && len(request.Confirm) < mostIDs {
			s.questions[id] = asked
			request.Confirm = append(request.Confirm, id)
		}
	}
	return len(request.Confirm) > 0
}

// takeChanges fills a request with threads that came or went, and says whether there are any.
func (s *watchSet) takeChanges(l *watchStream, request *pausewatchv1.WatchRequest) bool {
	for id := range s.changed {
		if len(request.Add)+len(request.Remove) == mostIDs {
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

// changeOf is what the server has to be told of a thread. Of all threads those are added that were paused before the
// stream and are not among the paused ones now: they have resumed.
func (s *watchSet) changeOf(l *watchStream, threadID string) (add, remove bool) {
	thread := s.threads[threadID]
	if thread == nil {
		_, watches := l.watches[threadID]
		return false, watches && !s.all
	}
	return !thread.added && (!s.all || thread.gap), false
}

// hasChanges says whether takeChanges would find any.
func (s *watchSet) hasChanges(l *watchStream) bool {
	for id := range s.changed {
		if add, remove := s.changeOf(l, id); add || remove {
			return true
		}
		delete(s.changed, id)
	}
	return false
}

// refused: the latest request has done nothing. What the token forbids is left out until the next stream, the rest is
// sent again, after a limit when the coordinator says. An error means that this stream is of no use.
func (s *watchSet) refused(l *watchStream, refusal *pausewatchv1.Refusal) error {
	err := fromRefusal(refusal)
	limited, forbidden := is[*LimitExceededError](err), refusal.GetThreadIds()
	s.mu.Lock()
	request := l.sent
	isOfOptions := request != nil && (request.AllThreads || request.IncludeElicitations || request.Observer)
	if request.GetToken() != "" {
		// It has the one before until that ends.
		complete := s.settled(l)
		s.mu.Unlock()
		if complete {
			s.listener.complete()
		}
		l.wakeUp()
		return nil
	}
	if request == nil || isOfOptions || !limited && len(forbidden) == 0 {
		s.mu.Unlock()
		return err
	}
	lost := slices.Clone(request.Add)
	if limited {
		wait := max(refusal.GetRetryAfter().AsDuration(), firstReopen)
		again := time.Now().Add(wait)
		if len(request.Confirm) > 0 {
			l.confirmFrom = again
		} else {
			l.addFrom = again
		}
		time.AfterFunc(wait, l.wakeUp)
	} else {
		lost = slices.DeleteFunc(lost, func(id string) bool { return !slices.Contains(forbidden, id) })
	}
	for _, id := range request.Confirm {
		s.askAgain(id, slices.Contains(forbidden, id))
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
	if lost = s.cutOff(lost); s.all {
		lost = nil
	}
	complete := s.settled(l)
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

// askAgain: a question was refused. For ever forbids it as long as the stream lasts.
func (s *watchSet) askAgain(threadID string, forEver bool) {
	if _, waits := s.questions[threadID]; !waits {
		return
	}
	s.questions[threadID] = unasked
	if forEver {
		s.questions[threadID] = notAllowed
	}
}
