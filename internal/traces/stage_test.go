package traces_test

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"github.com/eusn-stream/eusn-stream/client"
	"github.com/eusn-stream/eusn-stream/codec"
	"github.com/eusn-stream/eusn-stream/internal/consumer"
	"github.com/eusn-stream/eusn-stream/internal/natsserver"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/bridge"
	"github.com/eusn-stream/eusn-stream/internal/testing/parts"
	"github.com/eusn-stream/eusn-stream/internal/trace"
	"github.com/eusn-stream/eusn-stream/internal/traces"
	"github.com/eusn-stream/eusn-stream/pipeline"
	"github.com/eusn-stream/eusn-stream/reservoir"
	"github.com/eusn-stream/eusn-stream/reservoir/classify"
	"github.com/eusn-stream/eusn-stream/reservoir/cpu"
)

const (
	patience = time.Minute
	role     = "EUSN_TRACES_TEST" // if set, the test binary is a stage to be killed: server, collector
)

func TestMain(m *testing.M) {
	if s := os.Getenv(role); s != "" {
		url, endpoint, _ := strings.Cut(s, " ")
		if err := runKilledStage(url, endpoint); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// span is a span received by a collector.
type span struct {
	id, name, kind string // id: trace/span
	parent         string // of the same trace; empty = none
	links          []string
	begin, end     uint64
	failed         string
	says           map[string]string
}

// idOf returns the ID of a context.
func idOf(c trace.Context) string {
	return hex.EncodeToString(c.Trace[:]) + "/" + hex.EncodeToString(c.Span[:])
}

// collector receives spans.
type collector interface {
	endpoint() string
	spans(t *testing.T) []span
}

// decoded is a small collector that decodes OTLP with OpenTelemetry's protobuf.
type decoded struct {
	server *httptest.Server
	mu     sync.Mutex
	all    []span
}

func newDecoded(t *testing.T) *decoded {
	d := &decoded{}
	d.server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := d.receiveRequest(r); err != nil {
			t.Error(err)
			w.WriteHeader(http.StatusBadRequest)
		}
	}))
	t.Cleanup(d.server.Close)
	return d
}

func (d *decoded) endpoint() string { return d.server.URL }

func (d *decoded) spans(*testing.T) []span {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Clone(d.all)
}

