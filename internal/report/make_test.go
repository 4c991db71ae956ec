package report

import (
	"errors"
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/eusn-stream/eusn-stream/internal/paper"
	"github.com/eusn-stream/eusn-stream/offline/archive"
)

var remake = flag.Bool("remake", false, "bench the results files of testdata again and write the golden files")

// inputs are the results files of testdata.
var inputs = []string{"testdata/paper.jsonl", "testdata/best.jsonl", "testdata/bank.jsonl", "testdata/memory.jsonl"}

// waves is an invented data set, with the name of a data set of the paper.
func waves(name string, classes int, seed uint64) *archive.Dataset {
	rng := rand.New(rand.NewPCG(seed, 1))
	d := &archive.Dataset{Name: name, Channels: []string{"x"}}
	for c := range classes {
		d.Classes = append(d.Classes, fmt.Sprint("c", c))
	}
	for i := range 15 * classes {
		s := archive.Series{ID: fmt.Sprint("s", i), Split: archive.Train, Label: i % classes}
		if i >= 10*classes {
			s.Split = archive.Test
		}
		phase := rng.Float64()
		for t := range 30 {
			s.Values = append(s.Values, float32(math.Sin(phase+float64(s.Label+1)*float64(t)/5)+.4*rng.NormFloat64()))
		}
		d.Series = append(d.Series, s)
	}
	return d
}

// remakeInputs recreates the results files.
func remakeInputs(t *testing.T) {
	sets := []*archive.Dataset{waves("Adiac", 4, 1), waves("Blink", 2, 2), waves("ECG5000", 3, 3)}
	var tasks []*archive.Dataset
	for _, length := range []int{60, 120} {
		m, err := paper.Memory(waves("Waves", 2, 4), length, 1)
		if err != nil {
			t.Fatal(err)
		}
		tasks = append(tasks, m)
	}
	plan := func(draws int, models ...string) paper.Plan {
		return paper.Plan{Models: models, Configurations: 8, Draws: draws, Epochs: 20}
	}
	for i, r := range []struct {
		protocol paper.Protocol
		sets     []*archive.Dataset
		plan     paper.Plan
	}{
		{paper.PaperExact, sets, plan(3, "eusn", "esn", "resn", "gru")},
		{paper.Best, sets[:2], plan(2, "eusn")},
		{paper.Bank, sets, paper.Plan{Models: []string{paper.BankModel}, Draws: 2}},
		{paper.PaperExact, tasks, plan(2, "eusn", "esn")},
	} {
		if err := os.Remove(inputs[i]); err != nil && !errors.Is(err, os.ErrNotExist) {
			t.Fatal(err)
		}
		st, err := paper.Create(inputs[i], paper.NewSettings(r.protocol, 1))
		if err != nil {
			t.Fatal(err)
		}
		o := paper.Options{Plan: r.plan, Origin: &paper.Origin{Program: "go test ./internal/report -remake", Machine: "2 vCPU AMD EPYC, Zen 3, AVX2", Began: "2026-11-21T12:00:00Z"}}
		o.Command = func(c paper.Cell) string {
			return "eusn-stream offline bench " + c.Dataset + ".parquet --models " + c.Model
		}
		_, err = paper.Run(t.Context(), r.sets, o, st)
		if err := errors.Join(err, st.Close()); err != nil {
			t.Fatal(err)
		}
	}
}

// The committed results give the committed files, byte for byte.
func TestGolden(t *testing.T) {
	golden := filepath.Join("testdata", "golden")
	if *remake {
		remakeInputs(t)
		if err := os.RemoveAll(golden); err != nil {
			t.Fatal(err)
		}
	}
	r, err := Load(inputs, Options{})
	if err != nil {
		t.Fatal(err)
	}
	compared := 0
	for _, f := range r.Files() {
		if f.Name == "report.html" || f.Name == "results.jsonl" { // long, and checked by other tests
			continue
		}
		got, err := f.Data()
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(golden, filepath.FromSlash(f.Name))
		if *remake {
			if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, got, 0o644)); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if string(got) != string(want) {
			t.Errorf("%s:\n%s\nwant\n%s", f.Name, got, want)
		}
		compared++
	}
	if want := 1 + 3*4*3 + 2*2 + 3*2; compared != want {
		t.Errorf("%d files, want the table and %d of predictions", compared, want-1)
	}
}
