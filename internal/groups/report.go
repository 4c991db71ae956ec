package groups

import (
	"cmp"
	"fmt"
	"math"
	"slices"
)

// Report says how a readout does on groups that it has not seen.
type Report struct {
	Rule     string   `json:"rule"`
	Groups   []Result `json:"groups"`        // the worst first
	Accuracy float64  `json:"accuracy"`      // share of all sequences that are right
	Mean     float64  `json:"mean_accuracy"` // mean of the groups' accuracies
	// Plain is the leave-one-out accuracy of the same readout where others of the
	// same group are learnt from; nil: not known.
	Plain *float64 `json:"leave_one_out_accuracy,omitempty"`
	// Alone are classes that only one group has.
	Alone []Alone `json:"classes_of_one_group,omitempty"`
	// Across are sequences that are in no group, because their samples are of
	// several.
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

// NewReport sorts groups, and sums them up.
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

// SetPlain says what leave-one-out gives without groups, if that is a number.
func (r *Report) SetPlain(accuracy float64) {
	if !math.IsNaN(accuracy) {
		r.Plain = &accuracy
	}
}

// Flatters is by how much plain leave-one-out is above the accuracy on a group that
// was not seen; false where it is not known.
func (r *Report) Flatters() (float64, bool) {
	if r.Plain == nil {
		return 0, false
	}
	return *r.Plain - r.Accuracy, true
}

// String is the report in a line.
func (r *Report) String() string {
	text := fmt.Sprintf("groups by %s: accuracy %.4f, mean over %d groups %.4f, worst %s with %.4f", r.Rule, r.Accuracy, len(r.Groups), r.Mean, r.Groups[0].Group, r.Groups[0].Accuracy)
	if r.Plain != nil {
		text += fmt.Sprintf("; leave-one-out without groups says %.4f", *r.Plain)
	}
	return text
}
