package reservoir

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/eusn-stream/eusn-stream/readout"
	"github.com/eusn-stream/eusn-stream/readout/novelty"
)

// testModel has every part a file can hold, small.
func testModel(t testing.TB) *Model {
	t.Helper()
	spec := Spec{Arithmetic: Arithmetic, Kind: EuSN, Channels: 3, Members: 2, Units: 5, Seed: 7, Precision: Float32,
		Standardize: true, Difference: true, Subset: 4, Features: AllFeatures,
		Eps: Dist{1e-3, 1}, Gamma: Dist{1e-4, 1e-1}, EpsRho: Dist{1e-2, .2}, Input: Dist{.03, 3}, Bias: Dist{.01, 3}}
	net, err := Draw(spec)
	if err != nil {
		t.Fatal(err)
	}
	f := spec.FeatureCount()
	linear := &readout.Linear{Name: "state", Classes: []string{"a", "b", "c"}, Center: make([]float32, f), Weights: make([]float32, 3*f), Intercept: []float32{1, 2, 3}}
	for i := range linear.Weights {
		linear.Weights[i] = float32(i) / 8
	}
	return &Model{Network: net, Readouts: []*readout.Linear{linear}, Policy: Policy{Kind: Marked}, Channels: []string{"x", "y", "z"},
		Training: Training{Dataset: "made up", Series: 3, Alpha: "1"}}
}

func TestModelFileRoundTrip(t *testing.T) {
	m := testModel(t)
	path := filepath.Join(t.TempDir(), "m.safetensors")
	if err := m.Save(path); err != nil {
		t.Fatal(err)
	}
	got, err := Load(path)
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(got, m) {
		t.Fatalf("loaded model differs:\n%+v\n%+v", got, m)
	}
	a, _ := m.Fingerprint()
	b, _ := got.Fingerprint()
	if a != b || len(a) != 64 {
		t.Fatalf("fingerprints %q, %q", a, b)
	}
	if left, _ := filepath.Glob(path + ".tmp*"); len(left) > 0 {
		t.Fatalf("temporary files left: %v", left)
	}
}

// TestNetworkFingerprint: readouts and the description of the training do not
// change the fingerprint of the network, which states name.
func TestNetworkFingerprint(t *testing.T) {
	plain := testModel(t)
	plain.Readouts, plain.Training = nil, Training{}
	want, err := plain.Fingerprint()
	if err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func(*Model){
		"temperature": func(m *Model) { m.Readouts[0].Temperature = 2 },
		"min_length":  func(m *Model) { m.Training.MinLength, m.Training.MaxLength = 3, 3 },
		"inputs":      func(m *Model) { m.Training.Inputs = make([]InputRange, 3) },
		"rate":        func(m *Model) { m.Training.Rate = 50 },
		"sets": func(m *Model) {
			m.Readouts[0].Temperature = 2
			m.Readouts[0].Coverage = &readout.Coverage{Level: .9, Least: make([]float64, len(m.Readouts[0].Classes))}
		},
	} {
		m := testModel(t)
		change(m)
		b, err := m.Encode()
		if err != nil {
			t.Fatal(err)
		}
		if got, err := Decode(b); err != nil || !reflect.DeepEqual(got, m) {
			t.Errorf("%s: read as\n%+v\n%+v (%v)", name, got, m, err)
		}
		m.Readouts, m.Training = nil, Training{}
		if got, err := m.Fingerprint(); err != nil || got != want {
			t.Errorf("%s: another network's fingerprint (%v)", name, err)
		}
	}
}

