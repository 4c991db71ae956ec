// Command recipe gives the peers of tools/peers a bank to compute, and what this
// project's engine makes of it.
//
//	recipe NAME CHANNELS
//
// It prints one JSON object: the members of the bank of that name (one of kind
// mixed, see docs/mixed-bank.md), a few short series of transformed inputs, and the
// features that the engine has after them.
package main

import (
	"encoding/json"
	"fmt"
	"log"
	"math/rand/v2"
	"os"
	"strconv"

	"github.com/eusn-stream/eusn-stream/reservoir"
	"github.com/eusn-stream/eusn-stream/reservoir/cpu"
)

const (
	streams = 3
	samples = 96 // more than the largest lag
)

// bank is what is printed.
type bank struct {
	Taps       int                  // so many members, the first, have taps
	MaxLag     int                  // samples
	Activation reservoir.Activation // of every unit
	Members    []reservoir.Member
	Inputs     [][][]float32 // of each stream and sample
	Features   [][]float32   // of each stream
}

func main() {
	log.SetFlags(0)
	if len(os.Args) != 3 {
		log.Fatal("usage: recipe NAME CHANNELS")
	}
	channels, err := strconv.Atoi(os.Args[2])
	if err != nil {
		log.Fatalf("recipe: channels %q: want a number", os.Args[2])
	}
	b, err := draw(os.Args[1], channels)
	if err == nil {
		err = json.NewEncoder(os.Stdout).Encode(b)
	}
	if err != nil {
		log.Fatal(err)
	}
}

func draw(name string, channels int) (*bank, error) {
	spec, err := reservoir.Bank(name, channels)
	if err != nil {
		return nil, err
	}
	if spec.Kind != reservoir.Mixed {
		return nil, fmt.Errorf("recipe: %s is of kind %s, want one of kind %s", name, spec.Kind, reservoir.Mixed)
	}
	spec = spec.ForLength(256) // as "eusn-stream bench" has it
	net, err := reservoir.Draw(spec)
	if err != nil {
		return nil, err
	}
	engine, err := cpu.New(net, streams, cpu.Options{Threads: 1})
	if err != nil {
		return nil, err
	}
	defer engine.Close()
	b := &bank{Taps: spec.Taps.Members, MaxLag: spec.Taps.MaxLag, Activation: spec.Taps.Activation, Members: net.Members}
	rng := rand.New(rand.NewPCG(1, 1))
	for s := range streams {
		raw := make([]float32, samples*channels)
		for i := range raw {
			raw[i] = float32(rng.NormFloat64())
		}
		features := make([]float32, spec.FeatureCount())
		if err := engine.Advance(raw, []reservoir.Run{{Slot: int32(s), To: samples}}, nil); err != nil {
			return nil, err
		}
		if err := engine.Features(int32(s), features); err != nil {
			return nil, err
		}
		b.Inputs, b.Features = append(b.Inputs, transformed(net, raw)), append(b.Features, features)
	}
	return b, nil
}

// transformed is what the members see of a series.
func transformed(net *reservoir.Network, raw []float32) [][]float32 {
	var rows [][]float32
	var previous []float32
	for c := net.Spec.Channels; len(raw) > 0; previous, raw = raw[:c], raw[c:] {
		row := make([]float32, net.Spec.Inputs())
		net.Transform(row, raw[:c], previous)
		rows = append(rows, row)
	}
	return rows
}
