package offlinecmd

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/eusn-stream/eusn-stream/internal/cli"
	"github.com/eusn-stream/eusn-stream/internal/datafile"
	"github.com/eusn-stream/eusn-stream/internal/figures"
	"github.com/eusn-stream/eusn-stream/reservoir"
)

// figuresRun is a request to offline paper figures.
type figuresRun struct {
	out     string
	only    []int
	memory  []string
	quick   bool
	grid    figures.Grid
	options figures.Options
}

func newFigures(a *cli.App) *cobra.Command {
	var r figuresRun
	var seed uint64
	var draws, steps, every int
	cmd := &cobra.Command{
		Use:   "figures",
		Short: "Compute, check and plot the paper's figures",
		Long: `Compute the figures of the paper's theory from a seed, and write each as PNG and
SVG, with its numbers as CSV:

  1  phase portraits of two units
  2  effective spectral radius; Proposition 1 and Corollary 1 checked in every cell
  3  maximum local Lyapunov exponent; Proposition 2's bounds checked in every cell
  4  long-term memorisation: curves with bands of one standard deviation, from
     the CSV files of offline paper memory given with --memory

If a cell violates a proposition, the figure marks it with a cross, the command names
it, and the exit code is 6. The files are the same each time and do not depend on the
number of threads.`,
		Example: `  eusn-stream offline paper figures --output figures
  eusn-stream offline paper figures --quick
  eusn-stream offline paper figures --only 3 --stride 1
  eusn-stream offline paper figures --only 4 --memory memory.csv`,
		Args: cobra.NoArgs,
	}
	f := cmd.Flags()
	f.StringVarP(&r.out, "output", "o", "figures", "folder for the files")
	f.IntSliceVar(&r.only, "only", nil, "figures to make (default 1,2,3, and 4 with --memory)")
	f.StringSliceVar(&r.memory, "memory", nil, "CSV files of offline paper memory, for figure 4")
	f.BoolVar(&r.quick, "quick", false, "a small grid: 20 units, every third decade, 2 draws, 100 steps")
	f.Uint64Var(&seed, "seed", reservoir.DefaultSeed, "first seed of the weights")
	f.IntVar(&draws, "draws", 3, "random draws of the weights")
	f.IntVar(&steps, "steps", 500, "steps of the driven reservoir of figure 3")
	f.IntVar(&every, "stride", 10, "for figure 3: use each Nth Jacobian if the state changes slowly (eps*rho < .1); 1 = all, as in the paper, which takes 6 times as long")
	f.IntVar(&r.options.Threads, "threads", 0, "cores to use; 0 = all. The results do not depend on it")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		r.grid = figures.PaperGrid(seed)
		if r.quick {
			r.grid = figures.QuickGrid(seed)
		}
		for _, o := range []struct {
			flag    string
			to, set *int
		}{{"draws", &r.grid.Draws, &draws}, {"steps", &r.grid.Steps, &steps}, {"stride", &r.grid.Every, &every}} {
			if f.Changed(o.flag) {
				*o.to = *o.set
			}
		}
		if err := r.checkRun(); err != nil {
			return err
		}
		return a.Do(func(ctx context.Context, _ []string) error { return makeFigures(ctx, a, r) })(cmd, args)
	}
	return cmd
}

// checkRun completes the request.
func (r *figuresRun) checkRun() error {
	if len(r.only) == 0 {
		if r.only = []int{1, 2, 3}; len(r.memory) > 0 {
			r.only = append(r.only, 4)
		}
	}
	seen := map[int]bool{}
	for _, n := range r.only {
		if n < 1 || n > 4 || seen[n] {
			return fmt.Errorf("--only %v: want figures from 1 to 4, each once", r.only)
		}
		seen[n] = true
	}
	if seen[4] != (len(r.memory) > 0) {
		return errors.New("figure 4 needs --memory, and --memory needs figure 4: the curves come from CSV files of offline paper memory")
	}
	if r.options.Threads < 0 {
		return fmt.Errorf("--threads %d: want 0 or more", r.options.Threads)
	}
	return r.grid.Validate()
}

// figure is the interface of all figures of package figures.
type figure interface {
	CSV() []byte
	Picture() figures.Picture
}

// computed is a figure with its summary.
type computed struct {
	figure
	grid        *figures.Grid // nil without a grid, and then no further fields
	checked     int           // draws of cells
	least, most float64       // of the values drawn
	broken      error         // the first cell with a failed proposition
}

// FigureResult is a figure in the JSON summary.
type FigureResult struct {
	Figure  int           `json:"figure"`
	Files   []string      `json:"files"`
	Rows    int           `json:"rows"`              // of the CSV file, without its head
	Grid    *figures.Grid `json:"grid,omitempty"`    // of figures 2 and 3, like the following fields
	Checked int           `json:"checked,omitempty"` // draws of cells held against the propositions
	Failed  string        `json:"failed,omitempty"`  // the first that does not hold
	Least   *float64      `json:"least,omitempty"`   // of rho(J) or MLLE, over cells and draws
	Most    *float64      `json:"most,omitempty"`
}

var figureNames = [...]string{1: "fig1-phase-portraits", 2: "fig2-spectral-radius", 3: "fig3-lyapunov", 4: "fig4-memory"}

