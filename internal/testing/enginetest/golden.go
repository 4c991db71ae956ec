package enginetest

import (
	"crypto/sha256"
	_ "embed"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"hash"
	"testing"

	"github.com/eusn-stream/eusn-stream/internal/engine"
	"github.com/eusn-stream/eusn-stream/readout"
	"github.com/eusn-stream/eusn-stream/reservoir"
)

// The golden files are written by testdata/golden.py and golden_mixed.py, which share no
// code with this module.
var (
	//go:embed testdata/golden.json
	goldenFile []byte
	//go:embed testdata/golden_mixed.json
	goldenMixedFile []byte
)

type goldenCase struct {
	Name                    string
	Spec                    reservoir.Spec
	Lengths                 []int
	Weights, Rows, Features string // sha256, hexadecimal
	Limited                 bool   // the readout has limits
	Scores                  [][]float32
}

// goldenCases runs the cases of a file that have at most the given number of samples.
func goldenCases(t *testing.T, open New, file []byte, samples int) {
	var cases []goldenCase
	if err := json.Unmarshal(file, &cases); err != nil {
		t.Fatal(err)
	}
	for _, c := range cases {
		total := 0
		for _, n := range c.Lengths {
			total += n
		}
		if total <= samples {
			t.Run(c.Name, func(t *testing.T) { c.checkEngine(t, open) })
		}
	}
}

func (c goldenCase) checkEngine(t *testing.T, open New) {
	s := c.Spec
	net, err := reservoir.Draw(s)
	if err != nil {
		t.Fatal(err)
	}
	weights := sha256.New()
	for _, m := range net.Members {
		hashValues(weights, m.Inputs)
		hashValues(weights, m.Lags)
		for _, v := range [][]float32{m.Recurrent, m.Input, m.Bias, {m.Keep, m.Gain}} {
			hashValues(weights, v)
		}
	}
	checkHash(t, "weights", weights, c.Weights)

	net.Norm = reservoir.Norm{Mean: goldenSequence(101, s.Channels, 0), Scale: goldenSequence(102, s.Channels, 3), Diff: goldenSequence(103, s.Channels, 3)}
	f := s.FeatureCount()
	e := startEngine(t, open, net, len(c.Lengths))
	linear := &readout.Linear{Name: "golden", Classes: []string{"a", "b", "c"}, Center: goldenSequence(104, f, 0), Weights: goldenSequence(105, 3*f, 0), Intercept: goldenSequence(106, 3, 0)}
	if c.Limited {
		linear.Limit = goldenSequence(108, f, 2.5)
	}
	if err := e.SetReadouts([]*readout.Linear{linear}); err != nil {
		t.Fatal(err)
	}
	var runs []reservoir.Run
	total := 0
	for i, n := range c.Lengths {
		runs = append(runs, reservoir.Run{Slot: int32(i), Emit: true, From: int32(total), To: int32(total + n)})
		total += n
	}
	scores := make([]float32, 3*len(runs))
	if err := e.Advance(goldenSequence(107, total*s.Channels, 0), runs, scores); err != nil {
		t.Fatal(err)
	}
	states, features := sha256.New(), sha256.New()
	state, feat := make([]uint32, engine.LayoutOf(s).Words), make([]float32, f)
	for i := range runs {
		if err := e.ReadState(int32(i), state); err != nil {
			t.Fatal(err)
		}
		if err := e.Features(int32(i), feat); err != nil {
			t.Fatal(err)
		}
		hashValues(states, state)
		hashValues(features, feat)
		equalBits(t, fmt.Sprintf("scores of sequence %d", i), scores[3*i:3*i+3], c.Scores[i])
	}
	checkHash(t, "states", states, c.Rows)
	checkHash(t, "features", features, c.Features)
}

// goldenSequence returns the inputs, norms and readouts of the golden cases, as golden.py
// computes them: 2*u(k) + add, with the generator of reservoir.Draw at member 0, tensor
// 9.
func goldenSequence(seed uint64, n int, add float32) []float32 {
	mix := func(z uint64) uint64 {
		z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
		z = (z ^ z>>27) * 0x94d049bb133111eb
		return z ^ z>>31
	}
	key := mix(mix(seed) + 9)
	v := make([]float32, n)
	for k := range v {
		i := int64(mix(key+(uint64(k)+1)*0x9e3779b97f4a7c15) >> 40)
		v[k] = 2*(float32(2*i+1-1<<24)/(1<<24)) + add
	}
	return v
}

func hashValues(h hash.Hash, v any) {
	if err := binary.Write(h, binary.LittleEndian, v); err != nil {
		panic(err) // BUG: only called with slices of fixed-size numbers
	}
}

func checkHash(t *testing.T, what string, h hash.Hash, want string) {
	t.Helper()
	if got := hex.EncodeToString(h.Sum(nil)); got != want {
		t.Fatalf("%s: sha256 %s, golden %s", what, got, want)
	}
}
