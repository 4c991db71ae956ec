package alarms_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sort"
	"strings"
	"testing"
	"time"

	"github.com/eusn-stream/eusn-stream/client"
	"github.com/eusn-stream/eusn-stream/internal/testing/alarmtest"
	"github.com/eusn-stream/eusn-stream/internal/testing/clitest"
	"github.com/eusn-stream/eusn-stream/internal/testing/planttest"
	"github.com/eusn-stream/eusn-stream/pipeline/alarm"
	"github.com/eusn-stream/eusn-stream/pipeline/consumer"
	"github.com/eusn-stream/eusn-stream/pipeline/producer"
	"github.com/eusn-stream/eusn-stream/pipeline/watch"
)

func TestMain(m *testing.M) { planttest.Main(m) }

// TestAlarmsRun: NATS server, stage and two processes of alarms, of which one stands by,
// are killed (kill -9) while 1,000 streams are predicted. Then the alarm
// log is what an oracle says of all predictions that the job has: raised and cleared,
// each once. Then one process alone has the alarms, and nothing is killed. How long a
// prediction takes until <JOB>-LATEST has it, or a later one of its stream, is logged of
// both.
//
// EUSN_ALARMS_RUN=streams x sequences x kills is a longer run.
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
		texts += fmt.Sprintf("    %s: '%s'\n", w.Name, w.Text())
	}
	conf := clitest.Write(t, filepath.Join(p.Dir, "alarms.yaml"), texts)
	for i := range 2 {
		p.Program(fmt.Sprint("alarms-", i), "alarms", "run", "-c", conf, "--nats-url", p.URL, "--since", "1h", "--save", "500ms")
	}
	entries := follow(p)
	c, err := client.Connect(t.Context(), client.Options{URL: p.URL, Channels: []string{"c0", "c1"}, Rows: planttest.Length, Latency: 20 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close(t.Context()) }()
	rng := rand.New(rand.NewPCG(19, 7))
	victims := []string{"keeper", "stage", "nats", "keeper", "stage", "nats", "standby"}
	var ends []end
	total, before := streams*sequences, uint64(0)
	publish := func(i int) {
		item := producer.Item{Stream: fmt.Sprint("m", i%streams)}
		step := .1 + .9*rng.Float64()
		for j := range planttest.Length {
			item.X = append(item.X, float32(math.Sin(step*float64(j))), float32(math.Cos(step*float64(j))))
		}
		if err := c.Publish(t.Context(), item); err != nil {
			t.Fatal(err)
		}
	}
	for i := range total {
		if n := len(ends); n < kills && i >= (2*n+1)*total/(2*kills) { // amid the work: alarms were written since the last kill
			p.Await("the alarms to be written", func() bool { return written(p, "eusn") > before })
			what := victims[n%len(victims)]
			name := what
			if what == "keeper" || what == "standby" {
				p.Await("one process to keep the alarms, and one to stand by", func() bool {
					name = keeper(p)
					return name != ""
				})
				if what == "standby" {
					name = map[string]string{"alarms-0": "alarms-1", "alarms-1": "alarms-0"}[name]
				}
			}
			p.Services[name].Kill(false)
			ends = append(ends, end{what, time.Now()})
			p.Await("the server after a kill", func() bool { before = written(p, "eusn"); return before > 0 })
		}
		publish(i)
	}
	if err := c.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	p.Await("all predictions", func() bool { return p.Made("eusn") == total })
	p.Await("the alarms to be taken over", func() bool { return taken(p) > 0 })
	p.Services["alarms-1"].End() // the other one goes on alone
	past := predictions(p, total)
	p.Await("all predictions to be judged", func() bool { return judged(p, "eusn") >= past[len(past)-1].Position })
	troubled, more := past[len(past)-1].Position, (sequences+5)/6*streams
	for i := range more {
		if publish(i); sequences > 3 && i%10 == 9 { // what a stage with so many streams may say
			time.Sleep(10 * time.Millisecond)
		}
	}
	if err := c.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	total += more
	p.Await("the last predictions", func() bool { return p.Made("eusn") == total })
	past = predictions(p, total)
	want, last := alarmtest.Expect(rules, past), past[len(past)-1].Position
	p.Await("all predictions to be judged", func() bool { return judged(p, "eusn") >= last })
	var got []alarm.Event
	if err := watch.Events(t.Context(), p.JS, "eusn", time.Unix(1, 0), false, func(e alarm.Event) error {
		got = append(got, e)
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if len(got) == 0 || got[0].Kind != alarm.RulesChanged {
		t.Fatalf("the log begins with %+v", got[:min(1, len(got))])
	}
	alarmtest.Same(t, alarmtest.Shift(got[1:]), want)
	p.Await("the bucket to have all predictions", func() bool { return len(delays(past, entries())) == total })
	all := delays(past, entries())
	calm := sort.Search(total, func(i int) bool { return past[i].Position > troubled })
	t.Logf("until the bucket has a prediction: %s under kills, %s without", spread(all[:calm]), spread(all[calm:]))
	for _, what := range []string{"keeper", "standby", "stage", "nats"} {
		if some := after(what, ends, past[:calm], all[:calm]); len(some) > 0 {
			t.Logf("until the next kill, after that of %s: %s", what, spread(some))
		}
	}
	t.Logf("%d predictions, %d events, %d kills; alarms were taken over %d times", total, len(want), len(ends), taken(p))
	if len(want) < total/20 || len(ends) != kills {
		t.Errorf("too little has happened: %d events, %d kills", len(want), len(ends))
	}
}

// keeper is the process that keeps the alarms; empty where not exactly one of two says so.
func keeper(p *planttest.Plant) (name string) {
	for i := range 2 {
		one := fmt.Sprint("alarms-", i)
		log, err := os.ReadFile(p.Services[one].Log)
		if err != nil {
			return ""
		}
		keeps, stands := strings.LastIndex(string(log), "keeping the alarms of job"), strings.LastIndex(string(log), "this one stands by")
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

// taken is how often one process has gone on where another one kept the alarms.
func taken(p *planttest.Plant) (n int) {
	for i := range 2 {
		log, err := os.ReadFile(p.Services[fmt.Sprint("alarms-", i)].Log)
		if err == nil {
			n += strings.Count(string(log), "keeping the alarms of job")
		}
	}
	return n - 1
}

// written is the number of the last message of a job's alarm log; 0 where it is not
// known.
func written(p *planttest.Plant, job string) uint64 {
	ctx, cancel := context.WithTimeout(p.T.Context(), 5*time.Second)
	defer cancel()
	log, err := p.JS.Stream(ctx, strings.ToUpper(job)+"-ALARMS")
	if err != nil {
		return 0
	}
	return log.CachedInfo().State.LastSeq
}

// judged is how far the state of a job's alarms is that was stored last; 0 where it is
// not known.
func judged(p *planttest.Plant, job string) uint64 {
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

// predictions are those that a job has made, as an oracle wants them.
func predictions(p *planttest.Plant, n int) (all []alarmtest.Happened) {
	p.T.Helper()
	err := consumer.Read(p.T.Context(), p.JS, "eusn", consumer.Span{From: 1, Stored: true}, func(o consumer.Output) error {
		for _, one := range o.Predictions {
			all = append(all, alarmtest.Happened{Position: o.Seq, Stored: o.Stored.UTC(), P: one, Class: o.Meta.Labels[one.Class]})
		}
		return nil
	})
	if err != nil || len(all) != n {
		p.T.Fatalf("%d predictions, want %d: %v", len(all), n, err)
	}
	return all
}
