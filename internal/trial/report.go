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
	"github.com/eusn-stream/eusn-stream/internal/operate"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/store"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/wire"
	"github.com/eusn-stream/eusn-stream/internal/registry"
	"github.com/eusn-stream/eusn-stream/internal/replay"
	"github.com/eusn-stream/eusn-stream/reservoir"
)

// Report compares the shadows of a job with the readout that answers now.
type Report struct {
	Job     string   `json:"job"`
	Active  string   `json:"active"` // fingerprint of the readout that answers now
	Labels  int      `json:"labels"` // current labels of the job
	Foreign int      `json:"foreign_messages,omitempty"`
	Shadows []Result `json:"shadows"` // present and past shadows
}

// Result is the comparison of one shadow. All fields but Others concern predictions that the active
// readout of the Report has answered.
type Result struct {
	Readout     string    `json:"readout"`
	Shadow      bool      `json:"shadow"` // currently a shadow
	Since       time.Time `json:"since"`
	Until       time.Time `json:"until"` // storage times of the first and the last of its messages
	Predictions uint64    `json:"predictions"`
	Agreeing    uint64    `json:"agreeing"` // of the same class
	Missing     uint64    `json:"missing"`  // predictions without a shadow's prediction since its first in a partition
	Others      uint64    `json:"others"`   // with another answering readout, or answered by this readout

	// Of sequences with an undisputed label:
	Labeled     int     `json:"labeled"`
	ActiveRight int     `json:"active_right"`
	ShadowRight int     `json:"shadow_right"`
	ActiveOnly  int     `json:"active_only_right"`
	ShadowOnly  int     `json:"shadow_only_right"`
	P           float64 `json:"mcnemar_p"`
	Disputed    int     `json:"disputed"`       // sequences with contradicting labels
	Pending     int     `json:"labels_pending"` // without a sequence that the shadow predicted
}

// Read compares a job's shadow predictions with its labels. only is a shadow's fingerprint; empty:
// all.
func Read(ctx context.Context, js jetstream.JetStream, job, only string) (Report, error) {
	r := &reading{Report: Report{Job: job}, only: only, shadows: map[string]*shadow{}}
	now, err := operate.ShadowsOf(ctx, js, job)
	if err != nil {
		return r.Report, err
	}
	if err := r.readJob(ctx, js); err != nil {
		return r.Report, err
	}
	err = consumer.Shadows(ctx, js, job, consumer.Span{From: 1, Stored: true, Skip: func(*consumer.ForeignError) { r.Foreign++ }}, r.addMessage)
	if err != nil && !errors.Is(err, jetstream.ErrStreamNotFound) { // no shadow ever existed
		return r.Report, err
	}
	for _, s := range now {
		if only == "" || s.Readout == only {
			r.shadowOf(s.Readout).markCurrent(r.outs)
		}
	}
	for _, s := range r.shadows {
		s.judge(r.book, r.policy)
		r.Shadows = append(r.Shadows, s.result)
	}
	slices.SortFunc(r.Shadows, func(a, b Result) int { return strings.Compare(a.Readout, b.Readout) })
	return r.Report, ctx.Err()
}

// Better reports whether a shadow is right more often, with an error probability.
func (r *Result) Better(e float64) (p float64, ok bool) {
	p = Better(r.ActiveOnly, r.ShadowOnly)
	return p, p <= e
}

// NotWorse reports whether a shadow's loss of correct answers is less than a margin, with an error
// probability. loss is the upper bound of the loss.
func (r *Result) NotWorse(e, margin float64) (loss float64, ok bool) {
	if r.Labeled == 0 {
		return 1, false
	}
	loss = Loss(r.Labeled, r.ActiveOnly, r.ShadowOnly, e)
	return loss, loss < margin
}

// reading is a running Read.
type reading struct {
	Report
	only    string
	created string // creation of the job's output: messages of an earlier job with the same name are skipped
	policy  reservoir.Policy
	book    *learn.Book
	shadows map[string]*shadow
	outs    []uint64 // number of predictions in each partition before the shadows were read
}

// readJob reads the job's readout and labels.
func (r *reading) readJob(ctx context.Context, js jetstream.JetStream) error {
	out, err := js.Stream(ctx, wire.OutputStream(r.Job))
	if err != nil {
		return fmt.Errorf("trial: %w", err)
	}
	r.created = wire.CreatedText(out.CachedInfo().Created)
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

func (r *reading) shadowOf(readout string) *shadow {
	if r.shadows[readout] == nil {
		r.shadows[readout] = &shadow{result: Result{Readout: readout}, answers: map[sequence]answers{}, outs: map[int]uint64{}}
	}
	return r.shadows[readout]
}

// addMessage adds a message of a shadow.
func (r *reading) addMessage(o consumer.ShadowOutput) error {
	if o.Begun != r.created || r.only != "" && o.Shadow != r.only {
		return nil
	}
	shadow := r.shadowOf(o.Shadow)
	s := &shadow.result
	s.Missing += o.Missing
	shadow.outs[o.Partition] = o.Outs
	for i := range o.Predictions {
		p := &o.Predictions[i]
		if p.Details.ActiveReadout != r.Active || p.Details.ActiveReadout == o.Shadow {
			s.Others++
			continue
		}
		s.Predictions++
		if p.Class == p.Details.Active {
			s.Agreeing++
		}
		if s.Since.IsZero() {
			s.Since = o.Stored
		}
		s.Until = o.Stored
		if r.book.HasStream(p.Stream) && replay.Ends(r.policy, &replay.Sequence{Prediction: *p}) {
			shadow.addSequence(p, o.Meta.Labels)
		}
	}
	return nil
}

// shadow is the state of one shadow.
type shadow struct {
	result  Result
	entries []learn.Entry
	answers map[sequence]answers
	outs    map[int]uint64 // number of the last shadow prediction, by partition
}

// markCurrent marks a present shadow. Shadow predictions are stored before the job's own
// predictions: missing predictions after the shadow's last were skipped.
func (s *shadow) markCurrent(outs []uint64) {
	s.result.Shadow = true
	for part, last := range s.outs {
		if part < len(outs) && outs[part] > last {
			s.result.Missing += outs[part] - last
		}
	}
}

// sequence identifies a sequence, as in package learn.
type sequence struct {
	stream  string
	in, seq uint64
	row     uint32
}

// answers are the classes of the two readouts for a sequence.
type answers struct{ active, shadow string }

// addSequence adds a sequence of a labeled stream.
func (s *shadow) addSequence(p *codec.Prediction, labels []string) {
	d, latest := p.Details, p.Time
	if d.Began == codec.NoTime {
		latest = codec.NoTime
	}
	s.entries = append(s.entries, learn.Entry{Stream: p.Stream, In: d.Input, Stored: d.Stored, Seq: p.Seq, Row: p.Row, Flags: p.Flags, Earliest: d.Began, Latest: latest})
	s.answers[sequence{p.Stream, d.Input, p.Seq, p.Row}] = answers{labels[d.Active], labels[p.Class]}
}

// judge compares the answers with the labels.
func (sh *shadow) judge(b *learn.Book, p reservoir.Policy) {
	s := &sh.result
	joined := learn.JoinSome(sh.entries, b, p)
	for i := range joined.Examples {
		x := &joined.Examples[i]
		answers := sh.answers[sequence{x.Stream, x.In, x.Seq, x.Row}]
		active, shadow := answers.active == x.Class, answers.shadow == x.Class
		s.Labeled++
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
