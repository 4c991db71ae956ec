package loop

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/spf13/cobra"

	"github.com/eusn-stream/eusn-stream/internal/admin"
	"github.com/eusn-stream/eusn-stream/internal/cli"
	"github.com/eusn-stream/eusn-stream/internal/cli/engines"
	"github.com/eusn-stream/eusn-stream/internal/cli/server"
	"github.com/eusn-stream/eusn-stream/internal/cli/source"
	"github.com/eusn-stream/eusn-stream/internal/config"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/record"
	"github.com/eusn-stream/eusn-stream/internal/replay"
	"github.com/eusn-stream/eusn-stream/offline/archive"
	"github.com/eusn-stream/eusn-stream/pipeline"
)

// recordFlags are the flags of record that override keys of the configuration.
var recordFlags = []string{"nats-url", "dir", "job", "model"}

const (
	recordHelp = "eusn-stream record --help"
	untilNow   = "now"
)

// recordOptions are the options specific to record.
type recordOptions struct {
	dir                 string
	from, until, leadIn string
	streams             []string
	size                string
	every               time.Duration
}

// NewRecord is "record" and "record verify".
func NewRecord(a *cli.App) *cobra.Command {
	var o recordOptions
	var file string
	cmd := &cobra.Command{
		Use:   "record --output DIR",
		Short: "Record the input of a running job to Parquet files, each sample once",
		Long: `Record the input of a job to Parquet files: the samples that the stage uses, each once,
in the stage's order. train and evaluate take the folder as one archive.
The job is not touched: nothing is published, and nobody waits for the recorder.

It records what the log has from --since on, and then what comes, until Ctrl-C; --until
ends it. A file is complete when it has --max-size or has grown for --interval. After Ctrl-C,
a kill or a full disk, the same command continues where it was: the newest file says
how far the recording has come, so leave that one in the folder. "record verify DIR"
compares a recording with the log.

Messages that the stage cannot use (dead letters) are not recorded; they are counted, and
the files name them. Where messages were lost or late, the column eusn_flags says so.
Each sample has the number of its message and its row, as predictions have them. It reads
the stage's settings that samples depend on from -c (input.non_finite, input.reorder, ...),
and of the model only channels and policy.`,
		Example: `  eusn-stream record --output recording
  eusn-stream record --model m.safetensors --output recording --until now --nats-url nats://host:4222
  eusn-stream record --model m.safetensors --output pumps --stream 'pump-*' --since 24h --interval 1h
  eusn-stream train recording --labels labels.csv`,
		Args: cobra.NoArgs,
	}
	f := cmd.Flags()
	f.StringVarP(&o.dir, "output", "o", "", "folder to write to; a recording that is there is continued")
	f.StringVar(&o.from, "since", cli.FromStart, "24h (ago), a time like 2026-01-31T12:00:00Z, or start: all that the log has")
	f.StringVar(&o.until, "until", "", "only what was stored before then: now, or in the same form (default: until Ctrl-C)")
	f.StringVar(&o.leadIn, "lead-in", "", "read the log from so long before --since, such as 1h, to know which messages are repeats (default: from its first message)")
	f.StringArrayVar(&o.streams, "stream", nil, "only streams of this name; * stands for any characters. May be given several times")
	f.StringVar(&o.size, "max-size", "256MiB", "size of a file, about")
	f.DurationVar(&o.every, "interval", 0, "complete a file after this time, such as 1h; 0 = when it has its size")
	recordCommand(a, cmd, &file, func(ctx context.Context, a *cli.App, c config.Config, _ []string) error {
		work, err := o.work(time.Now())
		if err != nil {
			return cli.Fail(cli.ExitUsage, err, recordHelp)
		}
		return recordJob(ctx, a, c, o, work)
	})
	cobra.CheckErr(cmd.MarkFlagRequired("output"))
	cmd.AddCommand(newRecordVerify(a))
	return cmd
}

// recordCommand gives a command what it needs to work with a job.
func recordCommand(a *cli.App, cmd *cobra.Command, file *string, run func(context.Context, *cli.App, config.Config, []string) error) {
	f := cmd.Flags()
	f.StringVarP(file, "config", "c", "", "configuration file of the stage")
	f.StringP("model", "m", "", "model file, of the job or with its channels and policy (default the job's model, from its registry)")
	server.AddJobFlags(f)
	config.ShowDefaults(f, recordFlags)
	cmd.RunE = a.Do(func(ctx context.Context, args []string) error {
		c, err := server.StageConfig(a, *file, f, recordFlags)
		if err != nil {
			return err
		}
		return run(ctx, a, c, args)
	})
}

// work returns the request given by the flags.
func (o *recordOptions) work(now time.Time) (w replay.Record, err error) {
	w = replay.Record{Dir: o.dir, LeadIn: -1, Follow: o.until == "", Streams: strings.Join(o.streams, "\n"), Takes: streamsNamed, MaxAge: o.every}
	if o.dir == "" {
		return w, errors.New("--output is empty: want the name of a folder")
	}
	size, err := config.ParseBytes(o.size)
	if err != nil || size < 1 {
		return w, fmt.Errorf("--max-size %s: want a size such as 256MiB", o.size)
	}
	w.MaxBytes = int64(size)
	if o.every < 0 {
		return w, fmt.Errorf("--interval %v: want a time such as 1h, or 0", o.every)
	}
	for _, name := range o.streams {
		if name == "" || strings.Contains(name, "\n") {
			return w, fmt.Errorf("--stream %q: want a name, in which * stands for any characters", name)
		}
	}
	err = o.setRange(&w, now)
	return w, err
}

