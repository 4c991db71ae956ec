package live_test

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/eusn-stream/eusn-stream/codec"
	"github.com/eusn-stream/eusn-stream/internal/cli"
	"github.com/eusn-stream/eusn-stream/internal/cli/live"
	"github.com/eusn-stream/eusn-stream/internal/testing/clitest"
	"github.com/eusn-stream/eusn-stream/pipeline"
	"github.com/eusn-stream/eusn-stream/pipeline/consumer"
	"github.com/eusn-stream/eusn-stream/readout"
	"github.com/eusn-stream/eusn-stream/reservoir"
)

// loopPlace names a prediction.
type loopPlace struct {
	stream string
	seq    uint64
	row    uint32
}

// loopSays is what a prediction is of, and who made it.
type loopSays struct {
	at      loopPlace
	readout string // fingerprint
	scores  []float32
}

// check compares what a run has made with its log.
func (l *loop) check(promotions int) {
	t := l.t
	t.Helper()
	time.Sleep(time.Second) // for a prediction too many
	for _, s := range []string{"recorder", "worker-0", "worker-1"} {
		l.services[s].end()
	}
	last := clitest.Start(t, "reading sensors.*", l.run()...)
	l.await("the newest promotion in every partition", func() bool {
		all, err := pipeline.PromotionsOf(t.Context(), l.js, "eusn")
		return err == nil && all.Complete() && all.Newest().Number >= uint64(promotions)
	})
	last.Stop(t).Want(t, cli.ExitOK)
	clitest.Must(t, "state", "verify", "--model", l.model, "--nats-url", l.url)

	want, got := l.readoutsOfLog(), l.predictions()
	if n := l.sequences(); len(want) != n || len(got) != n {
		t.Errorf("%d sequences sent, %d in the log, %d predicted", n, len(want), len(got))
	}
	newest := l.learnt[len(l.learnt)-1]
	replayed := l.replayed(newest)
	used, switches, wrong := map[string]int{}, 0, 0
	before := map[string]string{} // the readout that answered last, by stream
	for _, w := range want {
		g := got[w.at]
		if g.readout != w.readout || !slices.Equal(g.scores, w.scores) || w.readout == newest && !slices.Equal(g.scores, replayed[w.at]) {
			if wrong++; wrong < 5 {
				t.Errorf("%+v: readout %q, scores %v; by the log readout %q, scores %v; backfill by readout %s %v", w.at, g.readout, g.scores, w.readout, w.scores, newest, replayed[w.at])
			}
		}
		used[w.readout]++
		if b := before[w.at.stream]; b != "" && b != w.readout {
			switches++
		}
		before[w.at.stream] = w.readout
	}
	t.Logf("%d predictions by %d readouts, %d promotions; %d changes of readout in %d streams; 0 lost, 0 doubled, %d wrong", len(got), len(used), l.promoted(), switches, loopStreams, wrong)
	if wrong > 0 || len(used) < 2 || switches < loopStreams {
		t.Errorf("%d of %d predictions are wrong; by readout %v, want some of two or more in every stream", wrong, len(want), used)
	}
	l.checkStates()
	recording := filepath.Join(l.dir, "recording")
	clitest.Must(t, "record", "--model", l.model, "--nats-url", l.url, "--out", recording, "--until", "now")
	clitest.Must(t, "record", "verify", recording, "--model", l.model, "--nats-url", l.url)
}

// replay computes predictions again: each sequence by itself, from its first sample
// to its last, with all readouts.
type replay struct {
	t       *testing.T
	engine  reservoir.Engine
	places  map[string]int // of a readout's scores, by its fingerprint
	columns int
}

func (l *loop) newReplay() *replay {
	l.t.Helper()
	m := loadModel(l.t, l.model)
	r := &replay{t: l.t, places: map[string]int{}, columns: m.Readouts[0].Columns()}
	var all []*readout.Linear
	for i, print := range l.learnt {
		r.places[print] = i
		all = append(all, loadModel(l.t, l.files[print]).Readouts[0])
	}
	var err error
	if r.engine, err = reservoir.NewCPU(m.Network, 1, "auto", 1); err == nil {
		err = r.engine.SetReadouts(all)
	}
	if err != nil {
		l.t.Fatal(err)
	}
	l.t.Cleanup(func() { r.engine.Close() })
	return r
}

// scores are those of one readout for a sequence.
func (r *replay) scores(x []float32, print string) []float32 {
	r.t.Helper()
	all := make([]float32, r.columns*len(r.places))
	if err := r.engine.Advance(x, []reservoir.Run{{Reset: true, Emit: true, To: int32(len(x) / 2)}}, all); err != nil {
		r.t.Fatal(err)
	}
	from := r.places[print] * r.columns
	return all[from : from+r.columns]
}

