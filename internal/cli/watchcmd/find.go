package watchcmd

import (
	"bytes"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/eusn-stream/eusn-stream/internal/cli"
	"github.com/eusn-stream/eusn-stream/internal/discover"
	"github.com/eusn-stream/eusn-stream/internal/names"
)

const mostListed = 20 // lines of a list

// printKinds prints the kinds of machines that were found.
func (w *watcher) printKinds(l discover.Layout) {
	if w.app.JSON {
		return
	}
	for i, k := range l.Kinds {
		used := ""
		if i+1 == w.o.kind && len(l.Kinds) > 1 {
			used = ", watched"
		}
		w.out.say("kind %d: %d %s with %d channels, %s%s", i+1, len(k.Machines), plural(len(k.Machines), "machine"), len(k.Channels), describeForm(&k), used)
		for _, why := range k.LeftOut[:min(len(k.LeftOut), mostListed)] {
			w.out.say("  left out: %s", names.Cut(why, 100))
		}
	}
	for i, k := range l.Kinds[:min(len(l.Kinds), mostListed)] {
		if i+1 != w.o.kind {
			w.out.say("to watch kind %d, too (%s, ...): %s", i+1, names.Cut(k.Machines[0], 60), w.commandOf(i+1))
		}
	}
	for _, doubt := range l.Doubts[:min(len(l.Doubts), mostListed)] {
		w.out.say("ambiguous: %s", names.Cut(doubt, 200))
	}
	unused := "topics without channels"
	if len(l.Kinds) > 0 && l.Kinds[0].Nodes != nil {
		unused = "variables not used"
	}
	if len(l.Other) > 0 {
		w.out.say("%s: %d, such as %s (%s)", unused, len(l.Other), names.Cut(l.Other[0].Topic, 80), names.Cut(l.Other[0].Why, 100))
	}
}

// describeForm describes where the machines of a kind are, and the form of their values.
func describeForm(k *discover.Kind) string {
	switch {
	case k.Nodes != nil:
		return fmt.Sprintf("objects such as %s, variables such as %s", names.Cut(k.Machines[0], 60), names.Cut(k.Nodes[k.Machines[0]][k.Channels[0]], 60))
	case k.Single:
		return fmt.Sprintf("topics %s, a message for each value", k.Topics)
	case k.Lists:
		return fmt.Sprintf("topics %s, JSON messages with lists of samples", k.Topics)
	}
	return fmt.Sprintf("topics %s, a JSON message for each sample", k.Topics)
}

// printSensors prints the machines, and the channels with their grades.
func (w *watcher) printSensors(s *discover.Samples, sensors []discover.Sensor) {
	if w.app.JSON {
		return
	}
	var b bytes.Buffer
	t := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "machine\tsamples\trate")
	machines := s.Names()
	for i, name := range machines {
		if i == mostListed {
			fmt.Fprintf(t, "and %d more\t\t\n", len(machines)-mostListed)
			break
		}
		m := s.Machines[name]
		fmt.Fprintf(t, "%s\t%d\t%s\n", names.Cut(name, 60), len(m.Times), hertz(m.Rate()))
	}
	fmt.Fprintln(t, "channel\tgrade\tunit\t")
	for _, c := range sensors {
		why := c.Why
		if !c.Used {
			why = strings.TrimPrefix(why+", not used", ", ")
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\n", names.Cut(c.Name, 60), c.Grade, c.Unit, why)
	}
	t.Flush()
	w.out.say("%s", strings.TrimRight(b.String(), "\n"))
}

// commandOf is the command for a kind: a process runs one job, so each kind has its own process. A
// password is not printed.
func (w *watcher) commandOf(kind int) string {
	url := w.o.url
	if scheme, rest, found := strings.Cut(url, "://"); found && w.at.password != "" {
		end := strings.LastIndexByte(rest[:strings.IndexByte(rest+"/", '/')], '@')
		user, _, _ := strings.Cut(rest[:end], ":")
		url = scheme + "://" + user + ":PASSWORD" + rest[end:]
	}
	text := fmt.Sprintf("eusn-stream watch %s --kind %d --save %s", cli.QuoteForShell(url), kind, cli.QuoteForShell(kindFolder(w.o.dir, w.o.kind, kind)))
	if w.o.learn != defaultLearn {
		text += fmt.Sprintf(" --learn %v", w.o.learn)
	}
	return text
}

// kindFolder is the folder of another kind, next to that of a kind.
func kindFolder(dir string, kind, other int) string {
	dir = strings.TrimSuffix(filepath.Clean(dir), fmt.Sprintf("-kind%d", kind))
	if other == 1 {
		return dir
	}
	return fmt.Sprintf("%s-kind%d", dir, other)
}

func hertz(rate float64) string {
	if rate == 0 {
		return "unknown"
	}
	return fmt.Sprintf("%.3g Hz", rate)
}

func plural(n int, word string) string {
	if n == 1 {
		return word
	}
	return word + "s"
}

// foundFields are the fields of the event found.
func (w *watcher) foundFields(l discover.Layout) map[string]any {
	type kind struct {
		Machines []string `json:"machines"`
		Channels []string `json:"channels"`
		Topics   string   `json:"topics"`
		Single   bool     `json:"single_values"`
		Command  string   `json:"command,omitempty"` // to watch the kind, too
	}
	kinds := []kind{}
	for i, k := range l.Kinds {
		command := ""
		if i+1 != w.o.kind {
			command = w.commandOf(i + 1)
		}
		kinds = append(kinds, kind{k.Machines, k.Channels, k.Topics, k.Single, command})
	}
	other := []string{}
	for _, o := range l.Other {
		other = append(other, o.Topic+": "+o.Why)
	}
	return map[string]any{"kinds": kinds, "other": slices.Clip(other[:min(len(other), mostListed)])}
}
