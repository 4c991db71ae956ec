package alarm

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/eusn-stream/eusn-stream/codec"
	"github.com/eusn-stream/eusn-stream/internal/drift"
)

const (
	// MostRules is the maximum number of rules of a job.
	MostRules = 256
	// MaxRule is the maximum size of a rule's text in bytes.
	MaxRule = 4 << 10
	// Window is the largest n of "k of n".
	Window = 64

	maxClear = 1_000_000 // predictions

	novelClear = 12 // default of clear after for novel, if N is smaller: p-values of a fault flicker
	novelWorse = 3  // default of worse: docs/alarm-rules.md has the measurement
	maxTime    = 366 * 24 * time.Hour
)

// Condition decides whether a prediction supports an alarm.
type Condition interface {
	// Judge reports the effect of a prediction: on supports raising the alarm, off supports
	// clearing the alarm. Both may be false. class is the name of the prediction's class.
	Judge(p *codec.Prediction, class string) (on, off bool)
}

// Rule describes when an alarm is raised and cleared. ParseRule creates rules.
type Rule struct {
	Name       string
	Text       string        // as written
	Kind       string        // class, flag, novel, value, low, high, input, drift or silent
	Condition  Condition     // nil for silent
	Silent     time.Duration // time without a prediction; 0 for other kinds
	K, N       int           // raised when K of the last N predictions are on
	ClearAfter int           // cleared after this number of consecutive predictions that are off
	Hold       time.Duration // minimum time that the alarm is active
	Quiet      []Quiet       // times without new alarms
	Streams    string        // stream name in which * and > match tokens; empty = all streams
	By         *regexp.Regexp
	Final      bool          // only predictions of finished sequences
	Only       Condition     // only predictions that are on for this condition; nil: all
	Unless     Condition     // only predictions that are not on for this condition; nil: all
	Accept     time.Duration // novel: time after which the level of an active alarm is accepted; 0 = never
	Worse      float32       // novel: a novelty that is larger by this factor raises a new alarm; 0 = never
}

// Quiet is a time span of each day, in minutes since midnight (UTC): From inclusive, To exclusive.
// The span may include midnight.
type Quiet struct{ From, To int }

