package pipeline

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"math/rand/v2"
	"reflect"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/eusn-stream/eusn-stream/codec"
	"github.com/eusn-stream/eusn-stream/readout"
	"github.com/eusn-stream/eusn-stream/reservoir"
)

const patience = 20 * time.Second // far beyond what any test needs, so that only a hang fails by it

// testModel has 12 units, two channels, difference inputs (so that every
// sample's predecessor matters) and a readout of drawn numbers: tests compare
// bits, not accuracy.
func testModel(t testing.TB, classes int, policy reservoir.Policy) *reservoir.Model {
	t.Helper()
	net, err := reservoir.Draw(reservoir.Spec{
		Arithmetic: reservoir.Arithmetic, Kind: reservoir.EuSN, Channels: 2, Members: 1, Units: 12, Seed: 7,
		Precision: reservoir.Float32, Standardise: true, Difference: true,
		Features: []reservoir.Feature{reservoir.Last, reservoir.Mean},
		Eps:      reservoir.Fixed(0.1), Gamma: reservoir.Fixed(0.01), Recurrent: reservoir.Fixed(0.5),
		Input: reservoir.Fixed(1), Bias: reservoir.Fixed(0.1),
	})
	if err != nil {
		t.Fatal(err)
	}
	net.Norm = reservoir.Norm{Mean: []float32{0.25, -0.5}, Scale: []float32{1.5, 0.75}, Diff: []float32{2, 1}}
	rng := rand.New(rand.NewPCG(11, 13))
	columns := classes
	if classes == 2 {
		columns = 1
	}
	f := net.Spec.FeatureCount()
	head := &readout.Linear{Name: "test", Center: noise(rng, f), Weights: noise(rng, f*columns), Intercept: noise(rng, columns)}
	for c := range classes {
		head.Classes = append(head.Classes, fmt.Sprintf("c%d", c))
	}
	m := &reservoir.Model{Network: net, Heads: []*readout.Linear{head}, Policy: policy, Channels: []string{"x", "y"}}
	if err := m.Validate(); err != nil {
		t.Fatal(err)
	}
	return m
}

func noise(rng *rand.Rand, n int) []float32 {
	v := make([]float32, n)
	for i := range v {
		v[i] = rng.Float32()*2 - 1
	}
	return v
}

func generic(net *reservoir.Network, slots int) (reservoir.Engine, error) {
	return reservoir.NewGeneric(net, slots)
}

var float32Nan = float32(math.NaN())

// recording is everything one stream sends.
type recording struct {
	name  string
	x     []float32
	times []int64
	ends  []bool
}

// recordings are drawn; times have a silence of more than 5 ms about one time
// in eight.
func recordings(streams, rows int) []recording {
	rng := rand.New(rand.NewPCG(3, uint64(streams*rows)))
	all := make([]recording, streams)
	for i := range all {
		r := recording{name: fmt.Sprintf("s%d", i), x: noise(rng, 2*rows)}
		now := int64(1_700_000_000_000_000_000)
		for j := range rows {
			step := time.Millisecond
			if rng.IntN(8) == 0 {
				step = 9 * time.Millisecond
			}
			now += int64(step)
			r.times = append(r.times, now)
			r.ends = append(r.ends, rng.IntN(10) == 0 || j == rows-1)
		}
		all[i] = r
	}
	return all
}

// packet is one input message before it is encoded.
type packet struct {
	key    string
	seq    uint64
	batch  codec.Batch
	header map[string]string
	raw    []byte // instead of batch
}

// split cuts a recording into messages of random size.
func (r recording) split(rng *rand.Rand) []packet {
	var out []packet
	for from := 0; from < len(r.times); {
		to := min(len(r.times), from+1+rng.IntN(12))
		out = append(out, packet{key: r.name, seq: uint64(len(out) + 1), batch: codec.Batch{
			Rows: to - from, X: r.x[2*from : 2*to], Times: r.times[from:to], Ends: r.ends[from:to],
		}})
		from = to
	}
	return out
}

// interleave mixes the streams' messages at random, each stream in order.
func interleave(rng *rand.Rand, all [][]packet) []packet {
	var out []packet
	all = slices.Clone(all)
	for len(all) > 0 {
		i := rng.IntN(len(all))
		out = append(out, all[i][0])
		if all[i] = all[i][1:]; len(all[i]) == 0 {
			all = slices.Delete(all, i, i+1)
		}
	}
	return out
}

