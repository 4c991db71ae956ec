//go:build linux && cgo && !nonvml && (amd64 || arm64)

package telemetry

/*
#cgo CFLAGS: -O2 -Wall
#cgo LDFLAGS: -ldl
#include <stdlib.h>
#include "slots.h"
*/
import "C"

import (
	"errors"
	"fmt"
	"sync"
	"unsafe"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
)

// tables guards the global state: the slots, and go-nvml's choice of versions. Open and Close
// change this state, readings use it.
var tables sync.RWMutex

// Reader is an opened NVML. All Readers of a program use the library opened last.
type Reader struct {
	lib nvml.Interface // nil after Close
}

// Open opens NVML. Without NVML the error is ErrUnavailable.
func Open() (*Reader, error) {
	tables.Lock()
	defer tables.Unlock()
	if err := bindLibrary(Library); err != nil {
		return nil, fmt.Errorf("telemetry: %w: %w", ErrUnavailable, err)
	}
	lib := nvml.New(nvml.WithLibraryPath(Library))
	if rc := lib.Init(); rc != nvml.SUCCESS {
		return nil, fmt.Errorf("telemetry: %w: nvmlInit: %v (error %d)", ErrUnavailable, rc, rc)
	}
	return &Reader{lib}, nil
}

// bindLibrary binds go-nvml's functions to a library.
func bindLibrary(library string) error {
	path := C.CString(library)
	defer C.free(unsafe.Pointer(path))
	var reason [256]C.char
	if C.eusn_nvml_bind(path, &reason[0], C.size_t(len(reason))) == 0 {
		return errors.New(C.GoString(&reason[0]))
	}
	return nil
}

var errClosed = errors.New("telemetry: the reader is closed")

// Read queries every GPU of the machine, in NVML's order; the PCI address identifies the GPU in
// gpu.Devices. A GPU without an answer is missing in the list, and the error has the reason.
func (r *Reader) Read() ([]Reading, error) {
	tables.RLock()
	defer tables.RUnlock()
	if r.lib == nil {
		return nil, errClosed
	}
	count, rc := r.lib.DeviceGetCount()
	if rc != nvml.SUCCESS {
		return nil, newError("count devices", rc)
	}
	var list []Reading
	var errs []error
	for i := range count {
		v, rc := readDevice(r.lib, i)
		if rc != nvml.SUCCESS {
			errs = append(errs, newError(fmt.Sprintf("device %d", i), rc))
			continue
		}
		list = append(list, v)
	}
	return list, errors.Join(errs...)
}

// readDevice queries one GPU.
func readDevice(lib nvml.Interface, index int) (Reading, nvml.Return) {
	device, rc := lib.DeviceGetHandleByIndex(index)
	if rc != nvml.SUCCESS {
		return Reading{}, rc
	}
	name, rc := device.GetName()
	if rc != nvml.SUCCESS {
		return Reading{}, rc
	}
	pci, rc := device.GetPciInfo()
	if rc != nvml.SUCCESS {
		return Reading{}, rc
	}
	// The driver interface writes the domain with four digits, NVML with eight.
	v := Reading{Index: index, Name: name, PCI: fmt.Sprintf("%04x:%02x:%02x.0", pci.Domain, pci.Bus, pci.Device)}
	v.measure(device)
	return v, nvml.SUCCESS
}

// measure queries optional values. The value of a failed call is not used: the call may have
// written something.
func (v *Reading) measure(device nvml.Device) {
	isKnown := func(rc nvml.Return, fields ...string) bool {
		if rc != nvml.SUCCESS {
			v.Missing = append(v.Missing, fields...)
		}
		return rc == nvml.SUCCESS
	}
	if uuid, rc := device.GetUUID(); isKnown(rc, "uuid") {
		v.UUID = uuid
	}
	if millijoules, rc := device.GetTotalEnergyConsumption(); isKnown(rc, "energy_j") {
		v.Energy = float64(millijoules) / 1e3
	}
	if milliwatts, rc := device.GetPowerUsage(); isKnown(rc, "power_w") {
		v.Power = float64(milliwatts) / 1e3
	}
	if memory, rc := device.GetMemoryInfo(); isKnown(rc, "memory_used", "memory_total") {
		v.MemoryUsed, v.MemoryTotal = memory.Used, memory.Total
	}
	if percent, rc := device.GetUtilizationRates(); isKnown(rc, "utilization", "memory_busy") {
		v.Utilization, v.MemoryBusy = float64(percent.Gpu)/100, float64(percent.Memory)/100
	}
	if celsius, rc := device.GetTemperature(nvml.TEMPERATURE_GPU); isKnown(rc, "temperature_c") {
		v.Temperature = float64(celsius)
	}
}

// newError returns the error of a failed call, with the driver's text.
func newError(op string, rc nvml.Return) error {
	return fmt.Errorf("telemetry: %s: %v (error %d)", op, rc, rc)
}

// Close closes NVML.
func (r *Reader) Close() error {
	tables.Lock()
	defer tables.Unlock()
	if r.lib == nil {
		return nil
	}
	rc := r.lib.Shutdown()
	r.lib = nil
	if rc != nvml.SUCCESS {
		return newError("close", rc)
	}
	return nil
}
