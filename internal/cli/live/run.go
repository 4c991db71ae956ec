package live

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/spf13/cobra"

	"github.com/eusn-stream/eusn-stream/internal/certs"
	"github.com/eusn-stream/eusn-stream/internal/cli"
	"github.com/eusn-stream/eusn-stream/internal/cli/disk"
	"github.com/eusn-stream/eusn-stream/internal/cli/engines"
	"github.com/eusn-stream/eusn-stream/internal/cli/models"
	"github.com/eusn-stream/eusn-stream/internal/cli/server"
	"github.com/eusn-stream/eusn-stream/internal/config"
	"github.com/eusn-stream/eusn-stream/internal/engine"
	"github.com/eusn-stream/eusn-stream/internal/fleet"
	"github.com/eusn-stream/eusn-stream/internal/hardware"
	"github.com/eusn-stream/eusn-stream/internal/labels"
	"github.com/eusn-stream/eusn-stream/internal/listen"
	"github.com/eusn-stream/eusn-stream/internal/metrics"
	"github.com/eusn-stream/eusn-stream/internal/natsserver"
	"github.com/eusn-stream/eusn-stream/internal/page"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/bridge"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/wire"
	"github.com/eusn-stream/eusn-stream/internal/service"
	"github.com/eusn-stream/eusn-stream/internal/traces"
	"github.com/eusn-stream/eusn-stream/internal/watch"
	"github.com/eusn-stream/eusn-stream/pipeline"
)

// statusEvery is the interval of a running stage's status lines.
const statusEvery = 10 * time.Second

// alarmLogAgain is the interval of checks for the log of alarms.
const alarmLogAgain = time.Minute

// runFlags are the flags of run that override keys of the configuration.
var runFlags = []string{"model", "job", "nats-url", "dir", "port", "sync", "partitions", "shards", "non-finite", "metrics-listen", "input-job", "input-from", "alarm-rules"}

// NewRun is "run".
func NewRun(a *cli.App) *cobra.Command {
	file, stageOnly := "", false
	cmd := &cobra.Command{
		Use:   "run",
		Short: "Run the stage, and the gateway and the alarms of its configuration",
		Long: `Run the stage until it is stopped. Without a NATS URL it starts an embedded
server that keeps its streams in --dir; producers connect to its port.

If the configuration has an input of the gateway (such as gateway.mqtt) or alarms
(alarms.rules, --alarm-rules), this process also accepts samples and raises alarms, as
"eusn-stream gateway" and "eusn-stream alarms run" do. --stage-only starts neither of them.

With --json every prediction is printed as a line of JSON on standard output.
Ctrl-C, SIGTERM or SIGHUP (a closed terminal; ignored under nohup) stops it
cleanly with exit code 0: it commits the last batch, and the next run continues
from there. Machines that run the same job on one NATS server share its
partitions.

By default, input that no job needs, predictions and dead letters are each limited to a
fifth of the disk: the oldest are deleted (to change that: input.max_bytes, input.max_age,
output.keep, dead_letters.keep). The log reports the limits, and every hour how many GB a
day the job stores and how much space is free.

It serves a live page at http://127.0.0.1:9464/ (--metrics-listen), /metrics for Prometheus,
/healthz, and /readyz, which returns 200 when all its partitions are restored and being read.`,
		Example: `  eusn-stream run --model demo-data/machine.safetensors
  eusn-stream run -c configs/embedded.yaml
  eusn-stream run --nats-url nats://127.0.0.1:4222 --model m.safetensors --json
  eusn-stream run --nats-url nats://127.0.0.1:4222 --model new.safetensors --job green --input-job eusn`,
		Args: cobra.NoArgs,
	}
	f := cmd.Flags()
	f.StringVarP(&file, "config", "c", "", "configuration file (see eusn-stream config init)")
	f.StringP("model", "m", "", "model file")
	f.StringP("job", "j", "", "name of the job")
	f.String("nats-url", "", "NATS server; empty: an embedded one")
	f.String("dir", "", "data directory of the embedded server")
	f.Int("port", 0, "port of the embedded server on 127.0.0.1; -1 = a free one, 0 = none")
	f.String("sync", "", "when the embedded server fsyncs: default (every two minutes) or always (before each acknowledgement)")
	f.Int("partitions", 0, "number of partitions when the job is created (later: job resize); 0 = the job's, of a new job 16, or 8 with the embedded server")
	f.String("input-job", "", "read the input of this other job, in parallel to it; this job then has no input")
	f.String("input-from", "", "where a new job begins in that input: beginning, now, or a time such as 2026-01-31T08:00:00Z")
	f.Int("shards", 0, "parallel engines; 0 = one per core")
	f.String("non-finite", "", "how to treat nulls, NaN and infinities: reject, hold or zero")
	f.String("metrics-listen", "", "serve the live page, /metrics, /healthz and /readyz on this address; empty: off")
	f.String("alarm-rules", "", "raise alarms by these rules, such as 'dead: flag flat' (docs/alarm-rules.md) (default none)")
	f.BoolVar(&stageOnly, "stage-only", false, "do not start the gateway and the alarms of the configuration: other processes are these")
	config.ShowDefaults(f, runFlags)
	cmd.RunE = a.Do(func(ctx context.Context, _ []string) error {
		c, err := server.StageConfig(a, file, f, runFlags)
		if err != nil {
			return err
		}
		if stageOnly {
			c.Gateway, c.Alarms = config.Gateway{}, config.Alarms{}
		}
		return RunStage(ctx, a, c, nil)
	})
	return cmd
}

