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

// audit reads the output and expects exactly the predictions of the truth, each stream in
// order.
type audit struct {
	want    map[string][]codec.Prediction
	place   map[string]map[ident]int
	next    map[string]int // by stream: number of predictions found
	first   string         // name of the job's first readout in predictions, or empty
	commits map[int]commit
	change  handover
	may     may
	hidden  map[int]int              // by partition: predictions counted in Eusn-Outs and missing in the output
	times   map[string]map[ident]int // number of copies of each prediction

	total, lost, duplicated, wrong int
	flagged, excused               int      // with a flag for the fault; missing before a flagged prediction, or in a stopped partition
	handed                         int      // claims in the middle of a split commit
	notes                          []string // the first findings, as text
	workers                        []takeover
}

// ident identifies a prediction in a stream. Without producer numbers, the time
// identifies the prediction; n counts the copies of samples that were stored twice.
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

// commit is the last commit on a partition.
type commit struct {
	outs, in, epoch, generation uint64
	ahead                       uint64 // predictions of the next input message
	snapshot, digest            uint64 // last input message of each
	worker                      string
}

// takeover is a change of the worker that commits a partition.
type takeover struct {
	partition int
	time      int64 // ns since the Unix epoch, by the server's clock
}

const maxNotes = 12

func newAudit(want map[string][]codec.Prediction) *audit {
	a := &audit{
		want: want, place: map[string]map[ident]int{}, next: map[string]int{}, commits: map[int]commit{},
		hidden: map[int]int{}, times: map[string]map[ident]int{},
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

func (a *audit) addNote(format string, args ...any) {
	if len(a.notes) < maxNotes {
		a.notes = append(a.notes, fmt.Sprintf(format, args...))
	}
}

// addFault counts an error other than a lost or repeated prediction.
func (a *audit) addFault(format string, args ...any) {
	a.wrong++
	a.addNote(format, args...)
}

// parseCommit returns the commit in the headers of a message.
func (s stored) parseCommit() (c commit, err error) {
	c.worker = s.header.Get("Eusn-Worker")
	for h, v := range map[string]*uint64{"Eusn-Outs": &c.outs, headerInSeq: &c.in, "Eusn-Ahead": &c.ahead} {
		if *v, err = s.parseNumber(h); err != nil {
			return c, err
		}
	}
	for h, v := range map[string]*uint64{"Eusn-Epoch": &c.epoch, "Eusn-Generation": &c.generation, "Eusn-Snap-In-Seq": &c.snapshot, "Eusn-Digest-In-Seq": &c.digest} {
		if s.header.Get(h) == "" {
			continue
		}
		if *v, err = s.parseNumber(h); err != nil {
			return c, err
		}
	}
	return c, nil
}

// checkMessage checks a message of the output.
func (a *audit) checkMessage(s stored) error {
	_, predictions, err := codec.DecodePredictions(s.data)
	if err != nil {
		return fmt.Errorf("chaos: output message %d: %w", s.seq, err)
	}
	if s.partition < 0 {
		if len(predictions) > 0 {
			a.addFault("output message %d: %d predictions in the job's entry", s.seq, len(predictions))
		}
		return nil
	}
	before := a.commits[s.partition]
	c, err := s.parseCommit()
	if err != nil {
		return err
	}
	if s.header.Get(headerKind) == "claim" && c.ahead > 0 {
		a.handed++
	}
	after := a.checkChange(s, before, c, len(predictions) > 0)
	a.checkPosition(s, before, c, len(predictions))
	if before.worker != "" && c.worker != before.worker {
		a.workers = append(a.workers, takeover{s.partition, s.time.UnixNano()})
	}
	a.commits[s.partition] = c
	for _, p := range predictions {
		a.checkPrediction(s.partition, after, p)
	}
	return nil
}

// checkPosition compares the position of a commit of n predictions with that of the
// previous commit.
func (a *audit) checkPosition(s stored, before, c commit, n int) {
	switch due := before.outs + uint64(n); {
	case a.may.Shown && c.outs > due:
		a.hidden[s.partition] += int(c.outs - due)
	case c.outs != due:
		a.addFault("output message %d: Eusn-Outs is %d after %d with %d predictions", s.seq, c.outs, before.outs, n)
	}
	if c.in < before.in || c.epoch < before.epoch {
		a.addFault("output message %d: input %d epoch %d after input %d epoch %d", s.seq, c.in, c.epoch, before.in, before.epoch)
	}
	if !a.may.isLenient() && n == 0 && before.ahead > 0 && (c.in != before.in || c.ahead != before.ahead) {
		a.addFault("output message %d without predictions: input %d and %d predictions ahead after input %d and %d ahead", s.seq, c.in, c.ahead, before.in, before.ahead)
	}
	if c.snapshot > c.digest {
		a.addFault("output message %d: a snapshot after input message %d with a digest after %d", s.seq, c.snapshot, c.digest)
	}
}

// flagsLoss reports whether a prediction has an unexpected but allowed loss flag.
func (a *audit) flagsLoss(p codec.Prediction) bool {
	if !a.may.Flag || p.Flags&lossFlags == 0 {
		return false
	}
	index, known := a.place[p.Stream][identOf(p)]
	return !known || a.want[p.Stream][index].Flags&lossFlags == 0
}

// findPlace counts a prediction and returns its index among the expected predictions of
// the stream.
func (a *audit) findPlace(p codec.Prediction) (place int, known bool) {
	k := identOf(p)
	if counts := a.times[p.Stream]; counts != nil {
		k.n = counts[k]
		counts[identOf(p)]++
	}
	place, known = a.place[p.Stream][k]
	if !known && k.n > 0 {
		k.n--
		place, known = a.place[p.Stream][k] // the expected count is lower
	}
	return place, known
}

// checkPrediction compares a prediction with the next expected prediction of the stream.
func (a *audit) checkPrediction(partition int, after bool, p codec.Prediction) {
	a.total++
	want, i := a.want[p.Stream], a.next[p.Stream]
	flagged := a.flagsLoss(p)
	j, known := a.findPlace(p)
	switch {
	case !known && flagged:
		a.flagged++
		return
	case !known:
		a.addFault("stream %s: unexpected prediction for seq %d row %d", p.Stream, p.Seq, p.Row)
		return
	case j < i:
		a.duplicated++
		a.addNote("stream %s: repeated prediction for seq %d row %d", p.Stream, p.Seq, p.Row)
		return
	case j > i && (flagged || a.hidden[partition] >= j-i):
		a.excused += j - i
		if !flagged {
			a.hidden[partition] -= j - i
		}
	case j > i:
		a.lost += j - i
		a.addNote("stream %s: seq %d row %d after %d missing predictions", p.Stream, p.Seq, p.Row, j-i)
	}
	a.next[p.Stream] = j + 1
	if flagged {
		a.flagged++
		return
	}
	due := want[j]
	if after {
		due = a.change.after[p.Stream][j]
	}
	if p.Readout == a.first {
		p.Readout = ""
	}
	if a.may.isLenient() { // the order of stored messages is not compared
		p.Flags &^= outcome.FlagReordered
	}
	if d := describeDifference(p, due); d != "" {
		a.addFault("stream %s: seq %d row %d: %s", p.Stream, p.Seq, p.Row, d)
	}
}

// describeDifference describes the difference between got and want; empty if every bit is
// equal.
func describeDifference(got, want codec.Prediction) string {
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

// countMissing counts the missing predictions. A stopped partition may lack predictions.
func (a *audit) countMissing(partition func(id string) int, stopped stops) {
	for _, id := range slices.Sorted(maps.Keys(a.want)) {
		missing := len(a.want[id]) - a.next[id]
		if missing == 0 {
			continue
		}
		if p := partition(id); stopped[p] != "" {
			a.excused += missing
			continue
		} else if a.hidden[p] >= missing {
			a.hidden[p] -= missing
			a.excused += missing
			continue
		}
		a.lost += missing
		a.addNote("stream %s: the last %d predictions are missing", id, missing)
	}
}

// countOpen returns the number of streams whose last prediction is still missing.
func (a *audit) countOpen(partition func(id string) int, stopped stops) (n int) {
	for id, all := range a.want {
		if a.next[id] < len(all) && stopped[partition(id)] == "" {
			n++
		}
	}
	return n
}

// wasTakenOver reports whether a partition changed to another worker between two times.
func (a *audit) wasTakenOver(from, to int64) bool {
	return slices.ContainsFunc(a.workers, func(t takeover) bool { return t.time >= from && t.time <= to })
}
