package page

import (
	"encoding/json"
	"maps"
	"math"
	"slices"
	"time"
)

const (
	keptSeconds = 900
	keptMinutes = 1440
	keptMarks   = 100
	alarmMarks  = 50 // a flood of alarms must not displace restarts and promotions
)

// Point has the figures of a second, or the mean of the seconds of a minute.
type Point struct {
	Time     int64   `json:"t"`           // end, s since 1970
	In       float64 `json:"in"`          // arrived samples per second: messages counted by the server times the mean samples per message
	Rows     float64 `json:"rows"`        // answered samples per second
	Answers  float64 `json:"predictions"` // per second
	Lag      int64   `json:"lag"`         // waiting messages at the end; for a minute the maximum
	LagTime  Age     `json:"lag_s"`       // largest delay of a partition, s; for a minute the maximum
	Measured int     `json:"n"`           // number of seconds; 0 = no data for this time
}

// Age is a time in seconds. A negative age is unknown; JSON writes null.
type Age float64

// MarshalJSON implements json.Marshaler.
func (a Age) MarshalJSON() ([]byte, error) {
	if a < 0 {
		return []byte("null"), nil
	}
	return json.Marshal(float64(a))
}

// UnmarshalJSON implements json.Unmarshaler.
func (a *Age) UnmarshalJSON(b []byte) error {
	if string(b) == "null" {
		*a = -1
		return nil
	}
	return json.Unmarshal(b, (*float64)(a))
}

// toColumn converts an age to a column value.
func (a Age) toColumn(of func(float64) *float64) *float64 {
	if a < 0 {
		return nil
	}
	return of(float64(a))
}

// ring stores the newest points, one per step. The zero point means no data.
type ring struct {
	step   int64 // s
	points []Point
	last   int64 // time of the newest point, 0 = none
}

func newRing(step int64, points int) *ring { return &ring{step: step, points: make([]Point, points)} }

func (r *ring) slot(t int64) *Point { return &r.points[(t/r.step)%int64(len(r.points))] }

// addPoint stores a point, whose time is a multiple of the step, and clears the points between the
// newest point and this point, in either direction: the machine slept, or its clock was set.
func (r *ring) addPoint(p Point) {
	if gap := (p.Time - r.last) / r.step; r.last == 0 || gap < -int64(len(r.points)) || gap > int64(len(r.points)) {
		clear(r.points)
	} else {
		for t := min(r.last, p.Time) + r.step; t < max(p.Time, r.last+1); t += r.step {
			*r.slot(t) = Point{}
		}
	}
	*r.slot(p.Time), r.last = p, p.Time
}

// Series is the history in columns, oldest first. null means no data.
type Series struct {
	Step    int64      `json:"step"` // s between two values
	End     int64      `json:"end"`  // time of the last value, s since 1970
	In      []*float64 `json:"in"`
	Rows    []*float64 `json:"rows"`
	Answers []*float64 `json:"predictions"`
	Lag     []*float64 `json:"lag"`
	LagTime []*float64 `json:"lag_s"`
}

func (r *ring) buildSeries() Series {
	s := Series{Step: r.step, End: r.last}
	if r.last == 0 {
		return s
	}
	for i := int64(len(r.points)) - 1; i >= 0; i-- {
		p := r.slot(r.last - i*r.step)
		if p.Measured == 0 && len(s.In) == 0 {
			continue // before the start
		}
		value := func(v float64) *float64 {
			if p.Measured == 0 {
				return nil
			}
			v = math.Round(v*1000) / 1000
			return &v
		}
		s.In, s.Rows, s.Answers = append(s.In, value(p.In)), append(s.Rows, value(p.Rows)), append(s.Answers, value(p.Answers))
		s.Lag, s.LagTime = append(s.Lag, value(float64(p.Lag))), append(s.LagTime, p.LagTime.toColumn(value))
	}
	return s
}

// history stores points of seconds and minutes.
type history struct {
	seconds, minutes *ring
	minute           Point // the current minute
}

func newHistory() *history {
	return &history{seconds: newRing(1, keptSeconds), minutes: newRing(60, keptMinutes)}
}

// addPoint adds a second's point. It returns the point of a finished minute, otherwise nil.
func (h *history) addPoint(p Point) *Point {
	h.seconds.addPoint(p)
	var finished *Point
	if m := &h.minute; m.Measured > 0 && p.Time > m.Time {
		done := *m
		h.minutes.addPoint(done)
		*m, finished = Point{}, &done
	}
	m := &h.minute
	n := float64(m.Measured)
	mean := func(of *float64, v float64) { *of = (*of*n + v) / (n + 1) }
	mean(&m.In, p.In)
	mean(&m.Rows, p.Rows)
	mean(&m.Answers, p.Answers)
	m.Time, m.Lag, m.LagTime, m.Measured = (p.Time+59)/60*60, max(m.Lag, p.Lag), max(m.LagTime, p.LagTime), m.Measured+1
	return finished
}

// Mark is an event at a time.
type Mark struct {
	Time int64  `json:"t"`    // ms since 1970
	Kind string `json:"kind"` // start, end, claim, fenced, promotion or alarm
	Text string `json:"text"`
	key  string // marks with the same key are added once
}

