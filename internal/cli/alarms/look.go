package alarms

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os/user"
	"slices"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/spf13/cobra"

	"github.com/eusn-stream/eusn-stream/internal/alarm"
	"github.com/eusn-stream/eusn-stream/internal/cli"
	"github.com/eusn-stream/eusn-stream/internal/cli/server"
	"github.com/eusn-stream/eusn-stream/internal/cli/term"
	"github.com/eusn-stream/eusn-stream/internal/config"
	"github.com/eusn-stream/eusn-stream/internal/consumer"
	"github.com/eusn-stream/eusn-stream/internal/watch"
)

// formatEvent formats an event as a line for people.
func formatEvent(e *alarm.Event) string {
	stamp := e.Time.UTC().Format("2006-01-02T15:04:05.000Z")
	if e.Kind == alarm.RulesChanged && e.Why != "" {
		return fmt.Sprintf("%s  %s", stamp, e.Why)
	}
	if e.Kind == alarm.RulesChanged {
		return fmt.Sprintf("%s  rules  %d rules by %s", stamp, len(e.Rules), term.OneField(e.Who))
	}
	text := fmt.Sprintf("%s  %s  %s  %s", stamp, e.Kind, e.Rule, term.OneField(e.Key))
	if e.Class != "" {
		text += "  " + term.OneField(e.Class)
	}
	if e.Probability > 0 {
		text += fmt.Sprintf("  %.3f", e.Probability)
	}
	if e.Estimate != nil {
		text += fmt.Sprintf("  %.6g [%.6g, %.6g]", e.Value, e.Low, e.High)
	}
	if e.NoveltyP > 0 {
		text += fmt.Sprintf("  (novelty p %.3g)", e.NoveltyP)
	}
	for _, detail := range []string{e.NoveltyText(), e.Change, e.ChannelsText(), e.Who, e.Why} {
		if detail != "" {
			text += "  (" + detail + ")"
		}
	}
	return text
}

func newList(a *cli.App) *cobra.Command {
	return newCommand(a, &cobra.Command{
		Use:   "list",
		Short: "List the alarms that are on",
		Long: `List the alarms that are on, by rule and key: when it was raised or acknowledged, the rule,
the key, class and probability of the prediction that raised it, and who has acknowledged
it. It reads the alarm log: no process of alarms must run.`,
		Example: "  eusn-stream alarms list\n  eusn-stream alarms list --json",
		Args:    cobra.NoArgs,
	}, nil, func(ctx context.Context, c config.Config, js jetstream.JetStream, _ []string) error {
		active, err := watch.ActiveAlarms(ctx, js, c.Job)
		if err != nil {
			return err
		}
		if a.JSON {
			return a.PrintJSON(append([]alarm.Event{}, active...))
		}
		for i := range active {
			a.Print("%s", formatEvent(&active[i]))
		}
		a.SayNone(len(active), "active alarms")
		return nil
	})
}

func newTail(a *cli.App) *cobra.Command {
	var since string
	var follow bool
	cmd := newCommand(a, &cobra.Command{
		Use:   "tail",
		Short: "Print the events of the alarm log: from now on, or from a time on",
		Long: `Print what happens to alarms, a line each: when, what (raised, acknowledged, cleared), the
rule, the key, class and probability. --json prints the events as the log has them, a line
each.

Without --since it begins now and runs until Ctrl-C. With --since it prints what was stored
since then and ends; with --follow it continues until Ctrl-C.`,
		Example: "  eusn-stream alarms tail\n  eusn-stream alarms tail --since 24h --json",
		Args:    cobra.NoArgs,
	}, func() bool { return since == "" || follow }, func(ctx context.Context, c config.Config, js jetstream.JetStream, _ []string) error {
		start, err := cli.PointInTime("since", since, consumer.ServerTime(ctx, js, c.Job), "eusn-stream alarms tail --help")
		if err != nil {
			return err
		}
		enc, count := json.NewEncoder(a.Stdout), 0
		err = watch.ReadEvents(ctx, js, c.Job, start, follow || start.IsZero(), func(e alarm.Event) error {
			count++
			if a.JSON {
				return enc.Encode(&e)
			}
			a.Print("%s", formatEvent(&e))
			return nil
		})
		if err == nil {
			a.SayNone(count, "alarm events")
		}
		return err
	})
	cmd.Flags().StringVar(&since, "since", "", "begin with events stored since then: 10m (ago), a date (UTC), or a time like 2026-01-31T12:00:00Z")
	cmd.Flags().BoolVarP(&follow, "follow", "f", false, "with --since: continue with what comes, until Ctrl-C")
	return cmd
}

func newAck(a *cli.App) *cobra.Command {
	var r watch.Acknowledgement
	cmd := newCommand(a, &cobra.Command{
		Use:   "ack RULE KEY",
		Short: "Acknowledge an alarm that is on",
		Long: `Acknowledge an alarm that is on: somebody has seen it. It stays on until its rule clears
it. The process of the job's alarms (alarms run) must be running.

Programs can do the same: they send {"rule":"imbalance","key":"pump-7","who":"anna"} to the
subject <job>.alarms.acknowledge. The answer has the event, or an error.`,
		Example: "  eusn-stream alarms ack imbalance pump-7\n  eusn-stream alarms ack imbalance pump-7 --alarm 41 --who anna",
		Args:    cobra.ExactArgs(2),
	}, always, func(ctx context.Context, c config.Config, js jetstream.JetStream, args []string) error {
		var err error
		r.Rule, r.Key = args[0], args[1]
		if r.Who, err = defaultUser(r.Who); err != nil {
			return err
		}
		e, err := watch.Acknowledge(ctx, js.Conn(), c.Job, r)
		if err != nil {
			return requestFailure(err, "eusn-stream alarms list, which shows the alarms that are on")
		}
		return printEvent(a, &e)
	})
	cmd.Flags().Uint64Var(&r.Alarm, "alarm", 0, "only if it is the alarm of this number (alarms list --json)")
	cmd.Flags().StringVar(&r.Who, "who", "", "who acknowledges it (default the user of this machine)")
	return cmd
}

