package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/eusn-stream/eusn-stream/offline"
	"github.com/eusn-stream/eusn-stream/reservoir"
)

// readArchive reads a dataset archive. A directory stands for the only
// archive in it.
func readArchive(path string) (*offline.Dataset, error) {
	if there, err := os.Stat(path); err == nil && there.IsDir() {
		found, _ := filepath.Glob(filepath.Join(path, "*.parquet"))
		if len(found) != 1 {
			return nil, fail(exitFailure, fmt.Errorf("%s is a folder with %d archives (*.parquet), want one of them", path, len(found)), "the archive's own name")
		}
		path = found[0]
	}
	if err := wholeFile(path); err != nil {
		return nil, err
	}
	d, err := offline.ReadArchive(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fail(exitFailure, fmt.Errorf("no archive %s: %w", path, fs.ErrNotExist), "eusn-stream offline import DIR --name NAME --out "+quoteForShell(path))
	}
	next := "another file, or make the archive anew with eusn-stream offline import"
	if _, recording := recordingChannels(path); recording {
		next = "a data set; recordings are for eusn-stream offline retrain, offline evaluate and replay"
	}
	return d, fail(exitFailure, err, next)
}

// recordingChannels counts the channels of a recording archive; false where
// the file is none.
func recordingChannels(path string) (channels int, ok bool) {
	r, err := offline.ReadRecording(path)
	if err != nil {
		return 0, false
	}
	return len(r.Channels), r.Close() == nil
}

// labelledData is what a model is trained on and evaluated with: a data set, or
// the recording at path.
type labelledData struct {
	path     string
	set      *offline.Dataset // nil: a recording
	channels int
}

func openLabelled(path string) (labelledData, error) {
	if there, err := os.Stat(path); err != nil || !there.IsDir() { // one stands for the archive in it
		if err := wholeFile(path); err != nil {
			return labelledData{}, err
		}
		if channels, ok := recordingChannels(path); ok {
			return labelledData{path: path, channels: channels}, nil
		}
	}
	d, err := readArchive(path)
	if err != nil {
		return labelledData{}, err
	}
	return labelledData{path: path, set: d, channels: len(d.Channels)}, nil
}

func (m labelledData) retrain(ctx context.Context, o offline.RetrainOptions, p offline.Progress) (*reservoir.Model, offline.RetrainReport, error) {
	if m.set == nil {
		return offline.RetrainRecording(ctx, m.path, o, p)
	}
	return offline.Retrain(ctx, m.set, o, p)
}

func (m labelledData) evaluate(ctx context.Context, model *reservoir.Model, o offline.EvaluateOptions, p offline.Progress) (*offline.Evaluation, error) {
	if m.set == nil {
		return offline.EvaluateRecording(ctx, model, m.path, o, p)
	}
	return offline.Evaluate(ctx, model, m.set, o, p)
}
