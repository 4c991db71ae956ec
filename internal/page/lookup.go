package page

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/eusn-stream/eusn-stream/codec"
	"github.com/eusn-stream/eusn-stream/internal/admin"
	"github.com/eusn-stream/eusn-stream/internal/alarm"
	"github.com/eusn-stream/eusn-stream/internal/consumer"
	"github.com/eusn-stream/eusn-stream/internal/watch"
	"github.com/eusn-stream/eusn-stream/readout/outcome"
)

// Limits of reading for one answer.
const (
	traceLength  = 100 // predictions
	lookTime     = 4 * time.Second
	lookMessages = 20_000
	lookBytes    = 64 << 20
	firstWindow  = 64 // messages; each further window is four times as long
)

// errBusy means that another lookup is running.
var errBusy = errors.New("another lookup is running: retry in a second")

// Found is the result of a stream lookup.
type Found struct {
	Stream string `json:"stream"`
	// Predictions are the last predictions, newest first, at most traceLength. Only the newest has
	// scores, of the classes in Classes.
	Predictions []Predicted `json:"predictions"`
	Classes     []string    `json:"classes,omitempty"`
	// Latest is the alarm process's data of the stream; null if there is none, or if no alarm
	// process keeps such data (Kept).
	Latest *alarm.Latest `json:"latest"`
	Kept   bool          `json:"latest_kept"`
	// Partition is the partition of the newest prediction; -1 = unknown.
	Partition int `json:"partition"`
	// Read is the number of output messages read, Since the storage time of the oldest. All: no
	// older message exists.
	Read    int       `json:"read"`
	Since   time.Time `json:"since,omitzero"`
	All     bool      `json:"all"`
	Explain string    `json:"explain"` // command line that explains the newest prediction
	Machine *Row      `json:"machine"` // null: no prediction was found
	Past

	hits []hit // newest first
}

// Predicted is a prediction of a machine: storage time, place in the output, columns, and the
// resulting condition, in one JSON object.
type Predicted struct {
	Stored time.Time
	Shows  Condition
	Place  codec.Place
	Answer outcome.Named
}

// MarshalJSON implements json.Marshaler.
func (p Predicted) MarshalJSON() ([]byte, error) {
	return outcome.Join(struct {
		Stored time.Time `json:"stored"`
		Shows  string    `json:"condition"`
	}{p.Stored, conditionNames[p.Shows]}, p.Place, p.Answer)
}

// finder looks up streams, one at a time.
type finder struct{ slot chan struct{} } // held while reading

// acquire waits for the slot, for lookTime at most.
func (f *finder) acquire(ctx context.Context) error {
	late := time.NewTimer(lookTime)
	defer late.Stop()
	select {
	case f.slot <- struct{}{}:
		return nil
	case <-late.C:
		return errBusy
	case <-ctx.Done():
		return ctx.Err()
	}
}

// lookUp looks up one stream.
func (f *finder) lookUp(ctx context.Context, job *Job, name, stream string) (*Found, error) {
	if err := f.acquire(ctx); err != nil {
		return nil, err
	}
	defer func() { <-f.slot }()
	ctx, cancel := context.WithTimeout(ctx, lookTime)
	defer cancel()
	found := &Found{Stream: stream, Predictions: []Predicted{}, Partition: -1, Explain: "eusn-stream explain --job " + quoteShell(name) + " --last --stream=" + quoteShell(stream)}
	l := search{job: job.JS, name: name, most: traceLength, matches: func(p *codec.Prediction) bool { return p.Stream == stream }, part: -1}
	latest, err := watch.ReadLatest(ctx, job.JS, name, stream)
	switch found.Kept = err == nil; {
	case latest != nil:
		found.Latest = latest
		l.part = l.readPartition(ctx, latest.Position)
	case err == nil: // the stream is new, or does not exist
	case ctx.Err() != nil:
		return nil, ctx.Err()
	}
	if l.part < 0 {
		l.part = keyPartition(ctx, job.JS, name, stream)
	}
	if err := l.readWindows(ctx); err != nil {
		return nil, err
	}
	if len(l.hits) == 0 && l.part >= 0 && latest == nil { // possibly one of several streams with another key
		l.part, l.messages, l.bytes = -1, 0, 0
		if err := l.readWindows(ctx); err != nil {
			return nil, err
		}
	}
	found.Read, found.Since, found.All = l.messages, l.since, l.all
	for i := range l.hits {
		h := &l.hits[i]
		if i > 0 {
			h.p.Scores = nil
		}
		found.Predictions = append(found.Predictions, Predicted{h.stored.UTC(), newClasses(h.labels).judge(&h.p), h.p.Place(), outcome.Named{Answer: &h.p.Answer, Labels: h.labels}})
	}
	if found.hits = l.hits; len(l.hits) > 0 {
		found.Classes = l.hits[0].labels
		found.Partition = l.hits[0].part
	}
	return found, nil
}

