package gateway

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/eusn-stream/eusn-stream/codec"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/wire"
	"github.com/eusn-stream/eusn-stream/internal/testing/pipelinetest"
)

// A running gateway notices a job with another input format: a job with a later
// beginning, a job with imported states, and a recreated job.
func TestLateEntry(t *testing.T) {
	const digits = "0123456789abcdef0123456789abcdef"
	enc, err := codec.NewPredictionEncoder(codec.PredictionMeta{Model: "m", Readout: "r", Labels: []string{"a", "b"}, Columns: 1})
	if err != nil {
		t.Fatal(err)
	}
	body, err := enc.Encode(nil)
	if err != nil {
		t.Fatal(err)
	}
	arrow, other := wire.Entry{Identity: wire.Identity{Network: digits, Readout: digits}}, wire.Entry{Identity: wire.Identity{Network: digits, Readout: digits}, Input: "json"}
	imported := wire.Entry{Identity: wire.Identity{Network: digits}}
	for _, c := range []struct {
		name    string
		entries []*wire.Entry // nil: the job is deleted
	}{
		{"begins later", []*wire.Entry{&other}},
		{"imported states", []*wire.Entry{&imported, &other}},
		{"begun anew", []*wire.Entry{&arrow, nil, &other}},
		{"no job", []*wire.Entry{&arrow, nil}},
		{"as the gateway publishes", []*wire.Entry{&imported, &arrow}},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRig(t, nil)
			asked := make(chan string, 1<<16)
			g := r.startGateway(t.TempDir(), func(c *Config) {
				c.entryEvery = 5 * time.Millisecond
				c.Reads = func(input string) error {
					asked <- input
					if input != "" {
						return errors.New("it reads " + input)
					}
					return nil
				}
			})
			wrong := false
			for _, e := range c.entries {
				if err := g.sendMessage(t.Context(), Message{Key: "k", Payload: []byte("1 2")}); err != nil {
					t.Fatal(err)
				}
				if e == nil {
					if err := r.js.DeleteStream(t.Context(), wire.OutputStream(wire.DefaultJob)); err != nil {
						t.Fatal(err)
					}
					continue
				}
				if _, err := r.js.CreateOrUpdateStream(t.Context(), jetstream.StreamConfig{Name: wire.OutputStream(wire.DefaultJob), Subjects: []string{"eusn.out.*"}}); err != nil {
					t.Fatal(err)
				}
				if _, err := r.js.PublishMsg(t.Context(), &nats.Msg{Subject: wire.EntrySubject(wire.DefaultJob), Header: e.Header(), Data: body}); err != nil {
					t.Fatal(err)
				}
				wrong = wrong || e.Input != ""
				for input := "none"; input != e.Input; {
					select {
					case input = <-asked:
					case <-time.After(pipelinetest.Patience):
						t.Fatal("the gateway does not look")
					}
				}
			}
			if !wrong {
				return // the gateway ends without an error
			}
			select {
			case err := <-g.done:
				if !errors.Is(err, ErrOtherInput) || !strings.Contains(err.Error(), "it reads json") {
					t.Error(err)
				}
				g.done <- nil
			case <-time.After(pipelinetest.Patience):
				t.Error("the gateway goes on")
			}
			if err := g.Take(t.Context(), &Message{Key: "k", Payload: []byte("1 2")}); !errors.Is(err, ErrStopped) {
				t.Errorf("after its end: %v", err)
			}
		})
	}
}
