package fleet

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/eusn-stream/eusn-stream/internal/gateway"
	"github.com/eusn-stream/eusn-stream/pipeline"
)

// Teller says what a process has to say of itself. A Responder calls it, one call at a
// time.
type Teller interface {
	// Role is the process' role, and name its name among the job's, where it has one.
	Role() (role, name string)
	// Note is called about once a second, for rates and marks.
	Note(now time.Time)
	// Tell adds to a Process what its role has to say. It must not wait for anything.
	Tell(p *Process)
}

// OfStage tells of the stage that counts into c.
func OfStage(c *pipeline.Counters) Teller { return &stageTeller{counters: c} }

type stageTeller struct {
	counters *pipeline.Counters
	meter    meter
	worker   string // the last one
	marks    []Mark
	rows     uint64    // that were answered
	answered time.Time // the last ones; zero = never
}

// answers notes whether samples were answered since the last call.
func (s *stageTeller) answers(now time.Time, stats *pipeline.Stats) {
	if stats.Rows > s.rows {
		s.answered = now
	}
	s.rows = stats.Rows
}

// Role implements Teller.
func (s *stageTeller) Role() (role, name string) { return RoleStage, s.worker }

// Note implements Teller.
func (s *stageTeller) Note(now time.Time) {
	stats, status := s.counters.Stats(), s.counters.Status()
	s.answers(now, &stats)
	s.meter.note(stageReading(now, &stats))
	if status.Worker != "" && status.Worker != s.worker {
		s.worker = status.Worker
		joined := Mark{now.UTC(), MarkJoined, cut("worker "+status.Worker+" with model "+status.ModelName+", readout "+status.Readout, mostText)}
		s.marks = slices.Insert(s.marks[:min(len(s.marks), MostMarks-1)], 0, joined)
	}
}

func stageReading(now time.Time, s *pipeline.Stats) reading {
	return reading{now, s.Messages, s.Rows, s.Predictions, s.Replayed}
}

// Tell implements Teller.
func (s *stageTeller) Tell(p *Process) {
	stats, status := s.counters.Stats(), s.counters.Status()
	why, now := status.Unready(), time.Now()
	s.answers(now, &stats)
	t := &Stage{
		Worker: status.Worker, Ready: len(why) == 0, Engines: status.Engines, Phases: map[string]int{},
		Model: Model{cut(status.ModelName, mostName), status.Model, cut(status.Readout, mostName), status.Arithmetic},
		Lag:   stats.Lag, Answered: -1, Rates: s.meter.rates(stageReading(now, &stats)),
		Totals: Totals{
			Messages: stats.Messages, Samples: stats.Rows, Predictions: stats.Predictions, DeadLetters: stats.DeadLetters, Duplicates: stats.Duplicates,
			Gaps: stats.Gaps, Losses: stats.Losses, Retries: stats.Retries, Claims: stats.Claims, Fenced: stats.Fenced, Replayed: stats.Replayed,
		},
		Flags: stats.FlaggedBy, Classes: most(stats.PredictionsOf, MostClasses),
		Streams: stats.Streams, MaxStreams: status.MaxStreams, Idle: stats.Idle, Behind: stats.ReplicasBehind,
	}
	if !s.answered.IsZero() {
		t.Answered = now.Sub(s.answered).Seconds()
	}
	for _, w := range why[:min(len(why), MostReasons)] {
		t.Unready = append(t.Unready, cut(w, mostText))
	}
	for _, h := range status.Partitions {
		t.Phases[string(h.Phase)]++
		t.Partitions = append(t.Partitions, partitionOf(h))
	}
	t.Partitions, t.LeftOut = worst(t.Partitions, MostPartitions)
	for _, sh := range s.counters.Shadows() {
		t.Shadows = append(t.Shadows, Shadow{sh.Readout, sh.Predictions, sh.Missed, sh.Agreeing})
	}
	t.Shadows = t.Shadows[:min(len(t.Shadows), pipeline.MostShadows)]
	p.Stage, p.Marks = t, append(p.Marks, s.marks...)
}

