package pipeline

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/eusn-stream/eusn-stream/internal/natsclient"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/wire"
)

// elsewhere refuses to begin a job where another JetStream domain, linked by
// leaf nodes, has one of that name: the NATS streams of both would take what
// either publishes, and the answers of the wrong one come first at times, so
// that partitions wait for ever. It asks with a row that nobody owns (epoch 0),
// which the other job sweeps; where nobody has the job, the server says so at
// once. Two jobs that begin before their servers are linked are not found out.
func elsewhere(ctx context.Context, nc *nats.Conn, js jetstream.JetStream, job string) error {
	if _, err := js.Stream(ctx, wire.RowStream(job)); !errors.Is(err, jetstream.ErrStreamNotFound) {
		return nil // the job is here; or what is wrong is told by who needs it
	}
	try, cancel := context.WithTimeout(ctx, natsclient.JetStreamWait)
	defer cancel()
	answer, err := nc.RequestWithContext(try, wire.ProbeSubject(job), nil)
	if err != nil {
		return nil
	}
	var ack struct{ Stream, Domain string }
	if err := json.Unmarshal(answer.Data, &ack); err != nil || ack.Stream == "" {
		return nil
	}
	info, err := js.AccountInfo(try)
	if err != nil || info.Domain == ack.Domain { // another worker was first
		return nil
	}
	return fmt.Errorf("pipeline: a job %q already runs in the JetStream domain %q, which is linked to this server's domain %q: two jobs of one name would receive each other's messages; choose another name (job) and subject (input.subject), or connect to domain %q",
		job, ack.Domain, info.Domain, ack.Domain)
}
