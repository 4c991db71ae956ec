package offlinecmd

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/eusn-stream/eusn-stream/codec"
	"github.com/eusn-stream/eusn-stream/internal/alarm"
	"github.com/eusn-stream/eusn-stream/internal/cli"
	"github.com/eusn-stream/eusn-stream/internal/cli/models"
	"github.com/eusn-stream/eusn-stream/internal/names"
	"github.com/eusn-stream/eusn-stream/offline"
	"github.com/eusn-stream/eusn-stream/offline/archive"
	"github.com/eusn-stream/eusn-stream/readout"
	"github.com/eusn-stream/eusn-stream/reservoir"
)

// rehearse judges the predictions of an evaluation by alarm rules. Without times, a prediction has the time of its
// position at the model's sampling rate. all are the judged predictions.
func rehearse(ev *offline.Evaluation, m *reservoir.Model, rules alarm.Rules) (r *alarm.Rehearsal, all []alarm.Known, err error) {
	all = make([]alarm.Known, len(ev.Predictions))
	detects := slices.ContainsFunc(m.Readouts, func(l *readout.Linear) bool { return l.Name == ev.Readout && l.Detects })
	spans, timed := map[string][2]time.Time{}, true
	for i := range ev.Predictions {
		p := &ev.Predictions[i]
		k := &all[i]
		k.Prediction = codec.Prediction{Stream: p.ID, Time: codec.NoTime, Answer: p.Answer}
		switch {
		case p.Time != archive.NoTime:
			k.Stored = time.Unix(0, p.Time).UTC()
		default:
			timed = timed && m.Training.Rate > 0
			k.Stored = time.Unix(0, int64(1e9*float64(p.Position)/cmp.Or(m.Training.Rate, 1))).UTC()
		}
		k.Label, k.Strange = trueClass(ev, p, detects)
		span, seen := spans[p.ID]
		if !seen || k.Stored.Before(span[0]) {
			span[0] = k.Stored
		}
		if k.Stored.After(span[1]) {
			span[1] = k.Stored
		}
		spans[p.ID] = span
	}
	if r, err = alarm.Rehearse(rules, ev.Classes, all); err != nil {
		return nil, nil, err
	}
	if timed {
		weeks := 0.
		for _, span := range spans {
			weeks += span[1].Sub(span[0]).Hours() / (24 * 7)
		}
		r.SetWeeks(weeks)
	}
	return r, all, nil
}

// compareRules returns an error for a rule with an unknown class, and warns about other rules
// that never raise an alarm with this model.
func compareRules(a *cli.App, rules alarm.Rules, m *reservoir.Model, readout, path string) (err error) {
	never, _ := rules.UnreachableBy(m.Readouts, readout) // the evaluation refuses an unknown readout
	for _, n := range never {
		if n.Class == "" {
			a.Say("warning: %s", n)
		} else if err == nil {
			err = cli.Fail(cli.ExitConfig, errors.New(n.String()), fmt.Sprintf("eusn-stream model show %s, which lists the classes; docs/alarm-rules.md", cli.QuoteForShell(path)))
		}
	}
	return err
}

// strangeClass is the label of classes that a model does not know.
const strangeClass = "\x00"

// trueClass returns the label of a prediction, and whether the label is strange to the model. A class outside a model of
// healthy data is the model's class of everything else.
func trueClass(ev *offline.Evaluation, p *offline.Prediction, detects bool) (label string, strange bool) {
	other := detects && (p.Unknown || p.Label == 1)
	switch {
	case other:
		return ev.Classes[1], true
	case p.Unknown:
		return strangeClass, true
	case p.Label >= 0 && len(ev.Classes) > 1:
		return ev.Classes[p.Label], false
	}
	return "", false
}

// printRehearsal prints the counts of each rule.
func printRehearsal(a *cli.App, r *alarm.Rehearsal) {
	if r == nil {
		return
	}
	a.Print("alarms     %-20s %7s %8s %6s %6s %6s %6s %6s  %s", "rule", "alarms", "a week", "true", "false", "other", "faults", "missed", "F1, false and missed share of predictions")
	for i := range r.Rules {
		n := &r.Rules[i]
		a.Print("           %-20s %7d %8s %6d %6d %6d %6d %6d  %s %s %s", n.Rule, n.Alarms, orDash(n.PerWeek, "%.3g"), n.True, n.False, n.Unlabeled, n.Faults, n.Missed,
			orDash(n.Rows.F1, "%.3f"), orDash(n.Rows.FalseShare, "%.3f"), orDash(n.Rows.MissedShare, "%.3f"))
	}
	if r.Weeks == 0 {
		a.Say("note: the data have no times and the model no sampling rate: alarms a week are unknown, and times of rules count a second for each sample")
	}
}

// mostChanges limits the printed points of change.
const mostChanges = 20

// printChanges prints the points of change: the events with a channel, a change of a series or an accepted level.
func printChanges(a *cli.App, channels []string, r *alarm.Rehearsal) {
	if r == nil {
		return
	}
	var lines []string
	for i := range r.Events {
		e := &r.Events[i]
		if text := changeText(e, channels); text != "" && e.Kind == alarm.Raised {
			lines = append(lines, fmt.Sprintf("%s  %s  %s  %s", e.Since.Format(time.RFC3339), e.Rule, names.Cut(e.Key, models.MaxClassWidth), text))
		} else if e.Accepted > 0 {
			lines = append(lines, fmt.Sprintf("%s  %s  %s  %s", e.Time.Format(time.RFC3339), e.Rule, names.Cut(e.Key, models.MaxClassWidth), e.NoveltyText()))
		}
	}
	head := "changes    "
	for _, line := range lines[:min(len(lines), mostChanges)] {
		a.Print("%s%s", head, line)
		head = "           "
	}
	if len(lines) > mostChanges {
		a.Print("%s%d more: --json", head, len(lines)-mostChanges)
	}
}

// changeText describes what has changed: the channels, in deviations of the training, or the change of a series.
func changeText(e *alarm.Event, channels []string) string {
	parts := make([]string, 0, len(e.Channels)+1)
	for _, s := range e.Channels {
		if s.Channel < len(channels) {
			parts = append(parts, fmt.Sprintf("%s %s %+.3g", names.Cut(channels[s.Channel], models.MaxClassWidth), s.Input, s.Deviation))
		}
	}
	if e.Change != "" {
		parts = append(parts, e.Change)
	}
	return strings.Join(parts, ", ")
}

// orDash formats a number that may be unknown.
func orDash(x *float64, format string) string {
	if x == nil {
		return "-"
	}
	return fmt.Sprintf(format, *x)
}
