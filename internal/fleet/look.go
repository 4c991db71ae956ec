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
	// Patience is how long a Look takes at most.
	Patience    = 3 * time.Second
	atOnce      = 32  // questions to the server
	mostRecords = 256 // partitions whose record is read
	mostOldest  = 256 // partitions whose oldest waiting message is asked for
)

// Look makes the report of a job: it asks the job's processes, and the server. It changes
// nothing, and takes Patience at most. A job that is not there is admin.ErrNoJob; another
// error is that the server does not answer what everything begins with, or that caller has ended.
// What else cannot be had is in the report's Unknown.
func Look(caller context.Context, nc *nats.Conn, job string) (*Report, error) {
	began := time.Now()
	ctx, cancel := context.WithTimeout(caller, Patience)
	defer cancel()
	js, err := jetstream.New(nc)
	if err != nil {
		return nil, fmt.Errorf("fleet: %w", err)
	}
	l := &look{ctx: ctx, js: js, r: &Report{Form: Form, Job: job, Time: began.UTC()}}
	if l.job, err = store.Open(ctx, js, job); err != nil {
		return nil, slow(ctx, job, err)
	}
	var all sync.WaitGroup
	for what, ask := range map[string]func() error{
		AboutProcesses: func() error { return l.processes(nc) }, AboutModel: l.model, AboutAlarms: l.alarms, AboutDisk: l.disk, "the account": l.account,
	} {
		all.Go(func() { l.unknown(what, ask()) })
	}
	all.Wait()
	l.unknown(AboutProcesses, l.again(nc))
	l.partitions()
	l.lag()
	if err := caller.Err(); err != nil { // the report would say that nobody answers
		return nil, fmt.Errorf("fleet: %w", err)
	}
	l.sum()
	l.r.Judge(DefaultBehind)
	l.r.Took = time.Since(began).Seconds()
	return l.r, nil
}

// slow says what it means that the server has not answered in time.
func slow(ctx context.Context, job string, err error) error {
	if !errors.Is(err, context.DeadlineExceeded) || !errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return err
	}
	return fmt.Errorf("the server did not answer about job %q within %v: it or its disk has too much to do, or this login may not ask (docs/secure.md)", job, Patience)
}

// look is one at work. Each part of the report is written by one of its questions.
type look struct {
	ctx     context.Context
	js      jetstream.JetStream
	job     *store.Job
	r       *Report
	workers []string         // of the job's list
	lost    *store.LostError // nil: the output is there, or the job has not begun

	mu sync.Mutex // guards r.Unknown
}

// unknown notes what could not be asked.
func (l *look) unknown(what string, err error) {
	if err == nil {
		return
	}
	if errors.Is(err, context.DeadlineExceeded) {
		err = errors.New("no answer in time: the server has too much to do, or this login may not ask (docs/secure.md)")
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.r.Unknown = append(l.r.Unknown, text(what+": "+err.Error()))
}

// processes asks the job's processes, those of its list of workers in particular.
func (l *look) processes(nc *nats.Conn) error {
	ctx, cancel := context.WithTimeout(l.ctx, answering)
	defer cancel()
	listed := l.members(ctx)
	asked, err := Ask(ctx, nc, l.job.Name, l.workers)
	for tries := 0; tries < 3 && err == nil && slices.ContainsFunc(asked.Processes, func(p Process) bool { return fresh(&p) }); tries++ {
		ctx, cancel := context.WithTimeout(l.ctx, answering)
		time.Sleep(lull / 2)
		asked, err = Ask(ctx, nc, l.job.Name, l.workers)
		cancel()
	}
	l.r.Processes, l.r.Strange = asked.Processes, asked.Strange
	for _, w := range l.workers {
		if !slices.ContainsFunc(asked.Processes, func(p Process) bool { return p.Stage != nil && p.Stage.Worker == w }) {
			l.r.Silent = append(l.r.Silent, w)
		}
	}
	return errors.Join(listed, err)
}

// fresh reports whether a worker reads partitions of which it has not yet asked the server what
// waits, which it does within a moment.
func fresh(p *Process) bool {
	return p.Stage != nil && slices.ContainsFunc(p.Stage.Partitions, func(q Partition) bool {
		return q.Phase == string(pipeline.Reading) && q.Behind == nil
	})
}

// again asks a second time, for longer, where the job has alarms and nobody has said that it
// keeps them: no list has those who do, so only that knows from slow.
func (l *look) again(nc *nats.Conn) error {
	keeps := func(p *Process) bool { return p.Watch != nil }
	if !l.r.Alarms.Kept || len(l.r.Processes) == 0 || slices.ContainsFunc(l.r.Processes, func(p Process) bool { return keeps(&p) }) {
		return nil
	}
	asked, err := ask(l.ctx, nc, l.job.Name, keeps)
	for i := range asked.Processes {
		if p := &asked.Processes[i]; !slices.ContainsFunc(l.r.Processes, func(one Process) bool { return one.ID == p.ID }) {
			l.r.Processes = append(l.r.Processes, *p)
			if p.Stage != nil {
				l.r.Silent = slices.DeleteFunc(l.r.Silent, func(w string) bool { return w == p.Stage.Worker })
			}
		}
	}
	return err
}

// members reads the job's list of workers.
func (l *look) members(ctx context.Context) error {
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
		l.workers = append(l.workers, text(strings.TrimPrefix(subject, prefix)))
	}
	slices.Sort(l.workers)
	return nil
}

