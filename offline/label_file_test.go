package offline

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
)

func labelsIn(text string) (*LabelFile, error) { return readLabels("l", strings.NewReader(text)) }

func TestLabelFile(t *testing.T) {
	for name, text := range map[string]string{
		"CSV":  "label,stream,to,from,who\nup,a,20,10,anna\ndown,a,1970-01-01T00:00:00.00000003Z,20,\nup,a,12,11,\n\nup,b,2,-5,x\n",
		"BOM":  "\ufefflabel,stream,to,from\r\nup,a,20,10\r\ndown,a,30,20\r\nup,b,2,-5\r\n",
		"JSON": `{"stream":"a","from":"1970-01-01T00:00:00.00000001Z","to":"1970-01-01T00:00:00.00000002Z","label":"up","who":"x","when":"2026-01-31T12:00:00Z"}` + "\n\n" + `{"stream":"a","from":"20","to":"30","label":"down"}` + "\n" + `{"stream":"b","from":"-5","to":"2","label":"up"}`,
	} {
		l, err := labelsIn(text)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		for _, c := range []struct {
			stream string
			at     int64
			want   string
		}{{"a", 9, ""}, {"a", 10, "up"}, {"a", 19, "up"}, {"a", 20, "down"}, {"a", 29, "down"}, {"a", 30, ""}, {"b", -5, "up"}, {"b", 2, ""}, {"c", 1, ""}, {"b", NoTime, ""}} {
			if got := l.at(c.stream, c.at); got != c.want {
				t.Errorf("%s: stream %s at %d is %q, want %q", name, c.stream, c.at, got, c.want)
			}
		}
	}
}

// Each with its line.
func TestWrongLabelFiles(t *testing.T) {
	const head = "stream,from,to,seq,row,label\n"
	for text, want := range map[string]string{
		"":                                          "l is empty",
		"stream,from,to\n":                          `l:1: column "label" is missing`,
		"stream,label,label\n":                      `l:1: column "label" is there twice`,
		head + "a,1,2,,,x\na,1,2,x\n":               "l:3: 4 fields, the header line has 6",
		head + ",1,2,,,x\n":                         "l:2: stream is empty",
		head + "a,1,2,,,\n":                         "l:2: label is empty",
		head + "a,1,2,,,\x1b\n":                     "l:2: label",
		head + "a,1,,,,x\n":                         `l:2: to "", want a time`,
		head + "a,1700000000,1700000060,,,x\n":      "l:2: from is 1700000000, which looks like s since 1970 (2023-11-14T22:13:20Z): want ns since 1970",
		head + "a,0,1700000060000,,,x\n":            "l:2: to is 1700000060000, which looks like ms since 1970",
		head + "a,noon,2,,,x\n":                     `l:2: from "noon", want a time`,
		head + "a,0001-01-01T00:00:00Z,2,,,x\n":     "beyond 64 bits",
		head + "a,2,2,,,x\n":                        "l:2: from 2 is not before to 2",
		head + "a,1,2,1,,x\n":                       "l:2: want from and to, or seq and row",
		head + "a,,,,,x\n":                          "l:2: want from and to, or seq and row",
		head + "a,,,0,0,x\n":                        `l:2: seq "0", want a number from 1`,
		head + "a,,,1,-1,x\n":                       `l:2: row "-1", want a number from 0`,
		head + "a,,,1,1,x\na,,,1,1,y\n":             `l:3: stream "a", seq 1, row 1 is "y", but "x" in line 2`,
		head + "a,10,20,,,x\nb,1,2,,,x\na,5,11,,,y": `l:4: stream "a" is "y", but "x" in line 2`,
		head + "a,10,20,,,x\n\"a,10":                "l: parse error on line 3",
		"{\"stream\":1}":                            "l:1: want JSON",
		"{}\n{\n":                                   "l:2: want JSON",
		"{\"stream\":\"a\",\"seq\":1,\"row\":0,\"withdrawn\":true}": "l:1: the label is withdrawn",
		"{" + strings.Repeat(" ", longestLabelLine):                 "l:1: more than",
	} {
		_, err := labelsIn(text)
		wantError(t, err, want)
	}
}

