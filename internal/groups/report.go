package groups

import (
	"cmp"
	"fmt"
	"math"
	"slices"
)

// Report describes a readout on groups that it has not seen.
type Report struct {
	Rule     string   `json:"rule"`
	Groups   []Result `json:"groups"`        // the worst first
	Accuracy float64  `json:"accuracy"`      // share of right predictions over all sequences
	Mean     float64  `json:"mean_accuracy"` // mean of the groups' accuracies
	// Plain is the leave-one-out accuracy of the same readout if training includes other
	// sequences of the same group; nil: not known.
	Plain *float64 `json:"leave_one_out_accuracy,omitempty"`
	// Alone lists classes that only one group has.
	Alone []Alone `json:"classes_of_one_group,omitempty"`
	// Across is the number of sequences in no group, because their samples belong to several.
	Across int `json:"sequences_across_groups,omitzero"`
}

// Result is a group.
type Result struct {
	Group     string  `json:"group"`
	Sequences int     `json:"sequences"`
	Correct   int     `json:"correct"`
	Accuracy  float64 `json:"accuracy"`
}

// Alone is a class that only one group has.
type Alone struct {
	Class     string `json:"class"`
	Group     string `json:"group"`
	Sequences int    `json:"sequences"`
}

// NewReport sorts groups and computes the totals.
func NewReport(rule *Rule, all []Result) *Report {
	r := &Report{Rule: rule.String(), Groups: all}
	correct, sequences := 0, 0
	for i := range all {
		g := &all[i]
		g.Accuracy = float64(g.Correct) / float64(g.Sequences)
		r.Mean += g.Accuracy / float64(len(all))
		correct, sequences = correct+g.Correct, sequences+g.Sequences
	}
	if sequences > 0 {
		r.Accuracy = float64(correct) / float64(sequences)
	}
	slices.SortFunc(all, func(a, b Result) int {
		return cmp.Or(cmp.Compare(a.Accuracy, b.Accuracy), cmp.Compare(b.Sequences, a.Sequences), cmp.Compare(a.Group, b.Group))
	})
	return r
}

// SetPlain sets the leave-one-out accuracy without groups, if a number.
func (r *Report) SetPlain(accuracy float64) {
	if !math.IsNaN(accuracy) {
		r.Plain = &accuracy
	}
}

// Flatters returns the excess of plain leave-one-out over the accuracy on unseen groups; false
// if not known.
func (r *Report) Flatters() (float64, bool) {
	if r.Plain == nil {
		return 0, false
	}
	return *r.Plain - r.Accuracy, true
}

// String returns the report in one line.
func (r *Report) String() string {
	text := fmt.Sprintf("groups by %s: accuracy %.4f, mean over %d groups %.4f, worst %s with %.4f", r.Rule, r.Accuracy, len(r.Groups), r.Mean, r.Groups[0].Group, r.Groups[0].Accuracy)
	if r.Plain != nil {
		text += fmt.Sprintf("; leave-one-out without groups says %.4f", *r.Plain)
	}
	return text
}
