package pipeline

import (
	"bytes"
	"fmt"
	"testing"
	"time"

	"github.com/eusn-stream/eusn-stream/codec"
	"github.com/eusn-stream/eusn-stream/reservoir"
)

// BenchmarkProtocol is the whole way of messages of 1024 rows and six
// channels, from stored input to acknowledged predictions on file storage,
// with 100 units and one prediction per message: with the protocol's
// snapshots and digests, and without both. What remains of it without is the
// compare-and-set of each commit.
func BenchmarkProtocol(b *testing.B) {
	m := sixChannels(b)
	for _, partitions := range []int{1, 8} {
		for _, with := range []bool{false, true} {
			b.Run(fmt.Sprintf("partitions=%d/protocol=%v", partitions, with), func(b *testing.B) {
				rig := newRig(b)
				c := Config{Job: "bench", Partitions: partitions, MaxMessage: 900 << 10}
				if !with {
					c.SnapshotMessages, c.SnapshotEvery = 1<<30, time.Hour
				}
				rig.start(m, c).stop(b)
				var list []Item
				for i := range 64 {
					list = append(list, Item{Stream: fmt.Sprintf("s%d", i), X: make([]float32, 6*1024*8)})
				}
				messages := 0
				for range b.N {
					got, err := Publisher{Channels: m.Channels, RowsPerMessage: 1024, Playing: 64}.Publish(b.Context(), rig.nc, &items{list: list})
					if err != nil {
						b.Fatal(err)
					}
					messages += int(got.Messages)
				}
				b.ResetTimer()
				r := rig.startStage(m, c, !with)
				s := rig.settle(r, messages)
				b.StopTimer()
				r.stop(b)
				b.ReportMetric(float64(s.Rows)/b.Elapsed().Seconds(), "rows/s")
				b.ReportMetric(float64(s.Snapshots), "snapshots")
				b.ReportMetric(float64(s.SnapshotSize)/1e3, "snapshot-kB")
			})
		}
	}
}

// startStage starts a stage on the fastest engine.
func (b *rig) startStage(m *reservoir.Model, c Config, bare bool) *running {
	b.bare = bare
	return b.startWith(m, c, func(net *reservoir.Network, slots int) (reservoir.Engine, error) {
		return reservoir.NewCPU(net, slots, "auto", 1)
	})
}

// sixChannels is a model of 100 units that predicts every 1024 samples.
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
	head := *testModel(b, 3, reservoir.Policy{Kind: reservoir.Marked}).Heads[0]
	f := net.Spec.FeatureCount()
	head.Center, head.Weights = make([]float32, f), make([]float32, 3*f)
	m := &reservoir.Model{Network: net, Policy: reservoir.Policy{Kind: reservoir.Count, Length: 1024}, Channels: []string{"a", "b", "c", "d", "e", "f"}}
	m.Heads = append(m.Heads, &head)
	if err := m.Validate(); err != nil {
		b.Fatal(err)
	}
	return m
}

func encodeSix(b *testing.B, rows int) []byte {
	enc, err := codec.NewInputEncoder([]string{"a", "b", "c", "d", "e", "f"}, codec.InputOptions{})
	if err != nil {
		b.Fatal(err)
	}
	data, err := enc.Encode(&codec.Batch{Rows: rows, X: make([]float32, 6*rows)})
	if err != nil {
		b.Fatal(err)
	}
	return bytes.Clone(data)
}

// BenchmarkRecovery is what a restart takes for many streams: bytes of the
// snapshot, to encode, decode and adopt it.
func BenchmarkRecovery(b *testing.B) {
	const streams = 100_000
	m := sixChannels(b)
	factory := func(net *reservoir.Network, slots int) (reservoir.Engine, error) {
		return reservoir.NewCPU(net, slots, "auto", 1)
	}
	c := Config{MaxStreams: streams, MaxSlots: streams}
	sh, err := newShard(c.WithDefaults(), m, m.Heads[0], factory, new(Counters), testLog(b))
	if err != nil {
		b.Fatal(err)
	}
	l := &lone{t: b, shard: sh, p: newPartition(0, 0), b: newBatch(1)}
	one := packet{seq: 1, raw: encodeSix(b, 1)}
	for i := range streams {
		if i%1000 == 0 {
			if err := l.advance(l.b); err != nil {
				b.Fatal(err)
			}
			l.b.reset()
		}
		one.key = fmt.Sprintf("stream-%d", i)
		if err := l.ingest(l.b, l.job(one)); err != nil {
			b.Fatal(err)
		}
	}
	if err := l.advance(l.b); err != nil {
		b.Fatal(err)
	}
	var size int
	var encode, restore time.Duration
	for range b.N {
		begin := time.Now()
		snap, err := l.p.snapshot(l.shape, l.readRow)
		if err != nil {
			b.Fatal(err)
		}
		encode += time.Since(begin)
		begin = time.Now()
		p, err := decodeSnapshot(snap, l.shape, 0)
		if err != nil {
			b.Fatal(err)
		}
		next, err := newShard(c.WithDefaults(), m, m.Heads[0], factory, new(Counters), testLog(b))
		if err == nil {
			err = next.adopt(p)
		}
		if err != nil {
			b.Fatal(err)
		}
		restore += time.Since(begin)
		size = len(snap)
		next.pool.engine.Close()
	}
	b.ReportMetric(float64(size)/streams, "B/stream")
	b.ReportMetric(encode.Seconds()/float64(b.N)*1e3, "encode-ms")
	b.ReportMetric(restore.Seconds()/float64(b.N)*1e3, "restore-ms")
}
