package cases

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/apache/arrow/go/v17/arrow"
	"github.com/apache/arrow/go/v17/arrow/array"
	"github.com/apache/arrow/go/v17/arrow/memory"
	"github.com/apache/arrow/go/v17/parquet/file"
	"github.com/apache/arrow/go/v17/parquet/pqarrow"
)

// sample is a sample accepted by a job: the text of its time, its channels.
type sample struct {
	time   string
	values []float64
}

// formatSamples returns samples as c0,c1.
func formatSamples(all []sample) (list []string) {
	for _, s := range all {
		var t []string
		for _, v := range s.values {
			t = append(t, fmt.Sprint(float32(v)))
		}
		list = append(list, strings.Join(t, ","))
	}
	return list
}

// recordedSamples returns the samples of a stream in the job's log, as the command record
// writes them.
func (r *rig) recordedSamples(t *testing.T, stream string, channels ...string) (all []sample) {
	t.Helper()
	dir, err := os.MkdirTemp(r.dir, "recorded-")
	if err != nil {
		t.Fatal(err)
	}
	conf := r.writeFile(t, "recorded.yaml", "input: {non_finite: hold}\n") // missing values are recorded, as NaN
	r.mustRun(t, "record", "-c", conf, "--model", "two.safetensors", "--nats-url", r.serverURL(), "--output", filepath.Join(dir, "out"), "--until", "now", "--stream", stream)
	files, _ := filepath.Glob(filepath.Join(dir, "out", "*.parquet"))
	for _, f := range files {
		for _, rec := range tableOf(t, f) {
			all = append(all, rowsOf(t, rec, channels)...)
		}
	}
	return all
}

// awaitSamples waits until the log has n samples of a stream, and returns them.
func (r *rig) awaitSamples(t *testing.T, stream string, n int) []sample {
	t.Helper()
	for end := time.Now().Add(patience / 3); ; time.Sleep(300 * time.Millisecond) {
		if all := r.recordedSamples(t, stream, "c0", "c1"); len(all) >= n || time.Now().After(end) {
			return all
		}
	}
}

func tableOf(t *testing.T, path string) (all []arrow.Record) {
	t.Helper()
	f, err := file.OpenParquetFile(path, false)
	if err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	defer f.Close()
	r, err := pqarrow.NewFileReader(f, pqarrow.ArrowReadProperties{}, memory.DefaultAllocator)
	if err != nil {
		t.Fatal(err)
	}
	table, err := r.ReadTable(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	for tr := array.NewTableReader(table, 1<<20); tr.Next(); {
		rec := tr.Record()
		rec.Retain()
		all = append(all, rec)
	}
	return all
}

// columnTexts are the values of a column as text.
func columnTexts(rec arrow.Record, name string) (all []string) {
	for _, i := range rec.Schema().FieldIndices(name) {
		for k := range rec.Column(i).Len() {
			all = append(all, rec.Column(i).ValueStr(k))
		}
	}
	return all
}

func columnNames(rec arrow.Record) (all []string) {
	for _, f := range rec.Schema().Fields() {
		all = append(all, f.Name)
	}
	return all
}

func rowsOf(t *testing.T, rec arrow.Record, channels []string) (all []sample) {
	t.Helper()
	times := columnTexts(rec, "time")
	for k := range int(rec.NumRows()) {
		s := sample{time: times[k]}
		for _, name := range channels {
			at := rec.Schema().FieldIndices(name)
			if len(at) != 1 {
				t.Fatalf("the recording has no channel %s: %v", name, rec.Schema())
			}
			var v float64
			switch c := rec.Column(at[0]).(type) {
			case *array.Float32:
				v = float64(c.Value(k))
			case *array.Float64:
				v = c.Value(k)
			default:
				t.Fatalf("channel %s is %T", name, c)
			}
			s.values = append(s.values, v)
		}
		all = append(all, s)
	}
	return all
}

// postFile sends a file to the gateway and returns the code and text of the answer.
func (r *rig) postFile(t *testing.T, at int, path, name string, headers ...string) (int, string) {
	t.Helper()
	body, err := os.ReadFile(r.copyInput(t, name))
	if err != nil {
		t.Fatal(err)
	}
	q, err := http.NewRequest("POST", "http://"+addressOf(at)+path, bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	q.Header.Set("Content-Type", "application/x-www-form-urlencoded") // as curl does
	for i := 0; i < len(headers); i += 2 {
		q.Header.Set(headers[i], headers[i+1])
	}
	return readAnswer(t, q)
}

func readAnswer(t *testing.T, q *http.Request) (int, string) {
	t.Helper()
	a, err := http.DefaultClient.Do(q)
	if err != nil {
		t.Fatal(err)
	}
	defer a.Body.Close()
	var b bytes.Buffer
	b.ReadFrom(a.Body)
	return a.StatusCode, strings.TrimSpace(b.String())
}