// payload encodes a packet with every optional field it has.
func (p packet) payload(t testing.TB) []byte {
	t.Helper()
	if p.raw != nil {
		return p.raw
	}
	enc, err := codec.NewInputEncoder([]string{"x", "y"}, codec.InputOptions{
		Times: len(p.batch.Times) > 0, Ends: len(p.batch.Ends) > 0, Keys: len(p.batch.Keys) > 0,
	})
	if err != nil {
		t.Fatal(err)
	}
	data, err := enc.Encode(&p.batch)
	if err != nil {
		t.Fatal(err)
	}
	return bytes.Clone(data)
}

// rig is a real server with a connection for the test.
type rig struct {
	t   testing.TB
	srv *Server
	nc  *nats.Conn
	url string           // if set, stages connect by TCP
	now func() time.Time // if set, the clock of stages that are started
	js  jetstream.JetStream
	log *slog.Logger
}

func newRig(t testing.TB) *rig { return newRigAt(t, t.TempDir()) }

func newRigAt(t testing.TB, dir string) *rig {
	t.Helper()
	srv, err := StartServer(ServerOptions{Dir: dir, Log: testLog(t)})
	if err != nil {
		t.Fatal(err)
	}
	return rigOf(t, srv)
}

func rigOf(t testing.TB, srv *Server) *rig {
	t.Helper()
	t.Cleanup(srv.Close)
	nc, err := srv.Connect("test", nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	return &rig{t: t, srv: srv, nc: nc, js: js, log: testLog(t)}
}

// dial connects a stage: in process, or by the rig's address where the test
// wants the connection to outlive the server.
func (b *rig) dial(name string) (*nats.Conn, error) {
	if b.url != "" {
		return Connect(NATSOptions{URL: b.url, Name: name, Log: b.log})
	}
	return b.srv.Connect(name, b.log)
}

// testLog writes to the test's log, which is shown when it fails. Lines that
// come after the test are dropped: reporting them would panic.
func testLog(t testing.TB) *slog.Logger {
	w := &testWriter{t: t}
	t.Cleanup(func() { w.mu.Lock(); w.over = true; w.mu.Unlock() })
	return slog.New(slog.NewTextHandler(w, &slog.HandlerOptions{Level: slog.LevelWarn}))
}

type testWriter struct {
	t    testing.TB
	mu   sync.Mutex
	over bool
}

func (w *testWriter) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.over {
		w.t.Log(strings.TrimRight(string(p), "\n"))
	}
	return len(p), nil
}

// publish stores packets and waits for each acknowledgement.
func (b *rig) publish(packets []packet) {
	b.t.Helper()
	for _, p := range packets {
		b.publishOn("sensors.", p)
	}
}

func (b *rig) publishOn(prefix string, packets ...packet) {
	b.t.Helper()
	for _, p := range packets {
		msg := nats.NewMsg(prefix + p.key)
		msg.Data = p.payload(b.t)
		if p.seq > 0 {
			msg.Header.Set(HeaderSeq, strconv.FormatUint(p.seq, 10))
		}
		for k, v := range p.header {
			msg.Header.Set(k, v)
		}
		if _, err := b.js.PublishMsg(context.Background(), msg); err != nil {
			b.t.Fatal(err)
		}
	}
}

// running is a stage at work.
type running struct {
	counters Counters
	before   int // input messages that the snapshots hold it began from
	conns    []*nats.Conn
	cancel   context.CancelFunc
	done     chan error
}

func (b *rig) start(m *reservoir.Model, c Config) *running { return b.startWith(m, c, generic) }

func (b *rig) startWith(m *reservoir.Model, c Config, engine EngineFactory) *running {
	b.t.Helper()
	before := b.restored(c)
	r := b.launch(m, c, engine)
	r.before = before
	return r
}

