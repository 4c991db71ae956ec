package state

import (
	"slices"
	"testing"
)

// Losses in a record survive encoding and decoding; invalid text is refused.
func TestLossesText(t *testing.T) {
	t.Parallel()
	var l Losses
	for seq := range uint64(40) {
		l = l.addLoss(10*seq+9, 10*(seq+1))
	}
	if len(l) != mostLosses+1 || !l.mayPrecede(170) || !l.mayPrecede(173) || !l.mayPrecede(99999) || l.mayPrecede(165) || l.mayPrecede(5) || !l.mayPrecede(10) {
		t.Errorf("40 losses became %v", l)
	}
	back, err := ParseLosses(l.String())
	if err != nil || !slices.Equal(back, l) {
		t.Errorf("%q came back as %v, %v", l, back, err)
	}
	l = l.ForgetSaved(100, 400)
	if l.String() != "110 120 130 140 150 160 170-400" {
		t.Errorf("behind a snapshot of 100, at one of 400: %q", l)
	}
	if l = l.ForgetSaved(400, 500); len(l) != 0 || l.String() != "" {
		t.Errorf("behind a snapshot of 400: %q", l)
	}
	if l = l.addLoss(3, 7).addLoss(7, 9); l.String() != "7-9" {
		t.Errorf("one loss: %q", l)
	}
	for _, text := range []string{"x", "3-2", "1 1", "5 4", "7- 9", "-3", "1-x", "18446744073709551616"} {
		if l, err := ParseLosses(text); err == nil {
			t.Errorf("%q was read as %v", text, l)
		}
	}
}
