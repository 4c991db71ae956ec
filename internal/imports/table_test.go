package imports

import (
	"archive/zip"
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/eusn-stream/eusn-stream/internal/testing/archivetest"
	"github.com/eusn-stream/eusn-stream/offline/archive"
)

// text lists the samples of all streams: time in seconds, values, label, end, number and
// group.
func (a imported) text() string {
	var b strings.Builder
	names := []string{}
	for name := range a.streams {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		c, width := a.streams[name], len(a.channels)
		for i := range c.Seq {
			fmt.Fprintf(&b, "%s %d", name, c.Seq[i])
			if c.Time[i] != archive.NoTime {
				fmt.Fprintf(&b, " @%d", c.Time[i]/1e9)
			}
			fmt.Fprintf(&b, " %v", c.Values[i*width:(i+1)*width])
			if c.Label[i] != "" {
				fmt.Fprintf(&b, " %s", c.Label[i])
			}
			if c.End[i] {
				fmt.Fprint(&b, " end")
			}
			if len(c.Number) > 0 {
				fmt.Fprintf(&b, " n%v", c.Number[i])
			}
			if len(c.Group) > 0 {
				fmt.Fprintf(&b, " g%s", c.Group[i])
			}
			fmt.Fprintln(&b)
		}
	}
	return b.String()
}

