package offlinecmd_test

import (
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/eusn-stream/eusn-stream/internal/alarm"
	"github.com/eusn-stream/eusn-stream/internal/cli"
	"github.com/eusn-stream/eusn-stream/internal/machine"
	"github.com/eusn-stream/eusn-stream/internal/testing/clitest"
	"github.com/eusn-stream/eusn-stream/offline"
	"github.com/eusn-stream/eusn-stream/offline/archive"
)

// A model of only one class reports everything else as novel; --novelty does the same next to the classes.
func TestNoveltyCommands(t *testing.T) {
	archive, dir := clitest.ImportTiny(t, 1), t.TempDir()
	model, predictions := filepath.Join(dir, "m.safetensors"), filepath.Join(dir, "p.parquet")
	retrain := []string{"train", archive, "--output", model, "--bank", "tiny"}
	trained := clitest.Must(t, append(retrain, "--healthy-only=slow", "--false-alarms", "0.1")...)
	if want := " features per sequence: all features are kept"; !strings.Contains(trained.ErrOut, want) || strings.Contains(trained.ErrOut, "\n0 features") {
		t.Errorf("retrain does not say %q:\n%s", want, trained.ErrOut)
	}
	out := trained.Out
	if want := "novelty    from 12 sequences in 12 groups; a share of 0.1 of sequences like these will be novel; p-values from 0.0769\n"; !strings.Contains(out, want) {
		t.Errorf("retrain does not say %q:\n%s", want, out)
	}
	if inspect := clitest.Must(t, "model", "show", model).Out; !strings.Contains(inspect, "novelty    11 dimensions, from 12 sequences; novel at a p-value of at most 0.1; its class is whether it is novel\n") {
		t.Errorf("inspect says\n%s", inspect)
	}
	evaluate := []string{"evaluate", "--model", model, archive, "--predictions", predictions}
	out = clitest.Must(t, evaluate...).Out
	if want := "of other classes: 12 of 12 are novel; AUROC 1.0000\n"; !strings.Contains(out, want) {
		t.Errorf("evaluate does not say %q:\n%s", want, out)
	}
	var ev offline.Evaluation
	clitest.Must(t, append(evaluate, "--json")...).Parse(t, &ev)
	if n := ev.Novelty; n == nil || n.Known != 12 || n.Found != 12 || n.Level < .0999 || n.Level > .1001 {
		t.Errorf("--json: %+v", ev.Novelty)
	}
	r := clitest.Must(t, append(retrain, "--drift")...)
	if inspect := clitest.Must(t, "model", "show", model).Out; !strings.Contains(r.Out, "inputs     level, spread and pace of 1 channels") || !strings.Contains(inspect, "; level, spread and pace of each channel") {
		t.Errorf("retrain --drift: %s\n%s", r.Out, inspect)
	}
	r = clitest.Must(t, append(retrain, "--novelty")...)
	if inspect := clitest.Must(t, "model", "show", model).Out; !strings.Contains(inspect, "novelty    23 dimensions, from 24 sequences; novel at a p-value of at most 0.01; compared with what is usual at its place\n") {
		t.Errorf("model show of a model of two classes:\n%s", inspect)
	}
	if want := "warning: nothing will be novel: that needs at least 99 training sequences, or --false-alarms 0.04"; !strings.Contains(r.Out+r.ErrOut, want) {
		t.Errorf("retrain --novelty does not say %q:\n%s%s", want, r.Out, r.ErrOut)
	}
	for _, c := range []struct {
		flags []string
		want  string
	}{
		{[]string{"--false-alarms", "1/day"}, "want it with --novelty, --drift or --healthy-only"},
		{[]string{"--novelty", "--false-alarms", "1/fortnight"}, "want a share of predictions between 0 and 1"},
		{[]string{"--novelty", "--false-alarms", "1"}, "want a share of predictions between 0 and 1"},
		{[]string{"--novelty", "--predictions-per-day", "0"}, "want a positive number"},
		{[]string{"--novelty", "--shard", "1/2"}, "train in one job"},
	} {
		clitest.Exec(t, t.Context(), append(retrain, c.flags...)...).Want(t, cli.ExitUsage, c.want)
	}
	clitest.Exec(t, t.Context(), append(retrain, "--healthy-only=slow", "--early", "2")...).Want(t, cli.ExitFailure, "predict at ends (--early 0)")
	clitest.Exec(t, t.Context(), append(retrain, "--healthy-only")...).Want(t, cli.ExitIntegrity, "say which is the healthy one")
	clitest.Exec(t, t.Context(), append(retrain, "--healthy-only", "slow")...).Want(t, cli.ExitUsage, "want --healthy-only=slow")
	clitest.Exec(t, t.Context(), append(retrain, "--healthy-only=slow", "--false-alarms", "1/month", "--predictions-per-day", "24")...).
		Want(t, cli.ExitIntegrity, "needs at least 719 training sequences")
}

