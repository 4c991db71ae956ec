package adaptive

import "fmt"

// Walk is the acting share of sets, moved by each label.
type Walk struct {
	level, rate    float64
	labels, missed int
}

// New starts a walk at the level of a readout's sets, with the given rate. Both are above 0
// and below 1. A larger rate follows changes sooner, and moves more without a change.
func New(level, rate float64) (*Walk, error) {
	switch {
	case !(level > 0 && level < 1):
		return nil, fmt.Errorf("adaptive: level %v, want a share above 0 and below 1", level)
	case !(rate > 0 && rate < 1):
		return nil, fmt.Errorf("adaptive: rate %v, want a number above 0 and below 1, such as 0.01", rate)
	}
	return &Walk{level: level, rate: rate}, nil
}

// Label takes the next label: whether the true class was in the set.
func (w *Walk) Label(held bool) {
	if w.labels++; !held {
		w.missed++
	}
}

// Share returns the share of the next set: of sets without the true class. The share may be
// below 0 or above 1.
func (w *Walk) Share() float64 {
	aim := 1 - w.level
	return aim + float64(w.rate*(float64(aim*float64(w.labels))-float64(w.missed)))
}

// Bound returns the maximum distance of the share of missed labels from 1 - level, if late
// labels were missing when a set was made. labels is above 0.
func (w *Walk) Bound(late int) float64 {
	return (max(w.level, 1-w.level) + (float64(late)+1)*w.rate) / (w.rate * float64(w.labels))
}

// Threshold returns the smallest probability of a class in a set at a share; the model's
// threshold is least at 1 - level. Above 1: the set is empty.
func Threshold(least, level, share float64) float64 {
	const none = 2
	switch {
	case share <= 0:
		return 0
	case share >= 1:
		return none
	}
	aim := 1 - level
	in := float64(float64(least*share) * level)
	out := float64(float64((1-least)*(1-share)) * aim)
	return in / (in + out)
}

// Report describes the benefit of adapting.
type Report struct {
	Level    float64 `json:"level"`
	Rate     float64 `json:"rate"`
	Late     int     `json:"label_delay"` // labels missing when a set was made
	Samples  int     `json:"samples"`
	Coverage float64 `json:"coverage"`         // share of sets that held the true class
	Size     float64 `json:"mean_size"`        // classes of a set
	Bound    float64 `json:"bound"`            // |Coverage - Level| is at most Bound, for any data
	Fixed    float64 `json:"coverage_without"` // of sets at Level throughout
	FixSize  float64 `json:"mean_size_without"`
	Share    float64 `json:"share"` // acting share of the next set; below 0: all classes are in the set, above 1: none
}

// String returns a one-line summary.
func (r *Report) String() string {
	at := fmt.Sprintf("%.4g", 1-r.Share)
	switch {
	case r.Share <= 0:
		at = "1, all classes in every set"
	case r.Share >= 1:
		at = "0, no class in any set"
	}
	return fmt.Sprintf("coverage %.4f of %d labels at rate %g, %.3f classes in the mean; whatever the data, within %.4f of %v; without adapting %.4f, %.3f classes; now at level %s",
		r.Coverage, r.Samples, r.Rate, r.Size, r.Bound, r.Level, r.Fixed, r.FixSize, at)
}

// Run passes through n predictions and their labels: set makes the set of prediction i at a
// share, and returns whether the set holds the true class, and its number of classes.
func Run(level, rate float64, late, n int, set func(i int, share float64) (held bool, size int)) (*Report, error) {
	w, err := New(level, rate)
	if err == nil {
		err = checkRun(late, n)
	}
	if err != nil {
		return nil, err
	}
	r := &Report{Level: level, Rate: rate, Late: late, Samples: n}
	held := make([]bool, n)
	was, sizes, fixed, fixedSizes := 0, 0, 0, 0
	for i := range n {
		if i > late {
			w.Label(held[i-late-1])
		}
		at, size := set(i, w.Share())
		held[i], sizes = at, sizes+size
		if at {
			was++
		}
		if at, size = set(i, 1-level); at {
			fixed++
		}
		fixedSizes += size
	}
	for _, one := range held[max(0, n-late-1):] {
		w.Label(one)
	}
	of := func(count int) float64 { return float64(count) / float64(n) }
	r.Coverage, r.Size, r.Fixed, r.FixSize = of(was), of(sizes), of(fixed), of(fixedSizes)
	r.Bound, r.Share = w.Bound(late), w.Share()
	return r, nil
}

// checkRun reports errors in the numbers of late labels and of labels.
func checkRun(late, n int) error {
	switch {
	case late < 0:
		return fmt.Errorf("adaptive: %d labels late, want 0 or more", late)
	case n < 1:
		return fmt.Errorf("adaptive: no prediction with a label, want at least one")
	}
	return nil
}
