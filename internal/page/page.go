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

	"github.com/eusn-stream/eusn-stream/internal/errtext"
	"github.com/eusn-stream/eusn-stream/internal/fleet"
	"github.com/eusn-stream/eusn-stream/pipeline"
)

const (
	reportEvery = 5 * time.Second  // while the page has viewers
	reportTime  = 10 * time.Second // for one report
	viewedFor   = 15 * time.Second // time after a request of /page/state during which the page counts as viewed
)

// Options configure a page.
type Options struct {
	Counters *pipeline.Counters // of the stage, which may start and end during the page's life
	Job      string
	Version  string       // of the program
	Channels []string     // of the model
	Log      *slog.Logger // optional
}

// Job is the page's access to the job's server.
type Job struct {
	JS jetstream.JetStream // on a separate connection
	// Report returns the job's status.
	Report func(context.Context) (*fleet.Report, error)
}

// Report returns a job's status for Job. Parts that a worker's login may not request are in the
// report's Unknown, but are no finding: the page is not an operator. A report without any process,
// even this one, is an error.
func Report(ctx context.Context, nc *nats.Conn, job string) (*fleet.Report, error) {
	r, err := fleet.BuildReport(ctx, nc, job)
	if err != nil {
		return nil, err
	}
	unknown := r.Unknown
	if len(r.Processes) == 0 {
		// A slow server and a missing right look alike.
		return nil, fmt.Errorf("no process of the job answers, not even this one. The server or this machine is slow now, or the login of this worker may not ask, which takes the role operator (docs/page.md): %s", strings.Join(unknown[:min(1, len(unknown))], "; "))
	}
	r.Unknown = nil
	r.Judge(fleet.DefaultBehind)
	r.Unknown = unknown
	return r, nil
}

// Page stores the history of a stage and shows it. Start creates a page.
type Page struct {
	options Options
	job     atomic.Pointer[Job] // nil before Attach
	cancel  context.CancelFunc
	running sync.WaitGroup
	viewers viewers
	finder  finder

	machines machines

	mu          sync.Mutex // guards the following fields; held while a state is built, never while waiting
	worker      worker
	report      *fleet.Report
	reportWhy   string    // reason for a missing report
	lastRequest time.Time // time of the last request of /page/state
	lastViewed  time.Time // time of the last request of a viewer
	wake        chan struct{}
}

// worker is the data of the worker in this process.
type worker struct {
	history *history
	marks   marks
	classes mix
	flags   mix
	trust   mix

	at      time.Time // of the following fields
	stats   pipeline.Stats
	last    time.Time // time of the last answered sample
	status  pipeline.Status
	times   []pipeline.ShardTime
	spent   []Shard
	minute  *Point
	perRows float64 // samples per message, mean of the last messages
}

// Start creates a page and starts its history. Close stops it.
func Start(o Options) *Page {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	ctx, cancel := context.WithCancel(context.Background())
	p := &Page{options: o, cancel: cancel, reportWhy: "the first report is not complete yet"}
	p.worker.history = newHistory()
	p.viewers.all = map[*viewer]bool{}
	p.finder.slot = make(chan struct{}, 1)
	p.machines.ready = make(chan struct{})
	p.sampleCounters(time.Now())
	p.running.Go(func() { p.runSampling(ctx) })
	p.running.Go(func() { p.requestReports(ctx) })
	p.running.Go(func() { p.followJob(ctx, followAgain, p.followOutput, p.failOutput) })
	p.running.Go(func() { p.followJob(ctx, alarmsAgain, p.followAlarms, p.failAlarms) })
	return p
}

// Attach connects the page to the job's server. Detach disconnects it, before its connection is
// closed.
func (p *Page) Attach(j *Job) { p.job.Store(j) }

// Detach disconnects the page from the job's server.
func (p *Page) Detach() { p.job.Store(nil) }

// Close stops the history and the viewers' events.
func (p *Page) Close() {
	p.cancel()
	p.viewers.close()
	p.running.Wait()
}

