package alarm

import (
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/eusn-stream/eusn-stream/codec"
	"github.com/eusn-stream/eusn-stream/internal/drift"
)

const (
	// MostRules is how many rules a job may have.
	MostRules = 256
	// MaxRule is how many bytes a rule's text may have.
	MaxRule = 4 << 10
	// Window is the largest n of "k of n".
	Window = 64

	maxClear = 1_000_000 // predictions
	maxTime  = 366 * 24 * time.Hour
)

// Condition is what a rule looks for in a prediction.
type Condition interface {
	// Judge says what a prediction means to the rule: on, it is a reason to raise the
	// alarm; off, it is one to clear it. It may be neither. class is the name of its
	// class.
	Judge(p *codec.Prediction, class string) (on, off bool)
}

// Rule is when an alarm is raised and cleared. ParseRule makes it.
type Rule struct {
	Name       string
	Text       string        // as it was written
	Kind       string        // class, flag, novel, value, low, high, drift or silent
	Condition  Condition     // nil for silent
	Silent     time.Duration // without a prediction; 0 for other kinds
	K, N       int           // raised when K of the last N predictions are on
	ClearAfter int           // cleared after so many predictions that are off, one after the other
	Hold       time.Duration // how long an alarm is on at least
	Quiet      []Quiet       // when none is raised
	Streams    string        // whose it is, as a stream's name in which * and > stand for tokens; empty = all
	By         *regexp.Regexp
	Final      bool      // only the predictions of sequences that have ended
	Only       Condition // only the predictions that are on for it; nil: all
}

// Quiet is a time of each day, in minutes since midnight (UTC), from From until
// before To. It may go over midnight.
type Quiet struct{ From, To int }

