package admin

import (
	"context"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/eusn-stream/eusn-stream/internal/pipeline/wire"
)

const day = 24 * time.Hour

// Stored is the size of a job's NATS streams of input (if not another job's), predictions
// and dead letters at a time. Two values give the growth rate of the disk usage.
type Stored struct {
	at         time.Time
	partitions int
	streams    []*jetstream.StreamInfo
}

// Stored requests the current size of the job's NATS streams.
func (j *Job) Stored(ctx context.Context) (Stored, error) {
	s := Stored{partitions: j.job.Partitions}
	names := []string{wire.OutputStream(j.job.Name), wire.DeadLetterStream(j.job.Name)}
	if j.job.Source.Job == "" { // otherwise the input is another job's
		names = append([]string{wire.InputStream(j.job.Name)}, names...)
	}
	for _, name := range names {
		stream, err := j.job.JS.Stream(ctx, name) // requests its state
		if err != nil {
			return s, fmt.Errorf("admin: NATS stream %s: %w", name, err)
		}
		s.streams = append(s.streams, stream.CachedInfo())
	}
	s.at = time.Now()
	return s, nil
}

// Growth is the rate of filling the server's disk by a job.
type Growth struct {
	Streams []StreamGrowth
	// Dropped is the number of removed dead letters, most removed for newer letters (a
	// limited number is kept): the remaining numbers begin later.
	Dropped uint64
}

// StreamGrowth is the part of a NATS stream.
type StreamGrowth struct {
	Stream string
	Bytes  uint64        // stored now
	PerDay float64       // bytes written a day
	Over   time.Duration // duration of the rate measurement
	Bounds []string      // its limits, as "max_age 24h0m0s"; nil: none
	Most   float64       // final size at this rate within these limits, bytes; +Inf without limits
}

// Since returns the growth since an earlier state of the same job. Messages removed
// meanwhile count as written: a full NATS stream continues writing.
func (s Stored) Since(before Stored) Growth {
	return s.computeGrowth(func(i int) (bytes float64, over time.Duration) {
		over = s.at.Sub(before.at)
		was, is := before.streams[i].State, s.streams[i].State
		if is.LastSeq <= was.LastSeq { // quiet, or recreated
			return 0, over
		}
		if is.Msgs-was.Msgs == is.LastSeq-was.LastSeq && is.Bytes > was.Bytes { // nothing went
			return float64(is.Bytes - was.Bytes), over
		}
		return float64(is.LastSeq-was.LastSeq) * meanBytes(is), over
	})
}

// Average returns the growth over the time from the first to the last message of each
// NATS stream.
func (s Stored) Average() Growth {
	return s.computeGrowth(func(i int) (bytes float64, over time.Duration) {
		st := s.streams[i].State
		if over = st.LastTime.Sub(st.FirstTime); st.Msgs < 2 || over < time.Second {
			return 0, 0
		}
		return float64(st.Bytes), over
	})
}

// computeGrowth makes the report; written gives the bytes of NATS stream i in a time.
func (s Stored) computeGrowth(written func(i int) (bytes float64, over time.Duration)) Growth {
	var g Growth
	for i, info := range s.streams {
		bytes, over := written(i)
		one := StreamGrowth{Stream: info.Config.Name, Bytes: info.State.Bytes, PerDay: bytes * float64(day) / float64(max(over, 1)), Over: over, Most: math.Inf(1)}
		bound := func(what string, most float64) {
			one.Bounds = append(one.Bounds, what)
			one.Most = min(one.Most, most)
		}
		c, each := info.Config, meanBytes(info.State)
		if c.MaxAge > 0 {
			bound(fmt.Sprintf("max_age %v", c.MaxAge), max(float64(one.Bytes), one.PerDay*float64(c.MaxAge)/float64(day)))
		}
		if c.MaxBytes > 0 {
			bound(fmt.Sprintf("max_bytes %d", c.MaxBytes), float64(c.MaxBytes))
		}
		if c.MaxMsgs > 0 {
			bound(fmt.Sprintf("max_msgs %d", c.MaxMsgs), float64(c.MaxMsgs)*each)
		}
		if c.MaxMsgsPerSubject > 0 && strings.HasSuffix(c.Name, "-OUT") {
			bound(fmt.Sprintf("max_msgs_per_subject %d", c.MaxMsgsPerSubject), float64(c.MaxMsgsPerSubject)*float64(s.partitions)*each)
		}
		if strings.HasSuffix(c.Name, "-DLQ") && info.State.FirstSeq > 0 {
			g.Dropped = info.State.FirstSeq - 1
		}
		g.Streams = append(g.Streams, one)
	}
	return g
}

// meanBytes returns the mean size of a stored message.
func meanBytes(s jetstream.StreamState) float64 {
	if s.Msgs == 0 {
		return 0
	}
	return float64(s.Bytes) / float64(s.Msgs)
}

// PerDay returns the total bytes written per day.
func (g Growth) PerDay() (bytes float64) {
	for _, s := range g.Streams {
		bytes += s.PerDay
	}
	return bytes
}

// Full returns the number of days until the job has filled `free` more bytes at this
// rate, +Inf if limits prevent this.
func (g Growth) Full(free float64) (days float64) {
	taken := func(days float64) (bytes float64) {
		for _, s := range g.Streams {
			bytes += min(s.PerDay*days, max(0, s.Most-float64(s.Bytes)))
		}
		return bytes
	}
	const ever = 1e5 // days
	if taken(ever) < free {
		return math.Inf(1)
	}
	low, high := 0.0, ever
	for range 60 { // taken grows with days
		if mid := (low + high) / 2; taken(mid) < free {
			low = mid
		} else {
			high = mid
		}
	}
	return high
}