func newRules(a *cli.App) *cobra.Command {
	cmd := newCommand(a, &cobra.Command{
		Use:     "rules",
		Short:   "Show the rules in force, or set others",
		Example: "  eusn-stream alarms rules\n  eusn-stream alarms rules set rules.yaml",
		Args:    cobra.NoArgs,
	}, nil, func(ctx context.Context, c config.Config, js jetstream.JetStream, _ []string) error {
		return showRules(ctx, a, js, c.Job)
	})
	cmd.AddCommand(newRulesSet(a))
	return cmd
}

func newRulesSet(a *cli.App) *cobra.Command {
	var who string
	var dry bool
	cmd := newCommand(a, &cobra.Command{
		Use:   "set FILE",
		Short: "Replace all rules in force with those of a file",
		Long: `Replace all rules in force with those of a file: YAML with names and texts, as alarms.rules
of the configuration has them, or a configuration file. The process of the job's alarms (alarms run) must be running.
The rules hold until others are set, or until that process starts with a configuration whose
rules were changed.

Alarms stay on if a rule of their name is about the same streams. Others are cleared.`,
		Example: "  eusn-stream alarms rules set rules.yaml --dry-run\n  eusn-stream alarms rules set rules.yaml",
		Args:    cobra.ExactArgs(1),
	}, nil, func(ctx context.Context, c config.Config, js jetstream.JetStream, args []string) error {
		rules, err := alarm.ReadRules(args[0])
		if err != nil {
			return cli.Fail(cli.ExitConfig, err, "docs/alarm-rules.md describes rules")
		}
		if m, _, err := server.JobModel(ctx, a, js, c); err == nil {
			warnOfRules(rules, m.Readouts, c.Stage.Readout, func(text string) { a.Say("warning: %s; next: %s", text, rulesAdvice("--job "+c.Job)) })
		}
		if dry {
			return printChanges(ctx, a, js, c.Job, rules.Texts())
		}
		if who, err = defaultUser(who); err != nil {
			return err
		}
		e, err := watch.SetRules(ctx, js.Conn(), c.Job, watch.RuleSet{Rules: rules.Texts(), Who: who})
		if err != nil {
			return requestFailure(err, "eusn-stream alarms rules, which shows the rules in force")
		}
		return printEvent(a, &e)
	})
	cmd.Flags().StringVar(&who, "who", "", "who sets them (default the user of this machine)")
	cmd.Flags().BoolVar(&dry, "dry-run", false, "only show the changes to the rules in force")
	return cmd
}

// ruleChange is the change of a rule: the previous and the new text, empty without a rule.
type ruleChange struct {
	Rule string `json:"rule"`
	From string `json:"from,omitempty"`
	To   string `json:"to,omitempty"`
}

// printChanges prints the difference between the rules in force and other rules.
func printChanges(ctx context.Context, a *cli.App, js jetstream.JetStream, job string, rules map[string]string) error {
	now, err := watch.CurrentRules(ctx, js, job)
	if err != nil {
		return err
	}
	from := map[string]string{}
	if now != nil {
		from = now.Rules
	}
	all := maps.Clone(from)
	maps.Copy(all, rules)
	changes := []ruleChange{}
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if from[name] != rules[name] {
			changes = append(changes, ruleChange{name, from[name], rules[name]})
		}
	}
	if a.JSON {
		return a.PrintJSON(changes)
	}
	for _, c := range changes {
		if c.From != "" {
			a.Print("- %s: %s", c.Rule, c.From)
		}
		if c.To != "" {
			a.Print("+ %s: %s", c.Rule, c.To)
		}
	}
	a.SayNone(len(changes), "changes")
	a.Say("nothing was changed")
	return nil
}

func showRules(ctx context.Context, a *cli.App, js jetstream.JetStream, job string) error {
	e, err := watch.CurrentRules(ctx, js, job)
	if err != nil {
		return err
	}
	if e == nil {
		e = &alarm.Event{Kind: alarm.RulesChanged, Rules: map[string]string{}}
	}
	if a.JSON {
		return a.PrintJSON(e)
	}
	for _, name := range slices.Sorted(maps.Keys(e.Rules)) {
		a.Print("%s: %s", name, e.Rules[name])
	}
	if a.SayNone(len(e.Rules), "rules"); len(e.Rules) == 0 {
		return nil
	}
	a.Say("since %s, by %s", e.Time.UTC().Format(time.RFC3339), e.Who)
	return nil
}

// requestFailure adds advice to the error of a request.
func requestFailure(err error, refused string) error {
	switch {
	case errors.Is(err, watch.ErrNobody):
		return cli.Fail(cli.ExitFailure, err, "eusn-stream alarms run, with the stage's configuration")
	case errors.Is(err, watch.ErrRefused):
		return cli.Fail(cli.ExitFailure, err, refused)
	}
	return err
}

func printEvent(a *cli.App, e *alarm.Event) error {
	if a.JSON {
		return a.PrintJSON(e)
	}
	a.Print("%s", formatEvent(e))
	return nil
}

func defaultUser(who string) (string, error) {
	if who != "" {
		return who, nil
	}
	u, err := user.Current()
	if err != nil {
		return "", cli.Fail(cli.ExitUsage, fmt.Errorf("--who is required, because the user of this machine is unknown: %w", err), "--who NAME")
	}
	return u.Username, nil
}
