package trial

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/eusn-stream/eusn-stream/codec"
	"github.com/eusn-stream/eusn-stream/internal/consumer"
	"github.com/eusn-stream/eusn-stream/internal/learn"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/store"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/wire"
	"github.com/eusn-stream/eusn-stream/internal/registry"
	"github.com/eusn-stream/eusn-stream/internal/replay"
	"github.com/eusn-stream/eusn-stream/pipeline"
	"github.com/eusn-stream/eusn-stream/reservoir"
)

// Report says how the shadows of a job did beside the readout that answers now.
type Report struct {
	Job     string   `json:"job"`
	Active  string   `json:"active"` // fingerprint of the readout that answers now
	Labels  int      `json:"labels"` // that count, of the job
	Foreign int      `json:"foreign_messages,omitempty"`
	Shadows []Result `json:"shadows"` // that the job has, and had
}

// Result is a shadow's. All but Others is about predictions that the active readout of
// the Report has answered.
type Result struct {
	Readout     string    `json:"readout"`
	Shadow      bool      `json:"shadow"` // it is one now
	Since       time.Time `json:"since"`
	Until       time.Time `json:"until"` // when the first and the last of its messages were stored
	Predictions uint64    `json:"predictions"`
	Agreeing    uint64    `json:"agreeing"` // of the same class
	Missing     uint64    `json:"missing"`  // that it lacks since its first one in a partition
	Others      uint64    `json:"others"`   // beside another readout, or answered by itself

	// Of sequences with a label that nobody disputes:
	Labelled    int     `json:"labelled"`
	ActiveRight int     `json:"active_right"`
	ShadowRight int     `json:"shadow_right"`
	ActiveOnly  int     `json:"active_only_right"`
	ShadowOnly  int     `json:"shadow_only_right"`
	P           float64 `json:"mcnemar_p"`
	Disputed    int     `json:"disputed"`       // sequences of which people say several things
	Pending     int     `json:"labels_pending"` // about no sequence that it has predicted
}

// Read reads what a job's shadows have predicted, and its labels. only is a shadow's
// fingerprint; empty: all.
func Read(ctx context.Context, js jetstream.JetStream, job, only string) (Report, error) {
	r := &reading{Report: Report{Job: job}, only: only, by: map[string]*shadow{}}
	now, err := pipeline.ShadowsOf(ctx, js, job)
	if err != nil {
		return r.Report, err
	}
	if err := r.ask(ctx, js); err != nil {
		return r.Report, err
	}
	err = consumer.Shadows(ctx, js, job, consumer.Span{From: 1, Stored: true, Skip: func(*consumer.ForeignError) { r.Foreign++ }}, r.take)
	if err != nil && !errors.Is(err, jetstream.ErrStreamNotFound) { // there never was one
		return r.Report, err
	}
	for _, s := range now {
		if only == "" || s.Readout == only {
			r.of(s.Readout).goesOn(r.outs)
		}
	}
	for _, s := range r.by {
		s.judge(r.book, r.policy)
		r.Shadows = append(r.Shadows, s.is)
	}
	slices.SortFunc(r.Shadows, func(a, b Result) int { return strings.Compare(a.Readout, b.Readout) })
	return r.Report, ctx.Err()
}

// Better reports whether a shadow is right more often, with an error probability.
func (r *Result) Better(e float64) (p float64, ok bool) {
	p = Better(r.ActiveOnly, r.ShadowOnly)
	return p, p <= e
}

// NotWorse reports whether a shadow is right less often by less than a margin, with an
// error probability. loss is by how much at most it is.
func (r *Result) NotWorse(e, margin float64) (loss float64, ok bool) {
	if r.Labelled == 0 {
		return 1, false
	}
	loss = Loss(r.Labelled, r.ActiveOnly, r.ShadowOnly, e)
	return loss, loss < margin
}

// reading is a Read at work.
type reading struct {
	Report
	only   string
	begun  string // when the job's output was made: what an earlier life of the job has is passed over
	policy reservoir.Policy
	book   *learn.Book
	by     map[string]*shadow
	outs   []uint64 // how many predictions each partition had before the shadows' were read
}

