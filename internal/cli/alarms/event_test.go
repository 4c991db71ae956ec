package alarms

import (
	"fmt"
	"testing"

	"github.com/eusn-stream/eusn-stream/internal/alarm"
)

// The log says of an event what its prediction has, and no zero in place of what it lacks.
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
