package admin

import (
	"math"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/eusn-stream/eusn-stream/internal/natsserver"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/store"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/wire"
	"github.com/eusn-stream/eusn-stream/internal/testing/pipelinetest"
)

// The server's growth between two measurements equals the published bytes, up to the
// server's overhead per message.
func TestGrowthOfARealJob(t *testing.T) {
	t.Parallel()
	srv := pipelinetest.Server(t, natsserver.Options{})
	_, js := pipelinetest.Connect(t, srv)
	for _, c := range []jetstream.StreamConfig{
		{Name: wire.InputStream("grow"), Subjects: []string{wire.DefaultInputSubject}},
		{Name: wire.OutputStream("grow"), Subjects: []string{"grow.out.*"}},
		{Name: wire.DeadLetterStream("grow"), Subjects: []string{"grow.dlq.*"}},
	} {
		if _, err := js.CreateStream(t.Context(), c); err != nil {
			t.Fatal(err)
		}
	}
	j := &Job{job: &store.Job{Name: "grow", Partitions: 2, JS: js}}
	look := func() Stored {
		t.Helper()
		s, err := j.Stored(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	body := make([]byte, 10_000)
	publish := func(n int) {
		t.Helper()
		for range n {
			if _, err := js.Publish(t.Context(), "sensors.a", body); err != nil {
				t.Fatal(err)
			}
		}
	}
	publish(10)
	first := look()
	publish(30)
	second := look()
	second.at = first.at.Add(time.Hour) // as if an hour had passed
	g := second.Since(first)
	if want := 30 * 10_000 * 24.; g.Streams[0].PerDay < want || g.Streams[0].PerDay > 1.02*want || g.Streams[1].PerDay != 0 {
		t.Errorf("%.0f and %.0f bytes a day, want %.0f and none", g.Streams[0].PerDay, g.Streams[1].PerDay, want)
	}
	if days := g.Full(g.PerDay() * 3); math.Abs(days-3) > 1e-6 || g.Streams[0].Bounds != nil {
		t.Errorf("full in %v days, want 3; bounds %v", days, g.Streams[0].Bounds)
	}
	// While new messages displace old messages, the rate is the same.
	full := jetstream.StreamConfig{Name: wire.InputStream("grow"), Subjects: []string{wire.DefaultInputSubject}, MaxMsgs: 5}
	if _, err := js.UpdateStream(t.Context(), full); err != nil {
		t.Fatal(err)
	}
	third := look()
	publish(30)
	fourth := look()
	fourth.at = third.at.Add(time.Hour)
	if got := fourth.Since(third).Streams[0].PerDay; got < 30*10_000*24 || got > 1.02*30*10_000*24 {
		t.Errorf("%.0f bytes a day of a full NATS stream", got)
	}
	if got := second.Since(second); got.PerDay() != 0 {
		t.Errorf("%.0f bytes a day without a message", got.PerDay())
	}
	if room, ok := srv.FreeBytes(); !ok || room <= 0 {
		t.Errorf("the server says it has room for %d bytes, %v", room, ok)
	}
}

// The lowest limit bounds the size; without a limit the disk fills.
func TestGrowthBounds(t *testing.T) {
	at := time.Now()
	stream := func(name string, c jetstream.StreamConfig) *jetstream.StreamInfo {
		c.Name = name
		return &jetstream.StreamInfo{Config: c, State: jetstream.StreamState{
			Msgs: 100, Bytes: 1000, FirstSeq: 1, LastSeq: 100, FirstTime: at.Add(-time.Hour), LastTime: at,
		}}
	}
	of := func(in, out, dead jetstream.StreamConfig) Growth {
		return Stored{at, 4, []*jetstream.StreamInfo{stream("J-IN", in), stream("J-OUT", out), stream("J-DLQ", dead)}}.Average()
	}
	free := of(jetstream.StreamConfig{}, jetstream.StreamConfig{}, jetstream.StreamConfig{})
	if got := free.PerDay(); math.Abs(got-3*24_000) > 1e-6 {
		t.Errorf("%v bytes a day, want 72000", got)
	}
	if days := free.Full(72_000); math.Abs(days-1) > 1e-9 {
		t.Errorf("full in %v days, want 1", days)
	}
	bound := of(jetstream.StreamConfig{MaxAge: 48 * time.Hour, MaxBytes: 40_000}, jetstream.StreamConfig{MaxMsgsPerSubject: 50}, jetstream.StreamConfig{MaxMsgs: 300})
	for i, want := range []float64{40_000, 50 * 4 * 10, 3000} {
		if got := bound.Streams[i].Most; math.Abs(got-want) > 1e-9 {
			t.Errorf("%s comes to %v bytes, want %v", bound.Streams[i].Stream, got, want)
		}
	}
	const more = 39_000 + 1000 + 2000 // than they hold
	if days := bound.Full(more + 1); !math.IsInf(days, 1) {
		t.Errorf("full in %v days, want never", days)
	}
	if days := bound.Full(more - 10); math.IsInf(days, 1) || days > 2 {
		t.Errorf("full in %v days, want when the input is", days)
	}
	if got := of(jetstream.StreamConfig{MaxAge: 30 * time.Minute}, jetstream.StreamConfig{}, jetstream.StreamConfig{}).Streams[0].Most; got != 1000 {
		t.Errorf("an input of half an hour comes to %v bytes, want what it has", got)
	}
}
