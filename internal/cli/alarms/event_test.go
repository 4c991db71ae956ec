package alarms

import (
	"fmt"
	"testing"

	"github.com/eusn-stream/eusn-stream/internal/alarm"
)

// The log line of an event has the values of its prediction, and no zero for a missing value.
func TestEventAttributes(t *testing.T) {
	e := &alarm.Event{Kind: alarm.Raised, Number: 7, Rule: "quiet", Key: "pump-3"}
	if got := fmt.Sprint(eventAttrs(e)); got != "[rule quiet key pump-3 number 7]" {
		t.Error(got)
	}
	e.Class, e.Probability = "worn", .5
	if got := fmt.Sprint(eventAttrs(e)); got != "[rule quiet key pump-3 class worn probability 0.5 number 7]" {
		t.Error(got)
	}
}
