package wire

import (
	"strings"
	"testing"
	"time"
)

// A list of shadows survives encoding and decoding; an invalid list is refused, and an
// entry with an invalid list is still read.
func TestShadows(t *testing.T) {
	one := Shadow{Readout: strings.Repeat("a", HashDigits), Who: "anna", When: time.Date(2026, 2, 1, 8, 0, 0, 0, time.UTC)}
	other := one
	other.Readout = strings.Repeat("b", HashDigits)
	all := Shadows{one, other}
	got, err := ParseShadows(all.Text())
	if err != nil || len(got) != 2 || got[0] != one || got[1] != other || !got.Has(other.Readout) {
		t.Errorf("%+v, %v", got, err)
	}
	if left := got.Without(one.Readout); len(left) != 1 || left.Has(one.Readout) || len(got) != 2 {
		t.Errorf("without one: %+v", left)
	}
	if none, err := ParseShadows(Shadows{}.Text()); err != nil || none != nil {
		t.Errorf("none: %+v, %v", none, err)
	}
	for what, text := range map[string]string{
		"no JSON": "{", "an empty list": "[]", "twice": Shadows{one, one}.Text(), "no readout": `[{"readout":"","who":"a"}]`,
		"no fingerprint": `[{"readout":"xyz","who":"a"}]`, "lines": `[{"readout":"` + one.Readout + `","who":"a\nb"}]`,
	} {
		if all, err := ParseShadows(text); err == nil || !strings.Contains(err.Error(), HeaderShadows) {
			t.Errorf("%s: %+v, %v", what, all, err)
		}
	}
	many := Shadows{}
	for i := range MostShadows + 1 {
		next := one
		next.Readout = strings.Repeat(string("0123456789"[i]), HashDigits)
		many = append(many, next)
	}
	if _, err := ParseShadows(many.Text()); err == nil {
		t.Errorf("%d shadows", len(many))
	}
	for subject, want := range map[string]string{ShadowSubject("job", one.Readout, 3): one.Readout, "job.out.3": "", "a.b.c.d": "", "": ""} {
		if got := ShadowOf(subject); got != want {
			t.Errorf("subject %q: %q, want %q", subject, got, want)
		}
	}
}

// FuzzShadows: no text panics, and accepted text is re-encoded unchanged.
func FuzzShadows(f *testing.F) {
	f.Add(Shadows{{Readout: strings.Repeat("a", HashDigits), Who: "anna"}}.Text())
	f.Fuzz(func(t *testing.T, text string) {
		all, err := ParseShadows(text)
		if err != nil || text == "" {
			return
		}
		again, err := ParseShadows(all.Text())
		if err != nil || again.Text() != all.Text() || len(all) > MostShadows {
			t.Errorf("%q became %q, %v", text, again.Text(), err)
		}
	})
}
