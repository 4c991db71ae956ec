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
	"github.com/eusn-stream/eusn-stream/internal/paper"
	"github.com/eusn-stream/eusn-stream/internal/report"
)

// reportRun is a request to offline paper report.
type reportRun struct {
	out     string
	gate    bool
	options report.Options
}

func newReport(a *cli.App) *cobra.Command {
	var r reportRun
	cmd := &cobra.Command{
		Use:   "report RESULTS...",
		Short: "Make a web page, tables and tsml files from results",
		Long: `Make one report of the results files of offline paper, compare and memory:

  report.html    a page without scripts that needs no network: tables next to the
                 paper's values, ranks and critical differences, memory curves,
                 and the configuration, seeds and command of every result
  table.csv      one line per data set and model
  results.jsonl  all details of each result, including its draws
  tsml/          <Classifier>/Predictions/<Dataset>/testResample<k>.csv for
                 tsml-eval and aeon; k is the draw

Files of one protocol must have the same seed, and only one of them may have a given
model on a given data set. The same files give the same bytes. The command can read a
file that a run is still writing, and lists unfinished results. --gate exits with 6 if
an accuracy is outside the tolerance of the paper, as in offline paper; the report is
written in any case.`,
		Example: `  eusn-stream offline paper report paper.jsonl best.jsonl bank.jsonl memory.jsonl -o report
  eusn-stream offline paper report compare.jsonl -o banks
  eusn-stream offline paper report paper.jsonl --figures figures --gate --json`,
		Args: cobra.MinimumNArgs(1),
	}
	f := cmd.Flags()
	f.StringVarP(&r.out, "output", "o", "report", "folder for the files")
	f.StringVar(&r.options.Figures, "figures", "", "folder written by offline paper figures, for Fig. 1 to 3")
	f.StringVar(&r.options.Date, "date", "", "date to print (default: the date of the latest run in the files)")
	f.StringVar(&r.options.Machine, "machine", "", "machine to print (default: the machines named in the files)")
	f.BoolVar(&r.gate, "gate", false, "exit with 6 if a result is outside the tolerance of the paper")
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
	case errors.Is(err, paper.ErrTorn):
		return cli.Fail(cli.ExitFailure, err, "the same command again if a run is still writing that file; otherwise repeat the command that wrote it with --resume, which replaces the incomplete line")
	case errors.Is(err, fs.ErrNotExist):
		return cli.Fail(cli.ExitFailure, err, "eusn-stream offline paper tables ARCHIVE... --output FILE writes results")
	case err != nil:
		return cli.Fail(cli.ExitFailure, err, "eusn-stream offline paper report --help")
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
			err = r.writeReport(f, paths)
		}
		if err != nil {
			return cli.OrInterrupted(err, "%s has no new report.html; its other files are complete", r.out)
		}
		p.Report(int64(i+1), int64(len(files)), "files")
	}
	p.Close()
	return endReport(a, r, rep.Summary(), len(files))
}

// noneLeft refuses a folder with predictions of another report, which a reader would take for predictions of the new
// report.
func (r reportRun) noneLeft(files []report.File) error {
	if there, err := os.Stat(r.out); err == nil && !there.IsDir() {
		return cli.Fail(cli.ExitFailure, fmt.Errorf("%s is not a folder, and the report needs a folder", r.out), "another --output")
	}
	ours := map[string]bool{}
	for _, f := range files {
		ours[filepath.Join(r.out, filepath.FromSlash(f.Name))] = true
	}
	top := filepath.Join(r.out, "tsml")
	err := filepath.WalkDir(top, func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() && !ours[path] {
			err = cli.Fail(cli.ExitFailure, fmt.Errorf("%s belongs to another report", path), "choose another --output; if the old report is not needed, rm -r "+cli.QuoteForShell(top))
		}
		return err
	})
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// writeReport makes a file.
func (r reportRun) writeReport(f report.File, inputs []string) error {
	path := filepath.Join(r.out, filepath.FromSlash(f.Name))
	data, err := f.Data()
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return cli.Fail(cli.ExitFailure, err, "another --output")
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
		switch {
		case s.Compared > 0:
			a.Print("%d of %d results within the tolerance of the paper", s.Within, s.Compared)
		case !s.OnlyBanks:
			a.Print("the paper has no value for any of these results")
		}
		for _, o := range s.ByOurs {
			a.Print("  within the tolerance only because of our deviation: %s", o)
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