// readoutsOfLog are the sequences of the log in its order, and the readouts that its
// promotions give them: each has the one of the partition where its first sample
// stands, or the one of a later promotion with "now". Their scores are computed again.
func (l *loop) readoutsOfLog() (all []loopSays) {
	l.t.Helper()
	again := l.newReplay()
	dec, err := codec.NewDecoder(codec.Schema{Channels: []string{"c0", "c1"}})
	if err != nil {
		l.t.Fatal(err)
	}
	type stream struct {
		part, last uint64
		x          []float32 // of the open sequence
		readout    string
	}
	streams, numbers, active := map[string]*stream{}, map[uint64]uint64{}, map[uint64]string{}
	l.messages("EUSN-IN", func(subject string, h nats.Header, data []byte) {
		tokens := strings.SplitN(subject, ".", 4)
		part, err := strconv.ParseUint(tokens[2], 10, 64)
		if err != nil {
			l.t.Fatal(err)
		}
		if h.Get("Eusn-Kind") == "promote" {
			var e struct {
				Number  uint64
				Readout string
				Now     bool
			}
			if err := json.Unmarshal(data, &e); err != nil {
				l.t.Fatal(err)
			}
			if e.Number <= numbers[part] {
				return
			}
			numbers[part], active[part] = e.Number, e.Readout
			for _, s := range streams {
				if e.Now && s.part == part {
					s.readout = e.Readout
				}
			}
			return
		}
		key, seq := tokens[3], uint64(0)
		if seq, err = strconv.ParseUint(h.Get("Eusn-Seq"), 10, 64); err != nil {
			l.t.Fatal(err)
		}
		s := streams[key]
		if s == nil {
			s = &stream{part: part}
			streams[key] = s
		}
		if seq <= s.last {
			return // a repeat
		}
		if seq != s.last+1 {
			l.t.Fatalf("stream %s: message %d follows %d", key, seq, s.last)
		}
		s.last = seq
		var b codec.Batch
		if err := dec.Decode(data, &b); err != nil {
			l.t.Fatal(err)
		}
		for row := range b.Rows {
			if len(s.x) == 0 {
				s.readout = active[part]
			}
			if s.x = append(s.x, b.X[2*row:2*row+2]...); row == b.Rows-1 && h.Get("Eusn-End") != "" || len(b.Ends) > 0 && b.Ends[row] {
				name := l.named(s.readout)
				all = append(all, loopSays{loopPlace{key, seq, uint32(row)}, name, again.scores(s.x, name)})
				s.x = s.x[:0]
			}
		}
	})
	return all
}

// named is a readout's fingerprint; no name is that of the job's first.
func (l *loop) named(readout string) string {
	if readout == "" {
		return l.learnt[0]
	}
	return readout
}

// messages reads a NATS stream to its end.
func (l *loop) messages(name string, use func(subject string, h nats.Header, data []byte)) {
	l.t.Helper()
	in, err := l.js.Stream(l.t.Context(), name)
	if err != nil {
		l.t.Fatal(err)
	}
	c, err := in.OrderedConsumer(l.t.Context(), jetstream.OrderedConsumerConfig{})
	if err != nil {
		l.t.Fatal(err)
	}
	all, err := c.Messages()
	if err != nil {
		l.t.Fatal(err)
	}
	defer all.Stop()
	for pending := uint64(1); pending > 0; {
		m, err := all.Next(jetstream.NextMaxWait(runQuiet))
		if err != nil {
			l.t.Fatal(err)
		}
		meta, err := m.Metadata()
		if err != nil {
			l.t.Fatal(err)
		}
		pending = meta.NumPending
		use(m.Subject(), m.Headers(), m.Data())
	}
}

// predictions are all that the job has made, each of another sequence.
func (l *loop) predictions() map[loopPlace]loopSays {
	l.t.Helper()
	all := map[loopPlace]loopSays{}
	err := consumer.Read(l.t.Context(), l.js, "eusn", consumer.Span{From: 1, Stored: true}, func(o consumer.Output) error {
		for _, p := range o.Predictions {
			at := loopPlace{p.Stream, p.Seq, p.Row}
			if _, there := all[at]; there {
				l.t.Errorf("%+v is predicted twice", at)
			}
			if p.Flags&codec.FlagGap != 0 {
				l.t.Errorf("%+v is flagged %s", at, p.Flags)
			}
			all[at] = loopSays{at, l.named(p.Readout), slices.Clone(p.Scores)}
		}
		return nil
	})
	if err != nil {
		l.t.Fatal(err)
	}
	return all
}

// replayed are the scores of an offline replay of the log by one readout, with the
// program's command.
func (l *loop) replayed(print string) map[loopPlace][]float32 {
	l.t.Helper()
	file, out := l.files[print], filepath.Join(l.dir, "replayed-"+print+".jsonl")
	clitest.Must(l.t, "backfill", "--from", "start", "--model", file, "--out", out, "--nats-url", l.url, "--progress", "none")
	all := map[loopPlace][]float32{}
	for line := range strings.Lines(string(clitest.Read(l.t, out))) {
		var p live.PredictionLine
		if err := json.Unmarshal([]byte(line), &p); err != nil {
			l.t.Fatalf("%q: %v", line, err)
		}
		all[loopPlace{p.Stream, p.Seq, p.Row}] = p.Scores
	}
	return all
}

// checkStates lets a second job read the same input, which leaves the promotions
// alone: its states must be the job's.
func (l *loop) checkStates() {
	t := l.t
	t.Helper()
	second := clitest.Start(t, "reading the input of job eusn", "run", "-c", l.conf, "--model", l.model, "--nats-url", l.url, "--job", loopPlain, "--input-job", "eusn")
	want := l.records("eusn")
	l.await("the second job", func() bool { return l.made(loopPlain) >= l.sequences() })
	time.Sleep(time.Second) // for events that are behind the last prediction
	second.Stop(t).Want(t, cli.ExitOK)
	if got := l.records(loopPlain); !slices.Equal(got, want) || len(want) != loopPartitions || want[0].digest == "" {
		t.Errorf("without promotions the partitions end as %s, with them as %s", fmt.Sprint(got), fmt.Sprint(want))
	}
}
