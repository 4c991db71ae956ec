package plan

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"runtime"
	"time"

	"github.com/spf13/cobra"

	"github.com/eusn-stream/eusn-stream/internal/cli"
	"github.com/eusn-stream/eusn-stream/internal/cli/engines"
	"github.com/eusn-stream/eusn-stream/internal/cli/models"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/store"
	"github.com/eusn-stream/eusn-stream/pipeline"
)

// options are the flags.
type options struct {
	plant
	server
	model    string
	message  time.Duration
	memory   float64 // GB
	network  float64 // Gbit/s
	disk     float64 // MB/s
	replicas int
	time     time.Duration
	latency  time.Duration
	dir      string
}

// NewCommand returns the command "plan".
func NewCommand(a *cli.App) *cobra.Command {
	o := options{server: server{Cores: runtime.GOMAXPROCS(0)}}
	cmd := &cobra.Command{
		Use:   "plan",
		Short: "Estimate the cores, servers and disks for a plant",
		Long: `Say what a plant needs: cores, memory, network, disk, servers and partitions, and how
long a restart takes.

It measures first, for some twenty seconds: the stage with your model, and a NATS server
with file storage, both in this process, get messages over TCP as your machines would send
them, as many a second as one server will have, and one reader takes the predictions. CPU
time is measured, also that of an idle stage, of storing alone and, with --replicas 3, of
three servers that store each message. The figures are of this machine's cores, and include
the publisher and the reader. If the machine has so much other work that messages come
late, they are too low, and it says so.

The rest is computed. A server is a stage and a NATS server on one machine of
--server-cores, --server-memory, --server-network and --server-disk. The plan uses --use
of its cores, network and disk, and 80 % of its memory; the rest is for peaks, and for the
time after a restart. Memory is from measurements of two banks (docs/results.md), not
of your model. Alarms, recording, gateways and further readers are not included.

restart: until a worker that was ended orderly predicts again. after a kill: until it has
also answered what came meanwhile, in the mean over the times between two snapshots.`,
		Example: `  eusn-stream plan --model m.safetensors --machines 1000 --sample-rate 25600
  eusn-stream plan --model m.safetensors --machines 10000000 --sample-rate 100 --message 10s --replicas 3 --server-cores 32`,
		Args: cobra.NoArgs,
	}
	f := cmd.Flags()
	f.StringVarP(&o.model, "model", "m", "", "the model file")
	f.IntVar(&o.Machines, "machines", 1000, "how many machines there are, each one stream")
	f.IntVar(&o.Channels, "channels", 0, "sensors of a machine, to check the model against; 0: as many as the model has")
	f.Float64Var(&o.Rate, "sample-rate", 100, "samples a second of each sensor")
	f.DurationVar(&o.message, "message", time.Second, "how much time a message holds; at most 1 MB of samples")
	f.IntVar(&o.Cores, "server-cores", o.Cores, "cores of a server, as fast as these")
	f.Float64Var(&o.memory, "server-memory", 64, "memory of a server, GB")
	f.Float64Var(&o.network, "server-network", 10, "network of a server, Gbit/s each way")
	f.Float64Var(&o.disk, "server-disk", 500, "what a server's disk writes, MB/s")
	f.Float64Var(&o.Use, "use", .6, "share of cores, network and disk that may be used")
	f.IntVar(&o.replicas, "replicas", 1, "servers that store each message: 1 or 3")
	f.DurationVar(&o.latency, "latency", pipeline.Defaults().Latency, "how long a batch waits for more messages (stage.latency)")
	f.DurationVar(&o.time, "time", 3*time.Second, "time of each measurement")
	f.StringVar(&o.dir, "dir", "", "folder for the measured server; empty: the system's temporary folder")
	cmd.RunE = a.Do(func(ctx context.Context, _ []string) error { return runPlan(ctx, a, o) })
	return cmd
}

// maxMessage is the maximum size of a message in bytes of samples.
const maxMessage = 1 << 20

