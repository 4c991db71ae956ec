package pipeline

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/eusn-stream/eusn-stream/codec"
	"github.com/eusn-stream/eusn-stream/pipeline/internal/wire"
)

// Known loss: input that was removed, by age or by hand, before its partition
// had read it. The numbers of an input are those of all partitions together, so
// that input is missing behind a partition's last message does not say that any
// of it was the partition's. It may have been: what is not known to be complete
// is flagged. Every open sequence of the partition carries FlagGap, and so does
// the next of each stream it knows, and the first of each key it does not know.
// Keys whose producers number their messages are known to be complete where the
// next number comes, and have their gap flagged where it does not; only where a
// sequence is ended by silence, before a next message, it is flagged as others.
//
// What a replay repeats must not depend on what the input still held when a
// message was read, so each record names the messages before which something
// was lost, from the snapshot on that it names.

// interval is the input messages from..to.
type interval struct{ from, to uint64 }

// losses are the messages before each of which input of the partition may have
// been lost, ascending.
type losses []interval

const (
	// mostLosses bounds a record. Beyond them, every message counts as one that
	// follows a loss, until a snapshot is in use.
	mostLosses = 16
	onwards    = math.MaxUint64
)

// covers reports whether something may have been lost before a message.
func (l losses) covers(seq uint64) bool {
	for i := len(l) - 1; i >= 0; i-- {
		if seq >= l[i].from {
			return seq <= l[i].to
		}
	}
	return false
}

// add notes a loss before a message, which lies behind those noted; before is
// the partition's message before it.
func (l losses) add(before, seq uint64) losses {
	n := len(l)
	switch {
	case l.covers(seq):
		return l
	case n > 0 && l[n-1].to == before:
		l[n-1].to = seq
		return l
	case n >= mostLosses:
		return append(l, interval{seq, onwards})
	}
	return append(l, interval{seq, seq})
}

// saved lets go of what a snapshot in use holds, and ends with the one being
// taken, after message done, that every message counts.
func (l losses) saved(inUse, done uint64) losses {
	l = slices.DeleteFunc(l, func(s interval) bool { return s.to <= inUse })
	if n := len(l); n > 0 && n <= mostLosses/2 && l[n-1].to == onwards {
		l[n-1].to = done
	}
	return l
}

// String is empty, or as in "12 40-77 90-".
func (l losses) String() string {
	var words []string
	for _, s := range l {
		switch {
		case s.to == s.from:
			words = append(words, strconv.FormatUint(s.from, 10))
		case s.to == onwards:
			words = append(words, fmt.Sprintf("%d-", s.from))
		default:
			words = append(words, fmt.Sprintf("%d-%d", s.from, s.to))
		}
	}
	return strings.Join(words, " ")
}

// parseLosses reads what String wrote. It may come from anywhere.
func parseLosses(text string) (l losses, err error) {
	if len(text) > 64*mostLosses {
		return nil, fmt.Errorf("%d characters are too many", len(text))
	}
	for _, word := range strings.Fields(text) {
		first, last, ranged := strings.Cut(word, "-")
		s := interval{to: onwards}
		if s.from, err = strconv.ParseUint(first, 10, 64); err != nil {
			return nil, fmt.Errorf("%q is no number", first)
		}
		switch {
		case !ranged:
			s.to = s.from
		case last != "":
			if s.to, err = strconv.ParseUint(last, 10, 64); err != nil {
				return nil, fmt.Errorf("%q is no number", last)
			}
		}
		if n := len(l); s.to < s.from || n > 0 && s.from <= l[n-1].to {
			return nil, fmt.Errorf("%q is not in order", word)
		}
		l = append(l, s)
	}
	return l, nil
}

