package live

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/spf13/cobra"

	"github.com/eusn-stream/eusn-stream/codec"
	"github.com/eusn-stream/eusn-stream/internal/cli"
	"github.com/eusn-stream/eusn-stream/internal/cli/models"
	"github.com/eusn-stream/eusn-stream/internal/cli/server"
	"github.com/eusn-stream/eusn-stream/internal/config"
	"github.com/eusn-stream/eusn-stream/internal/fleet"
	"github.com/eusn-stream/eusn-stream/internal/formats"
	"github.com/eusn-stream/eusn-stream/internal/gateway"
	"github.com/eusn-stream/eusn-stream/internal/gateway/line"
	"github.com/eusn-stream/eusn-stream/internal/listen"
	"github.com/eusn-stream/eusn-stream/internal/metrics"
	"github.com/eusn-stream/eusn-stream/internal/natsclient"
	"github.com/eusn-stream/eusn-stream/internal/service"
	"github.com/eusn-stream/eusn-stream/internal/trace"
	"github.com/eusn-stream/eusn-stream/internal/traces"
	"github.com/eusn-stream/eusn-stream/reservoir"
)

// gatewayFlags are the flags of gateway that override keys of the configuration.
var gatewayFlags = []string{"model", "job", "nats-url", "mqtt-listen", "http-listen", "tcp-listen", "udp-listen", "broker", "topics", "sparkplug", "opcua", "modbus", "outbox", "metrics-listen"}

// NewGateway is "gateway".
func NewGateway(a *cli.App) *cobra.Command {
	var file string
	cmd := &cobra.Command{
		Use:   "gateway",
		Short: "Take samples over MQTT, HTTP, line protocol and field buses",
		Long: `Take samples from devices that do not speak NATS, and publish them to the input of
a job: batched, numbered, each stream in order. The model names the channels, and
input.* in the configuration (-c) says where they are in a message.

  --mqtt-listen   a broker of its own, for MQTT 3.1.1 and 5
  --broker        the address of another broker, whose client it is
  --http-listen   POST /v1/TOPIC; POST /write takes line protocol
  --tcp-listen    Influx line protocol over TCP
  --udp-listen    Influx line protocol over UDP
  --sparkplug     Sparkplug B, over either broker (docs/fieldbus.md)
  --opcua         variables of a server of OPC UA (docs/fieldbus.md)
  --modbus        registers of a server of Modbus TCP (docs/fieldbus.md)

A PUBACK, and the answer 204, mean that the server has stored the samples. While
the server takes nothing, no device is acknowledged, and the log says why. Ctrl-C,
SIGTERM or SIGHUP stops it; what has no answer by then is in the outbox, and the
next start publishes it. docs/gateway.md has the guarantees of each protocol.

The key of a stream is what + and # of --topics stand for: with
plant/+/sensor/+ the topic plant/A/sensor/7 has the key A/7.`,
		Example: `  eusn-stream gateway --model demo-data/machine.safetensors --mqtt-listen 127.0.0.1:1883
  eusn-stream gateway -c eusn.yaml --broker tcp://127.0.0.1:1883 --topics plant/+/sensor/+
  eusn-stream gateway -c eusn.yaml --http-listen 127.0.0.1:8080`,
		Args: cobra.NoArgs,
	}
	f := cmd.Flags()
	f.StringVarP(&file, "config", "c", "", "configuration file (see eusn-stream config init)")
	f.StringP("model", "m", "", "model file of the job: names the channels (default the job's model, of its registry)")
	f.StringP("job", "j", "", "name of the job")
	f.String("nats-url", "", "NATS server (default NATS_URL, the context of the nats command, or the embedded server of a stage on this machine)")
	f.String("mqtt-listen", "", "address of the gateway's own MQTT broker, such as 127.0.0.1:1883")
	f.String("http-listen", "", "address for HTTP")
	f.String("tcp-listen", "", "address for lines over TCP")
	f.String("udp-listen", "", "address for lines over UDP")
	f.String("broker", "", "another MQTT broker, such as tcp://127.0.0.1:1883")
	f.String("topics", "", "patterns of topics, separated by commas")
	f.String("sparkplug", "", "groups of Sparkplug B to take over MQTT, separated by commas; + for all")
	f.String("opcua", "", "server of OPC UA to subscribe to, such as opc.tcp://127.0.0.1:4840; see gateway.opcua.nodes")
	f.String("modbus", "", "servers of Modbus TCP to poll, such as 127.0.0.1:502, separated by commas; see gateway.modbus.registers")
	f.String("outbox", "", "directory of the outbox")
	f.String("metrics-listen", "", "serve /metrics and /healthz on this address, such as 127.0.0.1:9465; empty: off")
	config.ShowDefaults(f, slices.DeleteFunc(slices.Clone(gatewayFlags), func(name string) bool { return name == "metrics-listen" }))
	cmd.RunE = a.Do(func(ctx context.Context, _ []string) error {
		c, err := server.StageConfig(a, file, f, gatewayFlags)
		if err != nil {
			return err
		}
		if err := filesFailure(listen.CheckFiles(gatewayFiles(c.Gateway, 0)...)); err != nil {
			return err
		}
		return runGateway(ctx, a, c)
	})
	return cmd
}

