package watchcmd

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"text/tabwriter"

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
		form := "a JSON message for each sample"
		switch {
		case k.Nodes != nil:
			form = "variables such as " + names.Cut(k.Nodes[k.Machines[0]][k.Channels[0]], 60)
		case k.Single:
			form = "a message for each value"
		case k.Lists:
			form = "JSON messages with lists of samples"
		}
		used := ""
		if i+1 == w.o.kind && len(l.Kinds) > 1 {
			used = ", watched"
		}
		topics := "topics " + k.Topics
		if k.Nodes != nil {
			topics = "objects such as " + names.Cut(k.Machines[0], 60)
		}
		w.out.say("kind %d: %d %s with %d channels, %s, %s%s", i+1, len(k.Machines), plural(len(k.Machines), "machine"), len(k.Channels), topics, form, used)
		for _, why := range k.LeftOut[:min(len(k.LeftOut), mostListed)] {
			w.out.say("  left out: %s", names.Cut(why, 100))
		}
	}
	if len(l.Kinds) > 1 {
		w.out.say("one command watches one kind: for another kind, start this command with --kind and --save")
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
func foundFields(l discover.Layout) map[string]any {
	type kind struct {
		Machines []string `json:"machines"`
		Channels []string `json:"channels"`
		Topics   string   `json:"topics"`
		Single   bool     `json:"single_values"`
	}
	kinds := []kind{}
	for _, k := range l.Kinds {
		kinds = append(kinds, kind{k.Machines, k.Channels, k.Topics, k.Single})
	}
	other := []string{}
	for _, o := range l.Other {
		other = append(other, o.Topic+": "+o.Why)
	}
	return map[string]any{"kinds": kinds, "other": slices.Clip(other[:min(len(other), mostListed)])}
}
