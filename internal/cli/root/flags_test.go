package root

import (
	"io"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/eusn-stream/eusn-stream/internal/cli"
)

// severalMeanings are flags that have another type or another first word in another command, with
// the common meaning.
var severalMeanings = map[string]string{
	"all":         "without the selection that the command makes",
	"bank":        "recipe of the bank; several for a comparison",
	"channels":    "channels of the data: their number, or their names",
	"dir":         "folder of the data: of the server, or of a demo",
	"group":       "groups of sequences: the rule, or the column of the names",
	"interval":    "time between two repetitions",
	"members":     "networks in the bank",
	"memory":      "limit of the memory; results of offline paper memory",
	"message":     "message of a job",
	"model":       "model file",
	"name":        "name of the result",
	"note":        "remark that is stored",
	"only":        "restriction of the results",
	"output":      "result of the command",
	"partition":   "a partition",
	"partitions":  "partitions of the job: their number, or a table of them",
	"quick":       "a smaller experiment",
	"readout":     "name of a readout",
	"rows":        "rows of data: samples of a message, several for a comparison; or the meaning of a row",
	"sample-rate": "samples per second",
	"save":        "storing: how often, or the folder",
	"seed":        "seed of the draw",
	"seq":         "seq of a prediction; the column of seq",
	"since":       "begin of the range",
	"steps":       "steps of a sequence",
	"stream":      "a stream; a pattern, or several; the column of streams",
	"streams":     "number of streams; several for a comparison",
	"subject":     "input subject",
	"threads":     "cores to use; several for a comparison",
	"time":        "time: the duration of a measurement, or the column of times",
	"units":       "units of each network; several for a comparison",
	"until":       "end of the range",
	"who":         "person",
}

// A flag has one meaning: the same type and first word in each command, or a common meaning in
// severalMeanings. A short flag belongs to one name, and a name has one short flag.
func TestFlagsHaveOneMeaning(t *testing.T) {
	types, shorts, names := map[string]map[string]bool{}, map[string]map[string]bool{}, map[string]map[string]bool{}
	add := func(all map[string]map[string]bool, key, value string) {
		if all[key] == nil {
			all[key] = map[string]bool{}
		}
		all[key][value] = true
	}
	word := regexp.MustCompile(`[a-zA-Z-]+`)
	var visit func(c *cobra.Command)
	visit = func(c *cobra.Command) {
		c.LocalFlags().VisitAll(func(f *pflag.Flag) {
			first := strings.TrimSuffix(strings.ToLower(word.FindString(f.Usage)), "s")
			add(types, f.Name, f.Value.Type()+" "+first)
			if f.Name == "version" {
				return
			}
			if f.Shorthand != "" {
				add(shorts, f.Name, f.Shorthand)
				add(names, f.Shorthand, f.Name)
			}
		})
		for _, child := range c.Commands() {
			visit(child)
		}
	}
	visit(newRoot(&cli.App{Stdout: io.Discard, Stderr: io.Discard}))
	for name, kinds := range types {
		if _, known := severalMeanings[name]; known == (len(kinds) == 1) {
			t.Errorf("--%s has %d meanings, %q; in the list: %v", name, len(kinds), slices.Sorted(maps.Keys(kinds)), known)
		}
	}
	for name := range severalMeanings {
		if types[name] == nil {
			t.Errorf("no command has --%s", name)
		}
	}
	for name, letters := range shorts {
		if len(letters) > 1 {
			t.Errorf("--%s has the short flags %q", name, slices.Sorted(maps.Keys(letters)))
		}
	}
	for letter, all := range names {
		if len(all) > 1 {
			t.Errorf("-%s belongs to %q", letter, slices.Sorted(maps.Keys(all)))
		}
	}
}

// A command that requires arguments names them in its first line, for the message about missing
// ones.
func TestCommandsNameTheirArguments(t *testing.T) {
	var visit func(c *cobra.Command)
	visit = func(c *cobra.Command) {
		if c.Runnable() && c.Args != nil && c.ValidateArgs(nil) != nil && !strings.Contains(c.Use, " ") {
			t.Errorf("%s requires arguments, and its first line names none", c.CommandPath())
		}
		for _, child := range c.Commands() {
			visit(child)
		}
	}
	visit(newRoot(&cli.App{Stdout: io.Discard, Stderr: io.Discard}))
}
