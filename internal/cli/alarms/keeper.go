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
	"github.com/eusn-stream/eusn-stream/readout"
)

// Keeper raises and clears the alarms of a job by the rules of a configuration.
type Keeper struct {
	app     *cli.App
	conf    config.Config
	journal *fleet.Journal
	log     *slog.Logger
	options watch.Options
	outputs []notify.Output
	state   atomic.Pointer[status] // nil: not running
	failed  atomic.Pointer[error]  // the last error of Keep; nil: none
	manager bool                   // whether the service manager gets the state
}

// IsConfigured reports whether a configuration has rules, or receivers of alarms.
func IsConfigured(c config.Alarms) bool {
	return len(c.Rules.Map()) > 0 || c.Webhook+c.MQTT+c.Alertmanager != ""
}

// NewKeeper checks the rules and the outputs of a configuration.
func NewKeeper(a *cli.App, c config.Config) (*Keeper, error) {
	rules, err := alarm.ParseRules(c.Alarms.Rules.Map())
	if err != nil {
		return nil, cli.Fail(cli.ExitConfig, fmt.Errorf("alarms.rules: %w", err), "docs/alarm-rules.md describes rules")
	}
	if len(rules) == 0 {
		rules = nil // the current rules stay
	}
	k := &Keeper{app: a, conf: c, journal: new(fleet.Journal)}
	k.log = k.journal.WrapLogger(a.Logger(c.Log.Level, c.Log.Format))
	if k.outputs, err = newOutputs(c.Alarms, c.Job, k.log); err != nil {
		return nil, cli.Fail(cli.ExitConfig, err, "docs/alarms.md describes where alarms can be sent")
	}
	k.options = watch.Options{Job: c.Job, Rules: rules, Who: "configuration", Log: k.log}
	return k, nil
}

// WarnOfRules warns about rules whose alarm the readouts of a model never raise.
func (k *Keeper) WarnOfRules(readouts []*readout.Linear) {
	warnOfRules(k.options.Rules, readouts, k.conf.Stage.Readout, func(text string) { k.log.Warn(text, "next", rulesAdvice(cli.QuoteForShell(k.conf.Model))) })
}

// warnOfRules warns about rules whose alarm a readout never raises, if the model has the readout.
func warnOfRules(rules alarm.Rules, readouts []*readout.Linear, name string, warn func(text string)) {
	never, _ := rules.UnreachableBy(readouts, name)
	for _, n := range never {
		warn(n.String())
	}
}

// rulesAdvice is the next step after a comparison of rules with a model.
func rulesAdvice(model string) string {
	return fmt.Sprintf("eusn-stream model show %s, which lists the classes; docs/alarm-rules.md", model)
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

// run keeps the alarms until ctx ends (nil) or an error prevents it.
func (k *Keeper) run(ctx context.Context, nc *nats.Conn) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	state := &status{ctx: ctx, log: k.log, manager: k.manager}
	state.current.Store(new(fleet.Watch))
	k.state.Store(state)
	defer k.state.Store(nil)
	o := k.options
	addReports(k.app, &o, state)
	another := func(ctx context.Context, name string) (*nats.Conn, error) {
		return natsclient.Another(ctx, nc, name)
	}
	used := server.Certificates(k.conf, k.log, server.UsesNATS)
	go used.Run(ctx)
	stopAnswers := server.Answer(ctx, another, k.conf.Job, fleet.NewAlarmsSource(func() fleet.Watch { return *state.current.Load() }), used, k.journal, k.log)
	err := runWith(ctx, nc, o, k.outputs)
	stopAnswers()
	stop()
	state.reports.Wait()
	return err
}

// keepAgain is the pause before a keeper in the process of a stage restarts after an error.
const keepAgain = 5 * time.Second

// Keep keeps the alarms in the process of the job's stage until ctx ends. Predictions do not
// depend on alarms: after an error the keeper restarts, and stands by if another process keeps
// the alarms. A new alarm log begins at began.
func (k *Keeper) Keep(ctx context.Context, open func(ctx context.Context, name string) (*nats.Conn, jetstream.JetStream, error), began time.Time) {
	for said := ""; ; {
		nc, js, err := open(ctx, "eusn-stream/"+k.conf.Job+"/alarms")
		if err == nil {
			k.options.Since = consumer.ServerTime(ctx, js, k.conf.Job).Add(-time.Since(began))
			err = k.run(ctx, nc)
			nc.Close()
		}
		k.failed.Store(&err)
		if err != nil && err.Error() != said {
			said = err.Error()
			k.log.Error("alarms are not raised: the process tries this once every 5 s", "err", err, "try", nextStep(err, k.conf.File))
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(keepAgain):
		}
	}
}

// nextStep returns the next step after an error of a keeper in the process of a stage.
func nextStep(err error, file string) string {
	if errors.Is(err, alarm.ErrMissing) {
		return "eusn-stream alarms run --missing -c " + cli.QuoteForShell(file) + ", in addition to this process, which is then the standby"
	}
	return doctorHint
}

// Unready returns the reason why no alarms are judged; empty if they are judged, or if this
// process stands by.
func (k *Keeper) Unready() string {
	s, err := k.state.Load(), k.failed.Load()
	switch {
	case s != nil && s.isWorking():
		return ""
	case err != nil && *err != nil:
		return "alarms are not judged: " + (*err).Error()
	default:
		return "alarms are not judged yet"
	}
}

// addReports makes the options report the process's state to the user, the log and the status.
func addReports(a *cli.App, o *watch.Options, state *status) {
	o.StandsBy = func() {
		a.Say("another process evaluates the alarms of job %s: this process is the standby, and takes over when the other stops responding; Ctrl-C stops", o.Job)
		state.set(fleet.Watch{Standby: true})
	}
	o.Writes = func() {
		a.Say("keeping the alarms of job %s", o.Job)
		state.set(fleet.Watch{})
	}
	o.Begun = func(rules alarm.Rules) {
		state.set(fleet.Watch{Begun: true, Rules: len(rules)})
		a.Say("alarm rules of job %s: %d; Ctrl-C stops", o.Job, len(rules))
		for _, r := range rules {
			state.log.Info("rule", "name", r.Name, "text", r.Text)
		}
		if len(rules) == 0 {
			state.log.Warn("there are no rules, so no alarm is raised: set alarms.rules in the configuration, or use eusn-stream alarms rules set")
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
	manager bool                        // whether the service manager gets the state
	current atomic.Pointer[fleet.Watch] // written by one goroutine
	once    sync.Once
	reports sync.WaitGroup
}

// set stores the state of the process. At the first standby or judging state, it starts the
// reports to the service manager.
func (s *status) set(current fleet.Watch) {
	current.Events = s.current.Load().Events
	s.current.Store(&current)
	if s.manager && s.isWorking() {
		s.once.Do(func() { s.reports.Go(func() { service.Notify(s.ctx, s.log, s.text) }) })
	}
}

// isWorking reports whether the process judges, or stands by.
func (s *status) isWorking() bool {
	current := s.current.Load()
	return current.Begun || current.Standby
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
