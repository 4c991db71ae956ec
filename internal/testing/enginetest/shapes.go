package enginetest

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/eusn-stream/eusn-stream/internal/engine"
	"github.com/eusn-stream/eusn-stream/readout"
	"github.com/eusn-stream/eusn-stream/readout/novelty"
	"github.com/eusn-stream/eusn-stream/reservoir"
)

// known holds the cases that runShapes has computed: the suite runs for several engines
// in one process, and the plain reference takes most of the time.
var known = struct {
	sync.Mutex
	cases map[string]*randomCase
}{cases: map[string]*randomCase{}}

// testShapes runs random ragged calls over many shapes, of at most the given number of
// units.
func testShapes(t *testing.T, open New, units int) {
	specs := map[string]reservoir.Spec{}
	for _, n := range []int{1, 2, 3, 4, 5, 7, 8, 15, 16, 17, 31, 33, 50, 100, 127, 200, 255, 1024} {
		specs[fmt.Sprintf("eusn/%d", n)] = singleSpec(reservoir.EuSN, 1+n%6, n)
	}
	for _, x := range []int{1, 2, 3, 4, 5, 9, 16, 17, 33, 64} {
		specs[fmt.Sprintf("inputs/%d", x)] = singleSpec(reservoir.EuSN, x, 10)
		specs[fmt.Sprintf("bank/inputs/%d", x)] = bankSpec(x, 3, 6)
	}
	for _, n := range []int{1, 2, 5, 16, 50, 101} {
		specs[fmt.Sprintf("esn/%d", n)] = singleSpec(reservoir.ESN, 2, n)
		specs[fmt.Sprintf("resn/%d", n)] = singleSpec(reservoir.RESN, 2, n)
		specs[fmt.Sprintf("bank/%d", n)] = bankSpec(2, 4, n)
	}
	for _, f := range reservoir.AllFeatures {
		s := bankSpec(2, 2, 9)
		s.Features = []reservoir.Feature{f}
		specs["feature/"+string(f)] = s
	}
	s := bankSpec(2, 3, 12)
	s.Features = []reservoir.Feature{reservoir.Std, reservoir.Last}
	specs["features out of order"] = s
	s = bankSpec(1, 2, 20)
	s.Precision = reservoir.TF32
	specs["tf32"] = s
	s = bankSpec(3, 2, 8)
	s.Standardize = false
	specs["difference only"] = s
	s = bankSpec(3, 2, 8)
	s.Difference = false
	specs["standardize only"] = s
	s = bankSpec(2, 3, 7)
	s.Kind, s.Eps, s.Gamma, s.EpsRho = reservoir.ESN, reservoir.Dist{}, reservoir.Dist{}, reservoir.Dist{}
	s.SpectralRadius, s.Leak = reservoir.Fixed(.9), reservoir.Dist{Lo: .1, Hi: .9}
	specs["a leak each"] = s
	specs["more inputs than units by far"] = singleSpec(reservoir.EuSN, 2100, 5)
	s = singleSpec(reservoir.EuSN, 2, 8)
	s.Bias, s.Input = reservoir.Fixed(0), reservoir.Fixed(0)
	specs["all zero"] = s
	s.Features = reservoir.AllFeatures // an argument of 0 is not positive
	specs["all zero, all features"] = s
	maps.DeleteFunc(specs, func(_ string, s reservoir.Spec) bool { return s.Units > units })
	runShapes(t, open, specs)
}

// runShapes runs random ragged calls of each recipe.
func runShapes(t *testing.T, open New, specs map[string]reservoir.Spec) {
	for name, s := range specs {
		samples := 40
		if s.Units > 500 || s.Channels > 500 { // the plain reference takes milliseconds per sample
			samples = 6
		}
		t.Run(name, func(t *testing.T) {
			known.Lock()
			defer known.Unlock()
			if known.cases[name] == nil {
				known.cases[name] = newRandomCase(t, s, 1, 6, samples)
			}
			known.cases[name].checkEngine(t, open)
		})
	}
}

