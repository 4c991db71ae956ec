package archives

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/eusn-stream/eusn-stream/internal/cli"
	"github.com/eusn-stream/eusn-stream/internal/imports"
	"github.com/eusn-stream/eusn-stream/internal/names"
	"github.com/eusn-stream/eusn-stream/offline/archive"
)

// IsCSV reports whether the name is the name of a CSV file.
func IsCSV(path string) bool {
	lower := strings.ToLower(path)
	return strings.HasSuffix(lower, ".csv") || strings.HasSuffix(lower, ".csv.gz")
}

// HasTables reports whether path has tables, and no published data set. name is the name of a data set in a folder; empty:
// none was given.
func HasTables(path, name string) bool {
	info, err := os.Stat(path)
	if err == nil && !info.IsDir() || IsCSV(path) {
		return imports.IsTable(path)
	}
	if sets, err := imports.Datasets(path); err == nil && (len(sets) > 0 || name != "") {
		return false
	}
	files, err := imports.TableFiles(path)
	return err == nil && len(files) > 0 && imports.IsTable(files[0])
}

// NameRecording returns the name of a recording: of its file, or of its folder.
func NameRecording(path string) string {
	if info, err := os.Stat(path); err == nil && !info.IsDir() {
		return imports.BaseName(path)
	}
	folder, err := filepath.Abs(path)
	if err == nil && strings.ContainsAny(filepath.Base(folder), "*?[") {
		folder = filepath.Dir(folder)
	}
	return filepath.Base(folder)
}

// makeFolder creates a folder for a temporary archive.
func makeFolder() (string, error) {
	dir, err := os.MkdirTemp("", "eusn-stream-import-")
	return dir, cli.Fail(cli.ExitFailure, err, "set TMPDIR to a folder with free space")
}

// openTables imports tables into a temporary archive.
func openTables(ctx context.Context, a *cli.App, path string) (m Labeled, err error) {
	files, err := imports.TableFiles(path)
	if err != nil {
		files = []string{path} // WholeFile has the better message
	}
	for _, file := range files {
		if err := cli.WholeFile(file); err != nil {
			return m, err
		}
	}
	dir, err := makeFolder()
	if err != nil {
		return m, err
	}
	m = Labeled{Path: path, Files: []string{filepath.Join(dir, "recording.parquet")}, temporary: dir}
	in := imports.RecordingImport{Path: path, Out: m.Files[0], Tool: cli.ToolName()}
	if name := NameRecording(path); name != imports.BaseName(path) {
		in.Name = name
	}
	p := a.Progress()
	sum, err := imports.ImportRecording(ctx, in, p.Report)
	p.Close()
	if err != nil {
		m.Close()
		return m, cli.Fail(cli.ExitFailure, cli.OrInterrupted(err, "nothing was written"), "eusn-stream import --help, which describes the columns of tables and the flags for others")
	}
	m.Channels, m.Target = len(sum.Channels), sum.Target
	sayColumns(a, path, sum)
	return m, nil
}

// isPublished reports whether path is a folder with one published data set.
func isPublished(path string) bool {
	sets, err := imports.Datasets(path)
	return err == nil && len(sets) == 1
}

// openPublished imports a published data set into a temporary archive.
func openPublished(ctx context.Context, a *cli.App, path string) (m Labeled, err error) {
	dir, err := makeFolder()
	if err != nil {
		return m, err
	}
	m = Labeled{Path: path, temporary: dir}
	p := a.Progress()
	m.Set, err = imports.Import(ctx, imports.Options{Dir: path, Tool: cli.ToolName()}, p.Report)
	p.Close()
	if err == nil {
		err = errors.Join(ctx.Err(), archive.WriteDataset(filepath.Join(dir, "set.parquet"), m.Set))
	}
	if err != nil {
		m.Close()
		return m, cli.Fail(cli.ExitFailure, cli.OrInterrupted(err, "nothing was written"), "eusn-stream import --help")
	}
	m.Channels = len(m.Set.Channels)
	return m, nil
}

// sayColumns reports the use of columns that was guessed, because the table has no column stream.
func sayColumns(a *cli.App, path string, sum imports.RecordingSummary) {
	var other []string
	for _, c := range sum.Table.Columns {
		switch c.Kind {
		case "stream":
			if c.Name == "stream" {
				return
			}
		case "channel":
			continue
		}
		other = append(other, fmt.Sprintf("%s (%s)", names.Cut(c.Name, 40), c.Kind))
	}
	text := ""
	if len(other) > 0 {
		text = "; not " + strings.Join(other, ", ")
	}
	a.Say("note: channels of %s are %s%s; eusn-stream import --dry-run shows each column", path, strings.Join(sum.Channels, ", "), text)
}