// train measures the false alarms of a model of healthy data on the last third of each run, and warns if healthy
// operation changes. The model keeps the measure.
func TestMeasuredFalseAlarms(t *testing.T) {
	dir := t.TempDir()
	model := filepath.Join(dir, "m.safetensors")
	train := func(drift float64, samples int) clitest.Result {
		rng := rand.New(rand.NewPCG(1, 2))
		var b strings.Builder
		b.WriteString("stream,seq,a,b\n")
		for i := range 2 * samples {
			x := drift * float64(i%samples) / float64(samples)
			fmt.Fprintf(&b, "m%d,%d,%.4g,%.4g\n", i/samples, i%samples, rng.NormFloat64()+x, rng.NormFloat64()-x)
		}
		path := filepath.Join(dir, "healthy.csv")
		clitest.Write(t, path, b.String())
		return clitest.Must(t, "train", path, "--bank", "tiny", "--policy", "window", "--length", "10", "--hop", "10", "--healthy-only", "--false-alarms", "0.1", "--output", model)
	}
	const warning, note = "does not hold on later healthy data", "at least 14 sequences without common samples in the last thirds"
	steady := train(0, 600)
	if short := train(0, 120); !strings.Contains(short.ErrOut, note) || strings.Contains(steady.ErrOut, note) {
		t.Errorf("short runs:\n%s\nlong runs:\n%s", short.ErrOut, steady.ErrOut)
	}
	drifting := train(20, 600)
	for _, r := range []clitest.Result{steady, drifting} {
		_, line, _ := strings.Cut(r.Out, "later ")
		line, _, _ = strings.Cut(line, "\n")
		if !strings.Contains(line, "of 40 sequences, 40 of them without common samples); promised 10 %") {
			t.Errorf("train prints %q:\n%s", line, r.Out)
		}
		if show := clitest.Must(t, "model", "show", model).Out; r == drifting && !strings.Contains(show, line) {
			t.Errorf("model show lacks %q:\n%s", line, show)
		}
	}
	if strings.Contains(steady.Out+steady.ErrOut, warning) || !strings.Contains(drifting.Out+drifting.ErrOut, warning) || !strings.Contains(drifting.Out+drifting.ErrOut, "such as: novel 0.1, 3 of 5\n") {
		t.Errorf("steady:\n%s%s\ndrifting:\n%s%s", steady.Out, steady.ErrOut, drifting.Out, drifting.ErrOut)
	}
}

