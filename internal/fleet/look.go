package fleet

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/eusn-stream/eusn-stream/internal/errtext"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/store"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/wire"
	"github.com/eusn-stream/eusn-stream/pipeline"
)

// Patience is the longest duration of BuildReport.
const Patience = 3 * time.Second

// BuildReport creates the report of a job: it asks the job's processes, and the server. It changes
// nothing, and takes Patience at most. The error is admin.ErrNoJob for a missing job; other errors
// mean that the server did not answer the first request, or that caller ended. Later failures are
// in the report's Unknown.
func BuildReport(caller context.Context, nc *nats.Conn, job string) (*Report, error) {
	began := time.Now()
	ctx, cancel := context.WithTimeout(caller, Patience)
	defer cancel()
	js, err := jetstream.New(nc)
	if err != nil {
		return nil, fmt.Errorf("fleet: %w", err)
	}
	l := &reportBuilder{ctx: ctx, js: js, report: &Report{Form: Form, Job: job, Time: began.UTC()}}
	if l.job, err = store.Open(ctx, js, job); err != nil {
		return nil, timeoutError(ctx, job, err)
	}
	var all sync.WaitGroup
	for what, ask := range map[string]func() error{
		AboutProcesses: func() error { return l.askProcesses(nc) }, AboutModel: l.readModel, AboutAlarms: l.readAlarms, AboutDisk: l.readDisk, "the account": l.readAccount,
	} {
		all.Go(func() { l.addUnknown(what, ask()) })
	}
	all.Wait()
	l.addUnknown(AboutProcesses, l.askForAlarms(nc))
	l.combinePartitions()
	l.computeLag()
	if err := caller.Err(); err != nil { // otherwise the report would lack the answers
		return nil, fmt.Errorf("fleet: %w", err)
	}
	l.combineProcesses()
	l.report.Judge(DefaultBehind)
	l.report.Took = time.Since(began).Seconds()
	return l.report, nil
}

// timeoutError explains a server's missing answer.
func timeoutError(ctx context.Context, job string, err error) error {
	if !errors.Is(err, context.DeadlineExceeded) || !errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return err
	}
	return fmt.Errorf("the server did not answer about job %q within %v: the server or its disk is overloaded, or this login lacks the right (docs/secure.md)", job, Patience)
}

// reportBuilder builds a report. Each request writes its own part of the report.
type reportBuilder struct {
	ctx     context.Context
	js      jetstream.JetStream
	job     *store.Job
	report  *Report
	workers []string         // of the job's list
	lost    *store.LostError // nil: the output exists, or the job has not started

	mu sync.Mutex // guards r.Unknown
}