// TestTables imports several files with options. The expected text begins with the
// channels; an error begins with "error: ".
func TestTables(t *testing.T) {
	const units = "unit,cycle,x\n1,1,5\n2,1,7\n1,2,6\n2,2,8\n2,4,9\n"
	for name, c := range map[string]struct {
		files map[string]string
		path  string // in the folder
		table Table
		want  string
	}{
		"folder": {map[string]string{"a.csv": "x,y\n1,2\n", "b/c.csv": "y,x\n4,3\n"}, "", Table{},
			"[x y]\na 1 [1 2]\nb-c 1 [3 4]\n"},
		"last samples": {map[string]string{"a.csv": "stream,x\na,1\nb,10\na,2\nb,20\nc,100\na,3\n"}, "", Table{Samples: "2..", Target: Remaining},
			"[x]\na 2 [2] n1\na 3 [3] n0\nb 2 [20] n0\n"},
		"first samples": {map[string]string{"a.csv": "x\n1\n2\n3\n", "b.csv": "x\n4\n"}, "", Table{Samples: "..2"},
			"[x]\na 1 [1]\na 2 [2]\nb 1 [4]\n"},
		"some samples":     {map[string]string{"a.csv": "x\n1\n2\n3\n4\n"}, "", Table{Samples: "2..3"}, "[x]\na 2 [2]\na 3 [3]\n"},
		"no such samples":  {map[string]string{"a.csv": "x\n1\n"}, "", Table{Samples: "2.."}, "error: a.csv: no stream has a sample of the range 2.."},
		"samples reversed": {map[string]string{"a.csv": "x\n1\n"}, "", Table{Samples: "3..2"}, `error: samples "3..2": want a range such as 401.. or 1..400`},
		"pattern": {map[string]string{"a1.csv": "x\n1\n", "a2.csv": "x\n2\n", "b.csv": "z\n3\n"}, "a*.csv", Table{},
			"[x]\na1 1 [1]\na2 1 [2]\n"},
		"one stream in two files": {map[string]string{"a.csv": "stream,x\ns,1\n", "b.csv": "stream,x\ns,2\n"}, "", Table{},
			"[x]\ns 1 [1]\ns 2 [2]\n"},
		"label in some files": {map[string]string{"a.csv": "x\n1\n", "b.csv": "x,fault,changepoint\n2,1,0\n"}, "", Table{Label: "fault", Classes: map[string]string{"1.0": "worn"}},
			"[x]\na 1 [1]\nb 1 [2] worn\n"},
		"label in no file": {map[string]string{"a.csv": "x\n1\n", "b.csv": "x\n2\n"}, "", Table{Label: "fault"},
			`error: no file has a column "fault"`},
		"channel in some files": {map[string]string{"a.csv": "x\n1\n", "b.csv": "x,y\n2,1\n"}, "", Table{},
			`error: b.csv:1: column "y", which the first file lacks`},
		"missing channel": {map[string]string{"a.csv": "x,y\n1,2\n", "b.csv": "x\n2\n"}, "", Table{},
			`error: b.csv:1: no column "y", which the first file has`},
		"label of names": {map[string]string{"1_ball.csv": "x\n1\n", "2_ok.csv": "x\n1\n", "3.csv": "x\n1\n"}, "", Table{Label: "_([a-z]+)", Classes: map[string]string{"ok": "normal"}},
			"[x]\n1_ball 1 [1] ball\n2_ok 1 [1] normal\n3 1 [1]\n"},
		"choice": {map[string]string{"a.csv": "stream,t1,t2,p,q\ns,1,2,3,4\n"}, "a.csv", Table{Channels: "t*,q", Ignore: "t2"},
			"[t1 q]\ns 1 [1 4]\n"},
		"names": {map[string]string{"a.txt": "1 2 3\n4 5 6\n"}, "a.txt", Table{Names: []string{"x", "y", "z"}, Ignore: "y"},
			"[x z]\na 1 [1 3]\na 2 [4 6]\n"},
		"wrong names": {map[string]string{"a.txt": "1 2 3\n"}, "a.txt", Table{Names: []string{"x"}},
			"error: a.txt: 3 columns, 1 names are given"},
		"remaining": {map[string]string{"a.csv": units}, "a.csv", Table{Target: Remaining, Cap: 2, Ends: true},
			"[x]\n1 1 [5] n1\n1 2 [6] end n0\n2 1 [7] n2\n2 2 [8] n2\n2 4 [9] end n0\n"},
		"remaining with the table of runs": {map[string]string{"a.csv": units, "rul.txt": "10\n20\n"}, "a.csv", Table{Target: Remaining, Runs: "rul.txt"},
			"[x]\n1 1 [5] n11\n1 2 [6] n10\n2 1 [7] n23\n2 2 [8] n22\n2 4 [9] n20\n"},
		"too few runs": {map[string]string{"a.csv": units, "rul.txt": "10\n"}, "a.csv", Table{Target: Remaining, Runs: "rul.txt"},
			`error: rul.txt has 1 rows, want one for each stream: stream "2" is number 2`},
		"too many runs": {map[string]string{"a.csv": units, "rul.txt": "1\n2\n3\n"}, "a.csv", Table{Target: Remaining, Runs: "rul.txt"},
			"error: rul.txt has 3 rows, want one for each of 2 streams"},
		"remaining time": {map[string]string{"a.csv": "time,x\n2026-01-01 00:00:00,1\n,2\n2026-01-01 00:01:00,3\n"}, "a.csv", Table{Target: RemainingTime},
			"[x]\na 1 @1767225600 [1] n60\na 2 [2] nNaN\na 3 @1767225660 [3] n0\n"},
		"target and group": {map[string]string{"a.csv": "stream,machine,x,wear\ns,m1,1,0.5\nt,m2,2,\n"}, "a.csv", Table{Group: "machine", Target: "wear"},
			"[x]\ns 1 [1] n0.5 gm1\nt 1 [2] nNaN gm2\n"},
		"one column for two kinds": {map[string]string{"a.csv": "unit,x\n1,2\n"}, "a.csv", Table{Group: "unit", Stream: "unit"},
			`error: a.csv:1: column "unit" is to be the stream and the group`},
		"no such column": {map[string]string{"a.csv": "stream,x\ns,1\n"}, "a.csv", Table{Group: "machine"},
			`error: a.csv:1: no column "machine", which is to be the group`},
		"long": {map[string]string{"a.csv": "time,tag,value\n2026-01-01 00:00:02,p,4\n2026-01-01 00:00:01,p,3\n2026-01-01 00:00:01,t,1\n"}, "a.csv", Table{},
			"[p t]\na 1 @1767225601 [3 1]\na 2 @1767225602 [4 NaN]\n"},
		"long with streams": {map[string]string{"a.csv": "time,m,s,v\n1767225601,b,p,1\n1767225601,a,p,2\n1767225601,a,q,3\n"}, "a.csv", Table{Sensor: "s", Value: "v", Stream: "m", Channels: "p"},
			"[p]\na 1 @1767225601 [2]\nb 1 @1767225601 [1]\n"},
		"long, twice": {map[string]string{"a.csv": "time,tag,value\n2026-01-01,p,4\n2026-01-01,p,3\n"}, "a.csv", Table{},
			`error: stream "a" has two values of sensor "p" at one time`},
		"sensors by time": {map[string]string{"p.csv": "time,value\n2026-01-01 00:00:01,1\n2026-01-01 00:00:03,2\n", "q.csv": "time,value\n2026-01-01 00:00:01,5\n2026-01-01 00:00:02,6\n"}, "*.csv", Table{Files: FilesSensors},
			"[p q]\nFOLDER 1 @1767225601 [1 5]\nFOLDER 2 @1767225602 [NaN 6]\nFOLDER 3 @1767225603 [2 NaN]\n"},
		"sensors by rows": {map[string]string{"p.txt": "1\n2\n", "q.txt": "5\n6\n", "r.txt": "0\n0\n"}, "", Table{Files: FilesSensors, Ignore: "r"},
			"[p q]\nFOLDER 1 [1 5]\nFOLDER 2 [2 6]\n"},
		"sensors of different lengths": {map[string]string{"p.txt": "1\n2\n", "q.txt": "5\n"}, "", Table{Files: FilesSensors},
			"error: the files of sensors have no times, and different numbers of rows"},
		"runs": {map[string]string{"p.txt": "1 2\n3 4\n", "q.txt": "1 3 5 7\n2 2 2 NaN\n", "classes.txt": "state wear\nok 7\nbad 8\n"}, "", Table{Rows: RowsRuns, Runs: "classes.txt", Label: "state", Target: "wear"},
			"[p q]\nrun-00001 1 [1 2] ok n7\nrun-00001 2 [2 6] ok end n7\nrun-00002 1 [3 2] bad n8\nrun-00002 2 [4 NaN] bad end n8\n"},
		"runs of different numbers": {map[string]string{"p.txt": "1 2\n3 4\n", "q.txt": "1 2\n"}, "", Table{Rows: RowsRuns},
			"error: q.txt:2: run 2: the file has another number of rows than the first file"},
		"transposed": {map[string]string{"a.txt": "1 2 3\n4 5 6\n"}, "a.txt", Table{Transpose: true},
			"[c1 c2]\na 1 [1 4]\na 2 [2 5]\na 3 [3 6]\n"},
		"one transposed file": {map[string]string{"a.txt": "1 2 3\n4 5 6\n", "b.txt": "7 8\n", "c.txt": "9 0\n"}, "", Table{},
			"[c1 c2]\na 1 [1 4]\na 2 [2 5]\na 3 [3 6]\nb 1 [7 8]\nc 1 [9 0]\n"},
		"Latin-1": {map[string]string{"a.csv": "T [\xb0C];Zustand;label\n1,5;\xfc;gr\xfcn\n"}, "a.csv", Table{},
			"[T [°C]]\na 1 [1.5] grün\n"},
		"UTF-16": {map[string]string{"a.csv": "\xff\xfex\x00\n\x001\x00\n\x00"}, "a.csv", Table{}, "error: a.csv: the file is UTF-16"},
		"interval": {map[string]string{"a.txt": "1 2\n3 4\n"}, "a.txt", Table{Every: "3m"},
			"[c1 c2]\na 1 @0 [1 2]\na 2 @180 [3 4]\n"},
		"interval and times": {map[string]string{"a.csv": "time,x\n2026-01-01,1\n"}, "a.csv", Table{Every: "3m"}, `error: a.csv:1: the table has a column of times, "time"`},
		"no interval":        {map[string]string{"a.csv": "x\n1\n"}, "a.csv", Table{Every: "-3m"}, `error: every "-3m"`},
		"long interval":      {map[string]string{"a.csv": "stream,seq,x\ns,1,1\ns,9000000000000000000,2\n"}, "a.csv", Table{Every: "3m"}, `error: a.csv:3: stream "s", seq 9000000000000000000: the time is out of the range`},
		"long line":          {map[string]string{"a.txt": strings.Repeat("1 ", 1<<17) + "\n"}, "a.txt", Table{}, "error: a.txt: the first line is longer than 128 KiB"},
		"too many columns":   {map[string]string{"a.csv": strings.Repeat("a,", 1<<16) + "x\n"}, "a.csv", Table{}, "error: a.csv:1: 65537 columns, want at most 65536"},
		"long header":        {map[string]string{"a.csv": strings.Repeat("a,", 1<<15) + "x\n" + strings.Repeat("1,", 1<<15) + "2\n"}, "a.csv", Table{Channels: "x"}, `error: a.csv:1: column name "a" is given twice`},
		"no table":           {map[string]string{"a.doc": "x"}, "", Table{}, "error: no table in"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := archivetest.Place(t, c.files)
			if c.table.Runs != "" {
				c.table.Runs = filepath.Join(dir, c.table.Runs)
			}
			path := filepath.Join(dir, c.path)
			if want, fails := strings.CutPrefix(c.want, "error: "); fails {
				_, err := ImportRecording(t.Context(), RecordingImport{Path: path, Out: filepath.Join(t.TempDir(), "out.parquet"), Table: c.table}, nil)
				if err == nil || !strings.Contains(strings.ReplaceAll(err.Error(), dir+string(filepath.Separator), ""), want) {
					t.Fatalf("got error %v, want %q", err, want)
				}
				return
			}
			all, _ := importAll(t, path, c.table)
			want := strings.ReplaceAll(c.want, "FOLDER", filepath.Base(dir))
			if got := fmt.Sprintln(all.channels) + all.text(); got != want {
				t.Errorf("got:\n%swant:\n%s", got, want)
			}
		})
	}
}

