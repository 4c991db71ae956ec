//go:build linux

package main

import (
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/eusn-stream/eusn-stream/codec"
	"github.com/eusn-stream/eusn-stream/readout/outcome"
)

// audit reads the output and expects exactly the truth's predictions, each
// stream in order.
type audit struct {
	want    map[string][]codec.Prediction
	place   map[string]map[ident]int
	next    map[string]int // by stream: how many are accounted for
	first   string         // how predictions may name the job's first readout, or not at all
	commits map[int]commit
	change  handover
	may     may
	gone    map[int]int              // by partition: predictions that Eusn-Outs counts and the output lacks
	times   map[string]map[ident]int // how often each was seen

	seen, lost, duplicated, wrong int
	flagged, excused              int      // with a flag for the fault; missing before such a one, or in a stopped partition
	handed                        int      // claims in the middle of a split commit
	notes                         []string // the first few findings, in words
	workers                       []takeover
}

// ident tells a stream's predictions apart. Those of producers without numbers
// differ by their time; n counts those of samples that were stored again.
type ident struct {
	seq   uint64
	row   uint32
	time  int64
	early bool
	n     int
}

func identOf(p codec.Prediction) ident {
	id := ident{seq: p.Seq, row: p.Row, early: p.Flags&outcome.FlagEarly != 0}
	if p.Seq == 0 {
		id.time = p.Time
	}
	return id
}

// commit is the last one on a partition.
type commit struct {
	outs, in, epoch, generation uint64
	worker                      string
}

// takeover is a change of the worker that commits a partition.
type takeover struct {
	partition int
	at        int64 // ns since the Unix epoch, by the server's clock
}

const maxNotes = 12

func newAudit(want map[string][]codec.Prediction) *audit {
	a := &audit{
		want: want, place: map[string]map[ident]int{}, next: map[string]int{}, commits: map[int]commit{},
		gone: map[int]int{}, times: map[string]map[ident]int{},
	}
	for id, all := range want {
		a.place[id] = make(map[ident]int, len(all))
		a.times[id] = map[ident]int{}
		for i, p := range all {
			k := identOf(p)
			for ; ; k.n++ {
				if _, taken := a.place[id][k]; !taken {
					break
				}
			}
			a.place[id][k] = i
		}
	}
	return a
}

func (a *audit) note(format string, args ...any) {
	if len(a.notes) < maxNotes {
		a.notes = append(a.notes, fmt.Sprintf(format, args...))
	}
}

// fault counts an error that is neither a lost nor a repeated prediction.
func (a *audit) fault(format string, args ...any) {
	a.wrong++
	a.note(format, args...)
}

// commit is what the headers of a message say of its commit; ahead are the messages of a split
// commit that follow.
func (s stored) commit() (c commit, ahead uint64, err error) {
	c.worker = s.header.Get("Eusn-Worker")
	for h, v := range map[string]*uint64{"Eusn-Outs": &c.outs, headerInSeq: &c.in, "Eusn-Ahead": &ahead} {
		if *v, err = s.number(h); err != nil {
			return c, ahead, err
		}
	}
	for h, v := range map[string]*uint64{"Eusn-Epoch": &c.epoch, "Eusn-Generation": &c.generation} {
		if s.header.Get(h) == "" {
			continue
		}
		if *v, err = s.number(h); err != nil {
			return c, ahead, err
		}
	}
	return c, ahead, nil
}

// message takes one message of the output.
func (a *audit) message(s stored) error {
	_, predictions, err := codec.DecodePredictions(s.data)
	if err != nil {
		return fmt.Errorf("chaos: output message %d: %w", s.seq, err)
	}
	if s.partition < 0 {
		if len(predictions) > 0 {
			a.fault("output message %d: %d predictions where the job says what it runs", s.seq, len(predictions))
		}
		return nil
	}
	before := a.commits[s.partition]
	c, ahead, err := s.commit()
	if err != nil {
		return err
	}
	if s.header.Get(headerKind) == "claim" && ahead > 0 {
		a.handed++
	}
	after := a.changed(s, before, c, len(predictions) > 0)
	switch due := before.outs + uint64(len(predictions)); {
	case a.may.Shown && c.outs > due:
		a.gone[s.partition] += int(c.outs - due)
	case c.outs != due:
		a.fault("output message %d: Eusn-Outs is %d after %d with %d predictions", s.seq, c.outs, before.outs, len(predictions))
	}
	if c.in < before.in || c.epoch < before.epoch {
		a.fault("output message %d: input %d epoch %d after input %d epoch %d", s.seq, c.in, c.epoch, before.in, before.epoch)
	}
	if before.worker != "" && c.worker != before.worker {
		a.workers = append(a.workers, takeover{s.partition, s.at.UnixNano()})
	}
	a.commits[s.partition] = c
	for _, p := range predictions {
		a.prediction(s.partition, after, p)
	}
	return nil
}

