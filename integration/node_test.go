package integration

import (
	"bufio"
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"hash/crc32"
	"io"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/eusn-stream/eusn-stream/client"
	"github.com/eusn-stream/eusn-stream/codec"
	"github.com/eusn-stream/eusn-stream/internal/labels"
	"github.com/eusn-stream/eusn-stream/internal/natsclient"
	"github.com/eusn-stream/eusn-stream/internal/natsserver"
	"github.com/eusn-stream/eusn-stream/internal/testing/parts"
	"github.com/eusn-stream/eusn-stream/internal/testing/pipelinetest"
	"github.com/eusn-stream/eusn-stream/pipeline"
	"github.com/eusn-stream/eusn-stream/readout/outcome"
	"github.com/eusn-stream/eusn-stream/reservoir"
	"github.com/eusn-stream/eusn-stream/reservoir/classify"
	"github.com/eusn-stream/eusn-stream/reservoir/cpu"
)

// The npm package publishes and reads as package client does, through a restart of the
// server and of the client: each sample is stored once, and the predictions equal those
// from Go for the same samples, bit for bit.
func TestNodeClient(t *testing.T) {
	t.Parallel()
	dir := parts.RequireModule(t, "node", "clients/node", "apache-arrow", "")
	subject, names := "sensors.*", []string{"n-0", "n-1", "n-2"}
	ctx, stop := context.WithTimeout(t.Context(), 2*time.Minute)
	defer stop()
	store := filepath.Join(t.TempDir(), "data")
	server := pipelinetest.Server(t, natsserver.Options{Dir: store, Port: natsserver.RandomPort})
	url, port := server.URL(), pipelinetest.Port(t, server)
	model := nodeModel(t)
	stopStage := runStage(t, ctx, model, url, subject) // creates the input

	series := map[string][][]float32{}
	for k, name := range names {
		for i := range 53 {
			series[name] = append(series[name], []float32{float32(math.Sin(float64(i*(k+1)) / 5)), float32(i%(k+3)) / 4})
		}
	}
	cmd := exec.CommandContext(ctx, "node", "test/live.mjs", url, subject)
	cmd.Dir = dir
	in, out := parts.StartProgram(t, cmd)
	text, err := json.Marshal(series)
	if err != nil {
		t.Fatal(err)
	}
	in.Write(append(text, '\n'))
	lines := bufio.NewScanner(out)
	lines.Buffer(nil, 1<<20)
	next := func(v any) {
		t.Helper()
		if !lines.Scan() {
			t.Fatalf("node says no more: %v", lines.Err())
		}
		if err := json.Unmarshal(lines.Bytes(), v); err != nil {
			t.Fatalf("%v in %s", err, lines.Bytes())
		}
	}
	var said struct {
		Stored    int
		Fenced    string
		Integrity []string
	}
	if next(&said); said.Stored != 60 {
		t.Errorf("%d samples stored, 60 published", said.Stored)
	}
	stopStage() // otherwise its next retry would be late
	server.Close()
	pipelinetest.Server(t, natsserver.Options{Dir: store, Port: port})
	io.WriteString(in, "go on\n")
	in.Close()
	if next(&said); !strings.Contains(said.Fenced, "another producer") {
		t.Errorf("a client that another one has followed: %q", said.Fenced)
	}
	defer runStage(t, ctx, model, url, subject)()
	js := pipelinetest.JetStreamAt(t, url)
	if err := labels.Ensure(t.Context(), js, "eusn", 1); err != nil {
		t.Fatal(err)
	}
	got := map[string]nodePrediction{}
	for range 3 * len(names) {
		var p nodePrediction
		next(&p)
		got[fmt.Sprint(p.Stream, " ", p.Time)] = p
	}
	checkNodeLabels(t, js, next)
	next(&said)
	for flags, word := range said.Integrity {
		if want := outcome.Flag(flags).Integrity(); word != want {
			t.Errorf("flags %d: %q, want %q", flags, word, want)
		}
	}
	if err := cmd.Wait(); err != nil || len(said.Integrity) == 0 {
		t.Errorf("node ended with %v", err)
	}
	checkNodeInput(t, url, names, series)
	comparePredictions(t, ctx, url, subject, names, series, got)
}

// The npm package returns all optional columns, and null if a prediction has no value.
func TestNodeReadout(t *testing.T) {
	dir := parts.RequireModule(t, "node", "clients/node", "apache-arrow", "")
	promoted, readouts := promotedMessage(t)
	later, laterRows := laterMessage(t)
	rows := [][]any{}
	for _, r := range readouts {
		rows = append(rows, append([]any{r}, make([]any, 8)...))
	}
	for _, r := range laterRows {
		rows = append(rows, append([]any{nil}, r...))
	}
	want, err := json.Marshal(rows)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "node", "test/readout.mjs")
	cmd.Dir, cmd.Stderr = dir, os.Stderr
	cmd.Stdin = strings.NewReader(base64.StdEncoding.EncodeToString(promoted) + "\n" + base64.StdEncoding.EncodeToString(later) + "\n")
	if out, err := cmd.Output(); err != nil || strings.TrimSpace(string(out)) != string(want) {
		t.Errorf("node says %s, want %s: %v", out, want, err)
	}
}

