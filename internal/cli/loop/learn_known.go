package loop

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"github.com/eusn-stream/eusn-stream/internal/learn"
	"github.com/eusn-stream/eusn-stream/internal/offline/bridge"
	"github.com/eusn-stream/eusn-stream/offline"
	"github.com/eusn-stream/eusn-stream/offline/archive"
	"github.com/eusn-stream/eusn-stream/reservoir"
)

// known returns the training data of a readout.
func (l *learning) known(book *learn.Book, j learn.JoinResult) bridge.Sequences {
	classes := slices.Sorted(maps.Keys(j.Report.Classes))
	sum := sha256.New()
	enc := json.NewEncoder(sum)
	k := bridge.Sequences{
		Name:    fmt.Sprintf("job %q, labels up to %d, input up to %d", l.conf.Job, book.Last, l.store.Progress().Input),
		Streams: len(j.Report.Streams), Classes: classes, Adaptive: l.opt.adaptive,
		Features: func(i int, row []float32) error { return l.store.ReadFeatures(&j.Examples[i].Entry, row) },
	}
	about, _ := l.store.Origin()
	enc.Encode(about) // a hash accepts any data
	for i := range j.Examples {
		x := &j.Examples[i]
		class, _ := slices.BinarySearch(classes, x.Class)
		k.Sequences = append(k.Sequences, bridge.Sequence{Class: class, Group: x.Group, Samples: x.Samples, Rows: int(x.Rows), Labeled: x.Labeled})
		enc.Encode([]any{x.Stream, x.In, x.Seq, x.Row, x.Class})
	}
	k.Fingerprint = hex.EncodeToString(sum.Sum(nil))
	return k
}

// relearn learns from features, or where some are given up, from sums. examples are the
// sequences of k.
func (l *learning) relearn(ctx context.Context, k bridge.Sequences, examples []learn.Example, o offline.RetrainOptions, progress archive.Progress) (*reservoir.Model, offline.RetrainReport, error) {
	var err error
	if l.store.HasSummed(examples) {
		if k.Sums, err = l.store.SumExamples(ctx, examples, k.Classes); err != nil {
			return nil, offline.RetrainReport{}, err
		}
		k.Kept = l.store.SampleExamples(examples, l.keepFeatures())
	}
	m, report, err := bridge.Update(ctx, l.model, k, o, progress)
	return m, report.(offline.RetrainReport), err
}

// keepFeatures is how many sequences keep their features, and choose the regularization.
func (l *learning) keepFeatures() int {
	if l.opt.keep > 0 {
		return l.opt.keep
	}
	return bridge.MostKept(l.model)
}

// compactFeatures replaces features by sums, with --sums. Sites excluded by --exclude are
// included: the exclusion applies to one readout.
func (l *learning) compactFeatures(ctx context.Context, book *learn.Book) error {
	if l.sumsOf == nil {
		return nil
	}
	all := learn.JoinLabels(l.store, book, l.model.Policy, nil).Examples
	keep := l.store.SampleExamples(all, l.keepFeatures())
	if len(keep) == len(all) {
		l.app.Say("all %d sequences keep their features, by --keep-features: nothing is given up", len(all))
		return nil
	}
	did, err := l.store.Compact(ctx, all, l.sumsOf, keep)
	if err != nil {
		return err
	}
	l.app.Say("features of %d sequences (%.1f MB) are given up for sums: %d groups have sums, features of %d sequences stay", did.Sequences, float64(did.Bytes)/1e6, did.Groups, l.store.Len())
	return nil
}
