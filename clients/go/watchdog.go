package pausewatch

import (
	"sync"
	"time"
)

// The number of steps in which a watchdog waits.
const watchdogSteps = 5

// watchdog calls a function after a silence, from which it leaves out most of the time in which this process did not get
// to run: on a busy machine, or when it was stopped, a message may have arrived that nobody has read yet. It waits in
// steps, and a step that ends late counts as one step.
type watchdog struct {
	bark func()

	mu    sync.Mutex
	timer *time.Timer
	// Rises with each start and stop: a step that has begun to end counts for nothing then.
	turn int
}

// newWatchdog starts one.
func newWatchdog(limit time.Duration, bark func()) *watchdog {
	w := &watchdog{bark: bark}
	w.Reset(limit)
	return w
}

// Reset starts it again, with another limit.
func (w *watchdog) Reset(limit time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.stop()
	w.step(limit, watchdogSteps, w.turn)
}

// Stop stops it until the next Reset.
func (w *watchdog) Stop() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.stop()
}

func (w *watchdog) stop() {
	w.turn++
	if w.timer != nil {
		w.timer.Stop()
	}
}

// step waits for one of the steps into which the rest is divided. It is called with the lock held.
func (w *watchdog) step(rest time.Duration, steps, turn int) {
	length := rest / time.Duration(steps)
	w.timer = time.AfterFunc(length, func() { w.stepped(rest-length, steps-1, turn) })
}

// stepped ends a step, after which so much is left.
func (w *watchdog) stepped(rest time.Duration, steps, turn int) {
	w.mu.Lock()
	isCurrent := w.turn == turn
	if isCurrent && steps > 0 {
		w.step(rest, steps, turn)
	}
	w.mu.Unlock()
	if isCurrent && steps == 0 {
		w.bark()
	}
}
