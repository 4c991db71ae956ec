package fleet

import (
	"cmp"
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

	"github.com/eusn-stream/eusn-stream/internal/admin"
	"github.com/eusn-stream/eusn-stream/internal/alarm"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/store"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/wire"
	"github.com/eusn-stream/eusn-stream/internal/watch"
	"github.com/eusn-stream/eusn-stream/pipeline"
)

const (
	// Patience is the longest duration of BuildReport.
	Patience    = 3 * time.Second
	atOnce      = 32  // concurrent requests to the server
	mostRecords = 256 // partitions whose record is read
	mostOldest  = 256 // partitions whose oldest waiting message is requested
)

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
	l.report.Unknown = append(l.report.Unknown, cleanText(what+": "+err.Error()))
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

// readModel reads the job's model.
func (l *reportBuilder) readModel() error {
	e, seq, err := store.ReadEntry(l.ctx, l.job.Out, l.job.Name)
	if err == nil && seq == 0 {
		if err = store.CheckOutput(l.ctx, l.js, l.job.Name, l.job.InputJob()); errors.As(err, &l.lost) {
			err = nil
		}
	}
	if err != nil {
		return err
	}
	last := e.Promotions.Last()
	m := JobModel{Name: e.Meta.Model, SHA256: e.Meta.SHA256, Readout: e.Meta.Readout, Promoted: last.Readout, Promotions: last.Number, Shadows: []string{}}
	cleanNames(&m.Name, &m.SHA256, &m.Readout)
	shadows, err := wire.ParseShadows(e.Shadows)
	for _, s := range shadows {
		m.Shadows = append(m.Shadows, s.Readout)
	}
	l.report.Model = m
	for _, p := range e.Promotions {
		what := "readout " + p.Readout
		if p.Readout == "" {
			what = "the first readout"
		}
		l.report.Marks = append(l.report.Marks, Mark{p.When, MarkPromoted, cleanText(fmt.Sprintf("%s promoted by %s", what, p.Who))})
	}
	return err
}

// readSilentRules returns the names of the current rules of kind silent.
func (l *reportBuilder) readSilentRules() (map[string]bool, error) {
	e, err := watch.CurrentRules(l.ctx, l.js, l.job.Name)
	if err != nil || e == nil {
		return nil, err
	}
	rules, err := alarm.ParseRules(e.Rules)
	if err != nil {
		return nil, err
	}
	silent := map[string]bool{}
	for _, rule := range rules {
		if rule.Silent > 0 {
			silent[rule.Name] = true
		}
	}
	return silent, nil
}

// readAlarms reads the active alarms.
func (l *reportBuilder) readAlarms() error {
	l.report.Alarms = Alarms{List: []Alarm{}, Quiet: []string{}}
	on, err := watch.ActiveAlarms(l.ctx, l.js, l.job.Name)
	if errors.Is(err, watch.ErrNoAlarms) {
		return nil
	}
	if err != nil {
		return err
	}
	a := Alarms{Kept: true, On: len(on), List: []Alarm{}, Quiet: []string{}}
	for _, name := range wire.AlarmOutputs {
		_, info, err := watch.FindOutput(l.ctx, l.js, l.job.Name, name)
		if errors.Is(err, jetstream.ErrConsumerNotFound) {
			continue
		}
		if err != nil {
			return err
		}
		a.Outputs = append(a.Outputs, Output{name, info.NumPending + uint64(info.NumAckPending), info.Paused, watch.OutputDiffers(l.job.Name, name, info.Config)})
	}
	silent, err := l.readSilentRules()
	if err != nil {
		return err
	}
	a.Watched = len(silent) > 0
	for i := range on {
		entry := Alarm{Rule: on[i].Rule, Key: cleanText(on[i].Key), Since: on[i].Time}
		if on[i].Kind == alarm.Acknowledged {
			entry.Acknowledged = cleanText(on[i].Who)
		} else {
			a.Open++
		}
		if silent[entry.Rule] && len(a.Quiet) < MostAlarms {
			a.Quiet = append(a.Quiet, entry.Key)
		}
		a.List = append(a.List, entry)
	}
	slices.SortStableFunc(a.List, func(x, y Alarm) int { return y.Since.Compare(x.Since) })
	a.List, a.LeftOut = firstOf(a.List, MostAlarms), max(0, len(a.List)-MostAlarms)
	l.report.Alarms = a
	return nil
}

