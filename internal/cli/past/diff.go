package past

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/spf13/cobra"

	"github.com/eusn-stream/eusn-stream/internal/admin"
	"github.com/eusn-stream/eusn-stream/internal/cli"
	"github.com/eusn-stream/eusn-stream/internal/cli/jobcmd"
	"github.com/eusn-stream/eusn-stream/internal/cli/server"
	"github.com/eusn-stream/eusn-stream/internal/config"
	"github.com/eusn-stream/eusn-stream/internal/explain"
	"github.com/eusn-stream/eusn-stream/internal/replay"
)

const diffHelp = "eusn-stream state diff --help"

// diffOptions are the options specific to state diff.
type diffOptions struct {
	from, to  string
	stream    string
	partition int
	units     int
}

// NewStateDiff is "state diff".
func NewStateDiff(a *cli.App) *cobra.Command {
	var o diffOptions
	cmd := &cobra.Command{
		Use:   "diff FILE FILE | --since SEQ|TIME --until SEQ|TIME [--stream S | --partition P]",
		Short: "Compare two exported states, or the states of a job in two places of its log",
		Long: `Compare two exported states stream by stream, bit for bit; the exit code is 1 if any
stream differs. Or compare the states that a job had after two input messages (--since 4711
--until 5000) or at two times (--since 2h --until 30m): which streams differ, how many samples
they got between the two and how many of their sequences began and ended, by how much
their units' h have changed, and which readout would have answered. Differences are
expected between two places, and the exit code is 0.

--stream shows one stream and its units that have changed most, --partition one partition;
otherwise it is all of the job. The states are computed as state show --at does, from snapshots
and the log, and compared with the digests that the job has noted. A running stage is not
affected.

The model is the job's, from its registry, or --model. Use the stage's configuration (-c).`,
		Example: `  eusn-stream state diff before/p0.state after/p0.state
  eusn-stream state diff --since 2h --until 30m --nats-url nats://host:4222
  eusn-stream state diff --stream pump-3 --since 4711 --until 5000 --top 20`,
	}
	given := func(flag string) bool { return cmd.Flags().Changed(flag) }
	server.JobCommand(a, cmd, func(ctx context.Context, c config.Config, js jetstream.JetStream, _ []string) error {
		w := &diffing{app: a, conf: c, js: js, opt: o}
		if given("partition") {
			w.parts = []int{o.partition}
		}
		x, done, err := explainer(a, c, js, given("model"))
		if err != nil {
			return err
		}
		w.x = x
		defer done()
		return explainFailure(cli.OrInterrupted(w.runDiff(ctx, done), "nothing was changed"))
	})
	f := cmd.Flags()
	f.StringVar(&o.from, "since", "", "input message, or how long ago (2h), a date, or a time like 2026-01-31T12:00:00Z")
	f.StringVar(&o.to, "until", "", "the later place, likewise")
	f.StringVar(&o.stream, "stream", "", "only this stream")
	f.IntVar(&o.partition, "partition", 0, "only this partition")
	f.IntVar(&o.units, "top", 10, "how many of the units that changed most are shown with --stream")
	f.StringP("model", "m", "", "model file of the stage (default the one in the job's registry)")
	positions := cmd.RunE
	cmd.Args = func(_ *cobra.Command, args []string) error {
		if given("since") || given("until") {
			return cobra.NoArgs(cmd, args)
		}
		return cobra.ExactArgs(2)(cmd, args)
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		files := !given("since") && !given("until")
		if err := o.checkOptions(given, files); err != nil {
			return cli.Fail(cli.ExitUsage, err, diffHelp)
		}
		if files {
			return a.Do(func(_ context.Context, args []string) error { return jobcmd.DiffStates(a, args[0], args[1]) })(cmd, args)
		}
		return positions(cmd, args)
	}
	return cmd
}

// checkOptions refuses flags that do not belong to the comparison of two files, or of two
// positions of the log.
func (o *diffOptions) checkOptions(given func(flag string) bool, files bool) error {
	if files {
		for _, flag := range []string{"stream", "partition", "top"} {
			if given(flag) {
				return fmt.Errorf("--%s is for two places of a job's log, not for files: give --since and --until", flag)
			}
		}
		return nil
	}
	switch {
	case o.from == "" || o.to == "":
		return errors.New("want --since and --until")
	case given("stream") && (o.stream == "" || given("partition")):
		return errors.New("want --stream with a name, or --partition, or neither")
	case given("top") && (!given("stream") || o.units < 0):
		return errors.New("--units is a number from 0, and for --stream alone")
	}
	return nil
}

// diffing is state diff at work between two places of the log.
type diffing struct {
	app   *cli.App
	conf  config.Config
	js    jetstream.JetStream
	opt   diffOptions
	x     *explain.Explainer
	parts []int // none: all
}

