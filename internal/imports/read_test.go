package imports

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/eusn-stream/eusn-stream/internal/datafile"
	"github.com/eusn-stream/eusn-stream/internal/testing/archivetest"
	"github.com/eusn-stream/eusn-stream/offline/archive"
)

var update = flag.Bool("update", false, "rewrite the expected output in testdata/read")

// openText returns a source of text in memory.
func openText(t testing.TB, name string, data []byte, budget int64) (*source, error) {
	t.Helper()
	return newSource(context.Background(), name, bytes.NewReader(data), int64(len(data)), &budget, nil)
}

// describe formats a part as in the expected output in testdata/read.
func (p *part) describe() string {
	var b strings.Builder
	fmt.Fprintf(&b, "problem %q, %d channels, declared classes %q\n", p.problem, p.channels, p.classes)
	for _, s := range p.series {
		if p.labeled {
			fmt.Fprintf(&b, "%s:", s.label)
		} else {
			fmt.Fprint(&b, "(no label):")
		}
		for i, v := range s.values {
			if i > 0 && i%p.channels == 0 {
				fmt.Fprint(&b, " |")
			}
			fmt.Fprintf(&b, " %v", v)
		}
		for _, k := range s.tokens {
			fmt.Fprintf(&b, " #%d", k)
		}
		fmt.Fprintln(&b)
	}
	for _, w := range p.warnings {
		fmt.Fprintf(&b, "warning: %s\n", w)
	}
	return b.String()
}

// readAs reads data in the format of its name.
func readAs(t testing.TB, name string, data []byte) (string, error) {
	t.Helper()
	src, err := openText(t, name, data, 1<<20)
	if err != nil {
		return "", err
	}
	if strings.HasSuffix(name, ".csv") {
		return readCSVText(src)
	}
	p, err := formatOf(name).read(src, Options{NumWords: 100})
	if err != nil {
		return "", err
	}
	return p.describe(), nil
}

// openSet returns the samples of a text in memory.
func openSet(src *source, t Table) (*tableSet, error) {
	s := newTableSet(context.Background(), t, []tableFile{{src.name, BaseName(src.name)}}, nil)
	rows, err := readTextRows(src, &s.t)
	if err != nil {
		return nil, err
	}
	s.next = 1
	s.reader, err = s.readColumns(rows, s.files[0].stream)
	return s, err
}

func readCSVText(src *source) (string, error) {
	r, err := openSet(src, Table{})
	if err != nil {
		return "", err
	}
	var c archive.RecordingChunk
	if err := r.readSamples(&c, 1000); err != nil && err != io.EOF {
		return "", err
	}
	var b strings.Builder
	fmt.Fprintf(&b, "channels %q\n", r.Channels)
	for i := range c.Rows() {
		at := "-"
		if c.Time[i] != archive.NoTime {
			at = fmt.Sprint(c.Time[i])
		}
		fmt.Fprintf(&b, "%s %d %s %v end=%v label=%q\n", c.Stream[i], c.Seq[i], at, c.Values[i*len(r.Channels):(i+1)*len(r.Channels)], c.End[i], c.Label[i])
	}
	return b.String(), nil
}

// TestReaders runs the cases of testdata/read. A case is a line "=== file name", the
// file, a line "---", and the result: the series, or the error. Run with -update to
// rewrite the text after "---"; review the change.
func TestReaders(t *testing.T) {
	files, err := filepath.Glob("testdata/read/*.txt")
	if err != nil || len(files) < 5 {
		t.Fatalf("found %d files of cases, want those of five formats: %v", len(files), err)
	}
	for _, path := range files {
		t.Run(strings.TrimSuffix(filepath.Base(path), ".txt"), func(t *testing.T) { runCases(t, path) })
	}
}