// The npm package makes the same subjects and keys as Go, and publishes and resumes keys
// with several tokens.
func TestNodeSubjects(t *testing.T) {
	t.Parallel()
	dir := parts.RequireModule(t, "node", "clients/node", "apache-arrow", "")
	ctx, stop := context.WithTimeout(t.Context(), time.Minute)
	defer stop()
	subject := "plant.{site}.line.>"
	url := pipelinetest.Server(t, natsserver.Options{Port: natsserver.RandomPort}).URL()
	runStage(t, ctx, nodeModel(t), url, subject)
	names, series := []string{"A.3", "A.3.7", "A3.7"}, map[string][][]float32{}
	for k, name := range names {
		for i := range 30 {
			series[name] = append(series[name], []float32{float32(i), float32(k)})
		}
	}
	text, err := json.Marshal(series)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(ctx, "node", "test/subjects.mjs", url, subject, "../../internal/pipeline/wire/testdata/partitions.json")
	cmd.Dir, cmd.Stderr, cmd.Stdin = dir, os.Stderr, bytes.NewReader(text)
	out, err := cmd.Output()
	if want := `{"wrong":[]}`; err != nil || strings.TrimSpace(string(out)) != want {
		t.Fatalf("node says %s, want %s: %v", out, want, err)
	}
	checkNodeInput(t, url, names, series)
}

// The npm package continues after a change of the job's number of partitions: a running
// client, and a client started afterwards.
func TestNodeGoesOnInOtherPartitions(t *testing.T) {
	t.Parallel()
	dir := parts.RequireModule(t, "node", "clients/node", "apache-arrow", "")
	ctx, stop := context.WithTimeout(t.Context(), 30*time.Second)
	defer stop()
	url := pipelinetest.Server(t, natsserver.Options{Port: natsserver.RandomPort}).URL()
	js := pipelinetest.JetStreamAt(t, url)
	input := func(partitions int) jetstream.StreamConfig {
		return jetstream.StreamConfig{Name: "EUSN-IN", Subjects: []string{"sensors.*"}, SubjectTransform: &jetstream.SubjectTransformConfig{
			Source: "sensors.*", Destination: fmt.Sprintf("eusn.in.{{partition(%d,1)}}.{{wildcard(1)}}", partitions),
		}}
	}
	if _, err := js.CreateStream(ctx, input(2)); err != nil {
		t.Fatal(err)
	}
	names, series := []string{"a", "b", "c", "d", "e", "f"}, map[string][][]float32{}
	for k, name := range names {
		for i := range 30 {
			series[name] = append(series[name], []float32{float32(i), float32(k)})
		}
	}
	text, err := json.Marshal(series)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(ctx, "node", "test/moved.mjs", url)
	cmd.Dir = dir
	in, out := parts.StartProgram(t, cmd)
	in.Write(append(text, '\n'))
	if said, err := bufio.NewReader(out).ReadString('\n'); err != nil {
		t.Fatalf("node says %q: %v", said, err)
	}
	if _, err := js.UpdateStream(ctx, input(16)); err != nil {
		t.Fatal(err)
	}
	io.WriteString(in, "go on\n")
	in.Close()
	if err := cmd.Wait(); err != nil {
		t.Errorf("node ended with %v", err)
	}
	checkNodeInput(t, url, names, series)
}

// checkNodeLabels expects the labels of clients/node/test/live.mjs, read by package
// labels.
func checkNodeLabels(t *testing.T, js jetstream.JetStream, next func(any)) {
	t.Helper()
	for i, repeat := range []bool{false, true, false} {
		var said struct{ Repeat bool }
		if next(&said); said.Repeat != repeat {
			t.Errorf("label %d: repeat %v, want %v", i, said.Repeat, repeat)
		}
	}
	want := []labels.Label{
		{Stream: "a b.c", From: -1, To: 1<<60 + 1, Class: "slow", Who: "anna", When: time.Unix(0, 0).UTC()},
		{Stream: "a b.c", Seq: 1<<53 + 1, Row: 7, Who: "bert"},
	}
	err := labels.Read(t.Context(), js, "eusn", "a b.c", func(l labels.Stored) error {
		if l.Label.Who == "bert" {
			l.Label.When = time.Time{} // now
		}
		if len(want) == 0 || l.Label != want[0] {
			t.Errorf("label %+v, want %+v", l.Label, want)
		} else {
			want = want[1:]
		}
		return nil
	}, func(number uint64, err error) { t.Errorf("message %d: %v", number, err) })
	if err != nil || len(want) > 0 {
		t.Errorf("labels %+v are missing: %v", want, err)
	}
}

type nodePrediction struct {
	Stream, Class, Integrity string
	Score                    float32
	Probability              float32
	Flags                    uint32
	Time                     string
}

