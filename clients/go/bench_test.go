package pausewatch

import (
	"fmt"
	"testing"
	"time"
)

// benchClient is a client of a fake, out of the bubble of time.
func benchClient(b *testing.B) *Client {
	b.Setenv("HOME", b.TempDir())
	f := newFake()
	f.start()
	b.Cleanup(f.stop)
	client := clientOf(b, f)
	b.Cleanup(func() { _ = client.Close() })
	return client
}

func BenchmarkStartAndStopAStopwatch(b *testing.B) {
	client := benchClient(b)
	for b.Loop() {
		stopwatch, err := client.StartStopwatch(time.Hour, "t")
		check(b, err)
		stopwatch.Stop()
	}
}

// A pause costs the same, however many stopwatches its thread has.
func BenchmarkAPauseOfAThread(b *testing.B) {
	for _, stopwatches := range []int{1, 1_000, 100_000} {
		b.Run(fmt.Sprintf("stopwatches=%d", stopwatches), func(b *testing.B) {
			client := benchClient(b)
			var running []*Stopwatch
			for range stopwatches {
				stopwatch, err := client.StartStopwatch(time.Hour, "t")
				check(b, err)
				running = append(running, stopwatch)
			}
			clock := running[0].follows.all[0].thread
			state := PauseState{ThreadID: "t", Revision: 1 << 32}
			for b.Loop() {
				state.Revision++
				state.Paused = !state.Paused
				clock.apply(state, time.Time{}, true)
			}
			for _, stopwatch := range running {
				stopwatch.Stop()
			}
		})
	}
}
