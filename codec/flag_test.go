package codec

import "testing"

// Every set of flags has the integrity of its worst flag.
func TestIntegrity(t *testing.T) {
	order := []struct {
		flag Flag
		want string
	}{
		{128, "unknown"}, {FlagGap, "gap"}, {FlagPoisonSkipped, "poison-skipped"}, {FlagHeld, "held"},
		{FlagIdle, "idle"}, {FlagEarly, "early"}, {FlagWarmUp, "early"}, {FlagReordered, "complete"},
	}
	for f := range 256 {
		want := "complete"
		for _, o := range order {
			if Flag(f)&o.flag != 0 {
				want = o.want
				break
			}
		}
		if got := Flag(f).Integrity(); got != want {
			t.Errorf("flags %q: integrity %q, want %q", Flag(f), got, want)
		}
	}
}
