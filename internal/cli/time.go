package cli

import (
	"fmt"
	"time"
)

// FromStart is the --since for the whole log of a job.
const FromStart = "start"

// PointInTime parses an age or a point in time; a date is its first moment in UTC, and empty the zero time.
func PointInTime(flag, text string, now time.Time, help string) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	if d, err := time.ParseDuration(text); err == nil && d >= 0 {
		return now.Add(-d), nil
	}
	for _, layout := range []string{time.RFC3339, time.DateOnly} {
		if t, err := time.Parse(layout, text); err == nil {
			return t, nil
		}
	}
	return time.Time{}, Fail(ExitUsage, fmt.Errorf("--%s %q: want how long ago, like 30m, a date, like 2026-01-31 (from 00:00 UTC on), or a time, like 2026-01-31T12:00:00Z", flag, text), help)
}

// LeadIn parses the value of --lead-in; empty gives -1.
func LeadIn(text string) (time.Duration, error) {
	if text == "" {
		return -1, nil
	}
	d, err := time.ParseDuration(text)
	if err != nil || d < 0 {
		return 0, fmt.Errorf("--lead-in %s: want a duration such as 1h, or 0s", text)
	}
	return d, nil
}
