package archives

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/eusn-stream/eusn-stream/internal/cli"
	"github.com/eusn-stream/eusn-stream/internal/datafile"
	"github.com/eusn-stream/eusn-stream/internal/groups"
	"github.com/eusn-stream/eusn-stream/internal/imports"
	"github.com/eusn-stream/eusn-stream/internal/offline/bridge"
	"github.com/eusn-stream/eusn-stream/offline"
	"github.com/eusn-stream/eusn-stream/offline/archive"
	"github.com/eusn-stream/eusn-stream/reservoir"
)

// Read reads a dataset archive, or the only archive in a directory.
func Read(path string) (*archive.Dataset, error) {
	if found, folder := archivesIn(path); folder {
		if len(found) != 1 {
			return nil, cli.Fail(cli.ExitFailure, fmt.Errorf("%s is a folder with %d archives (*.parquet), want one of them", path, len(found)), "give the name of one archive")
		}
		path = found[0]
	}
	if err := cli.WholeFile(path); err != nil {
		return nil, err
	}
	if archive.IsRecording(path) {
		err := datafile.InContent(fmt.Errorf("%s is a recording, and this command reads data sets", path))
		return nil, cli.Fail(cli.ExitFailure, err, "give a data set, as eusn-stream import DIR, which writes one; a recording works with eusn-stream train, evaluate and replay")
	}
	d, err := archive.ReadDataset(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, cli.Fail(cli.ExitFailure, fmt.Errorf("no archive %s: %w", path, fs.ErrNotExist), "eusn-stream import DIR --name NAME --output "+cli.QuoteForShell(path))
	}
	return d, cli.Fail(cli.ExitFailure, err, "another file, or import the data again with eusn-stream import")
}

// archivesIn lists the archives in a folder; false if path is something else.
func archivesIn(path string) (found []string, folder bool) {
	if there, err := os.Stat(path); err != nil || !there.IsDir() {
		return nil, false
	}
	found, _ = filepath.Glob(filepath.Join(path, "*.parquet"))
	return found, true
}

// archive returns the file of a data set.
func (m *Labeled) archive() string {
	folder := cmp.Or(m.temporary, m.Path)
	if found, _ := archivesIn(folder); len(found) == 1 {
		return found[0]
	}
	return m.Path
}

// recordingChannels counts the channels of a recording archive.
func recordingChannels(path string) (channels int, err error) {
	r, err := archive.ReadRecording(path)
	if err != nil {
		return 0, cli.Fail(cli.ExitFailure, err, "docs/parquet.md describes the columns of a recording")
	}
	return len(r.Channels), r.Close()
}

// Labeled is the data for training and evaluating a model: a data set, or the recording at path.
type Labeled struct {
	Path     string
	Set      *archive.Dataset // nil: a recording
	Channels int
	Files    []string           // of a recording, in order
	Labels   *archive.LabelFile // labels of a recording's samples; nil: its column label

	Target string // column of numbers that the tables have; empty: none, or unknown

	temporary string // folder of the archive of tables
}

// Close removes the temporary archive of tables.
func (m Labeled) Close() {
	if m.temporary != "" {
		os.RemoveAll(m.temporary)
	}
}

// Open opens the data set or recording at path: a Parquet archive, a folder or pattern of files of eusn-stream record, or
// tables that eusn-stream import reads. Close removes the temporary archive of tables.
func Open(ctx context.Context, a *cli.App, path string) (Labeled, error) {
	switch parquet, _ := archivesIn(path); {
	case len(parquet) > 0:
	case HasTables(path, ""):
		return openTables(ctx, a, path)
	case isPublished(path):
		return openPublished(ctx, a, path)
	}
	files := recordedFiles(path)
	if len(files) > 0 {
		channels, err := recordingChannels(files[0])
		return Labeled{Path: path, Channels: channels, Files: files}, err
	}
	if there, err := os.Stat(path); err != nil || !there.IsDir() { // Read opens the archive in a directory
		if err := cli.WholeFile(path); err != nil {
			return Labeled{}, err
		}
		if archive.IsRecording(path) {
			channels, err := recordingChannels(path)
			return Labeled{Path: path, Channels: channels, Files: []string{path}}, err
		}
	}
	d, err := Read(path)
	if err != nil {
		return Labeled{}, err
	}
	return Labeled{Path: path, Set: d, Channels: len(d.Channels)}, nil
}

// recordedFiles are the files of a recording in a folder, or that fit a pattern, by their names; none if path is
// something else.
func recordedFiles(path string) []string {
	pattern := path
	if there, err := os.Stat(path); err == nil {
		if !there.IsDir() {
			return nil
		}
		pattern = filepath.Join(escaped(path), "*.parquet")
	}
	found, err := filepath.Glob(pattern) // sorted
	if err != nil || len(found) == 0 {
		return nil
	}
	r, err := archive.ReadRecording(found[0])
	if err != nil {
		return nil
	}
	defer r.Close()
	if !r.Recorded {
		return nil
	}
	return found
}

