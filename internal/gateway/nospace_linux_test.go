package gateway

import (
	"context"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/eusn-stream/eusn-stream/internal/testing/parts"
	"github.com/eusn-stream/eusn-stream/internal/testing/pipelinetest"
)

// A gateway that starts with messages in the outbox on a full disk publishes the messages,
// and accepts further messages when the disk has space.
func TestStartsOnAFullDisk(t *testing.T) {
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=1m"); err != nil {
		parts.Absent(t, "diskfull", "a full disk needs the right to mount one: %v", err)
	}
	t.Cleanup(func() { _ = syscall.Unmount(dir, syscall.MNT_DETACH) })
	r := newRig(t, func(c *jetstream.StreamConfig) { c.MaxMsgs = 1 })
	ctx, cancel := context.WithTimeout(t.Context(), pipelinetest.Patience)
	defer cancel()
	m := Message{Input: MQTT, Key: "k", Payload: []byte("1 1")}
	out := filepath.Join(dir, "outbox")
	g := r.startGateway(out, func(c *Config) { c.StopTimeout = 50 * time.Millisecond })
	if err := g.sendMessage(ctx, m); err != nil {
		t.Fatal(err)
	}
	if err := g.Take(ctx, &m); err != nil {
		t.Fatal(err)
	}
	g.waitForLog(t, "the job's input is full")
	full, err := os.Create(filepath.Join(dir, "full"))
	for err == nil {
		_, err = full.Write(make([]byte, 4096))
	}
	full.Close()
	g.endGateway(t)

	r.limitInput(-1)
	g = r.startGateway(out, nil)
	g.waitForLog(t, "the outbox cannot be written")
	for end := time.Now().Add(pipelinetest.Patience); g.Stats().Waiting > 0 || !g.Stats().HoldingBack; time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%+v: want no batch in the outbox, and a gateway that holds back", g.Stats())
		}
	}
	if err := os.Remove(full.Name()); err != nil {
		t.Fatal(err)
	}
	g.waitForLog(t, "can be written again")
	if err := g.sendMessage(ctx, m); err != nil {
		t.Fatal(err)
	}
	if x := r.storedSamples()["k"]; len(x) != 6 {
		t.Errorf("%v: want three rows", x)
	}
}
