package imports

import (
	"fmt"
	"math"

	"github.com/eusn-stream/eusn-stream/internal/names"
)

var (
	nan   = math.NaN()
	nan32 = float32(math.NaN())
)

// part is the content of a benchmark file, with labels as text.
type part struct {
	problem  string   // the name in the file, may be empty
	channels int      // 0: token lists
	classes  []string // the classes in the header; nil without classes
	labeled  bool
	series   []rawSeries
	warnings []string
}

// rawSeries is one series of a part; values are samples x channels.
type rawSeries struct {
	label  string
	values []float32
	tokens []int32
}

// matchDeclared replaces a label by the class of the header with the same number; false
// if there is none.
func (p *part) matchDeclared(label *string) bool {
	i := names.ClassIndex(p.classes, *label)
	if i >= 0 {
		*label = p.classes[i]
	}
	return i >= 0
}

// interleave copies series stored channel after channel into samples x
// channels order.
func interleave(byChannel []float32, channels int) []float32 {
	samples := len(byChannel) / channels
	out := make([]float32, len(byChannel))
	for c := range channels {
		for t, v := range byChannel[c*samples : (c+1)*samples] {
			out[t*channels+c] = v
		}
	}
	return out
}

// trimPadding removes trailing samples without values in any channel: the tsv and arff
// files of the archives pad short series in this way.
func trimPadding(values []float32, channels int) []float32 {
	for len(values) >= channels && allNaN(values[len(values)-channels:]) {
		values = values[:len(values)-channels]
	}
	return values
}

func allNaN(values []float32) bool {
	for _, v := range values {
		if v == v {
			return false
		}
	}
	return true
}

// channelNames returns names for channels without names in the source: c0, c1, ...
func channelNames(n int) []string {
	names := make([]string, n)
	for i := range names {
		names[i] = fmt.Sprintf("c%d", i)
	}
	return names
}
