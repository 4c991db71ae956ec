package simulate

import (
	"math"
	"math/rand/v2"
	"testing"
)

// poisson has n tasks come at random to a station, and says how long they waited in the mean.
func poisson(servers, n int, rate float64, work func(*rand.Rand) float64) (wait, busy float64) {
	c := &clock{}
	s := &station{c: c, servers: servers}
	rng := rand.New(rand.NewPCG(3, 7))
	var next func()
	i := 0
	next = func() {
		if i++; i > n {
			return
		}
		at, w := c.now, work(rng)
		s.do(w, func() { wait += c.now - at - w })
		c.after(rng.ExpFloat64()/rate, next)
	}
	next()
	c.run(math.Inf(1))
	return wait / float64(n), s.worked
}

// M/D/1: the mean wait is rho/(2 mu (1-rho)) (Pollaczek and Khinchine). The tolerance is
// four standard deviations of the mean of so many waits at rho 0.8, where they depend most on each other.
func TestMD1(t *testing.T) {
	for _, rho := range []float64{.3, .6, .8} {
		const work, n = .01, 400_000
		got, busy := poisson(1, n, rho/work, func(*rand.Rand) float64 { return work })
		want := rho * work / (2 * (1 - rho))
		if math.Abs(got-want) > .05*want {
			t.Errorf("rho %v: waits %v, want %v", rho, got, want)
		}
		if math.Abs(busy-n*work) > 1e-6*busy {
			t.Errorf("rho %v: worked %v s for %d tasks of %v s", rho, busy, n, work)
		}
	}
}

// M/M/c: the mean wait is C(c, a)/(c mu - lambda), C by Erlang. The
// tolerance is likewise that of one server, whose waits vary most.
func TestErlangC(t *testing.T) {
	for _, c := range []int{1, 2, 8} {
		const mu, rho, n = 100., .8, 400_000
		a := rho * float64(c)
		term, sum := 1., 1. // a^k/k!
		for k := 1; k < c; k++ {
			term *= a / float64(k)
			sum += term
		}
		term *= a / float64(c) / (1 - rho)
		want := term / (sum + term) / (float64(c)*mu - rho*float64(c)*mu)
		got, _ := poisson(c, n, rho*float64(c)*mu, func(r *rand.Rand) float64 { return r.ExpFloat64() / mu })
		if math.Abs(got-want) > .07*want {
			t.Errorf("%d servers: wait %v, want %v", c, got, want)
		}
	}
}

// Of one time, the event that was set first is the first; no time goes back.
func TestClockOrder(t *testing.T) {
	c := &clock{}
	rng := rand.New(rand.NewPCG(1, 1))
	type key struct {
		at float64
		n  int
	}
	var got []key
	for n := range 5000 {
		at := float64(rng.IntN(50))
		c.at(at, func() { got = append(got, key{c.now, n}) })
	}
	c.run(100)
	if len(got) != 5000 {
		t.Fatalf("%d events of 5000", len(got))
	}
	for i := 1; i < len(got); i++ {
		if a, b := got[i-1], got[i]; a.at > b.at || a.at == b.at && a.n > b.n {
			t.Fatalf("event %v before %v", a, b)
		}
	}
}

// A disk's writer waits for what the cache does not take, no longer.
func TestDisk(t *testing.T) {
	c := &clock{}
	d := &disk{c: c, rate: 100, cache: 1000}
	var at []float64
	for range 15 { // 1,500 bytes at once: 500 more than the cache
		d.write(100, func() { at = append(at, c.now) })
	}
	c.run(100)
	for i, got := range at {
		if want := max(0, float64(i-9)); math.Abs(got-want) > 1e-12 {
			t.Errorf("write %d is done at %v, want %v", i, got, want)
		}
	}
}
