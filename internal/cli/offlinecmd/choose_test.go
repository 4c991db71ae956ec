package offlinecmd_test

import (
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/eusn-stream/eusn-stream/internal/cli"
	"github.com/eusn-stream/eusn-stream/internal/cli/models"
	"github.com/eusn-stream/eusn-stream/internal/testing/clitest"
	"github.com/eusn-stream/eusn-stream/reservoir"
)

// writeStreams writes a recording of streams with one label each.
func writeStreams(t *testing.T, streams, samples int, value func(stream, i int) float64) string {
	t.Helper()
	var b strings.Builder
	b.WriteString("stream,x,label\n")
	for s := range streams {
		for i := range samples {
			fmt.Fprintf(&b, "m%02d,%.4f,%s\n", s, value(s, i), []string{"calm", "worn"}[s%2])
		}
	}
	archive := filepath.Join(t.TempDir(), "plant.parquet")
	clitest.Must(t, "import", clitest.Write(t, filepath.Join(t.TempDir(), "plant.csv"), b.String()), "--output", archive)
	return archive
}

// vibration is noise whose loudness varies, with another period if worn: no sample tells the classes apart.
func vibration(t *testing.T) string {
	draw := rand.New(rand.NewPCG(1, 2))
	return writeStreams(t, 12, 2600, func(s, i int) float64 {
		period := []float64{110, 80}[s%2]
		return draw.NormFloat64() * (1 + 0.5*math.Sin(2*math.Pi*(float64(i)/period+float64(s)/7)))
	})
}

func show(t *testing.T, model string) models.Report {
	t.Helper()
	var r models.Report
	clitest.Must(t, "model", "show", "--json", model).Parse(t, &r)
	return r
}

// train without settings finds that the envelope of a vibration separates the classes, prints the candidates and
// stores them in the model. The result does not depend on threads.
func TestTrainChoosesEnvelope(t *testing.T) {
	data, dir := vibration(t), t.TempDir()
	model, again := filepath.Join(dir, "m.safetensors"), filepath.Join(dir, "again.safetensors")
	train := []string{"train", data, "--sample-rate", "12kHz", "--bank", "tiny", "--output", model}
	r := clitest.Must(t, train...)
	r.Want(t, cli.ExitOK, "<- chosen", "--search 0 would take --policy window --length 324")
	m := show(t, model)
	if m.Front == nil || m.Front.Envelope == 0 {
		t.Fatalf("the front end is %+v, want an envelope:\n%s", m.Front, r.ErrOut)
	}
	var standard, chosen reservoir.Choice
	for i, c := range m.Training.Choices {
		if i == 0 {
			standard = c
		}
		if c.Chosen {
			chosen = c
		}
	}
	if chosen.Settings == "" || chosen.Error >= standard.Error-standard.Deviation {
		t.Errorf("chosen is %+v, and the default %+v", chosen, standard)
	}
	if out := clitest.Must(t, "model", "show", model).Out; !strings.Contains(out, chosen.Settings+"  <- chosen") {
		t.Errorf("model show does not print the choice:\n%s", out)
	}
	clitest.Must(t, "train", data, "--sample-rate", "12kHz", "--bank", "tiny", "--output", again, "--threads", "1")
	first, _ := os.ReadFile(model)
	if second, _ := os.ReadFile(again); len(first) == 0 || !bytes.Equal(first, second) {
		t.Error("another number of threads gives another model")
	}
	// The printed flags give the same network without a search.
	pinned := append([]string{"train", data, "--sample-rate", "12kHz", "--bank", "tiny", "--output", again}, strings.Fields(chosen.Settings)...)
	clitest.Must(t, pinned...)
	if p := show(t, again); p.Policy != m.Policy || p.Front.Envelope != m.Front.Envelope || p.Training.Alpha != m.Training.Alpha || p.Training.Choices != nil {
		t.Errorf("%s gives %+v, want %+v", chosen.Settings, p.Policy, m.Policy)
	}
}

// Given settings are not searched, and --search 0 keeps the defaults.
func TestTrainKeepsGivenSettings(t *testing.T) {
	data, model := vibration(t), filepath.Join(t.TempDir(), "m.safetensors")
	train := func(flags ...string) models.Report {
		clitest.Must(t, append([]string{"train", data, "--members", "4", "--units", "8", "--output", model}, flags...)...)
		return show(t, model)
	}
	if m := train("--search", "0"); m.Front != nil || m.Policy != (reservoir.Policy{Kind: reservoir.Window, Length: 256, Hop: 128}) || m.Training.Choices != nil {
		t.Errorf("--search 0 gives %+v with %+v", m.Policy, m.Front)
	}
	given := reservoir.Policy{Kind: reservoir.Window, Length: 512, Hop: 256}
	if m := train("--policy", "window", "--length", "512", "--hop", "256"); m.Policy != given || m.Front != nil || m.Training.Choices != nil {
		t.Errorf("a given policy becomes %+v with %+v", m.Policy, m.Front)
	}
	if m := train("--policy", "window", "--length", "512", "--hop", "256", "--search", "1m"); m.Policy != given || m.Front == nil || len(m.Training.Choices) < 2 {
		t.Errorf("--search with a given policy gives %+v with %+v", m.Policy, m.Front)
	}
	if m := train("--front", "smooth=8"); m.Front == nil || m.Front.Smooth != 8 || m.Front.Envelope != 0 || len(m.Training.Choices) < 2 {
		t.Errorf("a given front end becomes %+v", m.Front)
	}
	clitest.Exec(t, t.Context(), "train", data, "--search", "-1s").Want(t, cli.ExitUsage, "--search -1s: want a time, or 0 for no search")
}

