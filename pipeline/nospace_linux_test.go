package pipeline_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/eusn-stream/eusn-stream/internal/natsserver"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/wire"
	"github.com/eusn-stream/eusn-stream/internal/testing/parts"
	"github.com/eusn-stream/eusn-stream/internal/testing/pipelinetest"
	"github.com/eusn-stream/eusn-stream/pipeline"
	"github.com/eusn-stream/eusn-stream/reservoir"
)

// A really full disk: the log names the remedy, and the remedy restores everything
// acknowledged.
func TestDiskFull(t *testing.T) {
	disk := t.TempDir()
	if err := syscall.Mount("tmpfs", disk, "tmpfs", 0, "size=16m"); err != nil {
		parts.Absent(t, "diskfull", "a full disk needs the right to mount one: %v", err)
	}
	t.Cleanup(func() { _ = syscall.Unmount(disk, syscall.MNT_DETACH) })
	dir := filepath.Join(disk, "store")
	book := &pipelinetest.LogBook{}
	srv, err := natsserver.Start(t.Context(), natsserver.Options{Dir: dir, Log: book.Logger()})
	if err != nil {
		t.Fatal(err)
	}
	b := rigOf(t, srv)
	m := pipelinetest.Model(t, 2, reservoir.Policy{Kind: reservoir.Marked})
	c := pipeline.Config{Job: "disk", Partitions: 1, StopTimeout: 50 * time.Millisecond}
	r := b.startStage(m, c)
	b.publishPackets([]pipelinetest.Packet{pipelinetest.One("a", 1, 3, 1, false)})
	b.settleMessages(r, 1)
	ballast := filepath.Join(disk, "ballast")
	if err := os.WriteFile(ballast, make([]byte, 32<<20), 0o600); err == nil {
		t.Fatal("32 MB fit 16")
	}
	acknowledged := 1
	for seq := uint64(2); ; seq++ {
		msg := pipelinetest.One("a", seq, 100, 1, false)
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		numbered := &nats.Msg{Subject: "sensors.a", Data: msg.Payload(t), Header: nats.Header{wire.HeaderSeq: {fmt.Sprint(seq)}}}
		_, err := b.js.PublishMsg(ctx, numbered)
		cancel()
		if err != nil {
			t.Logf("message %d: %v", seq, err)
			break
		}
		acknowledged++
		if seq > 20000 {
			t.Fatal("the full disk takes everything")
		}
	}
	if book.Lines("free space, then restart") == 0 {
		t.Errorf("the log does not say what to do:\n%s", lastBytes(book.String(), 2000))
	}
	r.crashStage(t)
	b.nc.Close()
	srv.Close()
	if err := os.Remove(ballast); err != nil {
		t.Fatal(err)
	}
	b = newRigAt(t, dir)
	in, err := b.js.Stream(t.Context(), wire.InputStream("disk"))
	if err != nil {
		t.Fatal(err)
	}
	if got := in.CachedInfo().State.Msgs; got < uint64(acknowledged) {
		t.Errorf("%d messages after the restart, %d were acknowledged", got, acknowledged)
	}
	// Its producer resends the unacknowledged messages, and the result is undisturbed.
	last := uint64(acknowledged)
	rest := []pipelinetest.Packet{pipelinetest.One("a", last+1, 100, 1, false), pipelinetest.One("a", last+2, 1, 2, true)}
	all := []pipelinetest.Packet{pipelinetest.One("a", 1, 3, 1, false)}
	for seq := 2; seq <= acknowledged; seq++ {
		all = append(all, pipelinetest.One("a", uint64(seq), 100, 1, false))
	}
	r = b.startStage(m, c)
	b.publishPackets(rest)
	got := b.awaitPredictions("disk", 1)
	r.stopStage(t)
	calm := newRig(t)
	r = calm.startStage(m, c)
	calm.publishPackets(append(all, rest...))
	exp := calm.awaitPredictions("disk", 1)
	r.stopStage(t)
	same(t, got, exp)
}

func lastBytes(s string, n int) string { return strings.ToValidUTF8(s[max(0, len(s)-n):], "") }