// setRange sets the part of the log given by the flags.
func (o *recordOptions) setRange(w *replay.Record, now time.Time) (err error) {
	if o.from != cli.FromStart {
		if w.From, err = cli.PointInTime("since", o.from, now, recordHelp); err != nil {
			return err
		}
		if w.From.IsZero() || w.From.After(now) {
			return fmt.Errorf("--since %q: want a time that is past, like 24h or 2026-01-31T12:00:00Z, or start", o.from)
		}
	}
	if o.until != "" && o.until != untilNow {
		if w.To, err = cli.PointInTime("until", o.until, now, recordHelp); err != nil {
			return err
		}
		if !w.To.After(w.From) {
			return fmt.Errorf("--until %s is not after --since %s", o.until, o.from)
		}
	}
	if w.LeadIn, err = cli.LeadIn(o.leadIn); err != nil {
		return err
	}
	if o.leadIn != "" && w.From.IsZero() {
		return errors.New("--lead-in is for a --since that is a time")
	}
	if w.FromText = o.from; o.leadIn != "" {
		w.FromText += " --lead-in " + o.leadIn
	}
	return nil
}

// streamsNamed accepts streams whose names match one of the lines, in which * stands
// for any characters; none: all streams.
func streamsNamed(lines string) (func(string) bool, error) {
	if lines == "" {
		return func(string) bool { return true }, nil
	}
	patterns := strings.Split(lines, "\n")
	known := map[string]bool{} // earlier decisions; bounded
	return func(stream string) bool {
		takes, ok := known[stream]
		if ok {
			return takes
		}
		for _, p := range patterns {
			takes = takes || fitsStars(p, stream)
		}
		if len(known) < 1<<16 {
			known[strings.Clone(stream)] = takes
		}
		return takes
	}, nil
}

// fitsStars reports whether a text matches a pattern.
func fitsStars(pattern, text string) bool {
	parts := strings.Split(pattern, "*")
	if len(parts) == 1 {
		return pattern == text
	}
	rest, ok := strings.CutPrefix(text, parts[0])
	if !ok {
		return false
	}
	last := parts[len(parts)-1]
	for _, part := range parts[1 : len(parts)-1] {
		_, after, found := strings.Cut(rest, part)
		if !found {
			return false
		}
		rest = after
	}
	return strings.HasSuffix(rest, last)
}

// openRecorded opens the job with the input, and the server.
func openRecorded(ctx context.Context, a *cli.App, c config.Config, follow bool) (*pipeline.Job, source.RecordFiles, *server.Broker, error) {
	log := a.Logger(c.Log.Level, c.Log.Format)
	b, err := server.OpenJob(ctx, a, c, server.Need{Stage: follow}, log)
	if err != nil {
		return nil, source.RecordFiles{}, nil, err
	}
	m, name, err := b.JobModel(ctx, a, c)
	if errors.Is(err, admin.ErrNoJob) {
		err = server.NoJob(ctx, b, err, "eusn-stream record")
	}
	if err != nil {
		b.Close()
		return nil, source.RecordFiles{}, nil, err
	}
	job := &pipeline.Job{Config: server.PipelineConfig(c), Model: m, ModelName: name, NewEngine: engines.New("generic"), Log: log}
	job.Dial = func(ctx context.Context, name string) (*nats.Conn, error) {
		return b.Dial(ctx, "eusn-stream/"+c.Job+"/"+name)
	}
	return job, source.RecordFiles{Job: c.Job, Channels: m.Channels}, b, nil
}

func recordJob(ctx context.Context, a *cli.App, c config.Config, o recordOptions, w replay.Record) error {
	job, files, b, err := openRecorded(ctx, a, c, w.Follow)
	if err != nil {
		return err
	}
	defer b.Close()
	ctx = b.EndOnRefusal(ctx)
	w.Files, w.Rows = files, archive.GroupRows(len(files.Channels))
	p := a.Progress()
	defer p.Close()
	w.Progress = func(d record.Done) { p.Report(int64(d.Samples), 0, "samples recorded") }
	w.Begun = func(at record.Position, again bool) {
		if again {
			a.Say("continuing in %s: %d files with %d samples, up to message %d of the log", o.dir, at.File, at.Total.Samples, at.To.Seq)
			return
		}
		a.Say("recording job %s from message %d of its log on", c.Job, at.First)
		if at.Begin < at.First {
			a.Say("messages %d to %d are read to know which messages are repeats; --lead-in makes that shorter", at.Begin, at.First-1)
		}
	}
	complete := func(path string, at record.Position) {
		a.Say("%s: %d samples, up to message %d", path, at.Part.Samples, at.To.Seq)
	}
	w.Committed = complete
	at, err := replay.WriteRecording(ctx, job, w)
	p.Close()
	if w.Follow && errors.Is(err, context.Canceled) && at.Recording != "" { // a normal end
		err = nil
	}
	if known := new(cli.Failure); errors.As(b.ExplainRefusal(err), &known) {
		return known
	}
	if err != nil {
		return recordFailure(err, o.dir, at)
	}
	return printRecorded(a, o.dir, at)
}