// Guest works next to a stage from the time when the stage reads its input, until ctx ends. The
// function open connects to the server of the job.
type Guest func(ctx context.Context, open func(ctx context.Context, name string) (*nats.Conn, jetstream.JetStream, error))

// stageRun is a run of the stage, with its accompanying services.
type stageRun struct {
	app       *cli.App
	conf      config.Config
	journal   *fleet.Journal
	log       *slog.Logger
	counters  *pipeline.Counters
	spans     *traces.Traces // nil: no traces
	used      *certs.Watch
	broker    *server.Broker
	embedded  atomic.Pointer[natsserver.Server] // nil: none, or not started
	parts     *companions
	guest     Guest      // nil: none
	live      *page.Page // nil: none is served
	printer   *printer   // nil: predictions are not printed
	printed   error      // of the printer, after followers have ended
	followers sync.WaitGroup
}

// RunStage runs the stage of a configuration with its gateway, its alarms and a guest (nil: none)
// until ctx ends.
func RunStage(ctx context.Context, a *cli.App, c config.Config, guest Guest) error {
	if err := engines.Check(c.Stage.Engine); err != nil {
		return err
	}
	m, err := models.LoadForStage(c.Model)
	if err != nil {
		return err
	}
	engine, slow, err := engines.Choose(c.Stage.Engine, m.Network.Spec)
	if err != nil {
		return err
	}
	r := &stageRun{app: a, conf: c, guest: guest, journal: new(fleet.Journal), counters: new(pipeline.Counters)}
	r.log = r.journal.WrapLogger(a.Logger(c.Log.Level, c.Log.Format))
	if r.parts, err = newCompanions(a, c, m); err != nil {
		return err
	}
	server.LogWarnings(c, r.log, append(r.parts.groups(), "model", "input", "output", "dead_letters", "stage", "metrics", "traces")...)
	var endTraces func()
	if r.spans, endTraces, err = startTraces(a, c, "stage", r.log); err != nil {
		return err
	}
	defer endTraces()
	if err := r.checkFiles(); err != nil {
		return err
	}
	r.used = server.Certificates(c, r.log, server.UsesServer, server.UsesMetrics, server.UsesGateway, server.UsesNATS)
	go r.used.Run(ctx)
	closeMetrics, err := r.serveMetrics(m.Channels)
	if err != nil {
		return err
	}
	defer closeMetrics()
	b, err := server.Open(ctx, c, r.log)
	if err != nil {
		return ignoreCanceled(err)
	}
	defer b.Close()
	r.broker = b
	r.embedded.Store(b.Embedded)
	if b.Embedded != nil && b.Embedded.URL() != "" {
		a.Say("embedded NATS server at %s, data in %s", b.Embedded.URL(), c.Server.Dir)
	}
	defer server.Answer(ctx, b.Dial, c.Job, fleet.NewStageSource(r.counters), r.used, r.journal, r.log)()
	stage := r.newStage()
	stage.Model = m
	r.setEngine(stage, engine, slow)
	return r.runParts(ctx, stage)
}

// newStage makes the configured stage, without model and engines.
func (r *stageRun) newStage() *pipeline.Worker {
	stage := &pipeline.Worker{Counters: r.counters, Job: pipeline.Job{
		Config: server.PipelineConfig(r.conf), ModelName: filepath.Base(r.conf.Model), Dial: r.broker.Dial, Log: r.log,
	}}
	if r.spans != nil {
		bridge.Trace(stage, r.spans)
	}
	if n := r.conf.Output.FeaturesOneIn; n > 0 {
		stage.Carry = 1 / float64(n)
	}
	if r.broker.Embedded != nil {
		stage.NewPartitions = pipeline.EmbeddedPartitions
	}
	return stage
}

