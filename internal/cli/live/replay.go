package live

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/spf13/cobra"

	"github.com/eusn-stream/eusn-stream/internal/cli"
	"github.com/eusn-stream/eusn-stream/internal/cli/archives"
	"github.com/eusn-stream/eusn-stream/internal/cli/server"
	"github.com/eusn-stream/eusn-stream/internal/cli/source"
	"github.com/eusn-stream/eusn-stream/internal/config"
	"github.com/eusn-stream/eusn-stream/internal/datafile"
	"github.com/eusn-stream/eusn-stream/internal/producer"
	"github.com/eusn-stream/eusn-stream/offline/archive"
)

// replayFlags are the flags of replay that override keys of the configuration.
var replayFlags = []string{"nats-url", "dir", "job", "subject"}

// Speeds above these limits mean max.
const (
	maxSpeed = 1e6
	maxRate  = 1e9
)

// replayOptions are the options specific to replay.
type replayOptions struct {
	archive string
	split   string
	streams int
	rows    int
	speed   float64 // 0 = max
	rate    float64
	resume  bool
	ofSets  []string // given flags that do not apply to a recording
}

// NewReplay is "replay".
func NewReplay(a *cli.App) *cobra.Command {
	var o replayOptions
	var file, speed string
	cmd := &cobra.Command{
		Use:   "replay DATA",
		Short: "Publish an archive or a CSV recording as live data",
		Long: `Publish an archive to the subjects that a running stage reads, as producers do:
many streams at the same time, with numbered messages. The series of a data set
are distributed over --streams streams, and each series ends a sequence. A
recording keeps its own streams. With the policies window, count and endless the
end of a series does not end a sequence: there, --streams 0 makes each series a
stream of its own, as evaluate does.

--speed 1x publishes at the recorded speed, 10x ten times as fast, max as fast as
the server accepts. Series without times need --send-rate, samples per second of each
stream.

After Ctrl-C the same command with --resume continues where it stopped.`,
		Example: `  eusn-stream replay demo-data/machine.parquet
  eusn-stream replay recording.parquet --speed 10x --nats-url nats://host:4222`,
		Args: cobra.ExactArgs(1),
	}
	f := cmd.Flags()
	f.StringVarP(&file, "config", "c", "", "configuration file of the stage")
	f.StringVar(&o.split, "split", string(archive.Test), "part of a data set to publish: train or test")
	f.IntVar(&o.streams, "streams", 300, "number of streams for a data set; 0 = one for each series")
	f.IntVar(&o.rows, "rows", producer.DefaultRowsPerMessage, "samples per message")
	f.StringVar(&speed, "speed", "max", "1x, 10x, ... or max")
	f.Float64Var(&o.rate, "send-rate", 0, "samples per second of each stream, if the archive has no times")
	f.BoolVar(&o.resume, "resume", false, "continue after the messages that the stage's input already holds")
	server.AddJobFlags(f)
	f.String("subject", "", "subject to publish to, such as sensors.*")
	config.ShowDefaults(f, replayFlags)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		o.archive = args[0]
		var err error
		if o.speed, err = ParseSpeed(speed); err != nil {
			return err
		}
		if o.split != string(archive.Train) && o.split != string(archive.Test) {
			return fmt.Errorf("--split %s: want train or test", o.split)
		}
		if o.streams < 0 || o.rows < 1 || !(o.rate >= 0 && o.rate <= maxRate) {
			return fmt.Errorf("--streams, --rows and --send-rate: want positive numbers, --send-rate at most %g", float64(maxRate))
		}
		for _, name := range []string{"split", "streams"} {
			if f.Changed(name) {
				o.ofSets = append(o.ofSets, "--"+name)
			}
		}
		return a.Do(func(ctx context.Context, _ []string) error {
			c, err := server.StageConfig(a, file, f, replayFlags)
			if err != nil {
				return err
			}
			return runReplay(ctx, a, c, o)
		})(cmd, args)
	}
	return cmd
}

// ParseSpeed reads 10x, 10 or max; 0 means max.
func ParseSpeed(s string) (float64, error) {
	if s == "max" {
		return 0, nil
	}
	v, err := strconv.ParseFloat(strings.TrimSuffix(s, "x"), 64)
	if err != nil || !(v > 0 && v <= maxSpeed) {
		return 0, fmt.Errorf("--speed %s: want 1x, 10x, ... or max", s)
	}
	return v, nil
}

