package pipeline

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/eusn-stream/eusn-stream/internal/pipeline/owner"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/store"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/wire"
)

// manager starts the ownerships of the partitions assigned to this worker and stops the
// ownerships assigned to other workers.
type manager struct {
	run      *run
	owned    map[int]*owner.Ownership
	stopped  map[int]error // partitions that must not continue
	deferred map[int]*deferral
	probing  atomic.Bool
	told     atomic.Bool           // the stage's reading was announced
	beside   sync.WaitGroup        // goroutines that call Ready, sweep, probe, and watch
	broken   atomic.Pointer[error] // the watch's error
	sweeper  sweeper

	renewed time.Time // as in Status
	warned  time.Time // time of the warning that the lease was not renewed
	share   []int     // assigned partitions, as last known; never modified

	follower   follower
	unfinished int // partitions whose last commit or release the server did not answer in time
}

// managePartitions works until ctx ends and everything is released, or until the shards have
// ended. last limits requests after the end of ctx.
func (r *run) managePartitions(ctx, last context.Context) error {
	m := &manager{run: r, owned: map[int]*owner.Ownership{}, stopped: map[int]error{}, deferred: map[int]*deferral{}}
	ctx, cancel := context.WithCancel(ctx)
	defer m.beside.Wait()
	defer cancel() // parallel work is not awaited after an engine failure
	m.beside.Go(func() {
		if err := newMonitor(r.owners, r.began, r.shownOwnerships, r.countInterruptions).watchStreams(ctx); err != nil {
			m.broken.Store(&err)
		}
	})
	m.beside.Go(func() { owner.NewOldestWatch(r.owners).WatchOldest(ctx, r.shownOwnerships) })
	tick := time.NewTicker(min(r.cfg.Lease/3, time.Second))
	defer tick.Stop()
	for {
		m.reapEnded()
		if err := r.conns.closedError(); err != nil && ctx.Err() == nil {
			r.cut() // no answer will come
			m.leaveJob(last)
			return err
		}
		err := m.abandonAll()
		if m.broken.Load() == nil {
			err = m.takeTurn(ctx)
		}
		m.publishView()
		if err != nil {
			m.leaveJob(last)
			return err
		}
		select {
		case <-ctx.Done():
			m.leaveJob(last)
			return m.stoppedErrors()
		case <-r.workers.Done():
			m.leaveJob(last)
			return m.stoppedErrors()
		case <-tick.C:
		}
	}
}

// abandonAll stops every partition when a NATS stream of the job is lost, and
// returns why when none is left.
func (m *manager) abandonAll() error {
	broken := m.broken.Load()
	if broken == nil {
		return nil
	}
	for _, t := range m.owned {
		t.Fail(*broken)
	}
	if len(m.owned) > 0 {
		return nil
	}
	return fmt.Errorf("%w\npipeline: none of this worker's partitions can continue", *broken)
}

// leaveJob releases everything and removes this worker from the list.
func (m *manager) leaveJob(last context.Context) {
	m.releaseAll()
	if m.unfinished > 0 {
		m.run.log.Warn("stopped before the server answered: the partitions were not released. Their next owner waits until the lease ends, and repeats the uncommitted work. Nothing is lost", "partitions", m.unfinished)
	}
	try, cancel := context.WithTimeout(last, m.run.cfg.Lease)
	defer cancel()
	if err := m.run.members.removeSelf(try); err != nil {
		m.run.log.Debug("did not leave the job's workers; the lease ends by itself", "err", err)
	}
}

// takeTurn renews the lease and follows the assignment. While the server is
// unavailable, ownerships stay; if other workers have taken over, the fence reports the
// loss.
func (m *manager) takeTurn(ctx context.Context) error {
	try, cancel := context.WithTimeout(ctx, m.run.cfg.Lease)
	defer cancel()
	workers, ok := m.renewLease(ctx, try)
	if !ok {
		return nil
	}
	m.share = nil
	for p, owner := range assignOwners(workers, m.run.cfg.Partitions) {
		if owner == m.run.self.worker {
			m.share = append(m.share, p)
		}
	}
	common := m.run.owners.Common
	if common.SetWhole(len(m.share) == m.run.cfg.Partitions); len(m.owned) == 0 {
		common.ExpectPartitions(len(m.share))
	}
	m.publishView() // before any release: Status must show the new share first
	m.followShare(ctx)
	canContinue := func(p int) bool { return m.stopped[p] == nil }
	if len(m.stopped) > 0 && len(m.owned) == 0 && !slices.ContainsFunc(m.share, canContinue) {
		return errors.Join(m.stoppedErrors(), fmt.Errorf("pipeline: none of this worker's partitions can continue"))
	}
	m.followEntry(try)
	m.sweepOrphans(ctx)
	return nil
}

// renewLease renews the lease within try, and returns the living workers.
func (m *manager) renewLease(ctx, try context.Context) (workers []string, ok bool) {
	workers, err := m.run.members.renewLease(try)
	now := time.Now()
	if err == nil {
		m.renewed, m.warned = now, time.Time{}
	} else if ctx.Err() == nil && now.Sub(m.warned) >= store.ToldEvery {
		m.warned = now
		m.run.log.Warn("lease not renewed: other workers may take over the partitions of this one", "err", err)
	}
	return workers, err == nil
}

