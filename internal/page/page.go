package page

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/eusn-stream/eusn-stream/internal/fleet"
	"github.com/eusn-stream/eusn-stream/pipeline"
)

const (
	reportEvery = 5 * time.Second  // while somebody looks
	reportTime  = 10 * time.Second // for one
	watched     = 15 * time.Second // after /page/state was asked for, somebody looks
)

// Options say what a page is about.
type Options struct {
	Counters *pipeline.Counters // of the stage, which may start and end while the page is there
	Job      string
	Version  string       // of the program
	Log      *slog.Logger // optional
}

// Job is what a page asks of the job's server.
type Job struct {
	JS jetstream.JetStream // on a connection of its own
	// Report asks how the job is.
	Report func(context.Context) (*fleet.Report, error)
}

// Report is a Job's, over its connection. What the login of a worker may not ask is in the
// report's Unknown, and is no finding: the page is no operator. A report in which no
// process answers, not even the one that asks, is an error.
func Report(ctx context.Context, nc *nats.Conn, job string) (*fleet.Report, error) {
	r, err := fleet.BuildReport(ctx, nc, job)
	if err != nil {
		return nil, err
	}
	unknown := r.Unknown
	if len(r.Processes) == 0 {
		return nil, unasked(unknown)
	}
	r.Unknown = nil
	r.Judge(fleet.DefaultBehind)
	r.Unknown = unknown
	return r, nil
}

// unasked says why nobody answers: from outside, a slow server and a missing right look alike.
func unasked(unknown []string) error {
	return fmt.Errorf("no process of the job answers, not even this one. The server or this machine is slow now, or the login of this worker may not ask, which takes the role operator (docs/page.md): %s", strings.Join(unknown[:min(1, len(unknown))], "; "))
}

// Page keeps the history of a stage and shows it. Start makes one.
type Page struct {
	options Options
	job     atomic.Pointer[Job] // nil before Attach
	end     context.CancelFunc
	ended   sync.WaitGroup
	viewers viewers
	finder  finder

	mu     sync.Mutex // guards what follows; it is held while a state is made, never while somebody waits
	worker worker
	report *fleet.Report
	why    string    // why there is no report
	looked time.Time // when /page/state was asked for last
}

// worker is what is known of the worker in this process.
type worker struct {
	history *history
	marks   marks
	classes mix
	flags   mix
	trust   mix

	at      time.Time // of what follows
	stats   pipeline.Stats
	last    time.Time // when a sample was answered
	status  pipeline.Status
	times   []pipeline.ShardTime
	spent   []Shard
	minute  *Point
	perRows float64 // samples that a message has, a mean of the last ones
}

// Start begins to keep the history. Close ends it.
func Start(o Options) *Page {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	ctx, cancel := context.WithCancel(context.Background())
	p := &Page{options: o, end: cancel, why: "the stage has not connected to its server yet"}
	p.worker.history = newHistory()
	p.viewers.all = map[*viewer]bool{}
	p.finder.one = make(chan struct{}, 1)
	p.sample(time.Now())
	p.ended.Go(func() { p.follow(ctx) })
	p.ended.Go(func() { p.ask(ctx) })
	return p
}

// Attach gives the page the way to the job's server, of which it asks more. Detach takes
// it away, before its connection is closed.
func (p *Page) Attach(j *Job) { p.job.Store(j) }

// Detach is the end of Attach.
func (p *Page) Detach() { p.job.Store(nil) }

// Close ends the history, and what viewers are sent.
func (p *Page) Close() {
	p.end()
	p.viewers.close()
	p.ended.Wait()
}

// follow samples each second.
func (p *Page) follow(ctx context.Context) {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case now := <-tick.C:
			p.sample(now)
			if p.viewers.any() {
				p.viewers.send(event("tick", p.state(now, false)))
			}
		}
	}
}

