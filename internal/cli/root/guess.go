package root

import (
	"cmp"
	"errors"
	"fmt"
	"strings"

	"github.com/agnivade/levenshtein"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/eusn-stream/eusn-stream/internal/cli"
)

// guesses leads from typed words to the right command. A word that is the name of a command in
// another place, for example promote, needs no line.
var guesses = map[string]string{
	"start": "run", "serve": "run", "server": "run", "up": "run", "stage": "run", "stream": "run",
	"fit": "train", "training": "train", "test": "evaluate", "eval": "evaluate", "validate": "evaluate", "score": "evaluate",
	"classify": "predict", "infer": "predict", "inference": "predict", "prediction": "predict", "predictions": "tail",
	"convert": "import", "csv": "import", "load": "import", "data": "import", "send": "replay", "simulate": "replay", "play": "replay",
	"init": "config init", "setup": "config init", "configure": "config init", "new": "config init",
	"logs": "tail", "log": "tail", "output": "tail", "top": "status --watch", "ps": "status", "partitions": "status --partitions", "health": "status", "info": "status",
	"models": "model list", "inspect": "model show", "jobs": "job list", "rm": "job delete", "remove": "job delete", "clean": "job delete",
	"state get": "state show", "state as-of": "state show", "tls": "secure init", "certs": "secure init", "users": "secure init",
	"benchmark": "bench", "example": "demo", "examples": "demo", "try": "demo", "quickstart": "demo", "tutorial": "demo",
	"check": "doctor", "diagnose": "doctor", "why": "explain", "alarm": "alarms", "alerts": "alarms", "rules": "alarms rules", "label": "labels add",
	"mqtt": "gateway", "http": "gateway", "opcua": "gateway", "modbus": "gateway", "listen": "gateway",
	"paper": "offline paper", "research": "offline paper", "offline fit": "train", "errors": "deadletter list", "rejected": "deadletter list",
}

// explainUsage adds the most probable command or flag to an error about typed words.
func explainUsage(root, cmd *cobra.Command, args []string, err error) error {
	found, rest, _ := root.Find(args)
	var unknown *pflag.NotExistError
	isFlag := errors.As(err, &unknown) && (len(rest) == 0 || strings.HasPrefix(rest[0], "-"))
	if word := firstWord(found, rest); word != "" && found.HasAvailableSubCommands() && !isFlag {
		err = fmt.Errorf("unknown command %q", word)
		if found.HasParent() {
			err = fmt.Errorf("unknown command %q for %q", word, found.CommandPath())
		}
		return cli.Fail(cli.ExitUsage, err, guessCommand(found, word))
	}
	next, err := describeUsage(cmd, err)
	return cli.Fail(cli.ExitUsage, err, cmp.Or(next, cmd.CommandPath()+" --help"))
}

// firstWord returns the first argument that is neither a flag nor a flag's value.
func firstWord(cmd *cobra.Command, args []string) string {
	for i := 0; i < len(args); i++ {
		name, isFlag := strings.CutPrefix(args[i], "-")
		if !isFlag {
			return args[i]
		}
		f := cmd.Flag(strings.TrimPrefix(name, "-"))
		if len(name) == 1 {
			f = cmd.Flags().ShorthandLookup(name)
		}
		if f != nil && f.NoOptDefVal == "" {
			i++
		}
	}
	return ""
}

// guessCommand returns the command for a word: by the table, by the name of a command in
// another place, by a nearby name, or the help.
func guessCommand(at *cobra.Command, word string) string {
	const program = "eusn-stream "
	path := strings.TrimPrefix(at.CommandPath()+" "+word, program)
	for _, name := range []string{path, word} {
		if command, known := guesses[name]; known {
			return program + command
		}
	}
	if c := findCommand(at.Root(), word); c != nil {
		return c.CommandPath()
	}
	if near := at.SuggestionsFor(word); len(near) > 0 {
		return at.CommandPath() + " " + near[0]
	}
	return at.CommandPath() + " --help"
}

// findCommand returns the first command of a name.
func findCommand(at *cobra.Command, name string) *cobra.Command {
	for _, c := range at.Commands() {
		if c.Name() == name {
			return c
		}
	}
	for _, c := range at.Commands() {
		if found := findCommand(c, name); found != nil {
			return found
		}
	}
	return nil
}

// nearestFlag returns the flag with the most similar name, or "" if none is similar.
func nearestFlag(cmd *cobra.Command, name string) (nearest string) {
	best := 3 // edits
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		distance := levenshtein.ComputeDistance(strings.ReplaceAll(name, "-", ""), strings.ReplaceAll(f.Name, "-", ""))
		if len(name) > 2 && (strings.HasPrefix(f.Name, name) || strings.HasSuffix(f.Name, "-"+name)) {
			distance = min(distance, 2)
		}
		if distance < best && distance < len(f.Name) {
			best, nearest = distance, f.Name
		}
	})
	return nearest
}
