package pipeline

import (
	"context"
	"errors"
	"testing"

	"github.com/eusn-stream/eusn-stream/internal/natsclient"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/wire"
	"github.com/eusn-stream/eusn-stream/internal/testing/pipelinetest"
)

// A request that times out during the start is retried, a few times.
func TestStartAsksAgain(t *testing.T) {
	book := &pipelinetest.LogBook{}
	r := &run{log: book.Logger()}
	late, calls := context.DeadlineExceeded, 0
	err := r.retryRequest(t.Context(), func() error {
		if calls++; calls < 3 {
			return late
		}
		return nil
	})
	if err != nil || calls != 3 || book.Lines("retrying") != 2 {
		t.Errorf("%d calls, %v", calls, err)
	}
	calls = 0
	if err := r.retryRequest(t.Context(), func() error { calls++; return late }); !errors.Is(err, late) || calls != natsclient.JetStreamAttempts {
		t.Errorf("never answered: %d calls, %v", calls, err)
	}
	calls = 0
	if err := r.retryRequest(t.Context(), func() error { calls++; return wire.ErrRecord }); err != wire.ErrRecord || calls != 1 {
		t.Errorf("another error: %d calls, %v", calls, err)
	}
}
