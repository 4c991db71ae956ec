package offline

import (
	"fmt"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/eusn-stream/eusn-stream/internal/groups"
	"github.com/eusn-stream/eusn-stream/internal/testing/archivetest"
	"github.com/eusn-stream/eusn-stream/offline/archive"
	"github.com/eusn-stream/eusn-stream/reservoir"
)

// tonesBy is tones as a recording: series s-Aa, s-Ba, ... as streams. Only streams selected by keep are written.
func tonesBy(t *testing.T, keep func(id string) bool) string {
	t.Helper()
	d := tones(60, 0)
	d.Series = slices.DeleteFunc(d.Series, func(s archive.Series) bool { return !keep(s.ID) })
	return record(t, d, archive.Train, true)
}

// Training on a part equals training on a recording with only this part, to the bit; and the evaluation counts only
// the other part.
func TestPartOfARecording(t *testing.T) {
	first := func(id string) bool { return id[2] <= 'P' }
	whole, part, rest := tonesBy(t, func(string) bool { return true }), tonesBy(t, first), tonesBy(t, func(id string) bool { return !first(id) })
	parts := &groups.Parts{Rule: "^s-(.)", Train: strings.Split("ABCDEFGHIJKLMNOP", ""), Test: strings.Split("QRSTUVWXYZ", "")}
	for _, p := range []reservoir.Policy{{Kind: reservoir.Marked}, {Kind: reservoir.Window, Length: 16, Hop: 8}} {
		opt := RetrainOptions{Spec: smallBank(2), Policy: p, Groups: "^s-(.)"}
		want, wr, err := retrainRecording(t.Context(), part, opt, nil)
		if err != nil {
			t.Fatal(err)
		}
		opt.Parts, opt.Groups = encoded(t, parts), "" // parts have a rule
		got, gr, err := retrainRecording(t.Context(), whole, opt, nil)
		if err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(got.Readouts, want.Readouts) || !reflect.DeepEqual(got.Network, want.Network) || !reflect.DeepEqual(got.Training.Inputs, want.Training.Inputs) ||
			!reflect.DeepEqual(gr.ByGroup, wr.ByGroup) || gr.Sequences != wr.Sequences || len(gr.ByGroup.Groups) != 16 {
			t.Errorf("%s: trained on a part: %+v, on a recording of it %+v", p.Kind, gr, wr)
		}
		for split, alone := range map[archive.Split]string{"": rest, archive.Test: rest, archive.Train: part} {
			ev, err := evaluateRecording(t.Context(), got, whole, EvaluateOptions{Parts: encoded(t, parts), Split: split}, nil)
			if err != nil {
				t.Fatal(err)
			}
			of, err := evaluateRecording(t.Context(), got, alone, EvaluateOptions{Groups: parts.Rule}, nil)
			if err != nil {
				t.Fatal(err)
			}
			if ev.Split == "" || ev.Labeled != of.Labeled || ev.Correct != of.Correct || ev.Labeled == 0 || !reflect.DeepEqual(ev.ByGroup, of.ByGroup) {
				t.Errorf("%s, %s part: %d of %d right, %+v; alone %d of %d, %+v", p.Kind, ev.Split, ev.Correct, ev.Labeled, ev.ByGroup, of.Correct, of.Labeled, of.ByGroup)
			}
		}
	}
	parts = &groups.Parts{Rule: "^s-(.)", Train: []string{"A", "B"}, Test: []string{"C"}}
	opt := RetrainOptions{Spec: smallBank(2), Parts: encoded(t, parts)}
	_, _, err := retrainRecording(t.Context(), whole, opt, nil)
	archivetest.WantError(t, err, `group "D" of stream "s-Da" is in no part: add it to train or to test`)
	parts.Rule = "^s-([A-C])"
	opt.Parts = encoded(t, parts)
	_, _, err = retrainRecording(t.Context(), whole, opt, nil)
	archivetest.WantError(t, err, `stream "s-Da" is in no group: it does not match ^s-([A-C])`)
	opt.Groups = "stream"
	_, _, err = retrainRecording(t.Context(), whole, opt, nil)
	archivetest.WantError(t, err, "groups by stream, and parts by ^s-([A-C]): want one rule")
}

// A part may be some days of every stream: other days are hidden in place.
func TestPartOfDays(t *testing.T) {
	path := fleet(t, 4)
	parts := &groups.Parts{Rule: "day", Train: []string{"2026-03-01", "2026-03-02", "2026-03-05"}, Test: []string{"2026-03-03", "2026-03-04"}}
	m, r, err := retrainRecording(t.Context(), path, RetrainOptions{Spec: smallBank(1), Parts: encoded(t, parts)}, nil)
	if err != nil {
		t.Fatal(err)
	}
	ev, err := evaluateRecording(t.Context(), m, path, EvaluateOptions{Parts: encoded(t, parts)}, nil)
	if err != nil {
		t.Fatal(err)
	}
	// Halls 0 and 1 have eleven whole sequences a stream, like halls 2 and 3; the last of hall 1 begins in one part
	// and ends in the other.
	if r.Sequences != 44 || len(r.ByGroup.Groups) != 2 || ev.Labeled != 44+2 || ev.ByGroup.Across != 2 {
		t.Errorf("learned from %d sequences of %+v, tested %d of %+v", r.Sequences, r.ByGroup, ev.Labeled, ev.ByGroup)
	}
}

