package offlinecmd

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"github.com/eusn-stream/eusn-stream/internal/cli"
	"github.com/eusn-stream/eusn-stream/internal/cli/archives"
	"github.com/eusn-stream/eusn-stream/internal/cli/models"
	"github.com/eusn-stream/eusn-stream/internal/groups"
	"github.com/eusn-stream/eusn-stream/internal/names"
)

// splitFlags define the division of an archive.
type splitFlags struct {
	archive, labels, group, out string
	share                       float64
	seed                        uint64
	force                       bool
}

func newSplit(a *cli.App) *cobra.Command {
	var s splitFlags
	cmd := &cobra.Command{
		Use:   "split DATA",
		Short: "Divide an archive into a training part and a test part by whole groups",
		Long: `Draw groups, such as machines or persons, for the test part until they have about
--share of the labeled data; all others are for the training. No group is in both. The
archive is not changed: the parts are written to a small file, which retrain and
evaluate take with --parts, and which you may edit. The same data, --group and --seed
always give the same parts.`,
		Example: `  eusn-stream offline split recorded/ --labels labels.csv --group '^(hall[0-9]+)-' --output parts.json
  eusn-stream train recorded/ --labels labels.csv --parts parts.json --output plant.safetensors
  eusn-stream evaluate recorded/ --labels labels.csv --parts parts.json --model plant.safetensors`,
		Args: oneData,
	}
	f := cmd.Flags()
	f.StringVar(&s.labels, "labels", "", "what the samples of a recording were, instead of its column label: CSV with stream,from,to,label, or what labels export or labels list --json prints")
	f.StringVar(&s.group, "group", "", groupUsage)
	f.Float64Var(&s.share, "share", 0.2, "share of the labeled data for the test part, about; groups are never divided")
	f.Uint64Var(&s.seed, "seed", 1, "seed of the draw")
	f.StringVarP(&s.out, "output", "o", "parts.json", "file to write")
	f.BoolVar(&s.force, "force", false, "overwrite an existing file")
	cobra.CheckErr(cmd.MarkFlagRequired("group"))
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		s.archive = args[0]
		rule, err := parseGroup(s.group)
		if err != nil {
			return err
		}
		if !(s.share > 0 && s.share < 1) { // a NaN, too
			return fmt.Errorf("--share %v: want more than 0 and less than 1", s.share)
		}
		if s.out == "" {
			return errors.New("--output: want the name of a file")
		}
		return a.Do(func(ctx context.Context, _ []string) error { return s.runSplit(ctx, a, rule) })(cmd, args)
	}
	return cmd
}

func (s *splitFlags) runSplit(ctx context.Context, a *cli.App, rule *groups.Rule) error {
	if err := cli.MayWrite(s.out, s.force, s.archive, s.labels); err != nil {
		return err
	}
	src, err := openGrouped(ctx, a, s.archive, s.labels, rule)
	if err != nil {
		return err
	}
	defer src.Close()
	all, err := src.GroupSizes(ctx, rule)
	var parts *groups.Parts
	if err == nil {
		parts, err = groups.Divide(rule, all, s.share, s.seed)
	}
	if err != nil {
		return cli.Fail(cli.ExitFailure, cli.OrInterrupted(err, "nothing was written"), "eusn-stream offline split --help")
	}
	text, err := parts.Encode()
	if err == nil {
		err = errors.Join(ctx.Err(), cli.ReplaceFile(s.out, text, cli.Public))
	}
	if err != nil {
		return cli.Fail(cli.ExitFailure, err, "")
	}
	if a.JSON {
		return a.PrintJSON(parts)
	}
	s.print(a, src, parts, all)
	return nil
}

// print shows the parts, and warns of classes that are missing in a part.
func (s *splitFlags) print(a *cli.App, src archives.Labeled, parts *groups.Parts, all []groups.Size) {
	word, total := map[bool]string{true: "labeled samples", false: "labeled series"}[src.Set == nil], int64(0)
	classes := map[string][2]int64{}
	var sums [2]int64
	for _, g := range all {
		total += g.All()
		part := 0
		if slices.Contains(parts.Test, g.Group) {
			part = 1
		}
		for class, n := range g.Classes {
			of := classes[class]
			of[part] += n
			classes[class], sums[part] = of, sums[part]+n
		}
	}
	var lacking [2][]string
	for class, n := range classes {
		for part := range n {
			if n[part] == 0 {
				lacking[part] = append(lacking[part], class)
			}
		}
	}
	for part, list := range [][]string{parts.Train, parts.Test} {
		name := []string{"train", "test"}[part]
		a.Print("%-10s %d groups, %d %s (%.1f %%): %s", name, len(list), sums[part], word, 100*float64(sums[part])/float64(max(1, total)), models.ListText(list))
		if slices.Sort(lacking[part]); len(lacking[part]) > 0 {
			a.Say("warning: no group of the %s part has class %s; another --seed or --share may", name, names.Cut(models.ListText(lacking[part]), 200))
		}
	}
	a.Say("wrote %s", s.out)
	labels := ""
	if s.labels != "" {
		labels = " --labels " + cli.QuoteForShell(s.labels)
	}
	a.Say("next: eusn-stream train %s%s --parts %s", cli.QuoteForShell(s.archive), labels, cli.QuoteForShell(s.out))
}