func printRecorded(a *cli.App, dir string, at record.Position) error {
	d := at.Total
	for _, n := range []struct {
		count uint64
		text  string
	}{
		{d.Removed, "%d messages were removed from the log before they could be read; the column eusn_flags marks the places"},
		{d.Gaps, "the numbers of messages have %d gaps; the column eusn_flags marks them"},
		{d.Unusable, "%d messages are dead letters and were not recorded; eusn-stream deadletter list shows them"},
		{d.Unnamed, "%d samples were left out: an archive cannot hold the names of their streams (longer than 256 bytes, or with control characters)"},
	} {
		if n.count > 0 {
			a.Say("warning: "+n.text, n.count)
		}
	}
	if at.Waiting > 0 {
		a.Say("note: %d messages wait for others before them, and are not recorded yet", at.Waiting)
	}
	if a.JSON {
		return a.PrintJSON(struct {
			Folder  string `json:"folder"`
			Files   int    `json:"files"`
			To      uint64 `json:"to"` // message of the log
			Waiting int    `json:"waiting"`
			record.Done
		}{dir, at.File, at.To.Seq, at.Waiting, d})
	}
	a.Print("%d samples of %d messages in %d files in %s, up to message %d of the log; fingerprint %s", d.Samples, d.Messages, at.File, dir, at.To.Seq, d.Fingerprint)
	return nil
}

// recordFailure adds the next step to an error.
func recordFailure(err error, dir string, at record.Position) error {
	err = cli.OrInterrupted(err, "%d samples are recorded in %s; the same command continues from there", at.Total.Samples, cli.QuoteForShell(dir))
	next := ""
	switch {
	case errors.Is(err, record.ErrInUse):
		next = "wait for its end, or another --output"
	case errors.Is(err, record.ErrOther), errors.Is(err, record.ErrOtherLog):
		next = "another --output, for a new recording"
	case errors.Is(err, record.ErrDamaged):
		next = "if the file is really damaged, move it out of the folder and run the same command: its samples are recorded again from the log"
	case errors.Is(err, record.ErrUseless):
		next = "the same command with -c and the stage's configuration, and with the job's model"
	case errors.Is(err, replay.ErrRange):
		next = "--since start, which is all that the log holds"
	case errors.Is(err, admin.ErrNoJob):
		next = "the same command with --job and the stage's job name, and --nats-url with its server"
	case errors.Is(err, fs.ErrPermission):
		next = "another --output"
	default:
		next = "the same command, when the cause is gone: it continues where it stopped"
	}
	return cli.Fail(cli.ExitFailure, err, next)
}

func newRecordVerify(a *cli.App) *cobra.Command {
	var file string
	cmd := &cobra.Command{
		Use:   "verify DIR",
		Short: "Compare a recording with itself, and with the job's log as far as that goes back",
		Long: `Read all files of a recording, compute the fingerprint of their samples again, and
compare it with what each file says. Then read the job's log again, from the first file
whose messages the log still has, and compare what would be recorded now.

Exit code 5: a file, or the log, differs.`,
		Example: "  eusn-stream record verify recording",
		Args:    cobra.ExactArgs(1),
	}
	recordCommand(a, cmd, &file, func(ctx context.Context, a *cli.App, c config.Config, args []string) error {
		job, files, b, err := openRecorded(ctx, a, c, false)
		if err != nil {
			return err
		}
		defer b.Close()
		ctx = b.EndOnRefusal(ctx)
		p := a.Progress()
		v, err := replay.VerifyRecording(ctx, job, replay.Record{Dir: args[0], Files: files, Takes: streamsNamed}, func(file, of int) {
			p.Report(int64(file), int64(of), "files compared")
		})
		p.Close()
		switch {
		case errors.Is(err, record.ErrDiffers):
			return cli.Fail(cli.ExitIntegrity, err, "another --output, for a new recording of what the log has; keep the old one apart")
		case errors.Is(err, fs.ErrNotExist):
			return cli.Fail(cli.ExitFailure, err, "the folder that record wrote to, and --job with the job's name")
		case err != nil:
			return recordFailure(b.ExplainRefusal(err), args[0], record.Position{})
		}
		if a.JSON {
			return a.PrintJSON(v)
		}
		a.Print("%d files with %d samples have the fingerprints in their headers; the recording has %s", v.Files, v.Samples, v.Fingerprint)
		if v.Compared < v.Files {
			a.Say("note: %d of them were not compared with the log, which does not have their messages any more", v.Files-v.Compared)
		}
		if v.Compared > 0 {
			a.Print("%d of them, from %s on, equal what the log has", v.Compared, v.First)
		}
		return nil
	})
	return cmd
}
