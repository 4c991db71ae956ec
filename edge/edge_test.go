package edge

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/eusn-stream/eusn-stream/internal/engine"
	"github.com/eusn-stream/eusn-stream/internal/testing/parts"
	"github.com/eusn-stream/eusn-stream/readout"
	"github.com/eusn-stream/eusn-stream/readout/novelty"
	"github.com/eusn-stream/eusn-stream/reservoir"
	"github.com/eusn-stream/eusn-stream/reservoir/cpu"
)

// randomReadout returns a readout of random weights, of the magnitude for scores of some
// units.
func randomReadout(rng *rand.Rand, net *reservoir.Network, classes int) *readout.Linear {
	numbers := func(n int, size float64) []float32 {
		v := make([]float32, n)
		for i := range v {
			v[i] = float32(size * rng.NormFloat64())
		}
		return v
	}
	h := &readout.Linear{Name: "default"}
	for k := range classes {
		h.Classes = append(h.Classes, fmt.Sprintf("class %d \"?\\ü", k))
	}
	n := net.Spec.FeatureCount()
	h.Center, h.Weights, h.Intercept = numbers(n, .1), numbers(n*h.Columns(), 1), numbers(h.Columns(), 1)
	return h
}

// models returns a model of each kind, with all optional parts of readouts.
func models(t testing.TB) map[string]*reservoir.Model {
	t.Helper()
	rng := rand.New(rand.NewPCG(20, 8))
	all := map[string]*reservoir.Model{}
	add := func(name string, s reservoir.Spec, classes int, more func(h *readout.Linear)) {
		net, err := reservoir.Draw(s)
		if err != nil {
			t.Fatal(err)
		}
		m := &reservoir.Model{Network: net, Policy: reservoir.Policy{Kind: reservoir.Marked}}
		for c := range s.Channels {
			m.Channels = append(m.Channels, fmt.Sprint("c*/", c))
			net.Norm.Mean, net.Norm.Scale, net.Norm.Diff = append(net.Norm.Mean[:c], .25), append(net.Norm.Scale[:c], 1.3), append(net.Norm.Diff[:c], 2.1)
		}
		h := randomReadout(rng, net, classes)
		if more != nil {
			more(h)
		}
		m.Readouts = []*readout.Linear{h}
		all[name] = m
	}
	limits := func(h *readout.Linear) {
		h.Limit = make([]float32, h.Features())
		for i := range h.Limit {
			h.Limit[i] = .05 + rng.Float32()
		}
	}
	add("paper", reservoir.Paper(1, reservoir.PaperOptions{Units: 50, Eps: .05, Gamma: .01, Recurrent: .8, Input: 1.5, Bias: .4, Seed: 5}), 5, nil)
	bank := reservoir.EulerBank(9)
	bank.Members, bank.Units, bank.Subset = 3, 7, 9
	add("bank", bank, 3, func(h *readout.Linear) {
		h.Temperature = 1.7
		h.Coverage = &readout.Coverage{Level: .9, Least: []float64{.2, .3, .1}}
		h.Abstain = &readout.AbstainRule{MaxError: .05, Confidence: .95, Above: .6}
	})
	esn := reservoir.Spec{Kind: reservoir.ESN, Channels: 2, Units: 12, Members: 2, Input: reservoir.Fixed(1), Bias: reservoir.Fixed(.5), Features: []reservoir.Feature{reservoir.Std, reservoir.Positive}, Standardize: true}.WithDefaults()
	add("esn", esn, 2, func(h *readout.Linear) {
		h.Temperature = .8
		h.Coverage = &readout.Coverage{Level: .9, Least: []float64{.4, .3}}
		h.Abstain = &readout.AbstainRule{MaxError: .05, Confidence: .95, Above: .6}
	})
	ring := reservoir.Spec{Kind: reservoir.RESN, Channels: 1, Units: 20, Input: reservoir.Fixed(1), Bias: reservoir.Fixed(.1), Features: []reservoir.Feature{reservoir.Max, reservoir.Last}}.WithDefaults()
	add("ring", ring, 1, func(h *readout.Linear) { h.Interval = &readout.Interval{Level: .9, Low: -1.25, High: 2.5} })
	add("clipped", ring, 1, func(h *readout.Linear) {
		h.Interval = &readout.Interval{Level: .9, Low: -1.25, High: 2.5, Clip: &[2]float32{-.1, .3}}
	})
	for activation, channels := range map[reservoir.Activation]int{reservoir.Cubic: 2, reservoir.Clip: 1, reservoir.Tanh: 3} {
		s, err := reservoir.Bank(map[reservoir.Activation]string{reservoir.Cubic: "standard", reservoir.Clip: "tiny", reservoir.Tanh: "standard"}[activation], channels)
		if err != nil {
			t.Fatal(err)
		}
		s.Members, s.Taps.Members, s.Taps.MaxLag, s.Taps.Activation = 16, 8, 7, activation
		if activation == reservoir.Clip {
			s.Members = 8
		}
		add("mixed "+string(activation), s, 4, func(h *readout.Linear) {
			limits(h)
			h.Temperature = 2.5
		})
	}
	regimes := *all["bank"]
	n := len(regimes.Channels)
	g := &reservoir.Regimes{Settings: []int{0, n - 1}, Mean: []float64{.125, -1. / 3}, Scale: []float64{1.7, .6}, Reach: make([]float64, 3)}
	for range 3 {
		g.Centers = append(g.Centers, []float64{rng.NormFloat64(), rng.NormFloat64()})
		means, scales := make([]float32, n), make([]float32, n)
		for c := range n {
			means[c], scales[c] = float32(rng.NormFloat64()), float32(1+rng.ExpFloat64())
		}
		scales[1] = 1e9 // some results are limited
		g.Means, g.Scales = append(g.Means, means), append(g.Scales, scales)
	}
	regimes.Front = &reservoir.Front{Regimes: g, Fill: make([]float32, n)}
	all["regimes"] = &regimes
	return all
}

