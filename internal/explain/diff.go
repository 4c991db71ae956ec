package explain

import (
	"cmp"
	"context"
	"math"
	"slices"
	"strings"

	"github.com/eusn-stream/eusn-stream/internal/admin"
	"github.com/eusn-stream/eusn-stream/internal/engine"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/state"
	"github.com/eusn-stream/eusn-stream/internal/replay"
	"github.com/eusn-stream/eusn-stream/reservoir"
)

// Diff is the difference between two states of a partition.
type Diff struct {
	Partition int `json:"partition"`
	replay.StatesBetween
	FromReadout string       `json:"from_readout"` // fingerprint of the readout of new sequences
	ToReadout   string       `json:"to_readout"`
	Streams     []StreamDiff `json:"streams"` // differing streams, by key and name
	Same        int          `json:"same"`    // number of equal streams
}

// StreamDiff is the difference between two states of a stream.
type StreamDiff struct {
	Key    string `json:"key"`
	Stream string `json:"stream"`
	// Counts between the two positions; nil if unknown.
	Samples *uint64 `json:"samples,omitempty"`
	Begun   *uint64 `json:"sequences_begun,omitempty"`
	Ended   *uint64 `json:"sequences_ended,omitempty"`

	From *StreamState `json:"from,omitempty"` // nil: the stream did not exist
	To   *StreamState `json:"to,omitempty"`
	// Difference is the Euclidean norm of the difference of h, over all units of the states that
	// are open at both positions; nil if there are none.
	Difference *float64     `json:"difference,omitempty"`
	Units      []UnitChange `json:"units,omitempty"` // largest changes, by magnitude
}

// StreamState is the state of a stream at one position.
type StreamState struct {
	LastSeq   uint64      `json:"last_seq"` // of its key
	Samples   int64       `json:"samples"`  // in the open sequence; window: since its start
	Integrity string      `json:"integrity"`
	Digest    string      `json:"digest"`
	States    []OpenState `json:"states,omitempty"` // open states
}

// OpenState is one of a stream's open states. Overlapping windows have several.
type OpenState struct {
	State   int     `json:"state"`
	Samples uint64  `json:"samples"` // after the model's front end
	Norm    float64 `json:"norm"`    // of h, over all units
	Readout string  `json:"readout"` // fingerprint of the readout that would answer

	h []float32
}

// UnitChange is a unit of a stream's state at both positions.
type UnitChange struct {
	State  int     `json:"state"`
	Member int     `json:"member"`
	Unit   int     `json:"unit"`
	From   float32 `json:"from"`
	To     float32 `json:"to"`
}

// Change returns the increase of the unit.
func (u *UnitChange) Change() float64 { return float64(u.To) - float64(u.From) }

// StatesBetween compares two states of a partition. stream selects a single stream, with its most
// changed units, at most the given number; empty: all streams. The error is from
// replay.CompareStates; with replay.ErrDigest, the result is valid.
func (x *Explainer) StatesBetween(ctx context.Context, from, to replay.AsOf, stream string, units int) (*Diff, error) {
	m, err := x.findModel(ctx, &Found{})
	if err != nil {
		return nil, err
	}
	from.Progress, to.Progress = x.Progress, x.Progress
	b, compareErr := replay.CompareStates(ctx, x.JS, &m.job, from, to)
	if b.To.Encoded == nil {
		return nil, compareErr
	}
	d := &Diff{Partition: from.Partition, StatesBetween: b}
	var before, after map[streamName]*StreamState
	if before, d.FromReadout, err = m.readStreams(b.From.Encoded); err != nil {
		return nil, err
	}
	if after, d.ToReadout, err = m.readStreams(b.To.Encoded); err != nil {
		return nil, err
	}
	d.listDifferences(before, after, stream, units, m.job.Model.Network.Spec)
	return d, compareErr
}

