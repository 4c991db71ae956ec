package root

import (
	"bytes"
	"context"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/eusn-stream/eusn-stream/internal/cli/engines"
	"github.com/eusn-stream/eusn-stream/internal/imports"
	"github.com/eusn-stream/eusn-stream/reservoir"
)

// flagValues are the values of flags, for completion by a shell.
var flagValues = map[string][]string{
	"engine": engines.Kinds, "progress": {"auto", "plain", "none"}, "bank": reservoir.Banks, "network": {"bank", "eusn", "esn", "resn"},
	"policy": {"marked", "window", "count", "gap", "endless"}, "split": {"train", "test"}, "non-finite": {"reject", "hold", "zero"},
	"sync": {"default", "always"}, "format": {"c", "html"}, "time-unit": {"s", "ms", "us", "ns"}, "dates": {imports.DayFirst, imports.MonthFirst}, "if": {"better", "not-worse"}, "coverage-by": {"all", "class"},
	"delimiter": imports.Delimiters, "decimal": {".", ","}, "header": {"yes", "no"}, "files": {imports.FilesStreams, imports.FilesSensors},
}

// importFlagValues are the values of flags of import, whose names have another meaning in other commands.
var importFlagValues = map[string][]string{"rows": {imports.RowsSamples, imports.RowsRuns}, "target": {imports.Remaining, imports.RemainingTime}, "stream": {}}

// Endings of files, for completion by a shell: of flags, and of the arguments of commands.
var (
	modelFiles  = []string{"safetensors"}
	configFiles = []string{"yaml", "yml"}
	dataFiles   = []string{"parquet", "csv", "csv.gz"}
	tableFiles  = []string{"csv", "txt", "dat", "tsv", "npz", "gz"}
	flagFiles   = map[string][]string{"model": modelFiles, "config": configFiles, "labels": {"csv", "json"}, "picture": {"svg"}, "parts": {"json"}, "mapping": configFiles, "write-mapping": configFiles, "runs": tableFiles}
	argFiles    = map[string][]string{
		"train": dataFiles, "evaluate": dataFiles, "predict": dataFiles, "import": tableFiles, "replay": dataFiles, "demo": dataFiles,
		"offline retrain": dataFiles, "offline evaluate": dataFiles, "offline import": tableFiles, "offline split": dataFiles,
		"model show": modelFiles, "model verify": modelFiles, "model export": modelFiles, "model publish": modelFiles,
		"config check": configFiles, "alarms rules set": configFiles,
	}
	argFingerprints = []string{"model promote", "model retire", "model shadow add", "model shadow rm", "model shadow report"}
)

// answerWithin limits a completion's wait for a server.
const answerWithin = time.Second

// completeValues adds the completion of values to a command and its subcommands.
func completeValues(cmd *cobra.Command) {
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		var complete cobra.CompletionFunc
		values, known := valuesOf(cmd, f)
		switch {
		case known:
			complete = cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp)
		case flagFiles[f.Name] != nil:
			complete = completeFiles(flagFiles[f.Name])
		case f.Name == "job":
			complete = completeFromServer("job", "list")
		case f.Name == "stream" || f.Name == "key":
			complete = completeFromServer("job", "streams")
		default:
			return
		}
		cobra.CheckErr(cmd.RegisterFlagCompletionFunc(f.Name, complete))
	})
	switch path := commandPath(cmd); {
	case argFiles[path] != nil:
		cmd.ValidArgsFunction = completeFiles(argFiles[path])
	case slices.Contains(argFingerprints, path):
		cmd.ValidArgsFunction = completeFromServer("model", "list")
	case path == "state show":
		cmd.ValidArgsFunction = completeFromServer("job", "streams")
	case path == "alarms ack":
		cmd.ValidArgsFunction = func(cmd *cobra.Command, args []string, begin string) ([]string, cobra.ShellCompDirective) {
			if len(args) == 0 {
				return completeFromServer("alarms", "rules")(cmd, args, begin)
			}
			return completeFromServer("job", "streams")(cmd, args, begin)
		}
	}
	for _, c := range cmd.Commands() {
		completeValues(c)
	}
}

// valuesOf returns the values of a flag; false: any value.
func valuesOf(cmd *cobra.Command, f *pflag.Flag) (values []string, known bool) {
	if values, known = importFlagValues[f.Name]; known && cmd.Name() == "import" {
		return values, true
	}
	values, known = flagValues[f.Name]
	return values, known && (f.Name != "bank" || f.Value.Type() != "int")
}

// commandPath is the path of a command without the name of the program.
func commandPath(cmd *cobra.Command) string {
	_, path, _ := strings.Cut(cmd.CommandPath(), " ")
	return path
}

func completeFiles(endings []string) cobra.CompletionFunc {
	return cobra.FixedCompletions(endings, cobra.ShellCompDirectiveFilterFileExt)
}

// completeFromServer completes with the first words of the lines printed by a command, on the
// server named by the typed flags.
func completeFromServer(args ...string) cobra.CompletionFunc {
	return func(cmd *cobra.Command, _ []string, begin string) (found []string, _ cobra.ShellCompDirective) {
		ctx, cancel := context.WithTimeout(context.Background(), answerWithin)
		defer cancel()
		call := append(slices.Clone(args), "--quiet")
		for _, name := range []string{"config", "nats-url", "dir", "job"} {
			if f := cmd.Flag(name); f != nil && f.Changed {
				call = append(call, "--"+name, f.Value.String())
			}
		}
		var out bytes.Buffer
		if Run(ctx, call, &out, io.Discard) == 0 {
			for line := range strings.Lines(out.String()) {
				if word, _, _ := strings.Cut(strings.TrimSpace(line), " "); strings.HasPrefix(word, begin) {
					found = append(found, strings.TrimSuffix(word, ":"))
				}
			}
		}
		return found, cobra.ShellCompDirectiveNoFileComp
	}
}
