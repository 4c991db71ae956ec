package store

import (
	"slices"
	"testing"

	"github.com/eusn-stream/eusn-stream/pipeline/internal/state"
	"github.com/eusn-stream/eusn-stream/pipeline/internal/wire"
)

// A row is taken only if it is what was stored, bit for bit.
func TestParseRow(t *testing.T) {
	row := []uint32{1, 2, 0xffffffff}
	data := state.AppendRowWords(nil, row)
	ref := wire.RowRef{Seq: 3, Hash: wire.HashOf(data)}
	if got, err := ParseRow(data, ref, 3, "X"); err != nil || !slices.Equal(got, row) {
		t.Fatalf("%v, %v", got, err)
	}
	for bit := range 8 * len(data) {
		data[bit/8] ^= 1 << (bit % 8)
		if _, err := ParseRow(data, ref, 3, "X"); err == nil {
			t.Fatalf("bit %d is wrong and nobody says so", bit)
		}
		data[bit/8] ^= 1 << (bit % 8)
	}
	for _, words := range []int{2, 4} {
		if _, err := ParseRow(data, ref, words, "X"); err == nil {
			t.Errorf("a row of 3 words passes for one of %d", words)
		}
	}
}