// series returns possible samples: noise, jumps, values at the limits, and refused
// values.
func series(m *reservoir.Model) [][]float32 {
	rng := rand.New(rand.NewPCG(3, 9))
	c := m.Network.Spec.Channels
	var all [][]float32
	for _, n := range []int{0, 1, 3, 30, 255, 256, 600} {
		s := make([]float32, 0, n*c)
		for t := range n {
			for range c {
				x := float32(rng.NormFloat64())
				switch r := rng.IntN(40); {
				case r == 0:
					x = 0
				case r == 1:
					x = math.Float32frombits(rng.Uint32()) // also NaN, subnormal and too large values
				case r == 2 && t > 20:
					x *= 1e12
				}
				s = append(s, x)
			}
		}
		all = append(all, s)
	}
	return all
}

// expectedLines returns the output of device.c for the series, from the engine that
// defines the bits.
func expectedLines(t testing.TB, m *reservoir.Model, all [][]float32, every int) []string {
	t.Helper()
	e, err := cpu.New(m.Network, 1, cpu.Options{Kind: cpu.Generic})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	if err := e.SetReadouts(m.Readouts); err != nil {
		t.Fatal(err)
	}
	h, c := m.Readouts[0], m.Network.Spec.Channels
	scores, state := make([]float32, e.ScoreWidth()), make([]uint32, engine.LayoutOf(m.Network.Spec).Words)
	var lines []string
	say := func(reset bool) {
		if err := e.Advance(nil, []reservoir.Run{{Emit: true, Reset: reset}}, scores); err != nil {
			t.Fatal(err)
		}
		if err := e.ReadState(0, state); err != nil {
			t.Fatal(err)
		}
		hash := uint32(2166136261)
		for _, w := range state {
			hash = (hash ^ w) * 16777619
		}
		words := []uint32{hash}
		for _, s := range scores {
			words = append(words, math.Float32bits(s))
		}
		p := h.Probability(scores)
		if h.Interval != nil {
			value, low, high := h.Number(scores)
			words = append(words, 0, math.Float32bits(value+low+high))
		} else {
			class := uint32(h.Class(scores))
			for _, k := range h.AppendSet(nil, scores) {
				class |= 1 << (8 + k)
			}
			if h.Abstain != nil && !h.Abstains(p) {
				class |= 1 << 31
			}
			words = append(words, class, math.Float32bits(p))
		}
		line := ""
		for _, w := range words {
			line += fmt.Sprintf(" %08x", w)
		}
		lines = append(lines, line[1:])
	}
	for _, s := range all {
		reset := true
		for n := 1; len(s) > 0; n++ {
			if engine.CheckInputs(s[:c], c) == nil {
				x := slices.Clone(s[:c])
				if m.Front != nil {
					m.Front.Run(nil, 0, x, c)
				}
				if err := e.Advance(x, []reservoir.Run{{Reset: reset, To: 1}}, nil); err != nil {
					t.Fatal(err)
				}
				reset = false
			}
			s = s[c:]
			if n%every == 0 {
				say(reset)
				reset = false
			}
		}
		say(reset)
	}
	return append(lines, "end")
}

// device is a compiler, and the command to run its program.
type device struct {
	part string   // of package parts
	cc   []string // command and flags
	run  []string // before the program's path
}

