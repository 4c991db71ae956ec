package fleet

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode"

	"github.com/eusn-stream/eusn-stream/internal/pipeline/store"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/wire"
	"github.com/eusn-stream/eusn-stream/pipeline"
)

const (
	mostName   = 256     // bytes of a name
	mostBytes  = 1 << 20 // bytes of an answer
	mostCounts = 256     // names in Counts
	// mostFigure is the largest figure: sums over all processes are finite and fit in 64 bits.
	mostFigure = 1e14
)

// ErrAnswer means that an answer is not a Process: another program, or a newer version, answers on
// the subject.
var ErrAnswer = errors.New("not a valid answer")

// Decode decodes the status of a process of a job. The bytes may come from any program: the result
// is bounded, and its texts have one line.
func Decode(data []byte, job string) (*Process, error) {
	fail := func(format string, args ...any) (*Process, error) {
		return nil, fmt.Errorf("fleet: "+format+": %w", append(args, ErrAnswer)...)
	}
	if len(data) > mostBytes {
		return fail("%d bytes, want at most %d", len(data), mostBytes)
	}
	p := new(Process)
	if err := json.Unmarshal(data, p); err != nil {
		return fail("%s", cutLine(err.Error(), mostText))
	}
	if p.Form != Form {
		return fail("form %d, want %d", p.Form, Form)
	}
	if p.Job != job {
		return fail("from job %q, want job %q", cutLine(p.Job, mostName), job)
	}
	parts := map[string]bool{RoleStage: p.Stage != nil, RoleGateway: p.Gateway != nil, RoleAlarms: p.Watch != nil}
	for role, there := range parts {
		if there != (role == p.Role) {
			return fail("role %q with the part of %s: %v", cutLine(p.Role, mostName), role, there)
		}
	}
	if !parts[p.Role] || p.ID == "" {
		return fail("role %q, id %q", cutLine(p.Role, mostName), cutLine(p.ID, mostName))
	}
	p.limitSizes()
	p.sortLists()
	return p, nil
}

// limitSizes bounds the values that their types do not bound.
func (p *Process) limitSizes() {
	cleanNames(&p.ID, &p.Host, &p.Program)
	p.Errors = p.Errors[:min(len(p.Errors), MostErrors)]
	for i := range p.Errors {
		e := &p.Errors[i]
		cleanNames(&e.Level)
		e.Text, e.From, e.Times = cleanText(e.Text), "", max(1, e.Times)
	}
	p.Marks = p.Marks[:min(len(p.Marks), MostMarks)]
	for i := range p.Marks {
		cleanNames(&p.Marks[i].Kind)
		p.Marks[i].Text = cleanText(p.Marks[i].Text)
	}
	p.Certificates = p.Certificates[:min(len(p.Certificates), MostCertificates)]
	for i := range p.Certificates {
		cleanNames(&p.Certificates[i].Key)
	}
	if g := p.Gateway; g != nil {
		g.Messages, g.Refused = cleanCounts(g.Messages), cleanCounts(g.Refused)
		g.Rates.limitSizes()
	}
	if s := p.Stage; s != nil {
		s.limitSizes()
	}
}

func (s *Stage) limitSizes() {
	cleanNames(&s.Worker, &s.Model.Name, &s.Model.SHA256, &s.Model.Readout, &s.Model.Arithmetic)
	s.Unready, s.Engines = cleanTexts(s.Unready, MostReasons), cleanTexts(s.Engines, MostReasons)
	s.Flags, s.Classes = cleanCounts(s.Flags), cleanCounts(s.Classes)
	s.Sightings = s.Sightings[:min(len(s.Sightings), MostSightings)]
	for i := range s.Sightings {
		cleanNames(&s.Sightings[i].Role, &s.Sightings[i].ID, &s.Sightings[i].Host)
	}
	s.Shadows = s.Shadows[:min(len(s.Shadows), wire.MostShadows)]
	for i := range s.Shadows {
		cleanNames(&s.Shadows[i].Readout)
	}
	s.Rates.limitSizes()
	s.Lag = limitCount(s.Lag)
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
		q.Worker, q.Why, q.Lag, q.Unsaved = "", cleanText(q.Why), limitCount(q.Lag), limitFigure(q.Unsaved)
		if q.Behind != nil {
			*q.Behind = limitFigure(*q.Behind)
		}
	}
}

func (r *Rates) limitSizes() {
	for _, v := range []*float64{&r.Over, &r.Messages, &r.Samples, &r.Predictions, &r.Replayed} {
		*v = limitFigure(*v)
	}
}

func limitFigure(v float64) float64 { return max(0, min(v, mostFigure)) }

func limitCount(n int64) int64 { return max(0, min(n, mostFigure)) }

// cleanText returns one line without control characters that would affect a terminal or a page.
func cleanText(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r) {
			return ' '
		}
		return r
	}, cutLine(s, mostText))
}

func cleanTexts(all []string, most int) []string {
	all = all[:min(len(all), most)]
	for i := range all {
		all[i] = cleanText(all[i])
	}
	return all
}

func cleanNames(all ...*string) {
	for _, s := range all {
		*s = cutLine(cleanText(*s), mostName)
	}
}

func cleanCounts(c Counts) Counts {
	out := Counts{}
	for name, n := range mostFrequent(c, mostCounts) {
		cleanNames(&name)
		out[name] += n
	}
	return out
}

// sortLists sorts the lists, and replaces nil lists by empty lists.
func (p *Process) sortLists() {
	slices.SortStableFunc(p.Errors, func(a, b LogMessage) int { return b.Time.Compare(a.Time) })
	slices.SortStableFunc(p.Marks, func(a, b Mark) int { return b.Time.Compare(a.Time) })
	p.Errors, p.Marks = firstOf(p.Errors, MostErrors), firstOf(p.Marks, MostMarks)
	if s := p.Stage; s != nil {
		s.Unready, s.Engines, s.Shadows = firstOf(s.Unready, MostReasons), firstOf(s.Engines, MostReasons), firstOf(s.Shadows, wire.MostShadows)
		s.Partitions = firstOf(s.Partitions, MostPartitions)
	}
}

// firstOf returns the first n elements of a list; for nil an empty list, which JSON encodes as [].
func firstOf[T any](all []T, n int) []T {
	if all == nil {
		return []T{}
	}
	return all[:min(len(all), n)]
}
