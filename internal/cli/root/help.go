package root

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
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
		c.Flags().SortFlags = false
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

// Commands that use a global flag; the help of other commands hides the flag.
var (
	withEngine   = []string{"run", "train", "evaluate", "predict", "demo", "bench", "plan", "learn", "explain", "offline", "job", "state", "record"}
	withProgress = []string{"train", "evaluate", "predict", "import", "replay", "demo", "bench", "plan", "learn", "record", "explain", "offline", "job", "state"}
)

// hideUnused hides the global flags that a command does not use.
func hideUnused(cmd *cobra.Command) {
	first, _, _ := strings.Cut(commandPath(cmd), " ")
	flags := cmd.Root().PersistentFlags()
	flags.Lookup("engine").Hidden = !slices.Contains(withEngine, first)
	flags.Lookup("progress").Hidden = !slices.Contains(withProgress, first)
}
