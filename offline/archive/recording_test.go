package archive

import (
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/eusn-stream/eusn-stream/internal/testing/archivetest"
)

var smallInfo = RecordingInfo{
	Name: "Small", Channels: []string{"acc.x", "gyro"},
	Source: Provenance{Format: "csv", Tool: "test"},
}

// smallChunk holds every kind of value; n samples of two channels.
func smallChunk(n int) *RecordingChunk {
	c := &RecordingChunk{}
	for i := range n {
		c.Stream = append(c.Stream, fmt.Sprintf("pump-%d", i%3))
		c.Seq = append(c.Seq, int64(i/3+1))
		c.Time = append(c.Time, []int64{NoTime, 0, -1, math.MaxInt64, 1715000000123456789}[i%5])
		c.Values = append(c.Values, math.Float32frombits(0x7fc00000+uint32(i)), float32(i)*0.1) // NaNs of many bits
		c.End = append(c.End, i%7 == 0)
		c.Label = append(c.Label, []string{"", "ok", "wörn"}[i%3])
	}
	return c
}

func writeRecording(t testing.TB, path string, info RecordingInfo, chunks ...*RecordingChunk) {
	t.Helper()
	w, err := WriteRecording(path, info)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range chunks {
		if err := w.Write(c); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
}

// readAll joins all chunks of a recording.
func readAll(path string) (info RecordingInfo, all RecordingChunk, groups int, err error) {
	r, err := ReadRecording(path)
	if err != nil {
		return info, all, 0, err
	}
	defer r.Close()
	var c RecordingChunk
	for {
		switch err := r.Next(&c); {
		case err == io.EOF:
			return r.RecordingInfo, all, groups, nil
		case err != nil:
			return info, all, groups, err
		}
		groups++
		all.Stream, all.Seq, all.Time = append(all.Stream, c.Stream...), append(all.Seq, c.Seq...), append(all.Time, c.Time...)
		all.Values, all.End, all.Label = append(all.Values, c.Values...), append(all.End, c.End...), append(all.Label, c.Label...)
	}
}

func sameChunk(a, b *RecordingChunk) bool {
	return slices.Equal(a.Stream, b.Stream) && slices.Equal(a.Seq, b.Seq) && slices.Equal(a.Time, b.Time) &&
		sameBits(a.Values, b.Values) && slices.Equal(a.End, b.End) && slices.Equal(a.Label, b.Label)
}

func TestRecordingRoundTrip(t *testing.T) {
	path := filepath.Join(t.TempDir(), "r.parquet")
	const rows = groupRows + 1000 // two row groups
	want := smallChunk(rows)
	writeRecording(t, path, smallInfo, want)
	info, got, groups, err := readAll(path)
	if err != nil {
		t.Fatal(err)
	}
	if !sameChunk(&got, want) || groups != 2 {
		t.Errorf("%d rows in %d groups differ from the %d written", got.Rows(), groups, rows)
	}
	if info.Name != smallInfo.Name || !slices.Equal(info.Channels, smallInfo.Channels) || info.Source.Tool != "test" {
		t.Errorf("got %+v, want %+v", info, smallInfo)
	}
	// A recording of nothing is a recording.
	writeRecording(t, path, smallInfo)
	if _, got, _, err := readAll(path); err != nil || got.Rows() != 0 {
		t.Errorf("empty recording: %d rows, %v", got.Rows(), err)
	}
}

func TestRecordingRefuses(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "r.parquet")
	for want, channels := range map[string][]string{
		"no channels":                         nil,
		`channel name "seq" is reserved`:      {"seq"},
		`channel name "x" is given twice`:     {"x", "x"},
		"channel 1 has no name":               {"x", ""},
		"channel name \"\\xff\" is not UTF-8": {"\xff"},
	} {
		_, err := WriteRecording(path, RecordingInfo{Channels: channels})
		archivetest.WantError(t, err, want)
	}
	for want, spoil := range map[string]func(*RecordingChunk){
		"4 samples has 3 seq": func(c *RecordingChunk) { c.Seq = c.Seq[1:] },
		"7 values":            func(c *RecordingChunk) { c.Values = c.Values[1:] },
		`its stream is empty`: func(c *RecordingChunk) { c.Stream[2] = "" },
		"is not UTF-8":        func(c *RecordingChunk) { c.Label[2] = "\xff" },
	} {
		w, err := WriteRecording(path, smallInfo)
		if err != nil {
			t.Fatal(err)
		}
		c := smallChunk(4)
		spoil(c)
		archivetest.WantError(t, w.Write(c), want)
		archivetest.WantError(t, w.Write(smallChunk(1)), want) // and it stays broken
		archivetest.WantError(t, w.Close(), want)
	}
	if left, _ := os.ReadDir(dir); len(left) != 0 {
		t.Errorf("left behind: %v", left)
	}
}

func TestArchiveKinds(t *testing.T) {
	dir := t.TempDir()
	set, rec, text := filepath.Join(dir, "set"), filepath.Join(dir, "rec"), filepath.Join(dir, "text")
	if err := WriteDataset(set, smallDataset()); err != nil {
		t.Fatal(err)
	}
	writeRecording(t, rec, smallInfo, smallChunk(3))
	if err := os.WriteFile(text, []byte("@problemName P\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := ReadDataset(rec)
	archivetest.WantError(t, err, "rec: this is a recording archive, want a dataset archive")
	_, err = ReadRecording(set)
	archivetest.WantError(t, err, "set: this is a dataset archive, want a recording archive")
	_, err = ReadDataset(text)
	archivetest.WantError(t, err, "text: ")
	_, err = ReadDataset(dir)
	archivetest.WantError(t, err, dir)
	_, err = ReadRecording(filepath.Join(dir, "absent"))
	if !errors.Is(err, os.ErrNotExist) {
		t.Errorf("got %v, want os.ErrNotExist", err)
	}
}
