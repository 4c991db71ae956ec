package learn

import (
	"context"
	"errors"
	"fmt"
	"maps"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/eusn-stream/eusn-stream/codec"
	"github.com/eusn-stream/eusn-stream/internal/labels"
	"github.com/eusn-stream/eusn-stream/internal/replay"
	"github.com/eusn-stream/eusn-stream/pipeline"
	"github.com/eusn-stream/eusn-stream/reservoir"
)

// ReadLabels reads the current labels of a job.
func ReadLabels(ctx context.Context, js jetstream.JetStream, job string) (*Book, error) {
	b := NewBook()
	err := labels.Read(ctx, js, job, "", b.AddLabel, b.AddMalformed)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		return b, nil // no label exists
	}
	return b, err
}

// Pass is one reading of a job's log.
type Pass struct {
	Job      *pipeline.Job
	Whole    bool                      // includes labels that were searched before
	Progress func(replay.FeaturesDone) // optional
	Begun    func(replay.FeaturesLog)  // optional: called before the log is read

	// JS, optional, enables reading features that predictions carry (pipeline.Worker.Carry) if the
	// log lacks its first messages. Carried, optional, receives the number of stored sequences.
	JS      jetstream.JetStream
	Carried func(sequences int)
}

// Run searches for the labels' sequences and stores their features. It does not read the log if
// nothing is new.
func (p Pass) Run(ctx context.Context, s *Store, b *Book) (replay.FeaturesDone, error) {
	f := &finder{store: s, book: b, policy: p.Job.Model.Policy, all: p.Whole, progress: s.Progress()}
	f.progress.Passed = maps.Clone(f.progress.Passed)
	if f.progress.Passed == nil {
		f.progress.Passed = map[string]int64{}
	}
	done, err := replay.ReadFeatures(ctx, p.Job, replay.Features{
		Stream: func(name string) bool { return f.streams[name] }, Want: f.wantsSequence, Take: s.AddSequence, Progress: p.Progress,
		Begun: func(log replay.FeaturesLog) (bool, error) {
			if err := s.BindTo(Origin{
				Job: p.Job.Config.WithDefaults().Job, Created: log.Created, Network: log.Network, Settings: log.Settings,
				Features: p.Job.Model.Network.Spec.FeatureCount(),
			}); err != nil {
				return false, err
			}
			read := f.selectStreams(log)
			if read && log.First > 1 {
				if err := p.readCarried(ctx, f, log); err != nil {
					return false, err
				}
				// For endless streams, the log has only states with missing samples.
				read = f.policy.Kind != reservoir.Endless
			}
			if read && p.Begun != nil {
				p.Begun(log)
			}
			return read, nil
		},
	})
	if err != nil {
		return done, err
	}
	f.progress.Labels, f.progress.Input = b.Last, done.Last
	if done.First > 1 {
		f.progress.Gone = done.First - 1
	}
	return done, s.Save(f.progress)
}

// finder decides which sequences have labels.
type finder struct {
	store    *Store
	book     *Book
	policy   reservoir.Policy
	all      bool
	progress Progress
	streams  map[string]bool           // to be read
	found    map[streamPrediction]bool // predictions with a known sequence
}

// streamPrediction identifies a prediction of a stream.
type streamPrediction struct {
	stream string
	predictionID
}

// selectStreams lists the streams to be read.
func (f *finder) selectStreams(log replay.FeaturesLog) bool {
	f.streams, f.found = map[string]bool{}, map[streamPrediction]bool{}
	for k := range f.store.entries {
		f.found[streamPrediction{k.stream, k.predictionID}] = true
	}
	fresh := log.Last > f.progress.Input
	for s, d := range f.book.current {
		passed, known := f.progress.Passed[s.stream]
		switch {
		case d.number > f.progress.Labels || f.all:
		case !fresh, s.seq != 0 && f.found[streamPrediction{s.stream, s.predictionID}], s.seq == 0 && known && passed >= s.to:
			continue
		}
		f.streams[s.stream] = true
	}
	for k := range f.store.needed {
		f.streams[k.stream] = true
	}
	return len(f.streams) > 0
}

// wantsSequence reports whether a sequence has a label but no stored features.
func (f *finder) wantsSequence(q *replay.Sequence) bool {
	// A sample of the future does not end the search for labels by time.
	latest, known := f.progress.Passed[q.Stream]
	if now := min(q.Latest, q.Stored); now > latest || !known {
		f.progress.Passed[q.Stream] = now
	}
	if !replay.Ends(f.policy, q) || f.store.HasFeatures(q) {
		return false
	}
	if _, summed := f.store.entries[keyOfSequence(q)]; summed {
		return f.store.needed[keyOfSequence(q)]
	}
	a := f.book.labelsOf(q.Stream)
	if a == nil {
		return false
	}
	id := streamPrediction{q.Stream, predictionID{q.Seq, q.Row}}
	named := false
	for _, l := range a.places[id.predictionID] {
		named = named || l.stored >= q.Stored || !f.found[id]
	}
	if named {
		f.found[id] = true
	}
	if !named && q.Earliest != codec.NoTime {
		a.eachCovering(q.Earliest, q.Latest, func(Label) { named = true })
	}
	return named
}

// String describes the progress.
func (t Progress) String() string {
	return fmt.Sprintf("label %d and input message %d", t.Labels, t.Input)
}
