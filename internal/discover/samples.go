package discover

import (
	"math"
	"slices"
	"strings"

	"github.com/eusn-stream/eusn-stream/internal/imports"
	"github.com/eusn-stream/eusn-stream/offline/archive"
)

// Series are the samples of a machine.
type Series struct {
	Times  []int64   // of the sample, or of its arrival, ns
	Values []float32 // samples x channels; NaN = missing
	first  int64     // arrival of the first and the last message
	last   int64
	begun  int // samples of the first message
}

// Samples are the samples of the machines of a kind. They belong to one goroutine.
type Samples struct {
	Channels []string
	Machines map[string]*Series
	Count    int  // samples of all machines
	Timed    bool // samples have times of their own, not only the time of arrival
}

// Names returns the names of the machines in order.
func (s *Samples) Names() []string { return sortedKeys(s.Machines) }

// Snapshot returns the present samples; later samples do not change the snapshot.
func (s *Samples) Snapshot() *Samples {
	c := NewSamples(s.Channels)
	c.Count, c.Timed = s.Count, s.Timed
	for name, m := range s.Machines {
		copied := *m
		c.Machines[name] = &copied
	}
	return c
}

// Split divides the samples of each machine: the first share, and the rest.
func (s *Samples) Split(share float64) (first, rest *Samples) {
	first, rest = NewSamples(s.Channels), NewSamples(s.Channels)
	first.Timed, rest.Timed = s.Timed, s.Timed
	for name, m := range s.Machines {
		n := int(share * float64(len(m.Times)))
		k := n * len(s.Channels)
		first.Machines[name] = &Series{Times: m.Times[:n], Values: m.Values[:k]}
		rest.Machines[name] = &Series{Times: m.Times[n:], Values: m.Values[k:]}
		first.Count, rest.Count = first.Count+n, rest.Count+len(m.Times)-n
	}
	return first, rest
}

// NewSamples returns an empty set of samples.
func NewSamples(channels []string) *Samples {
	return &Samples{Channels: channels, Machines: map[string]*Series{}}
}

// Add adds samples of a message. times are optional; at is the arrival.
func (s *Samples) Add(machine string, x []float32, times []int64, at int64) {
	n := len(x) / len(s.Channels)
	if n == 0 {
		return
	}
	m := s.Machines[machine]
	if m == nil {
		m = &Series{first: at, begun: n}
		s.Machines[strings.Clone(machine)] = m
	}
	m.last = at
	m.Values = append(m.Values, x...)
	for i := range n {
		t := at
		if len(times) == n && times[i] != archive.NoTime {
			t, s.Timed = times[i], true
		}
		m.Times = append(m.Times, t)
	}
	s.Count += n
}

// Column returns the values of a channel, a run for each machine in order of the names.
func (s *Samples) Column(c int) (runs [][]float32) {
	for _, name := range sortedKeys(s.Machines) {
		m, run := s.Machines[name], []float32(nil)
		for i := c; i < len(m.Values); i += len(s.Channels) {
			run = append(run, m.Values[i])
		}
		runs = append(runs, run)
	}
	return runs
}

// Rate returns the median of the sampling rates of the machines in Hz, 0 if unknown: by the
// number of samples and the time between the first and the last message.
func (s *Samples) Rate() float64 {
	var rates []float64
	for _, m := range s.Machines {
		if r := m.Rate(); r > 0 {
			rates = append(rates, r)
		}
	}
	if len(rates) == 0 {
		return 0
	}
	slices.Sort(rates)
	return rates[len(rates)/2]
}

// fewestTimes is the number of samples after the first message that a rate needs.
const fewestTimes = 5

// Rate returns the sampling rate of a machine in Hz, 0 if unknown.
func (m *Series) Rate() float64 {
	after := len(m.Times) - m.begun
	if after < fewestTimes || m.last <= m.first {
		return 0
	}
	return float64(after) / (float64(m.last-m.first) / 1e9)
}

// Sensor is a channel with its grade.
type Sensor struct {
	Name  string `json:"channel"`
	Unit  string `json:"unit,omitempty"`
	Grade string `json:"grade"`
	Why   string `json:"why,omitempty"`
	Used  bool   `json:"used"`
}

// fewestSteps are the changes that show a channel that only grows.
const fewestSteps = 20

// Grade grades the channels. A channel of grade D and a channel that only grows or only falls,
// such as a counter, is not used: its future values are unlike the learned values.
func (s *Samples) Grade() (all []Sensor) {
	for c, name := range s.Channels {
		runs := s.Column(c)
		p, unit := imports.ProfileRuns(name, runs)
		sensor := Sensor{Name: name, Unit: unit, Grade: p.Grade, Why: p.Why, Used: p.Grade != "D"}
		if sensor.Used && onlyGrows(runs) {
			sensor.Grade, sensor.Used = "D", false
			sensor.Why = "only grows or only falls"
		}
		all = append(all, sensor)
	}
	return all
}

// onlyGrows reports whether nearly all changes have one direction.
func onlyGrows(runs [][]float32) bool {
	up, down := 0, 0
	for _, run := range runs {
		last := float32(math.NaN())
		for _, v := range run {
			switch {
			case v > last:
				up++
			case v < last:
				down++
			}
			if v == v {
				last = v
			}
		}
	}
	const share = 50 // one change in 50 may have the other direction, such as a counter's return to 0
	return up+down >= fewestSteps && min(up, down)*share <= max(up, down)
}