func runGateway(ctx context.Context, a *cli.App, c config.Config) error {
	if !c.IsSet("metrics.listen") {
		c.Metrics.Listen = "" // the default is the stage's
	}
	journal := new(fleet.Journal)
	log := journal.WrapLogger(a.Logger(c.Log.Level, c.Log.Format))
	o, err := gatewayOptions(c, log)
	if err != nil {
		return cli.Fail(cli.ExitConfig, err, "eusn-stream gateway --help, or docs/gateway.md")
	}
	if _, err := os.Stat(c.Model); err == nil || a.Changed("model") { // a wrong file is an error before the wait for the server
		if err := o.readModel(ctx, a, nil, c); err != nil {
			return err
		}
	}
	server.LogWarnings(c, log, "model", "input", "gateway", "metrics", "traces")
	nc, err := awaitServer(ctx, func() (*nats.Conn, error) { return dialStage(ctx, c, log) }, log)
	if err != nil {
		return cli.Fail(cli.ExitUnreachable, err, server.ConnectHint(err, "eusn-stream run, in another terminal; or --nats-url with the address of the server"))
	}
	if nc == nil {
		a.Say("stopped: there was no NATS server to publish to")
		return nil
	}
	defer nc.Close()
	if o.decoder == nil {
		if err := o.readModel(ctx, a, nc, c); err != nil {
			return err
		}
	}
	return o.serve(ctx, a, nc, c, journal, log)
}

// serve publishes the devices' samples to the input of the job until ctx ends. The model was
// read.
func (o *gatewayInputs) serve(ctx context.Context, a *cli.App, nc *nats.Conn, c config.Config, journal *fleet.Journal, log *slog.Logger) error {
	spans, endTraces, err := startTraces(a, c, "gateway", log)
	if err != nil {
		return err
	}
	defer endTraces()
	g, err := o.open(a, nc, c, spans, log)
	if err != nil {
		return err
	}
	defer g.close()
	another := func(ctx context.Context, name string) (*nats.Conn, error) { return natsclient.Another(ctx, nc, name) }
	used := server.Certificates(c, log, server.UsesGateway, server.UsesMetrics, server.UsesNATS)
	go used.Run(ctx)
	defer server.Answer(ctx, another, c.Job, fleet.NewGatewaySource(g.gateway.Stats), used, journal, log)()
	if c.Metrics.Listen != "" {
		s, err := listenMetrics(c.Metrics, metrics.Options{Gateway: g.gateway.Stats, Access: metricsAccess(c.Metrics), Traces: tracesStats(spans), Certificates: used, Log: log})
		if err != nil {
			return err
		}
		if s != nil {
			defer s.Close()
			a.Say("metrics at %s/metrics", s.URL())
		}
	}
	a.Say("publishing to %s of job %s; Ctrl-C stops", c.Input.Subject, c.Job)
	return g.end(a, runReporting(ctx, g.gateway, log))
}

