package goldens_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/apache/arrow/go/v17/arrow/memory"
	"github.com/apache/arrow/go/v17/parquet/file"
	"github.com/apache/arrow/go/v17/parquet/pqarrow"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/eusn-stream/eusn-stream/internal/natsserver"
	"github.com/eusn-stream/eusn-stream/internal/testing/clitest"
	"github.com/eusn-stream/eusn-stream/internal/testing/pipelinetest"
)

const (
	streams    = 5
	samples    = 160 // of a stream
	rows       = 8   // of a message
	partitions = 3
)

// input is the variant of the messages of a job.
type input struct {
	ends    bool // marks end sequences of 40 samples
	gaps    bool // of a second, after 40 samples
	missing bool // some values are missing
}

// job is a running golden, with its own server.
type job struct {
	t       *testing.T
	golden  golden
	dir     string
	url     string
	archive string
	model   string
	config  string
	running interface {
		Stop(t *testing.T) clitest.Result
	}
}

func newJob(t *testing.T, g golden) *job {
	j := &job{t: t, golden: g, dir: t.TempDir(), url: pipelinetest.Server(t, natsserver.Options{Port: natsserver.RandomPort}).URL()}
	j.archive = filepath.Join(j.dir, "archive.parquet")
	if g.numbers {
		csv := clitest.Write(t, filepath.Join(j.dir, "wear.csv"), wearCSV())
		clitest.Must(t, "import", csv, "--output", j.archive)
	} else {
		clitest.Must(t, "import", clitest.TinyData(t, "Tiny", 2, 24, 40), "--output", j.archive)
	}
	j.model = j.train("model.safetensors")
	// A missing message counts as missing at once, not after a wait.
	j.config = clitest.Write(t, filepath.Join(j.dir, "stage.yaml"), "input:\n  reorder: -1\n")
	return j
}

// wearCSV returns a recording of three machines that become faster: the number of a
// sample in its stream (column seq) can be learned.
func wearCSV() string {
	var b strings.Builder
	b.WriteString("stream,time,c0,c1\n")
	for i := range 320 {
		for s := range 3 {
			x := float64(i) * (.2 + .001*float64(i))
			fmt.Fprintf(&b, "m%d,%d,%.4f,%.4f\n", s, 1_700_000_000_000_000_000+int64(i)*10_000_000, math.Sin(x+float64(s)), math.Cos(x))
		}
	}
	return b.String()
}

func (j *job) train(name string, more ...string) (path string) {
	path = filepath.Join(j.dir, name)
	clitest.Must(j.t, slices.Concat([]string{"train", j.archive, "--output", path, "--threads", "1"}, j.golden.train, more)...)
	return path
}

// publish trains another readout, stores it in the job's registry and returns its
// fingerprint.
func (j *job) publish(more ...string) string {
	return strings.TrimSpace(j.must("model", "publish", j.train("next.safetensors", more...)).Out)
}

// must runs a command on the job's server.
func (j *job) must(args ...string) clitest.Result {
	j.t.Helper()
	return clitest.Must(j.t, append(args, "--nats-url", j.url)...)
}

// stage starts the stage; it runs until stop.
func (j *job) stage(more ...string) {
	j.t.Helper()
	j.running = clitest.Start(j.t, "reading ", slices.Concat([]string{"run", "--model", j.model, "--nats-url", j.url, "--shards", "1", "-c", j.config}, j.sized(), j.golden.run, more)...)
}

// sized returns the flag for the number of partitions, which is given at the start of the
// job.
func (j *job) sized() []string {
	if j.running != nil {
		return nil
	}
	return []string{"--partitions", fmt.Sprint(partitions)}
}

func (j *job) stop() {
	j.t.Helper()
	j.running.Stop(j.t).Want(j.t, 0)
}

// message returns the k-th message of a stream.
func (in input) message(stream, k int) string {
	rate := int64(10)
	if stream == 4 {
		rate = 20 // another sampling rate than the model's
	}
	var all []string
	for i := k * rows; i < (k+1)*rows; i++ {
		v := math.Sin([]float64{.2, .6, .2, .6, .35}[stream]*float64(i) + float64(stream))
		if stream == 2 && i > 80 {
			v *= 40 // beyond the training's range
		}
		value := fmt.Sprintf("%.4f", v)
		if in.missing && i%17 == 5 && stream < 2 {
			value = "null"
		}
		ms := int64(i) * rate
		if in.gaps {
			ms += int64(i/40) * 1000
		}
		row := fmt.Sprintf(`{"c0":%s,"c1":%.4f,"ts":%q`, value, math.Cos(.3*float64(i)), time.UnixMilli(1_767_225_600_000+ms).UTC().Format(time.RFC3339Nano))
		if in.ends {
			row += fmt.Sprintf(`,"end":%t`, i%40 == 39)
		}
		all = append(all, row+"}")
	}
	return "[" + strings.Join(all, ",") + "]"
}