// places are the two places of the log to compare.
func (w *diffing) places() (from, to replay.AsOf, err error) {
	if from, err = positionOf("since", w.opt.from, diffHelp); err != nil {
		return from, to, err
	}
	if to, err = positionOf("until", w.opt.to, diffHelp); err != nil {
		return from, to, err
	}
	if from.To > to.To && to.To > 0 || from.Before.After(to.Before) && from.To+to.To == 0 {
		err = cli.Fail(cli.ExitUsage, fmt.Errorf("--since %s is after --until %s", w.opt.from, w.opt.to), diffHelp)
	}
	return from, to, err
}

// compare compares the states of each partition. broken: the digests of a partition
// differ from the job's records; its states are still compared.
func (w *diffing) compare(ctx context.Context, from, to replay.AsOf) (all []*explain.Diff, broken, err error) {
	all = []*explain.Diff{}
	for _, p := range w.parts {
		from.Partition = p
		d, err := w.x.StatesBetween(ctx, from, to, w.opt.stream, w.opt.units)
		if err != nil && (d == nil || !errors.Is(err, replay.ErrDigest)) {
			return nil, nil, err
		}
		if err != nil {
			broken = err
		}
		all = append(all, d)
	}
	return all, broken, nil
}

func (w *diffing) runDiff(ctx context.Context, read func()) error {
	from, to, err := w.places()
	if err != nil {
		return err
	}
	if err := w.choose(ctx); err != nil {
		return err
	}
	all, broken, err := w.compare(ctx, from, to)
	if err != nil {
		return err
	}
	read()
	if w.opt.stream != "" && len(all[0].Streams)+all[0].Same == 0 {
		return cli.Fail(cli.ExitFailure, fmt.Errorf("partition %d had no stream %q after input message %d, nor after %d", w.parts[0], w.opt.stream, all[0].From.Past.Last, all[0].To.Past.Last), "the same command without --stream, which shows all streams")
	}
	if w.app.JSON {
		err = w.app.PrintJSON(all)
	} else {
		for _, d := range all {
			w.print(d)
		}
	}
	if err == nil && broken != nil {
		err = cli.Fail(cli.ExitIntegrity, broken, "eusn-stream state verify, with the stage's configuration and model")
	}
	return err
}

// choose finds the partitions to look at.
func (w *diffing) choose(ctx context.Context) error {
	if w.opt.stream != "" {
		p, err := home(ctx, w.js, w.conf.Job, w.opt.stream)
		w.parts = []int{p}
		return err
	}
	if w.parts != nil {
		return nil
	}
	j, err := admin.Open(ctx, w.js, w.conf.Job)
	if err != nil {
		return err
	}
	for p := range j.NumPartitions() {
		w.parts = append(w.parts, p)
	}
	return nil
}

func (w *diffing) print(d *explain.Diff) {
	w.app.Print("partition %d between input messages %d and %d: %d of %d streams differ", d.Partition, d.From.Past.Last, d.To.Past.Last, len(d.Streams), len(d.Streams)+d.Same)
	w.app.Print("  from  %s, readout %.8s", digestText(&d.From), d.FromReadout)
	w.app.Print("  to    %s, readout %.8s", digestText(&d.To), d.ToReadout)
	if d.Uncounted != "" {
		w.app.Print("  samples and sequences are not counted: %s", d.Uncounted)
	}
	for i := range d.Streams {
		w.stream(&d.Streams[i])
	}
}

func (w *diffing) stream(s *explain.StreamDiff) {
	got := ""
	if s.Samples != nil {
		got = fmt.Sprintf("  %d samples, %d sequences begun, %d ended", *s.Samples, *s.Begun, *s.Ended)
	}
	changed := "  no state is open in both places"
	if s.Difference != nil {
		changed = fmt.Sprintf("  h differs by %.4g", *s.Difference)
	}
	w.app.Print("%s/%s%s%s", s.Key, s.Stream, got, changed)
	w.app.Print("  from  %s", atText(s.From))
	w.app.Print("  to    %s", atText(s.To))
	for _, u := range s.Units {
		w.app.Print("  state %d, member %d, unit %d: %.4g, then %.4g (%+.4g)", u.State, u.Member, u.Unit, u.From, u.To, u.Change())
	}
}

// atText describes a stream at a position.
func atText(s *explain.StreamState) string {
	if s == nil {
		return "not known"
	}
	text := fmt.Sprintf("seq %d  integrity %s  state %s", s.LastSeq, s.Integrity, s.Digest)
	if len(s.States) == 0 {
		return text + "  no open sequence"
	}
	var open []string
	for _, r := range s.States {
		open = append(open, fmt.Sprintf("%d samples, |h| %.4g, readout %.8s", r.Samples, r.Norm, r.Readout))
	}
	return text + "  open: " + strings.Join(open, "; ")
}
