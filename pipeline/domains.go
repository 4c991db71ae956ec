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

// checkDomains refuses to begin a job if another JetStream domain, linked by leaf
// nodes, has a job with the same name: the NATS streams of both would store messages
// published to either, and answers of the wrong domain sometimes come first, so that
// partitions would wait indefinitely. The check publishes a row without an owner (epoch
// 0), swept by the other job; if no domain has the job, the server reports it
// immediately. Two jobs that begin before their servers are linked are not detected.
func checkDomains(ctx context.Context, nc *nats.Conn, js jetstream.JetStream, job string) error {
	if _, err := js.Stream(ctx, wire.RowStream(job)); !errors.Is(err, jetstream.ErrStreamNotFound) {
		return nil // the job exists here; later code reports other errors
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
