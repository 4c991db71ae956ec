package past

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/spf13/cobra"

	"github.com/eusn-stream/eusn-stream/internal/admin"
	"github.com/eusn-stream/eusn-stream/internal/cli"
	"github.com/eusn-stream/eusn-stream/internal/cli/jobcmd"
	"github.com/eusn-stream/eusn-stream/internal/cli/server"
	"github.com/eusn-stream/eusn-stream/internal/config"
	"github.com/eusn-stream/eusn-stream/internal/explain"
	"github.com/eusn-stream/eusn-stream/internal/operate"
	"github.com/eusn-stream/eusn-stream/internal/replay"
)

const showHelp = "eusn-stream state show --help"

// NewStateShow makes the command "state show".
func NewStateShow(a *cli.App) *cobra.Command {
	var w asOf
	var cmd *cobra.Command
	cmd = server.JobCommand(a, &cobra.Command{
		Use:   "show PARTITION [STREAM] | STREAM",
		Short: "Show the states of a partition or of a stream: the stored ones, or those at a time",
		Long: `Show the streams in a partition's snapshot, or one stream. A stream is found by its name in
any partition. A name that is a number is read as a partition: give the partition first, or
write key/stream.

--at computes the state that a partition had after an input message (--at 4711), or after all
that the server had stored at a time (--at 30m, a date, or 2026-01-31T12:00:00Z): from the
previous snapshot, or from the beginning of the log. If the job has noted the digest of that
state, the digests are compared. A running stage is not affected. For a stream it also shows
the open sequence, and the scores that the sequence would have if it ended there. -o writes
the state of the partition to a file, as state export does: state diff compares two of them,
stream by stream.

The model is the job's, from its registry, or --model. Use the stage's configuration (-c).`,
		Example: `  eusn-stream state show 0
  eusn-stream state show pump-17 --json
  eusn-stream state show gateway-2/pump-17
  eusn-stream state show pump-3 --at 4711
  eusn-stream state show 0 --at 30m -o before.state --nats-url nats://host:4222`,
		Args: cobra.RangeArgs(1, 2),
	}, func(ctx context.Context, c config.Config, js jetstream.JetStream, args []string) error {
		if w.at == "" {
			if w.out != "" {
				return cli.Fail(cli.ExitUsage, errors.New("--output needs --at, such as --at 0s"), showHelp)
			}
			return jobcmd.ShowSnapshot(ctx, a, js, c.Job, args)
		}
		w.app, w.conf, w.js = a, c, js
		var err error
		if w.partition, err = strconv.Atoi(args[0]); err != nil || len(args) == 2 {
			w.stream = args[len(args)-1]
		}
		var done func()
		if w.x, done, err = explainer(a, c, js, cmd.Flags().Changed("model")); err != nil {
			return err
		}
		defer done()
		return explainFailure(cli.OrInterrupted(w.runAsOf(ctx, done), "nothing was written"))
	})
	f := cmd.Flags()
	f.StringVar(&w.at, "at", "", "input message, or how long ago (30m), a date, or a time like 2026-01-31T12:00:00Z (default: the snapshot)")
	f.StringVarP(&w.out, "output", "o", "", "with --at: file for the state of the partition")
	f.StringP("model", "m", "", "with --at: model file of the stage (default the one in the job's registry)")
	return cmd
}

// asOf is state show --at at work.
type asOf struct {
	app       *cli.App
	conf      config.Config
	js        jetstream.JetStream
	at, out   string
	stream    string // empty: all of the partition
	x         *explain.Explainer
	partition int
}

// asOfResult is its output.
type asOfResult struct {
	Partition int                    `json:"partition"`
	State     replay.StateAsOf       `json:"state"`
	Snapshot  string                 `json:"snapshot,omitempty"` // the snapshot that it began from
	After     uint64                 `json:"snapshot_after,omitempty"`
	Messages  uint64                 `json:"messages_read"`
	Streams   []admin.StreamState    `json:"streams"`
	Open      []explain.OpenSequence `json:"open,omitempty"` // sequences of --stream
}

func (w *asOf) runAsOf(ctx context.Context, read func()) error {
	o, err := positionOf("at", w.at, showHelp)
	if err != nil {
		return err
	}
	if w.stream != "" {
		if w.partition, err = home(ctx, w.js, w.conf.Job, w.stream); err != nil {
			return err
		}
	}
	o.Partition = w.partition
	s, wrong := w.x.StateAsOf(ctx, o)
	read()
	if wrong != nil && !errors.Is(wrong, replay.ErrDigest) {
		return wrong
	}
	if err := w.show(ctx, s); err != nil {
		return err
	}
	if wrong != nil {
		return cli.Fail(cli.ExitIntegrity, wrong, "eusn-stream state verify, with the stage's configuration and model")
	}
	if w.out == "" {
		return nil
	}
	if err := cli.ReplaceFile(w.out, s.Encoded, cli.Private); err != nil {
		return err
	}
	w.app.Say("written to %s; eusn-stream state diff compares two states", w.out)
	return nil
}

