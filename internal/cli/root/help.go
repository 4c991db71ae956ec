package root

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/eusn-stream/eusn-stream/internal/cli"
)

// related are commands for similar tasks. The help of each names the others.
var related = [][]string{
	{"predict", "job backfill", "evaluate", "replay", "model shadow add"},
	{"train", "evaluate", "import", "learn"},
	{"record", "labels add", "learn", "model promote"},
	{"run", "gateway", "alarms run", "status"},
	{"status", "doctor", "explain", "tail"},
	{"state show", "explain", "state diff"},
}

// documents are the documents about a command and its subcommands, in the folder docs.
var documents = map[string]string{
	"train": "tutorial policies", "evaluate": "tutorial quality", "predict": "old-data", "import": "import parquet", "record": "record", "model": "models", "offline": "results",
	"demo": "quickstart", "run": "configuration operations", "gateway": "gateway fieldbus", "replay": "tutorial", "tail": "operations", "alarms": "alarms alarm-rules", "config": "configuration",
	"secure": "secure", "service": "services", "labels": "learn", "learn": "learn", "bench": "capacity", "deadletter": "operations", "doctor": "faults", "explain": "explain",
	"job": "operations", "plan": "capacity", "state": "explain", "status": "status faults",
}

// mostExamples bounds the examples of a group.
const mostExamples = 8

// completeHelp adds related commands to the help, and examples to groups. Flags are shown in the
// order of their definition.
func completeHelp(root *cobra.Command) {
	for _, paths := range related {
		for _, path := range paths {
			c, _, err := root.Find(strings.Fields(path))
			cobra.CheckErr(err)
			var b strings.Builder
			for _, other := range paths {
				if o, _, err := root.Find(strings.Fields(other)); err == nil && o != c && !strings.Contains(c.Long, "\n  "+o.CommandPath()+" ") {
					fmt.Fprintf(&b, "  %-30s %s\n", o.CommandPath(), o.Short)
				}
			}
			if !strings.Contains(c.Long, "\nSee also:\n") {
				c.Long += "\n\nSee also:"
			}
			c.Long += "\n" + strings.TrimSuffix(b.String(), "\n")
		}
	}
	var complete func(c *cobra.Command)
	complete = func(c *cobra.Command) {
		sortFlags(c)
		first, _, _ := strings.Cut(commandPath(c), " ")
		for _, name := range strings.Fields(documents[first]) {
			if !strings.Contains(c.Long, "\nSee also:\n") {
				c.Long = cmp.Or(c.Long, c.Short) + "\n\nSee also:"
			}
			c.Long += "\n  docs/" + name + ".md"
		}
		var examples []string
		for _, child := range c.Commands() {
			complete(child)
			first, _, _ := strings.Cut(child.Example, "\n")
			if first != "" && len(examples) < mostExamples {
				examples = append(examples, first)
			}
		}
		if c.Example == "" && c.HasParent() {
			c.Example = strings.Join(examples, "\n")
		}
	}
	complete(root)
}

// Commands with the flags --engine and --progress.
var (
	withEngine = []string{
		"run", "train", "evaluate", "predict", "demo", "bench", "plan", "learn", "explain", "job backfill", "job resize", "job replace", "state show", "state diff", "state verify",
		"offline retrain", "offline evaluate", "offline paper tables", "offline paper memory", "offline paper compare",
	}
	withProgress = []string{
		"train", "evaluate", "predict", "import", "replay", "demo", "bench", "plan", "learn", "record", "record verify", "explain", "job backfill", "job resize", "job replace", "state show", "state diff",
		"offline retrain", "offline evaluate", "offline import", "offline split", "offline paper tables", "offline paper memory", "offline paper compare", "offline paper figures", "offline paper report", "offline paper embed",
	}
)

// addShared adds the flags --engine and --progress to the commands that use them.
func addShared(a *cli.App, root *cobra.Command) {
	find := func(path string) *pflag.FlagSet {
		c, rest, err := root.Find(strings.Fields(path))
		if err != nil || len(rest) > 0 {
			panic("BUG: no command " + path)
		}
		return c.Flags()
	}
	for _, path := range withEngine {
		find(path).StringVar(&a.Engine, "engine", "auto", "compute engine: auto, gpu, avx512, avx2, neon or generic, which all give the same bits; gpu-3xtf32 or gpu-2xtf32, which give other bits")
	}
	for _, path := range withProgress {
		find(path).StringVar(&a.ProgressMode, "progress", "auto", "progress display: auto, plain or none")
	}
}

// common are the flags shown after a command's own flags.
var common = []string{"config", "job", "nats-url", "dir", "engine", "progress"}

// sortFlags moves a command's own flags before the common flags.
func sortFlags(c *cobra.Command) {
	sorted := pflag.NewFlagSet(c.Name(), pflag.ContinueOnError)
	sorted.SortFlags = false
	sorted.SetOutput(c.Flags().Output())
	c.Flags().SortFlags = false
	for _, isCommon := range []bool{false, true} {
		c.Flags().VisitAll(func(f *pflag.Flag) {
			if slices.Contains(common, f.Name) == isCommon {
				sorted.AddFlag(f)
			}
		})
	}
	*c.Flags() = *sorted
}
