package watch_test

import (
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/eusn-stream/eusn-stream/codec"
	"github.com/eusn-stream/eusn-stream/internal/alarm"
	"github.com/eusn-stream/eusn-stream/internal/watch"
	"github.com/eusn-stream/eusn-stream/readout/outcome"
)

// TestStoppedAmidEvents stops the process in the middle of a message's events: the next process
// publishes the remaining events.
func TestStoppedAmidEvents(t *testing.T) {
	r := newRig(t, 0)
	rules, err := alarm.ParseRules(map[string]string{"imbalance": "class imbalance"})
	if err != nil {
		t.Fatal(err)
	}
	const streams = 20
	m := alarm.Message{Outs: streams}
	for i := range streams {
		m.Predictions = append(m.Predictions, codec.Prediction{Stream: fmt.Sprint("pump-", i), Answer: outcome.Answer{Class: 1}, Time: codec.NoTime})
	}
	begun, raised := make(chan struct{}), atomic.Int64{}
	var p *process
	started := make(chan struct{})
	o := watch.Options{Rules: rules, Who: "anna", Begun: func(alarm.Rules) { close(begun) }}
	o.Event = func(e *alarm.Event) {
		<-started
		if e.Kind == alarm.Raised && raised.Add(1) == 3 {
			p.stop()
		}
	}
	p = r.startProcess(o)
	close(started)
	<-begun
	r.publishOutput(m)
	if err := <-p.done; err != nil {
		t.Fatal(err)
	}
	p.nc.Close()
	again := make(chan struct{})
	p = r.startProcess(watch.Options{Rules: rules, Who: "anna", Begun: func(alarm.Rules) { close(again) }})
	<-again
	r.stopProcess(p)
	all := r.readEvents()
	if len(all) != streams+1 { // the first event sets the rules
		t.Errorf("%d events, want %d", len(all), streams+1)
	}
	for i, e := range all {
		if e.Number != uint64(i+1) {
			t.Errorf("event %d has number %d", i, e.Number)
		}
	}
}
