package offlinecmd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/eusn-stream/eusn-stream/internal/cli"
	"github.com/eusn-stream/eusn-stream/internal/cli/archives"
	"github.com/eusn-stream/eusn-stream/internal/imports"
	"github.com/eusn-stream/eusn-stream/offline/archive"
)

// NewCommand makes the command "offline" with its subcommands.
func NewCommand(a *cli.App) *cobra.Command {
	paper := cli.Group("paper", "Run the experiments of the paper, and compare with published classifiers", newTables(a), newMemory(a), newCompare(a), newFigures(a), newReport(a), newEmbed(a))
	return cli.Group("offline", "Retrain and evaluate models, and rerun the experiments of the paper", NewTrain(a, "retrain"), NewEvaluate(a), NewImport(a), newSplit(a), paper)
}

// dataColumns describes DATA of train, evaluate and split.
const dataColumns = "a file, folder or pattern; see eusn-stream import --help"

// oneData requires one archive or recording.
func oneData(cmd *cobra.Command, args []string) error {
	if len(args) != 1 {
		return fmt.Errorf("which data? %s DATA takes one data set or recording, not %d", cmd.CommandPath(), len(args))
	}
	return nil
}

// NewImport makes the command "import", also available as "offline import".
func NewImport(a *cli.App) *cobra.Command {
	var o imports.Options
	var table tableFlags
	var to importTarget
	cmd := &cobra.Command{
		Use:   "import FILE | FOLDER | 'PATTERN'",
		Short: "Make a Parquet archive of tables (CSV, text, NPZ) or of a published data set",
		Long: `A table has a row for each sample and a column for each channel, with or without a header
line, compressed with gzip or not: CSV with any delimiter, text with blanks, NPZ. The
command finds the delimiter, the decimal sign, the times and the kind of each column, and
prints them; --dry-run prints a line for each column, with a grade. Flags, or a file of
--write-mapping and --mapping, change the kinds.

Without a column for streams, each file is a stream with the name of the file. A column
"stream" selects the names stream, seq, time, end and label; all others are channels.

FOLDER can also hold a data set in its published form (.ts, .tsv, .arff, idx, token lists).
The command looks for NAME_TRAIN.* and NAME_TEST.*; or give the files with --train and
--test. The archive then has labels, split and provenance.`,
		Example: `  eusn-stream import recording.csv.gz --output recording.parquet
  eusn-stream import plant.csv --dry-run
  eusn-stream import runs/ --label anomaly --classes 0=normal,1=fault --ignore changepoint
  eusn-stream import train_FD001.txt.gz --columns unit,cycle,set1..set3,s1..s21 --target remaining --cap 125
  eusn-stream import datasets/Adiac
  eusn-stream import --train Adiac_TRAIN.ts --test Adiac_TEST.ts --output adiac.parquet`,
		Args: cobra.MaximumNArgs(1),
	}
	f := cmd.Flags()
	f.StringVar(&o.Name, "name", "", "name of the data set in FOLDER")
	f.StringVar(&o.Train, "train", "", "file of the training part of a data set, instead of FOLDER")
	f.StringVar(&o.Test, "test", "", "file of the test part of a data set, instead of FOLDER")
	f.IntVar(&o.NumWords, "num-words", 0, fmt.Sprintf("vocabulary of token lists; -1 = all (default %d)", imports.DefaultNumWords))
	f.StringVar(&o.License, "license", "", "license to record in the archive")
	f.StringVar(&o.Note, "note", "", "remark to record in the archive")
	f.StringVarP(&to.out, "output", "o", "", "archive to write (default NAME.parquet)")
	f.BoolVar(&to.force, "force", false, "overwrite an existing archive")
	f.BoolVar(&to.dry, "dry-run", false, "only read, and print the content")
	table.addFlags(f)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		o.Tool = cli.ToolName()
		if o.NumWords < -1 {
			return fmt.Errorf("--num-words %d: want a number of words, or -1 for all", o.NumWords)
		}
		t, used, err := table.readFlags(cmd.Flags())
		if err != nil {
			return err
		}
		if len(args) == 1 && (used != "" || archives.HasTables(args[0], o.Name)) {
			if o.Train != "" || o.Test != "" {
				return errors.New("--train and --test name the files of a data set, and a table is a recording: give one of them")
			}
			r := imports.RecordingImport{Path: args[0], Name: o.Name, Tool: o.Tool, License: o.License, Note: o.Note, Table: t}
			return a.Do(func(ctx context.Context, _ []string) error { return importRecording(ctx, a, r, to, table.write) })(cmd, args)
		}
		if used != "" {
			return fmt.Errorf("--%s is for recordings: give a table with it", used)
		}
		if len(args) == 1 {
			o.Dir = args[0]
		}
		if o.Dir == "" && o.Train == "" && o.Test == "" {
			return errors.New("nothing to import: give a table, a folder, or --train and --test")
		}
		return a.Do(func(ctx context.Context, _ []string) error { return importDataset(ctx, a, o, to) })(cmd, args)
	}
	return cmd
}

// importTarget is the archive to write.
type importTarget struct {
	out        string
	force, dry bool // dry: only read
}

// sayWritten reports what became of the archive.
func (t importTarget) sayWritten(a *cli.App, out string) {
	if t.dry {
		a.Say("nothing was written; without --dry-run: %s", out)
		return
	}
	a.Say("wrote %s", out)
}

func importDataset(ctx context.Context, a *cli.App, o imports.Options, to importTarget) error {
	inputs, err := o.Files()
	if err != nil {
		return cli.Fail(cli.ExitFailure, err, "eusn-stream import --help")
	}
	for _, in := range inputs {
		if err := cli.WholeFile(in); err != nil {
			return err
		}
	}
	if err := cli.MayWrite(to.out, to.force, inputs...); err != nil {
		return err
	}
	p := a.Progress()
	d, err := imports.Import(ctx, o, p.Report)
	p.Close()
	if err != nil {
		return cli.Fail(cli.ExitFailure, cli.OrInterrupted(err, "nothing was written"), "eusn-stream import --help")
	}
	out := cmp.Or(to.out, strings.ReplaceAll(d.Name, string(os.PathSeparator), "-")+".parquet")
	if err := cli.MayWrite(out, to.force, inputs...); err != nil {
		return err
	}
	if !to.dry {
		if err := errors.Join(ctx.Err(), archive.WriteDataset(out, d)); err != nil {
			return cli.OrInterrupted(err, "the import was complete; if %s exists, it is complete", out)
		}
	}
	s := imports.Summarize(d)
	if a.JSON {
		return a.PrintJSON(struct {
			Archive string `json:"archive"`
			imports.Summary
		}{out, s})
	}
	printSummary(a, s)
	to.sayWritten(a, out)
	return nil
}

func printSummary(a *cli.App, s imports.Summary) {
	a.Print("%s (%s): %d channel(s), %d classes", s.Name, s.Format, s.Channels, len(s.Classes))
	for _, part := range []struct {
		name string
		s    imports.SplitSummary
	}{{"train", s.Train}, {"test", s.Test}} {
		length := fmt.Sprint(part.s.MinLength)
		if part.s.MaxLength != part.s.MinLength {
			length += fmt.Sprintf(" to %d", part.s.MaxLength)
		}
		a.Print("  %-6s %6d series of length %s, %d values missing", part.name, part.s.Series, length, part.s.Missing)
	}
	for _, w := range s.Warnings {
		a.Print("  note: %s", w)
	}
}
