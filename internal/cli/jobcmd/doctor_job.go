package jobcmd

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/eusn-stream/eusn-stream/internal/admin"
	"github.com/eusn-stream/eusn-stream/internal/cli"
	"github.com/eusn-stream/eusn-stream/internal/cli/server"
	"github.com/eusn-stream/eusn-stream/internal/config"
	"github.com/eusn-stream/eusn-stream/internal/fleet"
	"github.com/eusn-stream/eusn-stream/internal/formats"
	"github.com/eusn-stream/eusn-stream/internal/natsserver"
	"github.com/eusn-stream/eusn-stream/pipeline"
)

// checkJob reports the job's input subject and format, and differences from the
// configuration.
func checkJob(ctx context.Context, b *server.Broker, c config.Config) Finding {
	planned := fmt.Sprintf("a new job %q would take messages on %s, %s.", c.Job, c.Input.Subject, formatText(server.InputOf(c.Input))) + subjectHint(c.Input.Subject)
	if c.Input.Job != "" {
		planned = fmt.Sprintf("a new job %q would read the input of job %q, from: %s.", c.Job, c.Input.Job, c.Input.From)
	}
	switch {
	case b == nil && natsserver.HasStore(c.Server.Dir):
		return Finding{"job", "note", "the job was not checked: the data directory could not be opened."}
	case b == nil:
		return Finding{"job", "ok", planned}
	}
	is, err := lookAtJob(ctx, b, c.Job)
	var lost *admin.LostError
	switch {
	case errors.Is(err, admin.ErrNoJob):
		return Finding{"job", "ok", planned}
	case errors.As(err, &lost):
		return Finding{"job", "problem", lost.What + ": " + fleet.AdviseLost(lost) + "."}
	case err != nil:
		return Finding{"job", "note", fmt.Sprintf("what job %q reads is unknown: %s.", c.Job, cli.ErrorText(err))}
	}
	f := Finding{"job", "ok", fmt.Sprintf("job %q takes messages on %s, %d partitions", c.Job, is.subject, is.partitions)}
	if is.inputJob != c.Job {
		f.Sentence = fmt.Sprintf("job %q reads the input of job %q, which takes messages on %s, %d partitions", c.Job, is.inputJob, is.subject, is.partitions)
	} else if len(is.readers) > 0 {
		f.Sentence += "; its input is also read by job " + strings.Join(is.readers, ", ")
	}
	if !is.decided {
		f.Sentence += "; no stage has run it yet, so their format is unknown."
		return f
	}
	in, err := formats.Parse(is.input)
	if err != nil {
		return Finding{"job", "note", f.Sentence + fmt.Sprintf("; it reads them in a way that this program does not know: %s.", cli.ErrorText(err))}
	}
	f.Sentence += ", " + formatText(in) + "." + subjectHint(is.subject)
	if own := server.InputOf(c.Input); !own.IsPlain() && own.Text() != in.Text() {
		f.Status = "note"
		f.Sentence += " This configuration reads them in another way, with which run is refused: in the job, " + strings.Join(in.Differs(own), "; ") + "."
	}
	return f
}

// subjectHint names a subject that the default subject does not match. The server stores no message
// on another subject, and reports nothing to a sender without acknowledgements.
func subjectHint(subject string) string {
	if subject != pipeline.Defaults().InputSubject {
		return ""
	}
	return " A message on a longer subject, such as sensors.hall2.pump7, is not stored: a new job with input.subject: sensors.> takes it."
}

// jobState is the input of a job on the server.
type jobState struct {
	subject    string
	partitions int
	inputJob   string   // the job with the input
	readers    []string // other jobs that read it
	input      string   // the job's input format
	decided    bool     // whether the job has decided its format
}

// lookAtJob asks the job.
func lookAtJob(ctx context.Context, b *server.Broker, job string) (is jobState, err error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	nc, js, err := b.Open(ctx, "eusn-doctor/job")
	if err != nil {
		return is, errors.New("the server cannot be reached")
	}
	defer nc.Close()
	j, err := admin.Open(ctx, js, job)
	if err != nil {
		return is, err
	}
	is.subject, is.partitions, is.inputJob = j.Subject(), j.NumPartitions(), j.InputJob()
	if is.input, is.decided, err = j.Reads(ctx); err != nil {
		return is, err
	}
	if !is.decided {
		if err = j.CheckOutput(ctx); err != nil {
			return is, err
		}
	}
	is.readers, _ = j.Readers(ctx) // a login may have the right to this job only
	return is, nil
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
