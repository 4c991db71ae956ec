package notify

import (
	"net/http"
	"testing"
	"time"
)

// A receiver may ask for a time in seconds or as a date. What cannot be read asks for nothing,
// and no time is longer than the bound.
func TestRetryAfter(t *testing.T) {
	now := time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC)
	date := func(at time.Time) string { return at.Format(http.TimeFormat) }
	for _, c := range []struct {
		after, date string
		want        time.Duration
	}{
		{"", "", 0},
		{"7", "", 7 * time.Second},
		{" 7 ", "", 7 * time.Second},
		{"0", "", 0},
		{"-7", "", 0},
		{"soon", "", 0},
		{"7.5", "", 0},
		{"86400", "", mostAsked},
		{"99999999999999999999999", "", mostAsked},
		{date(now.Add(40 * time.Second)), "", 40 * time.Second},
		{date(now.Add(time.Hour)), "", mostAsked},
		{date(now.Add(-time.Hour)), "", 0},
		{date(now.Add(time.Hour + 9*time.Second)), date(now.Add(time.Hour)), 9 * time.Second}, // its clock is an hour ahead
	} {
		h := http.Header{"Retry-After": {c.after}, "Date": {c.date}}
		if got := retryAfter(h, now); got != c.want {
			t.Errorf("Retry-After %q, Date %q: %v, want %v", c.after, c.date, got, c.want)
		}
	}
}
