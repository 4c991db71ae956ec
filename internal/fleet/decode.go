package fleet

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode"

	"github.com/eusn-stream/eusn-stream/internal/pipeline/store"
	"github.com/eusn-stream/eusn-stream/pipeline"
)

const (
	mostName   = 256     // bytes of a name
	mostBytes  = 1 << 20 // of an answer
	mostCounts = 256     // names in Counts
	// mostFigure is what a figure may be: sums of those of all processes are finite, and
	// whole numbers of it add up within 64 bits.
	mostFigure = 1e14
)

// ErrAnswer is an answer that is not a Process: another program answers on the subject,
// or a newer one of ours.
var ErrAnswer = errors.New("not an answer that this program reads")

// Decode reads what a process says of itself; job is the one that was asked. The bytes
// may come from anywhere: what is returned is bounded, and its texts have one line.
func Decode(data []byte, job string) (*Process, error) {
	fail := func(format string, args ...any) (*Process, error) {
		return nil, fmt.Errorf("fleet: "+format+": %w", append(args, ErrAnswer)...)
	}
	if len(data) > mostBytes {
		return fail("%d bytes, want at most %d", len(data), mostBytes)
	}
	p := new(Process)
	if err := json.Unmarshal(data, p); err != nil {
		return fail("%s", cut(err.Error(), mostText))
	}
	if p.Form != Form {
		return fail("form %d, want %d", p.Form, Form)
	}
	if p.Job != job {
		return fail("it is of job %q, and %q was asked", cut(p.Job, mostName), job)
	}
	parts := map[string]bool{RoleStage: p.Stage != nil, RoleGateway: p.Gateway != nil, RoleAlarms: p.Watch != nil}
	for role, there := range parts {
		if there != (role == p.Role) {
			return fail("role %q with the part of %s: %v", cut(p.Role, mostName), role, there)
		}
	}
	if !parts[p.Role] || p.ID == "" {
		return fail("role %q, id %q", cut(p.Role, mostName), cut(p.ID, mostName))
	}
	p.clean()
	p.order()
	return p, nil
}

// clean bounds what has no bounds by its type.
func (p *Process) clean() {
	names(&p.ID, &p.Host, &p.Program)
	p.Errors = p.Errors[:min(len(p.Errors), MostErrors)]
	for i := range p.Errors {
		e := &p.Errors[i]
		names(&e.Level)
		e.Text, e.From, e.Times = text(e.Text), "", max(1, e.Times)
	}
	p.Marks = p.Marks[:min(len(p.Marks), MostMarks)]
	for i := range p.Marks {
		names(&p.Marks[i].Kind)
		p.Marks[i].Text = text(p.Marks[i].Text)
	}
	p.Certificates = p.Certificates[:min(len(p.Certificates), MostCertificates)]
	for i := range p.Certificates {
		names(&p.Certificates[i].Key)
	}
	if g := p.Gateway; g != nil {
		g.Messages, g.Refused = counts(g.Messages), counts(g.Refused)
		g.Rates.clean()
	}
	if s := p.Stage; s != nil {
		s.clean()
	}
}

func (s *Stage) clean() {
	names(&s.Worker, &s.Model.Name, &s.Model.SHA256, &s.Model.Readout, &s.Model.Arithmetic)
	s.Unready, s.Engines = texts(s.Unready, MostReasons), texts(s.Engines, MostReasons)
	s.Flags, s.Classes = counts(s.Flags), counts(s.Classes)
	s.Sightings = s.Sightings[:min(len(s.Sightings), MostSightings)]
	for i := range s.Sightings {
		names(&s.Sightings[i].Role, &s.Sightings[i].ID, &s.Sightings[i].Host)
	}
	s.Shadows = s.Shadows[:min(len(s.Shadows), pipeline.MostShadows)]
	for i := range s.Shadows {
		names(&s.Shadows[i].Readout)
	}
	s.Rates.clean()
	s.Lag = whole(s.Lag)
	if s.Answered = min(s.Answered, mostFigure); s.Answered < 0 {
		s.Answered = -1
	}
	phases := map[string]int{}
	for _, phase := range pipeline.Phases() {
		if n := s.Phases[string(phase)]; n > 0 {
			phases[string(phase)] = min(n, store.MaxPartitions)
		}
	}
	s.Phases = phases
	s.LeftOut = min(max(0, s.LeftOut), store.MaxPartitions)
	seen := map[int]bool{}
	s.Partitions = slices.DeleteFunc(s.Partitions[:min(len(s.Partitions), MostPartitions)], func(q Partition) bool {
		known := slices.Contains(pipeline.Phases(), pipeline.Phase(q.Phase))
		wrong := q.Partition < 0 || q.Partition >= store.MaxPartitions || !known || seen[q.Partition]
		seen[q.Partition] = true
		return wrong
	})
	for i := range s.Partitions {
		q := &s.Partitions[i]
		q.Worker, q.Why, q.Lag, q.Unsaved = "", text(q.Why), whole(q.Lag), positive(q.Unsaved)
		if q.Behind != nil {
			*q.Behind = positive(*q.Behind)
		}
	}
}

func (r *Rates) clean() {
	for _, v := range []*float64{&r.Over, &r.Messages, &r.Samples, &r.Predictions, &r.Replayed} {
		*v = positive(*v)
	}
}

func positive(v float64) float64 { return max(0, min(v, mostFigure)) }

func whole(n int64) int64 { return max(0, min(n, mostFigure)) }

// text is one line without what a terminal or a page would not show as it is.
func text(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r) {
			return ' '
		}
		return r
	}, cut(s, mostText))
}

func texts(all []string, most int) []string {
	all = all[:min(len(all), most)]
	for i := range all {
		all[i] = text(all[i])
	}
	return all
}

func names(all ...*string) {
	for _, s := range all {
		*s = cut(text(*s), mostName)
	}
}

func counts(c Counts) Counts {
	out := Counts{}
	for name, n := range most(c, mostCounts) {
		names(&name)
		out[name] += n
	}
	return out
}

// order puts lists in their order, and makes those that are not there empty.
func (p *Process) order() {
	slices.SortStableFunc(p.Errors, func(a, b Said) int { return b.Time.Compare(a.Time) })
	slices.SortStableFunc(p.Marks, func(a, b Mark) int { return b.Time.Compare(a.Time) })
	p.Errors, p.Marks = listed(p.Errors, MostErrors), listed(p.Marks, MostMarks)
	if s := p.Stage; s != nil {
		s.Unready, s.Engines, s.Shadows = listed(s.Unready, MostReasons), listed(s.Engines, MostReasons), listed(s.Shadows, pipeline.MostShadows)
		s.Partitions = listed(s.Partitions, MostPartitions)
	}
}

// listed are the first n of a list; of none, an empty one, which JSON writes as [].
func listed[T any](all []T, n int) []T {
	if all == nil {
		return []T{}
	}
	return all[:min(len(all), n)]
}
