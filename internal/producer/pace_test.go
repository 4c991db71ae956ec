package producer

import (
	"testing"
	"time"
)

// Stored samples take no time when a publication is resumed: the next message is due as
// long after now as its samples take.
func TestPaceOfResumed(t *testing.T) {
	t.Parallel()
	now := time.Unix(1_800_000_000, 0)
	const message = 10 // samples of 10 ms each, at half speed: 200 ms
	for name, timed := range map[string]bool{"times": true, "no times": false} {
		p := pace{speed: 0.5, rate: 100}
		times := func(from int) (list []int64) {
			for i := range 100 {
				if timed {
					list = append(list, int64(from+i+1)*int64(10*time.Millisecond))
				}
			}
			return list
		}
		last := func(n int) int64 { return int64(n) * int64(10*time.Millisecond) }
		a := p.timeItem(now, time.Time{}, times(0), 0)
		for n := message; n <= 5*message; n += message { // 1 s of recording is stored
			if got := p.skipPause(&a, p.dueTime(a, n, last(n), timed), now); got.After(now) {
				t.Fatalf("%s: what is stored is due in %v", name, got.Sub(now))
			}
		}
		if got := p.dueTime(a, 6*message, last(6*message), timed).Sub(now); got != 200*time.Millisecond {
			t.Errorf("%s: the next message is due in %v, want 200ms", name, got)
		}
		// A stream without stored samples does not change the wait either.
		if b := p.timeItem(now, time.Time{}, times(0), 0); timed && p.dueTime(b, 6*message, last(6*message), timed).Sub(now) != 200*time.Millisecond {
			t.Errorf("%s: another stream is not on the same time line", name)
		}
	}
	// At full speed nothing waits.
	p := pace{}
	c := p.timeItem(now, time.Time{}, nil, 0)
	if got := p.skipPause(&c, p.dueTime(c, 10, 0, false), now); !got.IsZero() {
		t.Errorf("at full speed it is due at %v", got)
	}
}
