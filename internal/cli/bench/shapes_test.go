package bench

import (
	"slices"
	"testing"

	"github.com/eusn-stream/eusn-stream/reservoir"
	"github.com/eusn-stream/eusn-stream/reservoir/cpu"
)

// Every default shape makes an engine, and a bank has the requested inputs.
func TestBenchShapes(t *testing.T) {
	o := benchOptions{}
	for _, s := range o.shapes(benchKind{}) {
		net, err := s.draw()
		if err != nil || net.Spec.Inputs() != s.inputs {
			t.Errorf("%+v: %d inputs, %v", s, net.Spec.Inputs(), err)
		}
	}
	o = benchOptions{bank: 3, inputs: []int{2, 8}, streams: []int{1, 2, 3}}
	if all := o.shapes(benchKind{slow: true}); len(all) != 6 || all[5] != (benchShape{members: 3, units: 50, inputs: 8, streams: 3, steps: 32}) {
		t.Errorf("shapes %+v", all)
	}
	b, err := newEngineBench(benchKind{open: func(net *reservoir.Network, slots, _ int) (reservoir.Engine, error) {
		return cpu.New(net, slots, cpu.Options{Kind: cpu.Generic})
	}}, benchShape{units: 4, inputs: 1, streams: 100, steps: 1, random: true}, 1)
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

// The default table has every trainable bank, in calls of one stream and of several; flags select each by name.
func TestRecipeShapes(t *testing.T) {
	o := benchOptions{}
	for _, name := range reservoir.Banks {
		var sizes [][2]int
		for _, s := range o.shapes(benchKind{}) {
			if s.recipe == name {
				sizes = append(sizes, [2]int{s.streams, s.steps})
			}
		}
		if !slices.Equal(sizes, [][2]int{{16, 32}, {1, 1}}) {
			t.Errorf("%s: streams and steps %v", name, sizes)
		}
	}
	o = benchOptions{recipes: []string{"tiny", "euler"}, inputs: []int{2, 12}, steps: []int{1, 8}}
	want := []benchShape{
		{recipe: "tiny", inputs: 2, streams: 16, steps: 1}, {recipe: "tiny", inputs: 2, streams: 16, steps: 8},
		{recipe: "tiny", inputs: 12, streams: 16, steps: 1}, {recipe: "tiny", inputs: 12, streams: 16, steps: 8},
		{recipe: "euler", inputs: 2, streams: 16, steps: 1}, {recipe: "euler", inputs: 2, streams: 16, steps: 8},
		{recipe: "euler", inputs: 12, streams: 16, steps: 1}, {recipe: "euler", inputs: 12, streams: 16, steps: 8},
	}
	if all := o.shapes(benchKind{}); !slices.Equal(all, want) {
		t.Errorf("shapes %+v, want %+v", all, want)
	}
}

// The cost of a sample follows from the bank: every member sees both of two inputs.
func TestWork(t *testing.T) {
	const unit = 1 + 3 + 1.75 + 5.75 // h, sums, signs, groups
	for _, c := range []struct {
		shape benchShape
		want  work
	}{
		{benchShape{units: 100, inputs: 6}, work{100 * (100 + 6), 0}},
		{benchShape{recipe: "euler", inputs: 2}, work{40 * 50 * (50 + 2), 0}},
		// 16 units; six taps and a leak, 15 other units and a leak; cubic 5, clip 2; three operations a gathered input
		{benchShape{recipe: "standard", inputs: 2}, work{80*16*7 + 40*16*18, 80*(16*(7+5+unit)+3*6) + 40*(16*(18+5+unit)+3*2)}},
		{benchShape{recipe: "large", inputs: 2}, work{160*16*7 + 80*16*18, 160*(16*(7+5+unit)+3*6) + 80*(16*(18+5+unit)+3*2)}},
		{benchShape{recipe: "small", inputs: 2}, work{40 * 16 * 4, 40 * (16*(4+2+unit) + 3*3)}},
		{benchShape{recipe: "tiny", inputs: 64}, work{16 * 16 * 4, 16 * (16*(4+2+unit) + 3*3)}},
	} {
		net, err := c.shape.draw()
		if err != nil {
			t.Fatal(err)
		}
		if got := workOf(net); got != c.want {
			t.Errorf("%+v: %+v, want %+v", c.shape, got, c.want)
		}
	}
}

func TestMedian(t *testing.T) {
	if median([]float64{4, 1, 3, 2}) != 3 || median(nil) != 0 {
		t.Error("medians are wrong")
	}
}
