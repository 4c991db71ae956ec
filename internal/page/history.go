package page

import (
	"encoding/json"
	"math"
	"slices"
	"time"
)

const (
	keptSeconds = 900
	keptMinutes = 1440
	keptMarks   = 100
	alarmMarks  = 50 // of these at most: a flood of alarms leaves restarts and promotions where they are
)

// Point is what happened in a second, or on average in the seconds of a minute.
type Point struct {
	Time     int64   `json:"t"`           // its end, s since 1970
	In       float64 `json:"in"`          // samples that came, a second: messages as the server has counted them, with the samples that messages have on average
	Rows     float64 `json:"rows"`        // samples answered, a second
	Answers  float64 `json:"predictions"` // a second
	Lag      int64   `json:"lag"`         // messages that wait, at its end; of a minute the most
	LagTime  Age     `json:"lag_s"`       // how far behind the partition is that is furthest behind, s; of a minute the most
	Measured int     `json:"n"`           // seconds in it; 0 = nothing is known of that time
}

// Age is a time in seconds. One below 0 is not known, which JSON writes as null.
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

// value is what a column has of an age.
func (a Age) value(of func(float64) *float64) *float64 {
	if a < 0 {
		return nil
	}
	return of(float64(a))
}

// ring keeps the newest points, one for each step. The zero point says that nothing is
// known.
type ring struct {
	step   int64 // s
	points []Point
	last   int64 // time of the newest, 0 = none
}

func newRing(step int64, points int) *ring { return &ring{step: step, points: make([]Point, points)} }

func (r *ring) at(t int64) *Point { return &r.points[(t/r.step)%int64(len(r.points))] }

// add stores a point, whose time is a multiple of the step, and forgets what lies
// between the newest one and this one, in whichever order: the machine has slept, or its
// clock was set.
func (r *ring) add(p Point) {
	if gap := (p.Time - r.last) / r.step; r.last == 0 || gap < -int64(len(r.points)) || gap > int64(len(r.points)) {
		clear(r.points)
	} else {
		for t := min(r.last, p.Time) + r.step; t < max(p.Time, r.last+1); t += r.step {
			*r.at(t) = Point{}
		}
	}
	*r.at(p.Time), r.last = p, p.Time
}

// Series is the history in columns, oldest first. Where nothing is known there is null.
type Series struct {
	Step    int64      `json:"step"` // s between two values
	End     int64      `json:"end"`  // time of the last value, s since 1970
	In      []*float64 `json:"in"`
	Rows    []*float64 `json:"rows"`
	Answers []*float64 `json:"predictions"`
	Lag     []*float64 `json:"lag"`
	LagTime []*float64 `json:"lag_s"`
}

func (r *ring) series() Series {
	s := Series{Step: r.step, End: r.last}
	if r.last == 0 {
		return s
	}
	for i := int64(len(r.points)) - 1; i >= 0; i-- {
		p := r.at(r.last - i*r.step)
		if p.Measured == 0 && len(s.In) == 0 {
			continue // before the beginning
		}
		value := func(v float64) *float64 {
			if p.Measured == 0 {
				return nil
			}
			v = math.Round(v*1000) / 1000
			return &v
		}
		s.In, s.Rows, s.Answers = append(s.In, value(p.In)), append(s.Rows, value(p.Rows)), append(s.Answers, value(p.Answers))
		s.Lag, s.LagTime = append(s.Lag, value(float64(p.Lag))), append(s.LagTime, p.LagTime.value(value))
	}
	return s
}

// history is by the second and by the minute.
type history struct {
	seconds, minutes *ring
	minute           Point // the one that is not over
}

func newHistory() *history {
	return &history{seconds: newRing(1, keptSeconds), minutes: newRing(60, keptMinutes)}
}

// add takes a second's point. It returns the minute's that is over with it, nil if none is.
func (h *history) add(p Point) *Point {
	h.seconds.add(p)
	var over *Point
	if m := &h.minute; m.Measured > 0 && p.Time > m.Time {
		done := *m
		h.minutes.add(done)
		*m, over = Point{}, &done
	}
	m := &h.minute
	n := float64(m.Measured)
	mean := func(of *float64, v float64) { *of = (*of*n + v) / (n + 1) }
	mean(&m.In, p.In)
	mean(&m.Rows, p.Rows)
	mean(&m.Answers, p.Answers)
	m.Time, m.Lag, m.LagTime, m.Measured = (p.Time+59)/60*60, max(m.Lag, p.Lag), max(m.LagTime, p.LagTime), m.Measured+1
	return over
}

