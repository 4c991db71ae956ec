package offline

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/eusn-stream/eusn-stream/internal/imports"
	"github.com/eusn-stream/eusn-stream/internal/machine"
	"github.com/eusn-stream/eusn-stream/offline/archive"
	"github.com/eusn-stream/eusn-stream/reservoir"
	"github.com/eusn-stream/eusn-stream/reservoir/cpu"
)

// noveltyCase is healthy series to learn from, and series to judge.
type noveltyCase struct {
	name string
	set  *archive.Dataset // its test part has the classes normal and other
}

// oneClass is a set of the classes normal, selected by known, and other. Its test part has at most most series of
// each class, the first ones; 0: all.
func oneClass(d *archive.Dataset, name string, most int, known func(class string) bool) noveltyCase {
	c := *d
	c.Name, c.Classes, c.Series = name, []string{"normal", "other"}, nil
	taken := map[int]int{}
	for _, s := range d.Series {
		if s.Label < 0 {
			continue
		}
		label := 1
		if known(d.Classes[s.Label]) {
			label = 0
		}
		if s.Split == archive.Train && label == 1 || s.Split == archive.Test && most > 0 && taken[label] == most {
			continue
		}
		if s.Split == archive.Test {
			taken[label]++
		}
		s.Label = label
		c.Series = append(c.Series, s)
	}
	return noveltyCase{name, &c}
}

