package live

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/eusn-stream/eusn-stream/internal/cli"
	"github.com/eusn-stream/eusn-stream/internal/cli/alarms"
	"github.com/eusn-stream/eusn-stream/internal/cli/server"
	"github.com/eusn-stream/eusn-stream/internal/config"
	"github.com/eusn-stream/eusn-stream/internal/fleet"
	"github.com/eusn-stream/eusn-stream/internal/gateway"
	"github.com/eusn-stream/eusn-stream/pipeline"
	"github.com/eusn-stream/eusn-stream/reservoir"
)

// companions are the gateway and the alarms in the process of a stage, if configured. Each
// continues by its own protocol after a kill of the process, as in a process of its own.
type companions struct {
	inputs  *gatewayInputs // nil: no gateway
	keeper  *alarms.Keeper // nil: no alarms
	journal *fleet.Journal // of the gateway
	log     *slog.Logger   // of the gateway
	gateway atomic.Pointer[openGateway]
	ended   atomic.Pointer[error] // of the gateway, which has ended; nil: it has not
	began   time.Time
}

// newCompanions checks the configuration of the gateway and of the alarms.
func newCompanions(a *cli.App, c config.Config, m *reservoir.Model) (*companions, error) {
	p := &companions{began: time.Now(), journal: new(fleet.Journal)}
	p.log = p.journal.WrapLogger(a.Logger(c.Log.Level, c.Log.Format))
	var err error
	if hasInput(c.Gateway) {
		if p.inputs, err = gatewayOptions(c, p.log); err != nil {
			return nil, addStageOnly(cli.Fail(cli.ExitConfig, err, "docs/gateway.md"))
		}
		if err = p.inputs.useModel(m, c); err != nil {
			return nil, err
		}
	}
	if alarms.IsConfigured(c.Alarms) {
		if p.keeper, err = alarms.NewKeeper(a, c); err == nil {
			p.keeper.WarnOfRules(m.Readouts)
		}
	}
	return p, err
}

// addStageOnly adds a next step to an error of the gateway.
func addStageOnly(err error) error {
	var f *cli.Failure
	if errors.As(err, &f) {
		f.Next += "; or eusn-stream run --stage-only, if another process is the gateway"
	}
	return err
}

// groups lists the groups of keys that the companions use.
func (p *companions) groups() (groups []string) {
	if p.inputs != nil {
		groups = append(groups, "gateway")
	}
	if p.keeper != nil {
		groups = append(groups, "alarms")
	}
	return groups
}

// gatewayStats returns the counters of the gateway for the metrics; nil without a gateway.
func (p *companions) gatewayStats() func() gateway.Stats {
	if p.inputs == nil {
		return nil
	}
	return func() (s gateway.Stats) {
		if g := p.gateway.Load(); g != nil {
			s = g.gateway.Stats()
		}
		return s
	}
}

// unready lists the reasons for a failing /readyz.
func (p *companions) unready() (why []string) {
	if p.inputs != nil && (p.gateway.Load() == nil || p.ended.Load() != nil) {
		why = append(why, "the gateway is starting, or has ended")
	}
	if p.keeper != nil {
		if text := p.keeper.Unready(); text != "" {
			why = append(why, text)
		}
	}
	return why
}

// failure returns the error of a gateway that has ended; nil without an error.
func (p *companions) failure() error {
	if err := p.ended.Load(); err != nil {
		return *err
	}
	return nil
}

// startGateway opens the inputs of the gateway. Devices may connect before the stage reads: they
// get no acknowledgement until the input exists. run publishes until ctx ends.
func (r *stageRun) startGateway(ctx context.Context) (run func(ctx context.Context), err error) {
	p, c := r.parts, r.conf
	if p.inputs == nil {
		return func(ctx context.Context) { <-ctx.Done() }, nil
	}
	nc, err := r.broker.Dial(ctx, "eusn-stream/"+c.Job+"/gateway")
	if err != nil {
		return nil, err
	}
	g, err := p.inputs.open(r.app, nc, c, r.spans, p.log)
	if err != nil {
		nc.Close()
		return nil, addStageOnly(err)
	}
	p.gateway.Store(g)
	endAnswers := server.Answer(ctx, r.broker.Dial, c.Job, fleet.NewGatewaySource(g.gateway.Stats), r.used, p.journal, p.log)
	return func(ctx context.Context) {
		r.app.Say("publishing to %s of job %s", c.Input.Subject, c.Job)
		err := addStageOnly(g.end(r.app, g.gateway.Run(ctx)))
		p.ended.Store(&err)
		endAnswers()
		nc.Close()
	}, nil
}

// runParts runs the gateway, the stage and the alarms until ctx ends or one fails, and stops them
// in this order: the stage still takes the samples that the gateway has accepted.
func (r *stageRun) runParts(ctx context.Context, stage *pipeline.Worker) (err error) {
	if err := makeUnsafe(stage); err != nil {
		return err
	}
	if r.app.JSON {
		if r.printer, err = newPrinter(ctx, r.app.Stdout, r.conf.Job, r.broker, r.log); err != nil {
			return err
		}
		defer r.printer.nc.Close()
	}
	runGateway, err := r.startGateway(ctx)
	if err != nil {
		return err
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	staging, stopStage := context.WithCancel(context.WithoutCancel(ctx))
	keeping, stopKeeper := context.WithCancel(context.WithoutCancel(ctx))
	defer stopKeeper()
	var feeding, keeper sync.WaitGroup
	feeding.Go(func() {
		runGateway(ctx)
		stopStage()
	})
	if embedded := r.broker.Embedded; embedded != nil {
		ensureLabels(staging, r.broker, r.conf, r.log) // by this process, so that a labeler needs no right to create it
		r.followers.Go(func() { cancelWhenFailed(staging, func() { stop(); stopStage() }, embedded) })
	}
	r.followers.Go(func() { attach(staging, r.live, r.broker.Open, r.conf.Job, attachAgain, r.log) })
	stage.Ready = func() {
		r.follow(staging, stop)
		if k := r.parts.keeper; k != nil {
			keeper.Go(func() { k.Keep(keeping, r.broker.Open, r.parts.began) })
		}
	}
	err = stage.Run(staging)
	stop()
	feeding.Wait()
	stopKeeper()
	keeper.Wait()
	r.followers.Wait()
	return errors.Join(r.parts.failure(), r.reportEnd(err))
}
