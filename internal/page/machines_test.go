package page

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/eusn-stream/eusn-stream/codec"
	"github.com/eusn-stream/eusn-stream/internal/alarm"
	"github.com/eusn-stream/eusn-stream/internal/consumer"
	"github.com/eusn-stream/eusn-stream/readout/outcome"
)

var start = time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC)

// predict adds a prediction of a machine, with class i of healthy and worn.
func (t *machines) predict(name string, class int32, flags outcome.Flag, at time.Time) {
	t.addOutput(&consumer.Output{
		Seq: t.next + 1, Stored: at, Meta: codec.PredictionMeta{Labels: []string{"healthy", "worn"}},
		Predictions: []codec.Prediction{{Stream: name, Answer: outcome.Answer{Class: class, Probability: .9, Flags: flags}}},
	})
}

// rows returns the names and conditions of a list.
func (t *machines) rows(q query, at time.Time) (all []string) {
	for _, r := range t.list(q, at, 0).Rows {
		all = append(all, r.Name+" "+r.Condition)
	}
	return all
}

// TestJudge: the flags decide before the class: a dead sensor is never normal.
func TestJudge(t *testing.T) {
	c := newClasses([]string{"worn", "Healthy"})
	for flags := range outcome.Flag(1 << 14) {
		for class, want := range []Condition{NotNormal, Normal} {
			switch flags.Integrity() {
			case outcome.IntegrityComplete, outcome.IntegrityEarly, outcome.IntegrityIdle:
				if flags&outcome.FlagAbstain != 0 {
					want = NotTrusted
				}
			default:
				want = NotTrusted
			}
			if got := c.judge(&codec.Prediction{Answer: outcome.Answer{Class: int32(class), Probability: 1, Flags: flags}}); got != want {
				t.Fatalf("class %d with flags %q: %s, want %s", class, flags, conditionNames[got], conditionNames[want])
			}
		}
	}
	for p, want := range map[*codec.Prediction]Condition{
		{Answer: outcome.Answer{Class: 1, NoveltyP: .001}}:                         NotNormal,
		{Answer: outcome.Answer{Class: 1, NoveltyP: .002}}:                         Normal,
		{Answer: outcome.Answer{Class: 0, Number: outcome.Number{Known: true}}}:    Normal,
		{Answer: outcome.Answer{Class: 7}}:                                         NotNormal,
		{Answer: outcome.Answer{Class: -1, Flags: outcome.FlagFlat, NoveltyP: .5}}: NotTrusted,
	} {
		if got := c.judge(p); got != want {
			t.Errorf("%+v: %s, want %s", p.Answer, conditionNames[got], conditionNames[want])
		}
	}
}

// TestNormalClasses: which classes are normal follows from their names.
func TestNormalClasses(t *testing.T) {
	for labels, want := range map[string]string{
		"cavitation normal worn": "normal", "OK bad": "OK", "no_fault fault": "no_fault", "No-Fault worn": "No-Fault", "run novel": "run",
		"novel run": "", "walking sitting": "", "abnormal unhealthy": "", "novel": "", "": "", "healthy good": "healthy good",
	} {
		c := newClasses(strings.Fields(labels))
		var got []string
		for i, name := range c.names {
			if c.normal[i] {
				got = append(got, name)
			}
		}
		if strings.Join(got, " ") != want || c.named != (want != "") {
			t.Errorf("of %q %q are normal (named %v), want %q", labels, got, c.named, want)
		}
	}
	// Without a normal class no class is a fault.
	if got := newClasses([]string{"walking", "sitting"}).judge(&codec.Prediction{}); got != Normal {
		t.Errorf("a class of a model without a normal class shows %s", conditionNames[got])
	}
}