func (d *decoded) receiveRequest(r *http.Request) error {
	z, err := gzip.NewReader(r.Body)
	if err != nil {
		return err
	}
	b, err := io.ReadAll(z)
	if err != nil {
		return err
	}
	var data tracepb.TracesData
	if err := proto.Unmarshal(b, &data); err != nil {
		return err
	}
	if r.URL.Path != "/v1/traces" || r.Header.Get("Content-Type") != "application/x-protobuf" {
		return fmt.Errorf("POST %s of %s", r.URL.Path, r.Header.Get("Content-Type"))
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, rs := range data.ResourceSpans {
		for _, ss := range rs.ScopeSpans {
			for _, s := range ss.Spans {
				one := span{id: hex.EncodeToString(s.TraceId) + "/" + hex.EncodeToString(s.SpanId), name: s.Name, kind: strings.ToLower(strings.TrimPrefix(s.Kind.String(), "SPAN_KIND_")), begin: s.StartTimeUnixNano, end: s.EndTimeUnixNano, says: map[string]string{}}
				if len(s.ParentSpanId) > 0 {
					one.parent = hex.EncodeToString(s.TraceId) + "/" + hex.EncodeToString(s.ParentSpanId)
				}
				for _, l := range s.Links {
					one.links = append(one.links, hex.EncodeToString(l.TraceId)+"/"+hex.EncodeToString(l.SpanId))
				}
				if s.Status.GetCode() == tracepb.Status_STATUS_CODE_ERROR {
					one.failed = s.Status.Message
				}
				for _, a := range slices.Concat(s.Attributes, rs.Resource.Attributes) {
					if one.says[a.Key] = a.Value.GetStringValue(); one.says[a.Key] == "" {
						one.says[a.Key] = strconv.FormatInt(a.Value.GetIntValue(), 10)
					}
				}
				d.all = append(d.all, one)
			}
		}
	}
	return nil
}

// realOne is OpenTelemetry's receiver, in its own process, and its output file.
type realOne struct{ address, file string }

func newReal(t *testing.T) *realOne {
	t.Helper()
	if !parts.Required("otelcol") { // without compiled parts, this takes longer than all other tests
		t.Skip("NOT CHECKED: make otel builds the OpenTelemetry Collector's receiver and runs this")
	}
	dir := t.TempDir()
	program := filepath.Join(dir, "collector")
	build := exec.Command("go", "build", "-o", program, ".")
	build.Dir = "../../integration/otel/collector"
	build.Env = append(os.Environ(), "GOFLAGS=")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("the OpenTelemetry Collector's receiver (integration/otel/collector) cannot be built: its modules must be reachable: %v\n%s", err, out)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	c := &realOne{l.Addr().String(), filepath.Join(dir, "spans")}
	l.Close()
	_, lines := parts.StartProgram(t, exec.Command(program, c.address, c.file))
	if s := bufio.NewScanner(lines); !s.Scan() || s.Text() != "listening" {
		t.Fatalf("the collector says %q", s.Text())
	}
	return c
}

func (c *realOne) endpoint() string { return "http://" + c.address }

func (c *realOne) spans(t *testing.T) (all []span) {
	t.Helper()
	b, err := os.ReadFile(c.file)
	if err != nil {
		t.Fatal(err)
	}
	type attribute struct {
		Key   string
		Value struct{ StringValue, IntValue string }
	}
	type line struct {
		ResourceSpans []struct {
			Resource   struct{ Attributes []attribute }
			ScopeSpans []struct {
				Spans []struct {
					TraceID, SpanID, ParentSpanID, Name string
					Kind                                int
					StartTimeUnixNano, EndTimeUnixNano  string
					Attributes                          []attribute
					Links                               []struct{ TraceID, SpanID string }
					Status                              struct {
						Code    int
						Message string
					}
				}
			}
		}
	}
	for text := range bytes.Lines(b) {
		var l line
		if err := json.Unmarshal(text, &l); err != nil {
			t.Fatal(err)
		}
		for _, rs := range l.ResourceSpans {
			for _, ss := range rs.ScopeSpans {
				for _, s := range ss.Spans {
					one := span{id: s.TraceID + "/" + s.SpanID, name: s.Name, kind: [...]string{"unspecified", "internal", "server", "client", "producer", "consumer"}[s.Kind], says: map[string]string{}}
					one.begin, _ = strconv.ParseUint(s.StartTimeUnixNano, 10, 64)
					one.end, _ = strconv.ParseUint(s.EndTimeUnixNano, 10, 64)
					if s.ParentSpanID != "" {
						one.parent = s.TraceID + "/" + s.ParentSpanID
					}
					for _, k := range s.Links {
						one.links = append(one.links, k.TraceID+"/"+k.SpanID)
					}
					if s.Status.Code == 2 {
						one.failed = s.Status.Message
					}
					for _, a := range slices.Concat(s.Attributes, rs.Resource.Attributes) {
						one.says[a.Key] = a.Value.StringValue + a.Value.IntValue
					}
					all = append(all, one)
				}
			}
		}
	}
	return all
}

// newModel returns a small, deterministic model.
func newModel() (*reservoir.Model, error) {
	series := [][]float32{{0, 1, 2, 3, 4}, {2, 4, 5, 7, 9}, {9, 6, 4, 3, 1}, {5, 4, 2, 1, 0}}
	return classify.Train(context.Background(), reservoir.DefaultBank(1), series, []string{"rising", "rising", "falling", "falling"})
}

// runStage runs a job until ctx ends.
func runStage(ctx context.Context, job, url string, tracer trace.Tracer, latency time.Duration, ready func()) error {
	m, err := newModel()
	if err != nil {
		return err
	}
	s := &pipeline.Worker{
		Job: pipeline.Job{
			Config: pipeline.Config{Job: job, InputSubject: "of-" + job + ".*", Partitions: 1, Latency: latency, Lease: time.Second}, Model: m,
			Dial: func(ctx context.Context, name string) (*nats.Conn, error) {
				return nats.Connect(url, nats.Name(name), nats.MaxReconnects(-1))
			},
			NewEngine: func(net *reservoir.Network, slots int) (reservoir.Engine, error) {
				return cpu.New(net, slots, cpu.Options{Threads: 1})
			},
			Log: slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn})),
		},
		Ready: ready,
	}
	bridge.Trace(s, tracer)
	return s.Run(ctx)
}

