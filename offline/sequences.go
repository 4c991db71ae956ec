package offline

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"sort"

	"github.com/eusn-stream/eusn-stream/internal/datafile"
	"github.com/eusn-stream/eusn-stream/internal/groups"
	"github.com/eusn-stream/eusn-stream/internal/sequence"
	"github.com/eusn-stream/eusn-stream/internal/track"
	"github.com/eusn-stream/eusn-stream/offline/archive"
	"github.com/eusn-stream/eusn-stream/readout/outcome"
	"github.com/eusn-stream/eusn-stream/reservoir"
)

// cutSequence is a sequence of a stream: its samples [from, to of the last point).
type cutSequence struct {
	id     string // of the stream
	from   int64
	row    int64 // the first row after the front end
	group  int   // if sequences are not pieces of one series
	points []point
	values []float32 // rows x channels: samples, none missing, after the front end
}

// point is the place of a prediction in a stream: the sequence then has the samples [from, to).
type point struct {
	k        int          // its number in the source, in the order of predictions
	from, to int64        // samples of the stream, from 0
	early    bool         // the sequence continues
	label    int          // class that all its samples have; -1 if there is none
	mixed    bool         // its samples have more than one label
	group    int          // points of one group are of one origin: never learn from one to judge another
	flags    outcome.Flag // of the prediction there
	rows     int64        // samples after the front end
	site     int          // the point's group; groups.None: none
	last     lastSample
	pace

	statistics []float32 // of the front end; empty: none
}

// pace is the timing of a point's samples.
type pace struct {
	period  float64 // mean time between two samples, ns; 0: not known
	longest int64   // longest time between two samples, ns
	time    int64   // of the last sample, ns; monitor.NoTime: unknown
}

// samples is the length of the sequence up to the point.
func (p *point) samples() int64 { return p.to - p.from }

// cutter cuts the streams of a source.
type cutter struct {
	*track.Tracker
	word     string // the word for a stream
	channels []string
	training bool          // keep only points to learn from: the last of each sequence, of one label
	keeps    bool          // the samples; else only the points are wanted
	prefixes bool          // training: keep the early points, too
	every    int           // training: samples from one kept point of a stream to the next; 0: all are kept
	share    float64       // training: of the points of each class that are kept; 0: all
	rows     func(*chunk)  // optional: gets the output of the front end
	sites    *groups.Table // of the groups that sequences are in; nil: none are asked for

	cutters map[int]*streamCutter // of the streams that have not ended
	points  int                   // kept so far
	origins int                   // so far
	kept    int                   // values in all buffers
	learned map[int]int           // points of each class, with the points that are not drawn
	counts
}

// counts are the counts of a source's contents.
type counts struct {
	streams   int    // that have ended
	samples   int64  // of all streams
	longest   int64  // samples of the longest stream
	rest      int64  // samples after the last point of their stream
	missing   int64  // values filled in
	empty     int    // streams without a single value
	heard     []bool // whether a channel has one
	mixed     int    // points not learned from: their samples have several labels
	unlabeled int    // points not learned from: their samples have none
	across    int    // labeled points in no group: their samples are of several; not learned from
	strays    int    // labeled points in no group: their samples have none
	stray     string // the stream of the first of these
}

// newCutter returns a cutter with the policy and front end of r. With Mean in r it
// keeps the samples.
func newCutter(t sampleSource, r track.Rules, training bool, channels []string) *cutter {
	r.Policy, r.Channels, r.Hold = t.policy(r.Policy), len(channels), true
	return &cutter{
		Tracker: track.NewTracker(r), word: t.word(), channels: channels, training: training, keeps: len(r.Mean) > 0,
		cutters: map[int]*streamCutter{}, learned: map[int]int{}, counts: counts{heard: make([]bool, len(channels))},
	}
}

