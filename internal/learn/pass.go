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

// ReadLabels reads all labels that a job has now.
func ReadLabels(ctx context.Context, js jetstream.JetStream, job string) (*Book, error) {
	b := NewBook()
	err := labels.Read(ctx, js, job, "", b.Add, b.AddMalformed)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		return b, nil // nobody has said anything
	}
	return b, err
}

// Pass is one reading of a job's log.
type Pass struct {
	Job      *pipeline.Job
	Whole    bool                      // also for labels that were looked for before
	Progress func(replay.FeaturesDone) // optional
	Begun    func(replay.FeaturesLog)  // optional: the log is about to be read

	// JS, optional, reads the features that predictions carry (pipeline.Worker.Carry),
	// where the log lacks its first messages. Carried, optional, is told how many were
	// taken.
	JS      jetstream.JetStream
	Carried func(sequences int)
}

// Run looks for the sequences that labels are about and keeps their features. Where
// nothing is new, it does not read the log.
func (p Pass) Run(ctx context.Context, s *Store, b *Book) (replay.FeaturesDone, error) {
	f := &finder{store: s, book: b, policy: p.Job.Model.Policy, whole: p.Whole, through: s.Through()}
	f.through.Passed = maps.Clone(f.through.Passed)
	if f.through.Passed == nil {
		f.through.Passed = map[string]int64{}
	}
	done, err := replay.ReadFeatures(ctx, p.Job, replay.Features{
		Stream: func(name string) bool { return f.streams[name] }, Want: f.want, Take: s.Add, Progress: p.Progress,
		Begun: func(log replay.FeaturesLog) (bool, error) {
			if err := s.Begin(About{
				Job: p.Job.Config.WithDefaults().Job, Created: log.Created, Network: log.Network, Settings: log.Settings,
				Features: p.Job.Model.Network.Spec.FeatureCount(),
			}); err != nil {
				return false, err
			}
			read := f.look(log)
			if read && log.First > 1 {
				if err := p.carried(ctx, f, log); err != nil {
					return false, err
				}
				// Of a stream that never ends, the log has only states that lack samples.
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
	f.through.Labels, f.through.Input = b.Last, done.Last
	if done.First > 1 {
		f.through.Gone = done.First - 1
	}
	return done, s.Save(f.through)
}

// finder says which sequences labels are about.
type finder struct {
	store   *Store
	book    *Book
	policy  reservoir.Policy
	whole   bool
	through Through
	streams map[string]bool // to look at
	found   map[at]bool     // places of which a sequence is known
}

// at is a place of a stream.
type at struct {
	stream string
	place
}

// look lists the streams that have to be looked at.
func (f *finder) look(log replay.FeaturesLog) bool {
	f.streams, f.found = map[string]bool{}, map[at]bool{}
	for k := range f.store.entries {
		f.found[at{k.stream, k.place}] = true
	}
	fresh := log.Last > f.through.Input
	for s, d := range f.book.current {
		passed, known := f.through.Passed[s.stream]
		switch {
		case d.number > f.through.Labels || f.whole:
		case !fresh, s.seq != 0 && f.found[at{s.stream, s.place}], s.seq == 0 && known && passed >= s.to:
			continue
		}
		f.streams[s.stream] = true
	}
	for k := range f.store.again {
		f.streams[k.stream] = true
	}
	return len(f.streams) > 0
}

// want reports whether a label is about a sequence whose features are not stored.
func (f *finder) want(q *replay.Sequence) bool {
	latest, known := f.through.Passed[q.Stream]
	if q.Latest > latest || !known {
		f.through.Passed[q.Stream] = q.Latest
	}
	if !replay.Ends(f.policy, q) || f.store.Has(q) {
		return false
	}
	if _, summed := f.store.entries[keyOfSequence(q)]; summed {
		return f.store.again[keyOfSequence(q)]
	}
	a := f.book.of(q.Stream)
	if a == nil {
		return false
	}
	where := at{q.Stream, place{q.Seq, q.Row}}
	named := false
	for _, l := range a.places[where.place] {
		named = named || l.stored >= q.Stored || !f.found[where]
	}
	if named {
		f.found[where] = true
	}
	if !named && q.Earliest != codec.NoTime {
		a.around(q.Earliest, q.Latest, func(Label) { named = true })
	}
	return named
}

// String words how far a store is.
func (t Through) String() string {
	return fmt.Sprintf("label %d and input message %d", t.Labels, t.Input)
}
