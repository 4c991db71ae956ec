package page

import (
	"cmp"
	"fmt"
	"math"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/eusn-stream/eusn-stream/pipeline"
)

const (
	pageRows   = 50
	mostGroups = 60
)

// Counts are numbers of machines. Each machine has one condition; a new machine counts twice.
type Counts struct {
	All        int `json:"all"`
	Normal     int `json:"normal"`
	NotNormal  int `json:"not_normal"`
	NotTrusted int `json:"not_trusted"`
	Silent     int `json:"silent"`
	New        int `json:"new"`
}

func (c *Counts) addMachine(of Condition, isNew bool) {
	c.All++
	switch of {
	case Normal:
		c.Normal++
	case NotNormal:
		c.NotNormal++
	case NotTrusted:
		c.NotTrusted++
	case Silent:
		c.Silent++
	}
	if isNew {
		c.New++
	}
}

// Plant is the summary of all machines of the job.
type Plant struct {
	Counts Counts `json:"counts"`
	Read   bool   `json:"read"`           // false: the existing predictions are being read
	Since  int64  `json:"since"`          // storage time of the oldest prediction read, ms since 1970; 0 = none
	Whole  bool   `json:"whole"`          // no older prediction exists
	Why    string `json:"why,omitempty"`  // reason why the predictions cannot be read
	Full   bool   `json:"full,omitempty"` // further machines are left out
	Late   Age    `json:"late_s"`         // the job's delay, which silence does not include
	Named  bool   `json:"normal_named"`   // a class of the model is normal; otherwise classes decide nothing
	Watch  bool   `json:"alarms_watched"` // the alarms are known
}

// Row is a machine in a list.
type Row struct {
	Name        string        `json:"name"`
	Condition   string        `json:"condition"`
	Class       string        `json:"class"`
	Probability float32       `json:"probability,omitempty"`
	Value       *float32      `json:"value,omitempty"` // a regression's
	NoveltyP    float32       `json:"novelty_p,omitempty"`
	Flags       string        `json:"flags,omitempty"`
	Since       int64         `json:"since"`              // of the condition, ms since 1970
	AtLeast     bool          `json:"at_least,omitempty"` // the condition may be older than Since
	Last        int64         `json:"last"`               // storage time of the last prediction, ms since 1970
	New         bool          `json:"new,omitempty"`
	Alarms      []activeAlarm `json:"alarms,omitempty"`
	// Trace has a number from 0 to 100 for each of the last predictions, oldest first: the
	// probability of a fault, or the value between the smallest and the largest; -1 = unknown.
	// Shows has the condition of each, as a digit.
	Trace []int  `json:"trace"`
	Shows string `json:"shows"`
}

// Group has the machines whose names have the same next token.
type Group struct {
	Name   string `json:"name"`
	Counts Counts `json:"counts"`
}

// List is a part of the machines that match a query, and the groups among all machines.
type List struct {
	Plant  Plant   `json:"plant"`
	Rows   []Row   `json:"rows"` // most urgent first
	From   int     `json:"from"`
	Match  int     `json:"match"`
	Groups []Group `json:"groups"`
	More   int     `json:"more_groups,omitempty"` // groups that are left out
}

// query selects machines.
type query struct {
	condition string // a name of conditionNames, "attention", "new" or "all"
	group     string // tokens with a dot after each
	part      string // of the name, lower case
	from      int
}

// Queries besides conditions.
const (
	attention = "attention"
	allNew    = "new"
	everyone  = "all"
)