// model reads which model the job runs.
func (l *look) model() error {
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
	names(&m.Name, &m.SHA256, &m.Readout)
	shadows, err := wire.ParseShadows(e.Shadows)
	for _, s := range shadows {
		m.Shadows = append(m.Shadows, s.Readout)
	}
	l.r.Model = m
	for _, p := range e.Promotions {
		what := "readout " + p.Readout
		if p.Readout == "" {
			what = "the readout that the job began with"
		}
		l.r.Marks = append(l.r.Marks, Mark{p.When, MarkPromoted, text(fmt.Sprintf("%s answers, by %s", what, p.Who))})
	}
	return err
}

// silentRules are the names of the rules of kind silent that hold.
func (l *look) silentRules() (map[string]bool, error) {
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

// alarms reads which are on.
func (l *look) alarms() error {
	l.r.Alarms = Alarms{List: []Alarm{}, Quiet: []string{}}
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
	silent, err := l.silentRules()
	if err != nil {
		return err
	}
	a.Watched = len(silent) > 0
	for i := range on {
		one := Alarm{Rule: on[i].Rule, Key: text(on[i].Key), Since: on[i].Time}
		if on[i].Kind == alarm.Acknowledged {
			one.Acknowledged = text(on[i].Who)
		} else {
			a.Open++
		}
		if silent[one.Rule] && len(a.Quiet) < MostAlarms {
			a.Quiet = append(a.Quiet, one.Key)
		}
		a.List = append(a.List, one)
	}
	slices.SortStableFunc(a.List, func(x, y Alarm) int { return y.Since.Compare(x.Since) })
	a.List, a.LeftOut = listed(a.List, MostAlarms), max(0, len(a.List)-MostAlarms)
	l.r.Alarms = a
	return nil
}

// disk reads what the job has on the server.
func (l *look) disk() error {
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
	d.Limit, d.Used = l.r.Disk.Limit, l.r.Disk.Used
	l.r.Disk = d
	return nil
}

// account reads what the account may store.
func (l *look) account() error {
	info, err := l.js.AccountInfo(l.ctx)
	if err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.r.Disk.Limit, l.r.Disk.Used = uint64(max(0, info.Limits.MaxStore)), info.Store
	return nil
}

// sum adds up what the processes say.
func (l *look) sum() {
	r := l.r
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
			r.Rates = r.Rates.and(s.Rates)
			if s.Model.SHA256 != "" {
				models[s.Model] = true
			}
		}
	}
	r.Model.Differ = len(models) > 1
	r.Vanished = vanished(r.Processes, r.Time)
	slices.SortStableFunc(r.Errors, func(a, b Said) int { return b.Time.Compare(a.Time) })
	slices.SortStableFunc(r.Marks, func(a, b Mark) int { return b.Time.Compare(a.Time) })
	r.Errors, r.Marks, r.Processes = listed(r.Errors, MostErrors), listed(r.Marks, MostMarks), listed(r.Processes, mostProcesses)
	slices.Sort(r.Unknown)
	r.Unknown, r.Silent = listed(r.Unknown, len(r.Unknown)), listed(r.Silent, len(r.Silent))
	if r.Model.Shadows == nil {
		r.Model.Shadows = []string{}
	}
}

// partitions puts together what the workers say of them, and what their records say of
// those that no worker reads.
func (l *look) partitions() {
	all := make([]Partition, l.job.Partitions)
	for i := range all {
		all[i] = Partition{Partition: i, Phase: Nobody}
	}
	unlisted := 0
	for i := range l.r.Processes {
		s := l.r.Processes[i].Stage
		if s == nil {
			continue
		}
		unlisted += s.LeftOut
		for _, p := range s.Partitions {
			if p.Partition >= len(all) {
				continue
			}
			if p.Worker = s.Worker; better(&p, &all[p.Partition]) {
				all[p.Partition] = p
			}
		}
	}
	l.records(all, unlisted)
	l.r.Partitions = Partitions{Count: len(all), Phases: map[string]int{}}
	if l.lost != nil {
		l.r.Partitions.Lost, l.r.Partitions.Regain = l.lost.What, l.lost.Do
	}
	for i := range all {
		l.r.Partitions.Phases[all[i].Phase]++
		l.r.Lag.Messages += all[i].Lag
	}
	l.unlisted()
	l.oldest(all)
	l.r.Partitions.List, l.r.Partitions.LeftOut = worst(all, MostPartitions)
}

