package charge

import (
	"fmt"
	"testing"
	"time"
)

// joining is a stopwatch with a limit of 10 s. When it joined, its thread was assumed to have a paused time of 50 s.
type joining struct {
	start        time.Time
	joinBaseline JoinBaseline
	since        SinceJoin
	meter        Meter
}

func newJoining() *joining {
	start := time.Now()
	j := &joining{start: start, meter: NewMeter(10*s, start, 0)}
	j.since = NewSinceJoin(start, 50*s, &j.joinBaseline)
	return j
}

func (j *joining) use(after, pausedTime time.Duration) (now time.Time, since time.Duration) {
	since = j.since.PausedTime(pausedTime)
	j.since.Settle(since)
	return j.start.Add(after), since
}

func (j *joining) setBaseline(after, pausedTime time.Duration) {
	j.joinBaseline = JoinBaseline{At: j.start.Add(after), PausedTime: pausedTime}
}

func (j *joining) charged(after, pausedTime time.Duration) time.Duration {
	return j.meter.Charged(j.start.Add(after), j.since.PausedTime(pausedTime))
}

func TestG1ALateBaselineChangesTheChargedTimeByAtMostTheTimeSinceTheJoin(t *testing.T) {
	// 2 s since the join; the paused time was assumed to be 50 s throughout.
	for pausedTime, charged := range map[time.Duration]time.Duration{0: 2 * s, 50 * s: 2 * s, 51 * s: 1 * s, 900 * s: 0} {
		j := newJoining()
		j.setBaseline(2*s, pausedTime)
		equal(t, fmt.Sprintf("charged, with %v pausedTime", pausedTime), j.charged(2*s, pausedTime), charged)
		equal(t, fmt.Sprintf("charged later, with %v pausedTime", pausedTime), j.charged(4*s, pausedTime+s), charged+s)
	}
}

func TestG1ALateBaselineCreditsTheOpenPauseSinceTheJoin(t *testing.T) {
	// 2 s since the join; the paused time was assumed to be 50 s throughout.
	for _, c := range []struct{ pausedTime, pausedFor, charged time.Duration }{
		{50 * s, 2 * s, 0}, {40 * s, 2 * s, 0}, {50 * s, s, s}, {40 * s, s, s}, {50 * s, 900 * s, 0}, {51 * s, s, s}, {900 * s, s, 0},
	} {
		j := newJoining()
		j.setBaseline(2*s, c.pausedTime)
		j.joinBaseline.PausedFor = c.pausedFor
		equal(t, fmt.Sprintf("charged: %+v", c), j.charged(2*s, c.pausedTime), c.charged)
		equal(t, fmt.Sprintf("charged later: %+v", c), j.charged(4*s, c.pausedTime+s), c.charged+s)
	}
}

func TestG3ALateBaselineCountsFromTheJoinDespiteOwnPausesSince(t *testing.T) {
	// A pause of its own from 5 s to 6 s, and the baseline at 7 s.
	for pausedTime, charged := range map[time.Duration]time.Duration{50 * s: 6 * s, 54 * s: 2 * s, 900 * s: 0} {
		j := newJoining()
		j.meter.Pause(j.use(5*s, 50*s))
		j.meter.Resume(j.use(6*s, 50*s))
		j.setBaseline(7*s, pausedTime)
		equal(t, fmt.Sprintf("charged, with %v pausedTime", pausedTime), j.charged(7*s, pausedTime), charged)
		equal(t, fmt.Sprintf("charged later, with %v pausedTime", pausedTime), j.charged(8*s, pausedTime), charged+s)
	}
}

func TestALateBaselineDoesNotChargeOwnPauses(t *testing.T) {
	// Its thread was assumed to be paused all the time, and was not.
	j := newJoining()
	j.meter.Pause(j.use(s, 51*s))
	j.meter.Resume(j.use(6*s, 56*s))
	j.setBaseline(8*s, 50*s)
	equal(t, "charged", j.charged(8*s, 50*s), 2*s)
}
