package shard

import (
	"fmt"
	"testing"
	"time"

	"github.com/eusn-stream/eusn-stream/internal/testing/pipelinetest"
	"github.com/eusn-stream/eusn-stream/reservoir"
)

// The owner requests the end of silent streams, in the order of their silence, and
// requests nothing while time stands still.
func TestSilent(t *testing.T) {
	l := newLone(t, pipelinetest.Model(t, 3, reservoir.Policy{Kind: reservoir.Marked}), Config{Idle: time.Minute, Forget: time.Hour})
	at := func(d time.Duration, p ...pipelinetest.Packet) { l.p.now = d; l.feedAll(p...) }
	at(1*time.Second, pipelinetest.Rows("old", 1, true, 1, 2))
	at(50*time.Minute, pipelinetest.Rows("quiet", 1, false, 1, 2), pipelinetest.Rows("ended", 1, true, 1, 2), pipelinetest.Rows("gap", 1, false, 1, 2))
	at(60*time.Minute, pipelinetest.Rows("fresh", 1, false, 1, 2), pipelinetest.Rows("gap", 3, false, 1, 2))
	l.p.now = 60*time.Minute + 30*time.Second
	if e := fmt.Sprintf("%+v", *l.p.State.SilentStreams(l.silenceOf(l.p))); e != "{Job: Partition:0 After:6 Streams:[{Key:old Stream:old Forget:true} {Key:quiet Stream:quiet Forget:false}] Gaps:[]}" {
		t.Error(e)
	}
	l.p.now = 61 * time.Minute
	if e := fmt.Sprintf("%+v", *l.p.State.SilentStreams(l.silenceOf(l.p))); e != "{Job: Partition:0 After:6 Streams:[{Key:old Stream:old Forget:true} {Key:quiet Stream:quiet Forget:false} {Key:fresh Stream:fresh Forget:false}] Gaps:[gap]}" {
		t.Error(e)
	}
	l.p.resumed = 61 * time.Minute
	if e := l.p.State.SilentStreams(l.silenceOf(l.p)); !e.Empty() {
		t.Errorf("after an outage: %+v", e)
	}
	l.pace.idleBytes = 100
	l.p.now = 3 * time.Hour
	if e := l.p.State.SilentStreams(l.silenceOf(l.p)); len(e.Streams) != 1 {
		t.Errorf("an event of %d streams where one fits", len(e.Streams))
	}
}

// An end event that does not come back is logged: without the right to publish, silent
// streams would stay open unnoticed.
func TestLostIdleEventIsLogged(t *testing.T) {
	book := &pipelinetest.LogBook{}
	l := newLone(t, pipelinetest.Model(t, 3, reservoir.Policy{Kind: reservoir.Marked}), Config{Idle: time.Second, Lease: time.Minute})
	l.log = book.Logger()
	into := &testOwner{} // an owner without input
	l.p.Owner = into
	l.feedAll(pipelinetest.Rows("a", 1, false, 1, 2))
	for pass, want := range []int{0, 0, 0, 1} {
		l.pace.began = time.Now().Add(-time.Duration(10+6*pass) * time.Second)
		if err := l.watchSilence(l.p); err != nil {
			t.Fatal(err)
		}
		if n := book.Lines("did not arrive in the input"); n != want {
			t.Errorf("pass %d: %d lines, want %d:\n%s", pass, n, want, book)
		}
		if pass > 0 && (l.p.asked == 0 || into.events == 0) {
			t.Errorf("pass %d: nothing was asked for", pass)
		}
	}
}
