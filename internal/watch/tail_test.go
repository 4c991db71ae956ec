package watch

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/eusn-stream/eusn-stream/internal/pipeline/wire"
)

// TestLostTail: the log's end at the claim may be lost before it is read (a power failure):
// the process does not wait for the lost messages.
func TestLostTail(t *testing.T) {
	s, js := serverWithJob(t)
	w := newWriter(t, s, "one")
	w.book.last++
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if events, err := w.book.readTail(ctx, w.book.record.Last+1); !errors.Is(err, errBack) {
		t.Errorf("%d events, error %v, want %v", len(events), err, errBack)
	}
	if err := js.DeleteStream(t.Context(), wire.AlarmStream("job")); err != nil {
		t.Fatal(err)
	}
	if events, err := w.book.readTail(ctx, w.book.record.Last+1); err == nil || ctx.Err() != nil {
		t.Errorf("%d events of a log that was deleted, error %v", len(events), err)
	}
}

// FuzzPulse: arbitrary bytes are refused, or are an answer with a writer.
func FuzzPulse(f *testing.F) {
	f.Add([]byte(`{"writer":"a","position":7,"last":3,"written":{"position":7,"number":2}}`))
	f.Add([]byte(`{"error":"nothing is asked for on job.alarms.alive"}`))
	f.Add([]byte(`{`))
	f.Fuzz(func(t *testing.T, data []byte) {
		p, err := parsePulse(data)
		if err == nil && len(data) > pulseBytes || (err != nil) != (p.Writer == "") || err != nil && p != (pulse{}) {
			t.Fatalf("%q gives %+v, %v", data, p, err)
		}
	})
}
