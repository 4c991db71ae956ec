package alarms

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/spf13/cobra"

	"github.com/eusn-stream/eusn-stream/internal/alarm"
	"github.com/eusn-stream/eusn-stream/internal/certs"
	"github.com/eusn-stream/eusn-stream/internal/cli"
	"github.com/eusn-stream/eusn-stream/internal/cli/configcmd"
	"github.com/eusn-stream/eusn-stream/internal/cli/server"
	"github.com/eusn-stream/eusn-stream/internal/config"
	"github.com/eusn-stream/eusn-stream/internal/consumer"
	"github.com/eusn-stream/eusn-stream/internal/fleet"
	"github.com/eusn-stream/eusn-stream/internal/natsclient"
	"github.com/eusn-stream/eusn-stream/internal/notify"
	"github.com/eusn-stream/eusn-stream/internal/service"
	"github.com/eusn-stream/eusn-stream/internal/watch"
)

// NewCommand returns the command "alarms" with its subcommands.
func NewCommand(a *cli.App) *cobra.Command {
	return cli.Group("alarms", "Raise alarms for a job's predictions by rules, list and acknowledge them", newRun(a), newList(a), newTail(a), newAck(a), newRules(a))
}

const doctorHint = "eusn-stream doctor; the rights that alarms need are in docs/alarms.md"

// addAdvice adds the next step to an error.
func addAdvice(err error) error {
	if errors.Is(err, watch.ErrNoAlarms) {
		return cli.Fail(cli.ExitFailure, err, "eusn-stream alarms run -c FILE, with the rules under alarms.rules: docs/alarms.md")
	}
	return cli.Fail(cli.ExitFailure, err, doctorHint)
}

// always is the stage argument of a command that always requires a running stage.
func always() bool { return true }

// newCommand returns a command of the group. stage reports whether it requires a running stage;
// nil: it does not.
func newCommand(a *cli.App, cmd *cobra.Command, stage func() bool, run func(ctx context.Context, c config.Config, js jetstream.JetStream, args []string) error) *cobra.Command {
	with := server.Beside{As: "alarms", Failure: addAdvice, Stage: stage}
	return server.RunningCommand(a, cmd, with, func(ctx context.Context, c config.Config, js jetstream.JetStream, args []string) error {
		err := run(ctx, c, js, args)
		if err == nil && ctx.Err() != nil && !errors.Is(ctx.Err(), context.Canceled) { // the login lacks a right
			err = ctx.Err()
		}
		return err
	})
}

// newOutputs returns the configured outputs, or an error in their configuration.
func newOutputs(c config.Alarms, job string, log *slog.Logger) (outputs []notify.Output, err error) {
	if err := configcmd.CheckOutputs(c); err != nil {
		return nil, err
	}
	trusted, err := certs.ClientTLS(c.TLS.CA, c.TLS.Cert, c.TLS.Key)
	if err != nil {
		return nil, err
	}
	if c.Webhook != "" {
		outputs = append(outputs, &notify.Webhook{Job: job, URL: c.Webhook, Secret: c.WebhookSecret, TLS: trusted, Log: log})
	}
	if c.MQTT != "" {
		outputs = append(outputs, &notify.MQTT{
			Job: job, URL: c.MQTT, ID: c.MQTTID, User: c.MQTTUser, Password: c.MQTTPassword, Prefix: c.MQTTPrefix, Retain: c.MQTTRetain, TLS: trusted, Log: log,
		})
	}
	if c.Alertmanager != "" {
		for address := range strings.SplitSeq(c.Alertmanager, ",") {
			outputs = append(outputs, &notify.Alertmanager{Job: job, URL: address, Labels: c.AlertmanagerLabels.Map(), TLS: trusted, Log: log})
		}
	}
	return outputs, nil
}