// cut takes the next chunk of a stream. It appends ended sequences to done, and at the stream's end also open
// sequences with a prediction.
func (s *cutter) cut(done []*cutSequence, p *chunk) ([]*cutSequence, error) {
	c := s.cutters[p.stream]
	if c == nil {
		c = &streamCutter{cutter: s, open: make([]*cutSequence, s.Policy.States()), track: s.NewTrack(true)}
		s.cutters[p.stream] = c
	}
	if err := c.inspect(p); err != nil {
		return done, err
	}
	s.kept -= len(c.buffer)
	done, err := c.add(done, p)
	s.kept += len(c.buffer)
	s.samples += int64(len(p.labels))
	if err == nil && p.last {
		s.streams++
		s.longest = max(s.longest, c.at)
		s.rest += c.at - c.lastPoint
		if !c.any {
			s.empty++
		}
		delete(s.cutters, p.stream)
	}
	if s.kept > datafile.MaxValues {
		err = fmt.Errorf("offline: the open sequences of %d streams have more than %d values: end marks or another policy would cut them; stream %q alone has %d samples in them",
			len(s.cutters), datafile.MaxValues, p.id, len(c.buffer)/len(s.channels))
	}
	return done, err
}

// silent lists the channels without a single value.
func (s *cutter) silent() (names []string) {
	for c, heard := range s.heard {
		if !heard && s.samples > 0 {
			names = append(names, s.channels[c])
		}
	}
	return names
}

// streamCutter follows a stream.
type streamCutter struct {
	*cutter
	track track.Track
	open  []*cutSequence // one per state of the policy, nil if no sequence is open
	at    int64          // samples seen
	runs  []labelRun     // from the one that holds the last sample of the chunk before
	site  []labelRun     // the same for samples of one group

	buffer []float32 // samples, none missing, after the front end: from row base on
	base   int64
	row    int64   // rows that came out of the front end
	holes  []int32 // missing values of the chunk
	last   lastSample

	lastPoint int64 // samples up to the last point
	any       bool  // whether it has a value
}

// inspect refuses values that no network accepts, with their places, and records the channels with values.
func (c *streamCutter) inspect(p *chunk) error {
	k := len(c.channels)
	for i, v := range p.values {
		if v != v {
			continue
		}
		if !(v >= -reservoir.MaxInput && v <= reservoir.MaxInput) {
			return datafile.InContent(fmt.Errorf("offline: %s %q, sample %d, channel %q: value %v is out of range, want a magnitude of at most %g",
				c.word, p.id, c.at+int64(i/k), c.channels[i%k], v, float64(reservoir.MaxInput)))
		}
		c.any, c.heard[i%k] = true, true
	}
	return nil
}

// add is cutter.cut of a stream.
func (c *streamCutter) add(done []*cutSequence, p *chunk) ([]*cutSequence, error) {
	n := len(p.labels)
	if err := c.checkTimes(p); err != nil {
		return done, err
	}
	c.follow(p)
	c.followSites(p)
	pieces, rows := c.feed(p)
	for i := range pieces {
		u := &pieces[i]
		s := c.open[u.Phase]
		if u.Reset {
			s = &cutSequence{id: p.id, from: c.at + int64(u.From), row: c.row + int64(u.RowFrom), group: c.newGroup()}
			c.open[u.Phase] = s
		}
		if u.Emit {
			c.point(s, p, u)
		}
		if u.End {
			done = c.finish(done, s)
			c.open[u.Phase] = nil
		}
	}
	c.at += int64(n)
	c.row += int64(rows)
	c.last.pass(p)
	if p.last {
		for i, s := range c.open {
			if s != nil {
				done = c.finish(done, s)
				c.open[i] = nil
			}
		}
	}
	c.trim()
	return done, nil
}

// checkTimes requires the stage's conditions of times.
func (c *streamCutter) checkTimes(p *chunk) error {
	if c.Policy.Kind != reservoir.Gap || len(p.labels) == 0 {
		return nil
	}
	if i := slices.Index(p.times, archive.NoTime); i >= 0 || p.times == nil {
		return datafile.InContent(fmt.Errorf("offline: stream %q, sample %d has no time: the policy closes sequences by silence and needs the time of each sample", p.id, c.at+int64(max(i, 0))))
	}
	return nil
}

func (c *streamCutter) newGroup() int {
	c.origins++
	return c.origins - 1
}

// apart reports whether the policy's sequences have separate origins, as end marks and silence separate sequences.
// Sequences of other policies are pieces of continuous data.
func apart(k reservoir.PolicyKind) bool { return k == reservoir.Marked || k == reservoir.Gap }

