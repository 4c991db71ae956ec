package offlinecmd

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/eusn-stream/eusn-stream/internal/cli"
	"github.com/eusn-stream/eusn-stream/internal/cli/archives"
	"github.com/eusn-stream/eusn-stream/internal/compare"
	"github.com/eusn-stream/eusn-stream/internal/imports"
	"github.com/eusn-stream/eusn-stream/internal/paper"
	"github.com/eusn-stream/eusn-stream/offline/archive"
	"github.com/eusn-stream/eusn-stream/reservoir"
)

// compareRun is a request to offline paper compare.
type compareRun struct {
	run   benchRun
	sets  []string // to take from folders
	quick bool
}

func newCompare(a *cli.App) *cobra.Command {
	var c compareRun
	cmd := &cobra.Command{
		Use:   "compare FOLDER|ARCHIVE...",
		Short: "Compare banks with published classifiers on the UCR and UEA archives",
		Long: fmt.Sprintf(`Train banks on data sets of the UCR and UEA archives, evaluate them on the test parts,
and print the accuracies next to the published ones of seven other classifiers, with
means, average ranks, and the critical difference between ranks.

From a FOLDER, the command takes the %d data sets that have published figures (or
--sets), in their published form as import reads it, or as NAME.parquet; an
ARCHIVE counts in any case. Data sets without published figures get a row, but do not
count in means and ranks. --quick takes six small sets: seconds instead of minutes.

A draw is a bank with random weights of another seed: trained on the training part in
one pass, evaluated on the test part. Leave-one-out on the training part chooses the
regularization and the kind of readout; nothing is chosen on the test part.

Each finished draw becomes a line of JSON in --output at once; after Ctrl-C or a crash the
same command with --resume continues, also with more banks, draws or data sets. If the
recipe of a bank has changed since, its draws are made again. Results do not depend on
the number of threads. offline paper report makes a page of the file.

--gate exits with 6 if the mean of a bank over the %d data sets is lower than what is
promised for it with ten draws; it needs all of the data sets. The mean of a single
draw varies by .003.`, len(compare.Sets()), len(compare.Sets())),
		Example: `  eusn-stream offline paper compare datasets --draws 1
  eusn-stream offline paper compare datasets --quick
  eusn-stream offline paper compare datasets --gate --output compare.jsonl --resume
  eusn-stream offline paper compare datasets --quick --bank euler,small,tiny --draws 1
  eusn-stream offline paper compare Adiac.parquet Blink.parquet --json`,
		Args: cobra.MinimumNArgs(1),
	}
	f := cmd.Flags()
	f.StringSliceVar(&c.run.plan.Models, "bank", reservoir.Banks[:1], "banks to compare: "+strings.Join(reservoir.Banks, ", "))
	f.StringSliceVar(&c.sets, "sets", nil, "data sets to take from folders (default: all with published figures)")
	f.BoolVar(&c.quick, "quick", false, "take six small data sets from folders: "+strings.Join(compare.Quick, ", "))
	f.BoolVar(&c.run.gate, "gate", false, "exit with 6 if the mean of a bank is lower than promised")
	c.run.addRun(f, "compare.jsonl")
	f.Lookup("draws").Usage = "random draws of the weights of each bank"
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := c.checkRun(); err != nil {
			return err
		}
		return a.Do(func(ctx context.Context, paths []string) error { return runCompare(ctx, a, paths, c) })(cmd, args)
	}
	return cmd
}

// checkRun completes the settings and checks the flags against each other.
func (c *compareRun) checkRun() error {
	c.run.settings = paper.NewSettings(paper.Compare, c.run.settings.Seed)
	switch {
	case c.run.threads < 0:
		return fmt.Errorf("--threads %d: want 0 or more", c.run.threads)
	case c.quick && c.sets != nil:
		return errors.New("--quick is a choice of data sets: do not give --sets with it")
	case c.run.gate && (c.quick || c.sets != nil):
		return fmt.Errorf("--gate is about the mean over all %d data sets: do not give --sets or --quick with it", len(compare.Sets()))
	case c.quick:
		c.sets = compare.Quick
	case c.sets == nil:
		c.sets = compare.Sets()
	}
	return c.run.plan.Validate(c.run.settings)
}

