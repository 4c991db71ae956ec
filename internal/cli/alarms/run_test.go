package alarms_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"sort"
	"strings"
	"testing"
	"time"

	"github.com/eusn-stream/eusn-stream/client"
	"github.com/eusn-stream/eusn-stream/internal/alarm"
	"github.com/eusn-stream/eusn-stream/internal/consumer"
	"github.com/eusn-stream/eusn-stream/internal/testing/alarmtest"
	"github.com/eusn-stream/eusn-stream/internal/testing/clitest"
	"github.com/eusn-stream/eusn-stream/internal/testing/planttest"
	"github.com/eusn-stream/eusn-stream/internal/watch"
)

func TestMain(m *testing.M) { planttest.Main(m) }

// TestAlarmsRun kills (kill -9) NATS server, stage and two alarm processes, one of them on
// standby, during the predictions of 1,000 streams. Afterwards the alarm log equals an oracle's
// result for all predictions of the job: each raise and clear once.
//
// The delay until <JOB>-LATEST has a prediction, or a later prediction of the stream, is logged
// for three parts: kills while work of the previous kill is pending; single kills after full
// recovery, with a limit on the delay; and no kills, with only one alarm process.
//
// EUSN_ALARMS_RUN=streams x sequences x kills starts a longer run.
func TestAlarmsRun(t *testing.T) {
	if testing.Short() {
		t.Skip("NOT CHECKED: killed programs take seconds to begin again, -short was given")
	}
	streams, sequences, kills := 1000, 3, 4
	if size := os.Getenv("EUSN_ALARMS_RUN"); size != "" {
		if _, err := fmt.Sscanf(size, "%dx%dx%d", &streams, &sequences, &kills); err != nil {
			t.Fatalf("EUSN_ALARMS_RUN=%q, want streams x sequences x kills, such as 1000x60x60: %v", size, err)
		}
	}
	p := planttest.New(t, "")
	rules := []alarmtest.Rule{
		{Name: "one", Classes: []string{"fast"}, K: 1, N: 1, ClearAfter: 1},
		{Name: "some", Classes: []string{"fast"}, At: .55, K: 2, N: 3, ClearAfter: 2},
		{Name: "twice", Classes: []string{"slow"}, K: 2, N: 2, ClearAfter: 1},
	}
	texts := "alarms:\n  rules:\n"
	for _, w := range rules {
		texts += fmt.Sprintf("    %s: '%s'\n", w.Name, w.FormatRule())
	}
	conf := clitest.Write(t, filepath.Join(p.Dir, "alarms.yaml"), texts)
	for i := range 2 {
		p.KeepProgram(fmt.Sprint("alarms-", i), "alarms", "run", "-c", conf, "--nats-url", p.URL, "--since", "1h", "--save", "500ms")
	}
	keepAll(p)
	c, err := client.Connect(t.Context(), client.Options{URL: p.URL, Channels: []string{"c0", "c1"}, Rows: planttest.Length, Latency: 20 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close(t.Context()) }()
	rng := rand.New(rand.NewPCG(19, 7))
	var ends []kill
	total, before, sent := streams*sequences, uint64(0), 0
	publish := func() {
		item := client.Samples{Stream: fmt.Sprint("m", sent%streams)}
		sent++
		step := .1 + .9*rng.Float64()
		for j := range planttest.Length {
			item.X = append(item.X, float32(math.Sin(step*float64(j))), float32(math.Cos(step*float64(j))))
		}
		if err := c.Publish(t.Context(), item); err != nil {
			t.Fatal(err)
		}
	}
	for i := range total {
		if n := len(ends); n < kills && i >= (2*n+1)*total/(2*kills) { // while work is pending: alarms were written since the previous kill
			p.Await("the alarms to be written", func() bool { return lastWritten(p, "eusn") > before })
			ends = append(ends, killNamed(p, []string{"keeper", "stage", "nats", "keeper", "stage", "nats", "standby"}[n%7]))
			p.Await("the server after a kill", func() bool { before = lastWritten(p, "eusn"); return before > 0 })
		}
		publish()
	}
	// settled returns the last message of the output, once the bucket has all messages.
	settled := func() (last uint64) {
		t.Helper()
		if err := c.Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
		p.Await("all predictions", func() bool { return p.CountPredictions("eusn") == sent })
		p.Await("the bucket to have all predictions", func() bool {
			out, err := p.JS.Stream(t.Context(), "EUSN-OUT")
			if err != nil {
				return false
			}
			last = out.CachedInfo().State.LastSeq
			return lastInBucket(p, "eusn") >= last
		})
		return last
	}
	pace := func(n int) { // the maximum rate of a stage with this many streams
		for i := range n {
			if publish(); i%10 == 9 {
				time.Sleep(10 * time.Millisecond)
			}
		}
	}
	single := max(len(oneByOne), kills/2)
	bursts, singles := settled(), len(ends)
	for i := range single {
		pace(100)
		ends = append(ends, killNamed(p, oneByOne[i%len(oneByOne)]))
		pace(200)
		settled()
	}
	troubled := settled()
	p.Await("the alarms to be taken over", func() bool { return countTakeovers(p) > 0 })
	p.Services["alarms-1"].End() // the other process continues without it
	pace((sequences + 5) / 6 * streams)
	last := settled()
	total = sent
	past := readPredictions(p, total)
	want := alarmtest.ExpectEvents(rules, past)
	p.Await("all predictions to be judged", func() bool { return lastJudged(p, "eusn") >= last })
	var got []alarm.Event
	if err := watch.ReadEvents(t.Context(), p.JS, "eusn", time.Unix(1, 0), false, func(e alarm.Event) error {
		got = append(got, e)
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if len(got) == 0 || got[0].Kind != alarm.RulesChanged {
		t.Fatalf("the log begins with %+v", got[:min(1, len(got))])
	}
	alarmtest.WantEvents(t, alarmtest.Shift(got[1:]), want)
	all := findDelays(t, past, readEntries(p))
	amid := sort.Search(total, func(i int) bool { return past[i].Position > bursts })
	calm := sort.Search(total, func(i int) bool { return past[i].Position > troubled })
	t.Logf("until the bucket has a prediction: %s without kills", summarize(all[calm:]))
	away := serverAway(ends)
	t.Logf("%d kills amid the work of the one before: %s; without the time in which there is no server: %s; nor that in which no process of alarms was started again: %s", singles,
		summarize(all[:amid]), summarize(subtract(away, past[:amid], all[:amid])), summarize(subtract(append(away, unkept(ends)...), past[:amid], all[:amid])))
	for _, what := range oneByOne {
		some, up := delaysAfter(what, ends[singles:], past[amid:calm], all[amid:calm])
		if len(some) == 0 {
			t.Errorf("no prediction behind a kill of %s", what)
			continue
		}
		t.Logf("kills of %s: %s; without the time in which there is no server: %s", what, summarize(some), summarize(up))
		if most := slices.Max(up); most > maxDelay {
			t.Errorf("after a kill of %s a prediction was not in the bucket for %v, want at most %v", what, most, maxDelay)
		}
	}
	t.Logf("%d predictions, %d events, %d kills; alarms were taken over %d times", total, len(want), len(ends), countTakeovers(p))
	if len(want) < total/20 || len(ends) != kills+single {
		t.Errorf("too little has happened: %d events, %d kills", len(want), len(ends))
	}
}

// oneByOne are programs to kill after full recovery of the others: two at the same time if two
// are named, and the server twice as soon as it listens.
var oneByOne = []string{"keeper", "standby", "stage", "nats", "nats and keeper", "nats twice"}

// maxDelay is the maximum delay of a prediction after one kill, without the time without a
// server. It is far above the intended second, because this machine may be busy, and below the
// timeout of a lost answer.
const maxDelay = 5 * time.Second

// killNamed kills the named programs.
func killNamed(p *planttest.Plant, names string) kill {
	p.T.Helper()
	e := kill{program: names}
	name := names
	if names != "stage" && !strings.HasPrefix(names, "nats") || names == "nats and keeper" {
		p.Await("one process to keep the alarms, and one to stand by", func() bool {
			name = findKeeper(p)
			return name != ""
		})
		if names == "standby" {
			name = map[string]string{"alarms-0": "alarms-1", "alarms-1": "alarms-0"}[name]
		}
	}
	e.time, e.name = time.Now(), name
	if strings.HasPrefix(names, "nats") {
		e.killServer(p)
	}
	switch names {
	case "nats":
	case "nats twice":
		p.Await("the server", func() bool { return e.down[0].end.Load() != nil })
		e.killServer(p)
	default:
		p.Services[name].Kill(false)
	}
	return e
}

// findKeeper returns the process that writes the alarm log; empty unless exactly one of two
// reports it.
func findKeeper(p *planttest.Plant) (name string) {
	for i := range 2 {
		one := fmt.Sprint("alarms-", i)
		log, err := os.ReadFile(p.Services[one].Log)
		if err != nil {
			return ""
		}
		keeps, stands := strings.LastIndex(string(log), "keeping the alarms of job"), strings.LastIndex(string(log), "this process is the standby")
		if keeps < stands {
			continue
		}
		if keeps < 0 || name != "" {
			return ""
		}
		name = one
	}
	return name
}

// countTakeovers returns how often a process has taken over the alarms.
func countTakeovers(p *planttest.Plant) (n int) {
	for i := range 2 {
		log, err := os.ReadFile(p.Services[fmt.Sprint("alarms-", i)].Log)
		if err == nil {
			n += strings.Count(string(log), "keeping the alarms of job")
		}
	}
	return n - 1
}

// lastWritten returns the number of the last message in a job's alarm log; 0 if unknown.
func lastWritten(p *planttest.Plant, job string) uint64 {
	ctx, cancel := context.WithTimeout(p.T.Context(), 5*time.Second)
	defer cancel()
	log, err := p.JS.Stream(ctx, strings.ToUpper(job)+"-ALARMS")
	if err != nil {
		return 0
	}
	return log.CachedInfo().State.LastSeq
}

// lastJudged returns the position of the newest stored state of a job's alarms; 0 if unknown.
func lastJudged(p *planttest.Plant, job string) uint64 {
	ctx, cancel := context.WithTimeout(p.T.Context(), 5*time.Second)
	defer cancel()
	log, err := p.JS.Stream(ctx, strings.ToUpper(job)+"-ALARMS")
	if err != nil {
		return 0
	}
	m, err := log.GetLastMsgForSubject(ctx, job+".alarm.record")
	var record struct {
		Position uint64 `json:"position"`
	}
	if err != nil || json.Unmarshal(m.Data, &record) != nil {
		return 0
	}
	return record.Position
}

// lastInBucket returns the position of the bucket in a job's output, as reported by the alarm
// process; 0 without a report.
func lastInBucket(p *planttest.Plant, job string) uint64 {
	m, err := p.JS.Conn().Request(job+".alarms.alive", nil, time.Second)
	var pulse struct {
		Written struct {
			Position uint64 `json:"position"`
		} `json:"written"`
	}
	if err != nil || json.Unmarshal(m.Data, &pulse) != nil {
		return 0
	}
	return pulse.Written.Position
}

// readPredictions returns the predictions of a job for an oracle.
func readPredictions(p *planttest.Plant, n int) (entries []alarmtest.Entry) {
	p.T.Helper()
	err := consumer.Read(p.T.Context(), p.JS, "eusn", consumer.Span{From: 1, Stored: true}, func(o consumer.Output) error {
		for _, one := range o.Predictions {
			entries = append(entries, alarmtest.Entry{Position: o.Seq, Stored: o.Stored.UTC(), P: one, Class: o.Meta.Labels[one.Class]})
		}
		return nil
	})
	if err != nil || len(entries) != n {
		p.T.Fatalf("%d predictions, want %d: %v", len(entries), n, err)
	}
	return entries
}
