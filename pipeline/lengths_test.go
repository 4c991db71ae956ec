package pipeline_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/eusn-stream/eusn-stream/internal/testing/pipelinetest"
	"github.com/eusn-stream/eusn-stream/pipeline"
	"github.com/eusn-stream/eusn-stream/reservoir"
)

// A stage refuses a model with windows of other lengths than in the readout's training.
func TestStageRefusesOtherLengths(t *testing.T) {
	m := pipelinetest.Model(t, 3, reservoir.Policy{Kind: reservoir.Window, Length: 100, Hop: 50})
	m.Training.MaxLength = 200
	s := &pipeline.Worker{Job: pipeline.Job{Model: m, NewEngine: pipelinetest.Generic, Dial: func(context.Context, string) (*nats.Conn, error) { return nil, fmt.Errorf("dialled") }}}
	if err := s.Run(t.Context()); !errors.Is(err, reservoir.ErrModel) || !strings.Contains(err.Error(), "train again with --policy window --length 100 --hop 50") {
		t.Errorf("got %v, want the model refused", err)
	}
}
