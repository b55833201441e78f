package charge

import "time"

// Meter is the time charged to one stopwatch: wall time, minus its threads' paused time, minus its own pauses.
//
// The paused time of its threads so far is an argument, pausedTime: see [PausedUnion]. The charged time is stored up
// to a mark and computed from there, so each operation is a few additions.
//
//  1. The charged time is never negative, and the reported one never decreases: after a late credit it stands still
//     until the credit is used up.
//  2. Where a pause of the stopwatch and one of its thread overlap, the time counts once. If the thread was not paused
//     then after all, the time is still not charged: see covered.
type Meter struct {
	limit time.Duration
	// Charged up to mark, when the paused time was pausedTimeAtMark.
	charged          time.Duration
	mark             time.Time
	pausedTimeAtMark time.Duration
	pauses           int
	covered          covered
	reported         time.Duration
}

// NewMeter returns a meter with a limit, for a thread whose paused time is pausedTime.
func NewMeter(limit time.Duration, now time.Time, pausedTime time.Duration) Meter {
	return Meter{limit: limit, mark: now, pausedTimeAtMark: pausedTime}
}

// Paused reports whether the stopwatch has an open pause of its own.
func (m *Meter) Paused() bool { return m.pauses > 0 }

// Pause begins a pause of the stopwatch. Pauses nest.
func (m *Meter) Pause(now time.Time, pausedTime time.Duration) {
	m.Settle(now, pausedTime)
	m.pauses++
}

// Resume ends one of the stopwatch's own pauses, if there is one, and returns whether it was the last.
func (m *Meter) Resume(now time.Time, pausedTime time.Duration) bool {
	if !m.Paused() {
		return false
	}
	m.Settle(now, pausedTime)
	m.pauses--
	return !m.Paused()
}

// Settle moves the mark to now: time charged before it does not change any more.
func (m *Meter) Settle(now time.Time, pausedTime time.Duration) {
	m.moveMark(m.Charged(now, pausedTime), now, pausedTime)
}

func (m *Meter) moveMark(charged time.Duration, now time.Time, pausedTime time.Duration) {
	m.covered.cut(pausedTime)
	if m.Paused() {
		// Paused time beyond the length of its own pause is older than that pause.
		m.covered.add(max(m.pausedTimeAtMark, add(pausedTime, -since(m.mark, now))), pausedTime)
	}
	m.charged, m.mark, m.pausedTimeAtMark = charged, latest(m.mark, now), pausedTime
}

// Charged returns the charged time, as exactly as it is known now.
func (m *Meter) Charged(now time.Time, pausedTime time.Duration) time.Duration {
	span := since(m.mark, now)
	// Negative if the thread was paused for less than was assumed while disconnected.
	growth := add(pausedTime, -m.pausedTimeAtMark)
	var sinceMark time.Duration
	switch {
	case !m.Paused():
		sinceMark = add(span, -growth)
	case growth > span:
		// All of span is free already; the excess is paused time from before the mark.
		sinceMark = add(span, -growth)
	default:
		sinceMark = max(0, -growth)
	}
	charged := add(add(m.charged, sinceMark), -m.covered.beyond(pausedTime))
	if charged < 0 {
		// More paused time than wall time: the excess must not be credited later.
		charged = 0
		m.moveMark(charged, now, pausedTime)
	}
	return charged
}

// Left returns the limit minus the charged time; if negative, the time since the limit was reached.
func (m *Meter) Left(now time.Time, pausedTime time.Duration) time.Duration {
	return add(m.limit, -m.Charged(now, pausedTime))
}

// Report returns the elapsed time, which never decreases, and the remaining time, at least zero.
func (m *Meter) Report(now time.Time, pausedTime time.Duration) (elapsed, remaining time.Duration) {
	m.reported = max(m.reported, m.Charged(now, pausedTime))
	return m.reported, max(0, add(m.limit, -m.reported))
}
