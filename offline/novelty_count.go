package offline

import (
	"cmp"
	"slices"
	"sync"

	"github.com/eusn-stream/eusn-stream/internal/judge"
	"github.com/eusn-stream/eusn-stream/readout"
	"github.com/eusn-stream/eusn-stream/reservoir"
)

// NoveltyCount is the evaluation of a detector. Known counts sequences of a class in the training; other sequences
// have classes outside the training.
type NoveltyCount struct {
	Level       float64  `json:"level"` // allowed share of novel predictions among known sequences
	Least       float64  `json:"least"` // the smallest possible p-value
	Novel       int      `json:"novel"` // predictions at or below the level, of all that are counted
	Known       int      `json:"known"` // sequences
	FalseAlarms int      `json:"false_alarms"`
	Unknown     int      `json:"unknown"` // sequences
	Found       int      `json:"found"`   // novel sequences of Unknown
	AUROC       *float64 `json:"auroc"`   // share of pairs of an unknown and a known sequence in which the unknown sequence is more novel; null without both
}

func (ev *Evaluation) novelty(linear *readout.Linear) *NoveltyCount {
	d := linear.Novelty
	if d == nil {
		return nil
	}
	n := &NoveltyCount{Level: float64(d.Level), Least: d.Least()}
	var known, unknown []float32
	for i := range ev.Predictions {
		p := &ev.Predictions[i]
		if !ev.Counts(p) {
			continue
		}
		novel := 0
		if d.Novel(p.NoveltyP) {
			novel = 1
		}
		n.Novel += novel
		switch {
		case p.Unknown || ev.detects && p.Label == 1:
			n.Found += novel
			unknown = append(unknown, p.Novelty)
		case p.Label >= 0:
			n.FalseAlarms += novel
			known = append(known, p.Novelty)
		}
	}
	n.Known, n.Unknown = len(known), len(unknown)
	n.AUROC = auroc(known, unknown)
	return n
}

// judgeSlot adds to seen the result of a readout's detector, if there is one, for a whole sequence with its state in
// a slot. scorers has the unused judge.Scorer values of this readout.
func judgeSlot(seen *readout.Seen, linear *readout.Linear, scorers *sync.Pool, e reservoir.Engine, slot int32) error {
	if linear.Novelty == nil {
		return nil
	}
	scorer, _ := scorers.Get().(*judge.Scorer)
	if scorer == nil {
		scorer = judge.NewScorer(linear.Novelty)
	}
	defer scorers.Put(scorer)
	var score [1]float32
	if n := scorer.Inputs(); n > 0 {
		seen.Inputs = make([]float32, n)
	}
	err := scorer.Score(score[:], seen.Inputs, e, []int32{slot})
	seen.Judged, seen.Novelty = err == nil, score[0]
	return err
}

// auroc is the share of pairs in which the second value is larger, plus half of the equal pairs (Mann and Whitney's
// U); nil without pairs.
func auroc(low, high []float32) *float64 {
	if len(low) == 0 || len(high) == 0 {
		return nil
	}
	low = slices.SortedFunc(slices.Values(low), cmp.Compare)
	won := 0.0
	for _, v := range high {
		below, _ := slices.BinarySearch(low, v)
		equal := 0
		for below+equal < len(low) && low[below+equal] == v {
			equal++
		}
		won += float64(below) + float64(equal)/2
	}
	share := won / float64(len(low)) / float64(len(high))
	return &share
}