// simulated is a machine for leaving a class out of the training.
func simulated(t *testing.T, seed uint64, train, test int) *archive.Dataset {
	t.Helper()
	d, err := machine.Simulate(context.Background(), machine.Options{Train: train, Test: test, Seed: seed}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// spoilt are failing sensors.
var spoilt = []struct {
	name  string
	spoil func(r *rand.Rand, x []float32, channels int)
}{
	{"zeros", func(_ *rand.Rand, x []float32, _ int) { clear(x) }},
	{"stuck", func(_ *rand.Rand, x []float32, channels int) {
		for i := len(x) / 2 / channels * channels; i < len(x); i++ { // from the middle on
			x[i] = x[i-channels]
		}
	}},
	{"noise", func(r *rand.Rand, x []float32, _ int) { // within the range, as in docs/faults.md
		for i := range x {
			x[i] = float32(r.NormFloat64())
		}
	}},
	{"white noise of the same deviation", func(r *rand.Rand, x []float32, _ int) {
		var sum float64
		for _, v := range x {
			sum += float64(v) * float64(v)
		}
		for i := range x {
			x[i] = float32(r.NormFloat64() * math.Sqrt(sum/float64(len(x))))
		}
	}},
	{"x1000", func(_ *rand.Rand, x []float32, _ int) {
		for i := range x {
			x[i] *= 1000
		}
	}},
	{"x.001", func(_ *rand.Rand, x []float32, _ int) {
		for i := range x {
			x[i] *= .001
		}
	}},
	{"one channel dead", func(_ *rand.Rand, x []float32, channels int) {
		for i := 0; i < len(x); i += channels {
			x[i] = 0
		}
	}},
}

// spoil replaces the other series of a case by spoilt copies of the normal test series.
func (c noveltyCase) spoil(name string, spoil func(r *rand.Rand, x []float32, channels int)) noveltyCase {
	set := *c.set
	set.Series = nil
	r := rand.New(rand.NewPCG(3, 3))
	for _, s := range c.set.Series {
		if s.Split == archive.Train || s.Label == 1 {
			continue
		}
		set.Series = append(set.Series, s)
		s.ID, s.Label, s.Values = s.ID+" "+name, 1, slices.Clone(s.Values)
		spoil(r, s.Values, len(set.Channels))
		set.Series = append(set.Series, s)
	}
	return noveltyCase{name, &set}
}

// judged is the result of a case.
type judged struct {
	Name        string
	Learned     int
	AUROC       float64
	FalseAlarms float64 // share of the known at the level
	Found       float64 // share of the unknown
}

// learn trains on the normal series of a case.
func (c noveltyCase) learn(t *testing.T, o NoveltyOptions) (*reservoir.Model, int) {
	t.Helper()
	o.HealthyOnly, o.Healthy = true, "normal"
	m, r, err := Retrain(context.Background(), c.set, RetrainOptions{Novelty: &o}, nil)
	if err != nil {
		t.Fatalf("%s: %v", c.name, err)
	}
	return m, r.Novelty.Sequences
}

// judge separates the other series of a case from the normal series.
func (c noveltyCase) judge(t *testing.T, m *reservoir.Model, learned int) judged {
	t.Helper()
	ev, err := Evaluate(context.Background(), m, c.set, EvaluateOptions{}, nil)
	if err != nil {
		t.Fatalf("%s: %v", c.name, err)
	}
	n := ev.Novelty
	return judged{c.name, learned, *n.AUROC, float64(n.FalseAlarms) / float64(n.Known), float64(n.Found) / float64(n.Unknown)}
}

// withoutClass trains on all classes of a set but one, and separates this class from the rest. plain is the AUROC of
// only the residual, without division by the usual residual.
func withoutClass(t *testing.T, d *archive.Dataset, class string) (j judged, plain float64) {
	t.Helper()
	train := *d
	train.Classes, train.Series = slices.DeleteFunc(slices.Clone(d.Classes), func(c string) bool { return c == class }), nil
	for _, s := range d.Series {
		if s.Split == archive.Train && s.Label >= 0 && d.Classes[s.Label] != class {
			s.Label = slices.Index(train.Classes, d.Classes[s.Label])
			train.Series = append(train.Series, s)
		}
	}
	m, r, err := Retrain(context.Background(), &train, RetrainOptions{Novelty: &NoveltyOptions{}}, nil)
	if err != nil {
		t.Fatalf("%s without %s: %v", d.Name, class, err)
	}
	area := func() *NoveltyCount {
		ev, err := Evaluate(context.Background(), m, d, EvaluateOptions{}, nil)
		if err != nil {
			t.Fatalf("%s without %s: %v", d.Name, class, err)
		}
		return ev.Novelty
	}
	n := area()
	j = judged{d.Name + " without " + class, r.Novelty.Sequences, *n.AUROC, float64(n.FalseAlarms) / float64(n.Known), float64(n.Found) / float64(n.Unknown)}
	m.Readouts[0].Novelty.Usual = nil
	return j, *area().AUROC
}

// The measurement of docs/results.md: EUSN_NOVELTY=DIR writes the results, and the features and series of the open
// sets for other programs, to DIR.
func TestNoveltyMeasure(t *testing.T) {
	dir := os.Getenv("EUSN_NOVELTY")
	if dir == "" {
		t.Skip("NOT CHECKED: minutes: EUSN_NOVELTY names a folder")
	}
	which := os.Getenv("EUSN_NOVELTY_CASES")
	for _, seed := range []uint64{1, 2, 3, 4, 5, 6} {
		if strings.Contains(which, "machine") {
			d := simulated(t, seed, 1200, 600)
			for _, fault := range []string{"imbalance", "inner-race", "outer-race"} {
				j, plain := withoutClass(t, d, fault)
				t.Logf("seed %d: %+v, residual alone %.4f", seed, j, plain)
			}
		}
		if strings.Contains(which, "machine") || strings.Contains(which, "healthy") {
			d := simulated(t, seed, 1200, 600)
			c := oneClass(d, "healthy alone", 0, func(class string) bool { return class == "healthy" })
			m, n := c.learn(t, NoveltyOptions{})
			t.Logf("seed %d: %+v", seed, c.judge(t, m, n))
		}
		if strings.Contains(which, "sensor") {
			c := oneClass(simulated(t, seed, 8000, 1200), "healthy", 0, func(class string) bool { return class == "healthy" })
			m, n := c.learn(t, NoveltyOptions{Level: .001})
			for _, s := range spoilt {
				t.Logf("seed %d: %+v", seed, c.spoil(s.name, s.spoil).judge(t, m, n))
			}
		}
		if strings.Contains(which, "spoilt") {
			all := oneClass(simulated(t, seed, 2000, 300), "all classes", 0, func(string) bool { return true })
			m, r, err := Retrain(context.Background(), simulated(t, seed, 2000, 4), RetrainOptions{Novelty: &NoveltyOptions{Level: .001}}, nil)
			if err != nil {
				t.Fatal(err)
			}
			for _, s := range spoilt {
				set := all.spoil(s.name, s.spoil)
				set.set.Classes = []string{"healthy", "spoilt"} // the predicted class does not count
				t.Logf("seed %d, all classes: %+v", seed, set.judge(t, m, r.Novelty.Sequences))
			}
		}
	}
	if strings.Contains(which, "many") { // with 80 series of each class or more
		d := realDataset(t, "MotionSenseHAR")
		for _, class := range d.Classes {
			j, plain := withoutClass(t, d, class)
			t.Logf("%+v, residual alone %.4f", j, plain)
		}
	}
	for _, name := range []string{"PowerCons", "RacketSports", "CBF", "SyntheticControl", "Plane", "Strawberry", "NATOPS", "JapaneseVowels", "ArticularyWordRecognition", "OSULeaf", "FaceAll", "SwedishLeaf", "CricketX", "CharacterTrajectories", "ECG5000"} {
		if !strings.Contains(which, "open") && !strings.Contains(which, "classes") {
			break
		}
		d := realDataset(t, name)
		for _, class := range d.Classes[:min(3, len(d.Classes))] {
			if len(d.Classes) > 2 && strings.Contains(which, "classes") {
				j, plain := withoutClass(t, d, class)
				t.Logf("%+v, residual alone %.4f", j, plain)
			}
			if !strings.Contains(which, "open") {
				continue
			}
			c := oneClass(d, name+"/"+class, 100, func(other string) bool { return other == class })
			if len(c.set.Part(archive.Train)) < 8 {
				continue
			}
			m, n := c.learn(t, NoveltyOptions{})
			t.Logf("%+v", c.judge(t, m, n))
			c.export(t, m, filepath.Join(dir, strings.ReplaceAll("open-"+c.name, "/", "-")))
		}
	}
}

func realDataset(t *testing.T, name string) *archive.Dataset {
	t.Helper()
	dir := requireDatasets(t)
	path := filepath.Join(dir, name)
	if _, err := os.Stat(path); err != nil {
		path = filepath.Join(dir, "extra", name)
	}
	d, err := imports.Import(context.Background(), imports.Options{Dir: path}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// export writes a case's features and samples as float32, one row a series, and a JSON file with their description.
func (c noveltyCase) export(t *testing.T, m *reservoir.Model, path string) {
	t.Helper()
	d := c.set
	e, err := cpu.New(m.Network, 1, cpu.Options{Threads: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	longest, channels := 0, len(d.Channels)
	for i := range d.Series {
		longest = max(longest, d.Len(i))
	}
	features := make([]float32, m.Network.Spec.FeatureCount())
	var rows, raw bytes.Buffer
	var train []bool
	var labels []int
	for i, s := range d.Series {
		x := slices.Clone(s.Values)
		for j, v := range x {
			if v != v {
				x[j] = m.Network.Norm.Mean[j%channels]
				if j >= channels {
					x[j] = x[j-channels]
				}
			}
		}
		if err := e.Advance(x, []reservoir.Run{{Reset: true, To: int32(d.Len(i))}}, nil); err != nil {
			t.Fatal(err)
		}
		if err := e.Features(0, features); err != nil {
			t.Fatal(err)
		}
		binary.Write(&rows, binary.LittleEndian, features)
		binary.Write(&raw, binary.LittleEndian, append(x, make([]float32, longest*channels-len(x))...))
		train, labels = append(train, s.Split == archive.Train), append(labels, s.Label)
	}
	info, err := json.Marshal(map[string]any{"features": len(features), "values": longest * channels, "length": longest, "train": train, "labels": labels})
	if err != nil {
		t.Fatal(err)
	}
	for suffix, b := range map[string][]byte{".features": rows.Bytes(), ".raw": raw.Bytes(), ".json": info} {
		if err := os.WriteFile(path+suffix, b, 0o644); err != nil {
			t.Fatal(err)
		}
	}
}
