//go:build !linux || !cgo || nonvml || !(amd64 || arm64)

package telemetry

import "fmt"

// Reader cannot be opened in this build.
type Reader struct{}

// Open returns ErrUnavailable.
func Open() (*Reader, error) {
	return nil, fmt.Errorf("telemetry: %w: this build has no GPU telemetry (it needs Linux on amd64 or arm64, cgo, and no build tag nonvml)", ErrUnavailable)
}

// Read is never called.
func (*Reader) Read() ([]Reading, error) { return nil, ErrUnavailable }

// Close does nothing.
func (*Reader) Close() error { return nil }
