package watchcmd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"

	"github.com/eusn-stream/eusn-stream/internal/cli"
	"github.com/eusn-stream/eusn-stream/internal/cli/source"
	"github.com/eusn-stream/eusn-stream/internal/config"
	"github.com/eusn-stream/eusn-stream/internal/discover"
	"github.com/eusn-stream/eusn-stream/internal/imports"
	"github.com/eusn-stream/eusn-stream/internal/producer"
	"github.com/eusn-stream/eusn-stream/offline/archive"
)

// tables are imported tables.
type tables struct {
	dir  string // temporary
	path string // of the archive
	sum  imports.RecordingSummary
}

func (t *tables) close() { os.RemoveAll(t.dir) }

// openTables imports the tables of the place.
func (w *watcher) openTables(ctx context.Context) (*tables, error) {
	dir, err := os.MkdirTemp("", "eusn-stream-watch-")
	if err != nil {
		return nil, cli.Fail(cli.ExitFailure, err, "set TMPDIR to a folder with free space")
	}
	t := &tables{dir: dir, path: filepath.Join(dir, "tables.parquet")}
	p := w.app.Progress()
	t.sum, err = imports.ImportRecording(ctx, imports.RecordingImport{Path: w.at.path, Out: t.path, Tool: cli.ToolName()}, p.Report)
	p.Close()
	if err != nil {
		t.close()
		return nil, cli.Fail(cli.ExitFailure, cli.OrInterrupted(err, "nothing was saved"), "eusn-stream import "+cli.QuoteForShell(w.at.path)+" --dry-run, which shows each column")
	}
	return t, nil
}

// each gives the samples of the tables to visit: of each stream its number from 0.
func (t *tables) each(ctx context.Context, visit func(c *archive.RecordingChunk, row, number int) error) error {
	r, err := archive.ReadRecording(t.path)
	if err != nil {
		return err
	}
	defer r.Close()
	numbers := map[string]int{}
	var c archive.RecordingChunk
	for {
		err := r.Next(&c)
		if err == io.EOF {
			return nil
		}
		if err == nil {
			err = ctx.Err()
		}
		if err != nil {
			return err
		}
		for i, stream := range c.Stream {
			if err := visit(&c, i, numbers[stream]); err != nil {
				return err
			}
			numbers[stream]++
		}
	}
}

// watchTables learns the beginning of each stream, and replays the rest.
func (w *watcher) watchTables(ctx context.Context) error {
	if err := checkFolder(w.o.dir); err != nil {
		return err
	}
	t, err := w.openTables(ctx)
	if err != nil {
		return err
	}
	defer t.close()
	rate := t.sum.Table.Rate
	if rate == 0 {
		return cli.Fail(cli.ExitFailure, errors.New("the sampling rate is unknown: the tables have no column of times"), "eusn-stream import --help, which gives tables times; then train --healthy-only and run")
	}
	first, s, sensors, err := w.readHealthy(ctx, t, rate)
	if err != nil {
		return err
	}
	rate = s.Rate() // by the mean interval: the stage compares this with the rate of each window
	w.out.event("found", map[string]any{"machines": s.Names(), "channels": sensors, "rate": rate})
	w.out.say("%d %s, %s; learning the first %s of each", len(s.Machines), plural(len(s.Machines), "machine"), hertz(rate), spanText(float64(first)/rate))
	w.printSensors(s, sensors)
	l, err := w.train(ctx, s, sensors, rate)
	if err != nil {
		return cli.OrInterrupted(err, "nothing was saved")
	}
	if changed := l.changed(); changed != "" {
		w.out.say("warning: %s; learn more with --learn", changed)
	}
	conf, err := w.save(l, w.configText(config.Gateway{}, nil, nil))
	if err != nil {
		return err
	}
	return w.replayTables(ctx, conf, t, func(number int) bool { return number >= first })
}