// A slow process whose level separates the classes keeps its samples.
func TestTrainKeepsSlowProcess(t *testing.T) {
	draw, x := rand.New(rand.NewPCG(1, 3)), 0.
	data := writeStreams(t, 12, 800, func(s, i int) float64 {
		x += -x/30 + 0.1*draw.NormFloat64()
		return x + 0.5*float64(s%2)
	})
	model := filepath.Join(t.TempDir(), "m.safetensors")
	clitest.Must(t, "train", data, "--bank", "tiny", "--output", model)
	m := show(t, model)
	if f := m.Front; f != nil && (f.Envelope != 0 || f.Center != 0 || f.Normalize != 0) {
		t.Errorf("the front end of a slow process is %+v", f)
	}
	if len(m.Training.Choices) < 4 {
		t.Errorf("compared %+v", m.Training.Choices)
	}
}

// Without two classes, train learns the numbers of a column, or healthy data alone.
func TestTrainChoosesTask(t *testing.T) {
	dir := t.TempDir()
	model := filepath.Join(dir, "m.safetensors")
	var plain, wear strings.Builder
	plain.WriteString("stream,x\n")
	wear.WriteString("unit,x,rul\n")
	draw := rand.New(rand.NewPCG(1, 4))
	for s := range 8 {
		for i := range 600 {
			fmt.Fprintf(&plain, "m%d,%.4f\n", s, draw.NormFloat64())
			fmt.Fprintf(&wear, "%d,%.4f,%d\n", s, float64(i)/200+1.5*draw.NormFloat64(), 599-i)
		}
	}
	healthy := clitest.Write(t, filepath.Join(dir, "healthy.csv"), plain.String())
	clitest.Must(t, "train", healthy, "--bank", "tiny", "--output", model).Want(t, cli.ExitOK, "learning from healthy data alone, as with --healthy-only")
	if m := show(t, model); len(m.Readouts) != 1 || !m.Readouts[0].Detects() {
		t.Errorf("the readout is %+v, want a detector", m.Readouts)
	}
	clitest.Exec(t, t.Context(), "train", healthy, "--bank", "tiny", "--output", model, "--search", "0").Want(t, cli.ExitIntegrity, "has no labels")
	numbers := clitest.Write(t, filepath.Join(dir, "wear.csv"), wear.String())
	short := clitest.Must(t, "train", numbers, "--bank", "tiny", "--output", model)
	short.Want(t, cli.ExitOK, "learning these, as with --target rul",
		"short runs with numbers: a prediction at each sample, as with --policy endless --early 1 --train-hop 15")
	if !strings.Contains(short.Out, "512 random features") {
		t.Errorf("printed %s, want the comparison with random features", short.Out)
	}
	if m := show(t, model); m.Readouts[0].Interval == nil || m.Policy.Kind != reservoir.Endless || m.Policy.Early != 1 {
		t.Errorf("the readout is %+v, the policy %+v, want numbers at each sample", m.Readouts, m.Policy)
	}
	clitest.Must(t, "train", numbers, "--bank", "tiny", "--output", model, "--target", "rul", "--policy", "window", "--length", "64", "--hop", "32")
	if m := show(t, model); m.Policy.Kind != reservoir.Window || m.Policy.Length != 64 {
		t.Errorf("the policy is %+v, want the given one", m.Policy)
	}
	long := new(strings.Builder)
	long.WriteString("unit,x,rul\n")
	for s := range 5 {
		for i := range 1200 {
			fmt.Fprintf(long, "%d,%.4f,%d\n", s, float64(i)/400+1.5*draw.NormFloat64(), 1199-i)
		}
	}
	clitest.Must(t, "train", clitest.Write(t, filepath.Join(dir, "long.csv"), long.String()), "--bank", "tiny", "--output", model).Want(t, cli.ExitOK, "<- chosen", "root mean squared error")
	m := show(t, model)
	if !slices.ContainsFunc(m.Training.Choices, func(c reservoir.Choice) bool { return strings.Contains(c.Settings, "--length 150 ") }) {
		t.Errorf("the candidates do not follow the lengths of the streams: %+v", m.Training.Choices)
	}
}