// positionOf parses a flag: an input message, or a time.
func positionOf(flag, text, help string) (o replay.AsOf, err error) {
	if o.To, err = strconv.ParseUint(text, 10, 64); err == nil {
		if o.To == 0 {
			err = cli.Fail(cli.ExitUsage, fmt.Errorf("--%s 0: input messages have numbers from 1", flag), help)
		}
		return o, err
	}
	now := time.Now()
	o.Before, err = cli.PointInTime(flag, text, now, help)
	if err == nil && o.Before.After(now) {
		err = cli.Fail(cli.ExitUsage, fmt.Errorf("--%s %s is in the future", flag, text), help)
	}
	return o, err
}

// home returns the partition of a stream: of the newest prediction or, without a
// prediction since the number of partitions changed, the partition with the stream in
// the snapshot, or the partition of the stream's name.
func home(ctx context.Context, js jetstream.JetStream, job, stream string) (int, error) {
	f, err := explain.Find(ctx, js, job, explain.Query{Stream: stream})
	now := false
	if err == nil {
		now, err = f.IsCurrent(ctx, js)
	}
	switch {
	case now:
		return f.Partition, nil
	case err != nil && !errors.Is(err, explain.ErrNotFound):
		return 0, err
	}
	j, err := admin.Open(ctx, js, job)
	if err != nil {
		return 0, err
	}
	for p := range j.NumPartitions() { // a stream may belong to a key with another name
		b, err := operate.Snapshot(ctx, js, job, p)
		if err != nil {
			continue // the snapshot lacks the stream
		}
		s, err := admin.ReadState(b)
		if err != nil {
			return 0, err
		}
		if slices.ContainsFunc(s.Streams, func(st admin.StreamState) bool { return st.ID == stream }) {
			return p, nil
		}
	}
	return j.PartitionOf(stream), nil
}

func (w *asOf) show(ctx context.Context, s replay.StateAsOf) error {
	all, err := admin.ReadState(s.Encoded)
	if err != nil {
		return err
	}
	r := asOfResult{Partition: w.partition, State: s, Snapshot: s.Past.Snapshot, After: s.Past.After, Messages: s.Past.Messages, Streams: all.Streams}
	if w.stream != "" {
		r.Streams = slices.DeleteFunc(r.Streams, func(st admin.StreamState) bool { return st.ID != w.stream })
		if len(r.Streams) == 0 {
			return cli.Fail(cli.ExitFailure, fmt.Errorf("partition %d had no stream %q after input message %d", w.partition, w.stream, s.InSeq), "a later --at; or the same command with --partition, which shows all streams")
		}
		if r.Open, err = w.x.OpenSequences(ctx, s.Encoded, w.stream); err != nil {
			return err
		}
	}
	if w.app.JSON {
		return w.app.PrintJSON(r)
	}
	w.print(&r)
	return nil
}

func (w *asOf) print(r *asOfResult) {
	from := fmt.Sprintf("the log, from message %d on", r.State.Past.First)
	if r.Snapshot != "" {
		from = fmt.Sprintf("snapshot %s (after message %d)", r.Snapshot, r.After)
	}
	w.app.Print("partition %d after input message %d: %d streams, from %s, %d messages read", r.Partition, r.State.InSeq, len(r.Streams), from, r.Messages)
	w.app.Print("%s", digestText(&r.State))
	for _, st := range r.Streams {
		w.app.Print("%s/%s  seq %d  samples %d  held %d  integrity %s  flags %q  state %s", st.Key, st.ID, st.LastSeq, st.Samples, st.Held, st.Integrity, st.Flags, st.Digest)
	}
	for _, o := range r.Open {
		if o.Why != "" {
			w.app.Print("open after %d samples: no scores: %s", o.Samples, o.Why)
			continue
		}
		certainty := ""
		if o.Probability > 0 {
			certainty = fmt.Sprintf(", probability %.3f", o.Probability)
		}
		w.app.Print("open after %d samples: class %q, score %.4g%s, by readout %s", o.Samples, o.Class, o.Score, certainty, o.Readout)
	}
}

// digestText reports whether a state is verified.
func digestText(s *replay.StateAsOf) string {
	switch {
	case s.Verified:
		return fmt.Sprintf("digest %s, from output message %d", s.Digest, s.Output)
	case s.Next > 0:
		return fmt.Sprintf("digest %s, not verified: the job has noted the next one after input message %d", s.Digest, s.Next)
	}
	return fmt.Sprintf("digest %s, not verified: the job has not noted one", s.Digest)
}
