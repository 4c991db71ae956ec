package store

import (
	"context"
	"io"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/eusn-stream/eusn-stream/internal/natsclient"
	"github.com/eusn-stream/eusn-stream/internal/natsserver"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/wire"
	"github.com/eusn-stream/eusn-stream/internal/testing/pipelinetest"
)

// slowWay is a proxy to a server that passes perSecond bytes per second to the client,
// and counts them.
func slowWay(t *testing.T, to string, perSecond int, count *atomic.Int64) (at string) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			in, err := l.Accept()
			if err != nil {
				return
			}
			out, err := net.Dial("tcp", to)
			if err != nil {
				in.Close()
				return
			}
			go func() { io.Copy(out, in); out.Close() }()
			go func() {
				defer in.Close()
				b := make([]byte, perSecond/100)
				for {
					n, err := out.Read(b)
					count.Add(int64(n))
					if _, w := in.Write(b[:n]); err != nil || w != nil {
						return
					}
					time.Sleep(10 * time.Millisecond)
				}
			}()
		}
	}()
	return l.Addr().String()
}

// A server too slow to send a snapshot within one attempt sends each chunk once:
// attempts continue at the end of the previous attempt.
func TestSlowSnapshotIsReadOnce(t *testing.T) {
	t.Parallel()
	srv := pipelinetest.Server(t, natsserver.Options{Dir: t.TempDir(), Port: natsserver.RandomPort})
	t.Cleanup(srv.Close)
	_, js := pipelinetest.Connect(t, srv)
	c := layoutOf("slow")
	if err := EnsureStreams(t.Context(), js, c, pipelinetest.Log(t)); err != nil {
		t.Fatal(err)
	}
	fast, err := OpenSnapshots(t.Context(), js, c.Job, 1)
	if err != nil {
		t.Fatal(err)
	}
	want := make([]byte, 6<<20)
	for i := range want {
		want[i] = byte(i * i >> 7)
	}
	name := wire.SnapshotName(0, 1, 1)
	if err := fast.Put(t.Context(), name, want); err != nil {
		t.Fatal(err)
	}
	var count atomic.Int64
	at := slowWay(t, srv.URL()[len("nats://"):], 1<<20, &count)
	nc, err := natsclient.Connect(t.Context(), natsclient.Options{URL: "nats://" + at, Name: "slow"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	slow, err := FindSnapshots(t.Context(), pipelinetest.JetStream(t, nc), c.Job)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), pipelinetest.Patience)
	defer cancel()
	var rest Download
	var wait Backoff
	for attempt := 1; ; attempt++ {
		got, err := slow.GetRest(ctx, name, &rest)
		if err == nil {
			if string(got) != string(want) {
				t.Error("other bytes than were stored")
			}
			break
		}
		if ctx.Err() != nil {
			t.Fatalf("after %d attempts and %d bytes: %v", attempt, count.Load(), err)
		}
		_ = Pause(ctx, wait.Next())
	}
	if most := int64(2 * len(want)); count.Load() > most {
		t.Errorf("%d bytes came for a snapshot of %d, want at most %d", count.Load(), len(want), most)
	}
}

// Attempts wait longer each time, and not all the same time.
func TestBackoff(t *testing.T) {
	var a Backoff
	for i := range 12 {
		w := a.Next()
		full := min(mostBackoff, RetryWait<<i)
		if w < full/2 || w > full {
			t.Errorf("attempt %d waits %v, want %v to %v", i, w, full/2, full)
		}
	}
	if a.Reset(); a.Next() > RetryWait {
		t.Error("it does not begin again")
	}
	different := map[time.Duration]bool{}
	for range 10 {
		var b Backoff
		different[b.Next()] = true
	}
	if len(different) < 2 {
		t.Error("all wait the same time")
	}
}
