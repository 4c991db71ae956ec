package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestOfflineMemory(t *testing.T) {
	dir := t.TempDir()
	table, out := filepath.Join(dir, "m.csv"), filepath.Join(dir, "m.jsonl")
	short := []string{"--configurations", "3", "--draws", "2", "--models", "eusn,resn", "--out", out}
	args := append([]string{"offline", "memory", "--lengths", "30,45", "--csv", table}, short...)
	var r struct{ Points []memoryPoint }
	must(t, append(args, "--json")...).parse(t, &r)
	if len(r.Points) != 4 {
		t.Fatalf("%d points, want 2 lengths x 2 models", len(r.Points))
	}
	for i, p := range r.Points {
		if p.Task != "Synthetic" || p.Length != []int{30, 45}[i/2] || p.Model != []string{"eusn", "resn"}[i%2] || p.Draws != 2 {
			t.Errorf("point %d: %+v", i, p)
		}
	}
	text, err := os.ReadFile(table)
	if err != nil || strings.Count(string(text), "\n") != 5 || !strings.HasPrefix(string(text), "task,length,model,accuracy") {
		t.Errorf("%v, CSV:\n%s", err, text)
	}
	if r := must(t, append(args, "--resume")...); strings.Count(r.out, "\n") != 3 || !strings.Contains(r.out, "Synthetic  45") {
		t.Errorf("table:\n%s", r.out)
	}

	// A point's own command gives that point.
	var one struct{ Points []memoryPoint }
	words := strings.Fields(r.Points[3].Command)[1:]
	must(t, append(words, "--json", "--out", filepath.Join(dir, "one"))...).parse(t, &one)
	if len(one.Points) != 1 || one.Points[0].Accuracy != r.Points[3].Accuracy {
		t.Errorf("%v gives %+v, want %+v", words, one.Points, r.Points[3])
	}

	archive := importTiny(t, 2)
	must(t, append([]string{"offline", "memory", archive, "--lengths", "70", "--resume", "--json"}, short...)...).parse(t, &r)
	if len(r.Points) != 2 || r.Points[0].Task != "Tiny" || r.Points[0].Length != 70 {
		t.Errorf("memory of an archive: %+v", r.Points)
	}
	exec(t, t.Context(), "offline", "memory", archive, "--lengths", "50", "--out", filepath.Join(dir, "x")).
		want(t, exitFailure, "length 50, want 60", "other --lengths")
	exec(t, t.Context(), "offline", "memory", "--lengths", "0").want(t, exitUsage, "--lengths [0]")

	// The curves do not go over the results they are of.
	link := filepath.Join(dir, "link.csv")
	if err := os.Symlink(out, link); err != nil {
		t.Fatal(err)
	}
	before := read(t, out)
	exec(t, t.Context(), append(append(args, "--resume"), "--csv", filepath.Join(dir, ".", "m.jsonl"))...).want(t, exitUsage, "--csv and --out are both")
	exec(t, t.Context(), append(append(args, "--resume"), "--csv", link)...).want(t, exitFailure, "is what is being read")
	if !bytes.Equal(before, read(t, out)) {
		t.Error("the results file has changed")
	}
}
