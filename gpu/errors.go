package gpu

import (
	"errors"
	"fmt"

	"github.com/eusn-stream/eusn-stream/gpu/internal/cuda"
	"github.com/eusn-stream/eusn-stream/gpu/internal/kernels"
	"github.com/eusn-stream/eusn-stream/reservoir"
)

// ErrMemory reports a device with too little free memory.
var ErrMemory = errors.New("out of device memory")

// ErrSelfTest reports a device whose bits differ from the generic engine.
var ErrSelfTest = errors.New("the device does not compute the canonical bits")

// ErrTF32 reports a network unsuitable for the requested products.
var ErrTF32 = kernels.ErrTF32

// UnavailableError reports the reason for having no GPU: no driver, an old
// driver, no device, or a build without GPU support.
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

// classify converts an error of the driver into a type of this package.
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

// MemoryError reports a pool of states too large for the device. It is
// ErrMemory.
type MemoryError struct {
	Device      string
	Slots, Room int    // requested, and the number that fits
	Need, Free  uint64 // bytes
}

func (e *MemoryError) Error() string {
	const mib = 1 << 20
	return fmt.Sprintf("gpu: %d states and buffers need %d MiB, %s has %d MiB free, room for %d states; use fewer slots or shards, or a CPU engine",
		e.Slots, (e.Need+mib-1)/mib, e.Device, e.Free/mib, e.Room)
}

// Is makes errors.Is(err, ErrMemory) work.
func (e *MemoryError) Is(target error) bool { return target == ErrMemory }

// LostError reports an engine that cannot continue because its device failed
// during its work. It is reservoir.ErrLost.
type LostError struct {
	Device string
	Reason error
}

func (e *LostError) Error() string {
	return fmt.Sprintf("gpu: %s failed, and the states it held are gone: %v", e.Device, e.Reason)
}

// Unwrap returns both ErrLost and the reason.
func (e *LostError) Unwrap() []error { return []error{reservoir.ErrLost, e.Reason} }
