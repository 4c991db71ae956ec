package wire

import (
	"fmt"
	"math"
	"testing"
)

// The share that carries features has the right size, for sequence numbers as for
// streams; a share includes all smaller shares; and the selection is the same in every
// program.
func TestCarries(t *testing.T) {
	const n = 100_000
	for _, share := range []float64{0, .001, .01, .3, 1} {
		carried := 0
		for i := range n {
			stream, seq, row := fmt.Sprint("m", i%100), uint64(i/100), uint32(i%7)
			if c := Carries(stream, seq, row, share); c {
				carried++
				if !Carries(stream, seq, row, math.Min(1, 2*share)) {
					t.Errorf("%s, %d, %d is of %g, and not of twice as much", stream, seq, row, share)
				}
			}
		}
		// Five standard deviations of a binomial; there is no random seed, so the
		// result is fixed.
		if most := 5 * math.Sqrt(n*share*(1-share)); math.Abs(float64(carried)-n*share) > most {
			t.Errorf("%d of %d are of a share of %g", carried, n, share)
		}
	}
	for _, c := range []struct {
		stream string
		seq    uint64
		row    uint32
		from   float64 // the smallest share that includes the sample
	}{{"pump-7", 1041, 39, 0.778705666015797}, {"", 0, 0, 0.071190749953152}, {"\u00fc", math.MaxUint64, math.MaxUint32, 0.19632100699960298}} {
		if !Carries(c.stream, c.seq, c.row, c.from) || Carries(c.stream, c.seq, c.row, c.from*(1-1e-6)) {
			t.Errorf("%q, %d, %d: not from a share of %g on", c.stream, c.seq, c.row, c.from)
		}
	}
}
