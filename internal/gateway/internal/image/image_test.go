package image

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// told is what parts have, a word for each sample: time:values, with "gap" where one
// is flagged.
func told(m *Image) string {
	var words []string
	for _, p := range m.Parts() {
		if p.Gap {
			words = append(words, "gap")
		}
		n := len(p.X) / len(p.Times)
		for i, at := range p.Times {
			words = append(words, fmt.Sprintf("%d:%v", at, p.X[i*n:(i+1)*n]))
		}
	}
	return strings.ReplaceAll(strings.Join(words, " "), "] ", "]\n")
}

func want(t *testing.T, m *Image, rows ...string) {
	t.Helper()
	if got, want := told(m), strings.Join(rows, "\n"); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func TestByTime(t *testing.T) {
	m := New("k", 2, 0)
	m.Set(0, 1, 10)
	want(t, m) // the other is not known
	m.Set(1, 2, 20)
	m.Set(0, 3, 11)
	m.Set(1, 3, 21)
	m.Set(1, 3, 22) // again at this time: a sample of its own
	want(t, m, "2:[10 20]", "3:[11 21]", "3:[11 22]")
	m.Set(0, 1, 12) // times do not decide the order
	want(t, m, "1:[12 22]")
	m.Gap()
	m.Set(0, 9, 13)
	m.Set(0, 10, 14)
	want(t, m, "gap 9:[13 22]", "10:[14 22]")
}

func TestBirth(t *testing.T) {
	m := New("k", 2, 0)
	m.Gap()
	m.Begin()
	m.Know(0, 1)
	m.Know(1, 2)
	want(t, m)
	m.Set(0, 5, 3)
	want(t, m, "gap 5:[3 2]")
	m.Begin()
	m.Know(0, 7)
	m.Know(1, 8)
	if m.SetOld(0, 5, 100) {
		t.Error("a late value at the time of the last sample is taken")
	}
	if !m.SetOld(0, 6, 4) || !m.SetOld(1, 7, 5) {
		t.Error("late values after the last sample are not taken")
	}
	m.Set(1, 9, 9)
	want(t, m, "6:[4 2]", "7:[4 5]", "9:[7 9]") // those of before the birth, then those of now

	first := New("k", 2, 0) // nothing is known of before the first birth but the birth itself
	first.Begin()
	first.Know(0, 7)
	first.Know(1, 8)
	if !first.SetOld(0, 6, 4) {
		t.Error("a late value is not taken")
	}
	want(t, first, "6:[4 8]")
}

func TestByPeriod(t *testing.T) {
	m := New("k", 2, 10)
	m.Set(0, 3, 1)
	m.Set(1, 10, 2) // known at 10
	m.Set(0, 11, 3) // from 20 on
	want(t, m, "10:[1 2]")
	m.Set(0, 19, 4)
	m.Set(1, 12, 5)
	m.Set(0, 55, 6)
	want(t, m, "20:[4 5]", "30:[4 5]", "40:[4 5]", "50:[4 5]")
	m.Set(1, 1, 7) // too late for its sample: in the one in hand
	m.Gap()
	m.Set(0, 95, 8)
	want(t, m, "60:[6 7]")
	m.Set(0, 101, 9)
	want(t, m, "gap 100:[8 7]")
	m.Set(0, 110+10*(mostHeld+2), 1) // too long to hold
	m.Set(0, 110+10*(mostHeld+3), 2)
	want(t, m, "110:[9 7]", fmt.Sprintf("gap %d:[1 7]", 110+10*(mostHeld+2)))
}

// With a period, a sample has what a search for the last value of each channel up to
// its time finds, however the values are cut into messages.
func TestPeriodIsAHold(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 300 {
		const channels, period = 3, 7
		type value struct {
			c  int
			at int64
			x  float32
		}
		var all []value
		at := int64(r.IntN(50)) - 25
		for range 1 + r.IntN(80) {
			all = append(all, value{r.IntN(channels), at, float32(r.IntN(100))})
			at += int64(r.IntN(12))
		}
		m := New("k", channels, period)
		var got []string
		for _, v := range all {
			m.Set(v.c, v.at, v.x)
			if r.IntN(3) == 0 {
				if s := told(m); s != "" {
					got = append(got, s)
				}
			}
		}
		if s := told(m); s != "" {
			got = append(got, s)
		}
		var wanted []string
		for k := int64(-10); k*period < all[len(all)-1].at; k++ {
			x, known := make([]float32, channels), map[int]bool{}
			for _, v := range all {
				if v.at <= k*period {
					x[v.c], known[v.c] = v.x, true
				}
			}
			if len(known) == channels {
				wanted = append(wanted, fmt.Sprintf("%d:%v", k*period, x))
			}
		}
		if got := strings.Split(strings.Join(got, "\n"), "\n"); !slices.Equal(got, wanted) && len(wanted) > 0 {
			t.Fatalf("%v\n got %q\nwant %q", all, got, wanted)
		}
	}
}