// evaluate --alarms counts the alarms of rules on a labeled recording.
func TestEvaluateAlarms(t *testing.T) {
	dir := t.TempDir()
	model, rules := filepath.Join(dir, "m.safetensors"), filepath.Join(dir, "rules.yaml")
	clitest.Write(t, rules, "fault: class novel, 2 of 3\nflat: flag flat\n")
	recording := func(name string, samples int, faulty func(i int) bool) string {
		rng := rand.New(rand.NewPCG(1, 2))
		var b strings.Builder
		b.WriteString("stream,time,a,label\n")
		for i := range samples {
			label, by := "normal", 1.
			if faulty(i) {
				label, by = "rub", 40
			}
			fmt.Fprintf(&b, "m,%s,%.4g,%s\n", time.Date(2026, 1, 5, 0, 0, 10*i, 0, time.UTC).Format(time.RFC3339), by*rng.NormFloat64(), label)
		}
		path := filepath.Join(dir, name)
		clitest.Write(t, path, b.String())
		return path
	}
	healthy := recording("healthy.csv", 1000, func(int) bool { return false })
	clitest.Must(t, "train", healthy, "--bank", "tiny", "--policy", "window", "--length", "10", "--hop", "10", "--healthy-only", "--output", model)
	later := recording("later.csv", 60480, func(i int) bool { return i%30000 >= 15000 && i%30000 < 15200 }) // a week, two faults of 20 sequences
	evaluate := []string{"evaluate", later, "--model", model, "--alarms", rules}
	var ev struct {
		Novelty offline.NoveltyCount `json:"novelty"`
		Alarms  alarm.Rehearsal      `json:"alarms"`
	}
	clitest.Must(t, append(evaluate, "--json")...).Parse(t, &ev)
	r := ev.Alarms.Rules[0]
	if r.Faults != 2 || r.Found != 2 || r.Missed != 0 || r.True != 2 || r.Alarms != r.True+r.False || r.Rows.Faulty != 40 || r.Rows.Active < 36 || r.Rows.Healthy != 6008 {
		t.Errorf("fault: %+v", r)
	}
	if math.Abs(ev.Alarms.Weeks-1) > .001 || *r.PerWeek < 2 || r.False > 20 || ev.Novelty.Found != 40 {
		t.Errorf("%v weeks, %v alarms a week, %d false; novelty %+v", ev.Alarms.Weeks, *r.PerWeek, r.False, ev.Novelty)
	}
	if flat := ev.Alarms.Rules[1]; flat.Rule != "flat" || flat.Faults != 0 {
		t.Errorf("flat: %+v", flat)
	}
	clitest.Write(t, rules, "model: m.safetensors\nalarms: {rules: {fault: 'class novel, 2 of 3', flat: flag flat}}\n") // a configuration
	picture := filepath.Join(dir, "alarms.svg")
	out := clitest.Must(t, append(evaluate, "--picture", picture)...).Out
	if svg := string(clitest.Read(t, picture)); !strings.HasPrefix(svg, "<svg") || !strings.Contains(svg, "fault: class novel, 2 of 3; flat: flag flat") {
		t.Errorf("the picture is %.300s", svg)
	}
	clitest.Exec(t, t.Context(), "evaluate", later, "--model", model, "--picture", picture).Want(t, cli.ExitUsage, "want --alarms or --alarm-rules, too")
	if want := fmt.Sprintf("           %-20s %7d %8.3g %6d %6d %6d %6d %6d", "fault", r.Alarms, *r.PerWeek, 2, r.False, 0, 2, 0); !strings.Contains(out, want) {
		t.Errorf("want %q in\n%s", want, out)
	}
	clitest.Exec(t, t.Context(), append(evaluate, "--alarm-rules", "gone: silent 1m")...).Want(t, cli.ExitUsage, "want one of them")
	clitest.Exec(t, t.Context(), "evaluate", later, "--model", model, "--alarm-rules", "gone: silent 1m").Want(t, cli.ExitConfig, "depends on a clock")
	clitest.Exec(t, t.Context(), "evaluate", later, "--model", model, "--alarm-rules", "odd: class novel|worn").Want(t, cli.ExitConfig, `"worn" is not one of ["normal" "novel"]`, "eusn-stream model show")
	clitest.Exec(t, t.Context(), "evaluate", later, "--model", model, "--alarm-rules", "silent 1m").Want(t, cli.ExitConfig, "--alarm-rules: want names with a text each")
}

