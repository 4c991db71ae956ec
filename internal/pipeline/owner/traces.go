package owner

import (
	"strconv"
	"time"

	"github.com/eusn-stream/eusn-stream/internal/pipeline/shard"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/wire"
	"github.com/eusn-stream/eusn-stream/internal/trace"
)

// mostUntold is how many messages of a partition may wait for the storage of their
// position before their spans are sent. Older spans are sent earlier: if the worker is
// killed then, they may be sent twice.
const mostUntold = 1024

// tracing makes the spans of traced messages, for an emitter.
type tracing struct {
	tracer  trace.Tracer // nil: no tracing
	job     string
	commits [][]commit // by partition.index: the current batch's commits with traced messages
}

// commit is one message of predictions.
type commit struct {
	context    trace.Context // in its headers; none: no traced message made a prediction in the commit
	several    bool          // context is of no input message
	from, to   int           // its predictions in the answer
	begin, end time.Time
}

// untold are the spans of an input message. They are sent when the position after the
// message is stored: a worker killed earlier has sent nothing, and the next owner,
// which reprocesses the message, sends the spans.
type untold struct {
	seq   uint64
	spans []*trace.Span
}

// beginCommit returns the trace headers of a message of predictions [from, to); nil =
// none. With a single traced input message, this trace continues. With several, no span
// is the parent of all, so the message has a separate trace, with links.
func (s *tracing) beginCommit(i int, a *shard.Answer, from, to int) wire.Header {
	if len(a.Traced) == 0 {
		return nil
	}
	c := commit{from: from, to: to, begin: time.Now()}
	first := (*shard.Traced)(nil)
	for k := range a.Traced {
		m := &a.Traced[k]
		if !m.HasPrediction(from, to) {
			continue
		}
		if first != nil {
			c.several = true
			break
		}
		first = m
	}
	var h wire.Header
	if first != nil {
		c.context = senderOf(first)
		if c.several {
			c.context = new(trace.Context).Child()
		}
		h = wire.Header{}
		c.context.Put(h)
	}
	s.commits[i] = append(s.commits[i], c)
	return h
}

// senderOf is the span of a message's commit.
func senderOf(m *shard.Traced) trace.Context {
	if !m.Sent.Valid() {
		m.Sent = m.Self.Child()
	}
	return m.Sent
}

// noteStored records the storage of the current commit.
func (s *tracing) noteStored(i int) {
	if s.tracer == nil {
		return
	}
	if n := len(s.commits[i]); n > 0 && s.commits[i][n-1].end.IsZero() {
		s.commits[i][n-1].end = time.Now()
	}
}

// finishCommit adds the spans of an answer to the waiting spans. For a failed
// partition, the next owner sends the spans.
func (s *tracing) finishCommit(i int, b *shard.Batch, a *shard.Answer, waiting []untold) []untold {
	commits := s.commits[i]
	s.commits[i] = commits[:0]
	if a.Part.Failed() {
		return nil
	}
	out := wire.OutputSubject(s.job, a.Part.State.ID)
	for k := range commits {
		if c := &commits[k]; c.several {
			s.tracer.Record(s.ofSeveral(c, a, out))
		}
	}
	for k := range a.Traced {
		if m := &a.Traced[k]; m.Seq > 0 {
			waiting = append(waiting, untold{m.Seq, s.makeSpans(b, a, m, commits, out)})
		}
	}
	return waiting
}

// sendSpans sends the spans of messages up to the stored position, and returns the
// rest.
func (s *tracing) sendSpans(waiting []untold, position uint64) []untold {
	n := 0
	for n < len(waiting) && (waiting[n].seq <= position || len(waiting)-n > mostUntold) {
		s.tracer.Record(waiting[n].spans...)
		waiting[n].spans = nil
		n++
	}
	if n == len(waiting) {
		return nil
	}
	return waiting[n:]
}

