package cli

import (
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/cobra"
)

// carried are the flags by which a command finds its server and job.
var carried = []string{"config", "nats-url", "dir", "job"}

// programCall is a call of the program in a text: its words up to the first that is none of
// a command's name.
var programCall = regexp.MustCompile(`eusn-stream((?: [a-z][a-z0-9-]*)+)`)

// Runs notes which command the program runs.
func (a *App) Runs(cmd *cobra.Command) { a.command = cmd }

// FoundAt notes the URL at which a command has found the embedded server of a stage, without
// having been told.
func (a *App) FoundAt(url string) { a.found = url }

// Advice is a text on what to do, ready to be typed: the calls of the program in it get the
// flags by which this command has found its server and job.
func (a *App) Advice(text string) string { return a.AdviceOn("", text) }

// AdviceOn is Advice about a job, which need not be that of this command.
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

// withFlags is what stands after the name of a command, with the flags that are missing.
func (a *App) withFlags(cmd *cobra.Command, job, rest string) string {
	own, flags := a.command.Flags(), ""
	if strings.HasPrefix(rest, " --help") {
		return rest
	}
	takes := func(name string) bool { return cmd.Flags().Lookup(name) != nil }
	has := func(name string) bool { return strings.Contains(rest+" ", " --"+name+" ") }
	for _, name := range carried {
		f := own.Lookup(name)
		if f == nil || !f.Changed || !takes(name) || has(name) {
			continue
		}
		value := QuoteForShell(f.Value.String())
		switch {
		case name == "config" && strings.Contains(rest, " -c "):
			rest = strings.Replace(rest, " -c FILE", " -c "+value, 1)
		case name == "config":
			flags += " -c " + value
		case name == "nats-url" && strings.Contains(value, "@"):
			flags += " --nats-url URL" // which holds a password
		case name == "dir" && (own.Lookup("nats-url") == nil || has("nats-url")):
		default:
			flags += " --" + name + " " + value
		}
	}
	if f := own.Lookup("job"); job != "" && f != nil && !f.Changed && job != f.DefValue && takes("job") && !has("job") {
		flags += " --job " + job
	}
	if a.found != "" && takes("nats-url") && takes("dir") && !has("nats-url") && !strings.Contains(flags, "--nats-url") {
		flags += " --nats-url " + a.found
	}
	call := strings.TrimRight(rest, " ")
	return call + flags + rest[len(call):]
}

// endOfCall is where a sentence goes on after a call, -1 where it does not.
func endOfCall(text string) int {
	for i, c := range text {
		if strings.ContainsRune(",;:()", c) && (i+1 == len(text) || text[i+1] == ' ' || c == '(') || c == '\n' {
			return i
		}
	}
	return -1
}