// runWith manages the alarms and, while it writes the alarm log, sends them to the outputs.
func runWith(ctx context.Context, nc *nats.Conn, o watch.Options, outputs []notify.Output) error {
	ctx, stop := context.WithCancel(ctx)
	var sending sync.WaitGroup
	defer sending.Wait()
	defer stop()
	for _, output := range outputs {
		if err := output.Prepare(ctx, nc); err != nil { // before the first event
			return err
		}
	}
	startSending := sync.OnceFunc(func() {
		for _, output := range outputs {
			sending.Go(func() {
				if err := output.Run(ctx, nc); err != nil {
					o.Log.Error("alarms are not sent on: start the process again", "err", err)
				}
			})
		}
	})
	writes := o.Writes
	o.Writes = func() { writes(); startSending() }
	return watch.Run(ctx, nc, o)
}

// runFlags are the flags of alarms run.
type runFlags struct {
	since, save       string
	missing, takeOver bool
}

func newRun(a *cli.App) *cobra.Command {
	var flags runFlags
	cmd := newCommand(a, &cobra.Command{
		Use:   "run",
		Short: "Raise and clear alarms for a job's predictions, beside its stage",
		Long: `Read a job's predictions as they come, judge them by the rules in the configuration
(alarms.rules) and publish what follows on <job>.alarm.<rule>.<key>: raised, acknowledged,
cleared. Each event is published once, also when this process, the stage or the server is
killed: start the process again, and it continues where it was. Where another process keeps
the job's alarms, this one stands by: it follows that one, and takes the alarms over when it
does not answer any more. With --take-over it does so at once, and the other one ends.

Where the configuration says so, they are sent on: to a webhook, an MQTT broker, Prometheus'
Alertmanager (alarms.webhook, alarms.mqtt, alarms.alertmanager).

A new alarm log begins now, or with --since. The bucket <JOB>-LATEST has the last
prediction and the alarms of each stream.

It runs until Ctrl-C. docs/alarms.md says how rules are written.`,
		Example: `  eusn-stream alarms run -c stage.yaml
  eusn-stream alarms run -c stage.yaml --since 24h --nats-url nats://host:4222`,
		Args: cobra.NoArgs,
	}, always, func(ctx context.Context, c config.Config, js jetstream.JetStream, _ []string) error {
		return flags.runAlarms(ctx, a, c, js)
	})
	f := cmd.Flags()
	f.StringVar(&flags.since, "since", "", "where a new alarm log begins: 10m (ago), a date (UTC), or a time like 2026-01-31T12:00:00Z (default now)")
	f.BoolVar(&flags.missing, "missing", false, "continue where predictions are gone that were not judged")
	f.BoolVar(&flags.takeOver, "take-over", false, "take the alarms over at once from a process that keeps them, which ends")
	f.StringVar(&flags.save, "save", "", "how often the state is stored (default 30s)")
	return cmd
}

// watchOptions returns the options from flags and configuration.
func (r *runFlags) watchOptions(ctx context.Context, c config.Config, js jetstream.JetStream) (o watch.Options, err error) {
	rules, err := alarm.ParseRules(c.Alarms.Rules.Map())
	if err != nil {
		return o, cli.Fail(cli.ExitConfig, err, "docs/alarms.md says how a rule is written")
	}
	if len(rules) == 0 {
		rules = nil // the current rules stay
	}
	o = watch.Options{Job: c.Job, Rules: rules, Missing: r.missing, TakeOver: r.takeOver, Who: "configuration"}
	if o.Since, err = cli.PointInTime("since", r.since, consumer.ServerTime(ctx, js, c.Job), "eusn-stream alarms run --help"); err != nil {
		return o, err
	}
	if r.save != "" {
		if o.Save, err = time.ParseDuration(r.save); err != nil || o.Save <= 0 {
			return o, cli.Fail(cli.ExitUsage, errors.New("--save "+r.save+", want a time such as 30s"), "eusn-stream alarms run --help")
		}
	}
	return o, nil
}

