package pausewatch

import (
	"fmt"
	"sync"
	"time"
)

// AwaitThread pauses the stopwatch while another thread is paused too, until done is called. Use it for work that
// waits for a sub-agent.
//
//	done, err := pausewatch.StopwatchOf(ctx).AwaitThread("sub-agent-7")
//	if err != nil {
//		return err
//	}
//	defer done()
//
// Time in which several threads are paused counts once. The same thread may be awaited several times: it counts until
// the last of these waits ends. The threads that the awaited thread itself waits for do not count. Calling done again
// does nothing.
//
// Errors: [*InvalidFieldError]: no thread can have this id, or it is the stopwatch's own thread.
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
	// The next check reads the state of the thread.
	if again := s.follows.find(threadID); again != nil {
		again.awaited++
	} else {
		now := time.Now()
		s.follows.settle(now)
		s.follows.add(s.follower.acquire(threadID), now)
		for _, one := range s.follows.all {
			one.thread.addObserver(s)
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
			one.thread.forget(s)
			s.follower.release(threadID)
			s.follows.settle(now)
		}
	}
	s.mu.Unlock()
	s.check()
}

// settle ends a window of the union, because one of the threads changes.
func (s *Stopwatch) settle(now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.final == nil {
		s.follows.settle(now)
	}
}