// complete checks the options and completes them from the model.
func (o *options) complete(channels int) error {
	if o.Channels == 0 {
		o.Channels = channels
	}
	var errs []error
	wrong := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if o.Channels != channels {
		wrong("--channels %d: the model has %d; plan for the model that the plant will have (train on a recording of %d sensors)", o.Channels, channels, o.Channels)
	}
	for _, r := range o.ranges() {
		if r.Broken {
			wrong("%s", r.Message)
		}
	}
	o.Message = int(max(1, min(o.Rate*o.message.Seconds(), maxMessage/4/float64(max(1, channels)))))
	o.Memory, o.Network, o.Disk = o.memory*1e9, o.network*1e9/8, o.disk*1e6
	return errors.Join(errs...)
}

// ranges returns the rules for the numbers.
func (o *options) ranges() []cli.Rule {
	positive := func(v float64) bool { return v > 0 && !math.IsInf(v, 0) }
	return []cli.Rule{
		{Broken: o.Machines < 1 || o.Machines > 1e9, Message: fmt.Sprintf("--machines %d: want 1 to 10^9", o.Machines)},
		{Broken: !(o.Rate > 0 && o.Rate <= 1e9), Message: fmt.Sprintf("--sample-rate %v: want samples a second, up to 10^9", o.Rate)},
		{Broken: o.message <= 0 || o.message > day, Message: fmt.Sprintf("--message %v: want up to a day", o.message)},
		{Broken: o.Cores < 1 || o.Cores > 1<<16, Message: fmt.Sprintf("--server-cores %d: want 1 or more", o.Cores)},
		{Broken: !positive(o.memory), Message: fmt.Sprintf("--server-memory %v: want more than 0", o.memory)},
		{Broken: !positive(o.network), Message: fmt.Sprintf("--server-network %v: want more than 0", o.network)},
		{Broken: !positive(o.disk), Message: fmt.Sprintf("--server-disk %v: want more than 0", o.disk)},
		{Broken: !(o.Use > 0 && o.Use < 1), Message: fmt.Sprintf("--use %v: want more than 0 and less than 1", o.Use)},
		{Broken: o.replicas != 1 && o.replicas != 3, Message: fmt.Sprintf("--replicas %d: want 1 or 3", o.replicas)},
		{Broken: o.latency <= 0 || o.latency > time.Minute, Message: fmt.Sprintf("--latency %v: want up to a minute", o.latency)},
		{Broken: o.time < 100*time.Millisecond || o.time > time.Hour, Message: fmt.Sprintf("--time %v: want 100ms or more", o.time)},
	}
}

// result is the output of --json.
type result struct {
	Plant    plant    `json:"plant"`
	Server   server   `json:"server"`
	Replicas int      `json:"replicas"`
	Measured measured `json:"measured"`
	Needs    estimate `json:"estimate"`
}

