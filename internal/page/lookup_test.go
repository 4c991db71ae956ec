package page

import (
	"context"
	"encoding/json"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/eusn-stream/eusn-stream/codec"
	"github.com/eusn-stream/eusn-stream/internal/consumer"
)

// TestLookUp: a stream is found among other streams, with its last predictions as in the output,
// newest first.
func TestLookUp(t *testing.T) {
	r := newRig(t)
	for range 3 {
		for _, stream := range []string{"pump-3", "pump-4", evilStream} {
			r.predictTimes(stream, 20)
		}
	}
	r.predictTimes("pump-3", traceLength)
	r.predictTimes("pump-4", 1)
	r.page.Attach(&Job{JS: r.js})
	type found struct {
		Found
		Predictions []struct {
			Seq              uint64
			Row              uint32
			Class, Integrity string
			Probability      float32
			Scores           []float32
		} `json:"predictions"`
	}
	look := func(name string) (f found) {
		t.Helper()
		resp := r.get("/page/stream?name=" + url.QueryEscape(name))
		if err := json.NewDecoder(resp.Body).Decode(&f); err != nil || resp.StatusCode != 200 {
			t.Fatalf("%s: %s, %v", name, resp.Status, err)
		}
		return f
	}
	var want []codec.Prediction
	var labels []string
	err := consumer.Read(t.Context(), r.js, "eusn", consumer.Span{From: 1, Stored: true}, func(o consumer.Output) error {
		labels = o.Meta.Labels
		for _, p := range o.Predictions {
			if p.Stream == "pump-3" {
				want = append(want, p)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	slices.Reverse(want)
	f := look("pump-3")
	if len(f.Predictions) != traceLength || f.Partition < 0 || f.Kept || f.Latest != nil || f.Explain != "eusn-stream explain --job eusn --last --stream=pump-3" {
		t.Errorf("%d predictions, partition %d, latest %v (%v), %s", len(f.Predictions), f.Partition, f.Latest, f.Kept, f.Explain)
	}
	for i, p := range f.Predictions {
		w := want[i]
		if p.Seq != w.Seq || p.Row != w.Row || p.Class != labels[w.Class] || p.Probability != w.Probability || p.Integrity != "complete" || (i == 0) != (len(p.Scores) == 3) {
			t.Fatalf("prediction %d is %+v, want %+v", i, p, w)
		}
	}
	if f := look("pump-4"); len(f.Predictions) != 61 || !f.All {
		t.Errorf("%d predictions of pump-4, all %v; want 61", len(f.Predictions), f.All)
	}
	if f := look(evilStream); len(f.Predictions) != 60 || f.Stream != evilStream || !strings.HasSuffix(f.Explain, `--stream='<svg/onload=harm='\''1'\''>&'\''"$(harm)'`) {
		t.Errorf("%d predictions of %s: %s", len(f.Predictions), f.Stream, f.Explain)
	}
	if f := look("pump"); len(f.Predictions) != 0 || !f.All || f.Read == 0 {
		t.Errorf("%d predictions of a stream that is not there, %d messages read, all %v", len(f.Predictions), f.Read, f.All)
	}
}

// TestLookUpEndsAmidWindow: if a limit ends reading inside a window, the window's older predictions
// are not shown as the last predictions, nor the window as the whole output.
func TestLookUpEndsAmidWindow(t *testing.T) {
	r := newRig(t)
	for range 3 { // one message each
		r.predictTimes("pump-3", 1)
	}
	look := func(ctx context.Context, limit int) search {
		t.Helper()
		l := search{job: r.js, name: "eusn", part: -1, most: 2, limit: limit, matches: func(p *codec.Prediction) bool { return p.Stream == "pump-3" }}
		if err := l.readWindows(ctx); err != nil {
			t.Fatal(err)
		}
		return l
	}
	l := look(t.Context(), 0)
	if len(l.hits) != 2 || l.hits[0].p.Seq <= l.hits[1].p.Seq || !l.all || l.messages < 3 || l.since.IsZero() {
		t.Fatalf("%d found, all %v, %d messages since %v", len(l.hits), l.all, l.messages, l.since)
	}
	if l = look(t.Context(), 1); len(l.hits) != 0 || l.all || l.messages != 0 || !l.since.IsZero() {
		t.Errorf("of a window that was not read to its end: %d found, all %v, %d messages since %v", len(l.hits), l.all, l.messages, l.since)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	l = search{job: r.js, name: "eusn", part: -1, most: 2, matches: func(*codec.Prediction) bool { return true }}
	if whole, err := l.readWindow(ctx, 1, 4); whole || err != nil || len(l.hits) != 0 {
		t.Errorf("a window whose time is over: whole %v, %v, %d found", whole, err, len(l.hits))
	}
}
