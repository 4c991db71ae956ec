package reservoir

import (
	"math"
	"testing"
)

// TestTwoLevelSums: the sum over a long sequence stays accurate where a plain
// float32 sum no longer grows.
func TestTwoLevelSums(t *testing.T) {
	plain, words := float32(0), []uint32{0, 0}
	const n, v = 1 << 25, float32(.7)
	for i := range n {
		plain += v
		sum(words, 0, 1, math.Float32frombits(words[0])+v, (i+1)%FoldEvery == 0)
	}
	got := float64(math.Float32frombits(words[0]) + math.Float32frombits(words[1]))
	if e := math.Abs(got/(n*float64(v)) - 1); e > 1e-3 {
		t.Errorf("relative error of the two-level sum %.3g, want below 1e-3", e)
	}
	if e := math.Abs(float64(plain)/(n*float64(v)) - 1); e < .1 {
		t.Errorf("a plain sum is off by only %.3g: this test does not tell the two apart", e)
	}
}
