// Package image makes samples of values that come one channel at a time, when
// they change (report by exception). An Image keeps the last value of each channel of
// a stream; a sample is all of them at one time.
//
// Without a period, the values of a message that have the same time are a
// sample. With one, there is a sample for each whole multiple of it, with the
// values that were known then (a zero-order hold): a value counts from the first
// multiple that is not before its time. A sample of a period is complete when a
// value of a later one comes; if several periods pass without a value, each has
// a sample with the values held. Beyond mostHeld of them the silence is a gap.
//
// No clock is read: the same values give the same samples. Nothing is made
// before every channel has a value.
package image

import (
	"math"
	"time"

	"github.com/eusn-stream/eusn-stream/internal/gateway"
)

const (
	partRows = 256   // samples of a part
	mostHeld = 10000 // samples in a row without a value of their own
)

// Image is that of one stream. It belongs to one goroutine.
type Image struct {
	key    string
	period int64
	now    values // as they are
	past   values // as they were before the newest birth, for values that come late
	row    row    // not complete
	last   int64  // time of the last sample
	some   bool   // there was one
	gap    bool   // samples are missing before the next
	parts  []gateway.Part
}

type values struct {
	x     []float32
	known []bool
	left  int // channels that are not known
}

// row is a sample that may get other values.
type row struct {
	open, old bool
	at        int64
	set       []bool
}

// New returns an image of a stream without any value. A period of 0 is none.
func New(key string, channels int, period time.Duration) *Image {
	m := &Image{key: key, period: int64(period), row: row{set: make([]bool, channels)}}
	m.now, m.past = newValues(channels), newValues(channels)
	return m
}

func newValues(n int) values { return values{make([]float32, n), make([]bool, n), n} }

func (v *values) set(c int, x float32) {
	v.x[c] = x
	if !v.known[c] {
		v.known[c] = true
		v.left--
	}
}

func (v *values) copy(from *values) {
	copy(v.x, from.x)
	copy(v.known, from.known)
	v.left = from.left
}

// Begin says that the values of all channels are told anew. What is told with
// Know makes no sample: nothing has changed by being told. Late values, which
// may follow, are of the time before, so the values of then are kept for them.
func (m *Image) Begin() {
	m.close()
	m.past.copy(&m.now)
}

// Forget drops the values of all channels: no sample is made before every channel has
// one again.
func (m *Image) Forget() {
	m.close()
	clear(m.now.known)
	m.now.left = len(m.now.known)
}

// Know tells a channel's value.
func (m *Image) Know(c int, x float32) {
	m.now.set(c, x)
	if !m.past.known[c] { // no better is known
		m.past.set(c, x)
	}
}

// Gap says that values may be missing from here on.
func (m *Image) Gap() {
	m.close()
	m.gap = true
}

// Set gives a channel's value from a time on, in ns since 1970.
func (m *Image) Set(c int, at int64, x float32) { m.set(c, at, x, false) }

// SetOld gives a value of the time before the newest birth, which is not the
// channel's now. It returns false for one that is not after the last sample,
// which cannot be put in any more.
func (m *Image) SetOld(c int, at int64, x float32) bool {
	if m.some && at <= m.last || m.row.open && m.period == 0 && at < m.row.at {
		return false
	}
	m.set(c, at, x, true)
	return true
}

func (m *Image) set(c int, at int64, x float32, old bool) {
	from := &m.now
	if old {
		from = &m.past
	}
	r := &m.row
	if m.period > 0 {
		at = m.due(at)
		if r.open && at < r.at { // after its sample was made: it counts for the one in hand
			at = r.at
		}
		if r.open && at > r.at {
			m.hold(at)
		}
	} else if r.open && (at != r.at || r.set[c]) {
		m.close()
	}
	if r.open && r.old != old {
		m.close()
	}
	from.set(c, x)
	if !r.open {
		clear(r.set)
		r.open, r.at, r.old = true, at, old
	}
	r.set[c] = true
}

// due is the first multiple of the period that is not before a time.
func (m *Image) due(at int64) int64 {
	k := at % m.period
	switch {
	case k > 0 && at > math.MaxInt64-m.period:
		return at - k
	case k > 0:
		return at - k + m.period
	}
	return at - k // of times before 1970, the remainder is negative: upwards, too
}

// hold completes the samples before a time.
func (m *Image) hold(until int64) {
	at, old := m.row.at, m.row.old
	m.close()
	if (until-at)/m.period > mostHeld || until < at {
		m.gap = true
		return
	}
	for at += m.period; at < until; at += m.period {
		m.row.open, m.row.at, m.row.old = true, at, old
		m.close()
	}
}

// close makes a sample of what is in hand.
func (m *Image) close() {
	r := &m.row
	if !r.open {
		return
	}
	r.open = false
	from := &m.now
	if r.old {
		from = &m.past
	}
	if from.left > 0 {
		return
	}
	if n := len(m.parts); n == 0 || m.gap || len(m.parts[n-1].Times) >= partRows {
		m.parts = append(m.parts, gateway.Part{Key: m.key, Gap: m.gap})
		m.gap = false
	}
	p := &m.parts[len(m.parts)-1]
	p.X, p.Times = append(p.X, from.x...), append(p.Times, r.at)
	m.last, m.some = r.at, true
}

// Parts are the samples that are complete at the end of a message: without a
// period, all.
func (m *Image) Parts() []gateway.Part {
	if m.period == 0 {
		m.close()
	}
	p := m.parts
	m.parts = nil
	return p
}
