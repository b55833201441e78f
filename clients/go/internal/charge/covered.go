package charge

import "time"

// covered is the part of its threads' paused time that a stopwatch did not use, because it had a pause of its own at
// that time.
//
// If the thread turns out to have been paused for less than was assumed, the newest part of its paused time is taken
// back: an assumed pause ended early. What is taken back is charged, except for the part that was covered, which was
// never credited.
//
// The parts are kept in order, not only as a sum: an old part, in which the thread was really paused, must not
// compensate for a later error.
type covered struct {
	// The oldest first.
	parts []coveredPart
}

// coveredPart is one part: the paused time at its begin and at its end.
type coveredPart struct{ begin, end time.Duration }

// Beyond this number, the two oldest parts are merged. A correction rarely reaches so far back; if it does, it
// charges too little.
const maxCoveredParts = 32

// beyond returns how much of the paused time beyond pausedTime is covered.
func (c *covered) beyond(pausedTime time.Duration) (sum time.Duration) {
	for _, part := range c.parts {
		sum = add(sum, max(0, add(part.end, -max(part.begin, pausedTime))))
	}
	return sum
}

// cut removes what is covered beyond pausedTime.
func (c *covered) cut(pausedTime time.Duration) {
	for n := len(c.parts); n > 0 && c.parts[n-1].end > pausedTime; n = len(c.parts) {
		if c.parts[n-1].begin < pausedTime {
			c.parts[n-1].end = pausedTime
			return
		}
		c.parts = c.parts[:n-1]
	}
}

// add covers the paused time from begin, which is not before the last part, to end.
func (c *covered) add(begin, end time.Duration) {
	if begin >= end {
		return
	}
	if n := len(c.parts); n > 0 && c.parts[n-1].end == begin {
		c.parts[n-1].end = end
		return
	}
	c.parts = append(c.parts, coveredPart{begin, end})
	if len(c.parts) > maxCoveredParts {
		c.parts[1].begin = c.parts[0].begin
		c.parts = append(c.parts[:0], c.parts[1:]...)
	}
}
