package jobcmd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"text/tabwriter"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/spf13/cobra"

	"github.com/eusn-stream/eusn-stream/internal/admin"
	"github.com/eusn-stream/eusn-stream/internal/cli"
	"github.com/eusn-stream/eusn-stream/internal/cli/server"
	"github.com/eusn-stream/eusn-stream/internal/config"
	"github.com/eusn-stream/eusn-stream/internal/fleet"
)

const statusNext = "eusn-stream doctor"

// jobsAtOnce is how many jobs --all looks at at a time.
const jobsAtOnce = 8

// NewStatus is "status".
func NewStatus(a *cli.App) *cobra.Command {
	var all, watch, partitions bool
	behind, every := fleet.DefaultBehind, 2*time.Second
	with := server.Beside{As: "status", Stage: func() bool { return watch }, Failure: func(err error) error { return cli.Fail(cli.ExitFailure, err, statusNext) }}
	cmd := server.RunningCommand(a, &cobra.Command{
		Use:   "status",
		Short: "Show the health of a job and the first step to take",
		Long: `Ask all processes of a job (workers, gateways, alarms) and its server how the job is. The
first line is the verdict, the second one says what to do first. Then follow what was found,
the workers with their models, partitions, lag, alarms, disk and the last errors.

It exits with 0 where every sample is answered, also if there is something to look at
(level attention), and with 1 where there is a problem: no worker answers, a partition is
stopped or deferred, a gateway acknowledges no device, or the job is further behind than
--max-lag. With 4, the server cannot be reached.

--watch redraws a view of the job in the terminal until Ctrl-C: rates, lag, the map of
partitions, the slowest of them, workers, classes, alarms. It is the live page (docs/page.md)
for all workers at once. If standard output is no terminal, it prints the view once; with
--json it prints a report per line until Ctrl-C. The letters of the map: . is read, C is being
claimed, R restored, P replayed, L released, D is deferred, X stopped, N has no owner, ? unknown.

--partitions shows each partition: its owner ("-" = none), its epoch (a number that grows
with every claim), the last input message, the number of waiting messages (LAG), the number
of predictions, and its snapshot with age and size.

It changes nothing, and requires no running worker, only the server. docs/status.md has the
fields of --json.`,
		Example: `  eusn-stream status
  eusn-stream status --nats-url nats://127.0.0.1:4222 --job eusn --json
  eusn-stream status --watch --interval 10s
  eusn-stream status --partitions
  eusn-stream status --all --nats-url nats://127.0.0.1:4222`,
		Args: cobra.NoArgs,
	}, with, func(ctx context.Context, c config.Config, js jetstream.JetStream, _ []string) error {
		report := func() (*fleet.Report, error) {
			r, err := fleet.BuildReport(ctx, js.Conn(), c.Job)
			if err == nil {
				judge(a, r, behind)
			}
			return r, err
		}
		switch {
		case every < 100*time.Millisecond:
			return cli.Fail(cli.ExitUsage, fmt.Errorf("--interval %v, want 100ms or more", every), "eusn-stream status --help")
		case all:
			return statusOfAll(ctx, a, js, c.Job, behind)
		case watch:
			return watchStatus(ctx, a, report, every)
		case partitions:
			return showPartitions(ctx, a, js, c.Job)
		}
		r, err := report()
		if err != nil {
			return err
		}
		if a.JSON {
			err = a.PrintJSON(r)
		} else {
			err = printStatus(a, r)
		}
		return errors.Join(err, unhealthy(r))
	})
	cmd.Flags().BoolVar(&all, "all", false, "all jobs of the server, a line each (with --json: a report each)")
	cmd.Flags().BoolVar(&watch, "watch", false, "redraw a view of the job until Ctrl-C")
	cmd.Flags().DurationVarP(&every, "interval", "n", every, "with --watch: time between two views")
	cmd.Flags().BoolVar(&partitions, "partitions", false, "show the partitions: owner, lag, snapshot")
	cmd.MarkFlagsMutuallyExclusive("all", "watch", "partitions")
	cmd.Flags().DurationVar(&behind, "max-lag", behind, "how far a job may be behind its input before that is a problem")
	return cmd
}

// judge prints the verdict of a report, and the next step as commands.
func judge(a *cli.App, r *fleet.Report, behind time.Duration) {
	r.Judge(behind)
	r.First = a.AdviceOn(r.Job, r.First)
	for i := range r.Findings {
		r.Findings[i].Do = a.AdviceOn(r.Job, r.Findings[i].Do)
	}
}