// TestSilent: a machine is silent after three times its usual time between two predictions.
func TestSilent(t *testing.T) {
	for name, c := range map[string]struct {
		times []time.Duration // since the start
		limit time.Duration
	}{
		"each second":      {[]time.Duration{0, time.Second, 2 * time.Second}, silentLeast},
		"each minute":      {[]time.Duration{0, time.Minute, 2 * time.Minute}, 3 * time.Minute},
		"once":             {[]time.Duration{0}, silentAlone},
		"two at once":      {[]time.Duration{0, 0}, silentAlone},
		"after an outage":  {[]time.Duration{0, time.Minute, 2 * time.Minute, time.Hour}, 9 * time.Minute}, // an outage counts as three minutes
		"several at once":  {[]time.Duration{0, 0, 0, time.Minute, time.Minute, time.Minute}, 3 * time.Minute},
		"back in time":     {[]time.Duration{0, time.Minute, 30 * time.Second}, 3 * time.Minute},
		"slowly and often": {[]time.Duration{0, time.Minute, time.Minute + time.Second, 2 * time.Minute, 2*time.Minute + time.Second, 3 * time.Minute}, 3 * time.Minute},
	} {
		var table machines
		for _, at := range c.times {
			table.predict("p", 0, 0, start.Add(at))
		}
		last := start.Add(c.times[len(c.times)-1])
		limit := c.limit
		if name == "slowly and often" {
			limit = table.all["p"].silentAfter() // the longest time shrinks little
			if limit < 2*time.Minute || limit > 3*time.Minute {
				t.Errorf("%s: silent after %v", name, limit)
			}
		}
		before, after := table.rows(query{condition: everyone}, last.Add(limit)), table.rows(query{condition: everyone}, last.Add(limit+time.Millisecond))
		if before[0] != "p normal" || after[0] != "p silent" {
			t.Errorf("%s: after %v %q, then %q, want that it is silent after this time", name, limit, before, after)
		}
	}
	// The job's delay is no silence, and the server's clock counts.
	var table machines
	table.predict("p", 0, 0, start)
	table.predict("p", 0, 0, start.Add(time.Second))
	if p := table.summarize(start.Add(time.Minute), 50*time.Second); p.Counts.Normal != 1 || p.Late != 50 {
		t.Errorf("a late job: %+v", p)
	}
	table.start(1, true, time.Hour)
	if p := table.summarize(start, 0); p.Counts.Silent != 1 {
		t.Errorf("an hour later by the server's clock: %+v", p)
	}
	// Messages that the page has skipped are no silence of the machine.
	table.start(100, false, 0)
	table.predict("p", 0, 0, start.Add(24*time.Hour))
	if after := table.all["p"].silentAfter(); after != silentLeast {
		t.Errorf("after skipped messages: silent after %v", after)
	}
}

