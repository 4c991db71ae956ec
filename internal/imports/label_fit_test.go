package imports

import (
	"context"
	"path/filepath"
	"strings"
	"testing"

	"github.com/eusn-stream/eusn-stream/internal/testing/archivetest"
	"github.com/eusn-stream/eusn-stream/offline/archive"
)

// TestLabelsThatDoNotFit: labels of other streams or times are refused if none fits, and
// counted if some fit.
func TestLabelsThatDoNotFit(t *testing.T) {
	dir := archivetest.Place(t, map[string]string{
		"r.csv": "stream,time,x\np,2026-01-01T00:00:00Z,1\np,2026-01-01T00:00:01Z,2\nq,2026-01-01T00:00:02Z,3\n",
		"u.csv": "stream,x\np,1\n",
	})
	open := func(csv, labels string) (*archive.LabelFile, error) {
		out := filepath.Join(dir, csv+".parquet")
		if _, err := ImportRecording(context.Background(), RecordingImport{Path: filepath.Join(dir, csv), Out: out}, nil); err != nil {
			t.Fatal(err)
		}
		l, err := archive.ReadLabels(filepath.Join(archivetest.Place(t, map[string]string{"l.csv": "stream,from,to,label\n" + labels}), "l.csv"))
		if err != nil {
			t.Fatal(err)
		}
		rec, err := archive.RecordingFiles{Paths: []string{out}, Labels: l}.Open("", "")
		if err == nil {
			err = rec.Scan(context.Background())
		}
		return l, err
	}
	const day = "2026-01-01T00:00:00Z,2026-01-02T00:00:00Z"
	_, err := open("r.csv", "a,"+day+",x\nb,"+day+",y\n")
	archivetest.WantError(t, err, `no label fits: 2 of 2 labels fit no sample (2 by their stream, 0 by their time or sequence), such as: the recording has no stream "a", it has "p", "q"`)
	_, err = open("r.csv", "p,2025-01-01T00:00:00Z,2025-01-02T00:00:00Z,x\n")
	archivetest.WantError(t, err, `stream "p" has no sample from 2025-01-01T00:00:00Z to 2025-01-02T00:00:00Z; the samples are from 2026-01-01T00:00:00Z to 2026-01-01T00:00:02Z`)
	_, err = open("r.csv", "p,60000000000,120000000000,x\n") // since the start of a device
	archivetest.WantError(t, err, `stream "p" has no sample from 1970-01-01T00:01:00Z`)
	_, err = open("u.csv", "p,"+day+",x\n")
	archivetest.WantError(t, err, "the samples have no times")

	l, err := open("r.csv", "p,"+day+",x\np,2026-01-02T00:00:00Z,2026-01-03T00:00:00Z,x\nq,"+day+",y\nc,"+day+",y\nq,2026-01-04T00:00:00Z,2026-01-05T00:00:00Z,x\n")
	if err != nil {
		t.Fatal(err)
	}
	if f := l.Fit(); f.Labels != 5 || f.Fit != 2 || f.NoStream != 1 || f.NoTime != 2 || !strings.Contains(f.Text(), `3 of 5 labels fit no sample`) {
		t.Errorf("%+v: %s", f, f.Text())
	}
	var none *archive.LabelFile
	if text := none.Fit().Text(); text != "" {
		t.Errorf("no file: %q", text)
	}
}
