package offline

import (
	"context"
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/eusn-stream/eusn-stream/offline/archive"
	"github.com/eusn-stream/eusn-stream/reservoir"
)

// fewTaps is a mixed bank of 1,024 features.
func fewTaps(channels int) reservoir.Spec {
	s := tinyBank(channels)
	s.Members, s.Taps.Members = 8, 8
	return s
}

// manyTones has a number for the name of each series, because letters do not suffice.
func manyTones(train int) *archive.Dataset {
	d := tones(train, 0)
	for i := range d.Series {
		d.Series[i].ID = fmt.Sprint(i)
	}
	return d
}

// The recipe does not depend on the number of series: a model has limits with as many series as features, and with
// one more. With more, the network runs twice; the training's counts include both passes, and each sequence once.
func TestClipJustAboveFeatures(t *testing.T) {
	const features = 1024
	all := manyTones(features + 1)
	all.Series[4].Values[0] = nan
	part := *all
	part.Series = all.Series[:features]
	opt := RetrainOptions{Spec: fewTaps(2), Alphas: []float64{10}}
	below, few := retrained(t, &part, opt)
	var last int64
	above, many, err := Retrain(context.Background(), all, opt, func(done, total int64, _ string) {
		if done < last || done > total {
			t.Errorf("progress %d of %d, after %d", done, total, last)
		}
		last = done
	})
	if err != nil {
		t.Fatal(err)
	}
	if last != 100 {
		t.Errorf("progress ended at %d %%", last)
	}
	if !few.Plan.Kernel || few.Plan.Passes != 1 || many.Plan.Kernel || many.Plan.Passes != 2 || many.Missing != 1 {
		t.Errorf("plans %+v and %+v, %d missing: want one pass and all features kept, then two passes, and one missing value", few.Plan, many.Plan, many.Missing)
	}
	a, b := below.Readouts[0], above.Readouts[0]
	if a.Limit == nil || b.Limit == nil {
		t.Fatal("no limits")
	}
	for j := range a.Limit {
		// 1 %: one series of a thousand, and the changed deviation of a feature.
		if varies := a.Limit[j] < math.MaxFloat32; varies && math.Abs(float64(b.Limit[j]/a.Limit[j])-1) > .01 {
			t.Errorf("feature %d: limit %v of %d series, %v of %d", j, a.Limit[j], features, b.Limit[j], features+1)
		}
	}
	for _, threads := range []int{1, 3} {
		opt.Threads = threads
		if again, _ := retrained(t, all, opt); fingerprint(t, again) != fingerprint(t, above) {
			t.Errorf("%d threads give another model", threads)
		}
	}
}

// All shards clip at the limits of all series: the bits of one job. Weights differ
// by the rounding of sums, as without a clip.
func TestShardsClipAlike(t *testing.T) {
	d, opt := manyTones(1100), RetrainOptions{Spec: fewTaps(2), Alphas: []float64{10}}
	want, report := retrained(t, d, opt)
	m, r := mergedShards(t, shards(t, d, opt, 3))
	a, b := want.Readouts[0], m.Readouts[0]
	if a.Limit == nil || !slices.Equal(a.Limit, b.Limit) || !slices.Equal(a.Center, b.Center) {
		t.Error("the shards have other limits")
	}
	if r.Missing != report.Missing || r.Sequences != report.Sequences {
		t.Errorf("shards report %+v, want %+v", r, report)
	}
	largest := 0.0
	for _, w := range a.Weights {
		largest = max(largest, math.Abs(float64(w)))
	}
	for i, w := range a.Weights {
		if got := b.Weights[i]; math.Abs(float64(got-w)) > 1e-5*largest {
			t.Fatalf("weight %d: %g, of one job %g", i, got, w)
		}
	}
}