func runPlan(ctx context.Context, a *cli.App, o options) (err error) {
	if o.model == "" {
		return cli.Fail(cli.ExitUsage, errors.New("no model"), "--model FILE; eusn-stream demo, which makes one to try")
	}
	m, err := models.LoadForStage(o.model)
	if err != nil {
		return err
	}
	if err := o.complete(len(m.Channels)); err != nil {
		return cli.Fail(cli.ExitUsage, err, "eusn-stream plan --help")
	}
	dir, err := os.MkdirTemp(o.dir, "eusn-plan-*")
	if err != nil {
		return cli.Fail(cli.ExitFailure, err, "--dir with a writable folder")
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	p := a.Progress()
	p.Report(0, steps, "measuring the stage, steps")
	r, err := measure(ctx, m, o.plant, engines.New(a.Engine), dir, o.time, o.latency, o.Use, o.replicas > 1, a.Logger("error", a.LogFormat()), func(completed int) { p.Report(int64(completed), steps, "measuring the stage, steps") })
	p.Close()
	if err != nil {
		return cli.OrInterrupted(err, "nothing is planned before the stage is measured")
	}
	e := computeEstimate(o.plant, o.server, r, o.replicas, pipeline.Defaults().SnapshotEvery, store.MaxPartitions)
	if math.IsInf(e.Kill, 0) {
		e.Kill = -1
	}
	if a.JSON {
		return a.PrintJSON(result{o.plant, o.server, o.replicas, r, e})
	}
	printPlan(a, o, r, e)
	return nil
}

func printPlan(a *cli.App, o options, r measured, e estimate) {
	row := func(name, format string, args ...any) { a.Print("%-20s %s", name, fmt.Sprintf(format, args...)) }
	row("plant", "%d machines, %d sensors, %g samples a second: %.4g messages a second of %d samples, %s each", o.Machines, o.Channels, o.Rate, o.messages(), o.Message, bytesText(r.Payload))
	row("measured here", "%.3g of a core without a message; %.3g µs for a message, %.3g for a sample, at %.4g messages a second evenly, %.3g where many come at once; a state has %s, each machine has %d of them", r.Idle, 1e6*r.Message, 1e6*r.Message/float64(o.Message), r.Rate, 1e6*r.Burst, bytesText(r.StateBytes), r.States)
	if c := r.Costs; o.replicas > 1 {
		row("", "µs: storing a message %.3g, worker %.3g a message and %.3g a batch, commit %.3g; %.3g a message on each of three servers that store it, which write %.3g bytes for each", 1e6*c.Store.cost(r.Payload), 1e6*c.Compute, 1e6*c.Call, 1e6*c.Commit, 1e6*c.Copy.cost(r.Payload), r.Write)
	}
	row("cores", "%.3g busy", e.Cores)
	row("memory", "%s", bytesText(e.Memory))
	row("network", "in %s, out %s a second", bytesText(e.NetworkIn), bytesText(e.NetworkOut))
	row("disk", "%s a day for input and predictions (input.max_age and output.keep bound it); %s a second with snapshots", bytesText(e.DiskDay), bytesText(e.DiskRate))
	kill := "never: the load is more than all cores can do"
	if e.Kill >= 0 {
		kill = secondsText(e.Kill)
	}
	row("restart", "%s; after a kill %s", secondsText(e.Stop), kill)
	row("servers", "%d, each with %d cores, %g GB, %g Gbit/s, disks that write %g MB/s, of which %.0f %% are used; decided by %s", e.Servers, o.Cores, o.memory, o.network, o.disk, 100*o.Use, e.First)
	for _, n := range e.Needs {
		row("", "%-8s needs %.3g", n.What, n.Servers)
	}
	if e.Jobs > 1 {
		row("jobs", "%d, each with a share of the machines: a job's input is one NATS stream, which one server leads", e.Jobs)
	}
	row("partitions", "%d of a job (stage.partitions)", e.Partitions)
	row("consumers", "up to %d of a job's input; a NATS server of your own allows %d where neither NATS stream nor account has a limit", e.Consumers, store.UsualConsumers)
	if r.Late {
		a.Say("this machine had other work, and did not keep to %.4g messages a second: cores are underestimated; try again when it is quiet", r.Rate)
	}
	if o.replicas > e.Needs[0].intServers() {
		a.Say("%d servers because each message is stored on so many", o.replicas)
	}
}

func (n need) intServers() int { return int(math.Ceil(n.Servers)) }

func bytesText(b float64) string {
	for _, u := range []struct {
		of   float64
		name string
	}{{1e15, "PB"}, {1e12, "TB"}, {1e9, "GB"}, {1e6, "MB"}, {1e3, "kB"}} {
		if b >= u.of {
			return fmt.Sprintf("%.3g %s", b/u.of, u.name)
		}
	}
	return fmt.Sprintf("%.0f bytes", b)
}

func secondsText(s float64) string {
	if s < 1 {
		return "less than a second"
	}
	return time.Duration(s * float64(time.Second)).Round(time.Second).String()
}
