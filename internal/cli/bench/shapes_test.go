package bench

import (
	"slices"
	"testing"

	"github.com/eusn-stream/eusn-stream/reservoir"
)

// Every default shape makes an engine, and a bank's inputs are those asked
// for.
func TestBenchShapes(t *testing.T) {
	o := benchOptions{}
	for _, s := range o.shapes(benchKind{}) {
		net, err := reservoir.Draw(s.spec())
		if err != nil || net.Spec.Inputs() != s.inputs {
			t.Errorf("%+v: %d inputs, %v", s, net.Spec.Inputs(), err)
		}
	}
	o = benchOptions{bank: 3, inputs: []int{2, 8}, streams: []int{1, 2, 3}}
	if all := o.shapes(benchKind{slow: true}); len(all) != 6 || all[5] != (benchShape{3, 50, 8, 3, 32, false}) {
		t.Errorf("shapes %+v", all)
	}
	b, err := newEngineBench(benchKind{open: func(net *reservoir.Network, slots, _ int) (reservoir.Engine, error) {
		return reservoir.NewGeneric(net, slots)
	}}, benchShape{0, 4, 1, 100, 1, true}, 1)
	if err != nil {
		t.Fatal(err)
	}
	var slots []int32
	for _, r := range b.runs {
		slots = append(slots, r.Slot)
	}
	if slices.IsSorted(slots) {
		t.Error("random order is in order")
	}
	slices.Sort(slots)
	if len(slices.Compact(slots)) != 100 {
		t.Error("random order leaves streams out")
	}
}

func TestMedian(t *testing.T) {
	if median([]float64{4, 1, 3, 2}) != 3 || median(nil) != 0 {
		t.Error("medians are wrong")
	}
}