// unhealthy is the failure of a job with a problem.
func unhealthy(r *fleet.Report) error {
	if r.Level != fleet.Problem {
		return nil
	}
	return cli.Fail(cli.ExitFailure, fmt.Errorf("job %q: %s", r.Job, r.Findings[0].Sentence), r.First)
}

// statusOfAll reports every job of the server: stored jobs, and jobs with an answering
// process.
func statusOfAll(ctx context.Context, a *cli.App, js jetstream.JetStream, asker string, behind time.Duration) error {
	names, err := admin.Jobs(ctx, js)
	if err != nil {
		return err
	}
	found, err := fleet.Discover(ctx, js.Conn(), asker)
	if err != nil {
		return err
	}
	for _, f := range found {
		names = append(names, f.Job)
	}
	slices.Sort(names)
	names = slices.Compact(names)
	reports, failed := make([]*fleet.Report, len(names)), make([]error, len(names))
	var looking sync.WaitGroup
	slots := make(chan struct{}, jobsAtOnce)
	for i, name := range names {
		slots <- struct{}{}
		looking.Go(func() {
			defer func() { <-slots }()
			if reports[i], failed[i] = fleet.BuildReport(ctx, js.Conn(), name); failed[i] == nil {
				judge(a, reports[i], behind)
			}
		})
	}
	looking.Wait()
	var worst error
	for i, r := range reports {
		if failed[i] != nil {
			worst = cmp.Or(worst, failed[i])
			continue
		}
		worst = cmp.Or(worst, unhealthy(r))
		if !a.JSON {
			a.Print("%-9s  %s: %s", r.Level, r.Job, r.Verdict)
		}
	}
	there := slices.DeleteFunc(reports, func(r *fleet.Report) bool { return r == nil })
	if a.JSON {
		return errors.Join(a.PrintJSON(append([]*fleet.Report{}, there...)), worst)
	}
	if len(names) == 0 {
		a.Say("this server has no jobs: eusn-stream run --model MODEL makes one")
	}
	return worst
}

func printStatus(a *cli.App, r *fleet.Report) error {
	a.Print("%s: %s", r.Job, r.Verdict)
	if r.First != "" {
		a.Print("first: %s", r.First)
	}
	w := tabwriter.NewWriter(a.Stdout, 0, 0, 2, ' ', 0)
	for _, f := range r.Findings {
		fmt.Fprintf(w, "%s\t%s\t%s\n", f.Level, f.About, f.Sentence)
	}
	if err := section(a, w); err != nil {
		return err
	}
	fmt.Fprintln(w, "PROCESS\tHOST\tPID\tSINCE\tMODEL\tREADOUT\tENGINE\tPARTITIONS\tLAG\tMESSAGES/S\tSAMPLES/S\tPREDICTIONS/S")
	for i := range r.Processes {
		processLine(w, &r.Processes[i], r)
	}
	if err := section(a, w); err != nil {
		return err
	}
	for _, l := range statusLines(r) {
		fmt.Fprintf(w, "%s\t%s\n", l[0], l[1])
	}
	for _, e := range unlike(r.Errors, topFew) {
		fmt.Fprintf(w, "%s\t%s  %s: %s\n", strings.ToLower(e.Level), e.Time.UTC().Format(time.RFC3339), e.From, e.Text)
	}
	for _, m := range r.Marks[:min(5, len(r.Marks))] {
		fmt.Fprintf(w, "%s\t%s  %s\n", m.Kind, m.Time.UTC().Format(time.RFC3339), m.Text)
	}
	return w.Flush()
}

// jobReadout names the active readout of a job.
func jobReadout(m *fleet.JobModel) string {
	if m.Promoted != "" {
		return fmt.Sprintf("promoted readout %.12s", m.Promoted)
	}
	return "readout " + cmp.Or(m.Readout, "-")
}

// behindText is a lag for people.
func behindText(s *float64) string {
	if s == nil {
		return "unknown"
	}
	return fmt.Sprintf("%.1f s", *s)
}

// section ends a table, with an empty line.
func section(a *cli.App, w *tabwriter.Writer) error {
	err := w.Flush()
	a.Print("")
	return err
}

