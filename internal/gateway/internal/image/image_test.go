package image

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// describe returns the image's parts as words, one per sample: time:values, with "gap" before a
// flagged sample.
func describe(m *Image) string {
	var words []string
	for _, p := range m.TakeParts() {
		if p.Gap {
			words = append(words, "gap")
		}
		n := len(p.X) / len(p.Times)
		for i, time := range p.Times {
			words = append(words, fmt.Sprintf("%d:%v", time, p.X[i*n:(i+1)*n]))
		}
	}
	return strings.ReplaceAll(strings.Join(words, " "), "] ", "]\n")
}

func expectRows(t *testing.T, m *Image, rows ...string) {
	t.Helper()
	if got, want := describe(m), strings.Join(rows, "\n"); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func TestByTime(t *testing.T) {
	m := New("k", 2, 0)
	m.Set(0, 1, 10)
	expectRows(t, m) // the other channel is unknown
	m.Set(1, 2, 20)
	m.Set(0, 3, 11)
	m.Set(1, 3, 21)
	m.Set(1, 3, 22) // the same time and channel: a new sample
	expectRows(t, m, "2:[10 20]", "3:[11 21]", "3:[11 22]")
	m.Set(0, 1, 12) // times do not decide the order
	expectRows(t, m, "1:[12 22]")
	m.MarkGap()
	m.Set(0, 9, 13)
	m.Set(0, 10, 14)
	expectRows(t, m, "gap 9:[13 22]", "10:[14 22]")
}

func TestBirth(t *testing.T) {
	m := New("k", 2, 0)
	m.MarkGap()
	m.StartBirth()
	m.SetInitial(0, 1)
	m.SetInitial(1, 2)
	expectRows(t, m)
	m.Set(0, 5, 3)
	expectRows(t, m, "gap 5:[3 2]")
	m.StartBirth()
	m.SetInitial(0, 7)
	m.SetInitial(1, 8)
	if m.SetHistorical(0, 5, 100) {
		t.Error("a late value at the time of the last sample is taken")
	}
	if !m.SetHistorical(0, 6, 4) || !m.SetHistorical(1, 7, 5) {
		t.Error("late values after the last sample are not taken")
	}
	m.Set(1, 9, 9)
	expectRows(t, m, "6:[4 2]", "7:[4 5]", "9:[7 9]") // values before the birth, then current values

	first := New("k", 2, 0) // before the first birth only the birth itself is known
	first.StartBirth()
	first.SetInitial(0, 7)
	first.SetInitial(1, 8)
	if !first.SetHistorical(0, 6, 4) {
		t.Error("a late value is not taken")
	}
	expectRows(t, first, "6:[4 8]")
}

func TestByPeriod(t *testing.T) {
	m := New("k", 2, 10)
	m.Set(0, 3, 1)
	m.Set(1, 10, 2) // known at 10
	m.Set(0, 11, 3) // from 20
	expectRows(t, m, "10:[1 2]")
	m.Set(0, 19, 4)
	m.Set(1, 12, 5)
	m.Set(0, 55, 6)
	expectRows(t, m, "20:[4 5]", "30:[4 5]", "40:[4 5]", "50:[4 5]")
	m.Set(1, 1, 7) // too late for its sample: counts for the current sample
	m.MarkGap()
	m.Set(0, 95, 8)
	expectRows(t, m, "60:[6 7]")
	m.Set(0, 101, 9)
	expectRows(t, m, "gap 100:[8 7]")
	m.Set(0, 110+10*(maxHeld+2), 1) // too long to hold
	m.Set(0, 110+10*(maxHeld+3), 2)
	expectRows(t, m, "110:[9 7]", fmt.Sprintf("gap %d:[1 7]", 110+10*(maxHeld+2)))
}

// With a period, a sample equals a search for the newest value of each channel at its time,
// however the values are split into messages.
func TestPeriodIsAHold(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 300 {
		const channels, period = 3, 7
		type value struct {
			c    int
			time int64
			x    float32
		}
		var all []value
		time := int64(r.IntN(50)) - 25
		for range 1 + r.IntN(80) {
			all = append(all, value{r.IntN(channels), time, float32(r.IntN(100))})
			time += int64(r.IntN(12))
		}
		m := New("k", channels, period)
		var got []string
		for _, v := range all {
			m.Set(v.c, v.time, v.x)
			if r.IntN(3) == 0 {
				if s := describe(m); s != "" {
					got = append(got, s)
				}
			}
		}
		if s := describe(m); s != "" {
			got = append(got, s)
		}
		var wanted []string
		for k := int64(-10); k*period < all[len(all)-1].time; k++ {
			x, known := make([]float32, channels), map[int]bool{}
			for _, v := range all {
				if v.time <= k*period {
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
