package charge

import (
	"testing"
	"time"

	"pausewatch.dev/clients/go/internal/vectors"
)

func ms(milliseconds int64) time.Duration { return time.Duration(milliseconds) * time.Millisecond }

func TestVectorsOfThePausedTime(t *testing.T) {
	file := vectors.Read[struct {
		About string
		Cases []struct {
			Name  string
			Steps []struct {
				AtMs       int64 `json:"at_ms"`
				SleptMs    int64 `json:"slept_ms"`
				Disconnect bool
				SinceMs    *int64 `json:"since_ms"`
				State      *struct {
					Epoch    uint64
					Revision uint64
					Paused   bool
					TotalMs  int64 `json:"total_ms"`
				}
				Expect *struct {
					PausedMs int64 `json:"paused_ms"`
					Paused   bool
				}
			}
		}
	}](t, "../../../vectors/paused-time.json")
	for _, c := range file.Cases {
		start := time.Now()
		tracker := NewPausedTimeTracker(start, 30*s)
		for i, step := range c.Steps {
			now := start.Add(ms(step.AtMs))
			switch {
			case step.State != nil:
				version := Version{Epoch: step.State.Epoch, Revision: step.State.Revision}
				state := ObservedState{Version: version, Paused: step.State.Paused, Total: ms(step.State.TotalMs)}
				tracker.Apply(LocalTime{At: now, Slept: ms(step.SleptMs)}, state)
			case step.Disconnect:
				since := now
				if step.SinceMs != nil {
					since = start.Add(ms(*step.SinceMs))
				}
				tracker.Disconnect(now, since)
			case step.Expect != nil:
				if got := tracker.PausedTime(now); got != ms(step.Expect.PausedMs) || tracker.Paused(now) != step.Expect.Paused {
					t.Errorf("%s, step %d: got %v, paused %v, want %+v", c.Name, i, got, tracker.Paused(now), *step.Expect)
				}
			default:
				t.Errorf("%s, step %d: does nothing", c.Name, i)
			}
		}
	}
	if len(file.Cases) == 0 {
		t.Error("no cases")
	}
}

func TestVectorsOfTheMeter(t *testing.T) {
	file := vectors.Read[struct {
		About string
		Cases []struct {
			Name  string
			Start struct {
				AtMs     int64 `json:"at_ms"`
				PausedMs int64 `json:"paused_ms"`
				LimitMs  int64 `json:"limit_ms"`
			}
			Steps []struct {
				AtMs     int64 `json:"at_ms"`
				PausedMs int64 `json:"paused_ms"`
				Do       string
				Expect   map[string]int64
			}
		}
	}](t, "../../../vectors/meter.json")
	for _, c := range file.Cases {
		zero := time.Now()
		meter := NewMeter(ms(c.Start.LimitMs), zero.Add(ms(c.Start.AtMs)), ms(c.Start.PausedMs))
		for i, step := range c.Steps {
			now, pausedTime := zero.Add(ms(step.AtMs)), ms(step.PausedMs)
			switch step.Do {
			case "pause":
				meter.Pause(now, pausedTime)
			case "resume":
				meter.Resume(now, pausedTime)
			case "":
			default:
				t.Errorf("%s, step %d: unknown: %q", c.Name, i, step.Do)
			}
			for key, want := range step.Expect {
				if got := figure(t, &meter, key, now, pausedTime); got != ms(want) {
					t.Errorf("%s, step %d: %s is %v, want %v", c.Name, i, key, got, ms(want))
				}
			}
		}
	}
	if len(file.Cases) == 0 {
		t.Error("no cases")
	}
}

func figure(t *testing.T, meter *Meter, key string, now time.Time, pausedTime time.Duration) time.Duration {
	t.Helper()
	switch key {
	case "charged_ms":
		return meter.Charged(now, pausedTime)
	case "left_ms":
		return meter.Left(now, pausedTime)
	case "shown_ms":
		reported, _ := meter.Report(now, pausedTime)
		return reported
	case "remaining_ms":
		_, remaining := meter.Report(now, pausedTime)
		return remaining
	}
	t.Fatalf("unknown key %q", key)
	return 0
}