// openGateway is a gateway with open inputs.
type openGateway struct {
	gateway *gateway.Gateway
	close   func() // closes the inputs
}

// open opens the outbox and the inputs.
func (o *gatewayInputs) open(a *cli.App, nc *nats.Conn, c config.Config, spans *traces.Traces, log *slog.Logger) (*openGateway, error) {
	var tracer trace.Tracer
	if spans != nil {
		tracer = spans
	}
	g, err := gateway.New(nc, gateway.Config{
		Job: c.Job, Subject: c.Input.Subject, Keys: o.keys, NewStreams: c.Gateway.NewStreams, Channels: o.schema.Channels, Decoder: o.decoder, Values: o.values, Reads: readsArrow, Lines: o.lines(0), Dir: c.Gateway.Outbox, OutboxBytes: int64(c.Gateway.OutboxBytes),
		Latency: c.Gateway.Latency, MaxMessage: int(c.Input.MaxMessage), Log: log, Tracer: tracer,
	})
	if err != nil {
		return nil, cli.Fail(cli.ExitFailure, err, "gateway.outbox (--outbox) with a directory of its own for each gateway")
	}
	closeFieldbus, err := o.openFieldbus(g, log)
	if err != nil {
		closeFieldbus()
		return nil, err
	}
	closeInputs, err := o.openInputs(a, g, log)
	if err != nil {
		closeFieldbus()
		return nil, cli.Fail(cli.ExitUnreachable, err, "addresses of this machine with free ports; port 0 chooses one")
	}
	return &openGateway{g, sync.OnceFunc(func() { closeInputs(); closeFieldbus() })}, nil
}

// end closes the inputs of a gateway that ended with err, and prints its totals.
func (g *openGateway) end(a *cli.App, err error) error {
	g.close()
	if errors.Is(err, gateway.ErrOtherInput) {
		return cli.Fail(cli.ExitConfig, err, "another job, with an input.subject of its own, for the stage and the gateway")
	}
	s := g.gateway.Stats()
	a.Say("stopped: %d samples taken in %d batches, %d messages recognized as repeats; %d batches wait in the outbox", s.Samples, s.Batches, s.Repeats, s.Waiting)
	return err
}

// gatewayFiles are the open files of the outbox and of the devices. others are the open files of
// other parts of the process.
func gatewayFiles(g config.Gateway, others int) []listen.Need {
	needs := []listen.Need{{What: "the outbox, the metrics port, and what else this process has open", Files: gateway.OwnFiles}}
	for _, l := range []struct {
		addr, what string
		files      int
	}{{g.MQTT, "clients of gateway.mqtt", gateway.Connections(others)}, {g.HTTP, "clients of gateway.http", gateway.Connections(others)}, {g.TCP, "clients of gateway.tcp", line.MaxConnections(others)}} {
		if l.addr != "" {
			needs = append(needs, listen.Need{What: l.what, Files: l.files})
		}
	}
	return needs
}

// loadModel loads the configured model; with a connection, the model of the job.
func (o *gatewayInputs) loadModel(ctx context.Context, a *cli.App, nc *nats.Conn, c config.Config) (*reservoir.Model, error) {
	if nc == nil {
		return models.Load(c.Model)
	}
	js, err := jetstream.New(nc)
	if err != nil {
		return nil, err
	}
	m, _, err := server.JobModel(ctx, a, js, c)
	return m, cli.Fail(cli.ExitFailure, err, "eusn-stream run --model MODEL, which creates the job; or the same command with --model")
}

// readModel makes the decoders of the channels of the configured model; with a connection, of
// the job's model.
func (o *gatewayInputs) readModel(ctx context.Context, a *cli.App, nc *nats.Conn, c config.Config) error {
	m, err := o.loadModel(ctx, a, nc, c)
	if err != nil {
		return err
	}
	return o.useModel(m, c)
}

// useModel makes the decoders of the model's channels.
func (o *gatewayInputs) useModel(m *reservoir.Model, c config.Config) error {
	return o.useChannels(m.Channels, c)
}

