package charge

import "time"

// Meter is what one stopwatch has been charged: wall time, less its threads' paused time, less its own pauses.
//
// The paused time of its threads so far is an argument, pausedTime: see [PausedUnion]. What has been charged is kept up to a mark and
// computed from there, so each operation is a few additions.
//
//  1. What is charged is never below zero, and what is shown never goes backwards: paused time that arrives late shows as
//     a standstill until it is used up.
//  2. Where a pause of the stopwatch's own and one of its thread overlap, the time counts once.
type Meter struct {
	limit time.Duration
	// Charged up to mark, when the thread's paused time was pausedTimeAtMark.
	charged          time.Duration
	mark             time.Time
	pausedTimeAtMark time.Duration
	pauses           int
	shown            time.Duration
}

// NewMeter starts a meter with a limit, for a thread whose paused time stands at pausedTime.
func NewMeter(limit time.Duration, now time.Time, pausedTime time.Duration) Meter {
	return Meter{limit: limit, mark: now, pausedTimeAtMark: pausedTime}
}

// Paused says whether it stands still by a pause of its own.
func (m *Meter) Paused() bool { return m.pauses > 0 }

// Pause begins a pause of its own. Pauses nest.
func (m *Meter) Pause(now time.Time, pausedTime time.Duration) {
	m.Settle(now, pausedTime)
	m.pauses++
}

// Resume ends one of its own pauses, if there is one, and says whether it was the last.
func (m *Meter) Resume(now time.Time, pausedTime time.Duration) bool {
	if !m.Paused() {
		return false
	}
	m.Settle(now, pausedTime)
	m.pauses--
	return !m.Paused()
}

// Settle moves the mark: what was charged until now stays.
func (m *Meter) Settle(now time.Time, pausedTime time.Duration) {
	m.moveMark(m.Charged(now, pausedTime), now, pausedTime)
}

func (m *Meter) moveMark(charged time.Duration, now time.Time, pausedTime time.Duration) {
	m.charged, m.mark, m.pausedTimeAtMark = charged, latest(m.mark, now), pausedTime
}

// Charged is what has been charged, as exactly as is known now.
func (m *Meter) Charged(now time.Time, pausedTime time.Duration) time.Duration {
	span := since(m.mark, now)
	// Negative when less was paused than had been assumed while cut off.
	growth := add(pausedTime, -m.pausedTimeAtMark)
	var sinceMark time.Duration
	switch {
	case !m.Paused():
		sinceMark = add(span, -growth)
	case growth > span:
		// All of span is free already; what the thread was paused beyond it was paused before the mark.
		sinceMark = add(span, -growth)
	default:
		sinceMark = max(0, -growth)
	}
	charged := add(m.charged, sinceMark)
	if charged < 0 {
		// More paused time than time: the rest must not be spent later.
		charged = 0
		m.moveMark(charged, now, pausedTime)
	}
	return charged
}

// Left is the limit less what has been charged; below zero, it is how long ago the limit was reached.
func (m *Meter) Left(now time.Time, pausedTime time.Duration) time.Duration {
	return add(m.limit, -m.Charged(now, pausedTime))
}

// Show is what to show as elapsed, which is never less than before, and as remaining, at least zero.
func (m *Meter) Show(now time.Time, pausedTime time.Duration) (elapsed, remaining time.Duration) {
	m.shown = max(m.shown, m.Charged(now, pausedTime))
	return m.shown, max(0, add(m.limit, -m.shown))
}
