package listen

import (
	"net/netip"
	"testing"
	"time"
)

// One network gets a quarter of the places, and waits for the release of a place.
func TestPlaces(t *testing.T) {
	p := NewPlaces(8)
	at := netip.MustParseAddrPort
	take := func(address string, want bool) {
		t.Helper()
		if p.Acquire(at(address), time.Millisecond) != want {
			t.Errorf("%s: %v, want %v", address, !want, want)
		}
	}
	take("10.0.0.1:1", true)
	take("10.0.0.1:2", true)
	take("10.0.0.1:3", false)
	take("[::ffff:10.0.0.1]:3", false)
	take("[2001:db8::1]:1", true)
	take("[2001:db8::2]:1", true)
	take("[2001:db8::3]:1", false)
	take("[2001:db8:0:1::1]:1", true)
	done := make(chan bool)
	go func() { done <- p.Acquire(at("10.0.0.1:4"), time.Minute) }()
	p.Release(at("[2001:db8::2]:1"))
	select {
	case <-done:
		t.Error("a place of another network is no place of this one")
	case <-time.After(20 * time.Millisecond): // a wait that is too short can only hide the fault
	}
	p.Release(at("10.0.0.1:2"))
	if !<-done || p.Used() != 4 {
		t.Errorf("%d places are taken, want 4", p.Used())
	}
	for _, other := range []string{"10.0.0.2:1", "10.0.0.2:2", "10.0.0.3:1", "10.0.0.3:2"} {
		take(other, true)
	}
	take("10.0.0.4:1", false) // no places are free
}

// A message with a steady pace has the whole time; a message that stops has the rest of its
// period.
func TestPace(t *testing.T) {
	start := time.Now()
	c, deadline := Pace{Bytes: 100, Each: 10 * time.Second, Whole: 25 * time.Second}.Start(start)
	if deadline != start.Add(10*time.Second) {
		t.Error(deadline.Sub(start))
	}
	for _, step := range []struct {
		at    time.Duration
		bytes int
		want  time.Duration // 0: no deadline
	}{{1 * time.Second, 99, 0}, {2 * time.Second, 1, 12 * time.Second}, {11 * time.Second, 500, 21 * time.Second}, {20 * time.Second, 100, 25 * time.Second}, {24 * time.Second, 99, 0}} {
		deadline := c.AddBytes(step.bytes, start.Add(step.at))
		if deadline.IsZero() != (step.want == 0) || step.want != 0 && deadline != start.Add(step.want) {
			t.Errorf("at %v: %v, want %v", step.at, deadline.Sub(start), step.want)
		}
	}
}
