//go:build !linux || !cgo || nonvml || !(amd64 || arm64)

package telemetry

import (
	"errors"
	"strings"
	"testing"
)

// A build without telemetry says what it would need.
func TestLeftOut(t *testing.T) {
	r, err := Open()
	if r != nil || !errors.Is(err, ErrUnavailable) || !strings.Contains(err.Error(), "this build has no GPU telemetry") {
		t.Errorf("%v, %v: want ErrUnavailable with a sentence", r, err)
	}
}