func FuzzLabelFile(f *testing.F) {
	f.Add("stream,from,to,label\na,1,2,x\na,5,9,y\n")
	f.Add(`{"stream":"a","seq":3,"row":1,"label":"x"}`)
	f.Fuzz(func(t *testing.T, text string) {
		l, err := labelsIn(text)
		if err != nil {
			if !strings.HasPrefix(err.Error(), "offline: l") {
				t.Errorf("the error does not name the file: %v", err)
			}
			return
		}
		for stream, all := range l.spans {
			for i, s := range all {
				if s.from >= s.to || i > 0 && s.from < all[i-1].to || l.at(stream, s.from) != s.label || l.at(stream, s.to-1) != s.label {
					t.Errorf("stream %q has the spans %+v", stream, all)
				}
			}
		}
	})
}

// writeRecorded writes samples [from, to) of a recording: two streams in turn, with a
// sequence of ten samples each, whose end comes late where late says so.
func writeRecorded(t *testing.T, path string, from, to int, late func(number int) bool, meta map[string]string) {
	t.Helper()
	info := smallInfo
	info.Recorded = true
	w, err := WriteRecording(path, info)
	if err != nil {
		t.Fatal(err)
	}
	c := &RecordingChunk{}
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
	w.Meta = map[string]string{keyRecording: "r"}
	for key, text := range meta {
		w.Meta[key] = text
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
}

// However a recording is divided into files, and wherever they say that sequences
// end, the model is the same.
func TestRecordingInFiles(t *testing.T) {
	dir := t.TempDir()
	in := func(name string) string { return filepath.Join(dir, name) }
	never := func(int) bool { return false }
	writeRecorded(t, in("whole"), 0, 800, never, nil)
	writeRecorded(t, in("1"), 0, 250, func(n int) bool { return n == 20 || n == 239 }, nil)
	writeRecorded(t, in("2"), 250, 251, never, map[string]string{keyEnds: "[239,20]"})
	writeRecorded(t, in("3"), 251, 800, never, nil)
	opt := RetrainOptions{Spec: smallBank(2)}
	train := func(paths ...string) string {
		t.Helper()
		m, r, err := RetrainFiles(t.Context(), RecordingFiles{Paths: paths}, opt, nil)
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
	_, _, err := RetrainFiles(t.Context(), RecordingFiles{Paths: []string{in("3"), in("1")}}, opt, nil)
	wantError(t, err, "in their order, each once")
	writeRecorded(t, in("other"), 800, 810, never, map[string]string{keyRecording: "another"})
	_, _, err = RetrainFiles(t.Context(), RecordingFiles{Paths: []string{in("1"), in("other")}}, opt, nil)
	wantError(t, err, "of two recordings")
	writeRecorded(t, in("bad"), 0, 10, never, map[string]string{keyEnds: "{"})
	_, err = ReadRecording(in("bad"))
	wantError(t, err, "metadata key eusn.ends")

	// Labels of predictions: those of the samples with which sequences end.
	var told strings.Builder
	told.WriteString("stream,seq,row,label\n")
	for i := range 800 {
		if i/2%10 == 9 {
			fmt.Fprintf(&told, "s%d,%d,0,%s\n", i%2, i/2+1, []string{"low", "high"}[i/20%2])
		}
	}
	l, err := labelsIn(told.String())
	if err != nil {
		t.Fatal(err)
	}
	m, r, err := RetrainFiles(t.Context(), RecordingFiles{Paths: []string{in("whole")}, Labels: l}, opt, nil)
	if err != nil || r.Sequences != 80 {
		t.Fatalf("%d sequences, %v", r.Sequences, err)
	}
	ev, err := EvaluateFiles(t.Context(), m, RecordingFiles{Paths: []string{in("whole")}}, EvaluateOptions{}, nil)
	if err != nil || ev.Correct != 80 {
		t.Errorf("%d of %d right, want 80 as the column label says: %v", ev.Correct, ev.Labelled, err)
	}
	writeRecording(t, in("plain"), smallInfo, smallChunk(5))
	_, _, err = RetrainFiles(t.Context(), RecordingFiles{Paths: []string{in("plain")}, Labels: l}, opt, nil)
	wantError(t, err, "does not say where its samples come from")
}
