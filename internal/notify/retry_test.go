package notify

import (
	"net/http"
	"testing"
	"time"
)

// TestRetryAfter: a receiver requests a wait in seconds or as a date. Unreadable values request no
// wait, and every wait is bounded.
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
		{"86400", "", maxRetryAfter},
		{"99999999999999999999999", "", maxRetryAfter},
		{date(now.Add(40 * time.Second)), "", 40 * time.Second},
		{date(now.Add(time.Hour)), "", maxRetryAfter},
		{date(now.Add(-time.Hour)), "", 0},
		{date(now.Add(time.Hour + 9*time.Second)), date(now.Add(time.Hour)), 9 * time.Second}, // the receiver's clock is an hour ahead
	} {
		h := http.Header{"Retry-After": {c.after}, "Date": {c.date}}
		if got := retryAfter(h, now); got != c.want {
			t.Errorf("Retry-After %q, Date %q: %v, want %v", c.after, c.date, got, c.want)
		}
	}
}
