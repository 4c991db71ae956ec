package offlinecmd_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/eusn-stream/eusn-stream/internal/cli"
	"github.com/eusn-stream/eusn-stream/internal/cli/models"
	"github.com/eusn-stream/eusn-stream/internal/testing/clitest"
	"github.com/eusn-stream/eusn-stream/reservoir"
)

// A labeled CSV recording is imported, trained on, evaluated and run; if a command needs a data set, the hint names
// the commands for recordings.
func TestRecordingTrains(t *testing.T) {
	dir := t.TempDir()
	csv, archive, model := filepath.Join(dir, "plant.csv"), filepath.Join(dir, "plant.parquet"), filepath.Join(dir, "m.safetensors")
	var b strings.Builder
	b.WriteString("stream,x,label\n")
	for r := range 400 {
		label, x := "calm", float64(r%7)
		if r/100%2 == 1 {
			label, x = "busy", float64(r*r%11)
		}
		for n := range 3 {
			fmt.Fprintf(&b, "m%d,%g,%s\n", n, x+0.1*float64(n), label)
		}
	}
	clitest.Write(t, csv, b.String())
	clitest.Must(t, "import", csv, "--output", archive)
	policy := []string{"--policy", "window", "--length", "20", "--hop", "10", "--members", "2", "--units", "8"}
	r := clitest.Must(t, append([]string{"train", archive, "--output", model}, policy...)...)
	for _, want := range []string{"training on 108 sequences of 20 samples, cut from 3 streams as the live stage cuts them: window of 20 samples every 10", "9 sequences hold samples with several labels", "evaluate RECORDING"} {
		if !strings.Contains(r.ErrOut, want) {
			t.Errorf("retrain does not say %q:\n%s", want, r.ErrOut)
		}
	}
	out := clitest.Must(t, "evaluate", "--model", model, archive, "--min-accuracy", "0.95").Out
	for _, want := range []string{"plant, recording:", "117 sequences of 3 streams", "9 of them hold samples with several labels"} {
		if !strings.Contains(out, want) {
			t.Errorf("evaluate does not say %q:\n%s", want, out)
		}
	}
	fromCSV := filepath.Join(dir, "csv.safetensors")
	r = clitest.Must(t, append([]string{"offline", "retrain", csv, "--output", fromCSV}, policy...)...)
	r.Want(t, cli.ExitOK, "evaluate RECORDING")
	if again := clitest.Must(t, "offline", "evaluate", csv, "--model", fromCSV).Out; again != out {
		t.Errorf("the CSV file evaluates to\n%s, its archive to\n%s", again, out)
	}
	// No sequence ends in the archive: without --policy and a search, training uses windows.
	chosen := clitest.Must(t, "train", archive, "--output", model, "--search", "0", "--sample-rate", "20Hz", "--members", "2", "--units", "8")
	if want := "continuous series: windows of 2 s, every 1 s; change with --policy window --length 40 --hop 20"; !strings.Contains(chosen.ErrOut, want) {
		t.Errorf("train does not say %q:\n%s", want, chosen.ErrOut)
	}
	if out := clitest.Must(t, "model", "show", model).Out; !strings.Contains(out, "window of 40 samples every 20") {
		t.Error(out)
	}
	clitest.Must(t, "evaluate", "--model", model, archive, "--split", "train").Want(t, cli.ExitOK, "is a recording: all of it is evaluated")
	clitest.Exec(t, t.Context(), "replay", archive, "--streams", "5", "--nats-url", "nats://127.0.0.1:1").Want(t, cli.ExitUnreachable, "is a recording: all of it is published with its own streams; --streams applies to data sets only")
	clitest.Exec(t, t.Context(), "demo", "--dir", dir, archive).Want(t, cli.ExitIntegrity, "is a recording, and this command reads data sets", "a recording works with eusn-stream train")
}

