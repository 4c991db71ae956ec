package gpu

import (
	"errors"
	"fmt"

	"github.com/eusn-stream/eusn-stream/gpu/internal/cuda"
	"github.com/eusn-stream/eusn-stream/gpu/internal/kernels"
	"github.com/eusn-stream/eusn-stream/reservoir"
)

// ErrMemory is a device without room for what was asked.
var ErrMemory = errors.New("out of device memory")

// ErrSelfTest is a device that computes other bits than the generic engine.
var ErrSelfTest = errors.New("the device does not compute the canonical bits")

// ErrTF32 is a network that the products asked for cannot compute.
var ErrTF32 = kernels.ErrTF32

// UnavailableError says why no GPU can be used here: no driver, an old one, no
// device, or a build without GPU support.
type UnavailableError struct{ Reason error }

func (e *UnavailableError) Error() string {
	var c *cuda.Error
	if !errors.As(e.Reason, &c) {
		return "gpu: " + e.Reason.Error()
	}
	s := "gpu: " + c.Kind.Error()
	if c.Detail != "" {
		s += " (" + c.Detail + ")"
	}
	return s
}

func (e *UnavailableError) Unwrap() error { return e.Reason }

// classify gives an error of the driver the type that callers know.
func classify(err error) error {
	if err == nil {
		return nil
	}
	for _, k := range []cuda.Kind{cuda.Unsupported, cuda.NoDriver, cuda.OldDriver, cuda.NoDevice} {
		if errors.Is(err, k) {
			return &UnavailableError{err}
		}
	}
	if errors.Is(err, cuda.OutOfMemory) {
		return fmt.Errorf("gpu: %w: %w", ErrMemory, err)
	}
	return fmt.Errorf("gpu: %w", err)
}

// MemoryError is a pool of states that does not fit the device. It is
// ErrMemory.
type MemoryError struct {
	Device      string
	Slots, Room int    // asked for, and how many would fit
	Need, Free  uint64 // bytes
}

func (e *MemoryError) Error() string {
	const mib = 1 << 20
	return fmt.Sprintf("gpu: %d states and buffers need %d MiB, %s has %d MiB free, room for %d states; use fewer slots or shards, or a CPU engine",
		e.Slots, (e.Need+mib-1)/mib, e.Device, e.Free/mib, e.Room)
}

// Is makes errors.Is(err, ErrMemory) work.
func (e *MemoryError) Is(target error) bool { return target == ErrMemory }

// LostError is an engine that cannot continue: its device failed in the middle of
// its work. It is reservoir.ErrLost.
type LostError struct {
	Device string
	Reason error
}

func (e *LostError) Error() string {
	return fmt.Sprintf("gpu: %s failed, and the states it held are gone: %v", e.Device, e.Reason)
}

// Unwrap gives both what it means and why.
func (e *LostError) Unwrap() []error { return []error{reservoir.ErrLost, e.Reason} }
