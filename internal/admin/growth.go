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

// Stored is what a job's NATS streams of input, where it has one of its own, of
// predictions and of dead letters hold at a time. Two of them give the rate at which the disk fills.
type Stored struct {
	at         time.Time
	partitions int
	streams    []*jetstream.StreamInfo
}

// Stored asks the server what the job's NATS streams hold now.
func (j *Job) Stored(ctx context.Context) (Stored, error) {
	s := Stored{partitions: j.job.Partitions}
	names := []string{wire.OutputStream(j.job.Name), wire.DeadLetterStream(j.job.Name)}
	if j.job.Source.Job == "" { // else it is another job's
		names = append([]string{wire.InputStream(j.job.Name)}, names...)
	}
	for _, name := range names {
		stream, err := j.job.JS.Stream(ctx, name) // asks for its state
		if err != nil {
			return s, fmt.Errorf("admin: NATS stream %s: %w", name, err)
		}
		s.streams = append(s.streams, stream.CachedInfo())
	}
	s.at = time.Now()
	return s, nil
}

// Growth is how a job fills its server's disk.
type Growth struct {
	Streams []StreamGrowth
	// Dropped is how many dead letters are gone, most of them for newer ones
	// (they are kept up to a number): their numbers begin behind them.
	Dropped uint64
}

// StreamGrowth is one NATS stream's part.
type StreamGrowth struct {
	Stream string
	Bytes  uint64        // stored now
	PerDay float64       // bytes written a day
	Over   time.Duration // the time that the rate is of
	Bounds []string      // its limits, as "max_age 24h0m0s"; nil: none
	Most   float64       // what it comes to at this rate by these limits, bytes; +Inf without any
}

// Since is the growth from an earlier look at the same job. Messages that went
// meanwhile count as written: a full NATS stream continues writing.
func (s Stored) Since(before Stored) Growth {
	return s.computeGrowth(func(i int) (bytes float64, over time.Duration) {
		over = s.at.Sub(before.at)
		was, is := before.streams[i].State, s.streams[i].State
		if is.LastSeq <= was.LastSeq { // quiet, or created again
			return 0, over
		}
		if is.Msgs-was.Msgs == is.LastSeq-was.LastSeq && is.Bytes > was.Bytes { // nothing went
			return float64(is.Bytes - was.Bytes), over
		}
		return float64(is.LastSeq-was.LastSeq) * meanBytes(is), over
	})
}

// Average is the growth over the time from the first to the last message that
// each NATS stream holds.
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

// meanBytes is what a message takes in the store.
func meanBytes(s jetstream.StreamState) float64 {
	if s.Msgs == 0 {
		return 0
	}
	return float64(s.Bytes) / float64(s.Msgs)
}

// PerDay is what all of them write a day, in bytes.
func (g Growth) PerDay() (bytes float64) {
	for _, s := range g.Streams {
		bytes += s.PerDay
	}
	return bytes
}

// Full is after how many days at this rate the job has taken so many bytes more,
// +Inf where its bounds keep it below.
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