// launch starts a stage and returns when it reads.
func (b *rig) launch(m *reservoir.Model, c Config, engine EngineFactory) *running {
	b.t.Helper()
	r := &running{done: make(chan error, 1)}
	var mu sync.Mutex
	ctx, cancel := context.WithCancel(context.Background())
	r.cancel = cancel
	ready := make(chan struct{})
	s := &Stage{
		Config: c, Model: m, ModelName: "test-model", NewEngine: engine, Log: b.log, Counters: &r.counters, clock: b.now,
		Dial: func(name string) (*nats.Conn, error) {
			nc, err := b.dial(name)
			mu.Lock()
			defer mu.Unlock()
			r.conns = append(r.conns, nc)
			return nc, err
		},
		Ready: func() { close(ready) },
	}
	go func() { r.done <- s.Run(ctx) }()
	b.t.Cleanup(cancel)
	select {
	case <-ready:
	case err := <-r.done:
		b.t.Fatalf("stage did not start: %v", err)
	case <-time.After(patience):
		b.t.Fatal("stage is not ready")
	}
	return r
}

func (r *running) stop(t testing.TB) {
	t.Helper()
	r.cancel()
	if err := r.wait(t); err != nil {
		t.Fatalf("stage ended with %v", err)
	}
}

// crash ends a stage as a killed process ends: nothing more of it reaches the
// server, no last commit, no release.
func (r *running) crash(t testing.TB) {
	t.Helper()
	for _, nc := range r.conns {
		nc.Close()
	}
	r.cancel()
	_ = r.wait(t) // whatever it says about that
}

// restored counts the input messages that a stage's snapshots hold already.
func (b *rig) restored(c Config) int {
	b.t.Helper()
	c = c.WithDefaults()
	out, err := b.js.Stream(context.Background(), outputStream(c.Job))
	if err != nil {
		return 0 // a new job
	}
	in, err := b.js.Stream(context.Background(), inputStream(c.Job))
	if err != nil {
		return 0
	}
	n, first := 0, in.CachedInfo().State.FirstSeq
	snaps := map[string]uint64{}
	for p := range c.Partitions {
		if raw, err := out.GetLastMsgForSubject(context.Background(), outputSubject(c.Job, p)); err == nil {
			if r, err := parseRecord(raw); err == nil && r.snapSeq > 0 {
				snaps[fmt.Sprint(p)] = r.snapSeq
			}
		}
	}
	if len(snaps) == 0 {
		return 0 // reading the input one by one is slow
	}
	for seq := first; seq <= in.CachedInfo().State.LastSeq; seq++ {
		m, err := in.GetMsg(context.Background(), seq)
		if err != nil {
			continue
		}
		if seq <= snaps[strings.Split(m.Subject, ".")[2]] {
			n++
		}
	}
	return n
}

// expire ends the leases of a job's workers, as time would.
func (b *rig) expire(job string) {
	b.t.Helper()
	s, err := b.js.Stream(context.Background(), "KV_"+memberBucket(job))
	if err == nil {
		err = s.Purge(context.Background())
	}
	if err != nil {
		b.t.Fatal(err)
	}
}

func (r *running) wait(t testing.TB) error {
	t.Helper()
	select {
	case err := <-r.done:
		return err
	case <-time.After(patience):
		buf := make([]byte, 1<<20)
		t.Fatalf("stage does not end:\n%s", buf[:runtime.Stack(buf, true)])
		return nil
	}
}

// until waits for a condition on the stage's counters.
func (r *running) until(t testing.TB, what string, ok func(Stats) bool) Stats {
	t.Helper()
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(2 * time.Millisecond) {
		if s := r.counters.Stats(); ok(s) {
			return s
		}
		select {
		case err := <-r.done:
			t.Fatalf("waiting for %s, the stage ended: %v", what, err)
		default:
		}
	}
	t.Fatalf("no %s within %v: %+v", what, patience, r.counters.Stats())
	return Stats{}
}

// settle waits until that many messages have been taken into account.
func (b *rig) settle(r *running, messages int) Stats {
	b.t.Helper()
	return r.until(b.t, fmt.Sprintf("%d messages answered", messages), func(s Stats) bool {
		return int(s.Messages+s.Duplicates+s.DeadLetters+s.Replayed)+r.before >= messages && s.Lag == 0
	})
}

