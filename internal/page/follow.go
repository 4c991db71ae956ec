package page

import (
	"context"
	"errors"
	"time"

	"github.com/eusn-stream/eusn-stream/internal/alarm"
	"github.com/eusn-stream/eusn-stream/internal/consumer"
	"github.com/eusn-stream/eusn-stream/internal/errtext"
	"github.com/eusn-stream/eusn-stream/internal/watch"
)

const (
	readBack    = 32 << 20         // bytes of existing predictions to read
	followedFor = 10 * time.Minute // after the last viewer has left
	followAgain = time.Second
	alarmsAgain = 15 * time.Second
	silentTime  = 2 * time.Second        // to read the machines of the alarm process
	firstWait   = 800 * time.Millisecond // a first list waits for the existing predictions
)

// followJob calls follow while the page is attached and viewed, or was viewed within
// followedFor. The context of follow ends with both.
func (p *Page) followJob(ctx context.Context, again time.Duration, follow func(context.Context, *Job) error, failed func(error)) {
	var started time.Time
	for {
		job, wake := p.job.Load(), p.viewed()
		if job != nil && p.isFollowed() && time.Since(started) >= again {
			started = time.Now()
			failed(p.followWhile(ctx, job, follow))
			continue
		}
		select {
		case <-ctx.Done():
			return
		case <-wake:
		case <-time.After(time.Second / 4):
		}
	}
}

// followWhile calls follow until the page is detached, or not viewed for followedFor.
func (p *Page) followWhile(ctx context.Context, job *Job, follow func(context.Context, *Job) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		tick := time.NewTicker(time.Second / 4)
		defer tick.Stop()
		for p.job.Load() == job && p.isFollowed() {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
		}
		cancel()
	}()
	err := follow(ctx, job)
	if ctx.Err() != nil {
		return nil
	}
	return err
}

// markViewed records a viewer's request, and wakes followJob.
func (p *Page) markViewed() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.lastViewed = time.Now()
	if p.wake != nil {
		close(p.wake)
		p.wake = nil
	}
}

// viewed returns a channel that the next request of a viewer closes.
func (p *Page) viewed() <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.wake == nil {
		p.wake = make(chan struct{})
	}
	return p.wake
}

// isFollowed reports whether the page was viewed within followedFor.
func (p *Page) isFollowed() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.viewers.hasViewers() {
		p.lastViewed = time.Now()
	}
	return !p.lastViewed.IsZero() && time.Since(p.lastViewed) < followedFor
}

// followOutput reads the newest predictions of the whole job into the table, and follows.
func (p *Page) followOutput(ctx context.Context, job *Job) error {
	try, cancel := context.WithTimeout(ctx, lookTime)
	from, whole, last, now, err := consumer.Newest(try, job.JS, p.options.Job, readBack)
	cancel()
	if err != nil {
		return err
	}
	t := &p.machines
	if t.next == 0 && from > 1 { // older predictions existed
		p.readSilent(ctx, job, from, now)
	}
	t.start(from, whole, time.Until(now))
	finish := func(seq uint64) {
		if seq >= last {
			t.finishReading()
		}
	}
	finish(t.next - 1)
	return consumer.Read(ctx, job.JS, p.options.Job, consumer.Span{From: t.next, Skip: func(f *consumer.ForeignError) { finish(f.Seq) }, Passed: finish}, func(o consumer.Output) error {
		t.addOutput(&o)
		finish(o.Seq)
		return nil
	})
}

// readSilent adds machines whose last prediction is older than the predictions to read, as far as
// the alarm process keeps their last prediction, and this worker may read it.
func (p *Page) readSilent(ctx context.Context, job *Job, from uint64, now time.Time) {
	ctx, cancel := context.WithTimeout(ctx, silentTime)
	defer cancel()
	_ = watch.ReadAllLatest(ctx, job.JS, p.options.Job, func(l *alarm.Latest) { // without it these machines are unknown
		if l.Position < from && now.Sub(l.Seen) > silentAlone {
			p.machines.addSilent(l)
		}
	})
}

// start prepares the table for reading; from is the first of the newest messages.
func (t *machines) start(from uint64, whole bool, ahead time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.ahead, t.why = ahead, ""
	switch {
	case t.next == 0:
		t.next, t.whole = from, whole
	case from > t.next: // too many messages since the last reading
		for _, m := range t.all {
			m.cut = true
		}
		t.next = from
	}
}

// finishReading records that the existing predictions have been read.
func (t *machines) finishReading() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.read {
		t.read = true
		close(t.ready)
	}
}

// awaitRead waits until the existing predictions have been read, for firstWait at most.
func (t *machines) awaitRead(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, firstWait)
	defer cancel()
	select {
	case <-t.ready:
	case <-ctx.Done():
	}
}

// failOutput records the reason why the output cannot be read.
func (p *Page) failOutput(err error) {
	if err == nil {
		return
	}
	p.machines.mu.Lock()
	defer p.machines.mu.Unlock()
	p.machines.why = shorten(errtext.For(err))
}

// followAlarms follows the alarm log.
func (p *Page) followAlarms(ctx context.Context, job *Job) error {
	t := &p.machines
	t.mu.Lock()
	t.alarms, t.watched = nil, true
	t.mu.Unlock()
	return watch.FollowAlarms(ctx, job.JS, p.options.Job, func(e alarm.Event) error {
		t.addEvent(&e)
		return nil
	})
}

// failAlarms records that the alarms are unknown.
func (p *Page) failAlarms(err error) {
	p.machines.mu.Lock()
	defer p.machines.mu.Unlock()
	p.machines.watched = err == nil || errors.Is(err, watch.ErrNoAlarms)
}
