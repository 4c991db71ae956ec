package shard

import (
	"strings"
	"testing"

	"github.com/eusn-stream/eusn-stream/internal/pipeline/wire"
	"github.com/eusn-stream/eusn-stream/internal/testing/pipelinetest"
	"github.com/eusn-stream/eusn-stream/reservoir"
)

// A key longer than the job allows turns its message into a dead letter, with no other
// effect; if only the server limits keys, the key is accepted.
func TestKeyIsBounded(t *testing.T) {
	m := pipelinetest.Model(t, 2, reservoir.Policy{Kind: reservoir.Marked})
	for _, c := range []struct{ most, length, dead int }{{256, 256, 0}, {256, 257, 1}, {0, 4000, 0}} {
		l := newLone(t, m, Config{MaxKey: c.most})
		key := strings.Repeat("ab.", c.length)[:c.length-1] + "x"
		if err := l.takeJob(l.b, l.jobOf(pipelinetest.Rows(key, 1, true, 1, 2))); err != nil {
			t.Fatal(err)
		}
		if len(l.b.Dead) != c.dead || len(l.p.State.Sources) != 1-c.dead {
			t.Errorf("%d of %d bytes: dead letters %+v, %d keys", c.length, c.most, l.b.Dead, len(l.p.State.Sources))
		}
		if c.dead > 0 && !strings.Contains(l.b.Dead[0].Reason, "257 bytes, want at most 256") {
			t.Error(l.b.Dead[0].Reason)
		}
	}
}

// An end event may come under a key of several tokens, if each token is unusable for
// producers.
func TestIdleEventUnderSeveralTokens(t *testing.T) {
	m := pipelinetest.Model(t, 3, reservoir.Policy{Kind: reservoir.Marked})
	for key, dead := range map[string]int{"eusn-idle-3.eusn-idle-0": 0, "eusn-idle-3.A": 1, "A.eusn-idle-0": 1} {
		l := newLone(t, m, Config{})
		l.feedAll(pipelinetest.Rows("A.3", 1, false, 1, 2))
		e := eventPacket(t, wire.IdleEvent{After: 1, Streams: []wire.StreamName{{Key: "A.3", Stream: "A.3"}}})
		e.Key = key
		l.b.Reset()
		if err := l.takeJob(l.b, l.jobOf(e)); err != nil {
			t.Fatal(err)
		}
		if len(l.b.Dead) != dead || l.p.State.Sources["A.3"].Streams["A.3"].Seq.Open() != (dead == 1) {
			t.Errorf("%s: dead letters %+v", key, l.b.Dead)
		}
	}
}
