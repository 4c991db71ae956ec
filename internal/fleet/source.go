package fleet

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/eusn-stream/eusn-stream/internal/errtext"
	"github.com/eusn-stream/eusn-stream/internal/gateway"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/wire"
	"github.com/eusn-stream/eusn-stream/pipeline"
)

// Source provides the status of a process. A Responder makes one call at a time.
type Source interface {
	// Role returns the process's role, and its name in the job, if any.
	Role() (role, name string)
	// Sample reads the counters, about once a second, for rates and marks.
	Sample(now time.Time)
	// AddStatus adds the role's status to a Process. It must not block.
	AddStatus(p *Process)
}

// NewStageSource returns the Source of a stage with counters c.
func NewStageSource(c *pipeline.Counters) Source { return &stageSource{counters: c} }

type stageSource struct {
	counters *pipeline.Counters
	meter    meter
	worker   string // last name
	marks    []Mark
	rows     uint64    // answered samples
	answered time.Time // time of the last answers; zero = never
}

// noteAnswers records whether samples were answered since the last call.
func (s *stageSource) noteAnswers(now time.Time, stats *pipeline.Stats) {
	if stats.Rows > s.rows {
		s.answered = now
	}
	s.rows = stats.Rows
}

// Role implements Source.
func (s *stageSource) Role() (role, name string) { return RoleStage, s.worker }

// Sample implements Source.
func (s *stageSource) Sample(now time.Time) {
	stats, status := s.counters.Stats(), s.counters.Status()
	s.noteAnswers(now, &stats)
	s.meter.addReading(stageReading(now, &stats))
	if status.Worker != "" && status.Worker != s.worker {
		s.worker = status.Worker
		joined := Mark{now.UTC(), MarkJoined, cutLine("worker "+status.Worker+" with model "+status.ModelName+", readout "+status.Readout, mostText)}
		s.marks = slices.Insert(s.marks[:min(len(s.marks), MostMarks-1)], 0, joined)
	}
}

func stageReading(now time.Time, s *pipeline.Stats) reading {
	return reading{now, s.Messages, s.Rows, s.Predictions, s.Replayed}
}

// AddStatus implements Source.
func (s *stageSource) AddStatus(p *Process) {
	stats, status := s.counters.Stats(), s.counters.Status()
	why, now := status.Unready(), time.Now()
	s.noteAnswers(now, &stats)
	t := &Stage{
		Worker: status.Worker, Ready: len(why) == 0, Engines: status.Engines, Phases: map[string]int{},
		Model: Model{cutLine(status.ModelName, mostName), status.Model, cutLine(status.Readout, mostName), status.Arithmetic},
		Lag:   stats.Lag, Answered: -1, Rates: s.meter.computeRates(stageReading(now, &stats)),
		Totals: Totals{
			Messages: stats.Messages, Samples: stats.Rows, Predictions: stats.Predictions, DeadLetters: stats.DeadLetters, Duplicates: stats.Duplicates,
			Gaps: stats.Gaps, Losses: stats.Losses, Retries: stats.Retries, Claims: stats.Claims, Fenced: stats.Fenced, Replayed: stats.Replayed,
		},
		Flags: stats.FlaggedBy, Classes: mostFrequent(stats.PredictionsOf, MostClasses),
		Streams: stats.Streams, MaxStreams: status.MaxStreams, Idle: stats.Idle, Behind: stats.ReplicasBehind,
	}
	if !s.answered.IsZero() {
		t.Answered = now.Sub(s.answered).Seconds()
	}
	for _, w := range why[:min(len(why), MostReasons)] {
		t.Unready = append(t.Unready, cutLine(w, mostText))
	}
	for _, h := range status.Partitions {
		t.Phases[string(h.Phase)]++
		t.Partitions = append(t.Partitions, newPartition(h))
	}
	t.Partitions, t.LeftOut = keepWorst(t.Partitions, MostPartitions)
	for _, sh := range s.counters.Shadows() {
		t.Shadows = append(t.Shadows, Shadow{sh.Readout, sh.Predictions, sh.Missed, sh.Agreeing})
	}
	t.Shadows = t.Shadows[:min(len(t.Shadows), wire.MostShadows)]
	p.Stage, p.Marks = t, append(p.Marks, s.marks...)
}

// newPartition returns a worker's status of a partition.
func newPartition(h pipeline.PartitionHealth) Partition {
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
		p.Why = cutLine(errtext.For(h.Err), mostText)
	case h.Waiting != "":
		p.Why = cutLine("publish failed, retrying: "+h.Waiting, mostText)
	}
	return p
}

// isHealthy reports whether a partition is read and answered.
func (p *Partition) isHealthy() bool {
	return p.Phase == string(pipeline.Reading) && p.Why == ""
}

// keepWorst keeps n partitions in order of numbers: if there are more, it drops read partitions
// with the smallest lag.
func keepWorst(all []Partition, n int) (kept []Partition, left int) {
	if left = len(all) - n; left > 0 {
		slices.SortStableFunc(all, func(a, b Partition) int { return compareUrgency(&a, &b) })
		all = all[:n]
	}
	slices.SortFunc(all, func(a, b Partition) int { return cmp.Compare(a.Partition, b.Partition) })
	return all, max(0, left)
}

// compareUrgency compares partitions: partitions that are not read are first, then those with the
// most waiting messages.
func compareUrgency(a, b *Partition) int {
	if a.isHealthy() != b.isHealthy() {
		return map[bool]int{true: 1, false: -1}[a.isHealthy()]
	}
	return cmp.Compare(b.Lag, a.Lag)
}

// mostFrequent returns the n most frequent names.
func mostFrequent(counts map[string]uint64, n int) Counts {
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

// NewGatewaySource returns the Source of a gateway with counters stats.
func NewGatewaySource(stats func() gateway.Stats) Source { return &gatewaySource{stats: stats} }

type gatewaySource struct {
	stats func() gateway.Stats
	meter meter
}

// Role implements Source.
func (*gatewaySource) Role() (role, name string) { return RoleGateway, "" }

// Sample implements Source.
func (g *gatewaySource) Sample(now time.Time) {
	s := g.stats()
	g.meter.addReading(gatewayReading(now, &s))
}

func gatewayReading(now time.Time, s *gateway.Stats) reading {
	r := reading{time: now, samples: s.Samples}
	for _, n := range s.Messages {
		r.messages += n
	}
	return r
}

// AddStatus implements Source.
func (g *gatewaySource) AddStatus(p *Process) {
	s := g.stats()
	p.Gateway = &Gateway{
		Messages: s.Messages, Refused: s.Refused, Samples: s.Samples, Unreadable: s.Unreadable, Dropped: s.Dropped, Missed: s.Missed,
		HoldingBack: s.HoldingBack, Unwritable: s.Unwritable, Waiting: s.Waiting, OutboxBytes: s.OutboxBytes, Rates: g.meter.computeRates(gatewayReading(time.Now(), &s)),
	}
}

// NewAlarmsSource returns the Source of an alarm process with its own status function.
func NewAlarmsSource(watched func() Watch) Source { return alarmsSource(watched) }

type alarmsSource func() Watch

// Role implements Source.
func (alarmsSource) Role() (role, name string) { return RoleAlarms, "" }

// Sample implements Source.
func (alarmsSource) Sample(time.Time) {}

// AddStatus implements Source.
func (w alarmsSource) AddStatus(p *Process) {
	now := w()
	p.Watch = &now
}
