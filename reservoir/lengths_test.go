package reservoir

import (
	"errors"
	"strings"
	"testing"
)

func TestUnlike(t *testing.T) {
	known := Training{MinLength: 40, MaxLength: 300}
	for _, c := range []struct {
		t       Training
		samples int64
		early   bool
		want    bool
	}{
		{known, 20, false, false}, {known, 19, false, true}, {known, 600, false, false}, {known, 601, false, true},
		{known, 1, true, false}, {known, 600, true, false}, {known, 601, true, true},
		{Training{MaxLength: 300}, 1, false, false}, {Training{MaxLength: 300}, 601, false, true}, // of a model without the shortest length
		{Training{}, 1, false, false}, {Training{}, 1 << 40, false, false},
	} {
		if got := c.t.Unlike(c.samples, c.early); got != c.want {
			t.Errorf("trained on %d to %d: %d samples, early %v: unlike %v, want %v", c.t.MinLength, c.t.MaxLength, c.samples, c.early, got, c.want)
		}
	}
}

func TestCheckLengths(t *testing.T) {
	window, count := Policy{Kind: Window, Length: 100, Hop: 50}, Policy{Kind: Count, Length: 100}
	for _, c := range []struct {
		p    Policy
		t    Training
		want string // empty: passes
	}{
		{window, Training{MaxLength: 200}, "trained on sequences of up to 200 samples, its policy window cuts sequences of 100"},
		{count, Training{MinLength: 150, MaxLength: 200}, "trained on sequences of 150 to 200 samples, its policy count cuts sequences of 100"},
		{count, Training{MinLength: 200, MaxLength: 200}, "of 200 samples, its policy count cuts sequences of 100: its predictions would mean nothing; train again with --policy count --length 100"},
		{window, Training{MinLength: 90, MaxLength: 100}, "of 90 to 100 samples"},
		{window, Training{MinLength: 100, MaxLength: 100}, ""}, {count, Training{MaxLength: 100}, ""}, {window, Training{}, ""},
		{Policy{Kind: Marked}, Training{MinLength: 1, MaxLength: 200}, ""}, {Policy{Kind: Endless, Early: 10}, Training{MinLength: 10, MaxLength: 200}, ""},
		{Policy{Kind: Endless, Early: 10}, Training{MaxLength: 200}, "whole series of up to 200 samples, its policy endless predicts every 10"},
	} {
		err := (&Model{Policy: c.p, Training: c.t}).CheckLengths()
		if (err == nil) != (c.want == "") || err != nil && (!strings.Contains(err.Error(), c.want) || !errors.Is(err, ErrModel)) {
			t.Errorf("%+v trained on %+v: %v, want %q", c.p, c.t, err, c.want)
		}
	}
}
