package integration

import (
	"context"
	"fmt"
	"log/slog"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/eusn-stream/eusn-stream/codec"
	"github.com/eusn-stream/eusn-stream/internal/consumer"
	"github.com/eusn-stream/eusn-stream/internal/formats"
	"github.com/eusn-stream/eusn-stream/internal/machine"
	"github.com/eusn-stream/eusn-stream/internal/natsserver"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/wire"
	"github.com/eusn-stream/eusn-stream/offline"
	"github.com/eusn-stream/eusn-stream/offline/archive"
	"github.com/eusn-stream/eusn-stream/pipeline"
	"github.com/eusn-stream/eusn-stream/readout/outcome"
	"github.com/eusn-stream/eusn-stream/reservoir"
	"github.com/eusn-stream/eusn-stream/reservoir/cpu"
)

// broken are the possible faults of a sensor: each function changes a healthy series of
// samples x channels into the series of the broken sensor.
var broken = []struct {
	name  string
	flags outcome.Flag
	make  func(x []float32, channels int)
}{
	{"healthy", 0, func([]float32, int) {}},
	{"zeros", outcome.FlagFlat, func(x []float32, _ int) { clear(x) }},
	{"stuck", outcome.FlagFlat, func(x []float32, c int) { // after a tenth of the series
		for i := len(x) / c / 10 * c; i < len(x); i++ {
			x[i] = x[i-c]
		}
	}},
	// Noise within the range is not detected: the checks cover only single values and
	// runs of equal values, not the shape of a signal.
	{"noise", 0, func(x []float32, _ int) {
		rng := rand.New(rand.NewPCG(1, 1))
		for i := range x {
			x[i] = float32(rng.NormFloat64())
		}
	}},
	{"x1000", outcome.FlagOutOfRange, func(x []float32, _ int) {
		for i := range x {
			x[i] *= 1000
		}
	}},
	{"one channel dead", outcome.FlagFlat, func(x []float32, c int) {
		for i := 0; i < len(x); i += c {
			x[i] = 0
		}
	}},
}

// TestDeadSensor: the series of a dead sensor is flagged, live and offline, for any
// confidence of the readout.
func TestDeadSensor(t *testing.T) {
	euler := reservoir.EulerBank(2)
	euler.Members = 10
	mixed, err := reservoir.Bank("tiny", 2)
	if err != nil {
		t.Fatal(err)
	}
	few := mixed
	few.Members, few.Taps.Members = 8, 8
	t.Run("euler", func(t *testing.T) { checkDeadSensor(t, euler, 160) })
	t.Run("front end", func(t *testing.T) {
		var front offline.Front
		if err := front.UnmarshalText([]byte("normalize=200,envelope=3,decimate=2")); err != nil {
			t.Fatal(err)
		}
		checkDeadSensor(t, mixed, 160, front)
	})
	t.Run("mixed", func(t *testing.T) { checkDeadSensor(t, mixed, 160) })
	t.Run("more series than features", func(t *testing.T) { checkDeadSensor(t, few, 1030) })
}

