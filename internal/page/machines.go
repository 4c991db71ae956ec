package page

import (
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/eusn-stream/eusn-stream/codec"
	"github.com/eusn-stream/eusn-stream/internal/alarm"
	"github.com/eusn-stream/eusn-stream/internal/consumer"
	"github.com/eusn-stream/eusn-stream/internal/names"
	"github.com/eusn-stream/eusn-stream/readout/outcome"
)

const (
	mostMachines = 50_000 // in the table, about 1 KB each
	keptPoints   = 32     // predictions of a machine, for its small trace
	novelLevel   = .001   // largest p-value of a novel prediction, as in the rules of docs/novelty.md
	newFor       = 15 * time.Minute

	// A machine is silent after silentTimes the longest recent time between two of its
	// predictions, and at least silentLeast; without such a time after silentAlone.
	silentTimes = 3
	silentLeast = 30 * time.Second
	silentAlone = time.Hour
)

// Condition is the condition of a machine; each machine has one. Flags come before classes:
// the class of a flagged prediction has no meaning.
type Condition uint8

// The conditions.
const (
	Normal Condition = iota
	NotNormal
	NotTrusted
	Silent
)

// conditionNames are the names of the conditions, in JSON and in queries.
var conditionNames = [...]string{"normal", "not-normal", "not-trusted", "silent"}

// classes are the classes of a message of predictions.
type classes struct {
	names  []string
	normal []bool // by class
	named  bool   // a class is normal; otherwise classes decide nothing
}

// newClasses finds the normal classes: the first class of a model of only healthy data, and
// healthy classes (names.IsHealthy).
func newClasses(labels []string) *classes {
	c := &classes{names: slices.Clone(labels), normal: make([]bool, len(labels))}
	for i, name := range labels {
		onlyHealthy := i == 0 && len(labels) == 2 && labels[1] == "novel"
		c.normal[i] = onlyHealthy || names.IsHealthy(name)
		c.named = c.named || c.normal[i]
	}
	return c
}

// judge returns the condition that a prediction shows.
func (c *classes) judge(p *codec.Prediction) Condition {
	switch p.Flags.Integrity() {
	case outcome.IntegrityUnknown, outcome.IntegrityUnlike, outcome.IntegrityGap, outcome.IntegrityPoisonSkipped, outcome.IntegrityHeld:
		return NotTrusted
	}
	switch {
	case p.Flags&outcome.FlagAbstain != 0:
		return NotTrusted
	case p.NoveltyP > 0 && p.NoveltyP <= novelLevel:
		return NotNormal
	case p.Number.Known || !c.named || p.Class >= 0 && int(p.Class) < len(c.normal) && c.normal[p.Class]:
		return Normal
	}
	return NotNormal
}

// nameOf returns the name of a prediction's class.
func (c *classes) nameOf(p *codec.Prediction) string {
	if p.Class < 0 || int(p.Class) >= len(c.names) {
		return "?"
	}
	return c.names[p.Class]
}

// point is a prediction of a machine's small trace.
type point struct {
	value float32 // a number; otherwise the probability of a fault, negative if unknown
	shows Condition
}

// machine is a stream, as its last predictions show it.
type machine struct {
	name        string
	first, last time.Time     // storage times of the first and the last prediction read
	longest     time.Duration // longest recent time between two predictions; 0 = unknown
	class       string
	probability float32
	number      outcome.Number
	noveltyP    float32
	flags       outcome.Flag
	shows       Condition
	since       time.Time // storage time of the first prediction of this condition and class
	sinceFirst  bool      // since is the first prediction read: the condition may be older
	cut         bool      // the next time between two predictions is unknown
	points      [keptPoints]point
	count       uint32 // predictions read
}