func runCompare(ctx context.Context, a *cli.App, paths []string, c compareRun) error {
	found, err := c.find(paths)
	if err != nil {
		return err
	}
	sets, source, err := readSets(ctx, a, found)
	if err != nil {
		return cli.OrInterrupted(err, "no bank was trained")
	}
	folders := slices.ContainsFunc(found, func(f foundSet) bool { return f.name != "" })
	if err := c.complete(a, sets, folders); err != nil {
		return err
	}
	done, err := runBench(ctx, a, sets, c.run, func(dataset string) string { return "compare " + source[dataset] })
	if err != nil {
		return err
	}
	return c.print(a, done)
}

// foundSet is a data set: an archive, or a folder with the published files.
type foundSet struct {
	name string // "" for an archive, which contains its name
	path string
}

// find looks for the data sets in folders; files are archives.
func (c *compareRun) find(paths []string) (all []foundSet, err error) {
	for _, path := range paths {
		info, err := os.Stat(path)
		if errors.Is(err, fs.ErrNotExist) {
			return nil, cli.Fail(cli.ExitFailure, fmt.Errorf("no folder or archive %s: %w", path, fs.ErrNotExist), "eusn-stream offline paper compare --help")
		} else if err != nil {
			return nil, err
		}
		if !info.IsDir() {
			all = append(all, foundSet{path: path})
			continue
		}
		names, err := imports.Datasets(path)
		if err != nil {
			return nil, cli.Fail(cli.ExitFailure, err, "another folder")
		}
		before := len(all)
		for _, name := range c.sets {
			archive := filepath.Join(path, name+".parquet")
			if info, err := os.Stat(archive); err == nil && info.Mode().IsRegular() {
				all = append(all, foundSet{name, archive})
			} else if slices.Contains(names, name) {
				all = append(all, foundSet{name, path})
			}
		}
		if len(all) == before {
			return nil, cli.Fail(cli.ExitFailure, fmt.Errorf("%s has none of the data sets %s", path, strings.Join(c.sets, ", ")), "another folder, or --sets with the names of those in it")
		}
	}
	return all, nil
}

// complete reports missing data sets.
func (c *compareRun) complete(a *cli.App, sets []*archive.Dataset, folders bool) error {
	var missing []string
	for _, name := range c.sets {
		if !slices.ContainsFunc(sets, func(d *archive.Dataset) bool { return d.Name == name }) {
			missing = append(missing, name)
		}
	}
	switch list := strings.Join(missing, ", "); {
	case len(missing) == 0:
	case c.run.gate:
		return cli.Fail(cli.ExitFailure, fmt.Errorf("--gate is about the mean over all %d data sets, and %d are not there: %s", len(c.sets), len(missing), list), "a folder with all of them, or the command without --gate")
	case folders: // with archives alone, they are what was asked for
		a.Say("note: %d of %d data sets are not there and do not count: %s", len(missing), len(c.sets), list)
	}
	return nil
}

// readSets reads the data sets; source names each on the command line.
func readSets(ctx context.Context, a *cli.App, found []foundSet) (sets []*archive.Dataset, source map[string]string, err error) {
	source = map[string]string{}
	p := a.Progress()
	defer p.Close()
	for i, f := range found {
		p.Report(int64(i), int64(len(found)), "data sets read")
		words := cli.QuoteForShell(f.path)
		var d *archive.Dataset
		if strings.HasSuffix(f.path, ".parquet") || f.name == "" {
			d, err = archives.Read(f.path)
		} else {
			words += " --sets " + cli.QuoteForShell(f.name)
			d, err = imports.Import(ctx, imports.Options{Dir: f.path, Name: f.name}, nil)
			err = cli.Fail(cli.ExitFailure, err, "another folder, or --sets without "+f.name)
		}
		if err := errors.Join(err, ctx.Err()); err != nil {
			return nil, nil, err
		}
		sets, source[d.Name] = append(sets, d), words
	}
	return sets, source, nil
}
