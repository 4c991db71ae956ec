package shard

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/eusn-stream/eusn-stream/internal/pipeline/state"
)

// The list of residents is in order of use whatever comes and goes.
func TestResidents(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	all := make([]*state.Stream, 6)
	for i := range all {
		all[i] = &state.Stream{ID: fmt.Sprint(i)}
	}
	var l residents
	var want []*state.Stream // oldest first
	for range 2000 {
		st := all[rng.IntN(len(all))]
		want = slices.DeleteFunc(want, func(o *state.Stream) bool { return o == st })
		if rng.IntN(3) == 0 {
			l.removeStream(st)
		} else {
			l.markUsed(st)
			want = append(want, st)
		}
		var up, down []*state.Stream
		for o := l.oldest; o != nil; o = o.Newer {
			up = append(up, o)
		}
		for o := l.newest; o != nil; o = o.Older {
			down = append(down, o)
		}
		slices.Reverse(down)
		if !slices.Equal(up, want) || !slices.Equal(down, want) {
			t.Fatalf("%d, %d streams in the list, want %d", len(up), len(down), len(want))
		}
	}
}