// TestInputRangesRefused: impossible ranges are refused, with the channel.
func TestInputRangesRefused(t *testing.T) {
	nan := math.NaN()
	good := InputRange{Values: 2, Min: 1, Max: 2, Mean: 1.5, Deviation: .5, LongestRun: 1}
	for want, change := range map[string]func(*Training){
		"ranges of 2 channels, the model has 3":  func(t *Training) { t.Inputs = t.Inputs[:2] },
		"channel 1: values from 3 to 2":          func(t *Training) { t.Inputs[1].Min = 3 },
		"channel 2: values from 1 to +Inf":       func(t *Training) { t.Inputs[2].Max = float32(math.Inf(1)) },
		"channel 0: values from NaN to 2":        func(t *Training) { t.Inputs[0].Min = float32(nan) },
		"channel 0: mean NaN, deviation 0.5":     func(t *Training) { t.Inputs[0].Mean = nan },
		"channel 0: mean 1.5, deviation -1":      func(t *Training) { t.Inputs[0].Deviation = -1 },
		"channel 1: 2 values, the longest run 3": func(t *Training) { t.Inputs[1].LongestRun = 3 },
		"channel 1: 2 values, the longest run 0": func(t *Training) { t.Inputs[1].LongestRun = 0 },
		"channel 1: -1 values":                   func(t *Training) { t.Inputs[1].Values = -1 },
		"sequences of 5 to 4 samples":            func(t *Training) { t.MinLength, t.MaxLength = 5, 4 },
		"sequences of -1 to 4 samples":           func(t *Training) { t.MinLength, t.MaxLength = -1, 4 },
	} {
		m := testModel(t)
		m.Training.Inputs = []InputRange{good, good, good}
		if err := m.Validate(); err != nil {
			t.Fatal(err)
		}
		change(&m.Training)
		if err := m.Validate(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
		if _, err := m.Encode(); err == nil {
			t.Errorf("%s: written", want)
		}
	}
}

// TestModelFileRefused damages a good file in each way a user may meet and
// expects one error that names the cause.
func TestModelFileRefused(t *testing.T) {
	good, err := testModel(t).Encode()
	if err != nil {
		t.Fatal(err)
	}
	edit := func(old, new string) []byte {
		if !bytes.Contains(good, []byte(old)) {
			t.Fatalf("the file does not contain %q", old)
		}
		n := binary.LittleEndian.Uint64(good)
		linear := strings.Replace(string(good[8:8+n]), old, new, 1)
		return append(append(binary.LittleEndian.AppendUint64(nil, uint64(len(linear))), linear...), good[8+n:]...)
	}
	header := func(n uint64) []byte { return append(binary.LittleEndian.AppendUint64(nil, n), good[8:]...) }
	nan := bytes.Clone(good)
	copy(nan[len(nan)-4:], []byte{0, 0, 0xc0, 0x7f})
	for _, c := range []struct {
		name string
		file []byte
		want string
	}{
		{"empty", nil, "too short"},
		{"five bytes", good[:5], "too short"},
		{"header beyond the end", header(uint64(len(good) - 4)), "truncated"},
		{"truncated header", good[:40], "truncated"},
		{"truncated body", good[:len(good)-5], "truncated"},
		{"trailing bytes", append(bytes.Clone(good), 1, 2, 3, 4), "4 bytes"},
		{"huge header", header(1 << 60), "header of 1152921504606846976 bytes"},
		{"not JSON", append(header(8)[:8], "not json"...), "header"},
		{"unknown version", edit(`"eusn.version":"1"`, `"eusn.version":"2"`), "model version 2, this build reads version 1"},
		{"another program", edit(`"eusn.version":"1"`, `"format":"pt"`), "another program"},
		{"unknown arithmetic", edit(`{\"arithmetic\":1`, `{\"arithmetic\":2`), "arithmetic version 2"},
		{"unknown spec key", edit(`\"kind\":`, `\"kinds\":`), `unknown field "kinds"`},
		{"more units than weights", edit(`\"units\":5`, `\"units\":6`), "want 36"},
		{"huge units", edit(`\"units\":5`, `\"units\":500000`), "units = 500000"},
		{"wrong shape", edit(`"shape":[5,5]`, `"shape":[25]`), "want [5 5]"},
		{"overflowing shape", edit(`"shape":[5,5]`, `"shape":[4294967296,4294967296]`), "shape"},
		{"missing tensor", edit(`"norm.diff"`, `"norm.difg"`), `"norm.diff" is missing`},
		{"wrong type", edit(`"F32"`, `"F16"`), `"F16"`},
		{"numbers for indices", edit(`"dtype":"I32"`, `"dtype":"F32"`), "has type F32, want I32"},
		{"a tensor too many", edit(`"norm.diff"`, `"x":{"dtype":"F32","shape":[0],"data_offsets":[0,0]},"norm.diff"`), `"x" is unknown`},
		{"NaN weight", nan, "NaN"},
		{"another number", edit(`\"seed\":7`, `\"seed\":8`), "damaged or edited"},
		{"escape sequence in a class", edit(`\"classes\":[\"a\"`, `\"classes\":[\"\\u001b[31m\"`), `class name "\x1b[31m" holds the control character U+001B`},
		{"endless class", edit(`\"classes\":[\"a\"`, `\"classes\":[\"`+strings.Repeat("a", 2<<20)+`\"`), "has 2097152 bytes, want at most 256"},
		{"line end in a channel", edit(`[\"x\",`, `[\"x\\n\",`), "U+000A"},
		{"name of a readout", edit(`\"name\":\"state\"`, `\"name\":\"\\u009b\"`), "U+009B"},
		{"name of the data set", edit(`made up`, `made\\tup`), "U+0009"},
		{"policy", edit(`{\"kind\":\"marked\"}`, `{\"kind\":\"window\"}`), "length 0"},
	} {
		m, err := Decode(c.file)
		if err == nil || m != nil {
			t.Errorf("%s: accepted", c.name)
			continue
		}
		if !errors.Is(err, ErrModel) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want ErrModel naming %q", c.name, err, c.want)
		}
	}
}

// TestDamageIsFound: one flipped bit at any place leaves the model equal or
// makes its file refused: no class is predicted with untrained weights.
func TestDamageIsFound(t *testing.T) {
	m := testModel(t)
	good, err := m.Encode()
	if err != nil {
		t.Fatal(err)
	}
	want, err := m.Fingerprint()
	if err != nil {
		t.Fatal(err)
	}
	for i := range good {
		bad := bytes.Clone(good)
		bad[i] ^= 1 << (i % 8)
		m, err := Decode(bad)
		if err != nil {
			continue
		}
		if got, err := m.Fingerprint(); err != nil || got != want {
			t.Errorf("byte %d: another model, %v", i, err)
		}
	}
}

