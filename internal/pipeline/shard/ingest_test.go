package shard

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/eusn-stream/eusn-stream/codec"
	"github.com/eusn-stream/eusn-stream/internal/testing/pipelinetest"
	"github.com/eusn-stream/eusn-stream/internal/trace"
	"github.com/eusn-stream/eusn-stream/reservoir"
)

// Processing a message to runs, predictions and the state's digest allocates nothing
// once the stream is known and the slices have grown.
func TestIngestAllocates(t *testing.T) {
	m := pipelinetest.Model(t, 3, reservoir.Policy{Kind: reservoir.Count, Length: 16})
	l := newLone(t, m, Config{})
	values := make([]float32, 2*64)
	for i := range values {
		values[i] = float32(math.Sin(float64(i)))
	}
	j := l.jobOf(pipelinetest.Rows("s", 0, false, values...))
	step := func() {
		l.next++
		j.Msg.Seq = l.next
		l.b.Reset()
		if err := l.takeJob(l.b, j); err != nil {
			t.Fatal(err)
		}
		if err := l.AdvanceBatch(l.b); err != nil {
			t.Fatal(err)
		}
		before := l.p.State.Sum
		if err := l.finishBatch(l.b); err != nil {
			t.Fatal(err)
		}
		if l.p.State.Sum == before {
			t.Fatal("the digest does not follow the state: the test has lost its subject")
		}
	}
	step()
	if n := testing.AllocsPerRun(100, step); n != 0 {
		t.Errorf("%v allocations per message of 64 samples, want 0", n)
	}
	l.SetTracer(nobody{}) // untraced messages, with and without a trace in their headers
	for _, h := range []map[string][]string{j.Msg.Header, {"traceparent": {"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00"}}} {
		j.Msg.Header = h
		if n := testing.AllocsPerRun(100, step); n != 0 {
			t.Errorf("%v allocations per message that is not traced, want 0", n)
		}
	}
	if len(l.b.Answers[0].Preds) != 4 {
		t.Errorf("%d predictions, want 4: the test has lost its subject", len(l.b.Answers[0].Preds))
	}
}

// nobody traces no message.
type nobody struct{}

func (nobody) Takes(trace.Context) bool { return false }
func (nobody) Record(...*trace.Span)    {}

// A message of one stream is decoded directly into the engine's input, a message of
// many streams into a separate buffer, after any previous message.
func TestSamplesInPlace(t *testing.T) {
	m := pipelinetest.Model(t, 3, reservoir.Policy{Kind: reservoir.Marked})
	l := newLone(t, m, Config{})
	l.b.Fx.X = make([]float32, 0, 100)
	one := func(v float32) pipelinetest.Packet { return pipelinetest.Rows("s", 0, false, v, v+1, v+2, v+3) }
	many := pipelinetest.Packet{Key: "g", Batch: codec.Batch{Rows: 3, X: []float32{1, 2, 3, 4, 5, 6}, Keys: []string{"a", "b"}, Key: []int32{0, 1, 0}}}
	for i, c := range []struct {
		pipelinetest.Packet
		want  []float32
		place bool
	}{
		{one(10), []float32{10, 11, 12, 13}, true},
		{many, []float32{1, 2, 5, 6, 3, 4}, false},
		{many, []float32{1, 2, 5, 6, 3, 4}, false},
		{one(20), []float32{20, 21, 22, 23}, false}, // after many
		{one(30), []float32{30, 31, 32, 33}, true},
	} {
		from := len(l.b.Fx.X)
		if err := l.takeJob(l.b, l.jobOf(c.Packet)); err != nil {
			t.Fatal(err)
		}
		if got := l.b.Fx.X[from:]; !slices.Equal(got, c.want) {
			t.Errorf("message %d: samples %v, want %v", i, got, c.want)
		}
		if got := &l.Machine.DecodedMessage().X[0] == &l.b.Fx.X[from]; got != c.place {
			t.Errorf("message %d: in place %v, want %v", i, got, c.place)
		}
	}
}

func BenchmarkIngest(b *testing.B) {
	for _, n := range []int{16, 256, 4096} {
		b.Run(fmt.Sprintf("rows=%d", n), func(b *testing.B) {
			l := newLone(b, pipelinetest.Model(b, 3, reservoir.Policy{Kind: reservoir.Marked}), Config{})
			j := l.jobOf(pipelinetest.Rows("s", 0, true, make([]float32, 2*n)...))
			b.ReportAllocs()
			for b.Loop() {
				l.next++
				j.Msg.Seq = l.next
				l.b.Reset()
				if err := l.takeJob(l.b, j); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(n)*float64(b.N)/b.Elapsed().Seconds(), "rows/s")
		})
	}
}
