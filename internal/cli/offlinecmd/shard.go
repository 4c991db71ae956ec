package offlinecmd

import (
	"context"
	"errors"
	"fmt"
	"math"
	"runtime/debug"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/eusn-stream/eusn-stream/internal/cli"
	"github.com/eusn-stream/eusn-stream/internal/cli/archives"
	"github.com/eusn-stream/eusn-stream/internal/fit"
	"github.com/eusn-stream/eusn-stream/internal/hardware"
	"github.com/eusn-stream/eusn-stream/offline"
	"github.com/eusn-stream/eusn-stream/reservoir"
)

// scaleFlags are for large trainings.
type scaleFlags struct {
	memory string
	shard  string
	merge  bool
}

func (s *scaleFlags) addFlags(f *pflag.FlagSet) {
	f.StringVar(&s.memory, "memory", "", "memory limit of the training, such as 4GB (default three quarters of the machine's); features, or sums of them, that do not fit go to a temporary file. The result does not depend on it")
	f.StringVar(&s.shard, "shard", "", "do part i of n of the training, such as 3/8, and write its statistics to --output; 2+1/8 is the same, for job arrays that count from 0")
	f.BoolVar(&s.merge, "merge", false, "make the model from the files of all shards, given as arguments")
}

// checkFlags checks the flags against each other and against the arguments.
func (s *scaleFlags) checkFlags(cmd *cobra.Command, args []string) error {
	f := cmd.Flags()
	if !s.merge {
		if h := f.Lookup("healthy-only"); len(args) > 1 && h.Value.String() == allHealthy {
			return fmt.Errorf("%q is not DATA: want --healthy-only=%s if it is the healthy class", args[1], args[1])
		}
		if err := oneData(cmd, args); err != nil {
			return err
		}
		if s.shard != "" && !f.Changed("output") {
			return errors.New("--shard: want --output, a different file for each shard")
		}
		return nil
	}
	if len(args) == 0 {
		return errors.New("--merge: want the files of all shards as arguments")
	}
	var others []string
	f.Visit(func(g *pflag.Flag) {
		switch g.Name {
		case "merge", "output", "memory", "json", "quiet", "progress", "threads":
		default:
			if cmd.InheritedFlags().Lookup(g.Name) == nil {
				others = append(others, "--"+g.Name)
			}
		}
	})
	if len(others) > 0 {
		return fmt.Errorf("--merge: %s belongs to the commands that make the shards", strings.Join(others, ", "))
	}
	return nil
}

// bytes is the memory limit of the training, also for the garbage collector.
func (s *scaleFlags) bytes() (int64, error) {
	if s.memory == "" {
		total := hardware.MachineMemory()
		if total == 0 {
			return offline.DefaultMemory, nil
		}
		return int64(total / 4 * 3), nil
	}
	return parseSize(s.memory)
}

// parseSize reads a number of bytes: 500MB, 4GB, 1.5GiB.
func parseSize(text string) (int64, error) {
	number := strings.TrimRight(text, "BKMGTi")
	unit := 1.0
	switch text[len(number):] {
	case "B", "":
	case "KB", "K":
		unit = 1e3
	case "MB", "M":
		unit = 1e6
	case "GB", "G":
		unit = 1e9
	case "TB", "T":
		unit = 1e12
	case "KiB":
		unit = 1 << 10
	case "MiB":
		unit = 1 << 20
	case "GiB":
		unit = 1 << 30
	case "TiB":
		unit = 1 << 40
	default:
		unit = math.NaN()
	}
	v, err := strconv.ParseFloat(number, 64)
	if v *= unit; err != nil || !(v >= 1e6 && v <= 1<<60) {
		return 0, fmt.Errorf("--memory %s: want a size of at least 1MB, such as 500MB or 4GB", text)
	}
	return int64(v), nil
}

// parseShard reads i/n, or i-1+1/n.
func parseShard(text string) (s offline.Shard, err error) {
	i, n, ok := strings.Cut(text, "/")
	i, fromZero := strings.CutSuffix(i, "+1") // of an array that counts from 0
	if s.I, err = strconv.Atoi(i); ok && err == nil {
		s.N, err = strconv.Atoi(n)
	}
	if fromZero {
		s.I++
	}
	if !ok || err != nil || s.I < 1 || s.I > s.N {
		return s, fmt.Errorf("--shard %s: want i/n with i from 1 to n, such as 3/8, or 2+1/8 where a job's index counts from 0", text)
	}
	return s, nil
}

// keepWithin lets garbage be collected before memory is exceeded.
func keepWithin(bytes int64) { debug.SetMemoryLimit(min(bytes, debug.SetMemoryLimit(-1))) }

// retrainShard trains one share.
func retrainShard(ctx context.Context, a *cli.App, src archives.Labeled, o offline.RetrainOptions, s offline.Shard, out string) error {
	if src.Set == nil {
		return cli.Fail(cli.ExitUsage, fmt.Errorf("%s is a recording: only data sets can be divided into shards, because the streams of a recording are interleaved", src.Path), "eusn-stream train --help")
	}
	o.Planned = func(r offline.RetrainReport) { SayPlanned(a, src, o.Policy, r) }
	p := a.Progress()
	report, err := offline.RetrainShard(ctx, src.Set, o, s, out, p.Report)
	p.Close()
	if err != nil {
		return notTrained(err, out, o.Spec)
	}
	if a.JSON {
		return a.PrintJSON(struct {
			File   string                `json:"file"`
			Shard  int                   `json:"shard"`
			Shards int                   `json:"shards"`
			Report offline.RetrainReport `json:"report"`
		}{out, s.I, s.N, report})
	}
	a.Say("shard %d of %d is in %s, after %.1f s", s.I, s.N, out, report.StateSeconds)
	a.Say("next, when all %d exist: eusn-stream train --merge FILES --output model.safetensors", s.N)
	return nil
}

// mergeShards makes the model of all shards.
func mergeShards(ctx context.Context, a *cli.App, files []string, o offline.RetrainOptions, out string) error {
	p := a.Progress()
	m, report, err := offline.MergeShards(ctx, files, o, p.Report)
	p.Close()
	if err := saveTrained(ctx, m, err, out, reservoir.Spec{}); err != nil {
		return err
	}
	if err := sayTrained(a, out, report); err != nil || a.JSON {
		return err
	}
	a.Say("next: eusn-stream evaluate DATA --model %s", cli.QuoteForShell(out))
	return nil
}

// planText describes the method and memory of the readout's training.
func planText(p fit.Plan) string {
	how := "all features are kept"
	switch {
	case p.Kernel && p.Spilled:
		how = "all features are kept, in a temporary file because memory is too small"
	case !p.Kernel && p.AddWork > 0: // a detector alone adds nothing up
		how = "features are added up and not kept"
		if p.Passes > 1 {
			how = "a first pass finds the limits of the features, a second adds them up; they are not kept"
		}
	}
	if !p.Kernel && 0 < p.LeftOut && p.LeftOut < p.Samples {
		how += fmt.Sprintf(", except those of the %d sequences that choose the regularization", p.LeftOut)
	}
	if !p.Kernel && p.Spilled {
		how += "; the sums are copied to a temporary file because memory is too small"
	}
	return fmt.Sprintf("%d features per sequence: %s; memory: at most %s", p.Features, how, fit.Size(max(p.Adding, p.Solving)))
}