// sample reads the counters.
func (p *Page) sample(now time.Time) {
	c := p.options.Counters
	stats, status, times := c.Stats(), c.Status(), c.Shards()
	p.mu.Lock()
	defer p.mu.Unlock()
	w := &p.worker
	w.minute = nil
	took := now.Sub(w.at).Seconds()
	first := w.at.IsZero()
	if !first && took > 0 {
		w.minute = w.history.add(w.point(&stats, &status, now, took))
	}
	w.note(&stats, &status, now, first)
	w.spend(times)
	w.classes.see(now, clean(stats.PredictionsOf))
	w.flags.see(now, stats.FlaggedBy)
	w.trust.see(now, stats.PredictionsBy)
	w.at, w.stats, w.last, w.status, w.times = now, stats, c.Answered(), status, times
}

// clean has names that are UTF-8, as JSON needs them.
func clean(counts map[string]uint64) map[string]uint64 {
	for name := range counts {
		if valid := strings.ToValidUTF8(name, "\uFFFD"); valid != name {
			counts[valid] += counts[name]
			delete(counts, name)
		}
	}
	return counts
}

// point is the second that is over.
func (w *worker) point(stats *pipeline.Stats, status *pipeline.Status, now time.Time, took float64) Point {
	messages, rows := stats.Messages-w.stats.Messages, stats.Rows-w.stats.Rows
	if messages > 0 {
		w.perRows = float64(rows) / float64(messages)
	}
	came := max(0, float64(messages)+float64(stats.Lag-w.stats.Lag))
	if status.Running != w.status.Running || stats.Claims != w.stats.Claims || stats.Fenced != w.stats.Fenced {
		came = float64(messages) // what waits is another's, or was
	}
	return Point{
		Time: now.Unix(), In: came * w.perRows / took, Rows: float64(rows) / took, Answers: float64(stats.Predictions-w.stats.Predictions) / took,
		Lag: stats.Lag, LagTime: lagAge(behind(status)), Measured: 1,
	}
}

// behind is how far the partition is behind that is furthest behind. Of one that is read, it
// is not known where that of no other is longer than is up to date.
func behind(s *pipeline.Status) (most time.Duration) {
	unknown := false
	for i := range s.Partitions {
		p := &s.Partitions[i]
		unknown = unknown || p.LagTime == pipeline.UnknownLag && p.Phase == pipeline.Reading
		most = max(most, p.LagTime)
	}
	if unknown && most <= behindFor {
		return pipeline.UnknownLag
	}
	return most
}

// note marks what has happened since the last sample.
func (w *worker) note(stats *pipeline.Stats, status *pipeline.Status, now time.Time, first bool) {
	mark := func(kind, format string, args ...any) {
		w.marks.add(Mark{Time: now.UnixMilli(), Kind: kind, Text: fmt.Sprintf(format, args...)})
	}
	switch {
	case status.Running && (first || !w.status.Running || w.status.Worker != status.Worker):
		mark("start", "the stage began, as worker %s", status.Worker)
	case !status.Running && w.status.Running:
		mark("end", "the stage ended")
	case status.Running && stats.Claims > w.stats.Claims:
		mark("claim", "this worker took %s over", counted(int(stats.Claims-w.stats.Claims), "partition"))
	}
	if n := stats.Fenced - w.stats.Fenced; n > 0 {
		mark("fenced", "other workers took %s over from this one", counted(int(n), "partition"))
	}
}

// spend computes how the shards have spent the time since the last sample.
func (w *worker) spend(times []pipeline.ShardTime) {
	w.spent = w.spent[:0]
	for i, t := range times {
		var was pipeline.ShardTime
		if i < len(w.times) && w.times[i].Busy <= t.Busy { // else it is another stage's
			was = w.times[i]
		}
		busy, waiting, idle := max(0, t.Busy-was.Busy), max(0, t.Waiting-was.Waiting), max(0, t.Idle-was.Idle)
		s := Shard{Engine: t.Engine}
		if all := float64(busy + waiting + idle); all > 0 {
			s.Busy, s.Waiting, s.Idle = share(busy, all), share(waiting, all), share(idle, all)
		}
		w.spent = append(w.spent, s)
	}
}

