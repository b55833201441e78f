package pausewatch

import (
	"testing"
	"testing/synctest"
	"time"
)

func TestAWatchdogBarksAfterTheSilence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began, barked := time.Now(), time.Duration(0)
		w := newWatchdog(time.Hour, func() { barked = time.Since(began) })
		w.Reset(250 * time.Millisecond)
		time.Sleep(200 * time.Millisecond)
		w.Reset(252 * time.Millisecond)
		time.Sleep(time.Hour)
		synctest.Wait()
		if barked != 452*time.Millisecond {
			t.Errorf("it barked after %v", barked)
		}
	})
}

func TestAStoppedWatchdogIsQuiet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWatchdog(time.Second, func() { t.Error("it barked") })
		time.Sleep(900 * time.Millisecond)
		w.Stop()
		time.Sleep(time.Hour)
	})
}

// The first step ends long after the whole limit, as if this process had been stopped: four steps are left.
func TestAWatchdogLeavesOutTheTimeInWhichTheProcessWasStopped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began, barked := time.Now(), time.Duration(0)
		w := newWatchdog(250*time.Millisecond, func() { barked = time.Since(began) })
		w.timer.Stop()
		time.Sleep(40 * time.Second)
		w.stepped(200*time.Millisecond, watchdogSteps-1, w.turn)
		time.Sleep(time.Minute)
		synctest.Wait()
		if barked != 40*time.Second+200*time.Millisecond {
			t.Errorf("it barked after %v", barked)
		}
	})
}