// parseListQuery parses the query of /page/machines.
func parseListQuery(text string) (q query, err error) {
	values, err := url.ParseQuery(text)
	if err != nil {
		return q, fmt.Errorf("the query cannot be read: %s", shorten(err.Error()))
	}
	q.condition = attention
	for key, all := range values {
		v := all[0]
		switch {
		case len(all) > 1:
			return q, fmt.Errorf("%s is there %d times, want one", key, len(all))
		case len(v) > mostName:
			return q, fmt.Errorf("%s has %d bytes, want at most %d", key, len(v), mostName)
		}
		switch key {
		case "condition":
			if q.condition = v; !slices.Contains(append([]string{attention, allNew, everyone}, conditionNames[:]...), v) {
				return q, fmt.Errorf("condition %q, want %s, %s, %s or %s", shorten(v), strings.Join(conditionNames[:], ", "), attention, allNew, everyone)
			}
		case "group":
			q.group = v
		case "part":
			q.part = strings.ToLower(v)
		case "from":
			if q.from, err = strconv.Atoi(v); err != nil || q.from < 0 || q.from > mostMachines {
				return q, fmt.Errorf("from is %q, want a number from 0 to %d", shorten(v), mostMachines)
			}
		default:
			return q, fmt.Errorf("%q in the query, want condition, group, part or from", shorten(key))
		}
	}
	return q, nil
}

// matches reports whether a machine of the queried group matches.
func (q *query) matches(m *judged) bool {
	switch q.condition {
	case attention:
		if m.condition == Normal {
			return false
		}
	case allNew:
		if !m.isNew {
			return false
		}
	case everyone:
	default:
		if conditionNames[m.condition] != q.condition {
			return false
		}
	}
	return q.part == "" || strings.Contains(strings.ToLower(m.of.name), q.part)
}

// judged is a machine with its condition at one time.
type judged struct {
	of        *machine
	condition Condition
	began     int64 // when the condition began, ms since 1970
	rank      int   // the smallest is the most urgent
	isNew     bool
	alarms    []activeAlarm
}

// judge returns a machine's condition at a server time. now does not include the job's delay.
func (t *machines) judge(m *machine, now time.Time) judged {
	j := judged{of: m, condition: m.shows, began: m.since.UnixMilli()}
	if len(t.alarms) > 0 {
		j.alarms = t.alarms[m.name]
	}
	if len(j.alarms) > 0 && j.condition == Normal {
		j.condition, j.began = NotNormal, j.alarms[0].Since
	}
	if now.Sub(m.last) > m.silentAfter() {
		j.condition, j.began = Silent, m.last.UnixMilli()
	}
	j.rank = [...]int{NotNormal: 1, NotTrusted: 2, Silent: 3, Normal: 4}[j.condition]
	if slices.ContainsFunc(j.alarms, func(a activeAlarm) bool { return !a.Acknowledged }) {
		j.rank = 0
	}
	// A first prediction soon after the oldest one that was read shows no new machine.
	before := newFor
	if t.whole {
		before = time.Minute
	}
	j.isNew = now.Sub(m.first) < newFor && m.first.Sub(t.from) > before
	return j
}

// clock returns the server's time without the job's delay.
func (t *machines) clock(now time.Time, late time.Duration) time.Time {
	return now.Add(t.ahead - max(0, late))
}

// summarize returns the summary of all machines.
func (t *machines) summarize(now time.Time, late time.Duration) Plant {
	t.mu.Lock()
	defer t.mu.Unlock()
	p := t.newPlant(late)
	at := t.clock(now, late)
	for _, m := range t.all {
		j := t.judge(m, at)
		p.Counts.addMachine(j.condition, j.isNew)
	}
	return p
}

// newPlant returns a summary without counts.
func (t *machines) newPlant(late time.Duration) Plant {
	p := Plant{Read: t.read, Whole: t.whole, Why: t.why, Full: t.full, Late: lagAge(late), Named: t.classes == nil || t.classes.named, Watch: t.watched}
	if !t.from.IsZero() {
		p.Since = t.from.UnixMilli()
	}
	return p
}

// list returns the machines that match a query.
func (t *machines) list(q query, now time.Time, late time.Duration) List {
	t.mu.Lock()
	defer t.mu.Unlock()
	l := List{Plant: t.newPlant(late), Rows: []Row{}, From: q.from}
	at := t.clock(now, late)
	found := first{most: q.from + pageRows}
	groups := map[string]*Counts{}
	for _, m := range t.all {
		j := t.judge(m, at)
		l.Plant.Counts.addMachine(j.condition, j.isNew)
		rest, within := strings.CutPrefix(m.name, q.group)
		if !within {
			continue
		}
		if token, more, has := strings.Cut(rest, "."); has && token != "" && more != "" {
			if groups[token] == nil {
				groups[token] = new(Counts)
			}
			groups[token].addMachine(j.condition, j.isNew)
		}
		if q.matches(&j) {
			found.addMachine(j)
		}
	}
	l.Match = found.all
	sorted := found.sort()
	for _, j := range sorted[min(q.from, len(sorted)):] {
		l.Rows = append(l.Rows, j.row())
	}
	l.Groups, l.More = sortGroups(groups)
	return l
}

