package page

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/eusn-stream/eusn-stream/codec"
	"github.com/eusn-stream/eusn-stream/internal/admin"
	"github.com/eusn-stream/eusn-stream/internal/alarm"
	"github.com/eusn-stream/eusn-stream/internal/consumer"
	"github.com/eusn-stream/eusn-stream/internal/watch"
	"github.com/eusn-stream/eusn-stream/readout/outcome"
)

// Limits of what is read for one answer.
const (
	traceLength  = 100 // predictions
	lookTime     = 4 * time.Second
	lookMessages = 20_000
	lookBytes    = 64 << 20
	namesTime    = 2 * time.Second
	namesBytes   = 8 << 20
	mostStreams  = 20_000 // names that are kept
	mostMatches  = 20
	namesFor     = 10 * time.Second // they serve
	firstWindow  = 64               // messages; each further one is four times as long
)

// errBusy is that of a question while another one is answered.
var errBusy = errors.New("another stream is being looked up: try again in a second")

// Found is what is known of a stream.
type Found struct {
	Stream string `json:"stream"`
	// Predictions are the last ones, the newest first, at most traceLength. Only the newest
	// has its scores, of the classes in Classes.
	Predictions []Predicted `json:"predictions"`
	Classes     []string    `json:"classes,omitempty"`
	// Latest is what the process of alarms knows; null where it knows nothing, or nobody
	// keeps it (Kept).
	Latest *alarm.Latest `json:"latest"`
	Kept   bool          `json:"latest_kept"`
	// Partition is the one of the newest prediction; -1 = not known.
	Partition int `json:"partition"`
	// Read is how much of the output was read, and Since when the oldest message of it was
	// stored. All: nothing is older.
	Read    int       `json:"read"`
	Since   time.Time `json:"since,omitzero"`
	All     bool      `json:"all"`
	Explain string    `json:"explain"` // a command line that explains the newest prediction
}

// Predicted is one prediction: when it was stored, its place and its answer, in one JSON
// object.
type Predicted struct {
	Stored time.Time
	Place  codec.Place
	Answer outcome.Named
}

// MarshalJSON is the object.
func (p Predicted) MarshalJSON() ([]byte, error) {
	return outcome.Join(struct {
		Stored time.Time `json:"stored"`
	}{p.Stored}, p.Place, p.Answer)
}

// Names are streams that predicted lately.
type Names struct {
	Names []string `json:"names"` // in order, at most mostMatches
	More  bool     `json:"more"`  // there are others
	Since string   `json:"since"` // when the oldest message was stored that was read
}

// finder looks streams up, one at a time.
type finder struct {
	one chan struct{} // held while something is read
	// names and when they were read, guarded by one
	read   []string
	readAt time.Time
	since  time.Time
}

// take waits for its turn, but not for long.
func (f *finder) take(ctx context.Context) error {
	late := time.NewTimer(lookTime)
	defer late.Stop()
	select {
	case f.one <- struct{}{}:
		return nil
	case <-late.C:
		return errBusy
	case <-ctx.Done():
		return ctx.Err()
	}
}

// find looks one stream up.
func (f *finder) find(ctx context.Context, job *Job, name, stream string) (*Found, error) {
	if err := f.take(ctx); err != nil {
		return nil, err
	}
	defer func() { <-f.one }()
	ctx, cancel := context.WithTimeout(ctx, lookTime)
	defer cancel()
	found := &Found{Stream: stream, Predictions: []Predicted{}, Partition: -1, Explain: "eusn-stream explain --job " + quoted(name) + " --last --stream=" + quoted(stream)}
	l := looking{job: job.JS, name: name, most: traceLength, takes: func(p *codec.Prediction) bool { return p.Stream == stream }, part: -1}
	latest, err := watch.ReadLatest(ctx, job.JS, name, stream)
	switch found.Kept = err == nil; {
	case latest != nil:
		found.Latest = latest
		l.part = l.partitionAt(ctx, latest.Position)
	case err == nil: // the stream is new, or there is none of this name
	case ctx.Err() != nil:
		return nil, ctx.Err()
	}
	if l.part < 0 {
		l.part = keyPartition(ctx, job.JS, name, stream)
	}
	if err := l.look(ctx); err != nil {
		return nil, err
	}
	if len(l.found) == 0 && l.part >= 0 && latest == nil { // perhaps one of several streams under another key
		l.part, l.messages, l.bytes = -1, 0, 0
		if err := l.look(ctx); err != nil {
			return nil, err
		}
	}
	found.Read, found.Since, found.All = l.messages, l.since, l.all
	for i := range l.found {
		h := &l.found[i]
		if i > 0 {
			h.p.Scores = nil
		}
		found.Predictions = append(found.Predictions, Predicted{h.stored.UTC(), h.p.Place(), outcome.Named{Answer: &h.p.Answer, Labels: h.labels}})
	}
	if len(l.found) > 0 {
		found.Classes = l.found[0].labels
		found.Partition = l.found[0].part
	}
	return found, nil
}