// send publishes messages, of all streams in turn, each after the previous message is
// stored. from and to count samples of all streams.
func (j *job) send(from, to int) {
	j.t.Helper()
	clitest.OnServer(j.t, j.url, func(js jetstream.JetStream) error {
		put := func(subject, payload string, header nats.Header) error {
			ctx, cancel := context.WithTimeout(j.t.Context(), pipelinetest.Patience)
			defer cancel()
			_, err := js.PublishMsg(ctx, &nats.Msg{Subject: subject, Data: []byte(payload), Header: header})
			return err
		}
		// First, so that a prediction comes last: a position without predictions is
		// committed late.
		if err := put("sensors.s0", `{"c0":1,"c1":`, nil); err != nil {
			return err
		}
		for i := from / rows; i < to/rows; i++ {
			stream, k := i%streams, i/streams
			if stream == 3 && k == 2 {
				continue // a message of this stream is lost
			}
			header := nats.Header{"Eusn-Seq": {fmt.Sprint(k + 1)}}
			if err := put(fmt.Sprintf("sensors.s%d", stream), j.golden.input.message(stream, k), header); err != nil {
				return err
			}
		}
		return nil
	})
}

// settle waits until the stage has answered all input.
func (j *job) settle(name string) {
	j.t.Helper()
	pipelinetest.Until(j.t, "everything is answered", func() bool {
		var in uint64
		clitest.OnServer(j.t, j.url, func(js jetstream.JetStream) error {
			s, err := js.Stream(j.t.Context(), "EUSN-IN")
			if err == nil {
				in = s.CachedInfo().State.LastSeq
			}
			return err
		})
		var all []struct {
			Owner string `json:"owner"`
			In    uint64 `json:"in_seq"`
			Lag   uint64 `json:"lag"`
		}
		j.must("status", "--partitions", "--json", "--job", name).Parse(j.t, &all)
		newest := uint64(0)
		for _, p := range all {
			if p.Lag > 0 || p.Owner == "" {
				return false
			}
			newest = max(newest, p.In)
		}
		return newest == in
	})
}

// ending returns all results of the job, as text.
func (j *job) ending() string {
	var b strings.Builder
	section := func(name string, lines []string) { fmt.Fprintf(&b, "# %s\n%s\n", name, strings.Join(lines, "\n")) }
	predictions := j.must("tail", "--since", "2020-01-01", "--json").Lines(j.t)
	slices.SortStableFunc(predictions, func(a, b map[string]any) int { return strings.Compare(a["stream"].(string), b["stream"].(string)) })
	section("predictions", texts(j.t, predictions, "stored"))
	var letters []map[string]any
	for d := json.NewDecoder(strings.NewReader(j.must("deadletter", "list", "--json").Out)); d.More(); {
		var one map[string]any
		if err := d.Decode(&one); err != nil {
			j.t.Fatal(err)
		}
		letters = append(letters, one)
	}
	section("dead letters", texts(j.t, letters, "stored", "seq"))
	var all []map[string]any
	j.must("status", "--partitions", "--json").Parse(j.t, &all)
	section("partitions", texts(j.t, all, "owner", "epoch", "snapshot", "snapshot_age_ns", "snapshot_bytes"))
	var states []string
	for p := range all {
		states = append(states, strings.TrimSpace(j.must("state", "show", fmt.Sprint(p)).Out))
	}
	section("streams", states)
	section("shadows", j.shadows())
	section("offline", j.evaluate())
	return b.String()
}

// texts returns objects as lines of JSON, without fields that depend on the clock or on
// chance.
func texts(t *testing.T, all []map[string]any, without ...string) (lines []string) {
	for _, one := range all {
		for _, key := range without {
			delete(one, key)
		}
		line, err := json.Marshal(one)
		if err != nil {
			t.Fatal(err)
		}
		lines = append(lines, string(line))
	}
	return lines
}

// shadows returns the report's shadows of the job.
func (j *job) shadows() []string {
	var report struct{ Shadows []map[string]any }
	j.must("model", "shadow", "report", "--json").Parse(j.t, &report)
	return texts(j.t, report.Shadows, "since", "who", "time")
}

// evaluate returns the model's evaluation of its archive, with each prediction.
func (j *job) evaluate() (lines []string) {
	path := filepath.Join(j.dir, "predictions.parquet")
	var report map[string]any
	clitest.Must(j.t, "evaluate", "--model", j.model, j.archive, "--predictions", path, "--json").Parse(j.t, &report)
	lines = texts(j.t, []map[string]any{report}, "archive", "model", "predictions", "elapsed_ns")
	f, err := os.Open(path)
	if err != nil {
		j.t.Fatal(err)
	}
	defer f.Close()
	r, err := file.NewParquetReader(f)
	if err != nil {
		j.t.Fatal(err)
	}
	ar, err := pqarrow.NewFileReader(r, pqarrow.ArrowReadProperties{BatchSize: 1 << 20}, memory.DefaultAllocator)
	if err != nil {
		j.t.Fatal(err)
	}
	records, err := ar.GetRecordReader(j.t.Context(), nil, nil)
	if err != nil {
		j.t.Fatal(err)
	}
	defer records.Release()
	for records.Next() {
		text, err := records.Record().MarshalJSON()
		if err != nil {
			j.t.Fatal(err)
		}
		var all []map[string]any
		if err := json.Unmarshal(text, &all); err != nil {
			j.t.Fatal(err)
		}
		lines = append(lines, texts(j.t, all)...)
	}
	return lines
}

// firstDifference returns the first different line, 0 if there is none.
func firstDifference(a, b string) (line int, inA, inB string) {
	as, bs := strings.Split(a, "\n"), strings.Split(b, "\n")
	for i := range max(len(as), len(bs)) {
		var x, y string
		if i < len(as) {
			x = as[i]
		}
		if i < len(bs) {
			y = bs[i]
		}
		if x != y || i >= len(as) || i >= len(bs) {
			return i + 1, x, y
		}
	}
	return 0, "", ""
}
