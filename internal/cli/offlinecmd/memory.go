package offlinecmd

import (
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/eusn-stream/eusn-stream/internal/cli"
	"github.com/eusn-stream/eusn-stream/internal/cli/archives"
	"github.com/eusn-stream/eusn-stream/internal/paper"
	"github.com/eusn-stream/eusn-stream/offline/archive"
)

func newMemory(a *cli.App) *cobra.Command {
	var b benchRun
	var lengths []int
	var table string
	cmd := &cobra.Command{
		Use:   "memory [ARCHIVE...]",
		Short: "How long each reservoir remembers (the paper's Fig. 4)",
		Long: `Put a pattern near the beginning of a series, fill the rest with noise up to a total
length, and predict the class of the pattern at the end. The result is accuracy
against length, as mean and standard deviation over draws. The paper's protocol
searches a model for each length.

Without an archive the data are synthetic: two patterns of 10 samples, 500 series
to train and 500 to test. With archives, their series are the patterns and the
noise has their channels, as in the paper for LSST, PenDigits and RacketSports.`,
		Example: `  eusn-stream offline paper memory --curves memory.csv
  eusn-stream offline paper memory racketsports.parquet --lengths 50,100,200,400 --configurations 50 --draws 3`,
	}
	f := cmd.Flags()
	f.IntSliceVar(&lengths, "lengths", []int{30, 50, 100, 150, 200, 250, 300, 350, 400}, "total lengths, in samples")
	f.StringVar(&table, "curves", "", "also write the curves to this CSV file")
	b.addFlags(f, "memory.jsonl")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if len(lengths) == 0 || slices.Min(lengths) < 1 {
			return fmt.Errorf("--lengths %v: want positive numbers", lengths)
		}
		if err := b.checkRun(f, paper.PaperExact); err != nil {
			return err
		}
		if table != "" && filepath.Clean(table) == filepath.Clean(b.out) {
			return fmt.Errorf("--curves and --output are both %s: want two files", table)
		}
		return a.Do(func(ctx context.Context, paths []string) error {
			if err := cli.OutputFile(table, append(paths, b.out)...); err != nil {
				return err
			}
			return memory(ctx, a, paths, lengths, table, b)
		})(cmd, args)
	}
	return cmd
}

// MemoryPoint is a point of a curve.
type MemoryPoint struct {
	Task   string `json:"task"`
	Length int    `json:"length"` // samples
	paper.Cell
}

func memory(ctx context.Context, a *cli.App, paths []string, lengths []int, table string, b benchRun) error {
	pathOf := map[string]string{} // of each task; none of the synthetic one
	var sets []*archive.Dataset
	add := func(path string, d *archive.Dataset) error {
		for _, n := range lengths {
			m, err := hidden(d, n, b.settings.Seed)
			if err := errors.Join(err, ctx.Err()); err != nil {
				return cli.Fail(cli.ExitFailure, err, "other --lengths")
			}
			sets, pathOf[m.Name] = append(sets, m), path
		}
		return nil
	}
	if len(paths) == 0 {
		if err := add("", nil); err != nil {
			return err
		}
	}
	for _, path := range paths {
		d, err := archives.Read(path)
		if err != nil {
			return err
		}
		if err := add(path, d); err != nil {
			return err
		}
	}
	done, err := runBench(ctx, a, sets, b, func(dataset string) string {
		words := []string{"memory"}
		if path := pathOf[dataset]; path != "" {
			words = append(words, cli.QuoteForShell(path))
		}
		_, length, _ := paper.MemoryTask(dataset)
		return strings.Join(append(words, "--lengths", fmt.Sprint(length)), " ")
	})
	if err != nil {
		return err
	}
	points := make([]MemoryPoint, len(done.cells))
	for i, c := range done.cells {
		task, length, _ := paper.MemoryTask(c.Dataset)
		points[i] = MemoryPoint{task, length, c}
	}
	if table != "" {
		if err := writeMemoryCSV(table, points); err != nil {
			return err
		}
		a.Say("wrote %s", table)
	}
	if a.JSON {
		err = a.PrintJSON(struct {
			Results string        `json:"results"`
			Points  []MemoryPoint `json:"points"`
		}{b.out, points})
	} else {
		err = printMemory(a, points, b.plan.Models)
	}
	if err == nil {
		err = done.missing()
	}
	return err
}

// hidden is the task made of d, or of nothing.
func hidden(d *archive.Dataset, length int, seed uint64) (*archive.Dataset, error) {
	if d == nil {
		return paper.SyntheticMemory(length, seed)
	}
	return paper.Memory(d, length, seed)
}

// printMemory prints a line per task and length, a column per model. Points
// are in the order of models.
func printMemory(a *cli.App, points []MemoryPoint, models []string) error {
	t := tabwriter.NewWriter(a.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintf(t, "task\tlength\t%s\n", strings.Join(models, "\t"))
	for row := range slices.Chunk(points, len(models)) {
		fmt.Fprintf(t, "%s\t%d", row[0].Task, row[0].Length)
		for _, p := range row {
			if p.Missing != "" {
				fmt.Fprint(t, "\tno result")
				continue
			}
			fmt.Fprintf(t, "\t%s", paper.Spread(p.Accuracy, p.Deviation, p.Draws, 3))
		}
		fmt.Fprintln(t)
	}
	return t.Flush()
}

// writeMemoryCSV writes a line per point.
func writeMemoryCSV(path string, points []MemoryPoint) error {
	var text strings.Builder
	w := csv.NewWriter(&text)
	_ = w.Write([]string{"task", "length", "model", "accuracy", "deviation", "draws", "units"}) // to memory: cannot fail
	for _, p := range points {
		if p.Missing != "" {
			continue // no point of a curve
		}
		_ = w.Write([]string{p.Task, fmt.Sprint(p.Length), p.Model, fmt.Sprint(p.Accuracy), fmt.Sprint(p.Deviation), fmt.Sprint(p.Draws), fmt.Sprint(p.Config.Units)})
	}
	w.Flush()
	return cli.ReplaceFile(path, []byte(text.String()), cli.Public)
}
