package loop_test

import (
	"encoding/json"
	"strconv"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/eusn-stream/eusn-stream/codec"
	"github.com/eusn-stream/eusn-stream/internal/testing/planttest"
	"github.com/eusn-stream/eusn-stream/readout"
	"github.com/eusn-stream/eusn-stream/reservoir"
	"github.com/eusn-stream/eusn-stream/reservoir/cpu"
)

// replay recomputes predictions, each sequence from its first sample to its last, with
// all readouts: many sequences in one call of the engine.
type replay struct {
	t       *testing.T
	engine  reservoir.Engine
	places  map[string]int // of a readout's scores, by its fingerprint
	columns int
	newest  string // fingerprint
	all     []loopSays

	x    []float32 // of the last sequences, without scores so far
	runs []reservoir.Run
}

// replayMost is how many sequences are computed together.
const replayMost = 256

func (l *loop) newReplay() *replay {
	l.T.Helper()
	m := loadModel(l.T, l.Model)
	r := &replay{t: l.T, places: map[string]int{}, columns: m.Readouts[0].Columns(), newest: l.learned[len(l.learned)-1]}
	var all []*readout.Linear
	for i, print := range l.learned {
		r.places[print] = i
		all = append(all, loadModel(l.T, l.files[print]).Readouts[0])
	}
	var err error
	if r.engine, err = cpu.New(m.Network, replayMost, cpu.Options{}); err == nil {
		err = r.engine.SetReadouts(all)
	}
	if err != nil {
		l.T.Fatal(err)
	}
	l.T.Cleanup(func() { r.engine.Close() })
	return r
}

// addRow takes the next sequence, with the samples x.
func (r *replay) addRow(at loopPlace, readout string, x []float32) {
	from := int32(len(r.x) / 2)
	r.x = append(r.x, x...)
	r.runs = append(r.runs, reservoir.Run{Slot: int32(len(r.runs)), Reset: true, Emit: true, From: from, To: int32(len(r.x) / 2)})
	r.all = append(r.all, loopSays{at: at, readout: readout})
	if len(r.runs) == replayMost {
		r.compute()
	}
}

// compute computes the missing scores.
func (r *replay) compute() {
	r.t.Helper()
	width := r.engine.ScoreWidth()
	scores := make([]float32, width*len(r.runs))
	if err := r.engine.Advance(r.x, r.runs, scores); err != nil {
		r.t.Fatal(err)
	}
	for i := range r.runs {
		w, own := &r.all[len(r.all)-len(r.runs)+i], scores[width*i:width*(i+1)]
		of := func(print string) []float32 { return own[r.columns*r.places[print]:][:r.columns] }
		w.scores, w.newest = of(w.readout), of(r.newest)
	}
	r.x, r.runs = r.x[:0], r.runs[:0]
}

// readoutsOfLog returns the sequences of the log in order, and their readouts according
// to the promotions: the readout active in the partition at the first sample, or the
// readout of a later promotion with "now". Their scores are recomputed.
func (l *loop) readoutsOfLog() []loopSays {
	l.T.Helper()
	again := l.newReplay()
	dec, err := codec.NewDecoder(codec.Schema{Channels: []string{"c0", "c1"}})
	if err != nil {
		l.T.Fatal(err)
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
			l.T.Fatal(err)
		}
		if h.Get("Eusn-Kind") == "promote" {
			var e struct {
				Number  uint64
				Readout string
				Now     bool
			}
			if err := json.Unmarshal(data, &e); err != nil {
				l.T.Fatal(err)
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
			l.T.Fatal(err)
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
			l.T.Fatalf("stream %s: message %d follows %d", key, seq, s.last)
		}
		s.last = seq
		var b codec.Batch
		if err := dec.Decode(data, &b); err != nil {
			l.T.Fatal(err)
		}
		for row := range b.Rows {
			if len(s.x) == 0 {
				s.readout = active[part]
			}
			if s.x = append(s.x, b.X[2*row:2*row+2]...); row == b.Rows-1 && h.Get("Eusn-End") != "" || len(b.Ends) > 0 && b.Ends[row] {
				again.addRow(loopPlace{key, seq, uint32(row)}, l.named(s.readout), s.x)
				s.x = s.x[:0]
			}
		}
	})
	again.compute()
	return again.all
}

// named returns a readout's fingerprint; an empty name is the job's first readout.
func (l *loop) named(readout string) string {
	if readout == "" {
		return l.learned[0]
	}
	return readout
}

// messages reads a NATS stream to its end.
func (l *loop) messages(name string, use func(subject string, h nats.Header, data []byte)) {
	l.T.Helper()
	in, err := l.JS.Stream(l.T.Context(), name)
	if err != nil {
		l.T.Fatal(err)
	}
	c, err := in.OrderedConsumer(l.T.Context(), jetstream.OrderedConsumerConfig{})
	if err != nil {
		l.T.Fatal(err)
	}
	all, err := c.Messages()
	if err != nil {
		l.T.Fatal(err)
	}
	defer all.Stop()
	for pending := uint64(1); pending > 0; {
		m, err := all.Next(jetstream.NextMaxWait(planttest.Quiet))
		if err != nil {
			l.T.Fatal(err)
		}
		meta, err := m.Metadata()
		if err != nil {
			l.T.Fatal(err)
		}
		pending = meta.NumPending
		use(m.Subject(), m.Headers(), m.Data())
	}
}
