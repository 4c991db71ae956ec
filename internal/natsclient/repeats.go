package natsclient

import (
	"sync"
	"time"
)

const (
	longestQuiet = 10 * time.Minute // between two lines of a lasting error
	mostRepeats  = 64               // errors remembered at a time
)

// repeats limits the logging of equal errors: the first is logged, then another after
// twice the previous pause, from toldEvery up to longestQuiet. An error absent for
// longestQuiet is new.
type repeats struct {
	mu    sync.Mutex
	known map[string]*repeated
}

// repeated is the history of an error.
type repeated struct {
	came, told time.Time
	wait       time.Duration // from told until the next line
	left       int           // unlogged since told
}

// admitText reports whether an error is logged, and the number of omitted repeats.
func (r *repeats) admitText(text string, now time.Time) (left int, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	e := r.known[text]
	switch {
	case e == nil || now.Sub(e.came) >= longestQuiet:
		if r.known == nil || len(r.known) >= mostRepeats {
			r.known = map[string]*repeated{}
		}
		r.known[text] = &repeated{came: now, told: now, wait: toldEvery}
		return 0, true
	case now.Sub(e.told) < e.wait:
		e.came = now
		e.left++
		return 0, false
	}
	left = e.left
	*e = repeated{came: now, told: now, wait: min(2*e.wait, longestQuiet)}
	return left, true
}
