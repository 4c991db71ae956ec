package pipeline_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/eusn-stream/eusn-stream/internal/pipeline/wire"
	"github.com/eusn-stream/eusn-stream/internal/producer"
	"github.com/eusn-stream/eusn-stream/internal/testing/pipelinetest"
	"github.com/eusn-stream/eusn-stream/pipeline"
	"github.com/eusn-stream/eusn-stream/reservoir"
)

// For every policy, and for several shapes of the stage, the predictions through NATS
// equal an engine fed directly, bit for bit.
func TestStageEqualsEngine(t *testing.T) {
	policies := map[string]reservoir.Policy{
		"marked":  {Kind: reservoir.Marked},
		"early":   {Kind: reservoir.Marked, Early: 4},
		"count":   {Kind: reservoir.Count, Length: 9},
		"gap":     {Kind: reservoir.Gap, Gap: 5 * time.Millisecond},
		"window":  {Kind: reservoir.Window, Length: 12, Hop: 3, Early: 5},
		"endless": {Kind: reservoir.Endless, Early: 7},
	}
	shapes := []pipeline.Config{
		{Partitions: 1, Shards: 1, RowBudget: 50},
		{Partitions: 8, Shards: 3, Latency: -1},
		{Partitions: 5, Shards: 2, RowBudget: 1, Latency: time.Millisecond},
	}
	streams := pipelinetest.Recordings(20, 60)
	rng := rand.New(rand.NewPCG(5, 5))
	sent := map[string][]pipelinetest.Packet{}
	var lists [][]pipelinetest.Packet
	for _, r := range streams {
		sent[r.Name] = r.Split(rng)
		lists = append(lists, sent[r.Name])
	}
	packets := pipelinetest.Interleave(rng, lists)
	models := map[string]*reservoir.Model{}
	for name, policy := range policies {
		for kind, add := range map[string]func(*reservoir.Model) *reservoir.Model{
			"": func(m *reservoir.Model) *reservoir.Model { return m }, " front end": pipelinetest.Fronted, " regimes": pipelinetest.Regimed,
		} {
			models[name+kind] = add(pipelinetest.Timed(pipelinetest.Ranged(pipelinetest.Model(t, 3, policy))))
		}
	}
	for name, m := range models {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			exp := direct(t, m, streams, sent)
			b := newRig(t)
			for i, c := range shapes {
				c.Job, c.InputSubject = "job"+string('a'+rune(i)), "sensors.*"
				if i > 0 { // one job's input at a time may own the subject
					if err := b.js.DeleteStream(t.Context(), wire.InputStream("job"+string('a'+rune(i-1)))); err != nil {
						t.Fatal(err)
					}
				}
				r := b.startStage(m, c)
				b.publishPackets(packets)
				s := b.settleMessages(r, len(packets))
				r.stopStage(t)
				same(t, b.readPredictions(c.Job), exp)
				if s.Duplicates+s.Gaps+s.DeadLetters != 0 || s.Rows != 20*60 {
					t.Errorf("clean input counted as %+v", s)
				}
			}
		})
	}
}

// BenchmarkStage is the whole way, from stored messages to acknowledged
// predictions, with the generic engine and 12 units.
func BenchmarkStage(b *testing.B) {
	for _, rows := range []int{64, 1024} {
		b.Run(fmt.Sprintf("rows=%d", rows), func(b *testing.B) {
			m := pipelinetest.Model(b, 3, reservoir.Policy{Kind: reservoir.Count, Length: 256})
			rig := newRig(b)
			c := pipeline.Config{Job: "bench"}
			rig.startStage(m, c).stopStage(b)
			var list []producer.Item
			for i := range 256 {
				list = append(list, producer.Item{Stream: fmt.Sprintf("s%d", i), X: make([]float32, 2*rows*4)})
			}
			messages := 0
			for range b.N {
				got, err := producer.Publisher{Channels: m.Channels, RowsPerMessage: rows, Playing: 256}.Publish(b.Context(), rig.nc, producer.FromSlice(list))
				if err != nil {
					b.Fatal(err)
				}
				messages += int(got.Messages)
			}
			b.ResetTimer()
			r := rig.startStage(m, c)
			s := rig.settleMessages(r, messages)
			b.StopTimer()
			r.stopStage(b)
			b.ReportMetric(float64(s.Rows)/b.Elapsed().Seconds(), "rows/s")
			b.ReportMetric(float64(s.Engine.Seconds())/b.Elapsed().Seconds(), "engine-s/s")
			b.ReportMetric(float64(s.Messages)/float64(s.Batches), "messages/batch")
		})
	}
}
