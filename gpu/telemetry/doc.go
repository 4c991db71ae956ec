// Package telemetry reads what NVIDIA GPUs say of themselves through NVML, the
// driver's management library: energy, power, memory, utilisation, temperature.
//
// The library (libnvidia-ml.so.1) is opened at run time, as the driver itself
// is, so that a program with this package starts without it; outside linux and
// cgo, Open says that the build cannot. A Reader may be used by several
// goroutines at once; every reading asks the driver, which takes up to some
// milliseconds, so once a second is often enough.
package telemetry

import (
	"errors"
	"fmt"
)

// Library is the file that Open opens.
var Library = "libnvidia-ml.so.1"

// ErrUnavailable is a machine, or a build, without NVML.
var ErrUnavailable = errors.New("no NVIDIA management library")

// Reading is one GPU at one moment. What a card or driver does not tell is
// listed in Missing and 0 here.
type Reading struct {
	Index       int     `json:"index"`         // in NVML's order
	UUID        string  `json:"uuid"`          // "GPU-8f3c..."
	Name        string  `json:"name"`          // "NVIDIA H200"
	PCI         string  `json:"pci"`           // "0000:1b:00.0", as gpu.Device.PCI
	Energy      float64 `json:"energy_j"`      // joules since the driver was loaded: subtract two readings
	Power       float64 `json:"power_w"`       // watts, a mean over about a second on recent cards
	MemoryUsed  uint64  `json:"memory_used"`   // bytes, of all programs
	MemoryTotal uint64  `json:"memory_total"`  // bytes
	Utilisation float64 `json:"utilisation"`   // share of the last sampling period in which a kernel ran, 0 to 1
	MemoryBusy  float64 `json:"memory_busy"`   // share in which memory was read or written, 0 to 1
	Temperature float64 `json:"temperature_c"` // degrees Celsius

	Missing []string `json:"missing,omitempty"` // fields' names in JSON
}

// code is a result of NVML's.
type code int

// failure says which call failed.
type failure struct {
	op   string
	code code
	text string
}

func (f *failure) Error() string {
	return fmt.Sprintf("telemetry: %s: %s (error %d)", f.op, f.text, f.code)
}