// addPrediction adds the next prediction of a machine.
func (m *machine) addPrediction(p *codec.Prediction, c *classes, at time.Time) {
	shows, class := c.judge(p), c.nameOf(p)
	if gap := at.Sub(m.last); !m.last.IsZero() && !m.cut && gap > 0 {
		if m.longest > 0 {
			gap = min(gap, m.silentAfter()) // an interruption is not usual
		}
		m.longest = max(gap, m.longest-gap/8)
	}
	m.cut = false
	if m.count == 0 || m.shows != shows || shows == NotNormal && m.class != class {
		m.since, m.sinceFirst = at, m.count == 0
	}
	m.shows, m.class, m.flags, m.last = shows, class, p.Flags, at
	m.probability, m.number, m.noveltyP = p.Probability, p.Number, p.NoveltyP
	v := p.Probability
	switch {
	case p.Number.Known:
		v = p.Number.Value
	case v == 0:
		v = -1
	case shows == Normal:
		v = 1 - v
	}
	m.points[m.count%keptPoints] = point{v, shows}
	m.count++
}

// silentAfter returns the time without a prediction after which the machine is silent.
func (m *machine) silentAfter() time.Duration {
	if m.longest == 0 {
		return silentAlone
	}
	return max(silentTimes*m.longest, silentLeast)
}

// activeAlarm is an alarm that is on.
type activeAlarm struct {
	Rule         string `json:"rule"`
	Acknowledged bool   `json:"acknowledged,omitempty"`
	Since        int64  `json:"since"` // ms since 1970
}

// machines is the table of all machines of a job, from its output and its alarm log.
type machines struct {
	mu      sync.Mutex
	all     map[string]*machine
	full    bool     // further machines are left out
	classes *classes // of the last message

	next    uint64        // the next message of the output; 0 = none was read
	from    time.Time     // storage time of the oldest predictions read
	whole   bool          // from is the begin of the output
	read    bool          // the existing output has been read
	ready   chan struct{} // closed with read
	ahead   time.Duration // of the server's clock
	why     string        // reason why the output cannot be read
	alarms  map[string][]activeAlarm
	watched bool // the alarm log is read
}

// addOutput adds a message of predictions.
func (t *machines) addOutput(o *consumer.Output) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.next = o.Seq + 1
	if len(o.Predictions) == 0 {
		return
	}
	if t.from.IsZero() {
		t.from = o.Stored
	}
	if t.classes == nil || !slices.Equal(t.classes.names, o.Meta.Labels) {
		t.classes = newClasses(o.Meta.Labels)
	}
	for i := range o.Predictions {
		p := &o.Predictions[i]
		m := t.all[p.Stream]
		if m == nil {
			if m = t.addMachine(p.Stream, o.Stored); m == nil {
				continue
			}
		}
		m.addPrediction(p, t.classes, o.Stored)
	}
}

// addMachine adds a machine; nil if the table is full.
func (t *machines) addMachine(name string, at time.Time) *machine {
	if len(t.all) >= mostMachines {
		t.full = true
		return nil
	}
	if t.all == nil {
		t.all = map[string]*machine{}
	}
	m := &machine{name: strings.Clone(name), first: at}
	t.all[m.name] = m
	return m
}

// addSilent adds a machine that is silent, with its last prediction.
func (t *machines) addSilent(l *alarm.Latest) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.all[l.Stream] != nil {
		return
	}
	m := t.addMachine(l.Stream, l.Seen)
	if m == nil {
		return
	}
	m.last, m.since, m.sinceFirst, m.cut = l.Seen, l.Seen, true, true
	m.class, m.probability, m.noveltyP = l.Class, l.Probability, l.NoveltyP
	if l.Estimate != nil {
		m.number = outcome.Number{Value: l.Value, Low: l.Low, High: l.High, Known: true}
	}
	for name := range strings.SplitSeq(l.Flags, "|") {
		if i := slices.Index(outcome.FlagNames[:], name); i >= 0 {
			m.flags |= 1 << i
		}
	}
}

// addEvent adds an event of the alarm log.
func (t *machines) addEvent(e *alarm.Event) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.alarms == nil {
		t.alarms = map[string][]activeAlarm{}
	}
	on := slices.DeleteFunc(t.alarms[e.Key], func(a activeAlarm) bool { return a.Rule == e.Rule })
	if e.Kind != alarm.Cleared {
		since := e.Since
		if since.IsZero() {
			since = e.Time
		}
		on = append(on, activeAlarm{e.Rule, e.Kind == alarm.Acknowledged, since.UnixMilli()})
	}
	if len(on) == 0 {
		delete(t.alarms, e.Key)
	} else {
		t.alarms[e.Key] = on
	}
}
