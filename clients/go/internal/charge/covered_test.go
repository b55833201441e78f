package charge

import "testing"

func TestOfManyPausesTheOldestMayBeTakenForOne(t *testing.T) {
	var c covered
	for i := range int64(100) {
		c.add(ms(2*i), ms(2*i+1))
	}
	equal(t, "the newest parts", c.beyond(ms(190)), ms(5))
	equal(t, "never less than there is", c.beyond(0) >= ms(100), true)
	equal(t, "the number of parts", len(c.parts), maxCoveredParts)
	c.cut(ms(193))
	equal(t, "what is left of the newest", c.beyond(ms(190)), ms(2))
	c.add(ms(193), ms(194))
	equal(t, "what goes on", len(c.parts), maxCoveredParts-3)
	c.cut(0)
	equal(t, "nothing left", c.beyond(0), 0)
}
