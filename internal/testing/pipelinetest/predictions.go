package pipelinetest

import (
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/eusn-stream/eusn-stream/codec"
	"github.com/eusn-stream/eusn-stream/readout/outcome"
)

// Same compares predictions bit for bit.
func Same(t testing.TB, got, want map[string][]codec.Prediction) {
	t.Helper()
	total := 0
	for name, w := range want {
		g := got[name]
		for i := range min(len(g), len(w)) {
			if !reflect.DeepEqual(g[i], w[i]) || !SameBits(g[i].Scores, w[i].Scores) {
				t.Fatalf("stream %s, prediction %d:\n got %+v\nwant %+v", name, i, g[i], w[i])
			}
		}
		if len(g) != len(w) {
			t.Fatalf("stream %s: %d predictions, want %d", name, len(g), len(w))
		}
		total += len(w)
	}
	if len(got) > len(want) {
		t.Fatalf("%d streams have predictions, want %d", len(got), len(want))
	}
	if total == 0 {
		t.Fatal("no prediction to compare: the test has lost its subject")
	}
	t.Logf("%d predictions of %d streams equal", total, len(want))
}

// SameBits compares scores bit for bit.
func SameBits(a, b []float32) bool {
	return slices.EqualFunc(a, b, func(x, y float32) bool { return math.Float32bits(x) == math.Float32bits(y) })
}

// Flags returns the flags of a stream's predictions in order, as text.
func Flags(ps []codec.Prediction) string {
	var s []string
	for _, p := range ps {
		s = append(s, fmt.Sprintf("%d.%d:%v", p.Seq, p.Row, p.Flags))
	}
	return strings.Join(s, " ")
}

// PredictionText returns all bits of a prediction that live and offline share.
func PredictionText(class int32, flags outcome.Flag, scores []float32, probability float32) string {
	var b strings.Builder
	fmt.Fprint(&b, class, " ", flags)
	for _, s := range append(slices.Clone(scores), probability) {
		fmt.Fprintf(&b, " %08x", math.Float32bits(s))
	}
	return b.String()
}
