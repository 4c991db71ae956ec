package pipeline

import (
	"strconv"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/eusn-stream/eusn-stream/pipeline/internal/state"
	"github.com/eusn-stream/eusn-stream/pipeline/internal/wire"
)

// safeguard is how a worker keeps to exactly-once. Its zero value makes every check.
// Each field takes the place of one, so that the fault harness can see what that
// check is for; only a build with the tag chaos has any (safeguard_chaos.go).
type safeguard struct {
	// condition, in the place of the fence: under what condition the server
	// takes a commit.
	condition func(m *nats.Msg, r wire.Record)
	// claimed, in the place of refusing: what a claim found of the input, and
	// what is expected of the partition's state.
	claimed func(p *partition, input error) error
	// trusting, while it works: the input is the one it was.
	trusting bool
	// identity, in the place of the model's.
	identity func(wire.Identity) wire.Identity
	// turn, in the place of state.TurnOf: where a producer's number stands.
	turn func(src *state.Source, n uint64) state.Turn
}

// fence makes the server take a commit only if the record before it is still
// the last message, whose number is expect.
func (g *safeguard) fence(m *nats.Msg, r wire.Record, expect uint64) {
	if g.condition != nil {
		g.condition(m, r)
		return
	}
	m.Header[jetstream.ExpectedLastSubjSeqHeader] = []string{strconv.FormatUint(expect, 10)}
}

// fenced reports whether commits have the fence, so that a record that is not
// ours says that another worker has the partition.
func (g *safeguard) fenced() bool { return g.condition == nil }

// heed is what a claim does about what it found of the input.
func (g *safeguard) heed(p *partition, input error) error {
	if g.claimed != nil {
		return g.claimed(p, input)
	}
	return input
}
