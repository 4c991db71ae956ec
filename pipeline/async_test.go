package pipeline_test

import (
	"errors"
	"strconv"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/eusn-stream/eusn-stream/codec"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/wire"
	"github.com/eusn-stream/eusn-stream/internal/testing/pipelinetest"
	"github.com/eusn-stream/eusn-stream/readout/outcome"
	"github.com/eusn-stream/eusn-stream/reservoir"
)

// TestAsyncProducers shows the rule for producers in package doc: nats.go refuses to
// send while its window is full, and does not send that message later. A producer that
// resends the message under the same number loses nothing; a producer that skips the
// message makes a gap.
func TestAsyncProducers(t *testing.T) {
	m := pipelinetest.Model(t, 3, reservoir.Policy{Kind: reservoir.Marked})
	for name, c := range map[string]struct {
		again bool
		want  outcome.Flag
	}{"sent again": {true, 0}, "left out": {false, outcome.FlagGap}} {
		t.Run(name, func(t *testing.T) {
			b := newRig(t)
			conf := quickConfig("async", 1)
			conf.Reorder = -1 // the gap is declared at once
			r := b.startStage(m, conf)
			nc, err := b.srv.Connect("producer", nil)
			if err != nil {
				t.Fatal(err)
			}
			defer nc.Close()
			// A window of one message, without patience: a full window on any machine.
			js, err := jetstream.New(nc, jetstream.WithPublishAsyncMaxPending(1))
			if err != nil {
				t.Fatal(err)
			}
			const messages = 40
			refused := 0
			for seq := uint64(1); seq <= messages; seq++ {
				p := pipelinetest.One("a", seq, 3, float32(seq), seq == messages)
				msg := &nats.Msg{Subject: "sensors.a", Data: p.Payload(t), Header: nats.Header{wire.HeaderSeq: {strconv.FormatUint(seq, 10)}}}
				if p.Header[wire.HeaderEnd] != "" {
					msg.Header.Set(wire.HeaderEnd, "true")
				}
				for {
					_, err := js.PublishMsgAsync(msg, jetstream.WithStallWait(time.Nanosecond))
					if err == nil {
						break
					}
					if !errors.Is(err, jetstream.ErrTooManyStalledMsgs) {
						t.Fatal(err)
					}
					refused++
					if !c.again && seq > 1 && seq < messages {
						break
					}
				}
			}
			<-js.PublishAsyncComplete()
			if refused == 0 {
				t.Fatal("the window was never full: the test has lost its subject")
			}
			got := b.awaitPredictions("async", 1)["a"]
			r.stopStage(t)
			if got[0].Flags&outcome.FlagGap != c.want {
				t.Errorf("%d messages were refused and %s: flags %v, want %v", refused, name, got[0].Flags, c.want)
			}
			if c.again {
				var all []pipelinetest.Packet
				for seq := uint64(1); seq <= messages; seq++ {
					all = append(all, pipelinetest.One("a", seq, 3, float32(seq), seq == messages))
				}
				same(t, map[string][]codec.Prediction{"a": got}, map[string][]codec.Prediction{"a": predictAlone(t, m, codec.Reject, all...)})
			}
		})
	}
}
