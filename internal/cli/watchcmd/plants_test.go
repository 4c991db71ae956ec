package watchcmd_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// plant simulates machines of one kind. Every second machine has a fault.
type plant struct {
	name     string
	machines int
	channels int
	rate     float64 // Hz
	noise    float64 // deviation, of signals with an amplitude of about 1
	missing  float64 // share of missing values
	form     string  // objects, values (one per message), lists
	rows     int     // samples in a message of lists
	fault    string  // level, spread, frequency, relation
	size     float64 // of the fault; 1 is about a deviation
}

// plants vary the number of machines, channels and samples, the form of messages, and the fault.
var plants = []plant{
	{"ten pumps, slow", 10, 6, 1, .3, 0, "objects", 1, "level", 1.5},
	{"three machines, single values", 3, 4, 1, .3, 0, "values", 1, "spread", 2},
	{"one machine", 1, 8, 1, .3, 0, "objects", 1, "level", 2},
	{"ten machines, lists", 10, 3, 10, .3, 0, "lists", 10, "frequency", 1},
	{"five machines, missing values", 5, 4, 10, .3, .05, "values", 1, "level", 1.5},
	{"four machines, vibration", 4, 3, 100, .5, 0, "lists", 50, "frequency", 1},
	{"ten machines, fast objects", 10, 6, 100, .3, .02, "objects", 1, "relation", 1},
	{"two machines, kHz", 2, 3, 1000, .5, 0, "lists", 250, "spread", 1.5},
	{"twenty machines, noisy", 20, 5, .5, 1, 0, "objects", 1, "level", 2},
	{"six machines, weak fault", 6, 5, 5, .5, .01, "objects", 1, "level", .5},
}

// simulated is a machine of a plant.
type simulated struct {
	p      plant
	r      *rand.Rand
	own    []float64 // offset, frequency and phase of each channel
	load   float64   // common to all channels, slow
	faulty bool      // has a fault later
	n      int
}

func (p plant) machine(k int) *simulated {
	m := &simulated{p: p, r: rand.New(rand.NewPCG(uint64(k), uint64(len(p.name)))), faulty: k%2 == 0}
	shape := rand.New(rand.NewPCG(99, uint64(len(p.name)))) // channels of a kind are alike
	for range p.channels {
		m.own = append(m.own, 10*shape.Float64()+.2*m.r.NormFloat64(), (.03+.15*shape.Float64())*(1+.03*m.r.NormFloat64()), 2*math.Pi*m.r.Float64())
	}
	return m
}

// sample returns the next sample. broken: the fault has begun.
func (m *simulated) sample(broken bool) []float64 {
	broken = broken && m.faulty
	t := float64(m.n)
	if m.n++; m.p.rate <= 10 {
		t *= math.Min(1, 10/m.p.rate) / 2
	}
	m.load = .98*m.load + .1*m.r.NormFloat64()
	x := make([]float64, m.p.channels)
	for c := range x {
		offset, frequency, phase := m.own[3*c], m.own[3*c+1], m.own[3*c+2]
		noise, load := m.p.noise*m.r.NormFloat64(), m.load
		if broken {
			switch size := m.p.size; m.p.fault {
			case "level":
				if c == 0 {
					offset += size
				}
			case "spread":
				noise *= size
			case "frequency":
				if c == 0 {
					frequency *= 1 + .5*size
				}
			case "relation": // a channel does not follow the load
				load *= 1 - 2*size*float64(c%2)
			}
		}
		x[c] = offset + math.Sin(2*math.Pi*frequency*t+phase) + load + noise
		if m.p.missing > 0 && m.r.Float64() < m.p.missing {
			x[c] = math.NaN()
		}
	}
	return x
}

func (p plant) channel(c int) string { return fmt.Sprintf("sensor%d", c+1) }

// number writes a value; NaN is null.
func number(v float64) string {
	if v != v {
		return "null"
	}
	return fmt.Sprintf("%.4f", v)
}

// writeTables writes the samples of a plant from second to second as tables with labels: a fault
// begins at second fault.
func (p plant) writeTables(t *testing.T, dir string, seconds, fault float64) (healthy, all string) {
	t.Helper()
	healthy, all = filepath.Join(dir, "tables"), filepath.Join(dir, "later.csv")
	if err := os.MkdirAll(healthy, 0o755); err != nil {
		t.Fatal(err)
	}
	var later strings.Builder
	head := "time"
	for c := range p.channels {
		head += "," + p.channel(c)
	}
	later.WriteString("stream," + head + ",label\n")
	begin := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for k := range p.machines {
		m, name := p.machine(k), fmt.Sprintf("m%02d", k)
		var own strings.Builder
		own.WriteString(head + "\n")
		for i := range int(seconds * p.rate) {
			at := float64(i) / p.rate
			row := begin.Add(time.Duration(at * 1e9)).Format("2006-01-02T15:04:05.000Z07:00")
			for _, v := range m.sample(at >= fault) {
				if v == v {
					row += fmt.Sprintf(",%.4f", v)
				} else {
					row += ","
				}
			}
			own.WriteString(row + "\n")
			if at >= learnSeconds {
				label := "normal"
				if at >= fault && m.faulty {
					label = "faulty"
				}
				later.WriteString(name + "," + row + "," + label + "\n")
			}
		}
		if err := os.WriteFile(filepath.Join(healthy, name+".csv"), []byte(own.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(all, []byte(later.String()), 0o644); err != nil {
		t.Fatal(err)
	}
	return healthy, all
}

const learnSeconds = 220
