package wire

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
)

// An event that a resize of the job has overtaken is harmless, and its dead letter has the reason.
func TestEventOfOtherPartition(t *testing.T) {
	const want = "partition 3, and arrived in partition 1: a resize of the job changed the partitions"
	_, idle := ParseIdle([]byte(`{"partition":3,"after":2}`), 1, 9)
	_, promotion := ParsePromote([]byte(`{"partition":3,"number":1}`), 1)
	for _, err := range []error{idle, promotion} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

func FuzzIdleEvent(f *testing.F) {
	f.Add([]byte(`{"partition":0,"after":3,"streams":[{"key":"a","stream":"a","forget":true}],"gaps":["b"]}`))
	f.Add([]byte(`{"job":"green","partition":0,"after":3}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		e, err := ParseIdle(data, 0, 1<<63)
		if err != nil {
			return
		}
		again, err := json.Marshal(e)
		if err != nil {
			t.Fatal(err)
		}
		if back, err := ParseIdle(again, 0, 1<<63); err != nil || fmt.Sprint(*back) != fmt.Sprint(*e) {
			t.Fatalf("%q reads as %+v, written again as %+v, %v", data, e, back, err)
		}
	})
}
