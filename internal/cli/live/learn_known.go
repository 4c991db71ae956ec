package live

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"github.com/eusn-stream/eusn-stream/offline"
	"github.com/eusn-stream/eusn-stream/pipeline/learn"
)

// known is what a readout is learnt from.
func (l *learning) known(book *learn.Book, j learn.Joined) offline.Known {
	classes := slices.Sorted(maps.Keys(j.Report.Classes))
	sum := sha256.New()
	enc := json.NewEncoder(sum)
	k := offline.Known{
		Name:    fmt.Sprintf("job %q, labels up to %d, input up to %d", l.conf.Job, book.Last, l.store.Through().Input),
		Streams: len(j.Report.Streams), Classes: classes,
		Features: func(i int, row []float32) error { return l.store.Features(&j.Examples[i].Entry, row) },
	}
	about, _ := l.store.About()
	enc.Encode(about) // into a hash, which takes all
	for i := range j.Examples {
		x := &j.Examples[i]
		class, _ := slices.BinarySearch(classes, x.Class)
		k.Sequences = append(k.Sequences, offline.KnownSequence{Class: class, Group: x.Group, Samples: x.Samples, Rows: int(x.Rows)})
		enc.Encode([]any{x.Stream, x.In, x.Seq, x.Row, x.Class})
	}
	k.Fingerprint = hex.EncodeToString(sum.Sum(nil))
	return k
}