// followShare starts the ownerships of this worker's share, and stops all others.
func (m *manager) followShare(ctx context.Context) {
	started, reading := false, new(sync.WaitGroup)
	for p := range m.run.cfg.Partitions {
		t := m.owned[p]
		_, assigned := slices.BinarySearch(m.share, p)
		switch {
		case assigned && t != nil:
			t.Tick()
			m.resetDeferral(p, t)
		case assigned:
			if m.stopped[p] == nil && !m.isDeferred(ctx, p) {
				m.startOwnership(p, reading)
				started = true
			}
		default:
			delete(m.deferred, p)
			if t != nil {
				t.Stop()
			}
		}
	}
	if started {
		m.announceReady(reading)
	}
}

// followEntry applies the promotions and shadows in the job's entry.
func (m *manager) followEntry(ctx context.Context) {
	r := m.run
	e, _, err := store.ReadEntry(ctx, r.server.Out, r.cfg.Job)
	if err != nil {
		r.log.Debug("the job's entry cannot be read; it is read again", "err", err)
		return
	}
	if newest := m.follower.newestPromotion(&e, r.self.readouts, r.log); newest.Number > 0 {
		for _, t := range m.owned {
			t.PublishPromotion(newest)
		}
	}
	r.setShadows(&m.follower.shadowed, &e)
}

// setShadows makes the shards score the shadows in a job's entry. The result reports
// unfinished reads.
func (r *run) setShadows(f *shadowed, e *wire.Entry) (reading bool) {
	all, other := f.shadowsOf(e, r.self.readouts, r.self.readout, r.log)
	if other {
		for _, one := range *all {
			r.shown.shadows.CountersOf(one.Name) // counted from now on
		}
		for _, s := range r.shards {
			s.SetShadows(all)
		}
	}
	return f.reading
}

// shadowWait is how long a worker's start waits for the readouts of shadows, so that
// shadows score from the first prediction on.
const shadowWait = 5 * time.Second

// openShadows makes the shards score the job's shadows before the first prediction.
func (r *run) openShadows(ctx context.Context) error {
	e, _, err := store.ReadEntry(ctx, r.server.Out, r.cfg.Job)
	if err != nil {
		return err
	}
	f, late := new(shadowed), time.Now().Add(shadowWait)
	for r.setShadows(f, &e) && time.Now().Before(late) && ctx.Err() == nil {
		_ = store.Pause(ctx, 10*time.Millisecond)
	}
	return ctx.Err()
}

// startOwnership begins an ownership; reading is done when its reading has begun or the
// ownership has ended.
func (m *manager) startOwnership(p int, reading *sync.WaitGroup) {
	t := owner.New(context.WithoutCancel(m.run.workers), m.run.owners, m.run.shards[p%m.run.cfg.Shards], p, p/m.run.cfg.Shards)
	m.owned[p] = t
	reading.Add(1)
	var once sync.Once
	done := func() { once.Do(reading.Done) }
	go func() {
		defer done()
		guardPanic(t.Fail, func() error {
			t.HoldPartition(done)
			return nil
		})()
	}()
}

// announceReady calls Ready, once, when the partitions of the first turn that began any are
// being read, or have ended.
func (m *manager) announceReady(reading *sync.WaitGroup) {
	m.sweeper.due = true
	if m.told.Load() {
		return
	}
	m.beside.Go(func() {
		reading.Wait()
		owned := m.run.counters.Owned.Load()
		if owned == 0 || !m.told.CompareAndSwap(false, true) {
			return
		}
		m.run.log.Info("stage is reading", "job", m.run.cfg.Job, "worker", m.run.self.worker, "partitions", owned, "of", m.run.cfg.Partitions,
			"shards", m.run.cfg.Shards, "model", m.run.worker.ModelName, "engine", m.run.self.engine)
		if m.run.worker.Ready != nil {
			m.run.worker.Ready()
		}
	})
}

// reapEnded processes ended ownerships: a fenced partition may be reclaimed if still
// assigned to this worker, a stopped partition may not.
func (m *manager) reapEnded() {
	for p, t := range m.owned {
		select {
		case <-t.Ended:
		default:
			continue
		}
		delete(m.owned, p)
		err := t.Err()
		if !errors.Is(err, store.ErrLater) {
			delete(m.deferred, p)
		}
		switch {
		case err == nil:
		case errors.Is(err, store.ErrUnfinished):
			m.unfinished++
		case errors.Is(err, store.ErrLater):
			m.backOff(p, err)
		case errors.Is(err, store.ErrFenced):
			m.run.counters.Fenced.Add(1)
			m.run.log.Warn("partition was taken over by another worker", "partition", p, "err", err)
		default:
			m.stopped[p] = err
			m.run.counters.Stopped.Add(1)
			m.run.log.Error("partition stopped: no predictions until this is fixed", "partition", p, "err", err)
		}
	}
}

// releaseAll stops all ownerships and waits for their end.
func (m *manager) releaseAll() {
	for _, t := range m.owned {
		t.Stop()
	}
	for _, t := range m.owned {
		<-t.Ended
	}
	m.reapEnded()
}

func (m *manager) stoppedErrors() error {
	var errs []error
	for p := range m.run.cfg.Partitions {
		if err := m.stopped[p]; err != nil {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}