// setEngine sets the engine of the stage, and limits the memory of its states. slow is
// the reason for a slow engine; empty if it is not slow.
func (r *stageRun) setEngine(stage *pipeline.Worker, kind, slow string) {
	if slow != "" {
		r.log.Warn("slow engine in use", "engine", kind, "why", slow)
	} else if kind != r.conf.Stage.Engine {
		r.log.Debug("CPU engine in use", "engine", kind, "why", engines.WhyCPU())
	}
	if !engines.IsGPU(kind) {
		limitSlots(&stage.Config, 4*engine.LayoutOf(stage.Model.Network.Spec).Words, hardware.MachineMemory(), r.log)
	}
	stage.NewEngine, stage.Fallback = engines.ForStage(kind, stage.Config.WithDefaults().MaxSlots, r.log)
}

// ignoreCanceled returns nil if a signal ended the start: the stage has done nothing.
func ignoreCanceled(err error) error {
	if errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}

// cancelWhenFailed calls cancel when the embedded server fails, which only a restart
// repairs.
func cancelWhenFailed(ctx context.Context, cancel func(), embedded *natsserver.Server) {
	select {
	case <-ctx.Done():
	case <-embedded.Failed():
		cancel()
	}
}

// follow starts the services of a stage that reads its input, until ctx ends.
func (r *stageRun) follow(ctx context.Context, cancel func()) {
	c, b, log := r.conf, r.broker, r.log
	reads := c.Input.Subject
	if c.Input.Job != "" {
		reads = "the input of job " + c.Input.Job
	}
	r.app.Say("reading %s; predictions go to %s.out.*; Ctrl-C stops", reads, c.Job)
	if b.Embedded != nil && c.Server.Users != "" { // the role alarms may not create them
		r.followers.Go(func() { keepAlarmLog(ctx, b, c, log) })
	}
	r.followers.Go(func() { logStatus(ctx, log, r.counters) })
	r.followers.Go(func() { service.Notify(ctx, log, func() string { return statusLine(r.counters) }) })
	r.followers.Go(func() { disk.Watch(ctx, log, b, c, disk.First, disk.Every) })
	if r.guest != nil {
		r.followers.Go(func() { r.guest(ctx, b.Open) })
	}
	if r.printer != nil {
		r.followers.Go(func() {
			if r.printed = r.printer.printOutput(ctx); r.printed != nil {
				cancel()
			}
		})
	}
}

// reportEnd prints the stage's totals, and returns the reason for its end.
func (r *stageRun) reportEnd(err error) error {
	s := r.counters.Stats()
	done := fmt.Sprintf("%d messages with %d samples processed, %d predictions committed, %d dead letters", s.Messages, s.Rows, s.Predictions, s.DeadLetters)
	switch {
	case err == nil:
		r.app.Say("stopped: %s; the next run continues from here", done)
	case s.Messages > 0:
		r.app.Say("before that: %s", done)
	}
	if embedded := r.broker.Embedded; embedded != nil {
		if err != nil && !errors.Is(err, context.Canceled) {
			r.log.Error("the embedded NATS server ends with its stage: producers, gateways and devices have no server until the next start", "url", embedded.URL())
		}
		if broken := embedded.Err(); broken != nil {
			return cli.Fail(cli.ExitFailure, broken, "start it again when the cause is gone: it continues from there, and acknowledged messages are kept")
		}
	}
	return errors.Join(stopFailure(server.AddAdvice(err), r.conf.Stage.StopTimeout), r.printed)
}

// checkFiles refuses to start if clients could use up the files that the store needs. The default
// address of the live page is not used if only its clients are too many.
func (r *stageRun) checkFiles() error {
	var needs []listen.Need
	if r.conf.NATS.URL == "" {
		needs = natsserver.Needs()
	}
	if r.conf.Metrics.Listen != "" {
		all := append(slices.Clip(needs), listen.Need{What: "clients of the metrics port", Files: metrics.Connections})
		if err := listen.CheckFiles(all...); err != nil && r.conf.Metrics.IsDefaultAddress() {
			r.log.Info("no live page and no metrics", "err", err)
			r.conf.Metrics.Listen = ""
		} else {
			needs = all
		}
	}
	if o := r.parts.inputs; o != nil {
		for _, n := range needs {
			o.access.Others += n.Files
		}
		needs = append(needs, gatewayFiles(r.conf.Gateway, o.access.Others)...)
	}
	return filesFailure(listen.CheckFiles(needs...))
}

