package gpu

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/eusn-stream/eusn-stream/gpu/internal/cuda"
)

// Device is a GPU of this machine.
type Device struct {
	Index         int    // in the driver's order, which CUDA_VISIBLE_DEVICES may change
	Name          string // as in "NVIDIA H200"
	PCI           string // bus address, as in "0000:1b:00.0"
	Memory        uint64 // bytes
	Capability    string // compute capability, as in "9.0"
	DriverVersion string // the newest CUDA the driver offers, as in "12.4"
}

// minMajor is the least compute capability the kernels are compiled for.
const minMajor = 8

// usable opens the driver and lists the devices able to run the kernels.
func usable() (*cuda.Driver, []cuda.Device, error) {
	d, err := cuda.Open()
	if err != nil {
		return nil, nil, classify(err)
	}
	all, err := d.Devices()
	if err != nil {
		return nil, nil, classify(err)
	}
	list := slices.DeleteFunc(slices.Clone(all), func(v cuda.Device) bool { return v.Major < minMajor })
	if len(list) == 0 {
		v := all[0]
		return nil, nil, &UnavailableError{&cuda.Error{Kind: cuda.NoDevice, Op: "choose a device",
			Detail: fmt.Sprintf("%s has compute capability %d.%d, want %d.0 or newer", v.Name, v.Major, v.Minor, minMajor)}}
	}
	return d, list, nil
}

// Devices lists the usable GPUs, at least one if err is nil. The error without
// a GPU is *UnavailableError.
func Devices() ([]Device, error) {
	d, found, err := usable()
	if err != nil {
		return nil, err
	}
	list := make([]Device, len(found))
	for i, v := range found {
		list[i] = Device{v.Ordinal, v.Name, v.PCI, v.Memory, fmt.Sprintf("%d.%d", v.Major, v.Minor), d.Version()}
	}
	return list, nil
}

// lostDevices lists the devices on which this process lost an engine.
var lostDevices struct {
	sync.Mutex
	by map[string]bool // by PCI address
}

func markLost(pci string) {
	lostDevices.Lock()
	defer lostDevices.Unlock()
	if lostDevices.by == nil {
		lostDevices.by = map[string]bool{}
	}
	lostDevices.by[pci] = true
}

func wasLost(v cuda.Device) bool {
	lostDevices.Lock()
	defer lostDevices.Unlock()
	return lostDevices.by[v.PCI]
}

// open takes the device with the most free memory, the first of equals: so
// engines spread over the devices of a machine, and next to other programs.
func open(skipLost bool) (*cuda.Context, error) {
	d, list, err := usable()
	if err != nil {
		return nil, err
	}
	if skipLost {
		if list = slices.DeleteFunc(list, wasLost); len(list) == 0 {
			return nil, &UnavailableError{&cuda.Error{Kind: cuda.NoDevice, Op: "choose a device", Detail: "every one has failed in this process"}}
		}
	}
	type candidate struct {
		*cuda.Context
		free uint64
	}
	var found []candidate
	var errs []error
	for _, v := range list {
		c, err := d.Context(v)
		if err == nil {
			var free uint64
			if free, _, err = c.Memory(); err == nil {
				found = append(found, candidate{c, free})
				continue
			}
			c.Close()
		}
		errs = append(errs, err)
	}
	if len(found) == 0 {
		return nil, classify(errors.Join(errs...))
	}
	slices.SortStableFunc(found, func(a, b candidate) int { return cmp.Compare(b.free, a.free) })
	for _, c := range found[1:] {
		c.Close()
	}
	return found[0].Context, nil
}
