package pipeline_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/eusn-stream/eusn-stream/internal/operate"
	"github.com/eusn-stream/eusn-stream/internal/replay"
	"github.com/eusn-stream/eusn-stream/internal/testing/pipelinetest"
	"github.com/eusn-stream/eusn-stream/pipeline"
	"github.com/eusn-stream/eusn-stream/reservoir"
)

// States of one arithmetic are not continued in another, for states of a killed worker,
// released states and imported states; the record stays unchanged, so that the right
// engine can continue.
func TestArithmetic(t *testing.T) {
	t.Parallel()
	streams := pipelinetest.Recordings(12, 60)
	packets, sent := pipelinetest.Mixed(streams, 21)
	m := pipelinetest.Model(t, 3, reservoir.Policy{Kind: reservoir.Marked, Early: 5})
	want := direct(t, m, streams, sent)
	tensor, canonical := pipelinetest.InArithmetic("3xtf32-sm90"), pipeline.EngineFactory(pipelinetest.Generic)
	for name, c := range map[string]struct {
		right, wrong       pipeline.EngineFactory
		rightName, wrongIs string
	}{
		"tensor":    {tensor, canonical, "arithmetic 3xtf32-sm90", "this engine uses canonical"},
		"canonical": {canonical, tensor, "arithmetic canonical", "this engine uses 3xtf32-sm90"},
		"two cards": {pipelinetest.InArithmetic("3xtf32-sm80"), tensor, "arithmetic 3xtf32-sm80", "this engine uses 3xtf32-sm90"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newRig(t)
			conf := quickConfig("bits", 2)
			conf.SnapshotMessages = 3
			refused := func(when string) {
				t.Helper()
				_, before := b.lastRecord("bits", 0)
				s := &pipeline.Worker{Job: pipeline.Job{Config: conf, Model: m, Dial: func(ctx context.Context, name string) (*nats.Conn, error) { return b.dialServer(ctx, name) }, NewEngine: c.wrong}}
				err := s.Run(t.Context())
				if err == nil || !strings.Contains(err.Error(), c.rightName) || !strings.Contains(err.Error(), c.wrongIs) {
					t.Errorf("%s: run ended with %v, want a refusal that says %q and %q", when, err, c.rightName, c.wrongIs)
				}
				if _, now := b.lastRecord("bits", 0); now != before {
					t.Errorf("%s: the record was %+v and is %+v", when, before, now)
				}
				if _, err := replay.Verify(t.Context(), b.js, &s.Job, 0); err == nil || !strings.Contains(err.Error(), c.rightName) {
					t.Errorf("%s: verify says %v", when, err)
				}
			}
			third := len(packets) / 3
			r := b.startWith(m, conf, c.right)
			b.publishPackets(packets[:third])
			b.settleMessages(r, third)
			r.crashStage(t)
			refused("after a crash")
			r = b.startWith(m, conf, c.right)
			b.publishPackets(packets[third : 2*third])
			r.waitUntil(t, "snapshot of partition 0", func(pipeline.Stats) bool {
				_, last := b.lastRecord("bits", 0)
				return last.Snap != ""
			})
			b.settleMessages(r, 2*third)
			r.stopStage(t)
			refused("after a release")
			v, err := replay.Verify(t.Context(), b.js, &pipeline.Job{Config: conf, Model: m, NewEngine: c.right}, 0)
			if err != nil || v.Digest != v.Recorded {
				t.Errorf("verify with the right engine: %+v, %v", v, err)
			}
			checkImported(t, b, m, conf, c.right, c.wrong)
			r = b.startWith(m, conf, c.right)
			b.publishPackets(packets[2*third:])
			got := b.awaitPredictions("bits", count(want))
			r.stopStage(t)
			same(t, clean(got, 0), want)
		})
	}
}

// checkImported checks that an exported state begins only a job of the same arithmetic.
func checkImported(t *testing.T, b *rig, m *reservoir.Model, conf pipeline.Config, right, wrong pipeline.EngineFactory) {
	t.Helper()
	raw, err := operate.Snapshot(t.Context(), b.js, conf.Job, 0)
	if err != nil {
		t.Fatal(err)
	}
	for i, factory := range []pipeline.EngineFactory{wrong, right} {
		conf.Job, conf.InputSubject = fmt.Sprintf("import%d", i), fmt.Sprintf("import%d.*", i)
		if err := operate.Import(t.Context(), b.js, conf, raw); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		s := &pipeline.Worker{
			Job: pipeline.Job{Config: conf, Model: m, NewEngine: factory, Log: b.log,
				Dial: func(ctx context.Context, name string) (*nats.Conn, error) { return b.dialServer(ctx, name) },
			},
			Ready: cancel,
		}
		err := s.Run(ctx)
		cancel()
		if refused := errors.Is(err, pipeline.ErrOtherModel); refused != (i == 0) || !refused && err != nil {
			t.Errorf("import into engine %d: %v, want a refusal: %v", i, err, i == 0)
		}
	}
}