// follows says what a message means that may follow others that were lost;
// before is the partition's message before it.
func (s *shard) follows(m *message, before uint64) {
	p := m.p
	p.losses = p.losses.add(before, m.inSeq)
	p.lossy = true
	for _, src := range p.sources {
		if src.flags&codec.FlagGap == 0 {
			src.flags |= codec.FlagGap
			p.touchSource(src)
		}
		if src.last > 0 {
			continue // its numbers say whether any of its messages are missing
		}
		for _, st := range src.streams {
			if st.since&codec.FlagGap == 0 {
				st.since |= codec.FlagGap
				p.touch(st)
			}
		}
	}
	if !m.silent {
		s.counters.losses.Add(1)
		s.warn("input was removed before this partition had read as far (max_age, or by hand): what it may have had there is lost; the sequences it may belong to are flagged as gaps", "partition", p.id, "before", m.inSeq)
	}
}

// knows is what a partition knows of the input: up to this message, it has
// read all that is its own.
func (p *partition) knows() uint64 {
	n := p.replayTo
	if seq := p.came.load().Seq; seq > p.rests { // what a split commit rests on lies behind the state
		n = max(n, seq)
	}
	if e := p.empty.Load(); e != nil {
		n = max(n, e.to)
	}
	return n
}

// emptyAfter is up to where the partition is known to have no input behind its
// message seq; 0 = not known.
func (p *partition) emptyAfter(seq uint64) uint64 {
	if e := p.empty.Load(); e != nil && e.from == seq {
		return e.to
	}
	return 0
}

// lookBehind keeps apart, of partitions that hear nothing while the input's
// beginning is removed, those that had no message from those that have lost
// some: while all that lies behind a partition's last message is still there,
// it asks whether any of it is the partition's. The partition's record says so
// when half of the input lies behind what it said before. Partitions that the
// input's beginning draws near to, or has passed, ask with each message; see
// receive.
func (w *lookout) lookBehind(ctx context.Context, info *jetstream.StreamInfo) {
	in := info.State
	type silence struct {
		interval
		known uint64
	}
	found := map[*partition]silence{} // what is so if nothing was removed meanwhile
	for _, t := range w.tenures() {
		if !t.rebuilt.Load() || t.failed.Load() {
			continue
		}
		p := t.part
		at, known := p.came.load(), p.knows()
		p.doubt.Store(in.FirstSeq > known+1 || w.overtakes(info, at))
		silent := w.heard[p.id] == at
		w.heard[p.id] = at
		if silent && in.FirstSeq <= known+1 && known < in.LastSeq && len(found) < mostQuestions && !w.follow(ctx, p.id, known) {
			found[p] = silence{interval{at.Seq, in.LastSeq}, known}
		}
	}
	if len(found) == 0 {
		return
	}
	try, cancel := w.link.attempt(ctx)
	defer cancel()
	now, err := w.in.Info(try)
	if err != nil {
		return
	}
	for p, e := range found {
		if now.State.FirstSeq > e.known+1 {
			continue
		}
		p.empty.Store(&e.interval)
		if removed := info.Config.MaxAge > 0 || in.FirstSeq > 1; removed && e.to-max(e.from, p.told.Load()) > (in.LastSeq-in.FirstSeq)/2 {
			p.tell.Store(true)
		}
	}
}

// overtakes reports whether the input's beginning may reach a message by age
// before the next look but one. The times are the server's.
func (r *run) overtakes(info *jetstream.StreamInfo, at wire.Place) bool {
	age := info.Config.MaxAge
	return age > 0 && info.TimeStamp.Sub(time.Unix(0, at.Stored))+doubtLeases*r.cfg.Lease > age
}

const (
	// doubtLeases is how many leases before the input's beginning reaches it a
	// partition begins to ask, with each message, whether that has overtaken it:
	// more than one look, which is a lease away, and what a look takes.
	doubtLeases = 3
	// mostQuestions bounds what a look asks; which partitions come first is
	// left to chance.
	mostQuestions = 64
)

// follow reports whether the input may hold a message of a partition behind
// known.
func (r *run) follow(ctx context.Context, part int, known uint64) bool {
	try, cancel := r.link.attempt(ctx)
	defer cancel()
	_, err := r.in.GetMsg(try, known+1, jetstream.WithGetMsgSubject(wire.InputFilter(r.cfg.Job, part)))
	return !errors.Is(err, jetstream.ErrMsgNotFound)
}
