//go:build unix

package pipeline_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/eusn-stream/eusn-stream/internal/pipeline/shard"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/state"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/stats"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/store"
	"github.com/eusn-stream/eusn-stream/internal/producer"
	"github.com/eusn-stream/eusn-stream/pipeline"
	"github.com/eusn-stream/eusn-stream/reservoir"
)

// BenchmarkRecovery measures a restart after a crash with 100,000 streams of 100 units
// in the middle of their sequences: a message of each is in the snapshots, and
// SnapshotMessages-1 answered messages follow. All data passes through the server's
// object store on file storage.
//
// restart-ms is the time from Worker.Run to the last replayed message. The other times
// are its parts and the time to store, each summed over the partitions, which run one
// after another here and in parallel in the stage. MB is the size of all snapshots.
func BenchmarkRecovery(b *testing.B) {
	const streams = 100_000
	behind := pipeline.Defaults().SnapshotMessages - 1
	m := sixChannels(b)
	m.Policy = reservoir.Policy{Kind: reservoir.Count, Length: loadRows, Early: 2}
	for _, partitions := range []int{1, 64} {
		b.Run(fmt.Sprintf("partitions=%d", partitions), func(b *testing.B) {
			rig := newRig(b)
			c := pipeline.Config{Job: "recovery", Partitions: partitions, MaxMessage: 900 << 10, MaxStreams: 2 * streams, MaxSlots: 2 * streams,
				SnapshotMessages: 1 << 30, SnapshotEvery: time.Hour}
			r := rig.launchStage(m, c, fastestEngine)
			rig.oneRowEach(r, m, streams)
			r.stopStage(b) // with snapshots
			r = rig.launchStage(m, c, fastestEngine)
			rig.oneRowEach(r, m, behind) // each the second of its stream: an early prediction
			r.waitUntil(b, "all answered", func(s pipeline.Stats) bool { return s.Predictions == uint64(behind) })
			r.crashStage(b)

			var restart, put, get, decode, adopt time.Duration
			var size int
			for range b.N {
				rig.expireMembers(c.Job)
				begin := time.Now()
				r := rig.launchStage(m, c, fastestEngine)
				r.waitUntil(b, "all replayed", func(s pipeline.Stats) bool { return s.Replayed == uint64(behind) && s.Replaying == 0 })
				restart += time.Since(begin)
				r.crashStage(b)
				size = 0
				for p := range partitions {
					size += rig.recoverOnce(m, c, p, &put, &get, &decode, &adopt)
				}
			}
			ms := func(d time.Duration, name string) { b.ReportMetric(d.Seconds()*1e3/float64(b.N), name) }
			b.ReportMetric(float64(size)/1e6, "MB")
			b.ReportMetric(float64(size)/streams, "B/stream")
			ms(put, "put-ms")
			ms(get, "get-ms")
			ms(decode, "decode-ms")
			ms(adopt, "adopt-ms")
			ms(restart, "restart-ms")
			b.ReportMetric(0, "ns/op")
		})
	}
}

// oneRowEach publishes a row of each of n streams and waits for the stage.
func (b *rig) oneRowEach(r *running, m *reservoir.Model, n int) {
	list := make([]producer.Item, n)
	for i := range list {
		list[i] = producer.Item{Stream: fmt.Sprintf("stream-%d", i), X: make([]float32, 6)}
	}
	if _, err := (producer.Publisher{Channels: m.Channels, Playing: 256}).Publish(b.t.Context(), b.nc, producer.FromSlice(list)); err != nil {
		b.t.Fatal(err)
	}
	r.waitUntil(b.t, "all taken", func(s pipeline.Stats) bool { return s.Messages == uint64(n) })
}

// recoverOnce does a recovery's parts by hand and adds up their times.
func (b *rig) recoverOnce(m *reservoir.Model, c pipeline.Config, part int, put, get, decode, adopt *time.Duration) (size int) {
	ctx := b.t.Context()
	fatal := func(err error) {
		if err != nil {
			b.t.Helper()
			b.t.Fatal(err)
		}
	}
	lap := time.Now()
	took := func(d *time.Duration) { *d += time.Since(lap); lap = time.Now() }
	_, rec := b.lastRecord(c.Job, part)
	snaps, err := store.OpenSnapshots(ctx, b.js, c.Job, c.Replicas)
	fatal(err)
	lap = time.Now()
	raw, err := snaps.Get(ctx, rec.Snap)
	fatal(err)
	took(get)
	sh, err := shard.New(c.WithDefaults().Shard(), m, m.Readouts[0], fastestEngine, new(stats.Counters), b.log)
	fatal(err)
	defer sh.Close()
	lap = time.Now()
	decoded, err := state.Decode(raw, sh.Machine.Shape, part)
	fatal(err)
	took(decode)
	p := shard.NewPartition(part, 0)
	p.State.TakeOver(decoded)
	fatal(sh.InstallPartition(shard.NewBatch(1), p))
	took(adopt)
	fatal(snaps.Put(ctx, "copy", raw))
	took(put)
	snaps.Remove(ctx, "copy", b.log)
	return len(raw)
}
