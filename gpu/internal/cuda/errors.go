package cuda

import "fmt"

// Kind classifies an error, for callers that act on it: errors.Is(err, cuda.NoDriver).
type Kind int

// Kinds of errors. The text gives the remedy, if the remedy is always the same.
const (
	Unsupported Kind = iota + 1 // this build has no driver interface
	NoDriver
	OldDriver
	NoDevice
	OutOfMemory
	LaunchFailed // a kernel did not start, the context still works
	Lost         // the context is unusable, and its device memory is lost
	Failed       // any other refusal of the driver
)

func (k Kind) Error() string {
	switch k {
	case Unsupported:
		return "this build has no GPU support: it needs Linux and cgo (CGO_ENABLED=1 and a C compiler)"
	case NoDriver:
		return "no NVIDIA driver was found: install one, which brings libcuda.so.1"
	case OldDriver:
		return "the NVIDIA driver is too old: install version 450 or newer"
	case NoDevice:
		return "no usable NVIDIA GPU was found"
	case OutOfMemory:
		return "out of GPU memory"
	case LaunchFailed:
		return "the GPU refused a kernel"
	case Lost:
		return "the GPU was lost"
	}
	return "the NVIDIA driver refused a call"
}

// Error is a failure of one call.
type Error struct {
	Kind   Kind
	Op     string // what was being done: "cuInit", "load kernels", ...
	Code   int    // the driver's result, 0 without a result
	Detail string // the driver's or linker's own words, may be empty
}

func (e *Error) Error() string {
	s := "cuda: " + e.Op + ": " + e.Kind.Error()
	if e.Code != 0 {
		s += fmt.Sprintf(" (error %d", e.Code)
		if e.Detail != "" {
			s += ": " + e.Detail
		}
		return s + ")"
	}
	if e.Detail != "" {
		s += " (" + e.Detail + ")"
	}
	return s
}

// Is makes errors.Is(err, cuda.Lost) work.
func (e *Error) Is(target error) bool { return e.Kind == target }

// kindOf sorts the driver's results. Kinds that poison the context for every
// later call are Lost; then only a new process or the release of every
// reference to the context helps.
func kindOf(code int) Kind {
	switch code {
	case 2:
		return OutOfMemory
	case 34, 803, 804: // stub library; driver and library, or device and library, do not match
		return NoDriver
	case 35, 222: // driver older than requested; PTX version not known
		return OldDriver
	case 100, 101, 802: // no device, no such ordinal, not initialized yet
		return NoDevice
	case 701, 704, 705, 708, 712, 713, 720: // refused before anything ran
		return LaunchFailed
	case 4, 46, 214, 220, 226, 709, 999:
		return Lost
	}
	if code >= 700 && code < 800 {
		return Lost
	}
	return Failed
}
