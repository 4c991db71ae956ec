//go:build unix

package pipeline_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/eusn-stream/eusn-stream/internal/natsserver"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/store"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/wire"
	"github.com/eusn-stream/eusn-stream/internal/producer"
	"github.com/eusn-stream/eusn-stream/internal/testing/pipelinetest"
	"github.com/eusn-stream/eusn-stream/pipeline"
	"github.com/eusn-stream/eusn-stream/reservoir"
	"github.com/eusn-stream/eusn-stream/reservoir/cpu"
)

// The load of the benchmarks here: as many streams as a small plant has, each
// with a few messages of 1024 rows of six channels (25 kB).
const (
	loadStreams  = 1024
	loadMessages = 8 * loadStreams
	loadRows     = 1024
)

// serverVariable names a NATS server, or several joined by commas, to measure against
// instead of an embedded server.
const serverVariable = "EUSN_BENCH_NATS"

// BenchmarkProtocol measures the cost of exactly-once: the full path of messages from
// stored input to acknowledged predictions on file storage, 100 units, one prediction
// per message. Each iteration is a pair: the stage, and plainStage on the same input,
// alternating. Snapshots are taken at least as often as by default: every
// SnapshotMessages of the job's total messages, so per partition more often by the
// number of partitions.
//
// cpu-s/Mrow is the CPU time of the whole process (server included) per million rows,
// the figure least affected by other load on the machine.
func BenchmarkProtocol(b *testing.B) {
	for _, partitions := range []int{1, 8} {
		b.Run(fmt.Sprintf("partitions=%d", partitions), func(b *testing.B) {
			l := newLoad(b, newRig(b), partitions)
			var with, plain []window
			for i := range b.N {
				for _, protocol := range []bool{i%2 == 0, i%2 != 0} {
					if protocol {
						with = append(with, l.runStage())
					} else {
						plain = append(plain, l.runPlain())
					}
				}
			}
			ratio := func(of func(window) float64) float64 {
				var r []float64
				for i := range with {
					r = append(r, of(with[i])/of(plain[i]))
				}
				return median(r)
			}
			b.ReportMetric(medianOf(with, window.rate), "rows/s")
			b.ReportMetric(medianOf(plain, window.rate), "plain-rows/s")
			b.ReportMetric(ratio(window.rate), "rate-ratio")
			b.ReportMetric(medianOf(with, window.cpu), "cpu-s/Mrow")
			b.ReportMetric(medianOf(plain, window.cpu), "plain-cpu-s/Mrow")
			b.ReportMetric(ratio(window.cpu), "cpu-ratio")
			b.ReportMetric(medianOf(with, func(w window) float64 { return float64(w.snapshots) }), "snapshots")
			b.ReportMetric(medianOf(with, func(w window) float64 { return float64(w.commits) }), "commits")
			b.ReportMetric(0, "ns/op")
		})
	}
}

// BenchmarkDurability measures the stage's rate with a server that syncs each
// acknowledged message to disk, and without; with EUSN_BENCH_NATS, on the named server
// with the server's configuration.
func BenchmarkDurability(b *testing.B) {
	for _, partitions := range []int{1, 8} {
		for _, sync := range []bool{false, true} {
			name := fmt.Sprintf("partitions=%d/sync_always=%v", partitions, sync)
			if os.Getenv(serverVariable) != "" {
				if name = fmt.Sprintf("partitions=%d/given", partitions); sync {
					continue
				}
			}
			b.Run(name, func(b *testing.B) {
				l := newLoad(b, benchRig(b, sync), partitions)
				var all []window
				for range b.N {
					all = append(all, l.runStage())
				}
				b.ReportMetric(l.published.RowsPerSecond(), "published-rows/s")
				b.ReportMetric(medianOf(all, window.rate), "rows/s")
				b.ReportMetric(medianOf(all, window.commitRate), "commits/s")
				b.ReportMetric(medianOf(all, func(w window) float64 { return 1e3 * w.commitTime.Seconds() / float64(max(1, w.batches)) }), "commit-ms/batch")
				b.ReportMetric(0, "ns/op")
			})
		}
	}
}

func benchRig(b *testing.B, sync bool) *rig {
	if url := os.Getenv(serverVariable); url != "" {
		r := &rig{t: b, url: url, log: testLog(b)}
		nc, err := r.dialServer(b.Context(), "test")
		if err != nil {
			b.Fatal(err)
		}
		r.nc, r.js = nc, pipelinetest.JetStream(b, nc)
		return r
	}
	srv := pipelinetest.Server(b, natsserver.Options{SyncAlways: sync})
	return rigOf(b, srv)
}

// load is a stored input that stages answer repeatedly.
type load struct {
	b         *testing.B
	rig       *rig
	m         *reservoir.Model
	c         pipeline.Config
	published producer.Published
}