func nodeModel(t *testing.T) *reservoir.Model {
	t.Helper()
	var series [][]float32
	var labels []string
	for i := range 12 {
		var s []float32
		for k := range 20 {
			s = append(s, float32(math.Sin(float64(k*(1+i%2))/5+float64(i))), float32(k%(2+i%2))/4)
		}
		series, labels = append(series, s), append(labels, []string{"slow", "fast"}[i%2])
	}
	model, err := classify.Train(t.Context(), reservoir.DefaultBank(2), series, labels)
	if err != nil {
		t.Fatal(err)
	}
	return model
}

// runStage runs a stage until ctx ends or stop is called, and returns when the stage
// reads.
func runStage(t *testing.T, ctx context.Context, model *reservoir.Model, url, subject string) (stop func()) {
	t.Helper()
	ready, ended := make(chan struct{}), make(chan error, 1)
	stage := &pipeline.Worker{
		Job: pipeline.Job{
			Config: pipeline.Config{Partitions: 2, InputSubject: subject}, Model: model,
			Dial: func(ctx context.Context, name string) (*nats.Conn, error) {
				return natsclient.Connect(t.Context(), natsclient.Options{URL: url, Name: name})
			},
			NewEngine: func(net *reservoir.Network, slots int) (reservoir.Engine, error) {
				return cpu.New(net, slots, cpu.Options{Threads: 1})
			},
		},
		Ready: func() { close(ready) },
	}
	ctx, cancel := context.WithCancel(ctx)
	go func() { ended <- stage.Run(ctx) }()
	select {
	case <-ready:
	case err := <-ended:
		t.Fatal(err)
	}
	stop = sync.OnceFunc(func() { cancel(); <-ended })
	t.Cleanup(stop)
	return stop
}

// checkNodeInput expects each sample in the input once, in order, and no other samples.
func checkNodeInput(t *testing.T, url string, names []string, series map[string][][]float32) {
	t.Helper()
	js := pipelinetest.JetStreamAt(t, url)
	in, err := js.OrderedConsumer(t.Context(), "EUSN-IN", jetstream.OrderedConsumerConfig{})
	if err != nil {
		t.Fatal(err)
	}
	decoder, err := codec.NewDecoder(codec.Schema{Channels: []string{"c0", "c1"}})
	if err != nil {
		t.Fatal(err)
	}
	rows, messages := map[string]int{}, map[string]int{}
	for pending := uint64(1); pending > 0; {
		m, err := in.Next()
		if err != nil {
			t.Fatal(err)
		}
		meta, err := m.Metadata()
		if err != nil {
			t.Fatal(err)
		}
		pending = meta.NumPending
		key := strings.SplitN(m.Subject(), ".", 4)[3] // <job>.in.<partition>.<key>
		messages[key]++
		var b codec.Batch
		if err := decoder.Decode(m.Data(), &b); err != nil {
			t.Fatal(err)
		}
		h := m.Headers()
		if h.Get("Eusn-Seq") != fmt.Sprint(messages[key]) || h.Get("Eusn-Crc") != fmt.Sprintf("%08x", crc32.Checksum(m.Data(), crc32.MakeTable(crc32.Castagnoli))) || b.Rows > 7 {
			t.Errorf("message %d of %s: %d rows, headers %v", messages[key], key, b.Rows, h)
		}
		for i := range b.Rows {
			n := rows[key]
			if n >= len(series[key]) || b.X[2*i] != series[key][n][0] || b.X[2*i+1] != series[key][n][1] || b.Times[i] != int64(n+1)*int64(time.Millisecond) {
				t.Fatalf("sample %d of %s is %v at %d", n, key, b.X[2*i:2*i+2], b.Times[i])
			}
			rows[key]++
		}
	}
	for _, name := range names {
		if rows[name] != len(series[name]) {
			t.Errorf("%d samples of %s stored, want %d", rows[name], name, len(series[name]))
		}
	}
}

// comparePredictions publishes the same series from Go, under other names, and compares
// the predictions with those of node.
func comparePredictions(t *testing.T, ctx context.Context, url, subject string, names []string, series map[string][][]float32, got map[string]nodePrediction) {
	t.Helper()
	c, err := client.Connect(ctx, client.Options{URL: url, Subject: subject, Channels: []string{"c0", "c1"}})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(ctx)
	for _, name := range names {
		for begin := 0; begin < len(series[name]); begin += 20 {
			s := client.Samples{Stream: "go-" + name, End: true}
			for i := begin; i < min(begin+20, len(series[name])); i++ {
				s.X, s.Times = append(s.X, series[name][i]...), append(s.Times, int64(i+1)*int64(time.Millisecond))
			}
			if err := c.Publish(ctx, s); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := c.Flush(ctx); err != nil {
		t.Fatal(err)
	}
	left := 3 * len(names)
	for p, err := range c.Predictions(ctx, client.ReadOptions{From: 1}) {
		if err != nil {
			t.Fatal(err)
		}
		name, ours := strings.CutPrefix(p.Stream, "go-")
		if !ours {
			continue
		}
		want := nodePrediction{name, p.Class, p.Integrity, p.Score, *p.Probability, uint32(p.Flags), fmt.Sprint(*p.Time)}
		if node := got[name+" "+want.Time]; node != want {
			t.Errorf("from node %+v, from Go %+v", node, want)
		}
		if left--; left == 0 {
			break
		}
	}
}