// partitionOf is what a worker says of a partition.
func partitionOf(h pipeline.PartitionHealth) Partition {
	p := Partition{Partition: h.Partition, Phase: string(h.Phase), Epoch: h.Epoch, Lag: h.Lag}
	if !h.Unsaved.IsZero() {
		p.Unsaved = max(0, time.Since(h.Unsaved).Seconds())
	}
	if h.LagTime != pipeline.UnknownLag {
		behind := h.LagTime.Seconds()
		p.Behind = &behind
	}
	switch {
	case h.Err != nil:
		p.Why = cut(h.Err.Error(), mostText)
	case h.Waiting != "":
		p.Why = cut("publish failed, retrying: "+h.Waiting, mostText)
	}
	return p
}

// reads reports whether a partition is worked on as it should be.
func (p *Partition) reads() bool {
	return p.Phase == string(pipeline.Reading) && p.Why == ""
}

// worst leaves those out that need nobody, where there are more than so many: those that
// are read, with the least lag. The others stay in order of their numbers.
func worst(all []Partition, n int) (kept []Partition, left int) {
	if left = len(all) - n; left > 0 {
		slices.SortStableFunc(all, func(a, b Partition) int { return urgent(&a, &b) })
		all = all[:n]
	}
	slices.SortFunc(all, func(a, b Partition) int { return cmp.Compare(a.Partition, b.Partition) })
	return all, max(0, left)
}

// urgent compares partitions: those that are not read come first, then those with most
// messages that wait.
func urgent(a, b *Partition) int {
	if a.reads() != b.reads() {
		return map[bool]int{true: 1, false: -1}[a.reads()]
	}
	return cmp.Compare(b.Lag, a.Lag)
}

// most are the n most frequent.
func most(counts map[string]uint64, n int) Counts {
	if len(counts) <= n {
		return counts
	}
	names := slices.SortedFunc(maps.Keys(counts), func(a, b string) int {
		return cmp.Or(cmp.Compare(counts[b], counts[a]), cmp.Compare(a, b))
	})
	out := Counts{}
	for _, name := range names[:n] {
		out[name] = counts[name]
	}
	return out
}

// OfGateway tells of a gateway with those counters.
func OfGateway(stats func() gateway.Stats) Teller { return &gatewayTeller{stats: stats} }

type gatewayTeller struct {
	stats func() gateway.Stats
	meter meter
}

// Role implements Teller.
func (*gatewayTeller) Role() (role, name string) { return RoleGateway, "" }

// Note implements Teller.
func (g *gatewayTeller) Note(now time.Time) {
	s := g.stats()
	g.meter.note(gatewayReading(now, &s))
}

func gatewayReading(now time.Time, s *gateway.Stats) reading {
	r := reading{at: now, samples: s.Samples}
	for _, n := range s.Messages {
		r.messages += n
	}
	return r
}

// Tell implements Teller.
func (g *gatewayTeller) Tell(p *Process) {
	s := g.stats()
	p.Gateway = &Gateway{
		Messages: s.Messages, Refused: s.Refused, Samples: s.Samples, Unreadable: s.Unreadable, Dropped: s.Dropped, Missed: s.Missed,
		HoldingBack: s.HoldingBack, Waiting: s.Waiting, OutboxBytes: s.OutboxBytes, Rates: g.meter.rates(gatewayReading(time.Now(), &s)),
	}
}

// OfAlarms tells of a process of alarms, which says itself what it has done.
func OfAlarms(watched func() Watch) Teller { return watchTeller(watched) }

type watchTeller func() Watch

// Role implements Teller.
func (watchTeller) Role() (role, name string) { return RoleAlarms, "" }

// Note implements Teller.
func (watchTeller) Note(time.Time) {}

// Tell implements Teller.
func (w watchTeller) Tell(p *Process) {
	now := w()
	p.Watch = &now
}
