package offline

import (
	"context"
	"testing"

	"github.com/eusn-stream/eusn-stream/internal/machine"
	"github.com/eusn-stream/eusn-stream/internal/testing/parts"
	"github.com/eusn-stream/eusn-stream/reservoir"
)

// The gain of a front end if samples come faster than the network needs: the simulated machine at ten times its rate,
// the same 78 ms each, with six times its noise.
func TestFrontAccuracyOfFastMachine(t *testing.T) {
	if !parts.Accuracy("front") {
		t.Skip("NOT CHECKED: takes 15 s, EUSN_ACCURACY=all asks for it")
	}
	bank, err := reservoir.Bank("small", 3)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		hertz float64
		front string
		least float64 // two deviations of 300 series (2 % each) below the measurement: docs/front-end.md
	}{
		{4096, "", .55}, {40960, "", .77}, {40960, "decimate=10", .80}, {40960, "normalize=20ms,decimate=10", .83}, {40960, "center=20ms,envelope=500us,decimate=40", .73},
	} {
		d, err := machine.Simulate(context.Background(), machine.Options{Noise: 1.5, Rate: c.hertz, Samples: int(c.hertz * 320 / 4096)}, nil)
		if err != nil {
			t.Fatal(err)
		}
		opt := RetrainOptions{Spec: bank, Rate: c.hertz}
		if c.front != "" {
			if opt.Front, err = parseFront(c.front); err != nil {
				t.Fatal(err)
			}
		}
		m, _ := retrained(t, d, opt)
		ev := evaluated(t, m, d, EvaluateOptions{})
		t.Logf("%5.0f Hz, front end %-40q: accuracy %.3f, the network sees %d samples", c.hertz, c.front, ev.Accuracy, m.Front.Out(int64(d.Len(0))))
		if ev.Accuracy < c.least {
			t.Errorf("accuracy %.3f, want at least %.3f", ev.Accuracy, c.least)
		}
	}
}