func share(part time.Duration, all float64) float64 {
	return float64(int(1000*float64(part)/all+.5)) / 1000
}

// state is what the page shows, with the history or without.
func (p *Page) state(now time.Time, whole bool) State {
	p.mu.Lock()
	defer p.mu.Unlock()
	w := &p.worker
	st, stats := &w.status, &w.stats
	s := State{
		Now:    now.UnixMilli(),
		About:  About{p.options.Job, st.Worker, p.options.Version, st.Model, st.Arithmetic, append([]string{}, st.Engines...)},
		Minute: w.minute,
		Totals: Totals{
			Messages: stats.Messages, Rows: stats.Rows, Predictions: stats.Predictions, DeadLetters: stats.DeadLetters, Duplicates: stats.Duplicates,
			Gaps: stats.Gaps, Losses: stats.Losses, Streams: stats.Streams, Room: int64(st.MaxStreams) * int64(len(st.Partitions)),
		},
		Shards:  append([]Shard{}, w.spent...),
		Classes: w.classes.look(), Flags: w.flags.look(), Trust: w.trust.look(), Shadows: []Shadow{},
		Report: p.report, ReportWhy: p.why, Marks: append([]Mark{}, w.marks.all...),
	}
	s.Partitions, s.Slowest = partitionsOf(st, now)
	if last := w.history.seconds.last; last > 0 {
		s.Point = *w.history.seconds.at(last)
	}
	for _, one := range p.options.Counters.Shadows() {
		s.Shadows = append(s.Shadows, Shadow(one))
	}
	s.Verdict = judge(st, stats.Lag, w.last, behind(st), now)
	if whole {
		bySecond, byMinute := w.history.seconds.series(), w.history.minutes.series()
		s.Seconds, s.Minutes = &bySecond, &byMinute
	}
	return s
}

// watching reports whether somebody looks at the page.
func (p *Page) watching() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.viewers.any() || time.Since(p.looked) < watched
}

// ask asks the job's server how the job is, while somebody looks.
func (p *Page) ask(ctx context.Context) {
	tick := time.NewTicker(time.Second / 4)
	defer tick.Stop()
	for last := (time.Time{}); ; {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		job := p.job.Load()
		if job == nil || job.Report == nil || !p.watching() || time.Since(last) < reportEvery {
			continue
		}
		try, cancel := context.WithTimeout(ctx, reportTime)
		report, err := job.Report(try)
		cancel()
		last = time.Now()
		p.learn(report, err)
	}
}

// learn takes a report, or why there is none.
func (p *Page) learn(report *fleet.Report, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err != nil {
		p.report, p.why = nil, short(err.Error())
		if errors.Is(err, context.DeadlineExceeded) {
			p.why = fmt.Sprintf("the server did not answer within %v", reportTime)
		}
		return
	}
	p.report, p.why = report, ""
	if report == nil {
		return
	}
	kinds := map[string]string{fleet.MarkPromoted: "promotion", fleet.MarkStarted: "start", fleet.MarkJoined: "start"}
	for i := len(report.Marks) - 1; i >= 0; i-- { // the newest is first there
		m := &report.Marks[i]
		kind := kinds[m.Kind]
		if kind == "" {
			kind = m.Kind
		}
		p.worker.marks.add(Mark{Time: m.Time.UnixMilli(), Kind: kind, Text: short(m.Text), key: fmt.Sprint(m.Kind, " ", m.Time.UnixMilli(), " ", m.Text)})
	}
	newest := report.Alarms.List[:min(len(report.Alarms.List), alarmMarks)]
	for i := len(newest) - 1; i >= 0; i-- {
		a := &newest[i]
		if a.Acknowledged != "" { // whose time is that of the acknowledgement; its mark is there since it was raised
			continue
		}
		p.worker.marks.add(Mark{Time: a.Since.UnixMilli(), Kind: markAlarm, Text: short("alarm " + a.Rule + " of " + a.Key), key: fmt.Sprint("alarm ", a.Rule, " ", a.Key, " ", a.Since.UnixMilli())})
	}
}