// TestFingerprintMayBeAbsent: a file without the fingerprint, as other programs
// may write it, is the same model.
func TestFingerprintMayBeAbsent(t *testing.T) {
	m := testModel(t)
	b, err := m.encode(map[string]string{})
	if err != nil {
		t.Fatal(err)
	}
	if got, err := Decode(b); err != nil || !reflect.DeepEqual(got, m) {
		t.Errorf("%v, or another model", err)
	}
}

// TestDecodeAllocation: a few bytes that declare a large size must not make the
// reader allocate it.
func TestDecodeAllocation(t *testing.T) {
	good, err := testModel(t).Encode()
	if err != nil {
		t.Fatal(err)
	}
	bad := bytes.Replace(good, []byte(`\"members\":2`), []byte(`\"members\":4`), 1)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	if _, err := Decode(bad); err == nil {
		t.Fatal("accepted")
	}
	runtime.ReadMemStats(&after)
	if got, most := after.TotalAlloc-before.TotalAlloc, uint64(64*len(bad)); got > most {
		t.Errorf("allocated %d bytes for a file of %d", got, len(bad))
	}
}

// TestLoadReadsNoOtherFile: the first bytes reveal a file of any size that is
// not a model.
func TestLoadReadsNoOtherFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "zeros")
	if err := os.WriteFile(path, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	for _, size := range []int64{0, 7, 8, 64 << 20} {
		if err := os.Truncate(path, size); err != nil {
			t.Fatal(err)
		}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		if _, err := Load(path); !errors.Is(err, ErrModel) || !strings.Contains(err.Error(), path) {
			t.Errorf("%d zeros: %v, want ErrModel and the file's name", size, err)
		}
		runtime.ReadMemStats(&after)
		if got := after.TotalAlloc - before.TotalAlloc; got > 1<<20 {
			t.Errorf("%d zeros: allocated %d bytes", size, got)
		}
	}
}

func TestSaveErrors(t *testing.T) {
	m := testModel(t)
	if err := m.Save(filepath.Join(t.TempDir(), "no", "such", "m")); err == nil {
		t.Error("saved into a folder that does not exist")
	}
	m.Network.Members[0].Bias[0] = float32(math.Inf(1))
	path := filepath.Join(t.TempDir(), "m")
	if err := m.Save(path); err == nil || !strings.Contains(err.Error(), "bias[0]") {
		t.Errorf("saved an infinite bias: %v", err)
	}
	if _, err := os.Stat(path); err == nil {
		t.Error("a refused model left a file")
	}
}

// FuzzDecode: no bytes make the reader panic; an accepted model is valid and
// encodes back to an equal model.
func FuzzDecode(f *testing.F) {
	good, err := testModel(f).Encode()
	if err != nil {
		f.Fatal(err)
	}
	bare, err := testModel(f).encode(map[string]string{}) // so that the fingerprint does not refuse changes
	if err != nil {
		f.Fatal(err)
	}
	mixed, err := mixedModel(f).encode(map[string]string{})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(mixed)
	f.Add(good)
	f.Add(bare)
	f.Add(bare[:len(bare)/2])
	newer := testModel(f)
	newer.Readouts[0].Temperature, newer.Training.MinLength, newer.Training.MaxLength = 1.5, 2, 3
	newer.Training.Inputs = []InputRange{{Values: 1, Min: -1, Max: 1, LongestRun: 1}, {}, {}}
	if bare, err = newer.encode(map[string]string{}); err != nil {
		f.Fatal(err)
	}
	f.Add(bare)
	newer.Front = &Front{Center: 3, Decimate: 2, Fill: []float32{1, 2, 3}}
	if bare, err = newer.encode(map[string]string{}); err != nil {
		f.Fatal(err)
	}
	f.Add(bare)
	sure := testModel(f)
	l := sure.Readouts[0]
	l.Temperature, l.Coverage = 1, &readout.Coverage{Level: .9, Least: slices.Repeat([]float64{.3}, len(l.Classes))}
	l.Novelty = &novelty.Detector{Center: make([]float32, l.Features()), Scale: make([]float32, l.Features()), Axes: make([]float32, 2*l.Features()), Left: []float32{.5, 1, 3}, Unit: 1, Level: .3, Later: &novelty.Later{Level: .3, Sequences: 5, Novel: 2, Separate: 3}}
	if bare, err = sure.encode(map[string]string{}); err != nil {
		f.Fatal(err)
	}
	f.Add(bare)
	f.Fuzz(func(t *testing.T, b []byte) {
		m, err := Decode(b)
		if err != nil {
			return
		}
		again, err := m.Encode()
		if err != nil {
			t.Fatalf("accepted model does not encode: %v", err)
		}
		m2, err := Decode(again)
		if err != nil || !reflect.DeepEqual(m, m2) {
			t.Fatalf("round trip: %v", err)
		}
	})
}
