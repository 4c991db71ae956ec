package watchcmd

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/eusn-stream/eusn-stream/internal/cli"
	"github.com/eusn-stream/eusn-stream/internal/cli/live"
	"github.com/eusn-stream/eusn-stream/internal/config"
	"github.com/eusn-stream/eusn-stream/internal/discover"
)

// keyFlags are the flags that override keys of the saved configuration.
var keyFlags = []string{"port", "metrics-listen"}

// options are the options of watch.
type options struct {
	url   string
	dir   string
	learn time.Duration
	kind  int
	speed float64
	flags *pflag.FlagSet
}

// NewCommand is "watch".
func NewCommand(a *cli.App) *cobra.Command {
	var o options
	var speed string
	cmd := &cobra.Command{
		Use:   "watch URL",
		Short: "Find machines, learn what is healthy, and report what is new",
		Long: `Watch machines without labels and without a configuration. The command finds machines
and channels in the messages at URL, learns what is healthy for --learn, and then runs
the stage with alarms and a live page. The machines must be healthy while it learns.

  mqtt://host:1883/FILTER     a broker (mqtts:// with TLS), such as mqtt://host:1883/plant/#
  nats://host:4222/SUBJECT    a NATS server with JetStream, such as nats://host:4222/plant.*
  opc.tcp://host:4840#OBJECT  an OPC UA server, below an object such as Plant/Line1 (default: all)
  FOLDER, FILE or PATTERN     tables, such as plant/*.csv: the beginning of each stream is
                              learned, and the rest is replayed

The model, the configuration and the alarm rules are in --save. With this folder the next start
continues without learning. With --json each event and each prediction is a line on standard
output. Ctrl-C stops; before the end of the learning nothing is saved.`,
		Example: `  eusn-stream watch mqtt://127.0.0.1:1883/#
  eusn-stream watch mqtt://127.0.0.1:1883/plant/# --learn 1h --save plant
  eusn-stream watch 'plant/*.csv'`,
		Args: cobra.ExactArgs(1),
	}
	f := cmd.Flags()
	f.StringVar(&o.dir, "save", "", "folder for model and configuration (default: named after URL)")
	f.DurationVar(&o.learn, "learn", defaultLearn, "time to learn, of healthy machines")
	f.IntVar(&o.kind, "kind", 1, "number of the kind of machines to watch, in the printed list")
	f.StringVar(&speed, "speed", "max", "1x, 10x, ... or max, for tables")
	f.Int("port", 0, "port of the embedded server on 127.0.0.1; -1 = a free one, 0 = none")
	f.String("metrics-listen", "", "serve the live page on this address")
	config.ShowDefaults(f, keyFlags)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		var err error
		o.url, o.flags = args[0], f
		if o.speed, err = live.ParseSpeed(speed); err != nil {
			return err
		}
		if o.learn < leastLearn {
			return fmt.Errorf("--learn %v: want at least %v", o.learn, leastLearn)
		}
		if o.kind < 1 {
			return fmt.Errorf("--kind %d: want a number from 1", o.kind)
		}
		return a.Do(func(ctx context.Context, _ []string) error { return runWatch(ctx, a, o) })(cmd, args)
	}
	return cmd
}

// watcher is a run of the command.
type watcher struct {
	app   *cli.App
	o     options
	at    place
	out   *events
	begin time.Time
	kinds []discover.Kind // found in messages or in an address space
}

func runWatch(ctx context.Context, a *cli.App, o options) error {
	at, err := parsePlace(o.url)
	if err != nil {
		return cli.Fail(cli.ExitUsage, err, "eusn-stream watch --help")
	}
	if o.dir == "" {
		o.dir = kindFolder(at.folder(), 1, o.kind)
	}
	w := &watcher{app: a, o: o, at: at, out: newEvents(a), begin: time.Now()}
	if isSaved(o.dir) {
		return w.resume(ctx)
	}
	if at.scheme == schemeTables {
		return w.watchTables(ctx)
	}
	s, err := w.watchSource(ctx)
	if err != nil {
		if errors.Is(err, context.Canceled) {
			return cli.OrInterrupted(err, "the learning was not complete, and nothing was saved")
		}
		return err
	}
	return w.runStage(ctx, s, nil)
}

// resume runs the stage with a saved configuration.
func (w *watcher) resume(ctx context.Context) error {
	s, err := w.loadSaved()
	if err != nil {
		return err
	}
	w.out.say("%s has a model: nothing is learned; delete the folder to learn again", w.o.dir)
	w.out.event("resumed", map[string]any{"folder": w.o.dir})
	if w.at.scheme != schemeTables {
		return w.runStage(ctx, s, nil)
	}
	t, err := w.openTables(ctx)
	if err != nil {
		return err
	}
	defer t.close()
	return w.replayTables(ctx, s, t, nil)
}
