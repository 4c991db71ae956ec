// Package image makes samples from values that arrive one channel at a time, when they change
// (report by exception). An Image keeps the newest value of each channel of a stream; a sample
// has all channels at one time.
//
// Without a period, the values with the same time in one message make a sample. With a period,
// each whole multiple of the period has a sample with the values known at that time (a
// zero-order hold): a value counts from the first multiple at or after its time. A sample is
// complete when a value of a later multiple arrives; multiples without a new value get samples
// with the held values. A silence of more than maxHeld samples is a gap.
//
// An Image reads no clock: the same values give the same samples. The first sample needs a
// value of every channel.
package image

import (
	"math"
	"time"

	"github.com/eusn-stream/eusn-stream/internal/gateway"
)

const (
	partRows = 256   // samples per part
	maxHeld  = 10000 // consecutive samples without a new value
)

// Image is the image of one stream, owned by one goroutine.
type Image struct {
	key     string
	period  int64
	current values // current values
	past    values // values before the newest birth, for historical values
	row     row    // incomplete sample
	last    int64  // time of the newest sample
	hasLast bool   // last is set
	gap     bool   // samples before the next sample are missing
	parts   []gateway.Part
}

type values struct {
	x       []float32
	known   []bool
	unknown int // number of unknown channels
}

// row is a sample that may still get values.
type row struct {
	open, historical bool
	time             int64
	isSet            []bool
}

// New returns an image of a stream without any value. A period of 0 means no period.
func New(key string, channels int, period time.Duration) *Image {
	m := &Image{key: key, period: int64(period), row: row{isSet: make([]bool, channels)}}
	m.current, m.past = newValues(channels), newValues(channels)
	return m
}

func newValues(n int) values { return values{make([]float32, n), make([]bool, n), n} }

func (v *values) set(c int, x float32) {
	v.x[c] = x
	if !v.known[c] {
		v.known[c] = true
		v.unknown--
	}
}

func (v *values) copyFrom(source *values) {
	copy(v.x, source.x)
	copy(v.known, source.known)
	v.unknown = source.unknown
}

// StartBirth starts a birth, which repeats the values of all channels. The repeated values (see
// SetInitial) make no sample, because nothing has changed. Historical values belong to the time
// before the birth, so the image keeps the old values for them.
func (m *Image) StartBirth() {
	m.closeRow()
	m.past.copyFrom(&m.current)
}

// Reset drops the values of all channels: the next sample needs a value of every channel.
func (m *Image) Reset() {
	m.closeRow()
	clear(m.current.known)
	m.current.unknown = len(m.current.known)
}

// SetInitial sets a channel's value without a sample.
func (m *Image) SetInitial(c int, x float32) {
	m.current.set(c, x)
	if !m.past.known[c] { // no older value is known
		m.past.set(c, x)
	}
}

// MarkGap marks missing values before the next sample.
func (m *Image) MarkGap() {
	m.closeRow()
	m.gap = true
}

// Set sets a channel's value from a time, in ns since 1970.
func (m *Image) Set(c int, time int64, x float32) { m.setValue(c, time, x, false) }

// SetHistorical sets a historical value of a channel, without changing the current value. It
// returns false if the time is not after the newest sample.
func (m *Image) SetHistorical(c int, time int64, x float32) bool {
	if m.hasLast && time <= m.last || m.row.open && m.period == 0 && time < m.row.time {
		return false
	}
	m.setValue(c, time, x, true)
	return true
}

func (m *Image) setValue(c int, time int64, x float32, historical bool) {
	source := &m.current
	if historical {
		source = &m.past
	}
	r := &m.row
	if m.period > 0 {
		time = m.roundUp(time)
		if r.open && time < r.time { // the value is late: it counts for the current sample
			time = r.time
		}
		if r.open && time > r.time {
			m.fillHeld(time)
		}
	} else if r.open && (time != r.time || r.isSet[c]) {
		m.closeRow()
	}
	if r.open && r.historical != historical {
		m.closeRow()
	}
	source.set(c, x)
	if !r.open {
		clear(r.isSet)
		r.open, r.time, r.historical = true, time, historical
	}
	r.isSet[c] = true
}

// roundUp returns the first multiple of the period at or after a time.
func (m *Image) roundUp(time int64) int64 {
	k := time % m.period
	switch {
	case k > 0 && time > math.MaxInt64-m.period:
		return time - k
	case k > 0:
		return time - k + m.period
	}
	return time - k // for times before 1970 the remainder is negative: this rounds up, too
}

// fillHeld completes the samples before a time with the held values.
func (m *Image) fillHeld(end int64) {
	time, historical := m.row.time, m.row.historical
	m.closeRow()
	if (end-time)/m.period > maxHeld || end < time {
		m.gap = true
		return
	}
	for time += m.period; time < end; time += m.period {
		m.row.open, m.row.time, m.row.historical = true, time, historical
		m.closeRow()
	}
}

// closeRow completes the current sample.
func (m *Image) closeRow() {
	r := &m.row
	if !r.open {
		return
	}
	r.open = false
	source := &m.current
	if r.historical {
		source = &m.past
	}
	if source.unknown > 0 {
		return
	}
	if n := len(m.parts); n == 0 || m.gap || len(m.parts[n-1].Times) >= partRows {
		m.parts = append(m.parts, gateway.Part{Key: m.key, Gap: m.gap})
		m.gap = false
	}
	p := &m.parts[len(m.parts)-1]
	p.X, p.Times = append(p.X, source.x...), append(p.Times, r.time)
	m.last, m.hasLast = r.time, true
}

// TakeParts returns the complete samples at the end of a message: without a period, all
// samples.
func (m *Image) TakeParts() []gateway.Part {
	if m.period == 0 {
		m.closeRow()
	}
	p := m.parts
	m.parts = nil
	return p
}
