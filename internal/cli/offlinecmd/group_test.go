package offlinecmd_test

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/eusn-stream/eusn-stream/internal/cli"
	"github.com/eusn-stream/eusn-stream/internal/cli/models"
	"github.com/eusn-stream/eusn-stream/internal/groups"
	"github.com/eusn-stream/eusn-stream/internal/testing/clitest"
	"github.com/eusn-stream/eusn-stream/offline"
)

// sites is a recording of three sites of two streams each, with labels in a separate file: fast and slow, but with
// swapped labels at the last site.
func sites(t *testing.T) (archive, labels string) {
	t.Helper()
	dir := t.TempDir()
	var samples, spans strings.Builder
	samples.WriteString("stream,time,a,end\n")
	spans.WriteString("stream,from,to,label\n")
	for site := range 3 {
		for p := range 2 {
			for n := range 8 {
				fast := (n+p)%2 == 0
				for i := range 20 {
					at := 1_000_000_000 * (20*n + i)
					fmt.Fprintf(&samples, "hall%d-p%d,%d,%.4f,%v\n", site, p, at, math.Sin(map[bool]float64{true: 1.5, false: .4}[fast]*float64(at/1e9)+float64(site)), i == 19)
				}
				label := map[bool]string{true: "fast", false: "slow"}[fast != (site == 2)]
				fmt.Fprintf(&spans, "hall%d-p%d,%d,%d,%s\n", site, p, 20_000_000_000*n, 20_000_000_000*(n+1), label)
			}
		}
	}
	csv := filepath.Join(dir, "r.csv")
	archive, labels = filepath.Join(dir, "r.parquet"), filepath.Join(dir, "labels.csv")
	for path, text := range map[string]string{csv: samples.String(), labels: spans.String()} {
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	clitest.Must(t, "import", csv, "--output", archive)
	return archive, labels
}

func TestRetrainAndEvaluateByGroup(t *testing.T) {
	archive, labels := sites(t)
	model := filepath.Join(t.TempDir(), "m.safetensors")
	train := []string{"train", archive, "--labels", labels, "--output", model, "--members", "4", "--units", "10"}
	with := func(more ...string) []string { return append(train[:len(train):len(train)], more...) }
	rule := "^(hall[0-9]+)-"

	var trained struct {
		Model  models.Report
		Report offline.RetrainReport
	}
	clitest.Must(t, with("--group", rule, "--json")...).Parse(t, &trained)
	g := trained.Report.ByGroup
	if g == nil || g.Rule != rule || len(g.Groups) != 3 || g.Groups[0].Group != "hall2" || g.Groups[0].Sequences != 16 || g.Groups[0].Accuracy > .3 || g.Plain == nil {
		t.Fatalf("retrain --json gives %+v", g)
	}
	if !strings.Contains(trained.Model.Training.Alpha, "groups by "+rule+": accuracy ") {
		t.Errorf("the model does not say how groups did: %s", trained.Model.Training.Alpha)
	}
	if r := clitest.Must(t, "model", "show", model); !strings.Contains(r.Out, "worst hall2 with ") {
		t.Errorf("model show does not show the groups:\n%s", r.Out)
	}
	if r := clitest.Must(t, with("--group", rule)...); !strings.Contains(r.Out, "by group   "+rule+": 3 groups, mean accuracy ") ||
		!strings.Contains(r.Out, "hall2: ") || !strings.Contains(r.Out, "leave-one-out without groups says ") {
		t.Errorf("retrain prints\n%s", r.Out)
	}
	if r := clitest.Must(t, with("--group", "^(.*)$")...); len(trained.Report.ByGroup.Groups) != 3 || !strings.Contains(r.Out, "6 groups") {
		t.Errorf("each stream a group:\n%s", r.Out)
	}

	var ev offline.Evaluation
	evaluate := []string{"evaluate", archive, "--labels", labels, "--model", model, "--group", rule}
	clitest.Must(t, append(evaluate, "--json")...).Parse(t, &ev)
	if q := ev.Quality; q == nil || q.Balanced != ev.Balanced || q.Samples != 48 || q.LogLoss == nil || q.Classes[1].Right != ev.Confusion[1][1] || q.Classes[1].Class != ev.Classes[1] {
		t.Errorf("evaluate --json gives quality %+v", q)
	}
	if q := trained.Report.Readout.Quality; q == nil || q.Samples != 48 || q.Classes[0].Samples != trained.Report.Readout.PerClass[0] || q.ECE == nil {
		t.Errorf("retrain --json gives quality %+v", q)
	}
	if ev.ByGroup == nil || len(ev.ByGroup.Groups) != 3 || ev.ByGroup.Accuracy != ev.Accuracy || ev.Labeled != 48 {
		t.Errorf("evaluate --json gives %+v", ev.ByGroup)
	}
	if r := clitest.Must(t, evaluate...); !strings.Contains(r.Out, "quality    of 48 sequences: balanced accuracy ") || !strings.Contains(r.Out, "precision    recall") {
		t.Errorf("evaluate prints no quality:\n%s", r.Out)
	}
	if r := clitest.Must(t, evaluate...); !strings.Contains(r.Out, "hall2: ") || strings.Contains(r.Out, "without groups") {
		t.Errorf("evaluate prints\n%s", r.Out)
	}
	unlabeled := []string{"evaluate", archive, "--model", model, "--group", rule}
	if r := clitest.Must(t, unlabeled...); !strings.Contains(r.Out, "by group   "+rule+": no labeled sequence is of one group") || strings.Contains(r.Out, "mean accuracy") {
		t.Errorf("evaluate without labels prints\n%s", r.Out)
	}

	for _, c := range []struct {
		code int
		args []string
		want string
	}{
		{cli.ExitUsage, with("--group", "^hall[0-9]+-"), "a regular expression with a group"},
		{cli.ExitUsage, with("--group", "(hall"), "missing closing )"},
		{cli.ExitUsage, with("--group", rule, "--shard", "1/2"), "a group has sequences in several shards"},
		{cli.ExitUsage, []string{"train", "--merge", "x", "--group", rule}, "--group"},
		{cli.ExitFailure, with("--group", "machine"), `has no column "machine"`},
		{cli.ExitFailure, with("--group", "^(hall[01])-"), `of stream "hall2-p0", which does not match`},
		{cli.ExitFailure, with("--group", "^(hall)"), `are of the one group "hall"`},
		{cli.ExitUsage, append(evaluate[:len(evaluate)-1:len(evaluate)-1], "^hall"), "a regular expression with a group"},
		{cli.ExitFailure, append(evaluate[:len(evaluate)-1:len(evaluate)-1], "machine"), `has no column "machine"`},
	} {
		clitest.Exec(t, t.Context(), c.args...).Want(t, c.code, c.want)
	}
	set := clitest.ImportTiny(t, 2)
	clitest.Exec(t, t.Context(), "train", set, "--output", model, "--group", "machine").Want(t, cli.ExitFailure, `has no column "machine"`, "regular expression over the series' ids")
	clitest.Exec(t, t.Context(), "train", set, "--output", model, "--group", "day").Want(t, cli.ExitFailure, "has samples without a time")
	if r := clitest.Must(t, "train", set, "--output", model, "--group", "stream", "--members", "4", "--units", "10"); !strings.Contains(r.ErrOut, "each group has one sequence: leaving out groups is plain leave-one-out") {
		t.Errorf("each series a group: %s", r.ErrOut)
	}
}

// split divides an archive by whole groups; retrain and evaluate take the parts.
func TestSplit(t *testing.T) {
	archive, labels := sites(t)
	dir := t.TempDir()
	parts, model := filepath.Join(dir, "parts.json"), filepath.Join(dir, "m.safetensors")
	args := []string{"offline", "split", archive, "--labels", labels, "--group", "^(hall[0-9]+)-", "--share", ".3", "--output", parts}
	r := clitest.Must(t, args...)
	if !strings.Contains(r.Out, "train      2 groups, 640 labeled samples (66.7 %): hall") || !strings.Contains(r.Out, "test       1 groups, 320 labeled samples (33.3 %): hall") || !strings.Contains(r.ErrOut, "--parts "+parts) {
		t.Errorf("split prints\n%s%s", r.Out, r.ErrOut)
	}
	clitest.Exec(t, t.Context(), args...).Want(t, cli.ExitFailure, "was not changed", "--force")
	var printed groups.Parts
	clitest.Must(t, append(args, "--force", "--json")...).Parse(t, &printed)
	if read, err := groups.ReadParts(parts); err != nil || !reflect.DeepEqual(*read, printed) || len(printed.Test) != 1 {
		t.Errorf("split --json prints %+v, and writes %+v, %v", printed, read, err)
	}
	of := []string{archive, "--labels", labels, "--parts", parts}
	retrain := append([]string{"train", "--output", model, "--members", "4", "--units", "10"}, of...)
	if r := clitest.Must(t, retrain...); !strings.Contains(r.Out, ": 2 groups, mean accuracy ") || !strings.Contains(r.ErrOut, "training on 2 groups by ^(hall[0-9]+)-") || !strings.Contains(r.ErrOut, " --parts "+parts) {
		t.Errorf("retrain --parts prints\n%s%s", r.Out, r.ErrOut)
	}
	evaluate := append([]string{"evaluate", "--model", model}, of...)
	for split, want := range map[string]int{"test": 16, "train": 32} {
		var ev offline.Evaluation
		clitest.Must(t, append(evaluate, "--split", split, "--json")...).Parse(t, &ev)
		if string(ev.Split) != split || ev.Labeled != want || len(ev.ByGroup.Groups) != want/16 {
			t.Errorf("evaluate --parts --split %s: %+v", split, ev)
		}
	}
	bad := filepath.Join(dir, "bad.json")
	if err := os.WriteFile(bad, []byte(`{"eusn_parts":1,"rule":"stream","train":["a"],"test":["a"]}`), 0o644); err != nil {
		t.Fatal(err)
	}
	for want, args := range map[string][]string{
		"--group and --parts: specify one":        append(evaluate, "--group", "stream"),
		"--share NaN: want more than 0":           append(args, "--force", "--share", "NaN"),
		`--group: want a value`:                   {"offline", "split", archive},
		`group "a" is there twice`:                {"train", archive, "--parts", bad},
		"no such file":                            {"train", archive, "--parts", filepath.Join(dir, "none")},
		"a group has sequences in several shards": append(retrain, "--shard", "1/2"),
		"1 groups by ^(hall): want at least two":  {"offline", "split", archive, "--labels", labels, "--group", "^(hall)", "--output", filepath.Join(dir, "p")},
		`has no column "machine"`:                 {"offline", "split", archive, "--labels", labels, "--group", "machine", "--output", filepath.Join(dir, "p")},
	} {
		r := clitest.Exec(t, t.Context(), args...)
		if r.Code == 0 || !strings.Contains(r.ErrOut, want) {
			t.Errorf("%v: code %d, %s, want %q", args, r.Code, r.ErrOut, want)
		}
	}
}
