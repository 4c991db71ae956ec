package integration

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"

	"github.com/eusn-stream/eusn-stream/internal/imports"
	"github.com/eusn-stream/eusn-stream/internal/machine"
	"github.com/eusn-stream/eusn-stream/offline"
	"github.com/eusn-stream/eusn-stream/offline/archive"
	"github.com/eusn-stream/eusn-stream/reservoir"
	"github.com/eusn-stream/eusn-stream/reservoir/cpu"
)

// TestModelInNumPy opens a model file with docs/model_in_numpy.py, which is independent
// of our code, and compares the states and classes of a test part.
func TestModelInNumPy(t *testing.T) {
	t.Parallel()
	python := numpy(t)
	t.Run("simulated machine", func(t *testing.T) {
		d, err := machine.Simulate(context.Background(), machine.Options{Train: 80, Test: 60, Samples: 200}, nil)
		if err != nil {
			t.Fatal(err)
		}
		checkInNumPy(t, python, d, offline.RetrainOptions{Spec: eightMembers(reservoir.EulerBank(len(d.Channels)))})
	})
	t.Run("mixed bank", func(t *testing.T) {
		d, err := machine.Simulate(context.Background(), machine.Options{Train: 80, Test: 12, Samples: 120}, nil)
		if err != nil {
			t.Fatal(err)
		}
		mixed, err := reservoir.Bank("standard", len(d.Channels))
		if err != nil {
			t.Fatal(err)
		}
		mixed.Members, mixed.Taps.Members = 16, 8 // of each kind
		checkInNumPy(t, python, d, offline.RetrainOptions{Spec: mixed})
	})
	t.Run("front end", func(t *testing.T) {
		d, err := machine.Simulate(context.Background(), machine.Options{Train: 80, Test: 12, Samples: 300}, nil)
		if err != nil {
			t.Fatal(err)
		}
		var front offline.Front
		if err := front.UnmarshalText([]byte("normalize=50,envelope=2,decimate=3")); err != nil {
			t.Fatal(err)
		}
		checkInNumPy(t, python, d, offline.RetrainOptions{Spec: eightMembers(reservoir.EulerBank(len(d.Channels))), Front: front})
		front.Center, front.Normalize = front.Normalize, offline.Span{}
		checkInNumPy(t, python, d, offline.RetrainOptions{Spec: eightMembers(reservoir.EulerBank(len(d.Channels))), Front: front})
		front.Envelope, front.Smooth = offline.Span{}, offline.Span{Samples: 4}
		checkInNumPy(t, python, d, offline.RetrainOptions{Spec: eightMembers(reservoir.EulerBank(len(d.Channels))), Front: front})
		opt := offline.RetrainOptions{Spec: eightMembers(reservoir.EulerBank(len(d.Channels))), Settings: d.Channels[:1], Regimes: 3}
		checkInNumPy(t, python, d, opt)
		opt.Front.Decimate = 3
		checkInNumPy(t, python, d, opt)
	})
	t.Run("capped numbers", func(t *testing.T) {
		d, err := machine.Simulate(context.Background(), machine.Options{Train: 80, Test: 12, Samples: 120}, nil)
		if err != nil {
			t.Fatal(err)
		}
		d.Target, d.Classes = "size", []string{"size"}
		var sizes []float64
		for i := range d.Series {
			squares := 0.
			for _, v := range d.Series[i].Values {
				squares += float64(v) * float64(v)
			}
			d.Series[i].SetNumber(math.Log(squares))
			sizes = append(sizes, math.Log(squares))
		}
		slices.Sort(sizes)
		limit := float32(sizes[len(sizes)/2])
		checkInNumPy(t, python, d, offline.RetrainOptions{Spec: eightMembers(reservoir.EulerBank(len(d.Channels))), Target: "size", Cap: &limit, Clip: true})
		random := &offline.RandomOptions{Units: 100, Means: []int{3, 20}, Always: true}
		front := offline.Front{Envelope: offline.Span{Samples: 2}, Decimate: 2}
		checkInNumPy(t, python, d, offline.RetrainOptions{Spec: eightMembers(reservoir.EulerBank(len(d.Channels))), Target: "size", Front: front, Random: random})
	})
	t.Run("segments", func(t *testing.T) {
		d, err := machine.Simulate(context.Background(), machine.Options{Train: 80, Test: 12, Samples: 120}, nil)
		if err != nil {
			t.Fatal(err)
		}
		opt := offline.RetrainOptions{Spec: eightMembers(reservoir.EulerBank(len(d.Channels))), Policy: reservoir.Policy{Kind: reservoir.Count, Length: 120}}
		opt.Segments, opt.Front.Decimate = &offline.SegmentOptions{Always: true}, 2
		checkInNumPy(t, python, d, opt)
	})
	t.Run("RacketSports", func(t *testing.T) {
		d, err := imports.Import(context.Background(), imports.Options{Dir: filepath.Join(datasets(t), "RacketSports")}, nil)
		if err != nil {
			t.Fatal(err)
		}
		checkInNumPy(t, python, d, offline.RetrainOptions{Spec: eightMembers(reservoir.EulerBank(len(d.Channels)))})
	})
}