// keyPartition is the partition of a key, -1 where the job does not say.
func keyPartition(ctx context.Context, js jetstream.JetStream, job, key string) int {
	j, err := admin.Open(ctx, js, job)
	if err != nil {
		return -1
	}
	return j.PartitionOf(key)
}

// looking goes through a job's output, backwards in windows, each forwards.
type looking struct {
	job   jetstream.JetStream
	name  string
	part  int // -1 = all
	most  int // predictions
	limit int // bytes that are read in all; 0 = 2*lookBytes
	takes func(*codec.Prediction) bool

	found    []hit // the newest first
	messages int
	bytes    int
	since    time.Time
	all      bool
}

// hit is a prediction that was looked for.
type hit struct {
	stored time.Time
	part   int
	labels []string
	p      codec.Prediction
}

// partitionAt is that of a message of the output; -1 where it is gone.
func (l *looking) partitionAt(ctx context.Context, seq uint64) int {
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

// look reads windows from the output's end, until there is enough or a limit is reached.
func (l *looking) look(ctx context.Context) error {
	first, last, err := consumer.Kept(ctx, l.job, l.name)
	if err != nil {
		return err
	}
	end, size := last+1, uint64(firstWindow)
	for end > first && len(l.found) < l.most && ctx.Err() == nil && l.messages < lookMessages && l.bytes < lookBytes {
		from := max(first, end-min(size, end))
		whole, err := l.window(ctx, from, end)
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

// window reads the messages from one to before another. Of one that it does not read to
// its end, nothing counts: newer predictions than those that it has found may be behind them.
func (l *looking) window(ctx context.Context, from, end uint64) (whole bool, err error) {
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
			if l.takes(&o.Predictions[i]) {
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
	l.found = append(l.found, hits...)
	l.found = l.found[:min(len(l.found), l.most)]
	return true, nil
}

// names finds streams that predicted lately and hold a text, whatever its case.
func (f *finder) names(ctx context.Context, job *Job, name, part string) (*Names, error) {
	if err := f.take(ctx); err != nil {
		return nil, err
	}
	defer func() { <-f.one }()
	if time.Since(f.readAt) > namesFor {
		if err := f.readNames(ctx, job, name); err != nil {
			return nil, err
		}
	}
	out := &Names{Names: []string{}, Since: f.since.UTC().Format(time.RFC3339)}
	part = strings.ToLower(part)
	for _, stream := range f.read {
		if !strings.Contains(strings.ToLower(stream), part) {
			continue
		}
		if out.More = len(out.Names) == mostMatches; out.More {
			break
		}
		out.Names = append(out.Names, stream)
	}
	return out, nil
}

// readNames reads the end of the output.
func (f *finder) readNames(ctx context.Context, job *Job, name string) error {
	ctx, cancel := context.WithTimeout(ctx, namesTime)
	defer cancel()
	seen := map[string]bool{}
	l := looking{job: job.JS, name: name, part: -1, most: 1, takes: func(p *codec.Prediction) bool {
		if len(seen) < mostStreams {
			seen[strings.ToValidUTF8(p.Stream, "\uFFFD")] = true
		}
		return false
	}}
	first, last, err := consumer.Kept(ctx, job.JS, name)
	if err != nil {
		return err
	}
	for end, size := last+1, uint64(firstWindow); end > first && ctx.Err() == nil && l.bytes < namesBytes && len(seen) < mostStreams; size *= 4 {
		from := max(first, end-min(size, end))
		whole, err := l.window(ctx, from, end)
		if err != nil {
			return err
		}
		if !whole {
			break
		}
		end = from
	}
	f.read, f.readAt, f.since = f.read[:0], time.Now(), l.since
	for stream := range seen {
		f.read = append(f.read, stream)
	}
	slices.Sort(f.read)
	return nil
}
