package gateway

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/eusn-stream/eusn-stream/codec"
	"github.com/eusn-stream/eusn-stream/internal/testing/pipelinetest"
)

// Times far from the clock are counted, and the log reports each stream once, with the
// probable unit. The samples are published unchanged.
func TestFarTimes(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	g := r.startGateway(t.TempDir(), nil)
	ctx, cancel := context.WithTimeout(t.Context(), pipelinetest.Patience)
	defer cancel()
	now := time.Now()
	for _, c := range []struct {
		key  string
		time int64
		says string // empty: nothing
	}{
		{"right", now.UnixNano(), ""},
		{"slow", now.Add(-23 * time.Hour).UnixNano(), ""},
		{"none", codec.NoTime, ""},
		{"s", now.Unix(), "1970-01-01T00:00:01Z: with a unit that is 1000000000 times as long it is of today"},
		{"ms", now.UnixMilli(), "with a unit that is 1000000 times as long it is of today"},
		{"us", now.UnixMicro(), "with a unit that is 1000 times as long it is of today"},
		{"began", 0, "a sample of 1970-01-01T00:00:00Z"},
		{"reset", time.Date(2015, 1, 1, 0, 0, 0, 0, time.UTC).UnixNano(), "a sample of 2015-01-01T00:00:00Z"},
		{"ahead", now.Add(25 * time.Hour).UnixNano(), "a sample of"},
	} {
		g.told.mu.Lock()
		g.told.each = nil // so that no line waits for a second
		g.told.mu.Unlock()
		before := g.Stats().FarTimes
		for range 2 {
			if err := g.sendMessage(ctx, Message{Input: MQTT, Payload: []byte{1}, Parts: []Part{{Key: c.key, X: []float32{1, 2, 3, 4}, Times: []int64{c.time, now.UnixNano()}}}}); err != nil {
				t.Fatal(err)
			}
		}
		lines, far := g.book.Lines(`stream \"`+c.key+`\" has a sample`), g.Stats().FarTimes-before
		if c.says == "" && (lines != 0 || far != 0) || c.says != "" && (lines != 1 || far != 2 || !strings.Contains(g.book.String(), c.says)) {
			t.Errorf("%s: %d lines, %d samples; want %q\n%s", c.key, lines, far, c.says, g.book)
		}
	}
	if n := g.Stats().Samples; n != 36 {
		t.Errorf("%d samples, want 36", n)
	}
}
