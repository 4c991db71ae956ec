package past

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/eusn-stream/eusn-stream/internal/explain"
)

// page is text for people: names, each followed by its text.
type page struct{ text strings.Builder }

func (p *page) writeLine(name, format string, args ...any) {
	fmt.Fprintf(&p.text, "%-12s%s\n", name, fmt.Sprintf(format, args...))
}

// text is an explanation for people, the most important first.
func text(e *explain.Explanation, job string, most int) string {
	p := &page{}
	p.writePrediction(&e.Prediction)
	p.writeRecomputed(e)
	p.writeOrigin(e, job)
	if e.Samples != nil {
		p.writeSamples(e.Samples, job)
	}
	if e.Score != nil {
		p.writeScore(e.Score, most)
		p.writeHeld(e)
		p.writeStretches(e, most)
	} else if s := e.Segments; s != nil {
		p.writeDifference(s.Class, s.RunnerUp, s.Score)
		p.writeShares("channels", s.Channels, max(most, 1))
		p.writeShares("segments", s.Segments, len(s.Segments))
	} else if e.HeldWhy != "" {
		p.writeLine("score", "it cannot be taken apart: %s", e.HeldWhy)
	}
	return strings.TrimSuffix(p.text.String(), "\n")
}

func (p *page) writePrediction(a *explain.Prediction) {
	certainty := ""
	if a.Probability > 0 {
		certainty = fmt.Sprintf(", probability %.3f", a.Probability)
	}
	p.writeLine(a.Stream, "class %q, score %.4g%s", a.Class, a.Score, certainty)
	flags := ""
	if a.Flags != "" {
		flags = " (" + a.Flags + ")"
	}
	at := "without a time"
	if a.Time != nil {
		at = "time " + stamp(*a.Time)
	}
	p.writeLine("", "seq %d, row %d, %s; integrity %s%s", a.Seq, a.Row, at, a.Integrity, flags)
}