// addUnknown records a failed request.
func (l *reportBuilder) addUnknown(what string, err error) {
	if err == nil {
		return
	}
	if errors.Is(err, context.DeadlineExceeded) {
		err = errors.New("no answer in time: the server is overloaded, or this login lacks the right (docs/secure.md)")
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.report.Unknown = append(l.report.Unknown, cleanText(what+": "+errtext.For(err)))
}

// askProcesses asks the job's processes, in particular the listed workers.
func (l *reportBuilder) askProcesses(nc *nats.Conn) error {
	ctx, cancel := context.WithTimeout(l.ctx, answerTimeout)
	defer cancel()
	listed := l.readWorkers(ctx)
	asked, err := Ask(ctx, nc, l.job.Name, l.workers)
	for tries := 0; tries < 3 && err == nil && slices.ContainsFunc(asked.Processes, func(p Process) bool { return lacksLag(&p) }); tries++ {
		ctx, cancel := context.WithTimeout(l.ctx, answerTimeout)
		time.Sleep(answerPause / 2)
		asked, err = Ask(ctx, nc, l.job.Name, l.workers)
		cancel()
	}
	l.report.Processes, l.report.Strange = asked.Processes, asked.Strange
	for _, w := range l.workers {
		if !slices.ContainsFunc(asked.Processes, func(p Process) bool { return p.Stage != nil && p.Stage.Worker == w }) {
			l.report.Silent = append(l.report.Silent, w)
		}
	}
	return errors.Join(listed, err)
}

// lacksLag reports whether a worker reads partitions whose lag it has not requested from the server
// yet; it does so within a moment.
func lacksLag(p *Process) bool {
	return p.Stage != nil && slices.ContainsFunc(p.Stage.Partitions, func(q Partition) bool {
		return q.Phase == string(pipeline.Reading) && q.Behind == nil
	})
}

// askForAlarms repeats the question with a longer timeout if the job has alarms and no alarm
// process has answered: alarm processes are on no list, so that a late answer looks like a missing
// process.
func (l *reportBuilder) askForAlarms(nc *nats.Conn) error {
	keeps := func(p *Process) bool { return p.Watch != nil }
	if !l.report.Alarms.Kept || len(l.report.Processes) == 0 || slices.ContainsFunc(l.report.Processes, func(p Process) bool { return keeps(&p) }) {
		return nil
	}
	asked, err := askUntil(l.ctx, nc, l.job.Name, keeps)
	for i := range asked.Processes {
		if p := &asked.Processes[i]; !slices.ContainsFunc(l.report.Processes, func(known Process) bool { return known.ID == p.ID }) {
			l.report.Processes = append(l.report.Processes, *p)
			if p.Stage != nil {
				l.report.Silent = slices.DeleteFunc(l.report.Silent, func(w string) bool { return w == p.Stage.Worker })
			}
		}
	}
	return err
}

// readWorkers reads the job's list of workers.
func (l *reportBuilder) readWorkers(ctx context.Context) error {
	s, err := l.js.Stream(ctx, wire.MemberStream(l.job.Name))
	if errors.Is(err, jetstream.ErrStreamNotFound) { // no worker has run
		return nil
	}
	if err != nil {
		return fmt.Errorf("list of workers: %w", err)
	}
	prefix := "$KV." + wire.MemberBucket(l.job.Name) + "."
	info, err := s.Info(ctx, jetstream.WithSubjectFilter(prefix+">"))
	if err != nil {
		return fmt.Errorf("list of workers: %w", err)
	}
	for subject := range info.State.Subjects {
		l.workers = append(l.workers, cleanText(strings.TrimPrefix(subject, prefix)))
	}
	slices.Sort(l.workers)
	return nil
}

// combineProcesses adds up the processes' data.
func (l *reportBuilder) combineProcesses() {
	r := l.report
	models := map[Model]bool{}
	for i := range r.Processes {
		p := &r.Processes[i]
		from := fmt.Sprintf("%s, %s %d", p.Host, p.Role, p.PID)
		for _, e := range p.Errors {
			e.From = from
			r.Errors = append(r.Errors, e)
		}
		for _, m := range p.Marks {
			m.Text = fmt.Sprintf("%s: %s", from, m.Text)
			r.Marks = append(r.Marks, m)
		}
		if s := p.Stage; s != nil {
			r.Rates = r.Rates.addRates(s.Rates)
			if s.Model.SHA256 != "" {
				models[s.Model] = true
			}
		}
	}
	r.Model.Differ = len(models) > 1
	r.Vanished = findVanished(r.Processes, r.Time)
	slices.SortStableFunc(r.Errors, func(a, b LogMessage) int { return b.Time.Compare(a.Time) })
	slices.SortStableFunc(r.Marks, func(a, b Mark) int { return b.Time.Compare(a.Time) })
	r.Errors, r.Marks, r.Processes = firstOf(r.Errors, MostErrors), firstOf(r.Marks, MostMarks), firstOf(r.Processes, mostProcesses)
	slices.Sort(r.Unknown)
	r.Unknown, r.Silent = firstOf(r.Unknown, len(r.Unknown)), firstOf(r.Silent, len(r.Silent))
	if r.Model.Shadows == nil {
		r.Model.Shadows = []string{}
	}
}

// computeLag computes the job's delay.
func (l *reportBuilder) computeLag() {
	since := func(info *jetstream.StreamInfo) float64 {
		if info.State.LastTime.IsZero() || info.State.LastSeq == 0 {
			return -1
		}
		return max(0, info.TimeStamp.Sub(info.State.LastTime).Seconds())
	}
	l.report.Lag.Answered, l.report.Lag.Arrived = since(l.job.Out.CachedInfo()), since(l.job.In.CachedInfo())
	answered := math.Inf(1)
	for i := range l.report.Processes {
		if s := l.report.Processes[i].Stage; s != nil && s.Answered >= 0 {
			answered = min(answered, s.Answered)
		}
	}
	if !math.IsInf(answered, 0) {
		l.report.Lag.Answered = answered
	}
}
