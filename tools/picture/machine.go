package main

import (
	"context"
	"fmt"
	"math"
	"path/filepath"
	"slices"

	"github.com/eusn-stream/eusn-stream/internal/machine"
	"github.com/eusn-stream/eusn-stream/offline/archive"
)

const (
	hop     = 80 // samples from one prediction to the next, and in a message: as in demo
	channel = 3
)

// phase is a stretch of the machine's life.
type phase struct {
	class   string
	samples int
}

// life is the machine's sequence of states. Phases are whole hops, so that a message is
// in one phase.
var life = []phase{{"healthy", 15 * hop}, {"outer-race", 17 * hop}, {"healthy", 13 * hop}, {"imbalance", 15 * hop}}

// Faults around it, in samples.
const (
	killed               = 20 * hop // the worker is killed after this number of answered samples
	stuckFrom, stuckTo   = 35 * hop, 41 * hop
	missFrom, missTo     = 51 * hop, 51*hop + 50
	stuckChan, missChan  = 2, 0
	seed                 = 5 // not the seed of demo's training
	nanosecondsPerSample = 1e9 / machine.DefaultRate
)

// shownMachine is the machine in the picture: its samples, and the stage's predictions
// for them.
type shownMachine struct {
	channels    []string
	values      []float32 // samples x channels
	label       []string  // of each sample
	predictions []prediction
}

func (m *shownMachine) samples() int { return len(m.label) }

// newMachine joins series of the simulation to a life, and disturbs two sensors.
func newMachine(ctx context.Context) (*shownMachine, error) {
	longest := slices.MaxFunc(life, func(a, b phase) int { return a.samples - b.samples })
	d, err := machine.Simulate(ctx, machine.Options{Train: 4, Test: 8, Seed: seed, Samples: longest.samples}, nil)
	if err != nil {
		return nil, err
	}
	m := &shownMachine{channels: d.Channels}
	unused := d.Part(archive.Test)
	for _, p := range life {
		k := slices.IndexFunc(unused, func(i int) bool { return d.Classes[d.Series[i].Label] == p.class })
		m.values = append(m.values, d.Series[unused[k]].Values[:p.samples*channel]...)
		m.label = append(m.label, slices.Repeat([]string{p.class}, p.samples)...)
		unused = slices.Delete(unused, k, k+1)
	}
	for i := stuckFrom; i < stuckTo; i++ {
		m.values[i*channel+stuckChan] = m.values[stuckFrom*channel+stuckChan]
	}
	for i := missFrom; i < missTo; i++ {
		m.values[i*channel+missChan] = float32(math.NaN())
	}
	return m, nil
}

// record writes the machine's first samples as a recording, and returns its path.
func (m *shownMachine) record(dir string, samples int) (string, error) {
	path := filepath.Join(dir, fmt.Sprintf("machine-%d.parquet", samples))
	w, err := archive.WriteRecording(path, archive.RecordingInfo{Name: "machine", Channels: m.channels, Source: archive.Provenance{Format: "simulation"}})
	if err != nil {
		return "", err
	}
	c := archive.RecordingChunk{Values: m.values[:samples*channel]}
	for i := range samples {
		c.Stream, c.Seq = append(c.Stream, "machine-1"), append(c.Seq, int64(i+1))
		c.Time = append(c.Time, int64(float64(i)*nanosecondsPerSample))
		c.End, c.Label = append(c.End, false), append(c.Label, m.label[i])
	}
	if err := w.Write(&c); err != nil {
		w.Abort()
		return "", err
	}
	return path, w.Close()
}