func makeFigures(ctx context.Context, a *cli.App, r figuresRun) error {
	memory, err := readMemories(r.memory)
	if err != nil {
		return err
	}
	switch err := os.Mkdir(r.out, 0o755); {
	case errors.Is(err, fs.ErrNotExist) && r.out != "":
		return cli.Fail(cli.ExitFailure, err, "mkdir -p "+cli.QuoteForShell(r.out))
	case err != nil && !errors.Is(err, fs.ErrExist):
		return cli.Fail(cli.ExitFailure, err, "another --output")
	}
	for _, n := range r.only {
		for _, path := range r.files(n) {
			if err := cli.OutputFile(path, r.memory...); err != nil {
				return err
			}
		}
	}
	p := a.Progress()
	defer p.Close()
	if r.options.Progress == nil {
		r.options.Progress = p.Report
	}
	var results []FigureResult
	var broken []error
	for _, n := range r.only {
		c, err := r.compute(ctx, n, memory)
		if err := errors.Join(err, ctx.Err()); err != nil {
			return cli.OrInterrupted(err, "finished figures are complete in %s; no file is partly written", r.out)
		}
		result, err := r.finish(n, c)
		if err != nil {
			return err
		}
		results, broken = append(results, result), append(broken, c.broken)
	}
	p.Close()
	return endFigures(a, r, results, errors.Join(broken...))
}

// endFigures prints the summary; broken names failed propositions.
func endFigures(a *cli.App, r figuresRun, results []FigureResult, broken error) error {
	if err := printFigures(a, r, results); err != nil {
		return err
	}
	return cli.Fail(cli.ExitTolerance, broken, "see the column holds of the CSV file, which marks every such cell")
}

func readMemories(paths []string) (*figures.Memory, error) {
	var all *figures.Memory
	for _, path := range paths {
		if err := cli.WholeFile(path); err != nil {
			return nil, err
		}
		f, err := os.Open(path)
		if err != nil {
			return nil, cli.Fail(cli.ExitFailure, err, "eusn-stream offline paper memory --curves "+cli.QuoteForShell(path))
		}
		m, err := figures.ReadMemory(f)
		if err == nil && all != nil {
			err = all.Merge(m)
		} else if all == nil {
			all = m
		}
		if err := errors.Join(err, f.Close()); err != nil {
			return nil, cli.Fail(cli.ExitFailure, datafile.InContent(fmt.Errorf("%s: %w", path, err)), "eusn-stream offline paper memory --curves FILE writes such a table")
		}
	}
	return all, nil
}

func (r figuresRun) compute(ctx context.Context, n int, memory *figures.Memory) (computed, error) {
	switch n {
	case 2:
		f, err := figures.NewRadius(ctx, r.grid, r.options)
		if err != nil {
			return computed{}, err
		}
		c := computed{figure: f, grid: &f.Grid, checked: len(f.Rows), least: math.Inf(1), broken: f.Check()}
		for _, row := range f.Rows {
			c.least, c.most = min(c.least, 1+row.Excess), max(c.most, 1+row.Excess)
		}
		return c, nil
	case 3:
		f, err := figures.NewLyapunov(ctx, r.grid, r.options)
		if err != nil {
			return computed{}, err
		}
		c := computed{figure: f, grid: &f.Grid, checked: len(f.Rows), least: math.Inf(1), most: math.Inf(-1), broken: f.Check()}
		for _, row := range f.Rows {
			c.least, c.most = min(c.least, row.Most), max(c.most, row.Most)
		}
		return c, nil
	case 4:
		return computed{figure: memory}, nil
	}
	return computed{figure: figures.NewPortraits()}, nil
}

// files returns the files of a figure.
func (r figuresRun) files(n int) []string {
	var all []string
	for _, ext := range []string{".csv", ".png", ".svg"} {
		all = append(all, filepath.Join(r.out, figureNames[n]+ext))
	}
	return all
}

// finish makes a figure's files, each whole or not at all.
func (r figuresRun) finish(n int, c computed) (FigureResult, error) {
	picture, table := c.Picture(), c.CSV()
	png, err := picture.PNG()
	if err != nil {
		return FigureResult{}, err
	}
	svg, err := picture.SVG()
	if err != nil {
		return FigureResult{}, err
	}
	result := FigureResult{Figure: n, Files: r.files(n), Rows: bytes.Count(table, []byte("\n")) - 1, Checked: c.checked, Grid: c.grid}
	for i, data := range [][]byte{table, png, svg} {
		if err := cli.ReplaceFile(result.Files[i], data, cli.Public); err != nil {
			return FigureResult{}, err
		}
	}
	if c.broken != nil {
		result.Failed = cli.ErrorText(c.broken)
	}
	if c.grid != nil {
		result.Least, result.Most = &c.least, &c.most
	}
	return result, nil
}

func printFigures(a *cli.App, r figuresRun, results []FigureResult) error {
	if a.JSON {
		return a.PrintJSON(struct {
			Out     string         `json:"out"`
			Figures []FigureResult `json:"figures"`
		}{r.out, results})
	}
	for _, f := range results {
		switch f.Figure {
		case 1:
			a.Print("figure 1: %d states", f.Rows)
		case 2:
			a.Print("figure 2: spectral radius %.6g to %.6g; %s", *f.Least, *f.Most, holding(f, "Proposition 1 with its corollary"))
		case 3:
			a.Print("figure 3: MLLE %.3g to %.3g nats per step; %s", *f.Least, *f.Most, holding(f, "Proposition 2"))
		case 4:
			a.Print("figure 4: %d points", f.Rows)
		}
		a.Print("  %s", strings.Join(f.Files, "\n  "))
	}
	return nil
}

func holding(f FigureResult, proposition string) string {
	if f.Failed != "" {
		return proposition + " does NOT hold"
	}
	return fmt.Sprintf("%s holds in all %d cells and draws", proposition, f.Checked)
}