// ruleName matches rule names, which are tokens of subjects.
var ruleName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$`)

// Rules are the rules of a job, sorted by name.
type Rules []*Rule

// ParseRules parses rules by name.
func ParseRules(texts map[string]string) (Rules, error) {
	if len(texts) > MostRules {
		return nil, fmt.Errorf("alarm: %d rules, want at most %d", len(texts), MostRules)
	}
	var all Rules
	for _, name := range slices.Sorted(maps.Keys(texts)) {
		r, err := ParseRule(name, texts[name])
		if err != nil {
			return nil, err
		}
		all = append(all, r)
	}
	return all, nil
}

// Texts returns the rules in the form that ParseRules parses.
func (r Rules) Texts() map[string]string {
	texts := map[string]string{}
	for _, rule := range r {
		texts[rule.Name] = rule.Text
	}
	return texts
}

// setDefaults sets the counts that the text does not specify.
func (r *Rule) setDefaults() {
	if r.N == 0 {
		r.K, r.N = 1, 1
	}
	if r.ClearAfter == 0 {
		switch r.ClearAfter = r.N; r.Kind {
		case kindDrift:
			r.ClearAfter = drift.Learning
		case kindNovel:
			r.ClearAfter = max(r.N, novelClear)
		}
	}
	if r.Kind == kindNovel && r.Worse == 0 {
		r.Worse = novelWorse
	}
}

// ParseRule parses a rule; the package documentation describes the syntax.
func ParseRule(name, text string) (*Rule, error) {
	fail := func(err error) (*Rule, error) {
		return nil, fmt.Errorf("alarm: rule %q: %w", name, err)
	}
	if !ruleName.MatchString(name) {
		return fail(errors.New("want a name of 1 to 64 letters, digits, - and _"))
	}
	if len(text) > MaxRule {
		return fail(fmt.Errorf("%d bytes, want at most %d", len(text), MaxRule))
	}
	clauses, err := splitClauses(text)
	if err != nil {
		return fail(err)
	}
	r := &Rule{Name: name, Text: strings.TrimSpace(text)}
	if err := r.parseCondition(clauses[0]); err != nil {
		return fail(err)
	}
	seen := map[string]bool{}
	for _, c := range clauses[1:] {
		if err := r.parseClause(c, seen); err != nil {
			return fail(err)
		}
	}
	r.setDefaults()
	if r.Kind == kindDrift && seen["of"] {
		return fail(errSeries)
	}
	if r.Kind == kindSilent && (seen["of"] || seen["clear"] || seen["final"] || seen["only"] || seen["unless"]) {
		return fail(errors.New("silent does not count predictions: it allows only the clauses hold, quiet, streams and by"))
	}
	return r, nil
}

// Kinds of conditions.
const (
	kindClass  = "class"
	kindFlag   = "flag"
	kindNovel  = "novel"
	kindValue  = "value"
	kindLow    = "low"
	kindHigh   = "high"
	kindInput  = "input"
	kindDrift  = "drift"
	kindSilent = "silent"
)

// Kinds are the first words of rules.
var Kinds = []string{kindClass, kindFlag, kindNovel, kindValue, kindLow, kindHigh, kindInput, kindDrift, kindSilent}

func kindList() string {
	last := len(Kinds) - 1
	return strings.Join(Kinds[:last], ", ") + " or " + Kinds[last]
}

// parseCondition parses the condition of a rule.
func (r *Rule) parseCondition(c clause) (err error) {
	if len(c) == 0 {
		return errors.New("empty rule: want " + kindList() + " first, such as: class imbalance >= 0.8, 3 of 5")
	}
	switch r.Kind = c[0].text; r.Kind {
	case kindClass:
		r.Condition, err = parseClasses(c[1:])
	case kindFlag:
		r.Condition, err = parseFlags(c[1:])
	case kindNovel:
		r.Condition, err = parseNovel(c[1:])
	case kindValue, kindLow, kindHigh:
		r.Condition, err = parseLevel(r.Kind, c[1:])
	case kindInput:
		r.Condition, err = parseInput(c[1:])
	case kindDrift:
		r.Condition, err = parseSeries(c[1:])
	case kindSilent:
		if len(c) != 2 {
			return errors.New("want silent and a time, such as: silent 10m")
		}
		r.Silent, err = parseTime("silent", c[1].text)
	default:
		return fmt.Errorf("the rule starts with %q, want %s, separated by blanks", c[0].text, kindList())
	}
	return err
}

// parseClause parses a clause. seen has the clauses so far.
func (r *Rule) parseClause(c clause, seen map[string]bool) (err error) {
	keyword := ""
	if len(c) > 0 {
		keyword = c[0].text
	}
	if len(c) == 3 && c[1].text == "of" {
		keyword = "of"
	}
	key := keyword
	if keyword == "clear" && len(c) > 1 {
		key += c[1].text // below, above, after
	}
	if seen[key] {
		return fmt.Errorf("duplicate %q", keyword)
	}
	seen[key], seen[keyword] = true, true
	switch {
	case keyword == "of":
		if r.K, err = parseCount("k", c[0].text, Window); err == nil {
			r.N, err = parseCount("n", c[2].text, Window)
		}
		if err == nil && r.K > r.N {
			err = fmt.Errorf("%d of %d: want at most %d", r.K, r.N, r.N)
		}
		return err
	case keyword == "clear" && len(c) == 3 && c[1].text == "after":
		r.ClearAfter, err = parseCount("clear after", c[2].text, maxClear)
		return err
	case keyword == "clear" && len(c) == 3 && (c[1].text == "below" || c[1].text == "above"):
		cond, ok := r.Condition.(clearable)
		if !ok {
			return fmt.Errorf("clear %s needs a class with a probability, or a number: class imbalance >= 0.8, clear below 0.5; value > 80, clear below 75; value < 10, clear above 12", c[1].text)
		}
		return cond.setClear(c[1].text, c[2].text)
	case (keyword == "between" || keyword == "shift") && len(c) == 2:
		s, ok := r.Condition.(*driftCondition)
		if !ok {
			return fmt.Errorf("%s requires the condition drift, such as: drift probability, between 1000000, shift 0.5", keyword)
		}
		return s.parseOption(keyword, c[1].text)
	case keyword == "hold" && len(c) == 2:
		r.Hold, err = parseTime("hold", c[1].text)
		return err
	case keyword == "quiet" && len(c) > 1:
		r.Quiet, err = parseQuiet(c[1:])
		return err
	case keyword == "streams" && len(c) == 2:
		r.Streams = c[1].text
		return nil
	case keyword == "by" && len(c) == 2:
		if r.By, err = regexp.Compile(c[1].text); err != nil {
			err = fmt.Errorf("by %q: %w", c[1].text, err)
		}
		return err
	case slices.Contains([]string{"only", "unless", "accept", "worse"}, keyword) && len(c) > 1:
		return r.parseRestriction(keyword, c[1:])
	case keyword == "final" && len(c) == 1:
		r.Final = true
		return nil
	}
	return fmt.Errorf("%q is no clause of a rule: want 3 of 5, clear below 0.5, clear after 5, hold 10m, quiet 22:00-06:00, streams plant.A.>, by \"REGEXP\", only flag decided, unless flag flat, accept 24h, worse 3 or final", c.String())
}

// parseRestriction parses the clauses only, unless, accept and worse.
func (r *Rule) parseRestriction(keyword string, c clause) (err error) {
	switch {
	case keyword == "only":
		r.Only, err = parseFilter(keyword, c)
	case keyword == "unless":
		r.Unless, err = parseFilter(keyword, c)
	case r.Kind != kindNovel || len(c) != 1:
		err = errors.New("want accept with a time, or worse with a factor, for the condition novel: novel 0.001, 3 of 5, accept 24h, worse 3")
	case keyword == "worse":
		r.Worse, err = parseWorse(c[0].text)
	default:
		r.Accept, err = parseTime(keyword, c[0].text)
	}
	return err
}

func parseWorse(text string) (float32, error) {
	factor, err := strconv.ParseFloat(text, 32)
	if err != nil || !(factor > 1 && factor <= math.MaxFloat32) {
		return 0, fmt.Errorf("worse is %q, want a factor above 1", text)
	}
	return float32(factor), nil
}

// parseFilter parses the condition of only or unless.
func parseFilter(keyword string, c clause) (Condition, error) {
	r := &Rule{}
	err := r.parseCondition(c)
	if err == nil && (r.Kind == kindDrift || r.Kind == kindSilent) {
		err = fmt.Errorf("%s %s: want a condition of one prediction, such as: %[1]s flag decided", keyword, r.Kind)
	}
	return r.Condition, err
}

func parseCount(what, text string, most int) (int, error) {
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 || n > most {
		return 0, fmt.Errorf("%s is %q, want 1 to %d", what, text, most)
	}
	return n, nil
}

func parseTime(what, text string) (time.Duration, error) {
	d, err := time.ParseDuration(text)
	if err != nil || d <= 0 || d > maxTime {
		return 0, fmt.Errorf("%s is %q, want a time such as 90s, 10m or 12h, at most %v", what, text, maxTime)
	}
	return d, nil
}

func parseProbability(text string) (float32, error) {
	p, err := strconv.ParseFloat(text, 32)
	if err != nil || !(p > 0 && p <= 1) {
		return 0, fmt.Errorf("probability %q, want more than 0 and at most 1", text)
	}
	return float32(p), nil
}

func parseQuiet(c clause) (all []Quiet, err error) {
	for i, w := range c {
		if i%2 == 1 {
			if w.text != "|" {
				return nil, fmt.Errorf("quiet: %q, want | between two times", w.text)
			}
			continue
		}
		from, to, ok := strings.Cut(w.text, "-")
		a, err1 := time.Parse("15:04", from)
		b, err2 := time.Parse("15:04", to)
		if !ok || err1 != nil || err2 != nil || a.Equal(b) {
			return nil, fmt.Errorf("quiet is %q, want a time of day in UTC, such as 22:00-06:00", w.text)
		}
		all = append(all, Quiet{60*a.Hour() + a.Minute(), 60*b.Hour() + b.Minute()})
	}
	if len(c)%2 == 0 {
		return nil, errors.New("quiet ends with |")
	}
	return all, nil
}

// isQuiet reports whether no alarm is raised at a time.
func (r *Rule) isQuiet(t time.Time) bool {
	t = t.UTC()
	m := 60*t.Hour() + t.Minute()
	for _, q := range r.Quiet {
		if q.From < q.To && m >= q.From && m < q.To || q.From > q.To && (m >= q.From || m < q.To) {
			return true
		}
	}
	return false
}

// Key returns the alarm key of a stream: the stream, or the match of By in its name. ok is false if
// the rule does not cover the stream.
func (r *Rule) Key(stream string) (key string, ok bool) {
	if r.Streams != "" && r.Streams != stream && !matchesSubject(r.Streams, stream) {
		return "", false
	}
	if r.By == nil {
		return stream, true
	}
	m := r.By.FindStringSubmatch(stream)
	switch len(m) {
	case 0:
		return "", false
	case 1:
		return m[0], true
	}
	return strings.Join(m[1:], "."), true
}

// matchesSubject reports whether the tokens of a name match a pattern, with * for any token and >
// at the end for all following tokens.
func matchesSubject(want, name string) bool {
	for {
		w, moreWanted, wantMore := strings.Cut(want, ".")
		n, rest, more := strings.Cut(name, ".")
		switch {
		case w == ">" && !wantMore:
			return true
		case w != "*" && w != n, wantMore != more:
			return false
		case !more:
			return true
		}
		want, name = moreWanted, rest
	}
}

// sameStreams reports whether two rules cover the same streams, so that alarms of the first rule
// stay active for the second.
func (r *Rule) sameStreams(o *Rule) bool {
	return r != nil && o != nil && r.Kind == o.Kind && r.Streams == o.Streams && (r.By == nil) == (o.By == nil) && (r.By == nil || r.By.String() == o.By.String())
}