func processLine(w *tabwriter.Writer, p *fleet.Process, r *fleet.Report) {
	since := r.Time.Sub(p.Started).Round(time.Second)
	fmt.Fprintf(w, "%s\t%s\t%d\t%s\t", p.Role, p.Host, p.PID, since)
	switch {
	case p.Stage != nil:
		s := p.Stage
		model := "-"
		if s.Model.SHA256 != "" {
			model = fmt.Sprintf("%s (%.12s)", s.Model.Name, s.Model.SHA256)
		}
		n := 0
		for _, in := range s.Phases {
			n += in
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%d\t%d\t%s\n", model, readoutText(s, &r.Model), cmp.Or(strings.Join(s.Engines, ", "), "-"), n, s.Lag, rates(s.Rates, true))
	case p.Gateway != nil:
		fmt.Fprintf(w, "-\t-\t-\t-\t%d\t%s\n", p.Gateway.Waiting, rates(p.Gateway.Rates, false))
	default:
		fmt.Fprintln(w, "-\t-\t-\t-\t-\t-\t-\t-")
	}
}

// readoutText names the active readout of a worker: after a promotion, not its model's.
func readoutText(s *fleet.Stage, job *fleet.JobModel) string {
	if job.Promoted != "" {
		return fmt.Sprintf("%.12s (promoted)", job.Promoted)
	}
	return cmp.Or(s.Model.Readout, "-")
}

func rates(r fleet.Rates, answers bool) string {
	if r.Over == 0 {
		return "-\t-\t-"
	}
	out := "-"
	if answers {
		out = fmt.Sprintf("%.1f", r.Predictions)
	}
	return fmt.Sprintf("%.1f\t%.1f\t%s", r.Messages, r.Samples, out)
}

// statusLines returns a report's figures: name and value.
func statusLines(r *fleet.Report) (all [][2]string) {
	add := func(of, format string, args ...any) { all = append(all, [2]string{of, fmt.Sprintf(format, args...)}) }
	var phases []string
	for _, phase := range slices.Sorted(maps.Keys(r.Partitions.Phases)) {
		phases = append(phases, fmt.Sprintf("%d %s", r.Partitions.Phases[phase], phase))
	}
	add("partitions", "%d: %s", r.Partitions.Count, strings.Join(phases, ", "))
	switch {
	case r.Lag.Behind == nil:
		add("lag", "unknown: the server has not reported the oldest waiting message")
	case r.Lag.Messages == 0:
		add("lag", "no message waits")
	default:
		add("lag", "%d messages, the oldest is %s old", r.Lag.Messages, behindText(r.Lag.Behind))
	}
	m := r.Model
	add("model", "%s (%.12s), %s; %d promotions, %d shadows", cmp.Or(m.Name, "-"), m.SHA256, jobReadout(&m), m.Promotions, len(m.Shadows))
	switch al := r.Alarms; {
	case !al.Kept && !r.IsKnown(fleet.AboutAlarms):
		add("alarms", "not known: the server was asked and did not answer")
	case !al.Kept:
		add("alarms", "no process judges alarm rules for this job")
	case !al.Watched:
		add("alarms", "%d on, %d not acknowledged; no rule watches for silent streams", al.On, al.Open)
	default:
		add("alarms", "%d on, %d not acknowledged; silent streams: %s", al.On, al.Open, cmp.Or(strings.Join(al.Quiet[:min(10, len(al.Quiet))], ", "), "none"))
	}
	for _, o := range r.Alarms.Outputs {
		what := "nothing waits"
		if o.Waiting > 0 {
			what = fmt.Sprintf("%d events wait to be sent", o.Waiting)
		}
		if o.Paused {
			what += "; paused"
		}
		if o.Differs != "" {
			what += "; somebody has changed " + o.Differs
		}
		add(o.Name, "%s", what)
	}
	d := fmt.Sprintf("%.3f GB; %.3f GB a day, a mean over %v", float64(r.Disk.Bytes)/1e9, r.Disk.PerDay/1e9, (time.Duration(r.Disk.Over) * time.Second).String())
	if r.Disk.Limit > 0 {
		d += fmt.Sprintf("; the account has used %.3f GB of %.3f GB", float64(r.Disk.Used)/1e9, float64(r.Disk.Limit)/1e9)
	}
	if r.Disk.Bytes == 0 && !r.IsKnown(fleet.AboutDisk) {
		d = "not known: the server was asked and did not answer"
	}
	add("disk", "%s", d)
	return all
}