const markAlarm = "alarm"

// marks are the newest marks, in the order of addition.
type marks struct{ all []Mark }

// addMark adds a mark, unless a mark with its key exists.
func (m *marks) addMark(k Mark) bool {
	for i := range m.all {
		if k.key != "" && m.all[i].key == k.key {
			return false
		}
	}
	m.all = append(m.all, k)
	if k.Kind == markAlarm {
		m.limitMarks(alarmMarks, func(mark *Mark) bool { return mark.Kind == markAlarm })
	}
	m.limitMarks(keptMarks, func(*Mark) bool { return true })
	return true
}

// limitMarks removes the oldest marks of a kind beyond a number.
func (m *marks) limitMarks(most int, matches func(*Mark) bool) {
	n := 0
	for i := len(m.all) - 1; i >= 0; i-- {
		if !matches(&m.all[i]) {
			continue
		}
		if n++; n > most {
			m.all = slices.Delete(m.all, i, i+1)
		}
	}
}

const (
	mostNames   = 64 // counted separately in a mix
	mixMinutes  = 15 // minutes counted as now
	mixHours    = 26
	yesterday   = 24 * time.Hour
	yesterdayBy = time.Hour // time around the same time yesterday that counts
	others      = "(all others)"
)

// mix stores counts by name, of each recent minute and of each hour of the last day. Its input only
// grows, or restarts.
type mix struct {
	names   []string
	index   map[string]int
	minutes []counts // oldest first, at most mixMinutes+1
	hours   []counts // at most mixHours+1
}

type counts struct {
	at time.Time
	n  []uint64 // by name; shorter if later names were unknown
}

func (c *counts) countOf(i int) uint64 {
	if i < len(c.n) {
		return c.n[i]
	}
	return 0
}

// addCounts adds the present counts.
func (m *mix) addCounts(at time.Time, now map[string]uint64) {
	if m.index == nil {
		m.index = map[string]int{}
	}
	c := counts{at, make([]uint64, len(m.names), len(now)+1)}
	for _, name := range slices.Sorted(maps.Keys(now)) {
		i, known := m.index[name]
		if !known {
			label := name
			if len(m.names) >= mostNames {
				label = others
			}
			if i, known = m.index[label]; !known {
				i, m.names, c.n = len(m.names), append(m.names, label), append(c.n, 0)
				m.index[label] = i
			}
			m.index[name] = i
		}
		c.n[i] += now[name]
	}
	if last := len(m.minutes) - 1; last >= 0 {
		for i := range c.n {
			if c.n[i] < m.minutes[last].countOf(i) { // another stage, with other classes
				m.minutes, m.hours = nil, nil
				break
			}
		}
	}
	m.minutes = appendCounts(m.minutes, c, time.Minute, mixMinutes+1)
	m.hours = appendCounts(m.hours, c, time.Hour, mixHours+1)
}

// appendCounts appends counts if they are later than the last by a step; otherwise it replaces the
// newest.
func appendCounts(all []counts, c counts, step time.Duration, most int) []counts {
	if n := len(all); n > 1 && c.at.Sub(all[n-2].at) <= step {
		all[n-1] = c
		return all
	}
	all = append(all, c)
	if extra := len(all) - most; extra > 0 {
		all = append(all[:0], all[extra:]...)
	}
	return all
}

// Mix is the number of occurrences of each name, now and before.
type Mix struct {
	NowSeconds int64 `json:"now_s"` // length of now
	// Before is "yesterday", the two hours around this time yesterday, or "beginning": since the
	// start of the stage's counts.
	Before        string  `json:"before"`
	BeforeSeconds int64   `json:"before_s"`
	Rows          []Share `json:"rows"` // by name
}

// Share has the counts of one name.
type Share struct {
	Name   string `json:"name"`
	Now    uint64 `json:"now"`
	Before uint64 `json:"was"`
}

// summarize returns the counts of now and before.
func (m *mix) summarize() Mix {
	out := Mix{Before: "beginning", Rows: []Share{}}
	if len(m.minutes) == 0 {
		return out
	}
	newest, first := m.minutes[len(m.minutes)-1], m.minutes[0]
	from, to := counts{at: m.hours[0].at}, newest
	if a, b := m.findNearest(newest.at.Add(-yesterday-yesterdayBy)), m.findNearest(newest.at.Add(-yesterday+yesterdayBy)); a != nil && b != nil && b.at.After(a.at) {
		from, to, out.Before = *a, *b, "yesterday"
	}
	out.NowSeconds, out.BeforeSeconds = int64(newest.at.Sub(first.at).Seconds()), int64(to.at.Sub(from.at).Seconds())
	for i, name := range m.names {
		out.Rows = append(out.Rows, Share{name, newest.countOf(i) - first.countOf(i), to.countOf(i) - from.countOf(i)})
	}
	return out
}

// findNearest returns the counts of the hour nearest to a time, nil if none is within half an hour.
func (m *mix) findNearest(t time.Time) *counts {
	for i := range m.hours {
		if m.hours[i].at.Sub(t).Abs() <= time.Hour/2 {
			return &m.hours[i]
		}
	}
	return nil
}