// readHealthy reads the first samples of each stream, more than requested if these lack something.
func (w *watcher) readHealthy(ctx context.Context, t *tables, rate float64) (first int, s *discover.Samples, sensors []discover.Sensor, err error) {
	for first = max(leastSamples, int(w.o.learn.Seconds()*rate)); ; {
		s = discover.NewSamples(t.sum.Channels)
		k, more := len(t.sum.Channels), false
		err := t.each(ctx, func(c *archive.RecordingChunk, row, number int) error {
			if number < first {
				at := c.Time[row]
				s.Add(c.Stream[row], c.Values[row*k:(row+1)*k], c.Time[row:row+1], at)
			} else {
				more = true
			}
			return nil
		})
		if err != nil {
			return 0, nil, nil, cli.OrInterrupted(err, "nothing was saved")
		}
		sensors = s.Grade()
		l := lackOf(s, sensors, rate)
		switch {
		case l.text == "" && more:
			return first, s, sensors, nil
		case l.text == "":
			return 0, nil, nil, cli.Fail(cli.ExitFailure, errors.New("all samples are needed to learn: nothing is left to watch"), "more samples, or a shorter --learn")
		case !more:
			return 0, nil, nil, cli.Fail(cli.ExitFailure, fmt.Errorf("the tables have too little: %s", l.text), "more samples of healthy machines")
		}
		w.out.say("not enough yet: %s; reading more", l.text)
		first = max(2*first, first+int(math.Ceil(l.more.Seconds()*rate)))
	}
}

// replayTables runs the stage and sends the samples that keep (nil: all) selects.
func (w *watcher) replayTables(ctx context.Context, s *saved, t *tables, keep func(number int) bool) error {
	path := filepath.Join(t.dir, "rest.parquet")
	if err := t.writeRest(ctx, path, s.model.Channels, keep); err != nil {
		err = cli.OrInterrupted(err, "the configuration is saved in %s", w.o.dir)
		return cli.Fail(cli.ExitFailure, err, "the tables of this folder, or --save with another folder")
	}
	return w.runStage(ctx, s, func(ctx context.Context, open opener) {
		if err := w.publish(ctx, s, path, open); err != nil && ctx.Err() == nil {
			w.out.say("the replay has ended: %v", err)
		}
	})
}

// writeRest writes the selected samples of some channels.
func (t *tables) writeRest(ctx context.Context, path string, channels []string, keep func(number int) bool) error {
	var numbers []int
	for _, name := range channels {
		at := slices.Index(t.sum.Channels, name)
		if at < 0 {
			return fmt.Errorf("the tables have no channel %q, which the saved model has", name)
		}
		numbers = append(numbers, at)
	}
	out, err := archive.WriteRecording(path, archive.RecordingInfo{Name: "rest", Channels: channels, Source: archive.Provenance{Format: "watch"}})
	if err != nil {
		return err
	}
	k := len(t.sum.Channels)
	var c archive.RecordingChunk
	err = t.each(ctx, func(from *archive.RecordingChunk, row, number int) error {
		if keep != nil && !keep(number) {
			return nil
		}
		c.Stream, c.Seq, c.Time = append(c.Stream, from.Stream[row]), append(c.Seq, from.Seq[row]), append(c.Time, from.Time[row])
		c.End, c.Label = append(c.End, false), append(c.Label, "")
		for _, i := range numbers {
			c.Values = append(c.Values, from.Values[row*k+i])
		}
		if c.Rows() < archive.GroupRows(len(channels)) {
			return nil
		}
		err := out.Write(&c)
		c.Reset()
		return err
	})
	if err == nil && c.Rows() > 0 {
		err = out.Write(&c)
	}
	if err != nil {
		out.Abort()
		return err
	}
	return out.Close()
}

// publish sends a recording to the stage.
func (w *watcher) publish(ctx context.Context, s *saved, path string, open opener) error {
	r, err := archive.ReadRecording(path)
	if err != nil {
		return err
	}
	defer r.Close()
	nc, _, err := open(ctx, "eusn-stream/"+s.conf.Job+"/replay")
	if err != nil {
		return err
	}
	defer nc.Close()
	done, err := producer.Publisher{
		Subject: s.conf.Input.Subject, Channels: s.model.Channels, RowsPerMessage: producer.DefaultRowsPerMessage, Playing: 1,
		Speed: w.o.speed, Job: s.conf.Job, Log: w.app.Logger(s.conf.Log.Level, s.conf.Log.Format),
	}.Publish(ctx, nc, source.Until(ctx, source.NewRecording(r)))
	if err != nil {
		return err
	}
	w.out.say("replayed %d samples of %d %s; Ctrl-C stops", done.Rows, done.Streams, plural(done.Streams, "machine"))
	w.out.event("replayed", map[string]any{"samples": done.Rows})
	return nil
}
