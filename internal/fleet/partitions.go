package fleet

import (
	"cmp"
	"slices"
	"sync"
	"time"

	"github.com/eusn-stream/eusn-stream/internal/admin"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/store"
	"github.com/eusn-stream/eusn-stream/pipeline"
)

const (
	atOnce      = 32  // concurrent requests to the server
	mostRecords = 256 // partitions whose record is read
	mostOldest  = 256 // partitions whose oldest waiting message is requested
)

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
		l.report.Partitions.Lost, l.report.Partitions.Regain = l.lost.What, AdviseLost(l.lost)
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