// keyPartition returns the partition of a key, -1 if the job does not answer.
func keyPartition(ctx context.Context, js jetstream.JetStream, job, key string) int {
	j, err := admin.Open(ctx, js, job)
	if err != nil {
		return -1
	}
	return j.PartitionOf(key)
}

// search reads a job's output, backward in windows, each window forward.
type search struct {
	job     jetstream.JetStream
	name    string
	part    int // -1 = all
	most    int // predictions
	limit   int // total bytes to read; 0 = 2*lookBytes
	matches func(*codec.Prediction) bool

	hits     []hit // newest first
	messages int
	bytes    int
	since    time.Time
	all      bool
}

// hit is a matching prediction.
type hit struct {
	stored time.Time
	part   int
	labels []string
	p      codec.Prediction
}

// readPartition returns the partition of an output message; -1 if the message was removed.
func (l *search) readPartition(ctx context.Context, seq uint64) int {
	part := -1
	stop := errors.New("one is enough")
	err := consumer.Read(ctx, l.job, l.name, consumer.Span{From: max(1, seq), Stored: true, Skip: func(*consumer.ForeignError) {}}, func(o consumer.Output) error {
		if o.Seq == seq {
			part = o.Partition
		}
		return stop
	})
	if !errors.Is(err, stop) {
		return -1
	}
	return part
}

// readWindows reads windows from the output's end, until there are enough predictions or a limit is
// reached.
func (l *search) readWindows(ctx context.Context) error {
	first, last, err := consumer.Kept(ctx, l.job, l.name)
	if err != nil {
		return err
	}
	end, size := last+1, uint64(firstWindow)
	for end > first && len(l.hits) < l.most && ctx.Err() == nil && l.messages < lookMessages && l.bytes < lookBytes {
		from := max(first, end-min(size, end))
		whole, err := l.readWindow(ctx, from, end)
		if err != nil {
			return err
		}
		if !whole {
			return nil
		}
		end, size = from, 4*size
	}
	l.all = end <= first && ctx.Err() == nil
	return nil
}

// readWindow reads a range of messages, without the end. An incomplete window is discarded: newer
// predictions may follow its results.
func (l *search) readWindow(ctx context.Context, from, end uint64) (whole bool, err error) {
	stop, large := errors.New("enough"), errors.New("too many bytes")
	var hits []hit
	var since time.Time
	messages := 0
	span := consumer.Span{From: max(1, from), Stored: true, Skip: func(*consumer.ForeignError) {}}
	if l.part >= 0 {
		span.Of = []int{l.part}
	}
	err = consumer.Read(ctx, l.job, l.name, span, func(o consumer.Output) error {
		if o.Seq >= end {
			return stop
		}
		if l.bytes >= cmp.Or(l.limit, 2*lookBytes) {
			return large
		}
		if since.IsZero() {
			since = o.Stored
		}
		messages++
		l.bytes += o.Bytes
		for i := range o.Predictions {
			if l.matches(&o.Predictions[i]) {
				hits = append(hits, hit{o.Stored, o.Partition, o.Meta.Labels, o.Predictions[i]})
			}
		}
		if extra := len(hits) - l.most; extra > 0 {
			hits = slices.Delete(hits, 0, extra)
		}
		return nil
	})
	switch {
	case ctx.Err() != nil && !errors.Is(err, stop), errors.Is(err, large):
		return false, nil
	case err != nil && !errors.Is(err, stop):
		return false, err
	}
	if l.messages += messages; messages > 0 {
		l.since = since
	}
	slices.Reverse(hits)
	l.hits = append(l.hits, hits...)
	l.hits = l.hits[:min(len(l.hits), l.most)]
	return true, nil
}
