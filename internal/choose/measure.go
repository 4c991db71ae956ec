package choose

import (
	"cmp"
	"context"
	"math"
	"slices"

	"github.com/eusn-stream/eusn-stream/internal/offline/bridge"
	"github.com/eusn-stream/eusn-stream/offline/archive"
)

// Signal describes training data.
type Signal struct {
	Channels, Classes []string
	Streams           int
	Samples           int64
	First             int     // samples of the first stream
	Shortest, Longest int     // samples of the labeled part of a stream
	Run               int     // samples of a short run of one label: a tenth of the runs are shorter
	Whole             bool    // each stream has one label
	Single            bool    // a class has only one run
	Ends              bool    // a sequence ends in the data
	Rate              float64 // sampling rate of the first stream, Hz; 0: unknown
	Memory            int     // samples until the correlation falls below 1/e, in the median over the channels
	Envelope          int     // the same for the magnitude of the deviations from the mean
}

const (
	mostSamples = 1 << 14 // of a stream, for the correlations
	mostValues  = 1 << 22 // of all streams
	least       = 1 / math.E
)

// lags of the correlations, in samples.
var lags = []int{1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024, 2048, 4096}

// Measure reads the training part of data.
func Measure(ctx context.Context, data *bridge.Trials) (Signal, error) {
	m := meter{Signal: Signal{Channels: data.Channels, Classes: data.Classes}, of: map[int]*stream{}, runsOf: make([]int, len(data.Classes))}
	if err := data.Read(ctx, m.addSamples); err != nil {
		return Signal{}, err
	}
	return m.finish(), nil
}

// meter measures a signal, stream by stream.
type meter struct {
	Signal
	of     map[int]*stream
	order  []*stream
	runs   []int
	runsOf []int // of each class
	values int
}

// stream is what the meter keeps of a stream.
type stream struct {
	samples, labeled int
	label, run       int
	mixed            bool
	kept             []float32
	first, last      int64 // times
	timed            int
}

func (m *meter) addSamples(c bridge.Samples) {
	s := m.of[c.Stream]
	if s == nil {
		s = &stream{label: -1, first: archive.NoTime}
		m.of[c.Stream], m.order = s, append(m.order, s)
	}
	m.Ends = m.Ends || slices.Contains(c.Ends, true)
	for i, label := range c.Labels {
		s.samples++
		if c.Times != nil && c.Times[i] != archive.NoTime {
			if s.first == archive.NoTime {
				s.first = c.Times[i]
			}
			s.last = c.Times[i]
			s.timed++
		}
		if label != s.label {
			m.endRun(s)
			s.mixed = s.mixed || s.labeled > 0
			s.label = label
		}
		if label >= 0 {
			s.labeled++
			s.run++
		}
	}
	k := len(m.Channels)
	for i, label := range c.Labels {
		if label >= 0 && len(s.kept) < mostSamples*k && m.values < mostValues {
			s.kept = append(s.kept, c.Values[i*k:(i+1)*k]...)
			m.values += k
		}
	}
}

// endRun counts a run of one label.
func (m *meter) endRun(s *stream) {
	if s.run > 0 {
		m.runs = append(m.runs, s.run)
		m.runsOf[s.label]++
	}
	s.run = 0
}

// finish computes the time scales.
func (m *meter) finish() Signal {
	m.Streams, m.Whole = 0, true
	for _, s := range m.order {
		m.endRun(s)
		m.Samples += int64(s.samples)
		if s.labeled == 0 {
			continue
		}
		if m.Streams == 0 {
			m.First = s.samples
			if s.timed > 1 && s.last > s.first {
				m.Rate = float64(s.timed-1) / (float64(s.last-s.first) / 1e9)
			}
		}
		if m.Streams++; m.Streams == 1 || s.labeled < m.Shortest {
			m.Shortest = s.labeled
		}
		m.Longest = max(m.Longest, s.labeled)
		m.Whole = m.Whole && !s.mixed
	}
	m.Single = slices.Min(m.runsOf) < 2
	slices.Sort(m.runs)
	if len(m.runs) > 0 {
		m.Run = m.runs[len(m.runs)/10]
	}
	var memories, envelopes []int
	for c := range m.Channels {
		plain, magnitude := newCorrelation(), newCorrelation()
		for _, s := range m.order {
			x := channelOf(s.kept, c, len(m.Channels))
			plain.addProducts(x)
			for i, v := range x {
				x[i] = math.Abs(v)
			}
			magnitude.addProducts(removeMean(x))
		}
		memories, envelopes = append(memories, plain.length()), append(envelopes, magnitude.slowLength())
	}
	m.Memory, m.Envelope = median(memories), median(envelopes)
	return m.Signal
}

func median(x []int) int {
	if len(x) == 0 {
		return 0
	}
	slices.SortFunc(x, cmp.Compare[int])
	return x[len(x)/2]
}

// channelOf returns a channel without its mean; a missing value is the mean.
func channelOf(values []float32, c, channels int) []float64 {
	x := make([]float64, 0, len(values)/channels)
	sum, n := 0., 0
	for i := c; i < len(values); i += channels {
		v := float64(values[i])
		if x = append(x, v); v == v {
			sum += v
			n++
		}
	}
	mean := sum / float64(max(n, 1))
	for i, v := range x {
		if v != v {
			x[i] = mean
		}
	}
	return removeMean(x)
}

func removeMean(x []float64) []float64 {
	sum := 0.
	for _, v := range x {
		sum += v
	}
	for i := range x {
		x[i] -= sum / float64(len(x))
	}
	return x
}

// correlation sums products of samples at the lags, over streams.
type correlation struct{ products, squares []float64 }

func newCorrelation() *correlation {
	return &correlation{make([]float64, len(lags)), make([]float64, len(lags))}
}

func (c *correlation) addProducts(x []float64) {
	for k, lag := range lags {
		if 2*lag > len(x) {
			return
		}
		for i := lag; i < len(x); i++ {
			c.products[k] += float64(x[i] * x[i-lag])
			c.squares[k] += float64(x[i]*x[i]+x[i-lag]*x[i-lag]) / 2
		}
	}
}

// length returns the first lag with a correlation below 1/e.
func (c *correlation) length() int { return c.fall(0, least) }

// slowLength is length without the fast part of the correlation: relative to the largest at any lag but 0.
func (c *correlation) slowLength() int {
	at, most := 0, 0.
	for k := range lags {
		if r := c.at(k); r > most {
			at, most = k, r
		}
	}
	return c.fall(at, least*most)
}

// fall returns the first lag from the k-th on with a correlation below a limit.
func (c *correlation) fall(k int, limit float64) int {
	for ; k < len(lags); k++ {
		if c.at(k) < limit || c.squares[k] == 0 {
			return lags[k]
		}
	}
	return lags[len(lags)-1]
}

func (c *correlation) at(k int) float64 {
	if c.squares[k] == 0 {
		return 0
	}
	return c.products[k] / c.squares[k]
}