// ruleName: it is a token of subjects.
var ruleName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$`)

// Rules are those of a job, by their names.
type Rules []*Rule

// ParseRules reads rules, by their names.
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

// Texts are the rules as ParseRules reads them.
func (r Rules) Texts() map[string]string {
	texts := map[string]string{}
	for _, one := range r {
		texts[one.Name] = one.Text
	}
	return texts
}

// setDefaults sets the counts that the text does not name.
func (r *Rule) setDefaults() {
	if r.N == 0 {
		r.K, r.N = 1, 1
	}
	if r.ClearAfter == 0 {
		r.ClearAfter = r.N
		if r.Kind == kindDrift {
			r.ClearAfter = drift.Learning
		}
	}
}

// ParseRule reads a rule; the package's documentation says how it is written.
func ParseRule(name, text string) (*Rule, error) {
	fail := func(err error) (*Rule, error) {
		return nil, fmt.Errorf("alarm: rule %q: %w", name, err)
	}
	if !ruleName.MatchString(name) {
		return fail(errors.New("its name must have 1 to 64 letters, digits, - and _"))
	}
	if len(text) > MaxRule {
		return fail(fmt.Errorf("it has %d bytes, want at most %d", len(text), MaxRule))
	}
	clauses, err := split(text)
	if err != nil {
		return fail(err)
	}
	r := &Rule{Name: name, Text: strings.TrimSpace(text)}
	if err := r.condition(clauses[0]); err != nil {
		return fail(err)
	}
	said := map[string]bool{}
	for _, c := range clauses[1:] {
		if err := r.clause(c, said); err != nil {
			return fail(err)
		}
	}
	r.setDefaults()
	if r.Kind == kindDrift && said["of"] {
		return fail(errSeries)
	}
	if r.Kind == kindSilent && (said["of"] || said["clear"] || said["final"] || said["only"]) {
		return fail(errors.New("silent counts no predictions: of its clauses only hold, quiet, streams and by are possible"))
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
	kindDrift  = "drift"
	kindSilent = "silent"
)

// Kinds are the words that a rule may begin with.
var Kinds = []string{kindClass, kindFlag, kindNovel, kindValue, kindLow, kindHigh, kindDrift, kindSilent}

func kinds() string {
	last := len(Kinds) - 1
	return strings.Join(Kinds[:last], ", ") + " or " + Kinds[last]
}

// condition reads what the rule looks for.
func (r *Rule) condition(c clause) (err error) {
	if len(c) == 0 {
		return errors.New("it is empty: want " + kinds() + " first, such as: class imbalance >= 0.8, 3 of 5")
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
	case kindDrift:
		r.Condition, err = parseSeries(c[1:])
	case kindSilent:
		if len(c) != 2 {
			return errors.New("want silent and a time, such as: silent 10m")
		}
		r.Silent, err = parseTime("silent", c[1].text)
	default:
		return fmt.Errorf("it begins with %q, want %s, with blanks between words", c[0].text, kinds())
	}
	return err
}

// clause reads one of the other parts.
func (r *Rule) clause(c clause, said map[string]bool) (err error) {
	what := ""
	if len(c) > 0 {
		what = c[0].text
	}
	if len(c) == 3 && c[1].text == "of" {
		what = "of"
	}
	key := what
	if what == "clear" && len(c) > 1 {
		key += c[1].text // below, after
	}
	if said[key] {
		return fmt.Errorf("%q is there twice", what)
	}
	said[key], said[what] = true, true
	switch {
	case what == "of":
		if r.K, err = parseCount("k", c[0].text, Window); err == nil {
			r.N, err = parseCount("n", c[2].text, Window)
		}
		if err == nil && r.K > r.N {
			err = fmt.Errorf("%d of %d: want at most %d", r.K, r.N, r.N)
		}
		return err
	case what == "clear" && len(c) == 3 && c[1].text == "after":
		r.ClearAfter, err = parseCount("clear after", c[2].text, maxClear)
		return err
	case what == "clear" && len(c) == 3 && (c[1].text == "below" || c[1].text == "above"):
		cond, ok := r.Condition.(clearer)
		if !ok {
			return fmt.Errorf("clear %s needs a class with a probability, or a number: class imbalance >= 0.8, clear below 0.5; value > 80, clear below 75; value < 10, clear above 12", c[1].text)
		}
		return cond.clear(c[1].text, c[2].text)
	case (what == "between" || what == "shift") && len(c) == 2:
		s, ok := r.Condition.(*series)
		if !ok {
			return fmt.Errorf("%s belongs to drift, such as: drift probability, between 1000000, shift 0.5", what)
		}
		return s.clause(what, c[1].text)
	case what == "hold" && len(c) == 2:
		r.Hold, err = parseTime("hold", c[1].text)
		return err
	case what == "quiet" && len(c) > 1:
		r.Quiet, err = parseQuiet(c[1:])
		return err
	case what == "streams" && len(c) == 2:
		r.Streams = c[1].text
		return nil
	case what == "by" && len(c) == 2:
		if r.By, err = regexp.Compile(c[1].text); err != nil {
			err = fmt.Errorf("by %q: %w", c[1].text, err)
		}
		return err
	case what == "only" && len(c) > 1:
		with := &Rule{}
		if err = with.condition(c[1:]); err == nil && (with.Kind == kindDrift || with.Kind == kindSilent) {
			err = fmt.Errorf("only %s: want a condition of one prediction, such as: only flag decided", with.Kind)
		}
		r.Only = with.Condition
		return err
	case what == "final" && len(c) == 1:
		r.Final = true
		return nil
	}
	return fmt.Errorf("%q is no part of a rule: want 3 of 5, clear below 0.5, clear after 5, hold 10m, quiet 22:00-06:00, streams plant.A.>, by \"REGEXP\", only flag decided or final", c.String())
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

// quietAt reports whether no alarm is raised at a time.
func (r *Rule) quietAt(t time.Time) bool {
	t = t.UTC()
	m := 60*t.Hour() + t.Minute()
	for _, q := range r.Quiet {
		if q.From < q.To && m >= q.From && m < q.To || q.From > q.To && (m >= q.From || m < q.To) {
			return true
		}
	}
	return false
}

// Key is what an alarm of a stream is called: the stream, or with By what the
// expression finds in its name. ok is false where the rule is not for the stream.
func (r *Rule) Key(stream string) (key string, ok bool) {
	if r.Streams != "" && r.Streams != stream && !fits(r.Streams, stream) {
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

// fits reports whether the tokens of a name fit others, with * for any and > at the
// end for all that follow.
func fits(want, name string) bool {
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

// alike reports whether a rule's alarms stay as they are when the other takes its
// place: they are about the same streams.
func (r *Rule) alike(o *Rule) bool {
	return r != nil && o != nil && r.Kind == o.Kind && r.Streams == o.Streams && (r.By == nil) == (o.By == nil) && (r.By == nil || r.By.String() == o.By.String())
}