// Mark is something that happened at a time.
type Mark struct {
	Time int64  `json:"t"`    // ms since 1970
	Kind string `json:"kind"` // start, end, claim, fenced, promotion or alarm
	Text string `json:"text"`
	key  string // of which there is one alone
}

const markAlarm = "alarm"

// marks are the newest, in the order in which they were added.
type marks struct{ all []Mark }

// add keeps a mark, unless there is one with its key already.
func (m *marks) add(k Mark) bool {
	for i := range m.all {
		if k.key != "" && m.all[i].key == k.key {
			return false
		}
	}
	m.all = append(m.all, k)
	if k.Kind == markAlarm {
		m.keep(alarmMarks, func(one *Mark) bool { return one.Kind == markAlarm })
	}
	m.keep(keptMarks, func(*Mark) bool { return true })
	return true
}

// keep removes the oldest of a kind where there are more than so many.
func (m *marks) keep(most int, is func(*Mark) bool) {
	n := 0
	for i := len(m.all) - 1; i >= 0; i-- {
		if !is(&m.all[i]) {
			continue
		}
		if n++; n > most {
			m.all = slices.Delete(m.all, i, i+1)
		}
	}
}

const (
	mostNames   = 64 // that a mix counts apart
	mixMinutes  = 15 // that count as now
	mixHours    = 26
	yesterday   = 24 * time.Hour
	yesterdayBy = time.Hour // so much around the same time of yesterday counts
	others      = "(all others)"
)

// mix counts by name, and keeps what the counts were each minute of the last ones and each
// hour of the last day. What it is given only grows, or begins anew.
type mix struct {
	names   []string
	index   map[string]int
	minutes []counts // oldest first, at most mixMinutes+1
	hours   []counts // at most mixHours+1
}

type counts struct {
	at time.Time
	n  []uint64 // by name; fewer than there are names now where the later ones were not known
}

func (c *counts) of(i int) uint64 {
	if i < len(c.n) {
		return c.n[i]
	}
	return 0
}

// see takes the counts of now.
func (m *mix) see(at time.Time, now map[string]uint64) {
	if m.index == nil {
		m.index = map[string]int{}
	}
	c := counts{at, make([]uint64, len(m.names), len(now)+1)}
	for _, name := range sortedKeys(now) {
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
			if c.n[i] < m.minutes[last].of(i) { // another stage, with other classes
				m.minutes, m.hours = nil, nil
				break
			}
		}
	}
	m.minutes = keep(m.minutes, c, time.Minute, mixMinutes+1)
	m.hours = keep(m.hours, c, time.Hour, mixHours+1)
}

// keep appends counts if they are so much later than the last, and as the newest
// otherwise.
func keep(all []counts, c counts, step time.Duration, most int) []counts {
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

// Mix is how often each name was counted, now and before.
type Mix struct {
	NowSeconds int64 `json:"now_s"` // how long now is
	// Before is "yesterday", the two hours around this time of yesterday, or "beginning":
	// since the stage's counts begin.
	Before        string  `json:"before"`
	BeforeSeconds int64   `json:"before_s"`
	Rows          []Share `json:"rows"` // by name
}

// Share is one name's.
type Share struct {
	Name   string `json:"name"`
	Now    uint64 `json:"now"`
	Before uint64 `json:"was"`
}

// look is what the counts say.
func (m *mix) look() Mix {
	out := Mix{Before: "beginning", Rows: []Share{}}
	if len(m.minutes) == 0 {
		return out
	}
	newest, first := m.minutes[len(m.minutes)-1], m.minutes[0]
	from, to := counts{at: m.hours[0].at}, newest
	if a, b := m.near(newest.at.Add(-yesterday-yesterdayBy)), m.near(newest.at.Add(-yesterday+yesterdayBy)); a != nil && b != nil && b.at.After(a.at) {
		from, to, out.Before = *a, *b, "yesterday"
	}
	out.NowSeconds, out.BeforeSeconds = int64(newest.at.Sub(first.at).Seconds()), int64(to.at.Sub(from.at).Seconds())
	for i, name := range m.names {
		out.Rows = append(out.Rows, Share{name, newest.of(i) - first.of(i), to.of(i) - from.of(i)})
	}
	return out
}

// near are the counts of the hour nearest to a time, nil if none is within half an hour.
func (m *mix) near(t time.Time) *counts {
	for i := range m.hours {
		if m.hours[i].at.Sub(t).Abs() <= time.Hour/2 {
			return &m.hours[i]
		}
	}
	return nil
}