func stamp(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000Z") }

// writeRecomputed reports the result of the recomputation.
func (p *page) writeRecomputed(e *explain.Explanation) {
	a := &e.Again
	from := fmt.Sprintf("from the log, which begins with message %d", a.Begins)
	if a.Snapshot != "" {
		from = fmt.Sprintf("from snapshot %s, which holds the state after message %d", a.Snapshot, a.After)
	}
	switch {
	case a.Same:
		p.writeLine("again", "computed again %s: the same scores, bit for bit", from)
	case a.Found:
		p.writeLine("again", "computed again %s: OTHER scores, class %q, because %s", from, a.Class, a.Why)
	default:
		p.writeLine("again", "not computed again: %s", a.Why)
	}
	if a.OtherFlags {
		p.writeLine("", "the flags would be %q now", a.Flags)
	}
	if a.OtherReadout {
		p.writeLine("", "by the log, another readout should have answered")
	}
}

// writeOrigin reports which worker made the prediction.
func (p *page) writeOrigin(e *explain.Explanation, job string) {
	c, r := &e.Commit, &e.Readout
	p.writeLine("commit", "output message %d of partition %d, stored %s; prediction %d of %d there, %d in the partition", c.Output, c.Partition, stamp(c.Stored), c.Index, c.Of, c.Number)
	p.writeLine("", "worker %s, claim %d of the partition; input is answered up to message %d", c.Worker, c.Epoch, c.InSeq)
	began := ""
	if r.First {
		began = ", with which the job began"
	}
	p.writeLine("readout", "%s of %s%s", r.Fingerprint, r.Model, began)
	switch {
	case r.Entry != nil:
		p.writeLine("", "published %s by %s%s; eusn-stream model show %.8s --job %s", stamp(r.Entry.When), r.Entry.Who, noted(r.Entry.Note), r.Fingerprint, job)
	default:
		p.writeLine("", "the job's registry does not have it")
	}
	if r.Promotion != nil {
		p.writeLine("", "promoted %s by %s (promotion %d)", stamp(r.Promotion.When), r.Promotion.Who, r.Promotion.Number)
	}
}

func noted(note string) string {
	if note == "" {
		return ""
	}
	return fmt.Sprintf(" (%s)", note)
}

func (p *page) writeSamples(s *explain.Samples, job string) {
	times := ""
	if s.From != nil && s.To != nil {
		times = fmt.Sprintf(", times %s to %s", stamp(*s.From), stamp(*s.To))
	}
	p.writeLine("samples", "%d%s; predicted by input message %d, stored %s", s.Count, times, s.By, stamp(s.ByTime))
	if n := len(s.Inputs); n > 0 {
		first, last := s.Inputs[0], s.Inputs[n-1]
		p.writeLine("", "from input message %d, row %d, to message %d, %s; in %s", first.Message, first.Row, last.Message, rows(last), parts(n))
		p.writeLine("", "to read one: nats stream get %s-IN %d (--json lists all)", strings.ToUpper(job), first.Message)
	}
	if s.Missing {
		why := "there are more than are kept"
		if !s.Whole {
			why = "the sequence began before what was read"
		}
		p.writeLine("", "not all of the messages are known: %s", why)
	}
}

func rows(i explain.Input) string {
	if i.Samples == 1 {
		return fmt.Sprintf("row %d", i.Row)
	}
	return fmt.Sprintf("the %d rows from %d on", i.Samples, i.Row)
}

func parts(n int) string {
	if n == 1 {
		return "one message"
	}
	return fmt.Sprintf("%d messages", n)
}

// writeDifference reports the scores of the class and of the next best class.
func (p *page) writeDifference(class, other string, score explain.Part) {
	p.writeLine("why", "the score of %q is %.4g above that of %q (%.4g and %.4g)", class, score.Difference, other, score.Class, score.RunnerUp)
}

// writeScore reports the contributions to the class.
func (p *page) writeScore(s *explain.Score, most int) {
	p.writeDifference(s.Class, s.RunnerUp, s.Score)
	p.writeLine("", "%+.4g bias, %+.4g features; + speaks for %q, - for %q", s.Bias.Difference, s.Features.Difference, s.Class, s.RunnerUp)
	if s.Limited > 0 {
		p.writeLine("", "%d of %d features are beyond what training lets count, and were limited", s.Limited, s.Of)
	}
	p.writeShares("kinds", s.Kinds, len(s.Kinds))
	if len(s.Channels) > 1 {
		p.writeShares("reading", s.Channels, max(most, 1))
	}
	strongest := slices.Clone(s.Members)
	slices.SortStableFunc(strongest, func(a, b explain.Member) int { return cmp.Compare(math.Abs(b.Difference), math.Abs(a.Difference)) })
	for i, m := range strongest[:min(most, len(strongest))] {
		name := ""
		if i == 0 {
			name = "members"
		}
		p.writeLine(name, "%+.4g  member %d (%s, reads %s)", m.Difference, m.Member, m.Kind, strings.Join(m.Channels, ", "))
	}
}

func (p *page) writeShares(name string, all []explain.Share, most int) {
	for i, s := range all[:min(most, len(all))] {
		if i > 0 {
			name = ""
		}
		p.writeLine(name, "%+.4g  %s", s.Difference, s.What)
	}
	if more := len(all) - most; more > 0 {
		p.writeLine("", "and %d more", more)
	}
}

// writeHeld reports the result without each channel.
func (p *page) writeHeld(e *explain.Explanation) {
	if e.HeldWhy != "" {
		p.writeLine("held", "no channel was held at its mean: %s", e.HeldWhy)
		return
	}
	for i, h := range e.Held {
		name := ""
		if i == 0 {
			name = "held"
		}
		becomes := ""
		if h.Class != e.Score.Class {
			becomes = fmt.Sprintf("; the class would be %q", h.Class)
		}
		p.writeLine(name, "%s at its training mean %.4g: %.4g instead of %.4g (%+.4g)%s", h.Channel, h.Value, h.Difference, e.Score.Score.Difference, h.Change, becomes)
	}
}

// writeStretches reports the most important part of the samples.
func (p *page) writeStretches(e *explain.Explanation, most int) {
	strongest := slices.Clone(e.Stretches)
	slices.SortStableFunc(strongest, func(a, b explain.Stretch) int { return cmp.Compare(math.Abs(b.Change), math.Abs(a.Change)) })
	for i, s := range strongest[:min(most, len(strongest))] {
		name := ""
		if i == 0 {
			name = "when"
		}
		becomes := ""
		if s.Class != e.Score.Class {
			becomes = fmt.Sprintf("; the class would be %q", s.Class)
		}
		p.writeLine(name, "%s at the means: %.4g (%+.4g)%s", stretch(s), s.Difference, s.Change, becomes)
	}
	if more := len(strongest) - most; more > 0 && most > 0 {
		p.writeLine("", "and %d more stretches", more)
	}
}

func stretch(s explain.Stretch) string {
	if s.To == s.From+1 {
		return fmt.Sprintf("sample %d", s.From)
	}
	return fmt.Sprintf("samples %d to %d", s.From, s.To-1)
}
