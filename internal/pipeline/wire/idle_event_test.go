package wire

import (
	"encoding/json"
	"fmt"
	"testing"
)

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
