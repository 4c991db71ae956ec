package offlinecmd

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/eusn-stream/eusn-stream/internal/cli"
	"github.com/eusn-stream/eusn-stream/offline/bench"
	"github.com/eusn-stream/eusn-stream/offline/report"
)

// reportRun is what offline report is asked for.
type reportRun struct {
	out     string
	gate    bool
	options report.Options
}

func newReport(a *cli.App) *cobra.Command {
	var r reportRun
	cmd := &cobra.Command{
		Use:   "report RESULTS...",
		Short: "One web page, tables and tsml files of results",
		Long: `Make one report of the results files of offline paper, memory and model:

  report.html    a page without scripts that needs no network: tables beside the
                 paper's figures, ranks and critical differences, memory curves,
                 and every result's configuration, seeds and command
  table.csv      a line per data set and model
  modelling.csv  the same of offline modelling, if there is any
  results.jsonl  all that is known of each, its draws included
  tsml/          <Classifier>/Predictions/<Dataset>/testResample<k>.csv for
                 tsml-eval and aeon, k being the draw

Files of one protocol must have the same seed, and each model on a data set may
be in one of them only. The same files give the same bytes. A file that a run is
still writing can be read between its results: what is not finished is listed.
--gate exits with 6 where an accuracy leaves the tolerance of the paper, as in
offline paper; the report is written all the same.`,
		Example: `  eusn-stream offline report paper.jsonl best.jsonl bank.jsonl memory.jsonl modelling.jsonl -o report
  eusn-stream offline report paper.jsonl --figures figures --gate --json`,
		Args: cobra.MinimumNArgs(1),
	}
	f := cmd.Flags()
	f.StringVarP(&r.out, "out", "o", "report", "folder for the files")
	f.StringVar(&r.options.Figures, "figures", "", "folder made by offline figures, for Fig. 1 to 3")
	f.StringVar(&r.options.Date, "date", "", "date to print (default: the day of the latest run in the files)")
	f.StringVar(&r.options.Machine, "machine", "", "machine to print (default: those the files name)")
	f.BoolVar(&r.gate, "gate", false, "exit with 6 where a result leaves the tolerance of the paper")
	cmd.RunE = a.Do(func(ctx context.Context, paths []string) error { return makeReport(ctx, a, paths, r) })
	return cmd
}

func makeReport(ctx context.Context, a *cli.App, paths []string, r reportRun) error {
	for _, path := range paths {
		if err := cli.WholeFile(path); err != nil {
			return err
		}
	}
	rep, err := report.Load(paths, r.options)
	switch {
	case errors.Is(err, bench.ErrTorn):
		return cli.Fail(cli.ExitFailure, err, "the same command again, if a run is still writing that file; if it was cut off, what made it with --resume, which drops the line and goes on")
	case errors.Is(err, fs.ErrNotExist):
		return cli.Fail(cli.ExitFailure, err, "eusn-stream offline paper ARCHIVE... --out FILE makes results")
	case err != nil:
		return cli.Fail(cli.ExitFailure, err, "eusn-stream offline report --help")
	}
	files := rep.Files()
	if err := r.noneLeft(files); err != nil {
		return err
	}
	p := a.Progress()
	defer p.Close()
	for i, f := range files {
		err := ctx.Err()
		if err == nil {
			err = r.write(f, paths)
		}
		if err != nil {
			return cli.OrInterrupted(err, "%s has no new report.html; its other files are whole", r.out)
		}
		p.Report(int64(i+1), int64(len(files)), "files")
	}
	p.Close()
	return endReport(a, r, rep.Summary(), len(files))
}

// noneLeft refuses a folder with predictions, or a table of modelling, of
// another report: nothing would tell them from those of this one.
func (r reportRun) noneLeft(files []report.File) error {
	if there, err := os.Stat(r.out); err == nil && !there.IsDir() {
		return cli.Fail(cli.ExitFailure, fmt.Errorf("%s is no folder, and the report is one", r.out), "another --out")
	}
	ours := map[string]bool{}
	for _, f := range files {
		ours[filepath.Join(r.out, filepath.FromSlash(f.Name))] = true
	}
	top := filepath.Join(r.out, "tsml")
	err := filepath.WalkDir(top, func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() && !ours[path] {
			err = cli.Fail(cli.ExitFailure, fmt.Errorf("%s is of another report", path), "another --out, or rm -r "+cli.QuoteForShell(top))
		}
		return err
	})
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	table := filepath.Join(r.out, "modelling.csv")
	if _, err := os.Lstat(table); err == nil && !ours[table] {
		return cli.Fail(cli.ExitFailure, fmt.Errorf("%s is of another report", table), "another --out, or rm "+cli.QuoteForShell(table))
	}
	return nil
}

// write makes one file.
func (r reportRun) write(f report.File, inputs []string) error {
	path := filepath.Join(r.out, filepath.FromSlash(f.Name))
	data, err := f.Data()
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return cli.Fail(cli.ExitFailure, err, "another --out")
	}
	if err := cli.OutputFile(path, inputs...); err != nil {
		return err
	}
	return cli.ReplaceFile(path, data, cli.Public)
}

func endReport(a *cli.App, r reportRun, s report.Summary, files int) error {
	var err error
	if a.JSON {
		err = a.PrintJSON(struct {
			Out   string `json:"out"`
			Page  string `json:"page"`
			Files int    `json:"files"`
			report.Summary
		}{r.out, filepath.Join(r.out, "report.html"), files, s})
	} else {
		for _, p := range s.Protocols {
			a.Print("%s: %d results, %d data sets x %s", p.Section, p.Cells, len(p.Datasets), strings.Join(p.Models, ", "))
		}
		if s.Compared > 0 {
			a.Print("%d of %d results within the tolerance of the paper", s.Within, s.Compared)
		} else {
			a.Print("the paper has no figure for any of these")
		}
		for _, o := range s.ByOurs {
			a.Print("  by our deviation alone: %s", o)
		}
		for _, o := range s.Outside {
			a.Print("  outside: %s", o)
		}
		for _, m := range s.Missing {
			a.Say("note: %s", m)
		}
		a.Say("wrote %s and %d other files", filepath.Join(r.out, "report.html"), files-1)
	}
	if err == nil && r.gate && len(s.Outside) > 0 {
		var outside []string
		for _, o := range s.Outside {
			outside = append(outside, o.String())
		}
		err = cli.Fail(cli.ExitTolerance, fmt.Errorf("outside the tolerance of the paper: %s", strings.Join(outside, "; ")), "")
	}
	return err
}