// unlisted counts partitions that a worker reads, but has no room to list, as it does.
func (l *look) unlisted() {
	phases, reading := l.r.Partitions.Phases, string(pipeline.Reading)
	more := -phases[reading]
	for i := range l.r.Processes {
		if s := l.r.Processes[i].Stage; s != nil {
			more += s.Phases[reading]
		}
	}
	if more = min(more, phases[Unasked]); more > 0 {
		phases[reading] += more
		if phases[Unasked] -= more; phases[Unasked] == 0 {
			delete(phases, Unasked)
		}
	}
}

// better reports whether what one worker says of a partition is rather so than what another
// one does: a partition is one worker's after the other's.
func better(a, b *Partition) bool {
	if b.Phase == Nobody {
		return true
	}
	reads := func(p *Partition) bool { return p.Phase == string(pipeline.Reading) }
	if reads(a) != reads(b) && (a.Epoch >= b.Epoch || b.Epoch == 0) {
		return reads(a)
	}
	return a.Epoch > b.Epoch
}

// records reads those of partitions that no worker reads: how much waits for them.
func (l *look) records(all []Partition, unlisted int) {
	j, err := admin.Open(l.ctx, l.js, l.job.Name)
	if err != nil {
		l.unknown("the partitions", err)
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
		if asked++; asked > mostRecords || p.Phase == Nobody && unlisted > 0 {
			if p.Phase == Nobody {
				p.Phase = Unasked
			}
			continue
		}
		slots <- struct{}{}
		asking.Go(func() {
			defer func() { <-slots }()
			s, err := j.Status(l.ctx, p.Partition)
			if err != nil && p.Why == "" { // else it is known why
				mu.Lock()
				failed = cmp.Or(failed, err)
				mu.Unlock()
			}
			if p.Phase == Nobody && s.Owner != "" {
				p.Worker = text(s.Owner)
			}
			p.Epoch, p.Lag = max(p.Epoch, s.Epoch), max(p.Lag, int64(s.Lag))
		})
	}
	asking.Wait()
	l.unknown("the partitions that nobody reads", failed)
}

// nextStored is when the oldest message that waits in a partition was stored; zero if none
// waits. What reads the records reports their errors.
func (l *look) nextStored(partition int) (stored time.Time, known bool) {
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

// oldest finds how old the oldest message is that waits. Workers report the age
// for the partitions that they read; for other partitions the server is asked, by their records.
func (l *look) oldest(all []Partition) {
	var behind []*Partition
	for i := range all {
		if p := &all[i]; p.Behind == nil && p.Phase != string(pipeline.Reading) && p.Phase != string(pipeline.Replaying) {
			behind = append(behind, &all[i])
		}
	}
	slices.SortStableFunc(behind, func(a, b *Partition) int { return urgent(a, b) })
	now := l.job.Out.CachedInfo().TimeStamp
	var asking sync.WaitGroup
	for _, p := range behind[:min(len(behind), mostOldest)] {
		asking.Go(func() {
			if next, known := l.nextStored(p.Partition); known {
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
		if b := all[i].Behind; b != nil && (l.r.Lag.Behind == nil || *b > *l.r.Lag.Behind) {
			most := *b
			l.r.Lag.Behind = &most
		}
		if all[i].Behind == nil && all[i].Phase != Unasked { // which a worker has left out: others are further behind
			l.r.Lag.Unknown++
		}
	}
}

// lag is how far the job is behind its input.
func (l *look) lag() {
	since := func(info *jetstream.StreamInfo) float64 {
		if info.State.LastTime.IsZero() || info.State.LastSeq == 0 {
			return -1
		}
		return max(0, info.TimeStamp.Sub(info.State.LastTime).Seconds())
	}
	l.r.Lag.Answered, l.r.Lag.Arrived = since(l.job.Out.CachedInfo()), since(l.job.In.CachedInfo())
	said := math.Inf(1)
	for i := range l.r.Processes {
		if s := l.r.Processes[i].Stage; s != nil && s.Answered >= 0 {
			said = min(said, s.Answered)
		}
	}
	if !math.IsInf(said, 0) {
		l.r.Lag.Answered = said
	}
}