// startStage runs a stage in this process.
func startStage(t *testing.T, job, url string, tracer trace.Tracer, latency time.Duration) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ready, ended := make(chan struct{}), make(chan error, 1)
	go func() { ended <- runStage(ctx, job, url, tracer, latency, sync.OnceFunc(func() { close(ready) })) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(stop)
	select {
	case <-ready:
	case err := <-ended:
		ended <- err
		t.Fatal(err)
	case <-time.After(patience):
		t.Fatal("the stage does not begin")
	}
	return stop
}

// message is a producer's message: a prediction follows at the end of a sequence.
type message struct {
	stream string
	x      []float32
	end    bool
	trace  trace.Context
}

// newProducer returns a function that publishes messages of a job, in order.
func newProducer(t *testing.T, job, url string) (publish func([]message)) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 2*patience)
	t.Cleanup(cancel)
	c, err := client.Connect(ctx, client.Options{URL: url, Job: job, Subject: "of-" + job + ".*", Channels: []string{"c0"}, Latency: -1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close(ctx) })
	return func(all []message) {
		t.Helper()
		for _, m := range all {
			if err := c.Publish(ctx, client.Samples{Stream: m.stream, X: m.x, End: m.end, Trace: map[string]string{trace.HeaderParent: m.trace.Parent(), trace.HeaderState: m.trace.State}}); err != nil {
				t.Fatal(err)
			}
			if err := c.Flush(ctx); err != nil { // one message each
				t.Fatal(err)
			}
		}
	}
}

// readOutputs returns a job's messages of predictions, at least the wanted number.
func readOutputs(t *testing.T, job, url string, want int) (all []consumer.Output) {
	t.Helper()
	nc, err := nats.Connect(url)
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	enough, n := errors.New("enough"), 0
	err = consumer.Predictions(ctx, js, job, 1, func(o consumer.Output) error {
		all = append(all, o)
		if n += len(o.Predictions); n >= want {
			return enough
		}
		return nil
	})
	if err != enough {
		t.Fatalf("%d of %d predictions: %v", n, want, err)
	}
	return all
}

func predictions(all []consumer.Output) (list []codec.Prediction) {
	for _, o := range all {
		list = append(list, o.Predictions...)
	}
	return list
}

func startServer(t *testing.T) string {
	t.Helper()
	s, err := natsserver.Start(t.Context(), natsserver.Options{Dir: t.TempDir(), Port: natsserver.RandomPort})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s.URL()
}

