package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"time"
)

// options are the flags.
type options struct {
	program, model string
	machines       []int
	rate           float64
	message, spend time.Duration
	kill           bool
	plan           []string // additional flags of plan
}

// row is the prediction and the measurement for a number of machines.
type row struct {
	Machines  int             `json:"machines"`
	Predicted json.RawMessage `json:"predicted,omitempty"`
	Measured  measured        `json:"measured"`
}

func main() {
	if os.Getenv(asServer) != "" {
		fmt.Fprintln(os.Stderr, serve(os.Args[1], os.Args[2]))
		os.Exit(1)
	}
	var o options
	var machines, plan string
	flag.StringVar(&o.program, "program", "./eusn-stream", "the built program")
	flag.StringVar(&o.model, "model", "", "the model: policy window, each window two messages long, one message apart")
	flag.StringVar(&machines, "machines", "300,1000,2500", "numbers of machines, each a run")
	flag.Float64Var(&o.rate, "rate", 100, "samples a second of a machine")
	flag.DurationVar(&o.message, "message", time.Second, "time of a message")
	flag.DurationVar(&o.spend, "seconds", 20*time.Second, "time of a measurement")
	flag.BoolVar(&o.kill, "kill", false, "kill the stage under load, with a server in a process of its own")
	flag.StringVar(&plan, "plan", "", "more flags of plan, with blanks between")
	flag.Parse()
	for text := range strings.SplitSeq(machines, ",") {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 {
			fmt.Fprintf(os.Stderr, "capacity: -machines %q: want whole numbers\n", machines)
			os.Exit(2)
		}
		o.machines = append(o.machines, n)
	}
	o.plan = strings.Fields(plan)
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, o); err != nil {
		fmt.Fprintln(os.Stderr, "capacity:", err)
		os.Exit(1)
	}
}

// run prints a line of JSON for each number of machines.
func run(ctx context.Context, o options) error {
	if o.model == "" {
		return errors.New("no -model")
	}
	for _, n := range o.machines {
		r := row{Machines: n}
		var err error
		if r.Predicted, err = o.predict(ctx, n); err != nil {
			return err
		}
		if r.Measured, err = o.measure(ctx, n); err != nil {
			return err
		}
		if err := json.NewEncoder(os.Stdout).Encode(r); err != nil {
			return err
		}
	}
	return nil
}

// predict calls plan.
func (o options) predict(ctx context.Context, machines int) (json.RawMessage, error) {
	args := append([]string{"plan", "--json", "--model", o.model, "--machines", strconv.Itoa(machines),
		"--sample-rate", fmt.Sprint(o.rate), "--message", o.message.String()}, o.plan...)
	cmd := command(ctx, o.program, args...)
	cmd.Stderr = os.Stderr
	return cmd.Output()
}
