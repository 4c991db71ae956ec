package offlinecmd

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"runtime"
	"strings"

	"github.com/spf13/cobra"

	"github.com/eusn-stream/eusn-stream/internal/cli"
	"github.com/eusn-stream/eusn-stream/internal/cli/archives"
	"github.com/eusn-stream/eusn-stream/internal/imports"
	"github.com/eusn-stream/eusn-stream/offline/archive"
	"github.com/eusn-stream/eusn-stream/reservoir"
)

// embedRun is a request to offline paper embed.
type embedRun struct {
	imports.EmbedOptions
	from, name, out string
	threads         int
	force           bool
}

func newEmbed(a *cli.App) *cobra.Command {
	var e embedRun
	cmd := &cobra.Command{
		Use:   "embed DIR|ARCHIVE",
		Short: "Turn texts into series: learn a vector for each word",
		Long: `Learn a vector of 32 numbers for each of the 10,000 most frequent words, and write
an archive in which each document is a series of 200 vectors, as the paper does
with IMDB and Reuters.

DIR holds NAME_TRAIN.txt and NAME_TEST.txt (gzip or not), one document per line:
label, tab, word ids in order of falling frequency, as keras.datasets gives them.
Ids of 10,000 and more become 2, "unknown". Or give an archive of token lists.

A small network learns the vectors. It learns to classify 67 % of the training
documents, and stops when its loss over the other 33 % has not fallen for 10
epochs. It uses no label of the test part. Shorter documents get token 0 in front.

Text archives are large: 25,000 + 25,000 documents of IMDB take several hundred MB.`,
		Example: `  eusn-stream offline paper embed datasets/Reuters
  eusn-stream offline paper embed datasets/IMDB --output imdb.parquet --threads 1
  eusn-stream offline paper tables reuters.parquet --models eusn`,
		Args: cobra.ExactArgs(1),
	}
	f := cmd.Flags()
	f.StringVar(&e.name, "name", "", "name of the data set in DIR")
	f.StringVarP(&e.out, "output", "o", "", "archive to write (default NAME.parquet)")
	f.BoolVar(&e.force, "force", false, "overwrite an existing archive")
	f.IntVar(&e.Epochs, "epochs", 100, "most epochs of learning")
	f.Uint64Var(&e.Seed, "seed", reservoir.DefaultSeed, "seed of the first weights and of the order of batches")
	f.BoolVar(&e.FromStart, "from-start", false, "use the first 200 tokens of longer documents, not the last")
	f.BoolVar(&e.LastEpoch, "last-epoch", false, "use the vectors of the last epoch, not those with the smallest validation loss")
	f.IntVar(&e.threads, "threads", 0, "cores to use; 0 = all. The result does not depend on it")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if e.Epochs < 1 || e.threads < 0 {
			return fmt.Errorf("--epochs %d, --threads %d: want at least 1 and 0", e.Epochs, e.threads)
		}
		e.from, e.Tool = args[0], cli.ToolName()
		return a.Do(func(ctx context.Context, _ []string) error { return embed(ctx, a, e) })(cmd, args)
	}
	return cmd
}

func embed(ctx context.Context, a *cli.App, e embedRun) error {
	if e.threads > 0 { // the products use the runtime's threads
		defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(e.threads))
	}
	if err := cli.MayWrite(e.out, e.force, e.from); err != nil {
		return err
	}
	p := a.Progress()
	defer p.Close()
	d, err := e.readDataset(ctx, p.Report)
	if err != nil {
		return cli.Fail(cli.ExitFailure, cli.OrInterrupted(err, "nothing was written"), "eusn-stream offline paper embed --help")
	}
	out := cmp.Or(e.out, strings.ReplaceAll(d.Name, string(os.PathSeparator), "-")+".parquet")
	if err := cli.MayWrite(out, e.force, e.from); err != nil {
		return err
	}
	r, err := imports.Embed(ctx, out, d, e.EmbedOptions, p.Report)
	p.Close()
	if err != nil {
		return cli.Fail(cli.ExitFailure, cli.OrInterrupted(err, "nothing was written"), "eusn-stream offline paper embed --help")
	}
	train, test := len(d.Part(archive.Train)), len(d.Part(archive.Test))
	if a.JSON {
		return a.PrintJSON(struct {
			Archive string `json:"archive"`
			Name    string `json:"name"`
			Classes int    `json:"classes"`
			Train   int    `json:"train"`
			Test    int    `json:"test"`
			imports.EmbedReport
		}{out, d.Name, len(d.Classes), train, test, r})
	}
	a.Print("%s: %d training and %d test documents of %d classes; learned from %d, validated with %d", d.Name, train, test, len(d.Classes), r.Learned, r.Validated)
	for _, at := range []struct {
		what string
		imports.EmbedEpoch
	}{{"best", r.Best}, {"last", r.Last}} {
		taken := ""
		if at.Number == r.Taken {
			taken = ", taken"
		}
		a.Print("  %s epoch %3d: validation loss %.4f, accuracy %.4f%s", at.what, at.Number, at.Loss, at.Accuracy, taken)
	}
	a.Say("wrote %s", out)
	return nil
}

// readDataset takes token lists from a folder of text files or from an archive.
func (e embedRun) readDataset(ctx context.Context, progress archive.Progress) (*archive.Dataset, error) {
	if there, err := os.Stat(e.from); err == nil && there.IsDir() {
		o := imports.Options{Dir: e.from, Name: e.name}
		inputs, err := o.Files()
		for _, in := range inputs {
			err = cmp.Or(err, cli.WholeFile(in))
		}
		if err != nil {
			return nil, err
		}
		return imports.Import(ctx, o, progress)
	}
	if e.name != "" {
		return nil, fmt.Errorf("--name selects a data set in a folder; %s is not a folder", e.from)
	}
	return archives.Read(e.from)
}
