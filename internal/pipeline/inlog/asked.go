package inlog

import (
	"cmp"
	"fmt"
)

// Asked describes the work on a log, in words. Only the same work is continued.
type Asked struct {
	Input    string `json:"input"`             // which messages
	Range    string `json:"range,omitempty"`   // of a backfill: the times
	From     string `json:"from,omitempty"`    // of a recording: the first time
	Streams  string `json:"streams,omitempty"` // of a recording: the streams
	Model    string `json:"model,omitempty"`   // of a backfill: fingerprint and readout
	Settings string `json:"settings"`          // further settings that the result depends on
}

// Differs describes the first difference to other work; empty if both are the same.
func (a Asked) Differs(o Asked) string {
	for _, f := range []struct{ what, a, o string }{
		{"input", a.Input, o.Input}, {"range", a.Range, o.Range}, {"beginning", a.From, o.From}, {"choice of streams", a.Streams, o.Streams},
		{"model", a.Model, o.Model}, {"settings", a.Settings, o.Settings},
	} {
		if f.a != f.o {
			return fmt.Sprintf("another %s: it has %s, this one %s", f.what, cmp.Or(f.o, "none"), cmp.Or(f.a, "none"))
		}
	}
	return ""
}