// ask asks what the job runs and what people say.
func (r *reading) ask(ctx context.Context, js jetstream.JetStream) error {
	out, err := js.Stream(ctx, wire.OutputStream(r.Job))
	if err != nil {
		return fmt.Errorf("trial: %w", err)
	}
	r.begun = wire.CreatedText(out.CachedInfo().Created)
	j, err := store.Open(ctx, js, r.Job)
	if err != nil {
		return err
	}
	for p := range j.Partitions {
		record, err := j.Record(ctx, p)
		if err != nil {
			return err
		}
		r.outs = append(r.outs, record.Outs)
	}
	models, err := registry.Open(ctx, js, r.Job)
	if err != nil {
		return err
	}
	active, err := models.Active(ctx)
	if err != nil {
		return err
	}
	m, _, _, err := models.Model(ctx, active.Fingerprint)
	if err != nil {
		return err
	}
	r.Active, r.policy = active.Fingerprint, m.Policy
	r.book, err = learn.ReadLabels(ctx, js, r.Job)
	if err == nil {
		r.Labels = len(r.book.Labels())
	}
	return err
}

func (r *reading) of(readout string) *shadow {
	if r.by[readout] == nil {
		r.by[readout] = &shadow{is: Result{Readout: readout}, said: map[sequence]said{}, outs: map[int]uint64{}}
	}
	return r.by[readout]
}

// take takes a message of a shadow.
func (r *reading) take(o consumer.ShadowOutput) error {
	if o.Begun != r.begun || r.only != "" && o.Shadow != r.only {
		return nil
	}
	one := r.of(o.Shadow)
	s := &one.is
	s.Missing += o.Missing
	one.outs[o.Partition] = o.Outs
	for i := range o.Predictions {
		p := &o.Predictions[i]
		if p.ActiveReadout != r.Active || p.ActiveReadout == o.Shadow {
			s.Others++
			continue
		}
		s.Predictions++
		if p.Class == p.Active {
			s.Agreeing++
		}
		if s.Since.IsZero() {
			s.Since = o.Stored
		}
		s.Until = o.Stored
		if r.book.Names(p.Stream) && replay.Ends(r.policy, &replay.Sequence{Prediction: p.Prediction}) {
			one.sequence(p, o.Meta.Labels)
		}
	}
	return nil
}

// shadow is one at work.
type shadow struct {
	is      Result
	entries []learn.Entry
	said    map[sequence]said
	outs    map[int]uint64 // number of the last prediction that it has, by partition
}

// goesOn is told that it is a shadow now. What shadows predict is stored before the job's
// own predictions: those that it lacks behind its last one were left out.
func (one *shadow) goesOn(outs []uint64) {
	one.is.Shadow = true
	for part, last := range one.outs {
		if part < len(outs) && outs[part] > last {
			one.is.Missing += outs[part] - last
		}
	}
}

// sequence names one, as learn does.
type sequence struct {
	stream  string
	in, seq uint64
	row     uint32
}

// said is what the two readouts say of it.
type said struct{ active, shadow string }

// sequence keeps one of a stream that labels name.
func (one *shadow) sequence(p *codec.ShadowPrediction, labels []string) {
	latest := p.Time
	if p.Began == codec.NoTime {
		latest = codec.NoTime
	}
	one.entries = append(one.entries, learn.Entry{Stream: p.Stream, In: p.Input, Stored: p.Stored, Seq: p.Seq, Row: p.Row, Flags: p.Flags, Earliest: p.Began, Latest: latest})
	one.said[sequence{p.Stream, p.Input, p.Seq, p.Row}] = said{labels[p.Active], labels[p.Class]}
}

// judge compares with the labels.
func (one *shadow) judge(b *learn.Book, p reservoir.Policy) {
	s := &one.is
	joined := learn.JoinSome(one.entries, b, p)
	for i := range joined.Examples {
		x := &joined.Examples[i]
		says := one.said[sequence{x.Stream, x.In, x.Seq, x.Row}]
		active, shadow := says.active == x.Class, says.shadow == x.Class
		s.Labelled++
		switch {
		case active && shadow:
			s.ActiveRight, s.ShadowRight = s.ActiveRight+1, s.ShadowRight+1
		case active:
			s.ActiveRight, s.ActiveOnly = s.ActiveRight+1, s.ActiveOnly+1
		case shadow:
			s.ShadowRight, s.ShadowOnly = s.ShadowRight+1, s.ShadowOnly+1
		}
	}
	s.P = McNemar(s.ActiveOnly, s.ShadowOnly)
	s.Disputed, s.Pending = joined.Report.Disputes, joined.Report.Pending
}