// first collects the most urgent machines.
type first struct {
	most, all int
	kept      []judged
}

// addMachine adds a machine. The kept machines are sorted from time to time, which is cheaper than
// sorting all.
func (f *first) addMachine(j judged) {
	f.all++
	if f.kept = append(f.kept, j); len(f.kept) >= 8*f.most {
		f.sort()
	}
}

// sort returns the most urgent machines, most urgent first: by rank, then the newest condition;
// normal machines by name.
func (f *first) sort() []judged {
	slices.SortFunc(f.kept, func(a, b judged) int {
		if a.rank == b.rank && (a.condition != Normal || b.condition != Normal) && a.began != b.began {
			return cmp.Compare(b.began, a.began)
		}
		return cmp.Or(cmp.Compare(a.rank, b.rank), strings.Compare(a.of.name, b.of.name))
	})
	f.kept = f.kept[:min(f.most, len(f.kept))]
	return f.kept
}

// sortGroups returns the groups with the most machines that need attention.
func sortGroups(all map[string]*Counts) (sorted []Group, more int) {
	sorted = make([]Group, 0, len(all))
	for name, c := range all {
		sorted = append(sorted, Group{name, *c})
	}
	slices.SortFunc(sorted, func(a, b Group) int {
		return cmp.Or(cmp.Compare(b.Counts.All-b.Counts.Normal, a.Counts.All-a.Counts.Normal), cmp.Compare(a.Name, b.Name))
	})
	if more = len(sorted) - mostGroups; more > 0 {
		return sorted[:mostGroups], more
	}
	return sorted, 0
}

// row returns the machine as a row of a list.
func (j *judged) row() Row {
	m := j.of
	r := Row{
		Name: m.name, Condition: conditionNames[j.condition], Class: m.class, Flags: m.flags.String(), New: j.isNew, Alarms: j.alarms,
		Since: j.began, AtLeast: m.sinceFirst && j.began == m.since.UnixMilli(), Last: m.last.UnixMilli(),
	}
	if isFinite(m.probability) {
		r.Probability = m.probability
	}
	if isFinite(m.noveltyP) {
		r.NoveltyP = m.noveltyP
	}
	if v := m.number.Value; m.number.Known && isFinite(v) {
		r.Value = &v
	}
	r.Trace, r.Shows = m.trace()
	return r
}

func isFinite(v float32) bool { return !math.IsNaN(float64(v)) && !math.IsInf(float64(v), 0) }

// trace returns Row.Trace and Row.Shows.
func (m *machine) trace() (values []int, shows string) {
	n := min(m.count, keptPoints)
	low, high := float32(0), float32(1)
	if m.number.Known {
		low, high = float32(math.Inf(1)), float32(math.Inf(-1))
		for i := range n {
			if v := m.points[i].value; isFinite(v) {
				low, high = min(low, v), max(high, v)
			}
		}
	}
	digits := make([]byte, 0, keptPoints)
	values = make([]int, 0, n)
	for i := m.count - n; i < m.count; i++ {
		p := m.points[i%keptPoints]
		share := -1
		switch f := float64(p.value-low) / float64(high-low); {
		case high == low:
			share = 50
		case f >= 0 && f <= 1:
			share = int(100*f + .5)
		}
		values, digits = append(values, share), append(digits, '0'+byte(p.shows))
	}
	return values, string(digits)
}

// lateness returns the job's delay: of all workers if known, otherwise of this worker.
func (p *Page) lateness() time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	if r := p.report; r != nil && r.Lag.Behind != nil {
		return time.Duration(*r.Lag.Behind * float64(time.Second))
	}
	if late := maxLag(&p.worker.status); late != pipeline.UnknownLag {
		return late
	}
	return 0
}