func filesFailure(err error) error {
	return cli.Fail(cli.ExitFailure, err, "ulimit -n 65536, or LimitNOFILE=65536 in the unit")
}

// ensureLabels makes the NATS stream of a job's labels. The stage works without.
func ensureLabels(ctx context.Context, b *server.Broker, c config.Config, log *slog.Logger) {
	nc, js, err := b.Open(ctx, "eusn-stream/"+c.Job+"/labels")
	if err == nil {
		defer nc.Close()
		err = labels.Ensure(ctx, js, c.Job, c.NATS.Replicas)
	}
	if err != nil && ctx.Err() == nil {
		log.Warn("labels cannot be stored", "err", err)
	}
}

// keepAlarmLog creates the NATS stream and the bucket of a job's alarms, and recreates
// them after a deletion, until ctx ends. The stage works without them.
func keepAlarmLog(ctx context.Context, b *server.Broker, c config.Config, log *slog.Logger) {
	nc, js, err := b.Open(ctx, "eusn-stream/"+c.Job+"/alarms")
	if err != nil {
		log.Warn("the alarm log cannot be created", "err", err)
		return
	}
	defer nc.Close()
	for said := ""; ; {
		err := watch.EnsureStreams(ctx, js, c.Job, c.NATS.Replicas)
		if err != nil && ctx.Err() == nil && err.Error() != said {
			said = err.Error()
			log.Warn("alarms cannot be stored", "err", err)
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(alarmLogAgain):
		}
	}
}

// stopFailure describes the error of a stop whose last batch was not stored: it is no
// interruption, which ends well; so the text contains the cause without wrapping it. A
// model that is not the job's has a separate code.
func stopFailure(err error, timeout time.Duration) error {
	if errors.Is(err, wire.ErrSource) {
		return cli.Fail(cli.ExitOtherModel, err, "eusn-stream doctor, which describes the input of the job; docs/second-job.md, Several jobs on one input")
	}
	if errors.Is(err, wire.ErrOtherInput) {
		return cli.Fail(cli.ExitOtherModel, err, "the job's settings of input.*, or none; for other ones a new job: another --dir, or another --job with an input.subject of its own")
	}
	if errors.Is(err, pipeline.ErrOtherModel) {
		return cli.Fail(cli.ExitOtherModel, err, "eusn-stream model show active --output FILE, which writes the job's model, and --model with that; or --job with a new name; to use this job's states with another readout: eusn-stream state export, then state import into a new job")
	}
	if !errors.Is(err, context.Canceled) {
		return err
	}
	return cli.Fail(cli.ExitFailure, fmt.Errorf("stopped, but the last batch could not be committed within %v; the next run processes it again (%v)", timeout, err),
		"eusn-stream doctor: check that the NATS server runs and that its disk is not full")
}

// statusLine describes the stage's work in a line.
func statusLine(counters *pipeline.Counters) string {
	status, stats := counters.Status(), counters.Stats()
	did := fmt.Sprintf("%d messages behind, %d predictions, %d dead letters", stats.Lag, stats.Predictions, stats.DeadLetters)
	switch why := status.Unready(); len(why) {
	case 0:
		return fmt.Sprintf("reading %d partitions: %s", len(status.Partitions), did)
	case 1:
		return fmt.Sprintf("not ready: %s; %s", why[0], did)
	default:
		return fmt.Sprintf("not ready: %s, and %d more (eusn-stream doctor); %s", why[0], len(why)-1, did)
	}
}

// logStatus logs the stage's work, whenever it has changed.
func logStatus(ctx context.Context, log *slog.Logger, counters *pipeline.Counters) {
	tick := time.NewTicker(statusEvery)
	defer tick.Stop()
	for last := counters.Stats(); ; {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		s := counters.Stats()
		if s.Messages == last.Messages && s.Predictions == last.Predictions && s.Replayed == last.Replayed {
			continue
		}
		log.Info("stage", "rows_per_s", int64(float64(s.Rows-last.Rows)/statusEvery.Seconds()), "rows", s.Rows,
			"predictions", s.Predictions, "lag", s.Lag, "streams", s.Streams, "slots", s.Slots, "duplicates", s.Duplicates,
			"gaps", s.Gaps, "dead_letters", s.DeadLetters, "replaying_partitions", s.Replaying)
		last = s
	}
}
