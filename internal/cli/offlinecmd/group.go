package offlinecmd

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/pflag"

	"github.com/eusn-stream/eusn-stream/internal/cli"
	"github.com/eusn-stream/eusn-stream/internal/cli/archives"
	"github.com/eusn-stream/eusn-stream/internal/groups"
	"github.com/eusn-stream/eusn-stream/internal/names"
	"github.com/eusn-stream/eusn-stream/offline"
)

const groupUsage = "which sequences belong together: a column of the archive, such as machine; a regular expression with a group in parentheses, over the names of streams; stream; or day"

// groupFlags define groups of sequences, and the use of each group.
type groupFlags struct {
	group, parts string
}

func (g *groupFlags) addFlags(f *pflag.FlagSet, then string) {
	f.StringVar(&g.group, "group", "", groupUsage+then)
	f.StringVar(&g.parts, "parts", "", "file of eusn-stream offline split with the groups for training and test; it contains its --group")
}

// grouping is the content of groupFlags; the zero value: no flags.
type grouping struct {
	rule    *groups.Rule
	parts   *groups.Parts
	encoded []byte // of parts, for package offline
}

// readFlags reads the flags.
func (g *groupFlags) readFlags() (of grouping, err error) {
	switch {
	case g.group != "" && g.parts != "":
		return of, errors.New("--group and --parts: specify one; the file of parts contains the groups")
	case g.group != "":
		of.rule, err = parseGroup(g.group)
		return of, err
	case g.parts == "":
		return of, nil
	}
	if of.parts, err = readParts(g.parts); err != nil {
		return of, err
	}
	if of.rule, err = of.parts.Grouping(); err == nil {
		of.encoded, err = of.parts.Encode()
	}
	return of, err
}

func readParts(path string) (*groups.Parts, error) {
	if err := cli.WholeFile(path); err != nil {
		return nil, err
	}
	parts, err := groups.ReadParts(path)
	if err != nil {
		return nil, fmt.Errorf("--parts: %w", err)
	}
	return parts, nil
}

// parseGroup reads --group.
func parseGroup(text string) (*groups.Rule, error) {
	rule, err := groups.Parse(text)
	if err != nil {
		return nil, fmt.Errorf("--group: %w", err)
	}
	return rule, nil
}

// openGrouped opens an archive, with labels from a file and the columns for the rule.
func openGrouped(ctx context.Context, a *cli.App, archive, labels string, rule *groups.Rule) (archives.Labeled, error) {
	src, err := archives.Open(ctx, a, archive)
	if err == nil {
		err = src.ReadLabels(labels)
	}
	if err == nil && rule != nil {
		err = src.ReadGroups(rule)
	}
	return src, err
}

// mostGroups bounds a table for people.
const mostGroups = 20

// printGroups prints the accuracies of groups, if there are any.
func printGroups(a *cli.App, r *groups.Report) {
	if r == nil {
		return
	}
	if len(r.Groups) == 0 {
		a.Print("by group   %s: no labeled sequence is of one group", r.Rule)
	} else {
		a.Print("by group   %s: %d groups, mean accuracy %.4f; of all sequences %.4f", r.Rule, len(r.Groups), r.Mean, r.Accuracy)
	}
	for i, g := range r.Groups {
		if i == mostGroups {
			a.Print("           and %d groups more, which are better; --json has all", len(r.Groups)-i)
			break
		}
		a.Print("           %s: %d of %d right, %.4f", names.Cut(g.Group, 40), g.Correct, g.Sequences, g.Accuracy)
	}
	if r.Across > 0 {
		a.Print("           %d sequences have samples of several groups and are in none", r.Across)
	}
	if more, known := r.Flatters(); known {
		a.Print("           leave-one-out without groups says %.4f: %+.4f, which a new group would not have", *r.Plain, more)
	}
}

// sayGroups warns if leaving out groups means little.
func sayGroups(a *cli.App, report offline.RetrainReport) {
	r := report.ByGroup
	if r == nil {
		return
	}
	for _, c := range r.Alone {
		a.Say("warning: all %d sequences of class %s are of group %s: when it is left out, nothing of the class is learned, and these count as wrong; another group with the class would show how well it is known", c.Sequences, names.Cut(c.Class, 40), names.Cut(c.Group, 40))
	}
	if r.Across > 0 {
		a.Say("note: %d labeled sequences have samples of several groups and are not learned from", r.Across)
	}
	if len(r.Groups) == report.Sequences {
		a.Say("note: each group has one sequence: leaving out groups is plain leave-one-out")
	}
	if n := report.Readout.LeftOutSamples; n > 0 {
		a.Say("note: %d of %d sequences were left out, those of %d groups: the others were learned from only", n, report.Sequences, len(r.Groups))
	}
}
