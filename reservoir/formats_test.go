package reservoir

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"flag"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"testing"

	"github.com/eusn-stream/eusn-stream/readout"
	"github.com/eusn-stream/eusn-stream/readout/novelty"
)

var writeFormats = flag.Bool("write-formats", false, "write the files of testdata/formats that are not there")

// TestStoredModels: stored model files of version 1 read as written, and encode to
// the same bytes. Their fingerprints, named by states in snapshots and by
// predictions, do not change. See CONTRIBUTING.md, "When a format changes".
func TestStoredModels(t *testing.T) {
	ring := testModel(t)
	net, err := Draw(Spec{Arithmetic: Arithmetic, Kind: RESN, Channels: 3, Members: 1, Units: 5, Seed: 1 << 60, Precision: Float32,
		Features: []Feature{Mean, Max}, SpectralRadius: Fixed(.9), Leak: Fixed(.5), Input: Fixed(1), Bias: Dist{.01, 3}})
	if err != nil {
		t.Fatal(err)
	}
	ring.Network, ring.Policy = net, Policy{Kind: Window, Length: 12, Hop: 4}
	ring.Readouts[0].Center, ring.Readouts[0].Weights = ring.Readouts[0].Center[:10], ring.Readouts[0].Weights[:30]
	ranges := testModel(t)
	ranges.Readouts[0].Temperature = 2.8125
	ranges.Training.MinLength, ranges.Training.MaxLength = 40, 320
	ranges.Training.Inputs = []InputRange{{Values: 960, Min: -1.5, Max: 2.7, Mean: .1, Deviation: 1. / 3, LongestRun: 1}, {}, {Values: 9, Min: 7, Max: 7, Mean: 7, LongestRun: 9}}
	limits := mixedModel(t)
	for i := range limits.Readouts[0].Weights {
		limits.Readouts[0].Limit = append(limits.Readouts[0].Limit, float32(1+i%5)/4)
	}
	timed := mixedModel(t)
	timed.Training.Rate, timed.Training.LongestInterval = 25600.5, 1<<40
	front := testModel(t)
	front.Front = &Front{Normalize: 60000, Envelope: 16, Decimate: 20, Fill: []float32{.1, -1e10, 3}}
	sets := testModel(t)
	sets.Readouts[0].Temperature = 1.25
	sets.Readouts[0].Coverage = &readout.Coverage{Level: .95, ByClass: true, Least: make([]float64, len(sets.Readouts[0].Classes))}
	sets.Readouts[0].Coverage.Least[1] = 1. / 3
	novel := testModel(t)
	h := novel.Readouts[0]
	h.Novelty = &novelty.Detector{Center: h.Center, Scale: h.Center, Level: .001, Unit: 12.5, Left: []float32{0, .5, .5, 1, 4}}
	for i := range 3 * len(h.Center) {
		h.Novelty.Axes = append(h.Novelty.Axes, float32(i%7)-3)
	}
	places := testModel(t)
	of := *h.Novelty
	of.Usual = &novelty.Usual{Offset: -1. / 3, Most: 2.5, Linear: []float32{1e-10, -2}, Square: []float32{0, 1. / 3}}
	places.Readouts[0].Novelty = &of
	splices := testModel(t)
	beside := *h.Novelty
	beside.Usual = &novelty.Usual{Offset: .25, Most: 2.5, Linear: []float32{1e-10, -2}, Square: []float32{0, 1. / 3}, Between: 1}
	splices.Readouts[0].Novelty = &beside
	drift := testModel(t)
	reads := *h.Novelty
	for i := range 9 * len(h.Center) {
		reads.Inputs = append(reads.Inputs, float32(i%5)/4-.5)
	}
	drift.Readouts[0].Novelty = &reads
	healthy := testModel(t)
	*healthy.Readouts[0] = readout.Linear{Name: "h", Classes: []string{"normal", "novel"}, Center: h.Center, Weights: make([]float32, len(h.Center)), Intercept: []float32{-1}, Novelty: h.Novelty, Detects: true}
	healthy.Readouts = healthy.Readouts[:1]
	decides := testModel(t)
	prefix := *decides.Readouts[0]
	prefix.Temperature, prefix.Intercept = .75, []float32{.5, -1, 2}
	for i := range prefix.Center {
		prefix.Limit = append(prefix.Limit, float32(1+i%3)/2)
	}
	decides.Readouts[0].Prefixes = &readout.Prefixes{Linear: &prefix, Rule: readout.EarlyRule{Length: 320, Coefficients: [4]float64{-1. / 3, 0, 1e-300, 4}, Most: .0625}}
	number := testModel(t)
	*number.Readouts[0] = readout.Linear{Name: "n", Classes: []string{"remaining life"}, Center: h.Center, Weights: h.Center, Intercept: []float32{120.5}, Interval: &readout.Interval{Level: .9, Low: -3.25, High: 1. / 3}}
	number.Readouts = number.Readouts[:1]
	regimes := testModel(t)
	regimes.Front = testRegimes()
	capped := testModel(t)
	most := float32(125)
	life := *number.Readouts[0]
	life.Interval = &readout.Interval{Level: .95, Low: -30.5, High: 31.25, Cap: &most, Clip: &[2]float32{.5, 125}}
	capped.Readouts = []*readout.Linear{&life}
	random := testModel(t)
	random.Front = &Front{Smooth: 3, Means: []int{4, 16}, Fill: []float32{.1, -1e10, 3}}
	units := *number.Readouts[0]
	units.Random = &readout.RandomFeatures{Center: []float32{1, 2, 3, 4, -5, 6e9}, Bias: []float32{.5, -1. / 3}, Out: []float32{-20, 1e-9}}
	for i := range 12 {
		units.Random.Weights = append(units.Random.Weights, float32(i-5)/3)
	}
	random.Readouts = []*readout.Linear{&units}
	means := testModel(t)
	means.Front = &Front{Means: []int{4, 16}, Fill: []float32{.1, -1e10, 3}}
	level := *h.Novelty
	level.Means = &novelty.Means{Center: units.Random.Center, Axes: units.Random.Weights}
	levels := *healthy.Readouts[0]
	levels.Novelty = &level
	means.Readouts = []*readout.Linear{&levels}
	abstains := testModel(t)
	abstains.Readouts[0].Temperature, abstains.Readouts[0].Abstain = 1.25, &readout.AbstainRule{MaxError: .02, Confidence: .95, Above: 2. / 3}
	adapted := testModel(t)
	adapted.Readouts[0].Temperature, adapted.Readouts[0].Coverage = 1.25, &readout.Coverage{Level: .9, Least: slices.Repeat([]float64{.125}, len(adapted.Readouts[0].Classes)), Adapted: .96875}
	for name, m := range map[string]*Model{
		"splices": splices, "drift": drift, "places": places, "abstains": abstains, "adapted": adapted, "number": number, "capped": capped, "random": random, "means": means, "regimes": regimes,
		"decides": decides, "novel": novel, "healthy": healthy, "sets": sets, "front": front, "bank": testModel(t), "ring": ring,
		"ranges": ranges, "mixed": mixedModel(t), "limits": limits, "timed": timed,
	} {
		path := filepath.Join("testdata", "formats", name+"-1.safetensors")
		if _, err := os.Stat(path); *writeFormats && os.IsNotExist(err) {
			if err := m.Save(path); err != nil {
				t.Fatal(err)
			}
		}
		stored, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		got, err := Decode(stored)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if !reflect.DeepEqual(got, m) {
			t.Errorf("%s: read as another model, or other weights are drawn:\n%+v\n%+v", name, got, m)
		}
		if again, err := got.Encode(); err != nil || !bytes.Equal(again, stored) {
			t.Errorf("%s: today's file of the same model is another one (%v)", name, err)
		}
		if m == means {
			if got.Front.Means = []int{4}; got.Validate() == nil {
				t.Errorf("%s: a detector of other statistics than the front end's is accepted", name)
			}
			got.Front.Means = m.Front.Means
		}
		// Other programs may omit the fingerprint.
		bare, err := got.encode(map[string]string{})
		if err != nil {
			t.Fatal(err)
		}
		if sum := sha256.Sum256(bare); !bytes.Contains(stored, []byte(hex.EncodeToString(sum[:]))) {
			t.Errorf("%s: the fingerprint is another one", name)
		}
		if got, err := Decode(bare); err != nil || !reflect.DeepEqual(got, m) {
			t.Errorf("%s: without its fingerprint: %v, or another model", name, err)
		}
	}
}
