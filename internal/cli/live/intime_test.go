package live

import (
	"errors"
	"testing"
	"time"
)

// The program's end does not wait for a blocked driver.
func TestInTime(t *testing.T) {
	hang := make(chan struct{})
	defer close(hang)
	if err := inTime(func() error { <-hang; return nil }, time.Millisecond); err == nil || err.Error() != "no answer within 1ms" {
		t.Errorf("a call that hangs: %v", err)
	}
	want := errors.New("no")
	if err := inTime(func() error { return want }, time.Hour); err != want {
		t.Errorf("a call that fails: %v", err)
	}
}
