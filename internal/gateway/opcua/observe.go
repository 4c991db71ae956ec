package opcua

import (
	"cmp"
	"context"
	"math"
	"slices"
	"time"

	"github.com/eusn-stream/eusn-stream/internal/gateway"
)

const (
	fewestIntervals = 5         // of a variable, to measure its period
	mostHeld        = 2_000_000 // values kept during the measurement
	leastPeriod     = time.Millisecond
)

// Observe subscribes to variables like Follow until ctx ends (nil) or the first session fails. If
// Options has no period, Observe measures the time between two changes for at least wait: until
// half of the streams have changed often enough, or all values for four times wait. started gets
// the period, take the samples; the samples begin with the first values. The calls are by one
// goroutine.
func Observe(ctx context.Context, o Options, wait time.Duration, started func(period time.Duration), take func([]gateway.Part)) error {
	c, err := newClient(observer{take}, o)
	if err != nil {
		return err
	}
	if o.Period == 0 {
		c.measured = &measurer{wait: wait, started: started}
	} else {
		started(o.Period)
	}
	err = c.runSession(ctx)
	if ctx.Err() == nil && c.subscribed {
		c.options.Log.Warn("OPC UA: no session with the server, retrying", "server", c.options.URL, "err", err)
		c.reconnect(ctx)
	}
	if ctx.Err() != nil {
		return nil
	}
	return err
}

// observer passes samples on.
type observer struct{ take func([]gateway.Part) }

func (o observer) Take(_ context.Context, m *gateway.Message) error {
	o.take(m.Parts)
	return nil
}

func (o observer) Refuse(gateway.Input, error) {}

// measurer keeps the values of a session until their period is known.
type measurer struct {
	wait    time.Duration
	started func(time.Duration)
	begin   time.Time
	values  []value
	checked time.Time
	done    bool
}

// reset drops the values of an earlier session.
func (m *measurer) reset() {
	if m != nil {
		m.begin, m.checked, m.values = time.Now(), time.Now(), nil
	}
}

// measurePeriod reports whether the period is known. values are then all values so far.
func (m *measurer) measurePeriod(c *Client, values *[]value) bool {
	if m.done {
		return true
	}
	m.values = append(m.values, *values...)
	elapsed, full := time.Since(m.begin), len(m.values) >= mostHeld
	if elapsed < m.wait || time.Since(m.checked) < m.wait/10 && !full {
		return false
	}
	m.checked = time.Now()
	period, streams := periodOf(m.values, c.items, len(c.keys))
	if period == 0 || 2*streams < len(c.keys) && elapsed < 4*m.wait && !full {
		if full {
			m.values = nil // changes without times: nothing can be learned from their values
		}
		return false
	}
	m.done = true
	c.makeImages(period)
	m.started(period)
	*values, m.values = m.values, nil
	slices.SortStableFunc(*values, func(a, b value) int { return cmp.Compare(a.time, b.time) })
	return true
}

// periodOf returns the median of the streams' periods, and the number of streams that have one. The
// period of a stream is that of the variable that changes most often: the median time between two
// of its changes.
func periodOf(values []value, items []item, streams int) (period time.Duration, measured int) {
	times := make([][]int64, len(items))
	for _, v := range values {
		if t := times[v.item]; len(t) == 0 || v.time > t[len(t)-1] {
			times[v.item] = append(t, v.time)
		}
	}
	fastest := make([]int64, streams)
	for i, t := range times {
		if len(t) < fewestIntervals+2 { // the first value may be old
			continue
		}
		intervals := make([]int64, 0, len(t))
		for k := 2; k < len(t); k++ {
			intervals = append(intervals, t[k]-t[k-1])
		}
		slices.Sort(intervals)
		s := items[i].Stream
		if m := intervals[len(intervals)/2]; fastest[s] == 0 || m < fastest[s] {
			fastest[s] = m
		}
	}
	fastest = slices.DeleteFunc(fastest, func(x int64) bool { return x == 0 })
	if len(fastest) == 0 {
		return 0, 0
	}
	slices.Sort(fastest)
	return roundPeriod(fastest[len(fastest)/2]), len(fastest)
}

// roundPeriod rounds a period to a usual one, or to three digits.
func roundPeriod(ns int64) time.Duration {
	if ns < int64(leastPeriod) {
		return leastPeriod
	}
	scale := math.Pow(10, math.Floor(math.Log10(float64(ns))))
	digits := float64(ns) / scale
	for _, usual := range []float64{1, 1.25, 2, 2.5, 4, 5, 8, 10} {
		if math.Abs(digits/usual-1) < 0.03 {
			return time.Duration(usual * scale)
		}
	}
	return time.Duration(math.Round(digits*100) / 100 * scale)
}
