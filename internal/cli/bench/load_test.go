package bench

import (
	"slices"
	"testing"
	"time"

	"github.com/eusn-stream/eusn-stream/codec"
	"github.com/eusn-stream/eusn-stream/pipeline/consumer"
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

func TestArrivals(t *testing.T) {
	g := &arrivals{due: map[string][]time.Time{}, left: 3, all: make(chan struct{})}
	now := time.Now()
	g.expect("a", now.Add(-3*time.Second))
	g.expect("a", now.Add(-time.Second))
	g.expect("b", now.Add(-2*time.Second))
	take := func(stream string) error {
		return g.take(consumer.Output{Predictions: []codec.Prediction{{Stream: stream}}})
	}
	for _, s := range []string{"a", "b", "a"} {
		select {
		case <-g.all:
			t.Fatal("complete too early")
		default:
		}
		if err := take(s); err != nil {
			t.Fatal(err)
		}
	}
	<-g.all
	if err := take("a"); err == nil {
		t.Error("a prediction of nothing passed")
	}
	ms := g.sorted(1500 * time.Millisecond) // after the first second and a half: only the last
	if len(ms) != 1 || ms[0] < 1000 || ms[0] > 1900 {
		t.Errorf("latencies %v", ms)
	}
	if v := []float64{1, 2, 3, 4}; quantile(v, .5) != 2 || quantile(v, .99) != 4 || quantile(v, 0) != 1 || quantile(nil, .5) != 0 || median(v) != 3 {
		t.Error("quantiles are wrong")
	}
}
