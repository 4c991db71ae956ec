package shard

import (
	"strings"
	"testing"

	"github.com/eusn-stream/eusn-stream/codec"
	"github.com/eusn-stream/eusn-stream/internal/testing/pipelinetest"
	"github.com/eusn-stream/eusn-stream/reservoir"
)

// A sequence far shorter or longer than the training sequences is flagged, for any
// message boundaries; an early prediction only if the sequence is too long.
func TestLengthIsFlagged(t *testing.T) {
	m := pipelinetest.Model(t, 3, reservoir.Policy{Kind: reservoir.Marked, Early: 9})
	m.Training.MinLength, m.Training.MaxLength = 6, 10
	for _, split := range []int{1, 4, 100} {
		l := newLone(t, m, Config{})
		var got []codec.Prediction
		seq := uint64(0)
		for _, n := range []int{2, 3, 6, 20, 21} {
			for from := 0; from < n; from += split {
				to := min(n, from+split)
				x := make([]float32, 2*(to-from))
				for i := range x {
					x[i] = float32(from + i%7)
				}
				seq++
				got = append(got, l.feedAll(pipelinetest.Rows("a", seq, to == n, x...))...)
			}
		}
		var said []string
		for _, p := range got {
			said = append(said, p.Flags.String())
		}
		// 2 samples; 3; 6; early at 9 and 18, 20; early at 9 and 18, 21.
		want := "length;;;early;early;;early;early;length"
		if strings.Join(said, ";") != want {
			t.Errorf("messages of %d samples: flags %q, want %q", split, strings.Join(said, ";"), want)
		}
	}
}
