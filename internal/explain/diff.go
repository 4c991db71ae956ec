package explain

import (
	"cmp"
	"context"
	"math"
	"slices"
	"strings"

	"github.com/eusn-stream/eusn-stream/internal/admin"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/state"
	"github.com/eusn-stream/eusn-stream/internal/replay"
	"github.com/eusn-stream/eusn-stream/reservoir"
)

// Diff is what two states of a partition differ in.
type Diff struct {
	Partition int `json:"partition"`
	replay.StatesBetween
	FromReadout string       `json:"from_readout"` // fingerprint of the one that sequences begin with
	ToReadout   string       `json:"to_readout"`
	Streams     []StreamDiff `json:"streams"` // those that differ, by key and name
	Same        int          `json:"same"`    // streams that do not
}

// StreamDiff is what a stream's states differ in.
type StreamDiff struct {
	Key    string `json:"key"`
	Stream string `json:"stream"`
	// What it got between the two places; nil where that is not known.
	Samples *uint64 `json:"samples,omitempty"`
	Begun   *uint64 `json:"sequences_begun,omitempty"`
	Ended   *uint64 `json:"sequences_ended,omitempty"`

	From *StreamAt `json:"from,omitempty"` // nil: it was not known then
	To   *StreamAt `json:"to,omitempty"`
	// Difference is the Euclidean norm of the difference of h, all units together, of
	// the states that are open in both places; nil where none is.
	Difference *float64 `json:"difference,omitempty"`
	Units      []Unit   `json:"units,omitempty"` // that have changed most, by magnitude
}

// StreamAt is a stream in one of the places.
type StreamAt struct {
	LastSeq   uint64    `json:"last_seq"` // of its key
	Samples   int64     `json:"samples"`  // in the open sequence; window: since it began
	Integrity string    `json:"integrity"`
	Digest    string    `json:"digest"`
	States    []RowDiff `json:"states,omitempty"` // those that are open
}

// RowDiff is one of a stream's states. Windows overlap, and have several.
type RowDiff struct {
	State   int     `json:"state"`
	Samples uint64  `json:"samples"` // behind the model's front end
	Norm    float64 `json:"norm"`    // of h, all units together
	Readout string  `json:"readout"` // fingerprint of the one that would answer

	h []float32
}

// Unit is a unit of a stream's state in both places.
type Unit struct {
	State  int     `json:"state"`
	Member int     `json:"member"`
	Unit   int     `json:"unit"`
	From   float32 `json:"from"`
	To     float32 `json:"to"`
}

// Change is by how much the unit is higher.
func (u *Unit) Change() float64 { return float64(u.To) - float64(u.From) }

// StatesBetween says what two states of a partition differ in. stream is the only one
// that is looked at, with its units that have changed most, so many; empty: all streams.
// The error is of replay.CompareStates; with replay.ErrDigest, the rest is there.
func (x *Explainer) StatesBetween(ctx context.Context, from, to replay.AsOf, stream string, units int) (*Diff, error) {
	m, err := x.models(ctx, &Found{})
	if err != nil {
		return nil, err
	}
	from.Progress, to.Progress = x.Progress, x.Progress
	b, wrong := replay.CompareStates(ctx, x.JS, &m.job, from, to)
	if b.To.Encoded == nil {
		return nil, wrong
	}
	d := &Diff{Partition: from.Partition, StatesBetween: b}
	var was, is map[streamName]*StreamAt
	if was, d.FromReadout, err = m.streams(b.From.Encoded); err != nil {
		return nil, err
	}
	if is, d.ToReadout, err = m.streams(b.To.Encoded); err != nil {
		return nil, err
	}
	d.compare(was, is, stream, units, m.job.Model.Network.Spec)
	return d, wrong
}

// streams are those of a state, by key and name, and the readout that sequences begin
// with then.
func (m *models) streams(encoded []byte) (map[streamName]*StreamAt, string, error) {
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
	all := map[streamName]*StreamAt{}
	for _, st := range known.Streams {
		all[streamName{st.Key, st.ID}] = &StreamAt{LastSeq: st.LastSeq, Samples: st.Samples, Integrity: st.Integrity, Digest: st.Digest}
	}
	spec := m.job.Model.Network.Spec
	layout := spec.Layout()
	for st := range p.Oldest() {
		at := all[streamName{st.Source.Key, st.ID}]
		for i, row := range st.Rows {
			if row == nil || !st.Seq.Open() {
				continue
			}
			if err := layout.CheckState(spec, row); err != nil {
				return nil, "", err
			}
			one := RowDiff{State: i, Samples: layout.Steps(row), Readout: name(p.Answers(st, i)), h: make([]float32, spec.Members*spec.Units)}
			layout.UnitsOf(spec, row, one.h)
			one.Norm = norm(one.h, nil)
			at.States = append(at.States, one)
		}
	}
	return all, name(p.Promotion().Readout), nil
}

// streamName names a stream of a partition.
type streamName struct{ key, stream string }

// norm is that of the difference; of a alone where b is nil. Float64 sums of at most
// 2^20 squares are good to ten digits.
func norm(a, b []float32) float64 {
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

// compare lists the streams that differ.
func (d *Diff) compare(was, is map[streamName]*StreamAt, stream string, units int, spec reservoir.Spec) {
	passed := map[streamName]*replay.Passed{}
	for _, p := range d.StatesBetween.Streams {
		passed[streamName{p.Key, p.Stream}] = p
	}
	names := map[streamName]bool{}
	for _, some := range []map[streamName]*StreamAt{was, is} {
		for name := range some {
			names[name] = true
		}
	}
	for name := range passed { // those that came and were forgotten
		names[name] = true
	}
	d.Streams = []StreamDiff{}
	for name := range names {
		if stream != "" && name.stream != stream {
			continue
		}
		s := StreamDiff{Key: name.key, Stream: name.stream, From: was[name], To: is[name]}
		p := passed[name]
		if p == nil {
			p = &replay.Passed{}
		}
		if s.same() && p.Samples+p.Ended == 0 {
			d.Same++
			continue
		}
		if d.Uncounted == "" {
			s.Samples, s.Begun, s.Ended = &p.Samples, &p.Begun, &p.Ended
		}
		s.difference(units, stream != "", spec)
		d.Streams = append(d.Streams, s)
	}
	slices.SortFunc(d.Streams, func(a, b StreamDiff) int {
		return cmp.Or(strings.Compare(a.Key, b.Key), strings.Compare(a.Stream, b.Stream))
	})
}

// same reports whether a stream is the same in both places.
func (s *StreamDiff) same() bool {
	return s.From != nil && s.To != nil && s.From.Digest == s.To.Digest && s.From.Integrity == s.To.Integrity
}

// difference compares the states that are open in both places.
func (s *StreamDiff) difference(units int, listed bool, spec reservoir.Spec) {
	if s.From == nil || s.To == nil {
		return
	}
	sum, both := 0.0, false
	for _, a := range s.From.States {
		for _, b := range s.To.States {
			if a.State != b.State {
				continue
			}
			n := norm(b.h, a.h)
			sum, both = sum+n*n, true
			for i := range a.h {
				if listed && a.h[i] != b.h[i] {
					s.Units = append(s.Units, Unit{a.State, i / spec.Units, i % spec.Units, a.h[i], b.h[i]})
				}
			}
		}
	}
	if both {
		sum = math.Sqrt(sum)
		s.Difference = &sum
	}
	slices.SortStableFunc(s.Units, func(a, b Unit) int { return cmp.Compare(math.Abs(b.Change()), math.Abs(a.Change())) })
	s.Units = s.Units[:min(len(s.Units), units)]
}