func runCases(t *testing.T, path string) {
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	intro, rest, _ := strings.Cut(string(text), "=== ")
	out := intro
	for _, c := range strings.Split(rest, "\n=== ") {
		name, body, _ := strings.Cut(c, "\n")
		data, want, ok := strings.Cut(body+"\n", "---\n")
		if !ok {
			t.Fatalf("%s: case %q has no --- line", path, name)
		}
		got, err := readAs(t, strings.Fields(name)[0], []byte(data))
		if err != nil {
			got = "error: " + err.Error() + "\n"
		}
		out += "=== " + name + "\n" + data + "---\n" + got + "\n"
		if !*update && got != strings.TrimRight(want, "\n")+"\n" {
			t.Errorf("%s:\ngot:\n%s\nwant:\n%s", name, got, want)
		}
	}
	if *update {
		if err := os.WriteFile(path, []byte(strings.TrimRight(out, "\n")+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

const twoSeries = "@problemName P\n@classLabel true a b\n@data\n1,2,3:a\n4,5,6:b\n"

// Numbers with Go-specific syntax are mistakes in a data file.
func TestNumbers(t *testing.T) {
	for text, want := range map[string]float32{"1": 1, " -2.5e3\t": -2500, "+.5": 0.5, "1e-60": 0} {
		if v, ok := parseValue([]byte(text)); !ok || v != want {
			t.Errorf("%q is read as %v, %v, want %v", text, v, ok, want)
		}
	}
	for _, text := range []string{"?", "NaN", "nan"} {
		if v, ok := parseValue([]byte(text)); !ok || v == v {
			t.Errorf("%q is read as %v, %v, want NaN", text, v, ok)
		}
	}
	for _, text := range []string{"", "1_000", "0x10", "0X1p4", "0x1p4", "inf", "-Infinity", "1e39", "1,5", "1 2", "??", "one"} {
		if v, ok := parseValue([]byte(text)); ok {
			t.Errorf("%q is read as %v, want it refused", text, v)
		}
	}
}

func TestSourceCompressed(t *testing.T) {
	plain, err := readAs(t, "p.ts", []byte(twoSeries))
	if err != nil {
		t.Fatal(err)
	}
	z := archivetest.Zipped(t, []byte(twoSeries))
	// Compressed or not, for any name; with a byte order mark as well.
	for name, data := range map[string][]byte{"p.ts.gz": z, "p.ts": z, "q.ts": []byte("\xef\xbb\xbf" + strings.ReplaceAll(twoSeries, "\n", "\r\n"))} {
		if got, err := readAs(t, name, data); err != nil || got != plain {
			t.Errorf("%s: got %q %v, want %q", name, got, err, plain)
		}
	}
	for n := range z {
		if _, err := readAs(t, "p.ts.gz", z[:n]); err == nil {
			t.Errorf("the first %d of %d compressed bytes read without an error", n, len(z))
		}
	}
	_, err = readAs(t, "p.ts.gz", z[:len(z)-4])
	archivetest.WantError(t, err, "p.ts.gz:6: the compressed data ends early: the file is truncated")
	bad := bytes.Clone(z)
	bad[len(bad)-8] ^= 1
	_, err = readAs(t, "p.ts.gz", bad)
	archivetest.WantError(t, err, "invalid checksum: the file is damaged")
	_, err = readAs(t, "p.ts.gz", []byte(twoSeries))
	archivetest.WantError(t, err, "p.ts.gz: the name ends in .gz but the content is not gzip")
	_, err = readAs(t, "p.ts", nil)
	archivetest.WantError(t, err, "p.ts: the file is empty")
}

func TestSourceLimits(t *testing.T) {
	long := append([]byte(twoSeries), bytes.Repeat([]byte("1,"), 1<<17)...) // longer than the buffers
	long = append(long, "1:a\n"...)
	if src, err := openText(t, "long.ts", long, 1<<30); err != nil {
		t.Fatal(err)
	} else if p, err := readTS(src); err != nil || len(p.series[2].values) != 1<<17+1 {
		t.Fatalf("a long line: %v", err)
	}
	src, err := openText(t, "long.ts", long, 100)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := readTS(src); !errors.Is(err, datafile.ErrTooLarge) {
		t.Errorf("more values than allowed: got %v, want errTooLarge", err)
	}
	// A line beyond the limit, in a file of a few kilobytes.
	endless := archivetest.Zipped(t, append([]byte(twoSeries), make([]byte, maxLine+1)...))
	_, err = readAs(t, "endless.ts.gz", endless)
	archivetest.WantError(t, err, "endless.ts.gz:6: line longer than 64 MiB")
}

func TestReadStopsWithContext(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	path := filepath.Join(t.TempDir(), "P_TRAIN.ts")
	if err := os.WriteFile(path, []byte(twoSeries+strings.Repeat("7,8,9:a\n", 1<<17)), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := Import(ctx, Options{Train: path}, func(done, total int64, _ string) {
		if done > total/2 {
			cancel()
		}
	})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want context.Canceled", err)
	}
}

func idx(magic uint32, dims []uint32, body []byte) []byte {
	var b []byte
	for _, v := range append([]uint32{magic}, dims...) {
		b = append(b, byte(v>>24), byte(v>>16), byte(v>>8), byte(v))
	}
	return append(b, body...)
}

func TestReadIDX(t *testing.T) {
	images := idx(idxImages, []uint32{2, 1, 3}, []byte{0, 51, 255, 1, 2, 3})
	labels := idx(idxLabels, []uint32{2}, []byte{7, 10})
	dir := filepath.Join(t.TempDir(), "Digits")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	for name, data := range map[string][]byte{
		"train-images-idx3-ubyte.gz": archivetest.Zipped(t, images), "train-labels-idx1-ubyte.gz": archivetest.Zipped(t, labels),
		"t10k-images-idx3-ubyte.gz": archivetest.Zipped(t, images), "t10k-labels-idx1-ubyte.gz": archivetest.Zipped(t, labels),
	} {
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	d, err := Import(context.Background(), Options{Dir: dir}, nil)
	if err != nil {
		t.Fatal(err)
	}
	want := []float32{0, 0.2, 1} // 51 is a fifth of 255
	if d.Name != "Digits" || len(d.Series) != 4 || !slices.Equal(d.Series[2].Values, want) || d.Classes[d.Series[1].Label] != "10" || len(d.Source.Files) != 4 {
		t.Errorf("got %+v", d)
	}
	for want, data := range map[string][]byte{
		"the file ends after 1 of 2 images":      images[:20],
		"bytes follow after the last entry":      append(bytes.Clone(images), 0),
		"magic number 0x00000802":                idx(0x802, []uint32{2, 1, 3}, nil),
		"the header is cut off":                  images[:9],
		"claims 4294967295 images of 4294967295": idx(idxImages, []uint32{1<<32 - 1, 1<<32 - 1, 1<<32 - 1}, nil),
		"claims 0 images":                        idx(idxImages, []uint32{0, 1, 1}, nil),
	} {
		_, err := readAs(t, "x-images-idx3-ubyte", data)
		archivetest.WantError(t, err, want)
	}
	for want, data := range map[string][]byte{
		"3 labels for 2 images":             idx(idxLabels, []uint32{3}, []byte{1, 2, 3}),
		"the file ends after 1 of 2 labels": labels[:9],
	} {
		src, err := openText(t, "labels", data, 1<<20)
		if err != nil {
			t.Fatal(err)
		}
		archivetest.WantError(t, readIDXLabels(src, &part{series: make([]rawSeries, 2)}), want)
	}
}