func startTraces(t *testing.T, endpoint string) *traces.Traces {
	t.Helper()
	all, err := traces.Start(traces.Options{Endpoint: endpoint, Rate: 1e6, Job: "traced", Process: "stage", Version: "v0", Log: slog.New(slog.NewTextHandler(os.Stderr, nil))})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// TestFromProducerToPrediction follows a trace from a producer through the stage to the prediction,
// into the OpenTelemetry Collector's receiver and into a decoder with its protobuf. A single traced
// message of a prediction message is its parent; several are linked. The predictions equal those
// without traces.
func TestFromProducerToPrediction(t *testing.T) {
	t.Run("decoded", func(t *testing.T) { fromProducerToPrediction(t, newDecoded(t)) })
	t.Run("collector", func(t *testing.T) { fromProducerToPrediction(t, newReal(t)) })
}

func fromProducerToPrediction(t *testing.T, to collector) {
	url := startServer(t)
	all := startTraces(t, to.endpoint())
	var plan []message
	for i := range 12 {
		m := message{stream: fmt.Sprint("pump-", i%4), x: []float32{float32(i), float32(i + 1), float32(2*i + 1)}, end: i >= 4}
		if i != 5 { // one has no trace
			m.trace = new(trace.Context).Child()
		}
		plan = append(plan, m)
	}
	stop := startStage(t, "traced", url, all, time.Millisecond)
	publish := newProducer(t, "traced", url)
	publish(plan[:8]) // one at a time, so that most have their own commits
	first := readOutputs(t, "traced", url, 4)
	stop()
	publish(plan[8:]) // waiting together
	stop = startStage(t, "traced", url, all, time.Second)
	got := readOutputs(t, "traced", url, 8)
	stop()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	all.Close(ctx)
	if s := all.Stats(); s.Dropped > 0 || s.Sent == 0 {
		t.Fatalf("%+v", s)
	}

	plain := slices.Clone(plan)
	for i := range plain {
		plain[i].trace = trace.Context{}
	}
	startStage(t, "plain", url, nil, time.Millisecond)
	newProducer(t, "plain", url)(plain)
	if want := readOutputs(t, "plain", url, 8); !reflect.DeepEqual(predictions(got), predictions(want)) {
		t.Errorf("with traces %v\nwithout     %v", predictions(got), predictions(want))
	}

	byID, children := map[string]span{}, map[string][]span{}
	for _, s := range to.spans(t) {
		if _, twice := byID[s.id]; twice {
			t.Errorf("span %s (%s) came twice", s.id, s.name)
		}
		byID[s.id] = s
		children[s.parent] = append(children[s.parent], s)
	}
	commits := map[string]string{} // span of the commit by the producer's span
	for i, m := range plan {
		if !m.trace.Valid() {
			continue
		}
		of := idOf(m.trace)
		if len(children[of]) != 1 {
			t.Fatalf("message %d: %d spans continue it: %v", i, len(children[of]), children[of])
		}
		p := children[of][0]
		part := map[string]span{}
		for _, c := range children[p.id] {
			part[c.name] = c
		}
		commit, sends := part["send traced.out"], true
		if commit.id == "" {
			commit, sends = part["commit"], false
		}
		commits[of] = commit.id
		wait, compute := part["wait"], part["compute"]
		if p.name != "process traced.in" || p.kind != "consumer" || wait.id == "" || compute.id == "" || commit.id == "" && m.end || sends && !m.end || sends && commit.kind != "producer" {
			t.Errorf("message %d: %+v with %+v", i, p, part)
		}
		if !(p.begin <= wait.begin && wait.begin <= wait.end && wait.end <= compute.begin && compute.begin <= compute.end && compute.end <= p.end) || commit.id != "" && !(compute.end <= commit.begin && commit.begin <= commit.end && commit.end == p.end) {
			t.Errorf("message %d: times are not in order: %+v with %+v", i, p, part)
		}
		for key, want := range map[string]string{
			"messaging.system": "nats", "messaging.operation.type": "process", "messaging.destination.name": "traced.in.0." + m.stream,
			"messaging.destination.partition.id": "0", "eusn.job": "traced", "eusn.key": m.stream, "eusn.input": fmt.Sprint(i + 1), "service.name": "eusn-stream", "service.namespace": "traced",
		} {
			if p.says[key] != want {
				t.Errorf("message %d: %s is %q, want %q", i, key, p.says[key], want)
			}
		}
	}
	together := 0
	for n, o := range got {
		traced := 0
		var want []string
		for _, p := range o.Predictions {
			for i, m := range plan {
				if m.trace.Valid() && m.end && m.stream == p.Stream && p.Seq == uint64(i/4+1) {
					traced++
					want = append(want, commits[idOf(m.trace)])
				}
			}
		}
		s := byID[idOf(o.Trace)]
		switch {
		case traced == 0 && o.Trace.Valid():
			t.Errorf("output %d has a trace, and none of its messages", n)
		case traced == 1 && (len(s.links) > 0 || s.id != want[0] || s.name != "send traced.out"):
			t.Errorf("output %d of one traced message: %+v, want %v", n, s, want)
		case traced > 1:
			together++
			if slices.Sort(s.links); s.parent != "" || !slices.Equal(s.links, slices.Sorted(slices.Values(want))) || s.name != "send traced.out" || s.kind != "producer" {
				t.Errorf("output %d of %d traced messages: %+v, want links to %v", n, traced, s, want)
			}
			for _, id := range want {
				if c := byID[id]; !slices.Equal(c.links, []string{s.id}) || c.name != "commit" {
					t.Errorf("output %d: %+v does not link to it", n, c)
				}
			}
		}
	}
	if together == 0 || len(first) == 0 {
		t.Errorf("no message of predictions is of several traced messages: the test has lost its subject")
	}
}

// runKilledStage runs the process to be killed.
func runKilledStage(url, endpoint string) error {
	all, err := traces.Start(traces.Options{Endpoint: endpoint, Rate: 1e6, Job: "killed", Process: "stage", Log: slog.New(slog.NewTextHandler(os.Stderr, nil))})
	if err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	err = runStage(ctx, "killed", url, all, time.Millisecond, func() { fmt.Println("ready") })
	end, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	all.Close(end)
	return err
}

// TestKilled: a stage with traces is killed (kill -9) repeatedly: each prediction is published
// once, and no message has two spans.
func TestKilled(t *testing.T) {
	const kills, streams, messages = 3, 4, 120
	url, to := startServer(t), newDecoded(t)
	program := func() (*exec.Cmd, *bufio.Scanner) {
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), role+"="+url+" "+to.endpoint())
		_, out := parts.StartProgram(t, cmd)
		return cmd, bufio.NewScanner(out)
	}
	var plan []message
	ends := 0
	for i := range messages {
		m := message{stream: fmt.Sprint("s", i%streams), x: []float32{float32(i % 7), float32(i % 5)}, end: i/streams%3 == 2, trace: new(trace.Context).Child()}
		if m.end {
			ends++
		}
		plan = append(plan, m)
	}
	made, publish := 0, newProducer(t, "killed", url)
	for k := range kills + 1 {
		cmd, lines := program()
		if !lines.Scan() || lines.Text() != "ready" {
			t.Fatalf("the stage says %q", lines.Text())
		}
		share := plan[k*messages/(kills+1) : (k+1)*messages/(kills+1)]
		publish(share)
		for _, m := range share {
			if m.end {
				made++
			}
		}
		if k < kills {
			cmd.Process.Kill()
			cmd.Wait()
			continue
		}
		readOutputs(t, "killed", url, made)
		cmd.Process.Signal(os.Interrupt)
		if err := cmd.Wait(); err != nil {
			t.Fatal(err)
		}
	}
	seen := map[string]int{}
	for _, p := range predictions(readOutputs(t, "killed", url, ends)) {
		if seen[fmt.Sprint(p.Stream, " ", p.Seq)]++; seen[fmt.Sprint(p.Stream, " ", p.Seq)] > 1 {
			t.Errorf("stream %s, message %d: predicted twice", p.Stream, p.Seq)
		}
	}
	if len(seen) != ends {
		t.Errorf("%d predictions, want %d", len(seen), ends)
	}
	told := map[string]int{}
	for _, s := range to.spans(t) {
		if s.name == "process killed.in" {
			told[s.parent]++
		}
	}
	for _, m := range plan {
		if told[idOf(m.trace)] > 1 {
			t.Errorf("a message of %s is told of %d times", m.stream, told[idOf(m.trace)])
		}
	}
	if last := plan[messages-1]; told[idOf(last.trace)] != 1 || len(told) < messages/(kills+1) {
		t.Errorf("%d of %d messages are told of, the last one %d times", len(told), messages, told[idOf(last.trace)])
	}
}