// TestListOfMachines: the most urgent machines come first; queries, groups and pages select.
func TestListOfMachines(t *testing.T) {
	var table machines
	at := func(s int) time.Time { return start.Add(time.Duration(s) * time.Second) }
	for s := range 100 {
		for _, m := range []struct {
			name  string
			class int32
			flags outcome.Flag
			until int
		}{
			{"hall1.a.pump-1", 0, 0, 100}, {"hall1.a.pump-2", 1, 0, 100}, {"hall1.b.pump-3", 0, outcome.FlagFlat, 100}, {"hall2.a.pump-4", 0, 0, 20},
			{"hall2.a.pump-5", 0, 0, 100}, {"fan", 0, 0, 100}, {"hall2.a.pump-6", 0, outcome.FlagHeld, 100}, {"hall2.a.pump-7", 1, 0, 100},
		} {
			class, flags := m.class, m.flags
			if m.name == "hall2.a.pump-6" && s < 50 {
				flags = 0
			}
			if m.name == "hall2.a.pump-7" && s < 60 {
				class = 0
			}
			if s < m.until {
				table.predict(m.name, class, flags, at(s))
			}
		}
	}
	table.addEvent(&alarm.Event{Number: 1, Kind: alarm.Raised, Rule: "hot", Key: "fan", Time: at(90)})
	table.addEvent(&alarm.Event{Number: 2, Kind: alarm.Raised, Rule: "old", Key: "hall1.a.pump-1", Time: at(91)})
	table.addEvent(&alarm.Event{Number: 3, Kind: alarm.Cleared, Rule: "old", Key: "hall1.a.pump-1", Time: at(92)})
	table.addEvent(&alarm.Event{Number: 4, Kind: alarm.Acknowledged, Rule: "seen", Key: "hall2.a.pump-5", Since: at(70), Time: at(93)})
	now := at(100)
	if got := table.rows(query{condition: attention}, now); !slices.Equal(got, []string{
		"fan not-normal", "hall2.a.pump-5 not-normal", "hall2.a.pump-7 not-normal", "hall1.a.pump-2 not-normal",
		"hall2.a.pump-6 not-trusted", "hall1.b.pump-3 not-trusted", "hall2.a.pump-4 silent",
	}) {
		t.Errorf("those that need attention: %q", got)
	}
	l := table.list(query{condition: everyone, group: "hall2."}, now, 0)
	if p := l.Plant.Counts; p.All != 8 || p.Normal != 1 || p.NotNormal != 4 || p.NotTrusted != 2 || p.Silent != 1 || p.New != 0 || l.Match != 4 {
		t.Errorf("counts %+v, %d in hall 2", p, l.Match)
	}
	if len(l.Groups) != 1 || l.Groups[0].Name != "a" || l.Groups[0].Counts.All != 4 || l.Groups[0].Counts.NotNormal != 2 {
		t.Errorf("groups of hall 2: %+v", l.Groups)
	}
	if all := table.list(query{condition: attention}, now, 0).Groups; len(all) != 2 || all[0].Name != "hall2" || all[1].Name != "hall1" || all[1].Counts.Normal != 1 {
		t.Errorf("groups: %+v", all)
	}
	if got := table.rows(query{condition: everyone, part: "pump-3"}, now); !slices.Equal(got, []string{"hall1.b.pump-3 not-trusted"}) {
		t.Errorf("pump-3: %q", got)
	}
	if got := table.rows(query{condition: "normal"}, now); !slices.Equal(got, []string{"hall1.a.pump-1 normal"}) {
		t.Errorf("normal: %q", got)
	}
	for _, r := range table.list(query{condition: everyone}, now, 0).Rows {
		want, known := map[string]time.Time{"fan": at(90), "hall2.a.pump-5": at(70), "hall2.a.pump-7": at(60), "hall2.a.pump-6": at(50), "hall2.a.pump-4": at(19)}[r.Name]
		if known && (r.Since != want.UnixMilli() || r.AtLeast) || !known && (r.Since != start.UnixMilli() || !r.AtLeast) {
			t.Errorf("%s since %v (at least %v), want %v", r.Name, time.UnixMilli(r.Since).UTC(), r.AtLeast, want)
		}
		if len(r.Trace) > keptPoints || len(r.Trace) != len(r.Shows) {
			t.Errorf("%s: a trace of %d, conditions of %d", r.Name, len(r.Trace), len(r.Shows))
		}
	}
	// The first machines of a job that begins late are not new.
	var late machines
	late.start(1, true, 0)
	late.addOutput(&consumer.Output{Seq: 1, Stored: start.Add(-time.Hour)}) // a record without predictions
	late.predict("p", 0, 0, start)
	if p := late.summarize(start, 0); p.Counts.New != 0 || p.Since != start.UnixMilli() {
		t.Errorf("the first machine of a job: %+v", p)
	}
	// A machine that joins later is new.
	table.predict("hall9.pump-9", 0, 0, start.Add(2*newFor))
	if got := table.rows(query{condition: allNew}, start.Add(2*newFor)); !slices.Equal(got, []string{"hall9.pump-9 normal"}) {
		t.Errorf("new: %q", got)
	}
}