// A mapping file gives the same archive as the options that it was written for, and a
// changed line changes the archive.
func TestMapping(t *testing.T) {
	dir := archivetest.Place(t, map[string]string{"a.csv": "zeit;maschine;p [bar];q;zustand\n01.01.2026 00:00:00;m1;1,5;2;1\n01.01.2026 00:00:01;m1;2,5;3;1\n01.01.2026 00:00:02;m2;0,5;4;0\n"})
	path := filepath.Join(dir, "a.csv")
	table := Table{Stream: "maschine", Label: "zustand", Classes: map[string]string{"0": "aus"}, Target: Remaining, Cap: 50}
	want, sum := importAll(t, path, table)
	file := filepath.Join(dir, "mapping.yaml")
	text := sum.Table.Mapping()
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	mapped, err := ReadMapping(file)
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	if got, _ := importAll(t, path, mapped); !reflect.DeepEqual(got, want) || got.text() != want.text() {
		t.Errorf("the mapping gives\n%swant\n%s\n%s", got.text(), want.text(), text)
	}
	for _, part := range []string{"kind: time", "name: p [bar]\n", "cap: 50", "delimiter: ;", "kind: channel # C bar"} {
		if !strings.Contains(string(text), part) {
			t.Errorf("the mapping lacks %q:\n%s", part, text)
		}
	}
	edited := strings.Replace(string(text), "- name: q\n      kind: channel", "- name: q\n      kind: ignored", 1)
	if edited == string(text) {
		t.Fatalf("no line of channel q:\n%s", text)
	}
	other, err := parseMapping([]byte(edited))
	if err != nil {
		t.Fatal(err)
	}
	if got, _ := importAll(t, path, other); fmt.Sprint(got.channels) != "[p [bar]]" {
		t.Errorf("channels %q", got.channels)
	}
	for text, want := range map[string]string{
		"columns: [{name: a, kind: chanel}]": `kind "chanel"`,
		"delimeter: ;":                       "delimeter not found",
		"delimiter: x":                       `delimiter "x"`,
		"columns: [{name: a, kind: channel}, {name: a, kind: channel}]": "twice",
		"columns: [{name: zeit, kind: time}]":                           "is not in the mapping",
	} {
		table, err := parseMapping([]byte(text))
		if err == nil {
			_, err = openTables(t.Context(), path, table, nil)
		}
		archivetest.WantError(t, err, want)
	}
}

