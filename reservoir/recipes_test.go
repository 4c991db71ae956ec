package reservoir_test

import (
	"strings"
	"testing"

	"github.com/eusn-stream/eusn-stream/internal/engine"
	"github.com/eusn-stream/eusn-stream/reservoir"
)

// TestBanks: every recipe can be drawn, for any number of channels.
func TestBanks(t *testing.T) {
	for _, name := range reservoir.Banks {
		for _, channels := range []int{1, 2, 5, 70} {
			s, err := reservoir.Bank(name, channels)
			if err != nil {
				t.Fatal(err)
			}
			if err := s.ForLength(100).Validate(); err != nil {
				t.Errorf("%s of %d channels: %v", name, channels, err)
			}
		}
		if words := mustLayout(name); name == "standard" && words > 12500 || name == "small" && words > 4100 {
			t.Errorf("%s: a state of %d words; 100,000 must fit 5 GB, of small 1.64 GB", name, words)
		}
	}
	if _, err := reservoir.Bank("huge", 1); err == nil || !strings.Contains(err.Error(), `bank "huge", want one of standard, large, small, tiny, euler`) {
		t.Errorf("an unknown bank: %v", err)
	}
}

func mustLayout(name string) int {
	s, err := reservoir.Bank(name, 1)
	if err != nil {
		panic(err)
	}
	return engine.LayoutOf(s.ForLength(1000)).Words
}
