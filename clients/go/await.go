package pausewatch

import (
	"fmt"
	"sync"
	"time"
)

// AwaitThread has it stand still while that thread is paused too, until done is called: for work that waits for a
// sub-agent.
//
//	done, err := pausewatch.StopwatchOf(ctx).AwaitThread("sub-agent-7")
//	if err != nil {
//		return err
//	}
//	defer done()
//
// A moment in which several threads are paused counts once. The same thread may be awaited several times: it counts until
// the last of these waits ends. Threads that it awaits itself do not count. Calling done again does nothing.
//
// Errors: [*InvalidFieldError]: no thread can have this id, or it is the stopwatch's own.
func (s *Stopwatch) AwaitThread(threadID string) (done func(), err error) {
	if err := checkThreadID(threadID); err != nil {
		return nil, err
	}
	if threadID == s.threadID {
		return nil, invalidField("thread_id", fmt.Sprintf("thread_id is %q, the stopwatch's own thread; allowed: another thread", threadID))
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.final != nil {
		return func() {}, nil
	}
	// The look that is to come finds it.
	if again := s.follows.find(threadID); again != nil {
		again.awaited++
	} else {
		now := time.Now()
		s.follows.settle(now)
		s.follows.add(s.follower.enter(threadID), now)
		for _, one := range s.follows.all {
			one.thread.observe(s)
		}
	}
	return sync.OnceFunc(func() { s.unawait(threadID) }), nil
}

func (s *Stopwatch) unawait(threadID string) {
	s.mu.Lock()
	if s.final == nil {
		if one := s.follows.find(threadID); one.awaited > 1 {
			one.awaited--
		} else {
			now := time.Now()
			s.follows.remove(one, now)
			one.thread.leave(s)
			s.follower.leave(threadID)
			s.follows.settle(now)
		}
	}
	s.mu.Unlock()
	s.look()
}

// settle: one of its threads changes.
func (s *Stopwatch) settle(now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.final == nil {
		s.follows.settle(now)
	}
}
