package plants

import (
	"bytes"
	"compress/gzip"
	"encoding/csv"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/eusn-stream/eusn-stream/internal/testing/parts"
)

// TestIndustrialLive runs the pages on a part of three sets: the commands as printed raise an alarm, and live predictions
// and alarms equal the evaluation.
func TestIndustrialLive(t *testing.T) {
	data := filepath.Join(root, "..", "shared", "datasets", "industrial")
	if _, err := os.Stat(data); err != nil {
		parts.Absent(t, "industrial", "no folder %s", data)
	}
	for _, s := range sets {
		if s.small == nil {
			continue
		}
		t.Run(s.page, func(t *testing.T) {
			r := newRig(t, data, s.small)
			p := readPage(t, s.page)
			ev := r.runPage(p).rehearsed()
			r.runPrinted(p)
			all := r.runLive(ev, s.how)
			if len(all.Predictions) == 0 || ev.Alarms.Rules[0].Alarms == 0 {
				t.Errorf("%d predictions, %d alarms: the comparison is empty", len(all.Predictions), ev.Alarms.Rules[0].Alarms)
			}
		})
	}
}

// TestPlants runs the pages on all of the data and prints their figures.
func TestPlants(t *testing.T) {
	if os.Getenv("EUSN_PLANTS") == "" {
		t.Skip("NOT CHECKED: a measurement of some minutes: make plants")
	}
	data := dataFolder(t)
	all, pictures := figures{}, map[string][]byte{}
	for _, s := range append(slices.Clone(sets), plantSet{page: "nab", folder: "nab", measure: func(r *rig, _ page) { measureNAB(r) }}) {
		t.Run(s.page, func(t *testing.T) {
			if _, err := os.Stat(filepath.Join(data, s.folder)); err != nil {
				parts.Absent(t, s.folder, "no folder %s in %s", s.folder, data)
			}
			r := newRig(t, data, nil)
			p := page{name: s.page}
			if s.page != "nab" {
				p = readPage(t, s.page)
			}
			s.measure(r, p)
			if s.page != "nab" {
				r.measureBaseline(s)
			}
			maps.Copy(all, r.all)
			maps.Copy(pictures, r.pictures)
		})
	}
	for _, k := range slices.SortedFunc(maps.Keys(all), func(a, b [2]string) int { return slices.Compare(a[:], b[:]) }) {
		fmt.Printf("%-15s %-60s %-45s %s\n", k[0], k[1], all[k].own, all[k].baseline)
	}
	if os.Getenv("EUSN_PLANTS_WRITE") != "" && !t.Failed() {
		old := readFigures(t)
		maps.Copy(old, all)
		old.write(t)
		for name, svg := range pictures {
			if err := os.WriteFile(filepath.Join(root, "docs", "plants", name), svg, 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// measureBaseline adds the figures of docs/plants/baseline.py, which reads the data in the current folder.
func (r *rig) measureBaseline(s plantSet) {
	cmd := exec.CommandContext(r.t.Context(), "/usr/bin/python3", filepath.Join(root, "docs", "plants", "baseline.py"), s.folder)
	cmd.Env = append(os.Environ(), "OMP_NUM_THREADS=1")
	var out, problems bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &problems
	if err := cmd.Run(); err != nil {
		r.t.Fatalf("baseline.py %s: %v: %s", s.folder, err, problems.String())
	}
	rows, err := csv.NewReader(&out).ReadAll()
	if err != nil {
		r.t.Fatal(err)
	}
	for _, row := range rows {
		k := [2]string{s.page, row[0]}
		r.all[k] = cells{row[0], r.all[k].own, row[1]}
	}
}

// unzip returns the text of a compressed file.
func unzip(t *testing.T, path string) string {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(z)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// zipTo writes a compressed file.
func zipTo(t *testing.T, path, text string) {
	t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	if _, err := io.Copy(z, strings.NewReader(text)); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, b.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
}
