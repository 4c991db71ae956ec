package engine

import (
	"errors"
	"fmt"
	"math"

	"github.com/eusn-stream/eusn-stream/internal/kernel"
	"github.com/eusn-stream/eusn-stream/readout"
	"github.com/eusn-stream/eusn-stream/reservoir"
)

// CheckCall is the first step of every engine's Advance: it refuses a call
// before any state changes. steps returns the number of samples of a slot.
func CheckCall(e interface {
	reservoir.Engine
	Steps(slot int32) uint64
}, inputs []float32, runs []reservoir.Run, scores []float32) error {
	if err := CheckRuns(e, inputs, runs, scores); err != nil {
		return err
	}
	return CheckInputs(inputs, e.Network().Spec.Channels)
}

// CheckRuns is CheckCall without the values of the inputs.
func CheckRuns(e interface {
	Network() *reservoir.Network
	Slots() int
	ScoreWidth() int
	Steps(slot int32) uint64
}, inputs []float32, runs []reservoir.Run, scores []float32) error {
	c := e.Network().Spec.Channels
	if len(inputs)%c != 0 {
		return fmt.Errorf("reservoir: %d input values, want a multiple of %d channels", len(inputs), c)
	}
	samples, emits := len(inputs)/c, 0
	if samples > math.MaxInt32 { // no run could name them; and no count of samples overflows below
		return fmt.Errorf("reservoir: %d samples in a call, want at most %d", samples, math.MaxInt32)
	}
	for i, r := range runs {
		switch {
		case r.Slot < 0 || int(r.Slot) >= e.Slots():
			return fmt.Errorf("reservoir: run %d: slot %d, want 0 to %d", i, r.Slot, e.Slots()-1)
		case r.From < 0 || r.To < r.From || int(r.To) > samples:
			return fmt.Errorf("reservoir: run %d: samples [%d, %d) of %d", i, r.From, r.To, samples)
		case e.Steps(r.Slot)+uint64(samples) > reservoir.MaxSteps && !r.Reset:
			return fmt.Errorf("reservoir: run %d: slot %d has taken %d samples, a sequence has at most %d", i, r.Slot, e.Steps(r.Slot), uint64(reservoir.MaxSteps))
		}
		if r.Emit {
			emits++
		}
	}
	if want := emits * e.ScoreWidth(); len(scores) < want {
		return fmt.Errorf("reservoir: room for %d scores, want %d (%d emitting runs of %d)", len(scores), want, emits, e.ScoreWidth())
	}
	return nil
}

// CheckInputs refuses samples that are not finite or beyond MaxInput, with
// *InputError for the first. Good samples pass at vector speed.
func CheckInputs(inputs []float32, channels int) error {
	if kernel.Within(inputs, reservoir.MaxInput) {
		return nil
	}
	return CheckSamples(inputs, channels)
}

// CheckSamples is CheckInputs value by value; inputs do not escape.
func CheckSamples(inputs []float32, channels int) error {
	for i, x := range inputs {
		if !(x >= -reservoir.MaxInput && x <= reservoir.MaxInput) {
			return &reservoir.InputError{Sample: i / channels, Channel: i % channels, Value: x}
		}
	}
	return nil
}

// CheckSlot refuses a slot the engine does not have.
func CheckSlot(e interface{ Slots() int }, slot int32) error {
	if slot < 0 || int(slot) >= e.Slots() {
		return fmt.Errorf("reservoir: slot %d, want 0 to %d", slot, e.Slots()-1)
	}
	return nil
}

// CheckReadouts validates readouts for a network and returns the number of
// their scores.
func CheckReadouts(net *reservoir.Network, readouts []*readout.Linear) (width int, err error) {
	var errs []error
	for _, h := range readouts {
		if err := h.Validate(); err != nil {
			errs = append(errs, err)
			continue
		}
		if h.Features() != net.Spec.FeatureCount() {
			errs = append(errs, fmt.Errorf("reservoir: readout %q: want %d features as the network has, got %d", h.Name, net.Spec.FeatureCount(), h.Features()))
		}
		if width > math.MaxInt32-h.Columns() {
			errs = append(errs, fmt.Errorf("reservoir: readouts: want at most %d scores in all", math.MaxInt32))
			break
		}
		width += h.Columns()
	}
	return width, errors.Join(errs...)
}
