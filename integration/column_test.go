package integration

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/eusn-stream/eusn-stream/internal/testing/clitest"
)

// planted is a column that the program does not have, as a change of files: new text
// after each of the texts, which occur once in the file.
var planted = map[string][][2]string{
	"readout/outcome/answer.go": {{"type Answer struct {\n", "\tMargin float32\n"}},
	"readout/outcome/columns.go": {
		{"Always    Part = iota // all readouts give the column\n", "\tClassifier\n"},
		{"var Columns = [...]Column{\n", `	{
		Name: "margin", Arrow: "margin", Type: Float32, Part: Classifier, Null: true, Means: "planted", Absent: "planted",
		Known: func(a *Answer) bool { return a.Margin > 0 }, Float: func(a *Answer) *float32 { return &a.Margin },
	},
`},
	},
	"readout/answer.go": {
		{"	a.Number = outcome.Number{}\n", "\ta.Margin = float32(of.Margin(scores))\n"},
		{"	switch part {\n", "\tcase outcome.Classifier:\n\t\treturn true\n"},
	},
}

// A new column is a change of three files: then lines of JSON, CSV and Parquet files and
// messages have the column, and the generated files require it. The repository's files do
// not change: go build gets the changed files as an overlay.
func TestPlantedColumn(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	overlay := struct{ Replace map[string]string }{map[string]string{}}
	for path, changes := range planted {
		abs, err := filepath.Abs(filepath.Join("..", path))
		if err != nil {
			t.Fatal(err)
		}
		text := string(clitest.Read(t, abs))
		for _, c := range changes {
			if strings.Count(text, c[0]) != 1 {
				t.Fatalf("%s has %q %d times, want it once", path, c[0], strings.Count(text, c[0]))
			}
			text = strings.Replace(text, c[0], c[0]+c[1], 1)
		}
		overlay.Replace[abs] = clitest.Write(t, filepath.Join(dir, filepath.Base(path)+"."+filepath.Base(filepath.Dir(path))), text)
	}
	body, err := json.Marshal(overlay)
	if err != nil {
		t.Fatal(err)
	}
	with := "-overlay=" + clitest.Write(t, filepath.Join(dir, "overlay.json"), string(body))
	run := func(name string, args ...string) (string, error) {
		out, err := exec.CommandContext(t.Context(), name, args...).CombinedOutput()
		return string(out), err
	}
	must := func(name string, args ...string) {
		t.Helper()
		if out, err := run(name, args...); err != nil {
			t.Fatalf("%s %v: %v\n%s", name, args, err, out)
		}
	}
	in := func(name string) string { return filepath.Join(dir, name) }

	must("go", "test", with, "-vet=off", "-run", "TestMessageHasTheColumnsOfTheTable", "../codec")
	for pkg, files := range map[string][]string{
		"../readout/outcome":        {"columns.py", "columns.js", "index.d.ts", "reference.md"},
		"../internal/pipeline/wire": {"asyncapi.json"},
	} {
		out, err := run("go", "test", with, "-vet=off", "-run", "^(TestGenerated|TestAsyncAPI)$", pkg)
		for _, file := range files {
			if err == nil || !strings.Contains(out, file) {
				t.Errorf("%s is not generated from the table: %v\n%s", file, err, out)
			}
		}
	}

	program, archive := in("eusn-stream"), clitest.ImportTiny(t, 2)
	must("go", "build", with, "-o", program, "../cmd/eusn-stream")
	must(program, "train", archive, "--members", "2", "--units", "5", "--output", in("m"))
	for _, out := range []string{"p.jsonl", "p.csv"} {
		must(program, "predict", archive, "--model", in("m"), "--output", in(out))
	}
	must(program, "evaluate", archive, "--model", in("m"), "--predictions", in("p.parquet"))
	var line struct{ Margin float32 }
	first, _, _ := strings.Cut(string(clitest.Read(t, in("p.jsonl"))), "\n")
	if err := json.Unmarshal([]byte(first), &line); err != nil || !(line.Margin > 0) {
		t.Errorf("JSON: %s (%v)", first, err)
	}
	rows := strings.SplitN(string(clitest.Read(t, in("p.csv"))), "\n", 3)
	if !strings.HasSuffix(rows[0], ",margin") || strings.HasSuffix(rows[1], ",") {
		t.Errorf("CSV: %q", rows[:2])
	}
	if file, err := os.ReadFile(in("p.parquet")); err != nil || !strings.Contains(string(file), "margin") {
		t.Errorf("Parquet: no column margin (%v)", err)
	}
}
