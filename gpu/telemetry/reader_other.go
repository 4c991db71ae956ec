//go:build !linux || !cgo

package telemetry

import "fmt"

// Reader cannot be had in this build.
type Reader struct{}

// Open returns ErrUnavailable.
func Open() (*Reader, error) {
	return nil, fmt.Errorf("telemetry: %w: this build has no GPU support (it needs Linux and cgo)", ErrUnavailable)
}

// Read is never reached.
func (*Reader) Read() ([]Reading, error) { return nil, ErrUnavailable }

// Close does nothing.
func (*Reader) Close() error { return nil }