// point notes a prediction of an open sequence.
func (c *streamCutter) point(s *cutSequence, samples *chunk, u *track.Piece) {
	to, early := c.at+int64(u.To), !u.End
	c.lastPoint = to
	i := sort.Search(len(c.runs), func(i int) bool { return c.runs[i].from >= to }) - 1 // holds sample to-1
	run := c.runs[i]
	p := point{k: c.points, from: s.from, to: to, early: early, label: run.label, group: run.group, mixed: run.from > s.from, flags: u.Flags, rows: c.row + int64(u.RowTo) - s.row}
	if p.mixed {
		p.label = -1
	}
	c.last.set(&p, samples, u)
	if u.To > 0 && samples.told != nil && samples.told[u.To-1] >= 0 {
		p.label, p.mixed = samples.told[u.To-1], false
	}
	if apart(c.Policy.Kind) {
		p.group = s.group
	}
	c.place(&p, s.id)
	p.pace = pace{u.Clock.Period(u.Time), u.Clock.Longest, u.Time}
	if u.End && samples.silent && int(u.To) == len(samples.labels) && apart(c.Policy.Kind) {
		p.flags |= outcome.FlagIdle
	}
	if c.wants(&p) {
		c.points++
		p.statistics = slices.Clone(u.Statistics)
		s.points = append(s.points, p)
	}
}

// wants reports whether to keep a point, and counts points that lack only a single label for training.
func (c *streamCutter) wants(p *point) bool {
	switch {
	case !c.training:
		return true
	case p.early && c.prefixes:
	case p.early != (c.Policy.Kind == reservoir.Endless): // an endless sequence has no other
		return false
	case c.every > 0 && (p.to-int64(c.Policy.Length))%int64(c.every) != 0:
		return false
	case p.mixed:
		c.mixed++
	case p.label < 0:
		c.unlabeled++
	}
	if p.label < 0 || c.sites != nil && p.site == groups.None {
		return false
	}
	return c.share == 0 || c.draw(p.label)
}

// fewest is the number of points of a class that are always drawn.
const fewest = 8

// draw reports whether the next point of a class is drawn. The draw has no period, because windows of equal streams have
// one.
func (c *cutter) draw(label int) bool {
	n := c.learned[label]
	c.learned[label]++
	return n < fewest || float64(rand.NewPCG(uint64(label), uint64(n)).Uint64()>>11)*0x1p-53 < c.share
}

// finish completes a sequence with its samples, if it has a point.
func (c *streamCutter) finish(done []*cutSequence, s *cutSequence) []*cutSequence {
	if len(s.points) == 0 {
		return done
	}
	if k := int64(len(c.channels)); c.keeps {
		from := s.row - c.base
		s.values = slices.Clone(c.buffer[from*k : (from+s.points[len(s.points)-1].rows)*k])
	}
	return append(done, s)
}

// feed moves the track of the stream on by a chunk. If samples are kept, the network's inputs are appended to the
// buffer.
func (c *streamCutter) feed(p *chunk) (pieces []track.Piece, rows int) {
	s := track.Samples{Samples: sequence.Samples{Count: len(p.labels), Times: p.times, Ends: p.ends}, Flags: p.flags}
	if !c.keeps {
		return c.Feed(&c.track, s)
	}
	kept := len(c.buffer)
	c.buffer = append(c.buffer, p.values...)
	s.X = c.buffer[kept:]
	c.holes = track.AppendMissing(c.holes[:0], s.X)
	c.missing += int64(len(c.holes))
	s.Missing = c.holes
	pieces, rows = c.Feed(&c.track, s)
	c.buffer = c.buffer[:kept+rows*len(c.channels)]
	if c.rows != nil {
		out := &chunk{stream: p.stream, values: c.buffer[kept:], counts: p.counts, last: p.last}
		for r, label := range p.labels {
			if c.RowsBefore(r+1) > c.RowsBefore(r) {
				out.labels = append(out.labels, label)
			}
		}
		c.rows(out)
	}
	return pieces, rows
}

// trim drops the samples that no open sequence needs.
func (c *streamCutter) trim() {
	base := c.row
	for _, s := range c.open {
		if s != nil {
			base = min(base, s.row)
		}
	}
	if k := int64(len(c.channels)); c.keeps && base > c.base {
		c.buffer = slices.Delete(c.buffer, 0, int((base-c.base)*k))
	}
	c.base = base
}
