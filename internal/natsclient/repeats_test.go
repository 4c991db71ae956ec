package natsclient

import (
	"fmt"
	"slices"
	"testing"
	"time"
)

// An error that occurs eight times a second for an hour is logged at growing intervals,
// and each line counts the errors left out.
func TestRepeats(t *testing.T) {
	var r repeats
	begin := time.Unix(0, 0)
	var at []int // seconds
	lines, left := 0, 0
	for i := range 3600 * 8 {
		if n, ok := r.admitText("same", begin.Add(time.Duration(i)*time.Second/8)); ok {
			at = append(at, i/8)
			lines++
			left += n
		}
	}
	if want := []int{0, 10, 30, 70, 150, 310, 630, 1230, 1830, 2430, 3030}; !slices.Equal(at, want) {
		t.Errorf("lines after %v s, want %v", at, want)
	}
	if last := 8 * (3600 - 3030); lines+left != 3600*8-last+1 {
		t.Errorf("%d lines, %d left out, %d are not told yet, of %d", lines, left, last-1, 3600*8)
	}
	if _, ok := r.admitText("other", begin.Add(time.Hour)); !ok {
		t.Error("another error is left out")
	}
	if n, ok := r.admitText("same", begin.Add(2*time.Hour)); !ok || n != 0 {
		t.Error("an error after a long time is not new")
	}
	for i := range 10 * mostRepeats {
		r.admitText(fmt.Sprint(i), begin.Add(2*time.Hour))
	}
	if len(r.known) > mostRepeats {
		t.Errorf("%d errors are known", len(r.known))
	}
}