// escaped is a folder's name in a pattern.
func escaped(path string) string {
	if runtime.GOOS == "windows" { // has no escapes
		return path
	}
	return strings.NewReplacer(`\`, `\\`, "*", `\*`, "?", `\?`, "[", `\[`).Replace(path)
}

// ReadLabels takes the labels of a recording from a file; an empty path changes nothing.
func (m *Labeled) ReadLabels(path string) (err error) {
	switch {
	case path == "":
		return nil
	case m.Set != nil:
		return cli.Fail(cli.ExitUsage, fmt.Errorf("--labels %s: %s is a data set, whose series have labels; only a recording takes labels from a file", path, m.Path), "the same command without --labels")
	}
	m.Labels, err = archive.ReadLabels(path)
	return cli.Fail(cli.ExitFailure, err, "correct the file; eusn-stream labels export, which prints one")
}

// ReadGroups reads the column of a rule from a data set; a recording is read later.
func (m *Labeled) ReadGroups(rule *groups.Rule) error {
	column, ok := rule.Column()
	if m.Set == nil || !ok {
		return nil
	}
	return cli.Fail(cli.ExitFailure, m.Set.SetGroups(m.archive(), column), "the same command with one of these columns, or with a regular expression over the series' ids")
}

// ReadTarget reads a column of numbers of a data set, unless its name is empty; a recording is read later.
func (m *Labeled) ReadTarget(column string) error {
	if m.Set == nil || column == "" {
		return nil
	}
	return cli.Fail(cli.ExitFailure, m.Set.SetTarget(m.archive(), column), "the same command with one of these columns; docs/parquet.md shows how numbers stand in an archive")
}

// ReadTargetOf reads the column of numbers predicted by a model's readout, if the data set has this column.
func (m *Labeled) ReadTargetOf(model *reservoir.Model, name string) error {
	for _, h := range model.Readouts {
		if name != "" && h.Name != name {
			continue
		}
		if h.Interval != nil && m.Set != nil && archive.HasColumn(m.archive(), h.Classes[0]) {
			return m.ReadTarget(h.Classes[0])
		}
		return nil
	}
	return nil
}

// GroupSizes counts labeled data in each group of a rule after ReadGroups.
func (m *Labeled) GroupSizes(ctx context.Context, rule *groups.Rule) ([]groups.Size, error) {
	return bridge.CountGroups(ctx, m.data(), rule)
}

// data returns m in the form for package offline.
func (m Labeled) data() archive.Data {
	if m.Set != nil {
		return m.Set
	}
	return m.recording()
}

// recording returns a recording in the form for package offline.
func (m Labeled) recording() archive.RecordingFiles {
	if len(m.Files) == 0 {
		m.Files = []string{m.Path}
	}
	return archive.RecordingFiles{Paths: m.Files, Labels: m.Labels}
}

// errEnds ends the reading of a recording at the first end of a sequence.
var errEnds = errors.New("a sequence ends")

// Continuous reports whether m is a recording in which no sequence ends, the number of samples of its first stream, and
// its sampling rate in Hz by the times of this stream; 0: unknown.
func (m Labeled) Continuous(ctx context.Context) (continuous bool, samples int, rate float64, err error) {
	if m.Set != nil {
		return false, 0, 0, nil
	}
	rec, err := m.recording().Open("", "")
	if err != nil {
		return false, 0, 0, err
	}
	name, first, last, intervals := "", int64(archive.NoTime), int64(archive.NoTime), -1.
	err = rec.Each(ctx, func(c *archive.RecordingChunk) error {
		if slices.Contains(c.End, true) {
			return errEnds
		}
		for i, stream := range c.Stream {
			if name == "" {
				name, first = strings.Clone(stream), c.Time[i]
			}
			if stream != name {
				continue
			}
			if samples++; c.Time[i] != archive.NoTime {
				last = c.Time[i]
				intervals++
			}
		}
		return nil
	})
	if errors.Is(err, errEnds) {
		return false, 0, 0, nil
	}
	if first != archive.NoTime && last > first {
		rate = intervals / (float64(last-first) / 1e9)
	}
	return true, samples, rate, err
}

// Task returns the classes of the labels, and the column of numbers for a target; empty: none.
func (m Labeled) Task(ctx context.Context) (classes []string, target string, err error) {
	if m.Set != nil {
		return m.Set.Classes, "", nil
	}
	rec, err := m.recording().Open("", "")
	if err == nil {
		err = rec.Scan(ctx)
	}
	if err != nil {
		return nil, "", err
	}
	for _, column := range []string{m.Target, "rul", imports.Remaining, imports.RemainingTime} {
		if target == "" && column != "" && archive.HasColumn(m.recording().Paths[0], column) && !slices.Contains(rec.RecordingInfo.Channels, column) {
			target = column
		}
	}
	return rec.Classes, target, nil
}

// Trials opens m for several trainings.
func (m Labeled) Trials(ctx context.Context, o offline.RetrainOptions) (*bridge.Trials, error) {
	return bridge.OpenTrials(ctx, m.data(), o)
}

// Retrain trains a model on m.
func (m Labeled) Retrain(ctx context.Context, o offline.RetrainOptions, p archive.Progress) (*reservoir.Model, offline.RetrainReport, error) {
	return offline.Retrain(ctx, m.data(), o, p)
}

// Evaluate predicts m.
func (m Labeled) Evaluate(ctx context.Context, model *reservoir.Model, o offline.EvaluateOptions, p archive.Progress) (*offline.Evaluation, error) {
	return offline.Evaluate(ctx, model, m.data(), o, p)
}

// OtherSplit returns the part in an archive without the given part.
func OtherSplit(split string) string {
	if split == string(archive.Train) {
		return string(archive.Test)
	}
	return string(archive.Train)
}

// Words is the word for the streams of m.
func (m Labeled) Words() string {
	if m.Set == nil {
		return "streams"
	}
	return "series"
}
