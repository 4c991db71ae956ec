package bench

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/eusn-stream/eusn-stream/internal/cli"
	"github.com/eusn-stream/eusn-stream/internal/telemetry"
)

// leastEnergyTime: the energy counter of a card is brought up to date some ten
// times a second, which then is an error of a tenth at most.
const leastEnergyTime = time.Second

// rowEnergy is the energy of a card while an engine worked without a pause, including all other work on the card.
type rowEnergy struct {
	Joules  float64 `json:"joules_per_mstep,omitzero"`
	Watts   float64 `json:"watts,omitzero"`
	Missing string  `json:"energy,omitzero"` // why the two are absent
}

// measureEnergy runs the engine for a while between two readings of its card's energy counter. A value missing on the
// card is left out.
func (b *engineBench) measureEnergy(ctx context.Context, pci string, d time.Duration) error {
	r, err := telemetry.Open()
	if err != nil {
		b.energy.Missing = "not measured: " + cli.ErrorText(err)
		return nil
	}
	defer r.Close()
	from, err := energyOf(r, pci)
	begin, calls := time.Now(), 0
	for ; err == nil && (calls == 0 || time.Since(begin) < d); calls++ {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := b.engine.Advance(b.in, b.runs, nil); err != nil {
			return err
		}
	}
	took := time.Since(begin)
	var to float64
	if err == nil {
		to, err = energyOf(r, pci)
	}
	if err == nil && to <= from {
		err = fmt.Errorf("the card's energy counter did not change for %v", took.Round(time.Millisecond))
	}
	if err != nil {
		b.energy.Missing = "not measured: " + cli.ErrorText(err)
		return nil
	}
	steps := float64(b.shape.streams) * float64(b.shape.steps) * float64(calls)
	b.energy = rowEnergy{Joules: (to - from) / steps * 1e6, Watts: (to - from) / took.Seconds()}
	return nil
}

// energyOf reads a card's counter, in joules.
func energyOf(r *telemetry.Reader, pci string) (float64, error) {
	list, err := r.Read()
	if err != nil {
		return 0, err
	}
	for _, v := range list {
		switch {
		case v.PCI != pci:
		case slices.Contains(v.Missing, "energy_j"):
			return 0, fmt.Errorf("%s has no energy counter", v.Name)
		default:
			return v.Energy, nil
		}
	}
	return 0, fmt.Errorf("NVML has no card at %s", pci)
}