// archiveSource is an archive open for playing.
type archiveSource struct {
	producer.Source
	channels []string
	rows     int64
	close    func() error
}

func (o replayOptions) openArchive(ctx context.Context) (archiveSource, error) {
	if archives.IsCSV(o.archive) {
		return openCSV(ctx, o.archive, nil)
	}
	if there, err := os.Stat(o.archive); err != nil || !there.IsDir() { // of a directory, the archive in it is read
		if err := cli.WholeFile(o.archive); err != nil {
			return archiveSource{}, err
		}
	}
	if archive.IsRecording(o.archive) {
		rec, err := archive.ReadRecording(o.archive)
		if err != nil {
			return archiveSource{}, err
		}
		return archiveSource{source.NewRecording(rec), rec.Channels, rec.Rows, rec.Close}, nil
	}
	d, err := archives.Read(o.archive)
	switch {
	case err != nil:
		return archiveSource{}, err
	case len(d.Channels) == 0:
		err = datafile.InContent(fmt.Errorf("%s holds token lists: there are no samples to publish", o.archive))
		return archiveSource{}, cli.Fail(cli.ExitFailure, err, "eusn-stream offline paper embed "+cli.QuoteForShell(o.archive)+", then replay the archive that it writes")
	}
	s := source.NewSeries(d, archive.Split(o.split), o.streams)
	if len(s.Series) == 0 {
		err = fmt.Errorf("%s has no %s part", o.archive, o.split)
		return archiveSource{}, cli.Fail(cli.ExitFailure, err, "the same command with --split "+archives.OtherSplit(o.split))
	}
	return archiveSource{s, d.Channels, s.Rows(), func() error { return nil }}, nil
}

func runReplay(ctx context.Context, a *cli.App, c config.Config, o replayOptions) error {
	src, err := o.openArchive(ctx)
	if err != nil {
		return err
	}
	defer src.close()
	if _, ok := src.Source.(*source.Recording); ok && len(o.ofSets) > 0 {
		a.Say("note: %s is a recording: all of it is published with its own streams; %s applies to data sets only", o.archive, strings.Join(o.ofSets, ", "))
	}
	log := a.Logger(c.Log.Level, c.Log.Format)
	b, err := server.OpenJob(ctx, a, c, server.Need{Stage: true}, log)
	if err != nil {
		return err
	}
	defer b.Close()
	ctx = b.EndOnRefusal(ctx)
	nc, err := b.Dial(ctx, "eusn-stream/"+c.Job+"/replay")
	if err != nil {
		return err
	}
	defer nc.Close()
	p := a.Progress()
	done, err := producer.Publisher{
		Subject: c.Input.Subject, Channels: src.channels, RowsPerMessage: o.rows, Playing: o.streams,
		Speed: o.speed, Rate: o.rate, Resume: o.resume, Job: c.Job, Log: log,
		Progress: func(now producer.Published) { p.Report(int64(now.Rows), src.rows, "samples published") },
	}.Publish(ctx, nc, source.Until(ctx, src))
	p.Close()
	err = b.ExplainRefusal(err)
	if err == nil || done.Streams > 0 {
		err = errors.Join(printPublished(a, done), err)
	}
	next := "" // most errors contain the next step
	if errors.Is(err, jetstream.ErrNoStreamResponse) || errors.Is(err, nats.ErrNoResponders) {
		next = "eusn-stream run, with the same input.subject, " + c.Input.Subject
	}
	if errors.Is(err, producer.ErrNoTimes) {
		next = "add --send-rate N, the samples per second of each stream, or leave out --speed"
	}
	err = cli.OrInterrupted(err, "the published messages are stored; the same command with --resume continues from there")
	return cli.Fail(cli.ExitFailure, err, next)
}

func printPublished(a *cli.App, p producer.Published) error {
	if a.JSON {
		return a.PrintJSON(map[string]any{
			"streams": p.Streams, "messages": p.Messages, "rows": p.Rows, "bytes": p.Bytes, "skipped_messages": p.Skipped,
			"retries": p.Retries, "seconds": p.Elapsed.Seconds(), "rows_per_second": p.RowsPerSecond(),
		})
	}
	a.Print("%d samples of %d streams in %d messages acknowledged in %v, %.0f samples/s", p.Rows, p.Streams, p.Messages,
		p.Elapsed.Round(time.Millisecond), p.RowsPerSecond())
	if p.Skipped > 0 {
		a.Print("%d messages were already stored", p.Skipped)
	}
	return nil
}