// flagsLoss reports whether a prediction has a flag of a loss that was not expected and may be.
func (a *audit) flagsLoss(p codec.Prediction) bool {
	if !a.may.Flag || p.Flags&lossFlags == 0 {
		return false
	}
	at, there := a.place[p.Stream][identOf(p)]
	return !there || a.want[p.Stream][at].Flags&lossFlags == 0
}

// find counts a prediction, and finds its place among those that are expected on its stream.
func (a *audit) find(p codec.Prediction) (place int, known bool) {
	k := identOf(p)
	if seen := a.times[p.Stream]; seen != nil {
		k.n = seen[k]
		seen[identOf(p)]++
	}
	place, known = a.place[p.Stream][k]
	if !known && k.n > 0 {
		k.n--
		place, known = a.place[p.Stream][k] // it was expected once less
	}
	return place, known
}

// prediction compares one with what is due on its stream.
func (a *audit) prediction(partition int, after bool, p codec.Prediction) {
	a.seen++
	want, i := a.want[p.Stream], a.next[p.Stream]
	flagged := a.flagsLoss(p)
	j, known := a.find(p)
	switch {
	case !known && flagged:
		a.flagged++
		return
	case !known:
		a.fault("stream %s: a prediction for seq %d row %d that nothing calls for", p.Stream, p.Seq, p.Row)
		return
	case j < i:
		a.duplicated++
		a.note("stream %s: seq %d row %d again", p.Stream, p.Seq, p.Row)
		return
	case j > i && (flagged || a.gone[partition] >= j-i):
		a.excused += j - i
		if !flagged {
			a.gone[partition] -= j - i
		}
	case j > i:
		a.lost += j - i
		a.note("stream %s: seq %d row %d after %d that are missing", p.Stream, p.Seq, p.Row, j-i)
	}
	a.next[p.Stream] = j + 1
	if flagged {
		a.flagged++
		return
	}
	due := want[j]
	if after {
		due = a.change.then[p.Stream][j]
	}
	if p.Readout == a.first {
		p.Readout = ""
	}
	if a.may.lenient() { // the order of stored messages is not compared
		p.Flags &^= outcome.FlagReordered
	}
	if d := difference(p, due); d != "" {
		a.fault("stream %s: seq %d row %d: %s", p.Stream, p.Seq, p.Row, d)
	}
}

// difference says how got differs from want; empty if every bit is the same.
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
	case got.Readout != want.Readout:
		return fmt.Sprintf("readout %q, want %q", got.Readout, want.Readout)
	case math.Float32bits(got.Probability) != math.Float32bits(want.Probability):
		return fmt.Sprintf("probability %v, want %v", got.Probability, want.Probability)
	case got.Flags != want.Flags:
		return fmt.Sprintf("flags %q, want %q", got.Flags, want.Flags)
	case got.Time != want.Time:
		return fmt.Sprintf("time %d, want %d", got.Time, want.Time)
	}
	return ""
}

// finish counts predictions that never came. A stopped partition need not make
// any more.
func (a *audit) finish(partition func(id string) int, stopped stops) {
	for _, id := range slices.Sorted(maps.Keys(a.want)) {
		missing := len(a.want[id]) - a.next[id]
		if missing == 0 {
			continue
		}
		if p := partition(id); stopped[p] != "" {
			a.excused += missing
			continue
		} else if a.gone[p] >= missing {
			a.gone[p] -= missing
			a.excused += missing
			continue
		}
		a.lost += missing
		a.note("stream %s: its last %d predictions are missing", id, missing)
	}
}

// open is how many streams have not made their last prediction yet.
func (a *audit) open(partition func(id string) int, stopped stops) (n int) {
	for id, all := range a.want {
		if a.next[id] < len(all) && stopped[partition(id)] == "" {
			n++
		}
	}
	return n
}

// overtaken reports whether some partition changed hands between two times.
func (a *audit) overtaken(from, to int64) bool {
	return slices.ContainsFunc(a.workers, func(t takeover) bool { return t.at >= from && t.at <= to })
}