// runSampling samples the counters each second.
func (p *Page) runSampling(ctx context.Context) {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case now := <-tick.C:
			p.sampleCounters(now)
			if p.viewers.hasViewers() {
				p.viewers.sendEvent(newEvent("tick", p.newState(now, false)))
			}
		}
	}
}

// sampleCounters reads the counters.
func (p *Page) sampleCounters(now time.Time) {
	c := p.options.Counters
	stats, status, times := c.Stats(), c.Status(), c.Shards()
	p.mu.Lock()
	defer p.mu.Unlock()
	w := &p.worker
	w.minute = nil
	took := now.Sub(w.at).Seconds()
	first := w.at.IsZero()
	if !first && took > 0 {
		w.minute = w.history.addPoint(w.newPoint(&stats, &status, now, took))
	}
	w.recordMarks(&stats, &status, now, first)
	w.computeShares(times)
	w.classes.addCounts(now, cleanNames(stats.PredictionsOf))
	w.flags.addCounts(now, stats.FlaggedBy)
	w.trust.addCounts(now, stats.PredictionsBy)
	w.at, w.stats, w.last, w.status, w.times = now, stats, c.Answered(), status, times
}

// cleanNames converts the names to UTF-8, for JSON.
func cleanNames(counts map[string]uint64) map[string]uint64 {
	for name := range counts {
		if valid := strings.ToValidUTF8(name, "\uFFFD"); valid != name {
			counts[valid] += counts[name]
			delete(counts, name)
		}
	}
	return counts
}

// newPoint returns the figures of the past second.
func (w *worker) newPoint(stats *pipeline.Stats, status *pipeline.Status, now time.Time, took float64) Point {
	messages, rows := stats.Messages-w.stats.Messages, stats.Rows-w.stats.Rows
	if messages > 0 {
		w.perRows = float64(rows) / float64(messages)
	}
	came := max(0, float64(messages)+float64(stats.Lag-w.stats.Lag))
	if status.Running != w.status.Running || stats.Claims != w.stats.Claims || stats.Fenced != w.stats.Fenced {
		came = float64(messages) // the waiting messages moved between workers
	}
	return Point{
		Time: now.Unix(), In: came * w.perRows / took, Rows: float64(rows) / took, Answers: float64(stats.Predictions-w.stats.Predictions) / took,
		Lag: stats.Lag, LagTime: lagAge(maxLag(status)), Measured: 1,
	}
}