// machines compile and run here, and require only gcc.
var machines = map[string]device{
	"gcc -O0":               {"gcc", []string{"gcc", "-std=c99", "-O0", "-pedantic"}, nil},
	"gcc -O2":               {"gcc", []string{"gcc", "-O2"}, nil},
	"gcc -O3 -march=native": {"gcc", []string{"gcc", "-O3", "-march=native", "-ffp-contract=fast", "-flto"}, nil},
	"clang -O0":             {"clang", []string{"clang-19", "-std=c99", "-O0", "-pedantic"}, nil},
	"clang -O3":             {"clang", []string{"clang-19", "-O3", "-march=native", "-ffp-contract=fast"}, nil},
}

// build writes the header and the series, and compiles device.c with both.
func build(t testing.TB, d device, m *reservoir.Model, all [][]float32, every int, flags ...string) string {
	t.Helper()
	if _, err := exec.LookPath(d.cc[0]); err != nil {
		parts.Absent(t, d.part, "%s is not installed", d.cc[0])
	}
	dir := t.TempDir()
	var header bytes.Buffer
	if _, err := C(&header, m, Options{}); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(dir, "model.h"), header.Bytes())
	data := binary.LittleEndian.AppendUint32(nil, uint32(len(all)))
	data = binary.LittleEndian.AppendUint32(data, uint32(every))
	for _, s := range all {
		data = binary.LittleEndian.AppendUint32(data, uint32(len(s)/m.Network.Spec.Channels))
		for _, x := range s {
			data = binary.LittleEndian.AppendUint32(data, math.Float32bits(x))
		}
	}
	write(t, filepath.Join(dir, "series"), data)
	args := slices.Concat(d.cc[1:], []string{"-Wall", "-Wextra", "-Werror", "-I", dir, `-DSERIES="` + filepath.Join(dir, "series") + `"`})
	if m.Readouts[0].Coverage != nil {
		args = append(args, "-DSETS")
	}
	program := filepath.Join(dir, "program")
	cmd := exec.Command(d.cc[0], slices.Concat(args, []string{"testdata/device.c", "-o", program}, flags)...)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %v\n%s", cmd, err, out)
	}
	return program
}

// compareOutput runs a program and compares its output with the engine.
func compareOutput(t testing.TB, d device, program string, want []string) {
	t.Helper()
	args := append(slices.Clone(d.run), program)
	cmd := exec.Command(args[0], args[1:]...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %v\n%s", cmd, err, out)
	}
	got := strings.Split(strings.TrimRight(string(out), "\n"), "\n")
	for i := range max(len(got), len(want)) {
		if i >= len(got) || i >= len(want) || got[i] != want[i] {
			t.Fatalf("line %d of %d (state, scores, class, probability): got\n%s\nwant\n%s", i, len(want), lineAt(got, i), lineAt(want, i))
		}
	}
}

func lineAt(lines []string, i int) string {
	if i < len(lines) {
		return lines[i]
	}
	return "nothing"
}

func write(t testing.TB, path string, data []byte) {
	t.Helper()
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
}

// TestBits compiles the header of every kind of model, two with every compiler, and
// compares states, scores, classes and probabilities with the Go engine.
func TestBits(t *testing.T) {
	for name, m := range models(t) {
		all := series(m)
		want := expectedLines(t, m, all, 7)
		for on, d := range machines {
			if on != "gcc -O2" && on != "clang -O3" && name != "bank" && name != "mixed tanh" {
				continue // covered by these two models
			}
			t.Run(name+"/"+on, func(t *testing.T) {
				t.Parallel()
				compareOutput(t, d, build(t, d, m, all, 7, "-DHOSTED"), want)
			})
		}
	}
}

// TestThinned goes beyond 32,768 samples, from which a mixed bank counts only some
// samples.
func TestThinned(t *testing.T) {
	m := models(t)["mixed clip"]
	rng := rand.New(rand.NewPCG(1, 1))
	s := make([]float32, 70000)
	for i := range s {
		s[i] = float32(rng.NormFloat64())
	}
	d := machines["gcc -O2"]
	compareOutput(t, d, build(t, d, m, [][]float32{s}, 1013, "-DHOSTED"), expectedLines(t, m, [][]float32{s}, 1013))
}

// Options that would change bits do not compile.
func TestRefusesFastMath(t *testing.T) {
	m := models(t)["paper"]
	var header bytes.Buffer
	if _, err := C(&header, m, Options{}); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	write(t, filepath.Join(dir, "model.h"), header.Bytes())
	for _, flags := range [][]string{{"gcc", "-Ofast"}, {"gcc", "-ffast-math"}, {"gcc", "-O2", "-fassociative-math", "-fno-signed-zeros", "-fno-trapping-math"}, {"gcc", "-m32", "-mno-sse", "-ffreestanding"}, {"clang-19", "-ffast-math"}} {
		if _, err := exec.LookPath(flags[0]); err != nil {
			parts.Absent(t, strings.TrimSuffix(flags[0], "-19"), "%s is not installed", flags[0])
		}
		cmd := exec.Command(flags[0], append(slices.Clone(flags[1:]), "-fsyntax-only", "-DEUSN_IMPLEMENTATION", "-x", "c", filepath.Join(dir, "model.h"))...)
		out, err := cmd.CombinedOutput()
		if err == nil || !strings.Contains(string(out), "compile this file without") && !strings.Contains(string(out), "another precision") {
			t.Errorf("%v: %v\n%s", cmd, err, out)
		}
	}
}

