package simulate

import (
	"math"
	"slices"
	"time"
)

// Glance is the time between two values of Result.Backlog.
const Glance = 100 * time.Millisecond

// Use is the share of its time that a resource works. The most that is possible is 1; more
// is asked of a disk that cannot follow.
type Use struct {
	What  string  `json:"what"`
	Where int     `json:"server"`
	Share float64 `json:"share"`
}

// Recovery is what a fault did.
type Recovery struct {
	Fault    Fault   `json:"fault"`
	Usual    int     `json:"usual"`       // the most messages without a prediction before it
	Peak     int     `json:"peak"`        // after it
	CaughtUp float64 `json:"caught_up_s"` // from the fault until no more wait than usual; -1: not before the end
}

// Result is what happened.
type Result struct {
	Messages int        `json:"messages"`
	Rate     float64    `json:"messages_per_s"`
	Cores    float64    `json:"cores"` // busy, all servers
	Use      []Use      `json:"use"`   // of each kind of resource the busiest, most first
	Batch    float64    `json:"messages_per_batch"`
	Commits  float64    `json:"commits_per_message"`
	P50      float64    `json:"p50_ms"` // from the arrival to the commit
	P99      float64    `json:"p99_ms"`
	Max      float64    `json:"max_ms"`
	Mean     float64    `json:"mean_s"`  // of all messages
	Waiting  float64    `json:"waiting"` // messages without a prediction, in the mean over all the time
	Left     int        `json:"left"`    // at the end
	Backlog  []int      `json:"backlog"` // the most at a time, in each 100 ms
	Faults   []Recovery `json:"faults,omitempty"`
}

// Broken is the resource that cannot follow, if one cannot.
func (r *Result) Broken() (Use, bool) {
	return r.Use[0], r.Use[0].Share > .98
}

func (r *Result) quantiles(took []float32) {
	ms := make([]float64, len(took))
	for i, t := range took {
		ms[i] = 1e3 * float64(t)
	}
	slices.Sort(ms)
	r.P50, r.P99, r.Max = quantile(ms, .5), quantile(ms, .99), quantile(ms, 1)
}

// quantile of ascending values, the next one above; 0 of none.
func quantile(v []float64, q float64) float64 {
	if len(v) == 0 {
		return 0
	}
	return v[max(0, min(len(v)-1, int(math.Ceil(q*float64(len(v))))-1))]
}