// A recording with sample times gives the model its rate; a recording at half the rate is flagged, and --sample-rate
// overrides the rate.
func TestRecordingHasRate(t *testing.T) {
	dir := t.TempDir()
	record := func(name string, ms int) string {
		var b strings.Builder
		b.WriteString("stream,time,x,label\n")
		for r := range 200 {
			fmt.Fprintf(&b, "m,2026-01-01T00:00:%02d.%03dZ,%d,%s\n", r*ms/1000, r*ms%1000, r%7*(1+r/100), []string{"calm", "busy"}[r/100])
		}
		archive := filepath.Join(dir, name+".parquet")
		clitest.Must(t, "import", clitest.Write(t, filepath.Join(dir, name+".csv"), b.String()), "--output", archive)
		return archive
	}
	archive, model := record("even", 20), filepath.Join(dir, "m.safetensors")
	train := []string{"train", archive, "--output", model, "--policy", "count", "--length", "20", "--members", "2", "--units", "8"}
	clitest.Must(t, train...).Want(t, cli.ExitOK, "sampling rate 50 Hz: the live stage flags sequences at another rate")
	if out := clitest.Must(t, "model", "show", model).Out; !strings.Contains(out, "trained at 50 Hz, at most 0.02 s between two samples; sequences of 0.4 to 0.4 s") {
		t.Errorf("inspect says\n%s", out)
	}
	var inspected models.Report
	clitest.Must(t, "model", "show", "--json", model).Parse(t, &inspected)
	if m := inspected.Modes; m == nil || m.Count != 16 || m.HalfSeconds != m.Half/50 || m.Half <= 0 || m.MostSeconds <= m.HalfSeconds {
		t.Errorf("inspect --json: modes %+v, want those of 16 units at 50 Hz", m)
	}
	for _, c := range []struct {
		archive, tolerance, want string
	}{{archive, "5", ""}, {record("slow", 40), "5", "10 at another sampling rate, of 10 predictions"}, {record("slower", 24), "5", "10 at another sampling rate"}, {record("less", 24), "20", ""}, {record("other", 40), "-1", ""}} {
		out := clitest.Must(t, "evaluate", "--model", model, c.archive, "--rate-tolerance", c.tolerance).Out
		if strings.Contains(out, "at another sampling rate") != (c.want != "") || !strings.Contains(out, c.want) {
			t.Errorf("%s within %s %%: want %q\n%s", filepath.Base(c.archive), c.tolerance, c.want, out)
		}
	}
	clitest.Must(t, append(train, "--sample-rate", "25.6kHz")...).Want(t, cli.ExitOK, "sampling rate 25600 Hz")
	// Without --policy, the windows of 2 s are shortened for a recording of 0.2 s.
	clitest.Must(t, "train", record("short", 1), "--output", model, "--search", "0", "--members", "2", "--units", "8").Want(t, cli.ExitOK, "--policy window --length 32 --hop 16")
	for _, bad := range []string{"0", "-5Hz", "fast", "1e12", "NaN"} {
		clitest.Exec(t, t.Context(), append(train, "--sample-rate", bad)...).Want(t, cli.ExitUsage, "want a sampling rate of 1e-06 to 1e+09 Hz, such as 100Hz or 25.6kHz")
	}
}

// A windowed model that was trained on whole series, like all models before training cut windows, is refused before
// any work.
func TestRunRefusesOtherLengths(t *testing.T) {
	archive, dir := clitest.ImportTiny(t, 2), t.TempDir()
	path := filepath.Join(dir, "m.safetensors")
	clitest.Must(t, "train", archive, "--output", path, "--members", "2", "--units", "8")
	m, err := reservoir.Load(path)
	if err != nil {
		t.Fatal(err)
	}
	m.Policy, m.Training.MinLength = reservoir.Policy{Kind: reservoir.Window, Length: 20, Hop: 10}, 0
	if err := m.Save(path); err != nil {
		t.Fatal(err)
	}
	clitest.Exec(t, t.Context(), "run", "--model", path, "--dir", filepath.Join(dir, "data"), "--port", "-1").
		Want(t, cli.ExitIntegrity, "trained on sequences of up to 40 samples, its policy window cuts sequences of 20", "train again with --policy window --length 20 --hop 10")
	if _, err := os.Stat(filepath.Join(dir, "data")); err == nil {
		t.Error("a server was started")
	}
	r := clitest.Must(t, "evaluate", "--model", path, archive)
	if !strings.Contains(r.ErrOut, "its predictions would mean nothing") {
		t.Errorf("evaluate does not warn:\n%s", r.ErrOut)
	}
}

// train and evaluate read what import reads: a text table, a folder with a table for each stream, and a published data set.
func TestTrainReadsTables(t *testing.T) {
	dir, model := t.TempDir(), filepath.Join(t.TempDir(), "m.safetensors")
	table := func(stream string, scale int) string {
		var b strings.Builder
		b.WriteString("stream x y label\n")
		for r := range 200 {
			fmt.Fprintf(&b, "%s %d %d %s\n", stream, r*r%7*(1+r/100*scale), r%5, []string{"calm", "busy"}[r/100])
		}
		return b.String()
	}
	one := clitest.Write(t, filepath.Join(dir, "plant.txt"), table("m1", 3))
	folder := filepath.Join(dir, "days")
	if err := os.Mkdir(folder, 0o755); err != nil {
		t.Fatal(err)
	}
	clitest.Write(t, filepath.Join(folder, "a.dat"), table("m1", 3))
	clitest.Write(t, filepath.Join(folder, "b.dat"), table("m2", 3))
	published := filepath.Join(dir, "Steps")
	if err := os.Mkdir(published, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, part := range []string{"TRAIN", "TEST"} {
		var b strings.Builder
		for i := range 12 {
			fmt.Fprintf(&b, "%d", i%2)
			for r := range 20 {
				fmt.Fprintf(&b, "\t%d", (i%2)*(r/10)+r*i%3)
			}
			b.WriteString("\n")
		}
		clitest.Write(t, filepath.Join(published, "Steps_"+part+".tsv"), b.String())
	}
	for _, c := range []struct {
		data, cut string
		policy    []string
	}{
		{one, "cut from 1 streams", []string{"--policy", "count", "--length", "20"}},
		{folder, "cut from 2 streams", []string{"--policy", "count", "--length", "20"}},
		{published, "training on 12 sequences of 20 samples, cut from 12 series", nil},
	} {
		train := append([]string{"train", c.data, "--output", model, "--members", "2", "--units", "8"}, c.policy...)
		clitest.Must(t, train...).Want(t, cli.ExitOK, c.cut)
		clitest.Must(t, "evaluate", c.data, "--model", model)
	}
}
