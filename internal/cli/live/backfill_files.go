package live

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/eusn-stream/eusn-stream/internal/cli"
	"github.com/eusn-stream/eusn-stream/internal/cli/archives"
	"github.com/eusn-stream/eusn-stream/internal/cli/source"
	"github.com/eusn-stream/eusn-stream/internal/datafile"
	"github.com/eusn-stream/eusn-stream/internal/imports"
	"github.com/eusn-stream/eusn-stream/internal/producer"
	"github.com/eusn-stream/eusn-stream/internal/replay"
	"github.com/eusn-stream/eusn-stream/offline/archive"
)

// oldFiles are files of old samples, one after another.
type oldFiles struct {
	words    string // description of the files
	channels []string
	rows     int64

	left []string
	open func(path string) (archiveSource, error)
	now  archiveSource
}

// openOld checks all files before the first is read: an error in the last file should
// not appear after hours.
func openOld(ctx context.Context, a *cli.App, o backfillOptions, channels []string) (*oldFiles, error) {
	f := &oldFiles{left: o.files}
	f.open = func(path string) (archiveSource, error) {
		return replayOptions{archive: path, split: o.split}.openArchive(ctx)
	}
	var names []string
	for _, path := range o.files {
		there, err := os.Stat(path)
		if err != nil {
			return nil, cli.Fail(cli.ExitFailure, err, "a file that is there; eusn-stream job backfill --since TIME --output FILE, which predicts a job's stored input")
		}
		set, err := f.look(ctx, a, path, channels)
		if err != nil {
			return nil, err
		}
		name := fmt.Sprintf("%s of %d bytes, changed %s", path, there.Size(), there.ModTime().UTC().Format(time.RFC3339Nano))
		if set {
			name += ", part " + o.split
		}
		names = append(names, name)
	}
	f.words = strings.Join(names, "; ")
	return f, nil
}

// look opens a file, counts its samples and compares its channels with the model's.
// set: it is a data set.
func (f *oldFiles) look(ctx context.Context, a *cli.App, path string, channels []string) (set bool, err error) {
	src, err := f.open(path)
	if err == nil && archives.IsCSV(path) {
		src.rows, err = countCSV(ctx, a, path)
	}
	if err != nil {
		return false, err
	}
	defer src.close()
	f.rows += src.rows
	if _, set = src.Source.(*source.Series); set && len(f.left) > 1 {
		return set, cli.Fail(cli.ExitFailure, fmt.Errorf("%s is a data set: its series have no names of their own, so it cannot be read with other files", path), "a command for each data set")
	}
	for _, name := range channels {
		if !slices.Contains(src.channels, name) {
			err = datafile.InContent(fmt.Errorf("the model reads channels %q, %s has %q: want the same names", channels, path, src.channels))
			return set, cli.Fail(cli.ExitFailure, err, "a model that was trained on these channels: eusn-stream model show FILE, which shows a model's")
		}
	}
	if f.channels == nil {
		f.channels = src.channels
	}
	if !slices.Equal(f.channels, src.channels) {
		err = datafile.InContent(fmt.Errorf("%s has channels %q, and the files before it %q: files that are read as one need the same, in the same order", path, src.channels, f.channels))
		return set, cli.Fail(cli.ExitFailure, err, "a command for each of them")
	}
	return set, nil
}

const csvHelp = "eusn-stream import --help, which describes the columns of a CSV recording"

func openCSV(ctx context.Context, path string, progress archive.Progress) (archiveSource, error) {
	if err := cli.WholeFile(path); err != nil {
		return archiveSource{}, err
	}
	r, err := imports.ReadCSVRecording(ctx, path, progress)
	if err != nil {
		return archiveSource{}, cli.Fail(cli.ExitFailure, err, csvHelp)
	}
	return archiveSource{Source: source.NewCSVRecording(r), channels: r.Channels, close: r.Close}, nil
}

// countCSV reads a whole CSV recording to count its samples.
func countCSV(ctx context.Context, a *cli.App, path string) (rows int64, err error) {
	p := a.Progress()
	defer p.Close()
	src, err := openCSV(ctx, path, p.Report)
	if err != nil {
		return 0, err
	}
	defer src.close()
	for {
		it, err := src.Next()
		if errors.Is(err, io.EOF) {
			return rows, nil
		}
		if err != nil {
			return rows, cli.Fail(cli.ExitFailure, cli.OrInterrupted(err, "nothing was predicted yet"), csvHelp)
		}
		rows += int64(len(it.X) / len(src.channels))
	}
}

// messages begins with the first file.
func (f *oldFiles) messages() (replay.BackfillMessages, error) {
	return producer.NewMessages(f, f.channels, 0)
}

// Next implements producer.Source.
func (f *oldFiles) Next() (producer.Item, error) {
	for {
		if f.now.Source != nil {
			it, err := f.now.Next()
			if !errors.Is(err, io.EOF) {
				return it, err
			}
			f.closeFile()
		}
		if len(f.left) == 0 {
			return producer.Item{}, io.EOF
		}
		var err error
		if f.now, err = f.open(f.left[0]); err != nil {
			return producer.Item{}, err
		}
		f.left = f.left[1:]
	}
}

func (f *oldFiles) closeFile() {
	if f.now.Source != nil {
		f.now.close()
		f.now = archiveSource{}
	}
}