// ofSeveral returns the span of a commit with predictions of several traced messages.
func (s *tracing) ofSeveral(c *commit, a *shard.Answer, out string) *trace.Span {
	span := s.sendSpan(c.context, c, out)
	for k := range a.Traced {
		if m := &a.Traced[k]; m.HasPrediction(c.from, c.to) && len(span.Links) < trace.MostLinks {
			span.Links = append(span.Links, senderOf(m))
		}
	}
	return span
}

// sendSpan returns the span of a commit that sends predictions.
func (s *tracing) sendSpan(self trace.Context, c *commit, out string) *trace.Span {
	return &trace.Span{
		Name: "send " + s.job + ".out", Kind: trace.Producer, Context: self, Begin: c.begin, End: c.end,
		Attributes: append(trace.OfMessage("send", "send", out, s.job+".out"), trace.Text(trace.Job, s.job),
			trace.Text(trace.PartitionID, partitionOf(out)), trace.Number(trace.Predictions, c.to-c.from)),
	}
}

// partitionOf is the end of a subject.
func partitionOf(subject string) string {
	for i := len(subject) - 1; i >= 0; i-- {
		if subject[i] == '.' {
			return subject[i+1:]
		}
	}
	return subject
}

// makeSpans returns the spans of a message.
func (s *tracing) makeSpans(b *shard.Batch, a *shard.Answer, m *shard.Traced, commits []commit, out string) []*trace.Span {
	begin, in := m.Stored, s.job+".in"
	if m.Taken.Before(begin) { // the server's clock is ahead of ours
		begin = m.Taken
	}
	part := strconv.Itoa(a.Part.State.ID)
	process := &trace.Span{
		Name: "process " + in, Kind: trace.Consumer, Context: m.Self, Parent: m.Parent, Begin: begin, End: b.Computed, Error: m.Dead,
		Attributes: append(trace.OfMessage("process", "process", in+"."+part+"."+m.Key, in), trace.Text(trace.Job, s.job), trace.Text(trace.PartitionID, part),
			trace.Text(trace.Key, m.Key), trace.Number(trace.Input, m.Seq), trace.Number(trace.BodySize, m.Bytes), trace.Number(trace.Predictions, m.To-m.From)),
	}
	if m.Repeats {
		process.Attributes = append(process.Attributes, trace.Text(trace.Outcome, "repeat"))
	}
	wait := &trace.Span{Name: "wait", Context: m.Self.Child(), Parent: m.Self, Begin: begin, End: m.Taken}
	compute := &trace.Span{
		Name: "compute", Context: m.Self.Child(), Parent: m.Self, Begin: m.Taken, End: b.Computed,
		Attributes: []trace.Attribute{trace.Number(trace.BatchCount, b.Messages()), trace.Number(trace.Samples, b.Fx.Samples)},
	}
	all := []*trace.Span{process, wait, compute}
	if span := s.commitSpan(m, commits, out); span != nil {
		span.Parent, process.End = m.Self, span.End
		all = append(all, span)
	}
	return all
}

// commitSpan returns the span of a message's commit: of the commits with the message's
// predictions, otherwise of the last commit, with the position after the message; nil
// if the batch had no commit.
func (s *tracing) commitSpan(m *shard.Traced, commits []commit, out string) *trace.Span {
	var span *trace.Span
	for k := range commits {
		c := &commits[k]
		if !m.HasPrediction(c.from, c.to) && (m.From < m.To || k < len(commits)-1) {
			continue
		}
		switch {
		case span == nil && c.context.Valid() && !c.several && m.From < m.To:
			span = s.sendSpan(senderOf(m), c, out)
		case span == nil:
			span = &trace.Span{Name: "commit", Context: senderOf(m), Begin: c.begin, Attributes: []trace.Attribute{trace.Text(trace.Destination, out)}}
		}
		if span.End = c.end; c.several && m.From < m.To {
			span.Links = append(span.Links, c.context)
		}
	}
	return span
}
