package bench

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/eusn-stream/eusn-stream/internal/cli"
	"github.com/eusn-stream/eusn-stream/reservoir"
)

// benchOptions are the flags of bench. Empty lists mean the default shapes.
type benchOptions struct {
	units, inputs, streams, steps, threads []int
	bank                                   int
	recipes                                []string
	random                                 bool
	only                                   string
	time                                   time.Duration
	partitions                             []int
	batch                                  int
	dir, profile                           string
	rows                                   []int    // of a small message
	parts                                  []string // of the measurement of small messages
	rounds                                 int
}

// onlyMessages is a value of --only that is not part of all.
const onlyMessages = "messages"

// Parts of "bench --only messages".
const (
	partCPU     = "cpu"     // CPU time a message, compared with plain JetStream's
	partLatency = "latency" // of 200 producers of 10 messages a second
	partBacklog = "backlog" // how fast stored messages are worked off
	partHalf    = "half"    // latency at half of the measured rate
)

var messageParts = []string{partCPU, partLatency, partBacklog, partHalf}

// checkOptions refuses impossible measurements. The network checks further bounds.
func (o *benchOptions) checkOptions() error {
	if err := o.checkNames(); err != nil {
		return err
	}
	if err := o.checkNumbers(); err != nil {
		return err
	}
	engines := *o
	engines.recipes = nil // the stage also has these
	return cli.CheckRules([]cli.Rule{
		{Broken: o.only == onlyMessages && o.shaped(), Message: "--only messages: its network is one of 100 units, so --units, --inputs, --streams, --steps, --threads, --members, --bank and --random do not apply"},
		{Broken: o.only == "stage" && engines.shaped(), Message: "--only stage: its network is one of 100 units or a bank of --bank, so --units, --inputs, --streams, --steps, --threads, --members and --random do not apply"},
	})
}

// checkNames refuses unknown names of measurements and recipes.
func (o *benchOptions) checkNames() error {
	if !slices.Contains([]string{"", "engine", "stage", onlyMessages}, o.only) {
		return fmt.Errorf("--only %s: want engine, stage or messages", o.only)
	}
	for _, part := range o.parts {
		if !slices.Contains(messageParts, part) {
			return fmt.Errorf("--part %q: want some of %s", part, strings.Join(messageParts, ", "))
		}
	}
	for _, name := range o.recipes {
		if !slices.Contains(reservoir.Banks, name) {
			return fmt.Errorf("--bank %q: want some of %s", name, strings.Join(reservoir.Banks, ", "))
		}
	}
	return nil
}

// checkNumbers refuses numbers outside their bounds.
func (o *benchOptions) checkNumbers() error {
	if err := cli.CheckRules([]cli.Rule{
		{Broken: o.time <= 0 || o.time > time.Hour, Message: fmt.Sprintf("--time %v: want more than 0, at most 1h", o.time)},
		{Broken: o.bank < 0, Message: fmt.Sprintf("--members %d: want 0 or more members", o.bank)},
		{Broken: len(o.recipes) > 0 && (o.bank > 0 || len(o.units) > 0), Message: "--bank has its own members and units: leave --members and --units out"},
	}); err != nil {
		return err
	}
	for _, list := range []struct {
		flag   string
		values []int
		most   int
	}{
		{"--units", o.units, 8192}, {"--inputs", o.inputs, 4096}, {"--streams", o.streams, 1 << 24},
		{"--steps", o.steps, 1 << 20}, {"--threads", o.threads, 1024}, {"--partitions", o.partitions, 4096},
		{"--batch", []int{o.batch}, 1 << 24}, {"--rows", o.rows, 1000}, {"--rounds", []int{o.rounds}, 1000},
	} {
		for _, v := range list.values {
			if v < 1 || v > list.most {
				return fmt.Errorf("%s %d: want 1 to %d", list.flag, v, list.most)
			}
			if (o.bank > 0 || len(o.recipes) > 0) && list.flag == "--inputs" && v%2 != 0 {
				return fmt.Errorf("--inputs %d of a bank: want an even number, half of them are differences", v)
			}
		}
	}
	return nil
}

// shaped reports whether a flag asks for engines in particular.
func (o *benchOptions) shaped() bool { return len(o.threads) > 0 || o.reshaped() }

// reshaped reports whether a flag selects other shapes than the default shapes.
func (o *benchOptions) reshaped() bool {
	return o.bank > 0 || len(o.recipes) > 0 || o.random || len(o.units)+len(o.inputs)+len(o.streams)+len(o.steps) > 0
}

func (o *benchOptions) wants(part string) bool {
	return len(o.parts) == 0 || slices.Contains(o.parts, part)
}