// A machine with only healthy training data: every change of its sensors is novel live, and the live stage agrees
// with the evaluation. With EUSN_NOVELTY_LIVE for the bank that is trained without a choice, and one false alarm in a
// thousand predictions; without, a small bank and one in a hundred.
func TestFailingSensorsLive(t *testing.T) {
	t.Parallel()
	train, bank, share := 480, "tiny", .01
	if os.Getenv("EUSN_NOVELTY_LIVE") != "" {
		train, bank, share = 4000, "standard", .001
	}
	d, err := machine.Simulate(t.Context(), machine.Options{Train: train, Test: 160, Seed: 9}, nil)
	if err != nil {
		t.Fatal(err)
	}
	rng, of := rand.New(rand.NewPCG(3, 3)), len(d.Channels)
	spoil := map[string]func(i int, x []float32) float32{ // value i of a series
		"fine":   func(i int, x []float32) float32 { return x[i] },
		"zeros":  func(int, []float32) float32 { return 0 },
		"stuck":  func(i int, x []float32) float32 { return x[min(i, len(x)/2/of*of+i%of)] },
		"noise":  func(int, []float32) float32 { return float32(rng.NormFloat64()) },
		"x1000":  func(i int, x []float32) float32 { return 1000 * x[i] },
		"x0.001": func(i int, x []float32) float32 { return .001 * x[i] },
		"one-dead": func(i int, x []float32) float32 {
			if i%of == 0 {
				return 0
			}
			return x[i]
		},
	}
	set := *d
	set.Classes, set.Series = append([]string{"healthy"}, "spoilt"), nil
	kinds := slices.Sorted(maps.Keys(spoil))
	count := 0
	for _, s := range d.Series {
		if d.Classes[s.Label] != "healthy" {
			continue
		}
		s.Label = 0
		if s.Split == archive.Train {
			set.Series = append(set.Series, s)
			continue
		}
		count++
		for _, what := range kinds {
			one := s
			one.ID, one.Values = fmt.Sprintf("%s-%d", what, count), make([]float32, len(s.Values))
			if what != "fine" {
				one.Label = 1
			}
			for i := range one.Values {
				one.Values[i] = spoil[what](i, s.Values)
			}
			set.Series = append(set.Series, one)
		}
	}
	dir := t.TempDir()
	path, model := filepath.Join(dir, "machine.parquet"), filepath.Join(dir, "m.safetensors")
	if err := archive.WriteDataset(path, &set); err != nil {
		t.Fatal(err)
	}
	clitest.Must(t, "train", path, "--output", model, "--bank", bank, "--healthy-only=healthy", "--false-alarms", fmt.Sprint(share))
	var ev offline.Evaluation
	clitest.Must(t, "evaluate", "--model", model, path, "--json").Parse(t, &ev)
	stage := clitest.Start(t, "reading sensors.*", "run", "--model", model, "--dir", filepath.Join(dir, "data"), "--port", "-1")
	url := clitest.ServerURL.FindString(stage.Messages())
	clitest.Must(t, "replay", path, "--streams", "0", "--nats-url", url)
	clitest.Await(t, url, count*len(spoil), 0)
	novel, most := map[string]int{}, 0.
	for _, l := range clitest.Must(t, "tail", "--since", "1h", "--json", "--nats-url", url).Lines(t) {
		k, err := strconv.Atoi(strings.TrimPrefix(l["stream"].(string), "s")) // the series of that place
		if err != nil {
			t.Fatal(err)
		}
		what := kinds[k%len(kinds)]
		if l["class"] == "novel" {
			novel[what]++
			most = max(most, l["novelty_p"].(float64))
		}
	}
	total := 0
	for what, n := range novel {
		if total += n; what != "fine" && n != count {
			t.Errorf("%s: %d of %d series are novel", what, n, count)
		}
	}
	t.Logf("novel of %d each: %v", count, novel)
	// Of 40 at .01, 5 or more have a probability below 1e-3; the seed is fixed.
	if len(novel) < len(spoil)-1 || novel["fine"] > 4 || most > share {
		t.Errorf("novel are %v of %d each, with a p-value of %v at most", novel, count, most)
	}
	if n := ev.Novelty; n.Novel != total || n.FalseAlarms != novel["fine"] || n.Known != count {
		t.Errorf("live, %d are novel and %d of these falsely; offline %+v", total, novel["fine"], n)
	}
}
