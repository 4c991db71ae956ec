package offline

import (
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"strings"
	"testing"

	"github.com/eusn-stream/eusn-stream/internal/testing/archivetest"
	"github.com/eusn-stream/eusn-stream/offline/archive"
)

// writeRecorded writes samples [from, to) of a recording: two streams in turn, with sequences of ten samples each.
// The end of a sequence comes late if late returns true.
func writeRecorded(t *testing.T, path string, from, to int, late func(number int) bool, meta map[string]string) {
	t.Helper()
	info := twoChannels
	info.Recorded = true
	w, err := archive.WriteRecording(path, info)
	if err != nil {
		t.Fatal(err)
	}
	c := &archive.RecordingChunk{}
	for i := from; i < to; i++ {
		end := i/2%10 == 9
		x := float32(i / 20 % 2)
		c.Stream, c.Seq, c.Time = append(c.Stream, fmt.Sprint("s", i%2)), append(c.Seq, int64(i+1)), append(c.Time, int64(i)*1000)
		c.Values, c.End = append(c.Values, x+float32(i%7)/10, -x), append(c.End, end && !late(i+1))
		c.Label = append(c.Label, []string{"low", "high"}[i/20%2])
		o := &c.Origin
		o.Key, o.Input, o.Message = append(o.Key, "k"), append(o.Input, int64(i+1)), append(o.Message, int64(i/2+1))
		o.Row, o.Flags = append(o.Row, 0), append(o.Flags, 0)
	}
	if err := w.Write(c); err != nil {
		t.Fatal(err)
	}
	w.Meta = map[string]string{"eusn.recording": "r"}
	for key, text := range meta {
		w.Meta[key] = text
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
}

// The division of a recording into files, and the place of late ends, do not change the model.
func TestRecordingInFiles(t *testing.T) {
	dir := t.TempDir()
	in := func(name string) string { return filepath.Join(dir, name) }
	never := func(int) bool { return false }
	writeRecorded(t, in("whole"), 0, 800, never, nil)
	writeRecorded(t, in("1"), 0, 250, func(n int) bool { return n == 20 || n == 239 }, nil)
	writeRecorded(t, in("2"), 250, 251, never, map[string]string{"eusn.ends": "[239,20]"})
	writeRecorded(t, in("3"), 251, 800, never, nil)
	opt := RetrainOptions{Spec: smallBank(2)}
	train := func(paths ...string) string {
		t.Helper()
		m, r, err := Retrain(t.Context(), archive.RecordingFiles{Paths: paths}, opt, nil)
		if err != nil {
			t.Fatal(err)
		}
		print, err := m.Fingerprint()
		if err != nil {
			t.Fatal(err)
		}
		return fmt.Sprint(print, r.Sequences, r.Series, m.Training.Fingerprint)
	}
	want := train(in("whole"))
	if got := train(in("1"), in("2"), in("3")); got != want {
		t.Errorf("in three files %s, in one %s", got, want)
	}
	if got := train(in("1"), in("3")); got == want {
		t.Error("without one of its files, the recording is the same")
	}
	_, _, err := Retrain(t.Context(), archive.RecordingFiles{Paths: []string{in("3"), in("1")}}, opt, nil)
	archivetest.WantError(t, err, "in their order, each once")
	writeRecorded(t, in("other"), 800, 810, never, map[string]string{"eusn.recording": "another"})
	_, _, err = Retrain(t.Context(), archive.RecordingFiles{Paths: []string{in("1"), in("other")}}, opt, nil)
	archivetest.WantError(t, err, "of two recordings")
	writeRecorded(t, in("bad"), 0, 10, never, map[string]string{"eusn.ends": "{"})
	_, err = archive.ReadRecording(in("bad"))
	archivetest.WantError(t, err, "metadata key eusn.ends")

	// Labels of predictions label the samples at the ends of sequences.
	var told strings.Builder
	told.WriteString("stream,seq,row,label\n")
	for i := range 800 {
		if i/2%10 == 9 {
			fmt.Fprintf(&told, "s%d,%d,0,%s\n", i%2, i/2+1, []string{"low", "high"}[i/20%2])
		}
	}
	l, err := labelsOf(t, told.String())
	if err != nil {
		t.Fatal(err)
	}
	m, r, err := Retrain(t.Context(), archive.RecordingFiles{Paths: []string{in("whole")}, Labels: l}, opt, nil)
	if err != nil || r.Sequences != 80 {
		t.Fatalf("%d sequences, %v", r.Sequences, err)
	}
	ev, err := Evaluate(t.Context(), m, archive.RecordingFiles{Paths: []string{in("whole")}}, EvaluateOptions{}, nil)
	if err != nil || ev.Correct != 80 {
		t.Errorf("%d of %d right, want 80 as the column label says: %v", ev.Correct, ev.Labeled, err)
	}
	saveRecording(t, in("plain"), twoChannels, someSamples(5))
	_, _, err = Retrain(t.Context(), archive.RecordingFiles{Paths: []string{in("plain")}, Labels: l}, opt, nil)
	archivetest.WantError(t, err, "no positions in the input of a job")
}

func labelsOf(t *testing.T, text string) (*archive.LabelFile, error) {
	t.Helper()
	return archive.ReadLabels(filepath.Join(archivetest.Place(t, map[string]string{"l": text}), "l"))
}

var twoChannels = archive.RecordingInfo{Name: "Small", Channels: []string{"acc.x", "gyro"}}

// someSamples are samples of three streams without labels for some, with and without
// times.
func someSamples(n int) *archive.RecordingChunk {
	c := &archive.RecordingChunk{}
	for i := range n {
		c.Stream = append(c.Stream, fmt.Sprintf("pump-%d", i%3))
		c.Seq = append(c.Seq, int64(i/3+1))
		c.Time = append(c.Time, []int64{archive.NoTime, 0, -1, math.MaxInt64, 1715000000123456789}[i%5])
		c.Values = append(c.Values, float32(i%7), float32(i)*0.1)
		c.End = append(c.End, i%7 == 0)
		c.Label = append(c.Label, []string{"", "ok", "wörn"}[i%3])
	}
	return c
}

func saveRecording(t testing.TB, path string, info archive.RecordingInfo, c *archive.RecordingChunk) {
	t.Helper()
	w, err := archive.WriteRecording(path, info)
	if err == nil {
		err = errors.Join(w.Write(c), w.Close())
	}
	if err != nil {
		t.Fatal(err)
	}
}