func newLoad(b *testing.B, r *rig, partitions int) *load {
	m := sixChannels(b)
	l := &load{b: b, rig: r, m: m, c: pipeline.Config{
		Job: "bench", Partitions: partitions, MaxMessage: 900 << 10,
		SnapshotMessages: pipeline.Defaults().SnapshotMessages / partitions,
	}}
	if os.Getenv(serverVariable) != "" {
		l.c.Replicas = 3
	}
	_ = r.js.DeleteStream(b.Context(), wire.InputStream(l.c.Job)) // of an earlier run on a given server
	l.clearAnswers()
	if err := store.EnsureStreams(b.Context(), r.js, l.c.WithDefaults().Layout(), r.log); err != nil {
		b.Fatal(err)
	}
	x := pipelinetest.Noise(rand.New(rand.NewPCG(1, 2)), 6*loadRows*loadMessages/loadStreams)
	var list []producer.Item
	for i := range loadStreams {
		list = append(list, producer.Item{Stream: fmt.Sprintf("s%d", i), X: x})
	}
	var err error
	l.published, err = producer.Publisher{Channels: m.Channels, RowsPerMessage: loadRows, Playing: 64}.Publish(b.Context(), r.nc, producer.FromSlice(list))
	if err != nil {
		b.Fatal(err)
	}
	return l
}

// clearAnswers deletes the job's answers.
func (l *load) clearAnswers() {
	ctx := context.Background()
	_ = l.rig.js.DeleteStream(ctx, wire.OutputStream(l.c.Job)) // absent the first time
	_ = l.rig.js.DeleteObjectStore(ctx, wire.SnapshotBucket(l.c.Job))
	_ = l.rig.js.DeleteKeyValue(ctx, wire.MemberBucket(l.c.Job))
	if err := store.EnsureStreams(ctx, l.rig.js, l.c.WithDefaults().Layout(), l.rig.log); err != nil {
		l.b.Fatal(err)
	}
	runtime.GC()
}

// window is the measurement from the first eighth of the load to its last acknowledged
// prediction.
type window struct {
	rows, snapshots, commits, batches uint64
	wall, processor, commitTime       time.Duration
}

func (w window) rate() float64       { return float64(w.rows) / w.wall.Seconds() }
func (w window) cpu() float64        { return 1e6 * w.processor.Seconds() / float64(w.rows) }
func (w window) commitRate() float64 { return float64(w.commits) / w.wall.Seconds() }

// runStage answers the load by the stage itself.
func (l *load) runStage() window {
	l.clearAnswers()
	r := l.rig.startWith(l.m, l.c, fastestEngine)
	w := l.measureWindow(&r.counters, func() {})
	r.stopStage(l.b)
	if w.snapshots == 0 {
		l.b.Fatal("no snapshot was taken: this does not measure the protocol")
	}
	return w
}

// runPlain answers the load by plainStage.
func (l *load) runPlain() window {
	l.clearAnswers()
	s := l.rig.startPlain(l.m, l.c, fastestEngine)
	w := l.measureWindow(&s.counters, s.flushPublishes)
	s.closeStage()
	return w
}

func (l *load) measureWindow(c *pipeline.Counters, flush func()) window {
	reach := func(messages uint64) pipeline.Stats {
		for end := time.Now().Add(10 * time.Minute); time.Now().Before(end); time.Sleep(500 * time.Microsecond) {
			if s := c.Stats(); s.Messages >= messages {
				return s
			}
		}
		l.b.Fatalf("load not answered: %+v", c.Stats())
		return pipeline.Stats{}
	}
	s := reach(loadMessages / 8)
	begin, used := time.Now(), processorTime()
	e := reach(loadMessages)
	flush()
	w := window{rows: e.Rows - s.Rows, snapshots: c.Stats().Snapshots - s.Snapshots, commits: e.Commits - s.Commits, batches: e.Batches - s.Batches,
		wall: time.Since(begin), processor: processorTime() - used, commitTime: e.Commit - s.Commit}
	if e.Predictions != loadMessages {
		l.b.Fatalf("%d predictions, want %d", e.Predictions, loadMessages)
	}
	return w
}

// processorTime returns this process's CPU time on all cores.
func processorTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		panic(err) // cannot happen: the arguments are right
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func medianOf(all []window, f func(window) float64) float64 {
	var v []float64
	for _, w := range all {
		v = append(v, f(w))
	}
	return median(v)
}

func median(v []float64) float64 {
	slices.Sort(v)
	n := len(v)
	return (v[(n-1)/2] + v[n/2]) / 2
}

func fastestEngine(net *reservoir.Network, slots int) (reservoir.Engine, error) {
	return cpu.New(net, slots, cpu.Options{Threads: 1})
}

// sixChannels returns a model of 100 units that predicts every 1024 samples.
func sixChannels(b *testing.B) *reservoir.Model {
	net, err := reservoir.Draw(reservoir.Spec{
		Arithmetic: reservoir.Arithmetic, Kind: reservoir.EuSN, Channels: 6, Members: 1, Units: 100, Seed: 7,
		Precision: reservoir.Float32, Features: []reservoir.Feature{reservoir.Last},
		Eps: reservoir.Fixed(0.1), Gamma: reservoir.Fixed(0.01), Recurrent: reservoir.Fixed(0.5),
		Input: reservoir.Fixed(1), Bias: reservoir.Fixed(0.1),
	})
	if err != nil {
		b.Fatal(err)
	}
	linear := *pipelinetest.Model(b, 3, reservoir.Policy{Kind: reservoir.Marked}).Readouts[0]
	f := net.Spec.FeatureCount()
	linear.Center, linear.Weights = make([]float32, f), make([]float32, 3*f)
	m := &reservoir.Model{Network: net, Policy: reservoir.Policy{Kind: reservoir.Count, Length: loadRows}, Channels: []string{"a", "b", "c", "d", "e", "f"}}
	m.Readouts = append(m.Readouts, &linear)
	if err := m.Validate(); err != nil {
		b.Fatal(err)
	}
	return m
}