// eightMembers returns a smaller bank: the checks do not depend on the size.
func eightMembers(s reservoir.Spec) reservoir.Spec {
	s.Members = 8
	return s
}

func checkInNumPy(t *testing.T, python string, d *archive.Dataset, opt offline.RetrainOptions) {
	t.Helper()
	ctx, dir := context.Background(), t.TempDir()
	m, _, err := offline.Retrain(ctx, d, opt, nil)
	if err != nil {
		t.Fatal(err)
	}
	ev, err := offline.Evaluate(ctx, m, d, offline.EvaluateOptions{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	model := filepath.Join(dir, "model.safetensors")
	if err := m.Save(model); err != nil {
		t.Fatal(err)
	}
	args := []string{"../docs/model_in_numpy.py", model}
	test := d.Part(archive.Test)
	for _, i := range test {
		path := filepath.Join(dir, fmt.Sprintf("%d.npy", i))
		if err := os.WriteFile(path, npy(d.Series[i].Values, len(d.Channels)), 0o644); err != nil {
			t.Fatal(err)
		}
		args = append(args, path)
	}
	cmd := exec.Command(python, args...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v\n%s", err, stderr.String())
	}
	lines := json.NewDecoder(bytes.NewReader(out))
	g, err := cpu.New(m.Network, 1, cpu.Options{Kind: cpu.Generic})
	if err != nil {
		t.Fatal(err)
	}
	worst := 0.0
	for k, i := range test {
		var got struct {
			Class       string
			Probability float64
			Scores      []float64
			Features    []float64

			Value, Low, High float64
		}
		if err := lines.Decode(&got); err != nil {
			t.Fatalf("series %d: %v", i, err)
		}
		if want := m.Readouts[0].Classes[ev.Predictions[k].Class]; got.Class != want {
			t.Errorf("series %s: NumPy says %s with scores %v, the engine %s with %v", d.Series[i].ID, got.Class, got.Scores, want, ev.Predictions[k].Scores)
		}
		if n := ev.Predictions[k].Number; math.Abs(got.Value-float64(n.Value))+math.Abs(got.Low-float64(n.Low))+math.Abs(got.High-float64(n.High)) > 2e-3 { // as probabilities
			t.Errorf("series %s: NumPy says %+v, the engine %+v", d.Series[i].ID, got, n)
		}
		// Scores of some units, with errors of about 1e-4 of the features' size.
		if p := float64(ev.Predictions[k].Probability); math.Abs(got.Probability-p) > 2e-3 {
			t.Errorf("series %s: probability %v, the engine's %v", d.Series[i].ID, got.Probability, p)
		}
		worst = max(worst, featureError(t, g, m.Front, d.Series[i].Values, got.Features))
	}
	// Float32 against float64 with math.tanh: about 1e-7 per step, kept and spread by a
	// neutral map over up to 200 steps; the bank keeps eps*rho below .2, out of chaos.
	if worst > 1e-4 {
		t.Errorf("features differ by up to %.3g relative, want at most 1e-4", worst)
	}
	t.Logf("%d series, all classes compared, features within %.2g relative", len(test), worst)
}

// featureError runs one series and compares the feature vector, relative to
// its norm.
func featureError(t *testing.T, g reservoir.Engine, front *reservoir.Front, values []float32, want []float64) float64 {
	t.Helper()
	c := g.Network().Spec.Channels
	if front != nil {
		values = slices.Clone(values)
		values = values[:c*front.Run(make([]float64, front.StateSize(c)), 0, values, c)]
	}
	if err := g.Advance(values, []reservoir.Run{{Reset: true, To: int32(len(values) / c)}}, nil); err != nil {
		t.Fatal(err)
	}
	f := make([]float32, g.Network().Spec.FeatureCount())
	if err := g.Features(0, f); err != nil {
		t.Fatal(err)
	}
	diff, norm := 0.0, 0.0
	for i, w := range want {
		diff += (float64(f[i]) - w) * (float64(f[i]) - w)
		norm += w * w
	}
	return math.Sqrt(diff / norm)
}

// npy returns a float32 matrix in .npy format.
func npy(v []float32, columns int) []byte {
	header := fmt.Sprintf("{'descr': '<f4', 'fortran_order': False, 'shape': (%d, %d), }", len(v)/columns, columns)
	for (10+len(header)+1)%64 != 0 {
		header += " "
	}
	b := append([]byte("\x93NUMPY\x01\x00"), 0, 0)
	binary.LittleEndian.PutUint16(b[8:], uint16(len(header)+1))
	b = append(b, header+"\n"...)
	for _, x := range v {
		b = binary.LittleEndian.AppendUint32(b, math.Float32bits(x))
	}
	return b
}
