//go:build linux

package main

import (
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/eusn-stream/eusn-stream/codec"
)

// audit walks the output and expects exactly the truth's predictions, each
// stream's in order.
type audit struct {
	want       map[string][]codec.Prediction
	place      map[string]map[ident]int
	next       map[string]int // by stream: how many are accounted for
	partitions int
	commits    map[int]commit

	seen, lost, duplicated, wrong int
	notes                         []string // the first few findings, in words
	workers                       []tenure
}

// ident tells a stream's predictions apart.
type ident struct {
	seq   uint64
	row   uint32
	early bool
}

func identOf(p codec.Prediction) ident { return ident{p.Seq, p.Row, p.Flags&codec.FlagEarly != 0} }

// commit is the last one on a partition.
type commit struct {
	outs, in, epoch uint64
	worker          string
}

// tenure is a change of the worker that commits a partition.
type tenure struct {
	partition int
	at        int64 // ns since the Unix epoch, by the server's clock
}

const maxNotes = 12

func newAudit(want map[string][]codec.Prediction, partitions int) *audit {
	a := &audit{want: want, place: map[string]map[ident]int{}, next: map[string]int{}, commits: map[int]commit{}, partitions: partitions}
	for id, all := range want {
		a.place[id] = make(map[ident]int, len(all))
		for i, p := range all {
			a.place[id][identOf(p)] = i
		}
	}
	return a
}

func (a *audit) note(format string, args ...any) {
	if len(a.notes) < maxNotes {
		a.notes = append(a.notes, fmt.Sprintf(format, args...))
	}
}

// fault counts something wrong that is no lost or repeated prediction.
func (a *audit) fault(format string, args ...any) {
	a.wrong++
	a.note(format, args...)
}

// message takes one message of the output.
func (a *audit) message(s stored) error {
	_, predictions, err := codec.DecodePredictions(s.msg.Data())
	if err != nil {
		return fmt.Errorf("chaos: output message %d: %w", s.seq, err)
	}
	before := a.commits[s.partition]
	c := commit{worker: s.msg.Headers().Get("Eusn-Worker")}
	for h, v := range map[string]*uint64{"Eusn-Outs": &c.outs, headerInSeq: &c.in} {
		if *v, err = s.number(h); err != nil {
			return err
		}
	}
	if s.msg.Headers().Get("Eusn-Epoch") != "" {
		if c.epoch, err = s.number("Eusn-Epoch"); err != nil {
			return err
		}
	}
	if c.outs != before.outs+uint64(len(predictions)) {
		a.fault("output message %d: Eusn-Outs is %d after %d with %d predictions", s.seq, c.outs, before.outs, len(predictions))
	}
	if c.in < before.in || c.epoch < before.epoch {
		a.fault("output message %d: input %d epoch %d after input %d epoch %d", s.seq, c.in, c.epoch, before.in, before.epoch)
	}
	if before.worker != "" && c.worker != before.worker {
		a.workers = append(a.workers, tenure{s.partition, s.at.UnixNano()})
	}
	a.commits[s.partition] = c
	for _, p := range predictions {
		a.prediction(p)
	}
	return nil
}

// prediction compares one with what is due on its stream.
func (a *audit) prediction(p codec.Prediction) {
	a.seen++
	want, i := a.want[p.Stream], a.next[p.Stream]
	j, known := a.place[p.Stream][identOf(p)]
	switch {
	case !known:
		a.fault("stream %s: a prediction for seq %d row %d that nothing calls for", p.Stream, p.Seq, p.Row)
		return
	case j < i:
		a.duplicated++
		a.note("stream %s: seq %d row %d again", p.Stream, p.Seq, p.Row)
		return
	case j > i:
		a.lost += j - i
		a.note("stream %s: seq %d row %d after %d that are missing", p.Stream, p.Seq, p.Row, j-i)
	}
	a.next[p.Stream] = j + 1
	if d := difference(p, want[j]); d != "" {
		a.fault("stream %s: seq %d row %d: %s", p.Stream, p.Seq, p.Row, d)
	}
}

// difference says how got is not want, empty where every bit is the same.
func difference(got, want codec.Prediction) string {
	bits := func(v []float32) (b []uint32) {
		for _, x := range v {
			b = append(b, math.Float32bits(x))
		}
		return b
	}
	switch {
	case got.Class != want.Class || math.Float32bits(got.Score) != math.Float32bits(want.Score):
		return fmt.Sprintf("class %d score %v, want %d and %v", got.Class, got.Score, want.Class, want.Score)
	case !slices.Equal(bits(got.Scores), bits(want.Scores)):
		return fmt.Sprintf("scores %v, want %v", got.Scores, want.Scores)
	case got.Flags != want.Flags:
		return fmt.Sprintf("flags %q, want %q", got.Flags, want.Flags)
	case got.Time != want.Time:
		return fmt.Sprintf("time %d, want %d", got.Time, want.Time)
	}
	return ""
}

// finish counts what never came.
func (a *audit) finish() {
	for _, id := range slices.Sorted(maps.Keys(a.want)) {
		if missing := len(a.want[id]) - a.next[id]; missing > 0 {
			a.lost += missing
			a.note("stream %s: its last %d predictions are missing", id, missing)
		}
	}
}

// overtaken reports whether some partition changed hands between two times.
func (a *audit) overtaken(from, to int64) bool {
	return slices.ContainsFunc(a.workers, func(t tenure) bool { return t.at >= from && t.at <= to })
}