// A data set is redivided, whatever its own parts are.
func TestPartsOfADataSet(t *testing.T) {
	d := tones(40, 20)
	parts := &groups.Parts{Rule: "^s-(.)", Train: strings.Split("ACEGIKMOQSUWYZ", ""), Test: strings.Split("BDFHJLNPRTVX", "")}
	by := tones(40, 20)
	for i := range by.Series {
		s := &by.Series[i]
		if s.Split = archive.Test; slices.Contains(parts.Train, s.ID[2:3]) {
			s.Split = archive.Train
		}
	}
	rule := parsedRule(t, parts.Rule)
	want, _ := retrained(t, by, RetrainOptions{Spec: smallBank(2), Groups: rule.String()})
	got, _ := retrained(t, d, RetrainOptions{Spec: smallBank(2), Parts: encoded(t, parts)})
	if fingerprint(t, got) != fingerprint(t, want) {
		t.Error("another model than that of a data set with these parts")
	}
	a, b := evaluated(t, got, d, EvaluateOptions{Parts: encoded(t, parts)}), evaluated(t, got, by, EvaluateOptions{Groups: rule.String()})
	if !reflect.DeepEqual(a, b) {
		t.Errorf("%+v, want %+v", a, b)
	}
	d.Series[0].ID = "t-Aa"
	_, _, err := Retrain(t.Context(), d, RetrainOptions{Spec: smallBank(2), Parts: encoded(t, parts)}, nil)
	archivetest.WantError(t, err, `series "t-Aa" is in no group`)
	_, err = RetrainShard(t.Context(), d, RetrainOptions{Spec: smallBank(2), Parts: encoded(t, parts)}, Shard{1, 2}, filepath.Join(t.TempDir(), "s"), nil)
	archivetest.WantError(t, err, "a group has sequences in several shards")
}

func TestGroupSizes(t *testing.T) {
	rule := parsedRule(t, "^(hall.)")
	sizes, err := countDataGroups(t.Context(), archive.RecordingFiles{Paths: []string{fleet(t, 3)}}, rule)
	want := []groups.Size{}
	for _, hall := range []string{"hall0", "hall1", "hall2"} {
		want = append(want, groups.Size{Group: hall, Classes: map[string]int64{"fast": 240, "slow": 240}})
	}
	if err != nil || !reflect.DeepEqual(sizes, want) {
		t.Errorf("%v, %v", sizes, err)
	}
	_, err = countDataGroups(t.Context(), archive.RecordingFiles{Paths: []string{fleet(t, 3)}}, parsedRule(t, "^(hall[01])"))
	archivetest.WantError(t, err, `stream "hall2-p0" is in no group`)
	d := tones(6, 3)
	d.Series[1].Label = -1
	_, err = countDataGroups(t.Context(), d, parsedRule(t, "^s-([A-C])?"))
	archivetest.WantError(t, err, `series "s-Da" is in no group`)
	sizes, err = countDataGroups(t.Context(), d, parsedRule(t, "stream"))
	if err != nil || len(sizes) != 8 || !reflect.DeepEqual(sizes[0], groups.Size{Group: "s-Aa", Classes: map[string]int64{"high": 1}}) {
		t.Errorf("%v, %v", sizes, err)
	}
}

// With labels of predictions, all samples count as input, except the samples of the other part.
func TestPartWithLabelsOfPredictions(t *testing.T) {
	path := filepath.Join(t.TempDir(), "r")
	writeRecorded(t, path, 0, 800, func(int) bool { return false }, nil)
	var told strings.Builder
	told.WriteString("stream,seq,row,label\n")
	for i := range 800 {
		if i/2%10 == 9 {
			fmt.Fprintf(&told, "s%d,%d,0,%s\n", i%2, i/2+1, []string{"low", "high"}[i/20%2])
		}
	}
	l, err := labelsOf(t, told.String())
	if err != nil {
		t.Fatal(err)
	}
	from := archive.RecordingFiles{Paths: []string{path}, Labels: l}
	sizes, err := countDataGroups(t.Context(), from, parsedRule(t, "stream"))
	if err != nil || len(sizes) != 2 || sizes[1].All() != 40 {
		t.Errorf("%+v, %v", sizes, err)
	}
	parts := &groups.Parts{Rule: "stream", Train: []string{"s0"}, Test: []string{"s1"}}
	opt := RetrainOptions{Spec: smallBank(2), Parts: encoded(t, parts)}
	_, _, err = Retrain(t.Context(), from, opt, nil)
	archivetest.WantError(t, err, `of the one group "s0" by stream`)
	parts = &groups.Parts{Rule: "eusn_row", Train: []string{"0"}, Test: []string{"1"}} // nothing is hidden
	_, _, err = Retrain(t.Context(), from, RetrainOptions{Spec: smallBank(2), Parts: encoded(t, parts)}, nil)
	archivetest.WantError(t, err, `of the one group "0" by eusn_row`)

	src, err := openLabeled(t.Context(), from, "", nil)
	if err != nil {
		t.Fatal(err)
	}
	part, err := inPart(src.sampleSource, 2, &groups.Parts{Rule: "stream", Train: []string{"s0"}, Test: []string{"s1"}}, archive.Train)
	if err != nil {
		t.Fatal(err)
	}
	seen, labels := newInputs(2), 0
	if err := part.read(t.Context(), func(p *chunk) error {
		seen.add(p)
		for _, label := range p.told {
			if label >= 0 {
				labels++
			}
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if n := seen.statistics.Ranges()[0].Values; n != 400 || labels != 40 {
		t.Errorf("%d samples are inputs and %d predictions are labeled, want the 400 and 40 of one stream", n, labels)
	}
}