func checkDeadSensor(t *testing.T, spec reservoir.Spec, train int, front ...offline.Front) {
	t.Helper()
	d, err := machine.Simulate(t.Context(), machine.Options{Train: train, Test: 4 * len(broken)}, nil)
	if err != nil {
		t.Fatal(err)
	}
	c, test := len(d.Channels), d.Part(archive.Test)
	for k, i := range test { // each fault for a series of each class
		broken[k/4].make(d.Series[i].Values, c)
	}
	spec.Channels = c
	m, r, err := offline.Retrain(t.Context(), d, offline.RetrainOptions{Spec: spec, Front: append(front, offline.Front{})[0]}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if kept, limited := train <= spec.FeatureCount(), m.Readouts[0].Limit != nil; r.Plan.Kernel != kept || limited != (spec.Kind == reservoir.Mixed) {
		t.Errorf("features kept: %v, limited: %v, want %v and those of a mixed bank", r.Plan.Kernel, limited, kept)
	}
	ev, err := offline.Evaluate(t.Context(), m, d, offline.EvaluateOptions{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	got, stats, said := live(t, m, d, test, formats.Input{}, asArrow(t, m.Channels))
	if !strings.Contains(said, "unlike the training data") {
		t.Errorf("nothing is said of dead sensors; the log is\n%s", said)
	}
	flagged := map[string]uint64{}
	for k, w := range ev.Predictions {
		p, kind := got[w.ID], broken[k/4]
		if p.Class != w.Class || p.Flags != w.Flags || math.Float32bits(p.Probability) != math.Float32bits(w.Probability) || !slices.Equal(p.Scores, w.Scores) {
			t.Errorf("%s (%s): live %+v, offline %+v", w.ID, kind.name, p, w)
		}
		if w.Flags&kind.flags != kind.flags || kind.flags == 0 && w.Flags != 0 {
			t.Errorf("%s (%s): flags %q, want %q", w.ID, kind.name, w.Flags, kind.flags)
		}
		if (p.Flags.Integrity() == outcome.IntegrityUnlike) != (p.Flags != 0) {
			t.Errorf("%s (%s): integrity %s with flags %q", w.ID, kind.name, p.Flags.Integrity(), p.Flags)
		}
		if !(p.Probability >= 1/float32(len(ev.Classes)) && p.Probability <= 1) {
			t.Errorf("%s (%s): probability %v of %d classes", w.ID, kind.name, p.Probability, len(ev.Classes))
		}
		for f := outcome.FlagOutOfRange; f <= outcome.FlagFlat; f <<= 1 {
			if p.Flags&f != 0 {
				flagged[f.String()]++
			}
		}
		t.Logf("%-17s was %-10s  is said to be %-10s  score %8.2f  probability %.4f  flags %s", kind.name, ev.Classes[w.Label], ev.Classes[w.Class], slices.Max(w.Scores), p.Probability, p.Flags)
	}
	for f, n := range flagged {
		if stats.FlaggedBy[f] != n || ev.Flagged[f] != int(n) {
			t.Errorf("%d predictions with flag %s are counted as %d live, %d offline", n, f, stats.FlaggedBy[f], ev.Flagged[f])
		}
	}
}

// asArrow writes samples as Arrow messages.
func asArrow(t *testing.T, channels []string) func(rows int, x []float32) []byte {
	enc, err := codec.NewInputEncoder(channels, codec.InputOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return func(rows int, x []float32) []byte {
		body, err := enc.Encode(&codec.Batch{Rows: rows, X: x})
		if err != nil {
			t.Fatal(err)
		}
		return slices.Clone(body)
	}
}

// live publishes the series to a stage, each as a stream in messages of 50 samples, in a
// given format, and returns the predictions and the log.
func live(t *testing.T, m *reservoir.Model, d *archive.Dataset, series []int, in formats.Input, write func(rows int, x []float32) []byte) (map[string]codec.Prediction, pipeline.Stats, string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	srv, err := natsserver.Start(t.Context(), natsserver.Options{Dir: t.TempDir(), Port: natsserver.InProcess})
	if err != nil {
		t.Fatal(err)
	}
	defer srv.Close()
	var said strings.Builder
	log := slog.New(slog.NewTextHandler(&said, &slog.HandlerOptions{Level: slog.LevelWarn}))
	var counters pipeline.Counters
	ready := make(chan struct{})
	stage := pipeline.Worker{
		Job: pipeline.Job{
			Config: pipeline.Config{Job: "sensor", InputSubject: "sensors.*", Shards: 1, Input: in}, Model: m, Log: log,
			NewEngine: func(net *reservoir.Network, slots int) (reservoir.Engine, error) {
				return cpu.New(net, slots, cpu.Options{Threads: 1})
			},
			Dial: func(_ context.Context, name string) (*nats.Conn, error) { return srv.Connect(name, log) },
		},
		Counters: &counters, Ready: func() { close(ready) },
	}
	running, stop := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- stage.Run(running) }()
	select {
	case <-ready:
	case err := <-ended:
		t.Fatal(err)
	}
	nc, err := srv.Connect("test", log)
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	c := len(m.Channels)
	for _, i := range series {
		s := d.Series[i]
		for x, seq := s.Values, 1; len(x) > 0; seq++ {
			n := min(50*c, len(x))
			body := write(n/c, x[:n])
			x = x[n:]
			h := nats.Header{wire.HeaderSeq: {fmt.Sprint(seq)}}
			if len(x) == 0 {
				h.Set(wire.HeaderEnd, "true")
			}
			if _, err := js.PublishMsg(ctx, &nats.Msg{Subject: "sensors." + s.ID, Data: body, Header: h}); err != nil {
				t.Fatal(err)
			}
		}
	}
	got := map[string]codec.Prediction{}
	reading, enough := context.WithCancel(ctx)
	err = consumer.Predictions(reading, js, "sensor", 1, func(o consumer.Output) error {
		for _, p := range o.Predictions {
			got[p.Stream] = p
		}
		if len(got) == len(series) {
			enough()
		}
		return nil
	})
	if len(got) != len(series) {
		t.Fatalf("%d predictions of %d series: %v", len(got), len(series), err)
	}
	stop()
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	return got, counters.Stats(), said.String()
}