// maxLag returns the largest delay of a partition. It is unknown if a read partition's delay is
// unknown and no other partition's delay exceeds behindFor.
func maxLag(s *pipeline.Status) (most time.Duration) {
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

// recordMarks adds marks for events since the last sample.
func (w *worker) recordMarks(stats *pipeline.Stats, status *pipeline.Status, now time.Time, first bool) {
	mark := func(kind, format string, args ...any) {
		w.marks.addMark(Mark{Time: now.UnixMilli(), Kind: kind, Text: fmt.Sprintf(format, args...)})
	}
	switch {
	case status.Running && (first || !w.status.Running || w.status.Worker != status.Worker):
		mark("start", "the stage began, as worker %s", status.Worker)
	case !status.Running && w.status.Running:
		mark("end", "the stage ended")
	case status.Running && stats.Claims > w.stats.Claims:
		mark("claim", "this worker took %s over", plural(int(stats.Claims-w.stats.Claims), "partition"))
	}
	if n := stats.Fenced - w.stats.Fenced; n > 0 {
		mark("fenced", "other workers took %s over from this one", plural(int(n), "partition"))
	}
}

// computeShares computes how the shards spent the time since the last sample.
func (w *worker) computeShares(times []pipeline.ShardTime) {
	w.spent = w.spent[:0]
	for i, t := range times {
		var before pipeline.ShardTime
		if i < len(w.times) && w.times[i].Busy <= t.Busy { // otherwise from another stage
			before = w.times[i]
		}
		busy, waiting, idle := max(0, t.Busy-before.Busy), max(0, t.Waiting-before.Waiting), max(0, t.Idle-before.Idle)
		s := Shard{Engine: t.Engine}
		if all := float64(busy + waiting + idle); all > 0 {
			s.Busy, s.Waiting, s.Idle = roundShare(busy, all), roundShare(waiting, all), roundShare(idle, all)
		}
		w.spent = append(w.spent, s)
	}
}

func roundShare(part time.Duration, all float64) float64 {
	return float64(int(1000*float64(part)/all+.5)) / 1000
}

// newState returns the page's data; whole includes the history.
func (p *Page) newState(now time.Time, whole bool) State {
	plant := p.machines.summarize(now, p.lateness())
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
		Classes: w.classes.summarize(), Flags: w.flags.summarize(), Trust: w.trust.summarize(), Shadows: []Shadow{},
		Plant: plant, Report: p.report, ReportWhy: p.reportWhy, Marks: append([]Mark{}, w.marks.all...),
	}
	s.Partitions, s.Slowest = newPartitions(st, now)
	if last := w.history.seconds.last; last > 0 {
		s.Point = *w.history.seconds.slot(last)
	}
	for _, shadow := range p.options.Counters.Shadows() {
		s.Shadows = append(s.Shadows, Shadow(shadow))
	}
	s.Verdict = newVerdict(st, stats.Lag, w.last, maxLag(st), now)
	if whole {
		bySecond, byMinute := w.history.seconds.buildSeries(), w.history.minutes.buildSeries()
		s.Seconds, s.Minutes = &bySecond, &byMinute
	}
	return s
}

// isViewed reports whether the page has viewers.
func (p *Page) isViewed() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.viewers.hasViewers() || time.Since(p.lastRequest) < viewedFor
}

// requestReports requests the job's status while the page has viewers.
func (p *Page) requestReports(ctx context.Context) {
	tick := time.NewTicker(time.Second / 4)
	defer tick.Stop()
	for last := (time.Time{}); ; {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		job := p.job.Load()
		if job == nil || job.Report == nil || !p.isViewed() || time.Since(last) < reportEvery {
			continue
		}
		try, cancel := context.WithTimeout(ctx, reportTime)
		report, err := job.Report(try)
		cancel()
		last = time.Now()
		p.setReport(report, err)
	}
}

// setReport stores a report, or the reason for a missing report.
func (p *Page) setReport(report *fleet.Report, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err != nil {
		p.report, p.reportWhy = nil, shorten(errtext.For(err))
		if errors.Is(err, context.DeadlineExceeded) {
			p.reportWhy = fmt.Sprintf("the server did not answer within %v", reportTime)
		}
		return
	}
	p.report, p.reportWhy = report, ""
	if report == nil {
		return
	}
	kinds := map[string]string{fleet.MarkPromoted: "promotion", fleet.MarkStarted: "start", fleet.MarkJoined: "start"}
	for i := len(report.Marks) - 1; i >= 0; i-- { // newest first
		m := &report.Marks[i]
		kind := kinds[m.Kind]
		if kind == "" {
			kind = m.Kind
		}
		p.worker.marks.addMark(Mark{Time: m.Time.UnixMilli(), Kind: kind, Text: shorten(m.Text), key: fmt.Sprint(m.Kind, " ", m.Time.UnixMilli(), " ", m.Text)})
	}
	newest := report.Alarms.List[:min(len(report.Alarms.List), alarmMarks)]
	for i := len(newest) - 1; i >= 0; i-- {
		a := &newest[i]
		if a.Acknowledged != "" { // its time is the acknowledgement; the mark exists since the alarm was raised
			continue
		}
		p.worker.marks.addMark(Mark{Time: a.Since.UnixMilli(), Kind: markAlarm, Text: shorten("alarm " + a.Rule + " of " + a.Key), key: fmt.Sprint("alarm ", a.Rule, " ", a.Key, " ", a.Since.UnixMilli())})
	}
}
