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

// NewCommand is "alarms" and what is under it.
func NewCommand(a *cli.App) *cobra.Command {
	return cli.Group("alarms", "Raise alarms for a job's predictions by rules, list and acknowledge them", newRun(a), newList(a), newTail(a), newAck(a), newRules(a))
}

const next = "eusn-stream doctor; the rights that alarms need are in docs/alarms.md"

// failure adds what to do next.
func failure(err error) error {
	if errors.Is(err, watch.ErrNoAlarms) {
		return cli.Fail(cli.ExitFailure, err, "eusn-stream alarms run -c FILE, with the rules under alarms.rules: docs/alarms.md")
	}
	return cli.Fail(cli.ExitFailure, err, next)
}

// command is one of the group.
func command(a *cli.App, cmd *cobra.Command, run func(ctx context.Context, c config.Config, js jetstream.JetStream, args []string) error) *cobra.Command {
	with := server.Beside{As: "alarms", Failure: failure}
	return server.RunningCommand(a, cmd, with, func(ctx context.Context, c config.Config, js jetstream.JetStream, args []string) error {
		err := run(ctx, c, js, args)
		if err == nil && ctx.Err() != nil && !errors.Is(ctx.Err(), context.Canceled) { // a right that the login lacks
			err = ctx.Err()
		}
		return err
	})
}

// outputs are those of the configuration, and what is wrong with them.
func outputs(c config.Alarms, job string, log *slog.Logger) (all []notify.Output, err error) {
	if err := configcmd.CheckOutputs(c); err != nil {
		return nil, err
	}
	trusted, err := certs.ClientTLS(c.TLS.CA, c.TLS.Cert, c.TLS.Key)
	if err != nil {
		return nil, err
	}
	if c.Webhook != "" {
		all = append(all, &notify.Webhook{Job: job, URL: c.Webhook, Secret: c.WebhookSecret, TLS: trusted, Log: log})
	}
	if c.MQTT != "" {
		all = append(all, &notify.MQTT{
			Job: job, URL: c.MQTT, ID: c.MQTTID, User: c.MQTTUser, Password: c.MQTTPassword, Prefix: c.MQTTPrefix, Retain: c.MQTTRetain, TLS: trusted, Log: log,
		})
	}
	if c.Alertmanager != "" {
		for address := range strings.SplitSeq(c.Alertmanager, ",") {
			all = append(all, &notify.Alertmanager{Job: job, URL: address, Labels: c.AlertmanagerLabels.Map(), TLS: trusted, Log: log})
		}
	}
	return all, nil
}

// runWith keeps the alarms and, while this process keeps them, sends them.
func runWith(ctx context.Context, nc *nats.Conn, o watch.Options, to []notify.Output) error {
	ctx, stop := context.WithCancel(ctx)
	var sending sync.WaitGroup
	defer sending.Wait()
	defer stop()
	for _, out := range to {
		if err := out.Prepare(ctx, nc); err != nil { // before the first event
			return err
		}
	}
	begin := sync.OnceFunc(func() {
		for _, out := range to {
			sending.Go(func() {
				if err := out.Run(ctx, nc); err != nil {
					o.Log.Error("alarms are not sent on: start the process again", "err", err)
				}
			})
		}
	})
	writes := o.Writes
	o.Writes = func() { writes(); begin() }
	return watch.Run(ctx, nc, o)
}

// runFlags are the flags of alarms run.
type runFlags struct {
	since, save       string
	missing, takeOver bool
}

func newRun(a *cli.App) *cobra.Command {
	var flags runFlags
	cmd := command(a, &cobra.Command{
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
	}, func(ctx context.Context, c config.Config, js jetstream.JetStream, _ []string) error {
		return flags.run(ctx, a, c, js)
	})
	f := cmd.Flags()
	f.StringVar(&flags.since, "since", "", "where a new alarm log begins: 10m (ago), a date (UTC), or a time like 2026-01-31T12:00:00Z (default now)")
	f.BoolVar(&flags.missing, "missing", false, "continue where predictions are gone that were not judged")
	f.BoolVar(&flags.takeOver, "take-over", false, "take the alarms over at once from a process that keeps them, which ends")
	f.StringVar(&flags.save, "save", "", "how often the state is stored (default 30s)")
	return cmd
}

