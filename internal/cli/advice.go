package cli

import (
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// carried are the flags that select a command's server and job.
var carried = []string{"config", "nats-url", "dir", "job"}

// programCall is a call of the program in a text: the program's name and the words of a command's name.
var programCall = regexp.MustCompile(`eusn-stream((?: [a-z][a-z0-9-]*)+)`)

// Runs records the running command.
func (a *App) Runs(cmd *cobra.Command) { a.command = cmd }

// Changed reports whether the command line of the program has a flag.
func (a *App) Changed(flag string) bool { return a.command != nil && a.command.Flags().Changed(flag) }

// Advice is a text of advice, ready to be typed: the calls of the program in the text get this command's flags for
// server and job.
func (a *App) Advice(text string) string { return a.AdviceOn("", text) }

// AdviceOn is Advice about any job, not only the job of this command.
func (a *App) AdviceOn(job, text string) string {
	if a.command == nil {
		return text
	}
	var b strings.Builder
	for {
		at := programCall.FindStringSubmatchIndex(text)
		if at == nil {
			return b.String() + text
		}
		cmd, end := a.command.Root(), at[2]
		for word := range strings.FieldsSeq(text[at[2]:at[3]]) {
			i := slices.IndexFunc(cmd.Commands(), func(c *cobra.Command) bool { return c.Name() == word })
			if i < 0 {
				break
			}
			cmd, end = cmd.Commands()[i], end+1+len(word)
		}
		rest, after := text[end:], ""
		if i := endOfCall(rest); i >= 0 {
			rest, after = rest[:i], rest[i:]
		}
		b.WriteString(text[:end])
		b.WriteString(a.withFlags(cmd, job, rest))
		text = after
	}
}

// call is a call of a command in a text, with the flags to add.
type call struct {
	cmd         *cobra.Command
	rest, flags string // the text after the command's name, and the added flags
}

// lacks reports whether the command takes a flag that is missing in the call.
func (c *call) lacks(flag string) bool { return c.cmd.Flags().Lookup(flag) != nil && !c.has(flag) }

func (c *call) has(flag string) bool { return strings.Contains(c.rest+" ", " --"+flag+" ") }

// carry adds a flag of the running command. takesURL reports whether the called command takes the address of a
// server; without it, --dir has another meaning.
func (c *call) carry(f *pflag.Flag, takesURL bool) {
	value := QuoteForShell(f.Value.String())
	switch {
	case f.Name == "config" && strings.Contains(c.rest, " -c "):
		c.rest = strings.Replace(c.rest, " -c FILE", " -c "+value, 1)
	case f.Name == "config":
		c.flags += " -c " + value
	case f.Name == "nats-url" && strings.Contains(value, "@"):
		c.flags += " --nats-url URL" // URL holds a password
	case f.Name == "dir" && (!takesURL || c.has("nats-url")):
	default:
		c.flags += " --" + f.Name + " " + value
	}
}

// withFlags returns the text after the name of a command, with missing flags.
func (a *App) withFlags(cmd *cobra.Command, job, rest string) string {
	if strings.HasPrefix(rest, " --help") {
		return rest
	}
	own, c := a.command.Flags(), call{cmd: cmd, rest: rest}
	for _, name := range carried {
		if f := own.Lookup(name); f != nil && f.Changed && c.lacks(name) {
			c.carry(f, own.Lookup("nats-url") != nil)
		}
	}
	if f := own.Lookup("job"); job != "" && f != nil && !f.Changed && job != f.DefValue && c.lacks("job") {
		c.flags += " --job " + job
	}
	before := strings.TrimRight(c.rest, " ")
	return before + c.flags + c.rest[len(before):]
}

// endOfCall is the place after a call if the sentence continues, otherwise -1.
func endOfCall(text string) int {
	for i, c := range text {
		if strings.ContainsRune(",;:()", c) && (i+1 == len(text) || text[i+1] == ' ' || c == '(') || c == '\n' {
			return i
		}
	}
	return -1
}
