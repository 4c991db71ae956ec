package edge

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"

	"github.com/eusn-stream/eusn-stream/internal/canon"
	"github.com/eusn-stream/eusn-stream/internal/testing/parts"
)

// TestArithmetic compares the header's operations with package canon, mostly at values
// where a second rounding would differ: in the middle between two float32.
func TestArithmetic(t *testing.T) {
	m := models(t)["bank"]
	temperature := m.Readouts[0].Temperature
	rng := rand.New(rand.NewPCG(2, 12))
	finite := func() float32 {
		for {
			if x := math.Float32frombits(rng.Uint32()); x-x == 0 {
				return x
			}
		}
	}
	var data []byte
	var want []string
	for i := range 100_000 {
		a, b, c := finite(), finite(), finite()
		tiny, sign := float32(math.Pow(2, -float64(12+rng.IntN(12)))), float32(1-2*rng.IntN(2))
		switch i % 4 {
		case 1: // half of the last bit of c, minus tiny*tiny
			a, b, c = sign*(1+tiny), 1-tiny, float32(2*(1<<23+rng.IntN(1<<23)))
		case 2: // half of the smallest number, minus tiny*tiny
			a, b, c = sign*(1+tiny)*0x1p-75, (1-tiny)*0x1p-75, float32(rng.IntN(1<<22))*0x1p-149
		case 3: // scores a few apart
			b = 8 * rng.Float32()
		}
		root := uint32(0)
		if p := math.Float32frombits(math.Float32bits(a) &^ (1 << 31)); p != 0 {
			root = math.Float32bits(float32(math.Sqrt(float64(p))))
		}
		lower := math.Abs(float64(b))
		want = append(want, fmt.Sprintf("%08x %08x %08x %016x", math.Float32bits(canon.FMA(a, b, c)), math.Float32bits(canon.Tanh(a)), root,
			math.Float64bits(canon.ExpNegative(float64(temperature*lower)))))
		for _, x := range []float32{a, b, c} {
			data = binary.LittleEndian.AppendUint32(data, math.Float32bits(x))
		}
	}
	want = append(want, "end")
	dir := t.TempDir()
	var header bytes.Buffer
	if _, err := C(&header, m, Options{}); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(dir, "model.h"), header.Bytes())
	write(t, filepath.Join(dir, "numbers"), append(binary.LittleEndian.AppendUint32(nil, uint32(len(want)-1)), data...))
	for on, d := range machines {
		t.Run(on, func(t *testing.T) {
			t.Parallel()
			if _, err := exec.LookPath(d.cc[0]); err != nil {
				parts.Absent(t, d.part, "%s is not installed", d.cc[0])
			}
			program := filepath.Join(t.TempDir(), "program")
			args := slices.Concat(d.cc[1:], []string{"-Wall", "-Wextra", "-Werror", "-I", dir, `-DSERIES="` + filepath.Join(dir, "numbers") + `"`, "testdata/arithmetic.c", "-o", program})
			cmd := exec.Command(d.cc[0], args...)
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Fatalf("%v: %v\n%s", cmd, err, out)
			}
			compareOutput(t, d, program, want)
		})
	}
}
