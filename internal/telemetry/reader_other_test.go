//go:build !linux || !cgo || nonvml || !(amd64 || arm64)

package telemetry

import (
	"errors"
	"strings"
	"testing"
)

// The error of a build without telemetry lists the requirements.
func TestLeftOut(t *testing.T) {
	r, err := Open()
	if r != nil || !errors.Is(err, ErrUnavailable) || !strings.Contains(err.Error(), "this build has no GPU telemetry") {
		t.Errorf("%v, %v: want ErrUnavailable with a sentence", r, err)
	}
}
