package reservoir

import (
	"bufio"
	"bytes"
	"encoding/hex"
	"fmt"
	"math"
	"os"
	"slices"
	"strings"
	"testing"
)

// frontSeries is the series of testdata/front.py.
func frontSeries(n int) []float32 {
	x := make([]float32, 3*n)
	for i := range n {
		for c, offset := range []float32{0, 9810, -.5} {
			v := (i*i*7919+i*104729*(c+1))%4001 - 2000
			x[3*i+c] = float32(v)/16 + offset
			if c == 2 && i/50%2 == 0 {
				x[3*i+c] = 7.25
			}
			if c == 1 && i >= n/2 {
				x[3*i+c] *= 1e9
			}
		}
	}
	x[0], x[n/3*3], x[n/3*3+3] = 1e15, -1e15, 1e15
	return x
}

// TestFrontGolden: the output of a front end equals, bit for bit, the output of
// a NumPy program written from the definition only. On every architecture:
// products fused with a sum by a compiler give other bits.
func TestFrontGolden(t *testing.T) {
	f, err := os.Open("testdata/front.golden")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	cases := 0
	for ; lines.Scan(); cases++ {
		var name, text, behind string
		var front Front
		var n int
		if _, err := fmt.Sscan(lines.Text(), &name, &front.Center, &front.Normalize, &front.Envelope, &front.Decimate, &n, &text, &behind); err != nil {
			t.Fatal(err)
		}
		want, err := hex.DecodeString(text)
		if err != nil {
			t.Fatal(err)
		}
		x := frontSeries(n)
		state := slices.Repeat([]float64{math.NaN()}, front.StateSize(3)) // the earlier content does not matter
		got := x[:3*front.Run(state, 0, x, 3)]
		if len(got)*4 != len(want) || len(got) == 0 {
			t.Errorf("%s: %d values come out, want %d", name, len(got), len(want)/4)
			continue
		}
		for i, v := range got {
			if bits := fmt.Sprintf("%08x", math.Float32bits(v)); bits != text[8*i:8*i+8] {
				t.Errorf("%s: value %d of sample %d is %v (%s), want %s", name, i%3, i/3, v, bits, text[8*i:8*i+8])
				break
			}
		}
		after := ""
		for _, v := range state {
			after += fmt.Sprintf("%016x", math.Float64bits(v))
		}
		if after != behind {
			t.Errorf("%s: the state is\n%s, want\n%s", name, after, behind)
		}
	}
	if cases != 8 {
		t.Errorf("%d cases, want 8", cases)
	}
}

// TestFrontOfConstantChannel: a constant channel normalizes to 0, not to a
// quotient of two roundings; and so does the first sample.
func TestFrontOfConstantChannel(t *testing.T) {
	front := Front{Normalize: 100}
	x := slices.Repeat([]float32{1234.567}, 5000)
	for i := range 50 {
		x[1000+i] += float32(i) // then the signal is constant
	}
	front.Run(make([]float64, front.StateSize(1)), 0, x, 1)
	if slices.IndexFunc(x[:1000], func(v float32) bool { return v != 0 }) >= 0 || x[1010] == 0 || x[4999] != 0 {
		t.Errorf("constant: %v; moving: %v; long after: %v", x[:3], x[1010], x[4999])
	}
}

