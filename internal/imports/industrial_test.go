package imports

import (
	"archive/zip"
	"bufio"
	"compress/gzip"
	"encoding/binary"
	"encoding/csv"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/eusn-stream/eusn-stream/internal/testing/parts"
	"github.com/eusn-stream/eusn-stream/offline/archive"
)

// industrial returns the folder with public recordings of machines.
func industrial(t *testing.T) string {
	t.Helper()
	dir, err := filepath.Abs("../../../shared/datasets/industrial")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(dir); err != nil {
		parts.Absent(t, "industrial", "no folder ../shared/datasets/industrial next to the project")
	}
	return dir
}

// imported is a recording as the archive has it, by streams.
type imported struct {
	channels []string
	streams  map[string]*archive.RecordingChunk
}

// importAll imports a recording, and reads the archive.
func importAll(t *testing.T, path string, table Table) (imported, RecordingSummary) {
	t.Helper()
	out := filepath.Join(t.TempDir(), "out.parquet")
	sum, err := ImportRecording(t.Context(), RecordingImport{Path: path, Out: out, Table: table}, nil)
	if err != nil {
		t.Fatal(err)
	}
	group := ""
	if table.Group != "" {
		group = table.Group
	}
	rec, err := archive.RecordingFiles{Paths: []string{out}}.Open(sum.Target, group)
	if err != nil {
		t.Fatal(err)
	}
	all := imported{rec.RecordingInfo.Channels, map[string]*archive.RecordingChunk{}}
	width := len(all.channels)
	if err := rec.Each(t.Context(), func(c *archive.RecordingChunk) error {
		for i, name := range c.Stream {
			of := all.streams[name]
			if of == nil {
				of = &archive.RecordingChunk{}
				all.streams[strings.Clone(name)] = of
			}
			of.Seq, of.Time, of.End = append(of.Seq, c.Seq[i]), append(of.Time, c.Time[i]), append(of.End, c.End[i])
			of.Label = append(of.Label, strings.Clone(c.Label[i]))
			of.Values = append(of.Values, c.Values[i*width:(i+1)*width]...)
			if sum.Target != "" {
				of.Number = append(of.Number, c.Number[i])
			}
			if group != "" {
				of.Group = append(of.Group, strings.Clone(c.Group[i]))
			}
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	return all, sum
}

// unzip returns the text of a compressed file.
func unzip(t *testing.T, path string) string {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(bufio.NewReader(f))
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(z)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func float(t *testing.T, text string) float64 {
	t.Helper()
	v, err := strconv.ParseFloat(strings.TrimSpace(text), 64)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func (a imported) stream(t *testing.T, name string, samples int) *archive.RecordingChunk {
	t.Helper()
	c := a.streams[name]
	if c == nil || len(c.Seq) != samples {
		t.Fatalf("stream %q has not %d samples", name, samples)
	}
	return c
}

func TestIndustrialSKAB(t *testing.T) {
	dir := industrial(t)
	all, _ := importAll(t, filepath.Join(dir, "skab"), Table{Label: "anomaly", Classes: map[string]string{"0": "normal", "1": "fault"}})
	if len(all.streams) != 31 || len(all.channels) != 8 {
		t.Fatalf("%d streams, channels %q", len(all.streams), all.channels)
	}
	for _, name := range []string{"valve1/0", "other/14", "anomaly-free/anomaly-free"} {
		r := csv.NewReader(strings.NewReader(unzip(t, filepath.Join(dir, "skab", name+".csv.gz"))))
		r.Comma = ';'
		rows, err := r.ReadAll()
		if err != nil {
			t.Fatal(err)
		}
		c := all.stream(t, strings.ReplaceAll(name, "/", "-"), len(rows)-1)
		for i, row := range rows[1:] {
			at, err := time.Parse("2006-01-02 15:04:05", row[0])
			if err != nil || c.Time[i] != at.UnixNano() {
				t.Fatalf("%s, row %d: time %d, want %s", name, i, c.Time[i], row[0])
			}
			for k := range 8 {
				if want := float32(float(t, row[1+k])); math.Abs(float64(c.Values[i*8+k]-want)) > 1e-7*math.Abs(float64(want)) {
					t.Fatalf("%s, row %d, %s: %v, want %v", name, i, rows[0][1+k], c.Values[i*8+k], want)
				}
			}
			want := ""
			if len(row) > 9 {
				want = map[string]string{"0.0": "normal", "1.0": "fault"}[row[9]]
			}
			if c.Label[i] != want {
				t.Fatalf("%s, row %d: label %q, want %q", name, i, c.Label[i], want)
			}
		}
	}
}

func TestIndustrialCMAPSS(t *testing.T) {
	dir := filepath.Join(industrial(t), "cmapss")
	columns, err := ExpandNames("unit,cycle,set1..set3,s1..s21")
	if err != nil {
		t.Fatal(err)
	}
	rests := strings.Fields(unzip(t, filepath.Join(dir, "RUL_FD001.txt.gz")))
	for part, runs := range map[string]string{"train": "", "test": filepath.Join(dir, "RUL_FD001.txt.gz")} {
		path := filepath.Join(dir, part+"_FD001.txt.gz")
		all, sum := importAll(t, path, Table{Names: columns, Target: Remaining, Cap: 125, Runs: runs})
		var rows [][]string
		last := map[string]float64{}
		for line := range strings.Lines(unzip(t, path)) {
			row := strings.Fields(line)
			rows, last[row[0]] = append(rows, row), float(t, row[1])
		}
		if len(all.streams) != 100 || len(last) != 100 || int(sum.Rows) != len(rows) || sum.Target != "remaining" {
			t.Fatalf("%s: %d streams, %d samples, want 100 and %d", part, len(all.streams), sum.Rows, len(rows))
		}
		next := map[string]int{}
		for _, row := range rows {
			c, i := all.streams[row[0]], next[row[0]]
			next[row[0]]++
			want := last[row[0]] - float(t, row[1])
			if part == "test" {
				want += float(t, rests[int(float(t, row[0]))-1])
			}
			if want = math.Min(want, 125); c.Number[i] != want || c.Seq[i] != int64(float(t, row[1])) {
				t.Fatalf("%s, unit %s, cycle %s: %v remain, want %v", part, row[0], row[1], c.Number[i], want)
			}
			for k := range 24 {
				if got := c.Values[i*24+k]; math.Abs(float64(got)-float(t, row[2+k])) > 1e-7*math.Abs(float64(got)) {
					t.Fatalf("%s, unit %s, cycle %s, column %d: %v, want %s", part, row[0], row[1], 2+k, got, row[2+k])
				}
			}
		}
	}
}

func TestIndustrialTEP(t *testing.T) {
	dir := filepath.Join(industrial(t), "tep")
	all, sum := importAll(t, dir, Table{Label: "^d([0-9]+)", Classes: map[string]string{"00": "normal"}})
	if len(all.streams) != 24 || len(all.channels) != 52 || len(sum.Table.Notes) != 1 || !strings.Contains(sum.Table.Notes[0], "d00.dat.gz: 52 lines of 500 values") {
		t.Fatalf("%d streams, %d channels, notes %q", len(all.streams), len(all.channels), sum.Table.Notes)
	}
	for name, label := range map[string]string{"d00": "normal", "d00_te": "normal", "d01": "01", "d11_te": "11"} {
		values := strings.Fields(unzip(t, filepath.Join(dir, name+".dat.gz")))
		n := len(values) / 52
		c := all.stream(t, name, n)
		for i := range n {
			for k := range 52 {
				at := i*52 + k
				if name == "d00" {
					at = k*n + i
				}
				if got := c.Values[i*52+k]; math.Abs(float64(got)-float(t, values[at])) > 1e-7*math.Abs(float64(got)) || c.Label[i] != label {
					t.Fatalf("%s, sample %d, channel %d: %v %q, want %s %q", name, i, k, got, c.Label[i], values[at], label)
				}
			}
		}
	}
	one, _ := importAll(t, filepath.Join(dir, "d00.dat.gz"), Table{Transpose: true})
	one.stream(t, "d00", 500)
}

func TestIndustrialCWRU(t *testing.T) {
	dir := filepath.Join(industrial(t), "cwru")
	all, _ := importAll(t, filepath.Join(dir, "1797_*.npz"), Table{Label: "(B|IR|OR|Normal)", Classes: map[string]string{"Normal": "normal"}})
	if len(all.streams) != 16 || fmt.Sprint(all.channels) != "[DE]" {
		t.Fatalf("%d streams, channels %q", len(all.streams), all.channels)
	}
	for name, label := range map[string]string{"1797_Normal": "normal", "1797_B_14_DE12": "B", "1797_OR@6_7_DE12": "OR"} {
		z, err := zip.OpenReader(filepath.Join(dir, name+".npz"))
		if err != nil {
			t.Fatal(err)
		}
		entry, err := z.Open("DE.npy")
		if err != nil {
			t.Fatal(err)
		}
		data, err := io.ReadAll(entry)
		z.Close()
		if err != nil {
			t.Fatal(err)
		}
		c := all.streams[name]
		data = data[len(data)-4*len(c.Seq):]
		for i, got := range c.Values {
			if bits := binary.LittleEndian.Uint32(data[4*i:]); math.Float32bits(got) != bits || c.Label[i] != label {
				t.Fatalf("%s, sample %d: %v %q, want %v %q", name, i, got, c.Label[i], math.Float32frombits(bits), label)
			}
		}
	}
}

func TestIndustrialHydraulic(t *testing.T) {
	dir := filepath.Join(industrial(t), "hydraulic")
	all, sum := importAll(t, dir, Table{Rows: RowsRuns, Runs: filepath.Join(dir, "profile.txt"), Label: "c2"})
	if len(all.streams) != 2205 || sum.Ends != 2205 || len(all.channels) != 10 {
		t.Fatalf("%d streams, %d ends, channels %q", len(all.streams), sum.Ends, all.channels)
	}
	profile, err := os.ReadFile(filepath.Join(dir, "profile.txt"))
	if err != nil {
		t.Fatal(err)
	}
	labels := strings.Split(strings.TrimSpace(string(profile)), "\n")
	for k, name := range all.channels {
		for n, line := range strings.Split(strings.TrimSpace(unzip(t, filepath.Join(dir, name+".txt.gz"))), "\n") {
			values := strings.Split(strings.TrimSpace(line), "\t")
			c := all.stream(t, fmt.Sprintf("run-%05d", n+1), 60)
			for i := range 60 {
				want, part := 0., len(values)/60
				for _, text := range values[i*part : (i+1)*part] {
					want += float(t, text) / float64(part)
				}
				if got := float64(c.Values[i*10+k]); math.Abs(got-want) > 1e-6*math.Abs(want) || c.Label[i] != strings.Split(labels[n], "\t")[1] || c.End[i] != (i == 59) {
					t.Fatalf("%s, run %d, sample %d: %v, want %v", name, n+1, i, got, want)
				}
			}
		}
	}
}

func TestIndustrialNAB(t *testing.T) {
	path := filepath.Join(industrial(t), "nab", "realKnownCause", "machine_temperature_system_failure.csv.gz")
	all, sum := importAll(t, path, Table{})
	rows, err := csv.NewReader(strings.NewReader(unzip(t, path))).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	c := all.stream(t, "machine_temperature_system_failure", len(rows)-1)
	for i, row := range rows[1:] {
		at, err := time.Parse(time.DateTime, row[0])
		if err != nil || c.Time[i] != at.UnixNano() || float64(c.Values[i])-float(t, row[1]) > 1e-5 || float(t, row[1])-float64(c.Values[i]) > 1e-5 {
			t.Fatalf("row %d: %d %v, want %q", i, c.Time[i], c.Values[i], row)
		}
	}
	if math.Abs(1/sum.Table.Rate-300) > 1e-9 || fmt.Sprint(all.channels) != "[value]" {
		t.Errorf("rate %v, channels %q", sum.Table.Rate, all.channels)
	}
}