// TestPagesOfList: pages of a list have each machine once.
func TestPagesOfList(t *testing.T) {
	var table machines
	for i := range 1234 {
		table.predict(fmt.Sprintf("g%d.p%04d", i%100, i), int32(i%2), 0, start.Add(time.Duration(i%7)*time.Second))
	}
	for _, condition := range []string{everyone, attention} {
		var got []string
		for from := 0; ; from += pageRows {
			page := table.rows(query{condition: condition, from: from}, start)
			if got = append(got, page...); len(page) < pageRows {
				break
			}
		}
		all := slices.Compact(slices.Sorted(slices.Values(got)))
		if want := map[string]int{everyone: 1234, attention: 617}[condition]; len(got) != want || len(all) != want {
			t.Errorf("%s: %d rows of %d machines, want %d", condition, len(got), len(all), want)
		}
	}
	l := table.list(query{condition: everyone, from: mostMachines}, start, 0)
	if len(l.Rows) != 0 || len(l.Groups) != mostGroups || l.More != 100-mostGroups {
		t.Errorf("after the end %d rows; %d groups and %d more", len(l.Rows), len(l.Groups), l.More)
	}
}

// TestTableIsBounded: further machines are left out, and the page shows this.
func TestTableIsBounded(t *testing.T) {
	var table machines
	for i := range mostMachines + 10 {
		table.predict(fmt.Sprint(i), 0, 0, start)
	}
	if p := table.summarize(start, 0); p.Counts.All != mostMachines || !p.Full {
		t.Errorf("%+v", p)
	}
}

// TestTraceOfNumbers: numbers that are not finite are no JSON, and leave a gap.
func TestTraceOfNumbers(t *testing.T) {
	var table machines
	for i, v := range []float32{10, 30, float32(math.NaN()), 20, float32(math.Inf(1)), float32(math.NaN())} {
		table.addOutput(&consumer.Output{Seq: uint64(i + 1), Stored: start, Meta: codec.PredictionMeta{Labels: []string{"wear"}}, Predictions: []codec.Prediction{
			{Stream: "p", Answer: outcome.Answer{Score: v, Probability: v, NoveltyP: v, Number: outcome.Number{Value: v, Known: true}}},
		}})
	}
	l := table.list(query{condition: everyone}, start, 0)
	if _, err := json.Marshal(l); err != nil {
		t.Error(err)
	}
	if r := l.Rows[0]; !slices.Equal(r.Trace, []int{0, 100, -1, 50, -1, -1}) || r.Value != nil {
		t.Errorf("trace %v, value %v", r.Trace, r.Value)
	}
}

// FuzzParseListQuery: any query gives a selection within limits, or an error of one line.
func FuzzParseListQuery(f *testing.F) {
	for _, s := range []string{"", "condition=silent&group=hall1.&part=PUMP&from=50", "condition=odd", "from=-1", "from=99999999999999999999", "part=%ff", "x=1", "part=a&part=b", "part=%zz", "group=" + strings.Repeat("x", 600)} {
		f.Add(s)
	}
	var table machines
	table.predict("hall1.pump-1", 0, 0, start)
	f.Fuzz(func(t *testing.T, text string) {
		q, err := parseListQuery(text)
		if err != nil {
			if strings.ContainsAny(err.Error(), "\n\x00") {
				t.Errorf("%q", err)
			}
			return
		}
		if l := table.list(q, start, 0); len(l.Rows) > 1 || q.from < 0 || len(q.group) > mostName {
			t.Errorf("%+v: %+v", q, l)
		}
	})
}

// FuzzParseSampleQuery: any query gives a span within limits, or an error of one line.
func FuzzParseSampleQuery(f *testing.F) {
	for _, s := range []string{"", "name=a&partition=0&from=1&until=2", "name=a&partition=-1&from=5&until=5", "name=a&partition=x&from=1&until=2", "name=a&partition=1&from=0&until=4102444800000", "name=&partition=1&from=1&until=2", "name=a&name=b"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		q, err := parseSampleQuery(text)
		if err != nil {
			if strings.ContainsAny(err.Error(), "\n\x00") {
				t.Errorf("%q", err)
			}
			return
		}
		if q.name == "" || !q.until.After(q.from) || q.until.Sub(q.from) > mostSpan {
			t.Errorf("%+v", q)
		}
	})
}
