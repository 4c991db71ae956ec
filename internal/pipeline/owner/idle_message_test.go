package owner

import (
	"fmt"
	"strings"
	"testing"

	"github.com/eusn-stream/eusn-stream/internal/natsserver"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/store"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/wire"
	"github.com/eusn-stream/eusn-stream/internal/testing/pipelinetest"
)

// The server assigns an end event to the right partition.
func TestIdleKeyIsInItsPartition(t *testing.T) {
	for _, subject := range []string{wire.DefaultInputSubject, "plant.*.line.*.sensor.*", "plant.*.end", "rest.*.b.>", "all.>", "press.*.vibration mill.>"} {
		t.Run(subject, func(t *testing.T) { idleKeys(t, subject) })
	}
}

func idleKeys(t *testing.T, subject string) {
	pattern, err := wire.ParsePattern(subject)
	if err != nil {
		t.Fatal(err)
	}
	_, js := pipelinetest.Connect(t, pipelinetest.Server(t, natsserver.Options{}))
	c := store.Layout{Job: "where", Input: pattern, Partitions: 64, Replicas: 1}
	if err := store.EnsureStreams(t.Context(), js, c, pipelinetest.Log(t)); err != nil {
		t.Fatal(err)
	}
	in, err := js.Stream(t.Context(), wire.InputStream(c.Job))
	if err != nil {
		t.Fatal(err)
	}
	for p := range c.Partitions {
		ack, err := js.PublishMsg(t.Context(), ownMessage(c.Input, c.Partitions, p, wire.KindIdle, []byte("{}")))
		if err != nil {
			t.Fatal(err)
		}
		m, err := in.GetMsg(t.Context(), ack.Sequence)
		if err != nil {
			t.Fatal(err)
		}
		if want := fmt.Sprintf("where.in.%d.", p); !strings.HasPrefix(m.Subject, want) {
			t.Errorf("stored on %s, want %s*", m.Subject, want)
		}
	}
}