// A program may have two models, also in C++, and several files may use one.
func TestNames(t *testing.T) {
	if _, err := exec.LookPath("clang-19"); err != nil {
		parts.Absent(t, "clang", "clang-19 is not installed")
	}
	dir := t.TempDir()
	all := models(t)
	for name, m := range map[string]*reservoir.Model{"pump": all["bank"], "fan": all["mixed cubic"]} {
		var header bytes.Buffer
		if _, err := C(&header, m, Options{Name: name}); err != nil {
			t.Fatal(err)
		}
		if strings.Contains(strings.ReplaceAll(header.String(), "eusn_state s;", ""), "eusn_") {
			t.Error("a name begins with eusn_")
		}
		write(t, filepath.Join(dir, name+".h"), header.Bytes())
	}
	use := `int main(void) { static pump_state p; static fan_state f; return pump_selftest(&p) + fan_selftest(&f); }`
	write(t, filepath.Join(dir, "main.c"), []byte("#include \"pump.h\"\n#include \"fan.h\"\n"+use))
	write(t, filepath.Join(dir, "models.c"), []byte("#define PUMP_IMPLEMENTATION\n#define FAN_IMPLEMENTATION\n#include \"pump.h\"\n#include \"fan.h\"\n"))
	for _, language := range []string{"c", "c++"} {
		program := filepath.Join(dir, "program")
		cmd := exec.Command("clang-19", "-Wall", "-Wextra", "-Werror", "-x", language, filepath.Join(dir, "main.c"), filepath.Join(dir, "models.c"), "-o", program)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v: %v\n%s", cmd, err, out)
		}
		if err := exec.Command(program).Run(); err != nil {
			t.Errorf("%s: the headers' tests of themselves: %v", language, err)
		}
	}
}

// A part that a header cannot compute is refused by name, and left out only on request.
func TestRefusesParts(t *testing.T) {
	all := models(t)
	front := *all["paper"]
	if _, err := HTML(&bytes.Buffer{}, all["regimes"], Options{}); !errors.Is(err, ErrPart) || !strings.Contains(err.Error(), "export it as C") {
		t.Errorf("a page of regimes: %v", err)
	}
	front.Front = &reservoir.Front{Decimate: 4, Fill: []float32{0}}
	if _, err := C(&bytes.Buffer{}, &front, Options{}); !errors.Is(err, ErrPart) || !strings.Contains(err.Error(), "front end") {
		t.Errorf("a front end: %v", err)
	}
	front.Front = &reservoir.Front{Means: []int{4}, Fill: []float32{0}}
	if _, err := C(&bytes.Buffer{}, &front, Options{}); !errors.Is(err, ErrPart) || !strings.Contains(err.Error(), "train with --random-features none") {
		t.Errorf("random features: %v", err)
	}
	front.Policy = reservoir.Policy{Kind: reservoir.Count, Length: 4}
	front.Front = &reservoir.Front{Segments: &reservoir.Segments{Count: 2, Length: 2}, Fill: []float32{0}}
	if _, err := C(&bytes.Buffer{}, &front, Options{}); !errors.Is(err, ErrPart) || !strings.Contains(err.Error(), "train with --segments none") {
		t.Errorf("segments: %v", err)
	}
	n := all["bank"].Network.Spec.FeatureCount()
	linear := *all["bank"].Readouts[0]
	linear.Novelty = &novelty.Detector{Center: make([]float32, n), Scale: make([]float32, n), Axes: make([]float32, n), Left: []float32{1, 2}, Level: .05, Unit: 1}
	novel := *all["bank"]
	novel.Readouts = []*readout.Linear{&linear}
	if err := novel.Validate(); err != nil {
		t.Fatal(err)
	}
	if _, err := C(&bytes.Buffer{}, &novel, Options{}); !errors.Is(err, ErrPart) || !strings.Contains(err.Error(), "novelty") {
		t.Errorf("a detector: %v", err)
	}
	if _, err := C(&bytes.Buffer{}, &novel, Options{Without: []string{"novelty"}}); err != nil {
		t.Errorf("a detector left out: %v", err)
	}
	for _, o := range []Options{{Name: "Pump"}, {Name: "1a"}, {Readout: "other"}, {Without: []string{"front"}}} {
		if _, err := C(&bytes.Buffer{}, all["bank"], o); err == nil {
			t.Errorf("%+v was not refused", o)
		}
	}
}