// Each grade has its reason.
func TestGrades(t *testing.T) {
	add := func(n int, value func(i int) float32) string {
		var p Profile
		for i := range n {
			p.addValue(value(i), i > 0)
		}
		p.grade()
		return p.Grade + " " + p.Why
	}
	noise := func(i int) float32 { return float32(i*7919%1009) / 7 }
	missing := func(each int) func(int) float32 {
		return func(i int) float32 {
			if i%each == 0 {
				return nan32
			}
			return noise(i)
		}
	}
	for want, value := range map[string]func(int) float32{
		"A ":                      noise,
		"B 1 % missing":           missing(100),
		"C 20 % missing":          missing(5),
		"D 50 % missing":          missing(2),
		"D no value":              func(int) float32 { return nan32 },
		"D constant":              func(int) float32 { return 3 },
		"C 3 different values":    func(i int) float32 { return float32(i * i % 7 % 4 * 3 % 5) },
		"C a counter: steps of 2": func(i int) float32 { return float32(2 * i) },
		"C stuck: the same value in 300 samples": func(i int) float32 {
			if i > 200 && i <= 500 {
				return 1
			}
			return noise(i)
		},
	} {
		if got := add(1000, value); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

// npz returns an NPZ file.
func npz(t testing.TB, arrays map[string][]byte) []byte {
	t.Helper()
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	for _, name := range slices.Sorted(func(yield func(string) bool) {
		for name := range arrays {
			if !yield(name) {
				return
			}
		}
	}) {
		w, err := z.Create(name)
		if err == nil {
			_, err = w.Write(arrays[name])
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// npy returns an array of a type and a shape, as numpy writes it.
func npy(kind, shape string, data any) []byte {
	head := fmt.Sprintf("{'descr': '%s', 'fortran_order': False, 'shape': %s, }", kind, shape)
	head += strings.Repeat(" ", 117-len(head)) + "\n"
	b := append([]byte("\x93NUMPY\x01\x00"), byte(len(head)), 0)
	b = append(b, head...)
	b, err := binary.Append(b, binary.LittleEndian, data)
	if err != nil {
		panic(err)
	}
	return b
}

func TestNPZ(t *testing.T) {
	good := map[string][]byte{
		"x.npy":     npy("<f4", "(3,)", []float32{1.5, float32(math.Pi), float32(math.NaN())}),
		"y.npy":     npy("<f8", "(3, 2)", []float64{1, 2, 3, 4, 5, 1e-3}),
		"n.npy":     npy("<i2", "(1, 3)", []int16{-1, 0, 300}),
		"label.npy": npy("|u1", "(3, 1)", []uint8{0, 1, 255}),
		"half.npy":  npy("<f2", "(3,)", []uint16{0x3c00, 0xc500, 1}),
		"rpm.npy":   npy("<f8", "()", []float64{1797}),
		"note.txt":  []byte("no array"),
	}
	dir := archivetest.Place(t, map[string]string{"a.npz": string(npz(t, good))})
	all, _ := importAll(t, filepath.Join(dir, "a.npz"), Table{})
	want := "[half n x y_0 y_1]\na 1 [1 -1 1.5 1 2] 0\na 2 [-5 0 3.1415927 3 4] 1\na 3 [5.9604645e-08 300 NaN 5 0.001] 255\n"
	if got := fmt.Sprintln(all.channels) + all.text(); got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
	for want, data := range map[string][]byte{
		"not a valid zip file":             []byte("PK"),
		"no array with samples":            npz(t, map[string][]byte{"x.npy": npy("<f4", "()", []float32{1})}),
		`array "x": the array ends early`:  npz(t, map[string][]byte{"x.npy": npy("<f4", "(3,)", []float32{1})}),
		`array "x": header`:                npz(t, map[string][]byte{"x.npy": npy("<O", "(3,)", []float32{1})}),
		`numbers of type f16`:              npz(t, map[string][]byte{"x.npy": npy("<f16", "(3,)", []float32{1})}),
		`array "y" has 2 rows, array "x"`:  npz(t, map[string][]byte{"x.npy": npy("<f4", "(3,)", []float32{1, 2, 3}), "y.npy": npy("<f4", "(2,)", []float32{1, 2})}),
		"want one or two dimensions":       npz(t, map[string][]byte{"x.npy": npy("<f4", "(2, 2, 2)", []float32{1})}),
		"70000 columns, want at most":      npz(t, map[string][]byte{"x.npy": npy("<f4", "(2, 70000)", []float32{1})}),
		"the array is empty":               npz(t, map[string][]byte{"x.npy": npy("<f4", "(3, 0)", []float32{})}),
		"want at most 2147483647 in each":  npz(t, map[string][]byte{"x.npy": npy("<f4", "(2147483648,)", []float32{1})}),
		"want a finite number, or nothing": npz(t, map[string][]byte{"x.npy": npy("<f4", "(2,)", []float32{1, float32(math.Inf(1))})}),
		"no NPY header":                    npz(t, map[string][]byte{"x.npy": []byte("0123456789")}),
	} {
		path := filepath.Join(archivetest.Place(t, map[string]string{"b.npz": string(data)}), "b.npz")
		_, err := ImportRecording(t.Context(), RecordingImport{Path: path, Out: path + ".parquet"}, nil)
		archivetest.WantError(t, err, want)
		archivetest.WantError(t, err, "b.npz")
	}
}

func TestExpandNames(t *testing.T) {
	got, err := ExpandNames("unit, s08..s11,x")
	if err != nil || strings.Join(got, " ") != "unit s08 s09 s10 s11 x" {
		t.Errorf("%q, %v", got, err)
	}
	for _, list := range []string{"s3..s1", "a1..b2", "a,,b", "a,a", "s1..s2,s2"} {
		if got, err := ExpandNames(list); err == nil {
			t.Errorf("%s gives %q, want an error", list, got)
		}
	}
}
