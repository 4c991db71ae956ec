package imports

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/eusn-stream/eusn-stream/internal/testing/archivetest"
	"github.com/eusn-stream/eusn-stream/offline/archive"
)

// TestImportTimeUnit: the first number of a CSV recording determines the unit if it is a
// time of 1990 to 2106, and the archive has nanoseconds, also for intended times of 1970.
func TestImportTimeUnit(t *testing.T) {
	for _, c := range []struct {
		times, unit string
		want        []int64
		refused     string
	}{
		{"1767225600,1767225601", "", []int64{1767225600e9, 1767225601e9}, ""},
		{",1767225600000", "", []int64{archive.NoTime, 1767225600e9}, ""},
		{"1767225600000000,1767225600000007", "", []int64{1767225600e9, 1767225600e9 + 7000}, ""},
		{"1767225600.123456789,1767225601.5", "", []int64{1767225600123456789, 1767225601500e6}, ""}, // digits beyond a float64
		{"1767225600000.25,1767225600001", "", []int64{1767225600000250000, 1767225600001e6}, ""},
		{"0.25,0.5", "", []int64{250e6, 500e6}, ""}, // seconds since the start of a device
		{"-1.5,0", "s", []int64{-1500e6, 0}, ""},
		{"0,1", "", nil, "in nanoseconds the sampling rate is 1e+09 Hz: specify the unit"},
		{"0,1", "ns", []int64{0, 1}, ""},
		{"0,1", "ms", []int64{0, 1e6}, ""},
		{"1e300,1", "", nil, "out of range"},
		{"2026-01-01 00:00:00.5,2026-01-01T00:00:01+01:00", "", []int64{1767225600500e6, 1767222001e9}, ""},
		{"31.12.2025 23:59,01.01.2026 00:00:00", "", []int64{1767225540e9, 1767225600e9}, ""},
		{"1767225600,1767225601", "s", []int64{1767225600e9, 1767225601e9}, ""},
		{"1767225600000,1767225600001", "ms", []int64{1767225600e9, 1767225600e9 + 1e6}, ""},
		{"1767225600,1767225601", "ns", []int64{1767225600, 1767225601}, ""},
		{"1767225600000000000,1767225600000000001", "", []int64{1767225600e9, 1767225600e9 + 1}, ""},
		{"0,1767225600", "", []int64{0, 1767225600}, ""}, // since the start of a device
		{"2026-01-01T00:00:00Z,1767225601", "s", []int64{1767225600e9, 1767225601e9}, ""},
		{"9223372037,1", "s", nil, "out of the range"},
	} {
		first, second, _ := strings.Cut(c.times, ",")
		dir := archivetest.Place(t, map[string]string{"r.csv": "stream,time,x\na," + first + ",1\na," + second + ",2\n"})
		out := filepath.Join(dir, "r.parquet")
		_, err := ImportRecording(context.Background(), RecordingImport{Path: filepath.Join(dir, "r.csv"), Out: out, Table: Table{TimeUnit: c.unit}}, nil)
		if c.refused != "" {
			archivetest.WantError(t, err, c.refused)
			continue
		}
		if err != nil {
			t.Errorf("%s in %q: %v", c.times, c.unit, err)
			continue
		}
		r, err := archive.ReadRecording(out)
		if err != nil {
			t.Fatal(err)
		}
		var chunk archive.RecordingChunk
		if err := errors.Join(r.Next(&chunk), r.Close()); err != nil || !slices.Equal(chunk.Time, c.want) {
			t.Errorf("%s in %q: %v, %v, want %v", c.times, c.unit, chunk.Time, err, c.want)
		}
	}
}

func TestImportRecording(t *testing.T) {
	dir := t.TempDir()
	in, out := filepath.Join(dir, "pump.csv.gz"), filepath.Join(dir, "pump.parquet")
	var text strings.Builder
	text.WriteString("stream,x,y,end\n")
	const rows = 10000 // more than a chunk
	for i := range rows {
		fmt.Fprintf(&text, "s%d,%d,,%v\n", i%4, i, i >= rows-4)
	}
	if err := os.WriteFile(in, archivetest.Zipped(t, []byte(text.String())), 0o600); err != nil {
		t.Fatal(err)
	}
	sum, err := ImportRecording(context.Background(), RecordingImport{Path: in, Out: out, Tool: "test"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if sum.Rows != rows || sum.Streams != 4 || sum.Ends != 4 || sum.Missing != rows || len(sum.Files) != 1 || sum.Files[0].Name != "pump.csv.gz" {
		t.Errorf("got %+v", sum)
	}
	var all archive.RecordingChunk
	rec, err := archive.RecordingFiles{Paths: []string{out}}.Open("", "")
	if err != nil {
		t.Fatal(err)
	}
	info := rec.RecordingInfo
	if err := rec.Each(t.Context(), func(c *archive.RecordingChunk) error {
		all.Stream, all.Seq = append(all.Stream, c.Stream...), append(all.Seq, c.Seq...)
		all.Values, all.End = append(all.Values, c.Values...), append(all.End, c.End...)
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if info.Name != "pump" || len(info.Source.Files) != 1 || info.Source.Files[0] != sum.Files[0] {
		t.Errorf("got %+v", info)
	}
	if all.Rows() != rows || all.Seq[rows-1] != rows/4 || all.Values[2*(rows-1)] != rows-1 || !all.End[rows-1] {
		t.Errorf("the last sample differs: %d rows", all.Rows())
	}
	before, _ := os.ReadFile(out)
	if err := os.WriteFile(in, archivetest.Zipped(t, []byte(text.String()+"s1,x,,\n")), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err = ImportRecording(context.Background(), RecordingImport{Path: in, Out: out}, nil)
	archivetest.WantError(t, err, "pump.csv.gz:10002: ")
	if after, _ := os.ReadFile(out); !slices.Equal(before, after) {
		t.Error("a failed import changed the archive that was there")
	}
}