// options are what the flags and the configuration ask for.
func (r *runFlags) options(ctx context.Context, c config.Config, js jetstream.JetStream) (o watch.Options, err error) {
	rules, err := alarm.ParseRules(c.Alarms.Rules.Map())
	if err != nil {
		return o, cli.Fail(cli.ExitConfig, err, "docs/alarms.md says how a rule is written")
	}
	if len(rules) == 0 {
		rules = nil // those that hold stand
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

// run keeps the alarms of a job until ctx ends.
func (r *runFlags) run(ctx context.Context, a *cli.App, c config.Config, js jetstream.JetStream) error {
	o, err := r.options(ctx, c, js)
	if err != nil {
		return err
	}
	journal := new(fleet.Journal)
	log := journal.WrapLogger(a.Logger(c.Log.Level, c.Log.Format))
	server.LogWarnings(c, log, "alarms")
	to, err := outputs(c.Alarms, c.Job, log)
	if err != nil {
		return cli.Fail(cli.ExitConfig, err, "docs/alarms.md says where alarms can be sent")
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	says := &status{ctx: ctx, log: log}
	says.now.Store(new(fleet.Watch))
	o.Log = log
	report(a, &o, says)
	another := func(ctx context.Context, name string) (*nats.Conn, error) {
		return natsclient.Another(ctx, js.Conn(), name)
	}
	used := server.Certificates(c, log, server.UsesNATS)
	go used.Run(ctx)
	end := server.Answer(ctx, another, c.Job, fleet.NewAlarmsSource(func() fleet.Watch { return *says.now.Load() }), used, journal, log)
	err = runWith(ctx, js.Conn(), o, to)
	end()
	stop()
	says.told.Wait()
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

// report has the options report what the process does: to the user, to the log and to the
// status.
func report(a *cli.App, o *watch.Options, says *status) {
	o.StandsBy = func() {
		a.Say("another process keeps the alarms of job %s: this one stands by, and takes them over when that one does not answer; Ctrl-C stops", o.Job)
		says.is(fleet.Watch{Standby: true})
	}
	o.Writes = func() {
		a.Say("keeping the alarms of job %s", o.Job)
		says.is(fleet.Watch{})
	}
	o.Begun = func(hold alarm.Rules) {
		says.is(fleet.Watch{Begun: true, Rules: len(hold)})
		a.Say("%d rules hold for job %s; Ctrl-C stops", len(hold), o.Job)
		for _, r := range hold {
			says.log.Info("rule", "name", r.Name, "text", r.Text)
		}
		if len(hold) == 0 {
			says.log.Warn("no rules hold, so no alarm is raised: set alarms.rules in the configuration, or use eusn-stream alarms rules --set")
		}
	}
	o.Event = func(e *alarm.Event) {
		says.event()
		if e.Kind != alarm.RulesChanged {
			says.log.Info("alarm "+e.Kind, eventAttrs(e)...)
		}
	}
}

// status is what the process does, for those who ask.
type status struct {
	ctx  context.Context
	log  *slog.Logger
	now  atomic.Pointer[fleet.Watch] // written by one goroutine
	once sync.Once
	told sync.WaitGroup
}

// is notes what the process does now. From the first time on that it stands by or judges, the
// service manager is told.
func (s *status) is(now fleet.Watch) {
	now.Events = s.now.Load().Events
	s.now.Store(&now)
	if now.Begun || now.Standby {
		s.once.Do(func() { s.told.Go(func() { service.Notify(s.ctx, s.log, s.line) }) })
	}
}

// event notes that one was published.
func (s *status) event() {
	now := *s.now.Load()
	now.Events++
	s.now.Store(&now)
}

// line is the status for people.
func (s *status) line() string {
	switch now := s.now.Load(); {
	case now.Standby:
		return "standing by: another process keeps the alarms"
	case !now.Begun:
		return "catching up with the alarm log"
	default:
		return fmt.Sprintf("keeping the alarms: %d rules held at the start, %d events published", now.Rules, now.Events)
	}
}

// eventAttrs are what the log says of an event: of its prediction only what there is.
func eventAttrs(e *alarm.Event) []any {
	all := []any{"rule", e.Rule, "key", e.Key}
	if e.Class != "" {
		all = append(all, "class", e.Class)
	}
	if e.Probability > 0 {
		all = append(all, "probability", e.Probability)
	}
	return append(all, "number", e.Number)
}