// useChannels makes the decoders of channels.
func (o *gatewayInputs) useChannels(channels []string, c config.Config) (err error) {
	o.schema = codec.Schema{Channels: channels, NonFinite: codec.Hold} // the stage decides, so nothing is lost here
	o.in = server.InputOf(c.Input)
	if o.decoder, err = newPayloads(o.in, formats.Format(c.Gateway.Format), o.schema); err != nil {
		return cli.Fail(cli.ExitConfig, err, "eusn-stream config check, with the same file")
	}
	if o.values, err = newValues(o.c, o.in, o.schema); err != nil {
		return cli.Fail(cli.ExitConfig, err, "names of values in input.channels; see docs/gateway.md")
	}
	if o.lines, err = newLines(o.in, o.schema); err != nil && (c.Gateway.TCP != "" || c.Gateway.UDP != "") {
		return cli.Fail(cli.ExitConfig, err, "sources that line protocol has, or no --tcp-listen and --udp-listen")
	}
	return nil
}

// runReporting runs the gateway, and reports its status to the service manager.
func runReporting(ctx context.Context, g *gateway.Gateway, log *slog.Logger) error {
	ctx, cancel := context.WithCancel(ctx)
	var told sync.WaitGroup
	defer told.Wait()
	defer cancel()
	told.Go(func() {
		service.Notify(ctx, log, func() string {
			s := g.Stats()
			return fmt.Sprintf("%d samples taken, %d batches wait in the outbox", s.Samples, s.Waiting)
		})
	})
	return g.Run(ctx)
}

// dialStage connects to the configured server, or to the embedded server of a stage on this
// machine.
func dialStage(ctx context.Context, c config.Config, log *slog.Logger) (*nats.Conn, error) {
	if c.NATS.URL == "" {
		if c.NATS.URL = server.StageURL(ctx, c); c.NATS.URL == "" {
			return nil, fmt.Errorf("no stage is running on %s: %w", c.Server.Dir, nats.ErrNoServers)
		}
	}
	return natsclient.Connect(ctx, server.NATSOptions(c.NATS, "eusn-stream/"+c.Job+"/gateway", log))
}

// awaitServer connects to the NATS server, and waits while the server is unavailable:
// the machine of a gateway may start before the server's. Other errors, such as a wrong
// login, are permanent. The connection is nil if ctx has ended.
func awaitServer(ctx context.Context, dial func() (*nats.Conn, error), log *slog.Logger) (*nats.Conn, error) {
	for told := (time.Time{}); ; {
		nc, err := dial()
		refused := new(net.OpError)
		if err != nil && ctx.Err() != nil {
			return nil, nil
		}
		away := errors.Is(err, nats.ErrNoServers) || errors.Is(err, nats.ErrTimeout) || errors.As(err, &refused) && refused.Op == "dial"
		if !away {
			return nc, err
		}
		if time.Since(told) > toldAgain {
			told = time.Now()
			log.Warn("waiting for the NATS server: devices cannot connect to the gateway until the server runs; start it (eusn-stream run has a server), or set --nats-url", "err", err)
		}
		select {
		case <-ctx.Done():
			return nil, nil
		case <-time.After(serverEvery):
		}
	}
}

const (
	serverEvery = 500 * time.Millisecond // between two attempts to reach the server at the start
	toldAgain   = 30 * time.Second
)

// readsArrow reports an error if a job, according to its entry, does not read the
// gateway's Arrow messages.
func readsArrow(input string) error {
	if input == "" {
		return nil
	}
	in, err := formats.Parse(input)
	if err != nil {
		return fmt.Errorf("it reads its messages in a way that this program does not know: use a newer one: %w", err)
	}
	if in.Format != formats.Auto && in.Format != formats.Arrow {
		return fmt.Errorf("it was started with input.format: %s, and the gateway publishes Arrow, of which each message would become a dead letter: for devices that send %s, start another job with input.format: auto, and set gateway.format: %s", in.Format, in.Format, in.Format)
	}
	return nil
}
