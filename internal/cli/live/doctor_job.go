package live

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/eusn-stream/eusn-stream/codec/formats"
	"github.com/eusn-stream/eusn-stream/internal/config"
	"github.com/eusn-stream/eusn-stream/pipeline/admin"
	"github.com/eusn-stream/eusn-stream/pipeline/natsclient"
)

// checkJob says on which subject the job takes messages and how it reads them,
// and where the configuration says otherwise.
func checkJob(ctx context.Context, c config.Config) Finding {
	planned := fmt.Sprintf("a new job %q would take messages on %s, %s.", c.Job, c.Input.Subject, formatText(inputOf(c.Input)))
	if c.NATS.URL == "" {
		return Finding{"job", "ok", planned}
	}
	j, input, decided, err := readsOf(ctx, c)
	switch {
	case errors.Is(err, admin.ErrNoJob):
		return Finding{"job", "ok", planned}
	case err != nil:
		return Finding{"job", "note", fmt.Sprintf("what job %q reads is unknown: %v.", c.Job, err)}
	}
	f := Finding{"job", "ok", fmt.Sprintf("job %q takes messages on %s, %d partitions", c.Job, j.Subject(), j.NumPartitions())}
	if !decided {
		f.Sentence += "; no stage has run it yet, so nothing says how it reads them."
		return f
	}
	in, err := formats.Parse(input)
	if err != nil {
		return Finding{"job", "note", f.Sentence + fmt.Sprintf("; it reads them in a way that this program does not know: %v.", err)}
	}
	f.Sentence += ", " + formatText(in) + "."
	if own := inputOf(c.Input); !own.IsPlain() && own.Text() != in.Text() {
		f.Status = "note"
		f.Sentence += " This configuration reads them in another way, with which run is refused: in the job, " + strings.Join(in.Differs(own), "; ") + "."
	}
	return f
}

// readsOf asks the job.
func readsOf(ctx context.Context, c config.Config) (j *admin.Job, input string, decided bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	nc, err := natsclient.Connect(natsOptions(c.NATS, "eusn-doctor/job", nil))
	if err != nil {
		return nil, "", false, errors.New("the server cannot be reached")
	}
	defer nc.Close()
	js, err := jetstream.New(nc)
	if err != nil {
		return nil, "", false, err
	}
	if j, err = admin.Open(ctx, js, c.Job); err == nil {
		input, decided, err = j.Reads(ctx)
	}
	return j, input, decided, err
}

// formatText words how messages are read.
func formatText(in formats.Input) string {
	in = in.WithDefaults()
	switch {
	case in.Format == formats.Arrow:
		return "written as Arrow"
	case in.IsPlain():
		return "in any of the formats (auto)"
	}
	return "read as " + in.Text()
}