// predictions reads all that a job has put out, per stream in order.
func (b *rig) predictions(job string) map[string][]codec.Prediction {
	b.t.Helper()
	out := map[string][]codec.Prediction{}
	outs := map[int]uint64{}
	b.collect(outputStream(job), func(ctx context.Context, seen func() error) error {
		return Predictions(ctx, b.js, job, 1, func(o Output) error {
			outs[o.Partition] += uint64(len(o.Predictions))
			if outs[o.Partition] != o.Outs {
				b.t.Errorf("partition %d: message says %d predictions so far, %d were read", o.Partition, o.Outs, outs[o.Partition])
			}
			for _, p := range o.Predictions {
				out[p.Stream] = append(out[p.Stream], p)
			}
			return seen()
		})
	})
	return out
}

func (b *rig) deadLetters(job string) []DeadLetter {
	b.t.Helper()
	var out []DeadLetter
	b.collect(deadLetterStream(job), func(ctx context.Context, seen func() error) error {
		return DeadLetters(ctx, b.js, job, 1, func(d DeadLetter) error {
			out = append(out, d)
			return seen()
		})
	})
	return out
}

// collect reads as many messages as the NATS stream holds now.
func (b *rig) collect(stream string, reader func(ctx context.Context, seen func() error) error) {
	b.t.Helper()
	s, err := b.js.Stream(context.Background(), stream)
	if err != nil {
		b.t.Fatal(err)
	}
	left := int(s.CachedInfo().State.Msgs)
	if left == 0 {
		return
	}
	all := errors.New("read all there is")
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	err = reader(ctx, func() error {
		if left--; left == 0 {
			return all
		}
		return nil
	})
	if err != all {
		b.t.Fatalf("%s: %d messages not read: %v", stream, left, err)
	}
}

// direct is what the stage must say, from an engine fed by hand: one slot per
// state, one call per sample.
func direct(t testing.TB, m *reservoir.Model, streams []recording, seqOf map[string][]packet) map[string][]codec.Prediction {
	t.Helper()
	out := map[string][]codec.Prediction{}
	head := m.Heads[0]
	for _, r := range streams {
		type place struct {
			seq uint64
			row uint32
		}
		var places []place
		for _, p := range seqOf[r.name] {
			for row := range p.batch.Rows {
				places = append(places, place{p.seq, uint32(row)})
			}
		}
		for _, sp := range want(m.Policy, r.times, r.ends, false) {
			e, err := reservoir.NewGeneric(m.Network, 1)
			if err != nil {
				t.Fatal(err)
			}
			if err := e.SetHeads(m.Heads); err != nil {
				t.Fatal(err)
			}
			scores := make([]float32, e.ScoreWidth())
			for i := sp.from; i < sp.to; i++ {
				run := []reservoir.Run{{Reset: i == sp.from, Emit: true, To: 1}}
				if err := e.Advance(r.x[2*i:2*i+2], run, scores); err != nil {
					t.Fatal(err)
				}
			}
			class := head.Class(scores)
			var at place
			if len(places) > 0 {
				at = places[sp.to-1]
			}
			p := codec.Prediction{
				Stream: r.name, Seq: at.seq, Row: at.row, Time: r.times[sp.to-1],
				Class: int32(class), Score: score(scores, class), Scores: scores,
			}
			if !sp.end {
				p.Flags |= codec.FlagEarly
				if m.Policy.Kind == reservoir.Window && sp.to < m.Policy.Length {
					p.Flags |= codec.FlagWarmUp
				}
			}
			out[r.name] = append(out[r.name], p)
		}
	}
	return out
}

// same compares predictions bit for bit.
func same(t testing.TB, got, want map[string][]codec.Prediction) {
	t.Helper()
	total := 0
	for name, w := range want {
		g := got[name]
		for i := range min(len(g), len(w)) {
			if !reflect.DeepEqual(g[i], w[i]) || !sameBits(g[i].Scores, w[i].Scores) {
				t.Fatalf("stream %s, prediction %d:\n got %+v\nwant %+v", name, i, g[i], w[i])
			}
		}
		if len(g) != len(w) {
			t.Fatalf("stream %s: %d predictions, want %d", name, len(g), len(w))
		}
		total += len(w)
	}
	if len(got) > len(want) {
		t.Fatalf("%d streams have predictions, want %d", len(got), len(want))
	}
	if total == 0 {
		t.Fatal("no prediction to compare: the test has lost its subject")
	}
	t.Logf("%d predictions of %d streams equal", total, len(want))
}

func sameBits(a, b []float32) bool {
	return slices.EqualFunc(a, b, func(x, y float32) bool { return math.Float32bits(x) == math.Float32bits(y) })
}