func TestFrontRefused(t *testing.T) {
	good := func() *Model {
		m := testModel(t)
		m.Front = &Front{Center: 10, Envelope: 1, Decimate: 5, Fill: []float32{1, 2, 3}}
		return m
	}
	if err := good().Validate(); err != nil {
		t.Fatal(err)
	}
	for want, change := range map[string]func(*Model){
		"no part, want at least one":                              func(m *Model) { *m.Front = Front{Fill: m.Front.Fill} },
		"center of 1 samples, want 2 to 1073741824":               func(m *Model) { m.Front.Center = 1 },
		"center of -3 samples":                                    func(m *Model) { m.Front.Center = -3 },
		"envelope of 1073741825 samples":                          func(m *Model) { m.Front.Envelope = MaxFront + 1 },
		"decimate of 1 samples, want 2":                           func(m *Model) { m.Front.Decimate = 1 },
		"normalize of 1 samples":                                  func(m *Model) { m.Front.Center, m.Front.Normalize = 0, 1 },
		"center and normalize, want one of them":                  func(m *Model) { m.Front.Normalize = 10 },
		"2 values of fill, want one for each of 3 channels":       func(m *Model) { m.Front.Fill = m.Front.Fill[:2] },
		"fill of channel 1 is NaN":                                func(m *Model) { m.Front.Fill[1] = float32(math.NaN()) },
		"fill of channel 2 is 1e+16":                              func(m *Model) { m.Front.Fill[2] = 1e16 },
		"hop of 12 samples, want a multiple of decimate (5)":      func(m *Model) { m.Policy = Policy{Kind: Window, Length: 60, Hop: 12} },
		"count with a length of 12 samples, want a multiple of d": func(m *Model) { m.Policy = Policy{Kind: Count, Length: 12} },
	} {
		m := good()
		change(m)
		if err := m.Validate(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
		if _, err := m.Encode(); err == nil {
			t.Errorf("%s: written", want)
		}
	}
}

// BenchmarkFront measures the front end for a sample of three channels.
func BenchmarkFront(b *testing.B) {
	for name, front := range map[string]Front{
		"decimate": {Decimate: 10}, "center, envelope, decimate": {Center: 1000, Envelope: 20, Decimate: 10}, "normalize": {Normalize: 1000},
	} {
		b.Run(name, func(b *testing.B) {
			x, state := frontSeries(4096), make([]float64, front.StateSize(3))
			in := slices.Clone(x)
			n := int64(0)
			b.ReportAllocs()
			for range b.N {
				copy(x, in)
				front.Run(state, n, x, 3)
				n += 4096
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/4096, "ns/sample")
		})
	}
}

// TestFrontInModelFile: a front end is a part of the network's fingerprint, and
// changes no older fingerprint; a file that declares a front end must have one.
func TestFrontInModelFile(t *testing.T) {
	print := func(m *Model) string {
		bare := *m
		bare.Readouts, bare.Training = nil, Training{}
		s, err := bare.Fingerprint()
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	m := testModel(t)
	seen := map[string]bool{print(m): true}
	for _, f := range []Front{{Center: 2}, {Center: 3}, {Normalize: 3}, {Envelope: 3}, {Decimate: 3}} {
		for _, fill := range [][]float32{{0, 0, 0}, {0, 0, 1}} {
			f.Fill = fill
			m.Front = &f
			if s := print(m); seen[s] {
				t.Errorf("%+v has the fingerprint of another", f)
			} else {
				seen[s] = true
			}
		}
	}
	b, err := m.encode(map[string]string{})
	if err != nil {
		t.Fatal(err)
	}
	more := bytes.Replace(b, []byte(`{\"decimate\"`), []byte(`{\"decimale\"`), 1)
	if _, err := Decode(more); err == nil || !strings.Contains(err.Error(), `metadata eusn.front: json: unknown field "decimale"`) {
		t.Errorf("a part of a later program: %v", err)
	}
}

// TestSmooth: a running mean with equal weights at first, then with decaying weights.
func TestSmooth(t *testing.T) {
	f := Front{Smooth: 2}
	x := []float32{4, -2, 5, 1}
	if n := f.Run(make([]float64, f.StateSize(1)), 0, x, 1); n != 4 || !slices.Equal(x, []float32{4, 1, 3, 2}) {
		t.Errorf("%d samples: %v", n, x)
	}
	f.Envelope = 3
	if err := f.CheckParts(Policy{Kind: Marked}); err == nil || !strings.Contains(err.Error(), "smooth and envelope, want one of them") {
		t.Error(err)
	}
}