// runAlarms manages the alarms of a job until ctx ends.
func (r *runFlags) runAlarms(ctx context.Context, a *cli.App, c config.Config, js jetstream.JetStream) error {
	o, err := r.watchOptions(ctx, c, js)
	if err != nil {
		return err
	}
	journal := new(fleet.Journal)
	log := journal.WrapLogger(a.Logger(c.Log.Level, c.Log.Format))
	server.LogWarnings(c, log, "alarms")
	outputs, err := newOutputs(c.Alarms, c.Job, log)
	if err != nil {
		return cli.Fail(cli.ExitConfig, err, "docs/alarms.md says where alarms can be sent")
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	state := &status{ctx: ctx, log: log}
	state.current.Store(new(fleet.Watch))
	o.Log = log
	addReports(a, &o, state)
	another := func(ctx context.Context, name string) (*nats.Conn, error) {
		return natsclient.Another(ctx, js.Conn(), name)
	}
	used := server.Certificates(c, log, server.UsesNATS)
	go used.Run(ctx)
	stopAnswers := server.Answer(ctx, another, c.Job, fleet.NewAlarmsSource(func() fleet.Watch { return *state.current.Load() }), used, journal, log)
	err = runWith(ctx, js.Conn(), o, outputs)
	stopAnswers()
	stop()
	state.reports.Wait()
	switch {
	case errors.Is(err, watch.ErrFenced):
		return cli.Fail(cli.ExitFailure, err, "start this one again, without --take-over: it stands by while the other one runs")
	case errors.Is(err, alarm.ErrMissing):
		return cli.Fail(cli.ExitIntegrity, err, "the same command with --missing continues with the predictions that are there; a larger output.keep keeps more")
	case errors.Is(err, watch.ErrDiffers):
		return cli.Fail(cli.ExitIntegrity, err, "eusn-stream alarms tail --since 24h, which shows what the log has")
	case err == nil:
		a.Say("stopped; the next run continues from here")
	}
	return err
}

// addReports makes the options report the process's state to the user, the log and the status.
func addReports(a *cli.App, o *watch.Options, state *status) {
	o.StandsBy = func() {
		a.Say("another process keeps the alarms of job %s: this one stands by, and takes them over when that one does not answer; Ctrl-C stops", o.Job)
		state.set(fleet.Watch{Standby: true})
	}
	o.Writes = func() {
		a.Say("keeping the alarms of job %s", o.Job)
		state.set(fleet.Watch{})
	}
	o.Begun = func(rules alarm.Rules) {
		state.set(fleet.Watch{Begun: true, Rules: len(rules)})
		a.Say("%d rules hold for job %s; Ctrl-C stops", len(rules), o.Job)
		for _, r := range rules {
			state.log.Info("rule", "name", r.Name, "text", r.Text)
		}
		if len(rules) == 0 {
			state.log.Warn("no rules hold, so no alarm is raised: set alarms.rules in the configuration, or use eusn-stream alarms rules set")
		}
	}
	o.Event = func(e *alarm.Event) {
		state.countEvent()
		if e.Kind != alarm.RulesChanged {
			state.log.Info("alarm "+e.Kind, eventAttrs(e)...)
		}
	}
}

// status is the state of the process, for status requests.
type status struct {
	ctx     context.Context
	log     *slog.Logger
	current atomic.Pointer[fleet.Watch] // written by one goroutine
	once    sync.Once
	reports sync.WaitGroup
}

// set stores the state of the process. At the first standby or judging state, it starts the
// reports to the service manager.
func (s *status) set(current fleet.Watch) {
	current.Events = s.current.Load().Events
	s.current.Store(&current)
	if current.Begun || current.Standby {
		s.once.Do(func() { s.reports.Go(func() { service.Notify(s.ctx, s.log, s.text) }) })
	}
}

// countEvent counts a published event.
func (s *status) countEvent() {
	current := *s.current.Load()
	current.Events++
	s.current.Store(&current)
}

// text returns the status for people.
func (s *status) text() string {
	switch current := s.current.Load(); {
	case current.Standby:
		return "standing by: another process keeps the alarms"
	case !current.Begun:
		return "catching up with the alarm log"
	default:
		return fmt.Sprintf("keeping the alarms: %d rules held at the start, %d events published", current.Rules, current.Events)
	}
}

// eventAttrs returns the log attributes of an event, without absent values.
func eventAttrs(e *alarm.Event) []any {
	attrs := []any{"rule", e.Rule, "key", e.Key}
	if e.Class != "" {
		attrs = append(attrs, "class", e.Class)
	}
	if e.Probability > 0 {
		attrs = append(attrs, "probability", e.Probability)
	}
	return append(attrs, "number", e.Number)
}