// Random runs random ragged calls of about samples samples each on an engine of recipe s,
// over several slots with resets and emits, and compares every score, state, feature
// vector and detector score with the reference. Fuzz tests of an engine may call Random
// with their own shapes.
func Random(t *testing.T, open New, s reservoir.Spec, seed uint64, calls, samples int) {
	t.Helper()
	newRandomCase(t, s, seed, calls, samples).checkEngine(t, open)
}

// randomCase is a list of random calls and their expected results.
type randomCase struct {
	net      *reservoir.Network
	readouts []*readout.Linear
	judges   []*novelty.Detector
	calls    []randomCall
	slots    []reference // after the last call
}

type randomCall struct {
	inputs []float32
	runs   []reservoir.Run
	scores [][]float32 // of the emitting runs
	judged [][]float32 // scores of the detectors for the emitting runs, in order; nil: not requested
}

func newRandomCase(t *testing.T, s reservoir.Spec, seed uint64, calls, samples int) *randomCase {
	t.Helper()
	rng := rand.New(rand.NewPCG(seed, 99))
	const slots = 7
	r := &randomCase{net: drawNetwork(t, s), readouts: []*readout.Linear{randomReadout(rng, "a", 2, s.FeatureCount()), limitedReadout(rng, "b", 5, s.FeatureCount())}}
	for range slots {
		r.slots = append(r.slots, newReference(r.net))
	}
	of := rand.New(rand.NewPCG(seed, 100)) // of the detectors
	r.judges = []*novelty.Detector{randomDetector(of, 3, 9, s.FeatureCount()), randomDetector(of, 33, 0, s.FeatureCount())}
	for range calls {
		c := randomCall{inputs: randomInputs(rng, samples*s.Channels), runs: randomRuns(rng, slots, samples)}
		for i := range c.runs {
			run := &c.runs[i]
			if run.Reset {
				r.slots[run.Slot] = newReference(r.net)
			}
			for k := run.From; k < run.To; k++ {
				r.slots[run.Slot].step(c.inputs[int(k)*s.Channels : (int(k)+1)*s.Channels])
			}
			if run.Emit {
				f := r.slots[run.Slot].features()
				c.scores = append(c.scores, expectedScores(r.readouts, f))
				var judged []float32
				if run.Judge = of.IntN(2) == 0; run.Judge {
					judged = expectedJudgment(r.judges, f)
				}
				c.judged = append(c.judged, judged)
			}
		}
		r.calls = append(r.calls, c)
	}
	return r
}

func (r *randomCase) checkEngine(t *testing.T, open New) {
	t.Helper()
	e := startEngine(t, open, r.net, len(r.slots))
	if err := e.SetReadouts(r.readouts); err != nil {
		t.Fatal(err)
	}
	judging, judges := e.(engine.Judging)
	if judges {
		if err := judging.SetDetectors(r.judges); err != nil {
			t.Fatal(err)
		}
	}
	for call, c := range r.calls {
		scores := make([]float32, len(c.runs)*e.ScoreWidth())
		if err := e.Advance(c.inputs, c.runs, scores); err != nil {
			t.Fatal(err)
		}
		for i, want := range c.scores {
			equalBits(t, fmt.Sprintf("call %d: scores %d", call, i), scores[i*len(want):(i+1)*len(want)], want)
		}
		for i, want := range c.judged {
			if !judges || want == nil {
				continue
			}
			var got []float32
			for k := range r.judges {
				score, inputs := judging.Judged(i, k)
				got = append(append(got, score), inputs...)
			}
			equalBits(t, fmt.Sprintf("call %d: what detectors say of %d", call, i), got, want)
		}
	}
	for i, ref := range r.slots {
		checkSlot(t, e, int32(i), ref)
	}
}
