// Package man writes manual pages, man(7), of a program's commands.
package man

import (
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// Pages returns the manual pages of section 1 of a command and of all its subcommands, by
// file name without folder: eusn-stream-config-check.1. Hidden commands have no page.
// Groups, whose page only lists subcommands, have a page.
func Pages(root *cobra.Command, version string, at time.Time) map[string][]byte {
	pages := map[string][]byte{}
	var visit func(c *cobra.Command)
	visit = func(c *cobra.Command) {
		pages[name(c)+".1"] = page(c, version, at)
		for _, child := range c.Commands() {
			if !child.Hidden {
				visit(child)
			}
		}
	}
	visit(root)
	return pages
}

func name(c *cobra.Command) string { return strings.ReplaceAll(c.CommandPath(), " ", "-") }

func page(c *cobra.Command, version string, at time.Time) []byte {
	c.InitDefaultHelpFlag()
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	line(`.TH "%s" 1 "%s" "%s" "User Commands"`, strings.ToUpper(name(c)), at.UTC().Format("2006-01-02"), c.Root().Name()+" "+version)
	line(`.nh`)
	line(`.ad l`)
	line(`.SH NAME`)
	line(`%s \- %s`, escape(name(c)), escape(c.Short))
	if c.Runnable() {
		line(".SH SYNOPSIS\n.B %s", escape(c.CommandPath()))
		_, args, _ := strings.Cut(c.UseLine(), c.CommandPath())
		if args = strings.TrimSpace(args); args != "" {
			line(`%s`, escape(args))
		}
	}
	line(`.SH DESCRIPTION`)
	if c.Long != "" {
		b.WriteString(paragraphs(c.Long))
	} else {
		line(`%s.`, escape(strings.TrimSuffix(c.Short, ".")))
	}
	for _, s := range []struct {
		title string
		flags *pflag.FlagSet
	}{{"OPTIONS", c.NonInheritedFlags()}, {"GLOBAL OPTIONS", c.InheritedFlags()}} {
		if s.flags.HasAvailableFlags() {
			line(`.SH "%s"`, s.title)
			s.flags.VisitAll(func(f *pflag.Flag) {
				if !f.Hidden {
					b.WriteString(option(f))
				}
			})
		}
	}
	var children []*cobra.Command
	for _, child := range c.Commands() {
		if !child.Hidden {
			children = append(children, child)
		}
	}
	if len(children) > 0 {
		line(`.SH COMMANDS`)
		for _, child := range children {
			line(".TP\n\\fB%s\\fR(1)\n%s", escape(name(child)), escape(child.Short))
		}
	}
	if c.Example != "" {
		line(".SH EXAMPLES\n.nf\n%s\n.fi", escape(undent(c.Example)))
	}
	line(`.SH "EXIT STATUS"`)
	line(`0 if all went well. The other codes are listed by`)
	line(`.BR %s (1).`, escape(c.Root().Name()+"-exit-codes"))
	if c.HasParent() {
		line(".SH \"SEE ALSO\"\n.BR %s (1)", escape(name(c.Parent())))
	}
	return []byte(b.String())
}

// option formats a flag: its syntax, its effect and its default.
func option(f *pflag.Flag) string {
	kind, usage := pflag.UnquoteUsage(f)
	written := "--" + f.Name
	if f.Shorthand != "" {
		written = "-" + f.Shorthand + ", " + written
	}
	head := `\fB` + escape(written) + `\fR`
	if kind != "" {
		head += ` \fI` + escape(kind) + `\fR`
	}
	switch f.DefValue {
	case "", "false", "0", "[]", "0s":
	default:
		usage += fmt.Sprintf(" (default %s)", f.DefValue)
	}
	return ".TP\n" + head + "\n" + escape(usage) + "\n"
}

// paragraphs formats a help text: indented lines are unchanged.
func paragraphs(text string) string {
	var b strings.Builder
	asIs := false
	for _, l := range strings.Split(strings.TrimSpace(text), "\n") {
		indented := strings.HasPrefix(l, "  ")
		if indented != asIs && l != "" {
			b.WriteString(map[bool]string{true: ".nf\n", false: ".fi\n"}[indented])
			asIs = indented
		}
		if l == "" && !asIs {
			b.WriteString(".PP\n")
			continue
		}
		b.WriteString(escape(l) + "\n")
	}
	if asIs {
		b.WriteString(".fi\n")
	}
	return b.String()
}

// undent removes the common indentation of all lines.
func undent(text string) string {
	lines := strings.Split(strings.Trim(text, "\n"), "\n")
	for i, l := range lines {
		lines[i] = strings.TrimPrefix(l, "  ")
	}
	return strings.Join(lines, "\n")
}

var escaper = strings.NewReplacer(`\`, `\e`, `-`, `\-`, "`", `\(ga`, `^`, `\(ha`, `~`, `\(ti`, "'", `\(aq`)

// escape escapes text for the formatter.
func escape(text string) string {
	text = escaper.Replace(text)
	lines := strings.Split(text, "\n")
	for i, l := range lines {
		if strings.HasPrefix(l, ".") {
			lines[i] = `\&` + l
		}
	}
	return strings.Join(lines, "\n")
}