// readStreams returns the streams of a state, by key and name, and the readout of new sequences at
// that time.
func (m *predictionModel) readStreams(encoded []byte) (map[streamName]*StreamState, string, error) {
	known, err := admin.ReadState(encoded)
	if err != nil {
		return nil, "", err
	}
	sh, part, err := state.ShapeIn(encoded)
	if err != nil {
		return nil, "", err
	}
	p, err := state.Decode(encoded, sh, part)
	if err != nil {
		return nil, "", err
	}
	name := func(readout string) string { return cmp.Or(readout, m.name) }
	all := map[streamName]*StreamState{}
	for _, st := range known.Streams {
		all[streamName{st.Key, st.ID}] = &StreamState{LastSeq: st.LastSeq, Samples: st.Samples, Integrity: st.Integrity, Digest: st.Digest}
	}
	spec := m.job.Model.Network.Spec
	layout := engine.LayoutOf(spec)
	for st := range p.Oldest() {
		stream := all[streamName{st.Source.Key, st.ID}]
		for i, row := range st.Rows {
			if row == nil || !st.Seq.Open() {
				continue
			}
			if err := layout.CheckState(spec, row); err != nil {
				return nil, "", err
			}
			open := OpenState{State: i, Samples: layout.Steps(row), Readout: name(p.ReadoutOf(st, i)), h: make([]float32, spec.Members*spec.Units)}
			layout.UnitsOf(spec, row, open.h)
			open.Norm = euclideanNorm(open.h, nil)
			stream.States = append(stream.States, open)
		}
	}
	return all, name(p.Promotion().Readout), nil
}

// streamName names a stream of a partition.
type streamName struct{ key, stream string }

// euclideanNorm returns the norm of a-b, or of a if b is nil. Float64 sums of at most 2^20 squares
// are accurate to ten digits.
func euclideanNorm(a, b []float32) float64 {
	sum := 0.0
	for i, v := range a {
		d := float64(v)
		if b != nil {
			d -= float64(b[i])
		}
		sum += d * d
	}
	return math.Sqrt(sum)
}

// listDifferences lists the differing streams.
func (d *Diff) listDifferences(before, after map[streamName]*StreamState, stream string, units int, spec reservoir.Spec) {
	passed := map[streamName]*replay.Passed{}
	for _, p := range d.StatesBetween.Streams {
		passed[streamName{p.Key, p.Stream}] = p
	}
	names := map[streamName]bool{}
	for _, states := range []map[streamName]*StreamState{before, after} {
		for name := range states {
			names[name] = true
		}
	}
	for name := range passed { // streams that appeared and were forgotten in between
		names[name] = true
	}
	d.Streams = []StreamDiff{}
	for name := range names {
		if stream != "" && name.stream != stream {
			continue
		}
		s := StreamDiff{Key: name.key, Stream: name.stream, From: before[name], To: after[name]}
		p := passed[name]
		if p == nil {
			p = &replay.Passed{}
		}
		if s.isSame() && p.Samples+p.Ended == 0 {
			d.Same++
			continue
		}
		if d.Uncounted == "" {
			s.Samples, s.Begun, s.Ended = &p.Samples, &p.Begun, &p.Ended
		}
		s.computeDifference(units, stream != "", spec)
		d.Streams = append(d.Streams, s)
	}
	slices.SortFunc(d.Streams, func(a, b StreamDiff) int {
		return cmp.Or(strings.Compare(a.Key, b.Key), strings.Compare(a.Stream, b.Stream))
	})
}

// isSame reports whether a stream is equal at both positions.
func (s *StreamDiff) isSame() bool {
	return s.From != nil && s.To != nil && s.From.Digest == s.To.Digest && s.From.Integrity == s.To.Integrity
}

// computeDifference compares the states that are open at both positions.
func (s *StreamDiff) computeDifference(units int, listed bool, spec reservoir.Spec) {
	if s.From == nil || s.To == nil {
		return
	}
	sum, both := 0.0, false
	for _, a := range s.From.States {
		for _, b := range s.To.States {
			if a.State != b.State {
				continue
			}
			n := euclideanNorm(b.h, a.h)
			sum, both = sum+n*n, true
			for i := range a.h {
				if listed && a.h[i] != b.h[i] {
					s.Units = append(s.Units, UnitChange{a.State, i / spec.Units, i % spec.Units, a.h[i], b.h[i]})
				}
			}
		}
	}
	if both {
		sum = math.Sqrt(sum)
		s.Difference = &sum
	}
	slices.SortStableFunc(s.Units, func(a, b UnitChange) int { return cmp.Compare(math.Abs(b.Change()), math.Abs(a.Change())) })
	s.Units = s.Units[:min(len(s.Units), units)]
}
