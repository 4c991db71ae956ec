package outcome

import "testing"

// TestIntegrity: every set of flags has the integrity of its worst flag.
func TestIntegrity(t *testing.T) {
	order := []struct {
		flag Flag
		want string
	}{
		{1 << 13, "unknown"}, {1 << 31, "unknown"}, {FlagOutOfRange, "unlike-training"}, {FlagFlat, "unlike-training"},
		{FlagLength, "unlike-training"}, {FlagRate, "unlike-training"}, {FlagGap, "gap"}, {FlagPoisonSkipped, "poison-skipped"}, {FlagHeld, "held"},
		{FlagIdle, "idle"}, {FlagEarly, "early"}, {FlagWarmUp, "early"}, {FlagDecided, "early"}, {FlagReordered, "complete"}, {FlagAbstain, "complete"},
	}
	for i := range 1 << 15 {
		f := Flag(i)&(1<<14-1) | Flag(i)>>14<<31 // all existing flags, the next, and the last
		want := "complete"
		for _, o := range order {
			if f&o.flag != 0 {
				want = o.want
				break
			}
		}
		if got := f.Integrity(); got != want {
			t.Fatalf("flags %q: integrity %q, want %q", f, got, want)
		}
	}
}