// readDisk reads the job's storage on the server.
func (l *reportBuilder) readDisk() error {
	j, err := admin.Open(l.ctx, l.js, l.job.Name)
	if err != nil {
		return err
	}
	stored, err := j.Stored(l.ctx)
	if err != nil {
		return err
	}
	g := stored.Average()
	d := Disk{PerDay: g.PerDay(), Streams: []DiskStream{}}
	for _, s := range g.Streams {
		d.Bytes += s.Bytes
		d.Over = max(d.Over, s.Over.Seconds())
		d.Streams = append(d.Streams, DiskStream{s.Stream, s.Bytes, s.PerDay, append([]string{}, s.Bounds...)})
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	d.Limit, d.Used = l.report.Disk.Limit, l.report.Disk.Used
	l.report.Disk = d
	return nil
}

// readAccount reads the account's storage limit.
func (l *reportBuilder) readAccount() error {
	info, err := l.js.AccountInfo(l.ctx)
	if err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.report.Disk.Limit, l.report.Disk.Used = uint64(max(0, info.Limits.MaxStore)), info.Store
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

// combinePartitions combines the workers' data about partitions with the records of partitions
// without a worker.
func (l *reportBuilder) combinePartitions() {
	all := make([]Partition, l.job.Partitions)
	for i := range all {
		all[i] = Partition{Partition: i, Phase: PhaseNobody}
	}
	unlisted := 0
	for i := range l.report.Processes {
		s := l.report.Processes[i].Stage
		if s == nil {
			continue
		}
		unlisted += s.LeftOut
		for _, p := range s.Partitions {
			if p.Partition >= len(all) {
				continue
			}
			if p.Worker = s.Worker; isBetter(&p, &all[p.Partition]) {
				all[p.Partition] = p
			}
		}
	}
	l.readRecords(all, unlisted)
	l.report.Partitions = Partitions{Count: len(all), Phases: map[string]int{}}
	if l.lost != nil {
		l.report.Partitions.Lost, l.report.Partitions.Regain = l.lost.What, l.lost.Do
	}
	for i := range all {
		l.report.Partitions.Phases[all[i].Phase]++
		l.report.Lag.Messages += all[i].Lag
	}
	l.countUnlisted()
	l.findOldest(all)
	l.report.Partitions.List, l.report.Partitions.LeftOut = keepWorst(all, MostPartitions)
}

// countUnlisted counts partitions that a worker reads but does not list.
func (l *reportBuilder) countUnlisted() {
	phases, reading := l.report.Partitions.Phases, string(pipeline.Reading)
	more := -phases[reading]
	for i := range l.report.Processes {
		if s := l.report.Processes[i].Stage; s != nil {
			more += s.Phases[reading]
		}
	}
	if more = min(more, phases[PhaseUnasked]); more > 0 {
		phases[reading] += more
		if phases[PhaseUnasked] -= more; phases[PhaseUnasked] == 0 {
			delete(phases, PhaseUnasked)
		}
	}
}

// isBetter reports whether a worker's entry for a partition is newer than another worker's entry:
// only one worker has a partition at a time.
func isBetter(a, b *Partition) bool {
	if b.Phase == PhaseNobody {
		return true
	}
	reads := func(p *Partition) bool { return p.Phase == string(pipeline.Reading) }
	if reads(a) != reads(b) && (a.Epoch >= b.Epoch || b.Epoch == 0) {
		return reads(a)
	}
	return a.Epoch > b.Epoch
}

// readRecords reads the records of partitions without a worker: their lag.
func (l *reportBuilder) readRecords(all []Partition, unlisted int) {
	j, err := admin.Open(l.ctx, l.js, l.job.Name)
	if err != nil {
		l.addUnknown("the partitions", err)
		return
	}
	var asking sync.WaitGroup
	slots := make(chan struct{}, atOnce)
	asked := 0
	var failed error
	var mu sync.Mutex
	for i := range all {
		p := &all[i]
		if p.Phase == string(pipeline.Reading) || p.Phase == string(pipeline.Replaying) {
			continue
		}
		if asked++; asked > mostRecords || p.Phase == PhaseNobody && unlisted > 0 {
			if p.Phase == PhaseNobody {
				p.Phase = PhaseUnasked
			}
			continue
		}
		slots <- struct{}{}
		asking.Go(func() {
			defer func() { <-slots }()
			s, err := j.Status(l.ctx, p.Partition)
			if err != nil && p.Why == "" { // otherwise the reason is known
				mu.Lock()
				failed = cmp.Or(failed, err)
				mu.Unlock()
			}
			if p.Phase == PhaseNobody && s.Owner != "" {
				p.Worker = cleanText(s.Owner)
			}
			p.Epoch, p.Lag = max(p.Epoch, s.Epoch), max(p.Lag, int64(s.Lag))
		})
	}
	asking.Wait()
	l.addUnknown("the partitions without a worker", failed)
}

// readNextStored returns when the oldest waiting message of a partition was stored; zero if none
// waits. readRecords reports errors of the records.
func (l *reportBuilder) readNextStored(partition int) (stored time.Time, known bool) {
	rec, _, err := store.ReadRecord(l.ctx, l.job.Out, l.job.Name, partition)
	if err != nil {
		return stored, false
	}
	next, err := l.job.Input(nil).Next(l.ctx, partition, rec.InSeq)
	if err == nil && next.Seq > 0 {
		stored = time.Unix(0, next.Stored)
	}
	return stored, err == nil
}

// findOldest determines the age of the oldest waiting message. Workers report the age for their
// partitions; for other partitions the server is asked.
func (l *reportBuilder) findOldest(all []Partition) {
	var behind []*Partition
	for i := range all {
		if p := &all[i]; p.Behind == nil && p.Phase != string(pipeline.Reading) && p.Phase != string(pipeline.Replaying) {
			behind = append(behind, &all[i])
		}
	}
	slices.SortStableFunc(behind, func(a, b *Partition) int { return compareUrgency(a, b) })
	now := l.job.Out.CachedInfo().TimeStamp
	var asking sync.WaitGroup
	for _, p := range behind[:min(len(behind), mostOldest)] {
		asking.Go(func() {
			if next, known := l.readNextStored(p.Partition); known {
				age := 0.0
				if !next.IsZero() {
					age = max(0, now.Sub(next).Seconds())
				}
				p.Behind = &age
			}
		})
	}
	asking.Wait()
	for i := range all {
		if b := all[i].Behind; b != nil && (l.report.Lag.Behind == nil || *b > *l.report.Lag.Behind) {
			most := *b
			l.report.Lag.Behind = &most
		}
		if all[i].Behind == nil && all[i].Phase != PhaseUnasked { // a worker left this partition out: the others are further behind
			l.report.Lag.Unknown++
		}
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
