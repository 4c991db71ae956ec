package fleet

import (
	"strings"
	"testing"
	"time"

	"github.com/eusn-stream/eusn-stream/pipeline"
)

// healthyReport returns the report of a job of four partitions and a worker, up to date.
func healthyReport() *Report {
	now := time.Unix(1e9, 0)
	r := &Report{
		Form: Form, Job: "eusn", Time: now, Lag: Lag{Answered: .42, Arrived: .4},
		Processes:  []Process{{Role: RoleStage, Host: "a", PID: 3, Stage: &Stage{Worker: "w", Ready: true, Phases: map[string]int{"reading": 4}}}},
		Partitions: Partitions{Count: 4, Phases: map[string]int{"reading": 4}},
	}
	for i := range 4 {
		r.Partitions.List = append(r.Partitions.List, Partition{Partition: i, Phase: string(pipeline.Reading), Worker: "w", Epoch: 1})
	}
	return r
}

// ago returns an age for a report.
func ago(seconds float64) *float64 { return &seconds }

// setPhase sets the phase of partitions.
func (r *Report) setPhase(phase string, why string, parts ...int) {
	for _, p := range parts {
		r.Partitions.Phases[r.Partitions.List[p].Phase]--
		r.Partitions.List[p].Phase, r.Partitions.List[p].Why = phase, why
		r.Partitions.Phases[phase]++
	}
}

// TestJudge: each fault has its level, its sentence and its first step, and the most urgent finding
// is first.
func TestJudge(t *testing.T) {
	for name, c := range map[string]struct {
		hurt    func(r *Report)
		level   Level
		verdict string
		first   string // part of it
	}{
		"well":         {func(*Report) {}, OK, "4 partitions, 1 worker, up to date: last sample answered 0.4 s ago", ""},
		"silent input": {func(r *Report) { r.Lag.Arrived, r.Lag.Answered = 3*3600, 3*3600 }, OK, "4 partitions, 1 worker, up to date: no sample has arrived for 3 h", ""},
		"new":          {func(r *Report) { r.Lag.Arrived, r.Lag.Answered = -1, 2 }, OK, "4 partitions, 1 worker, up to date: no sample has arrived yet", ""},
		"some messages": {func(r *Report) { r.Lag.Messages, r.Lag.Behind = 9, ago(.2) }, OK,
			"4 partitions, 1 worker, up to date: last sample answered 0.4 s ago", ""},
		"behind": {func(r *Report) { r.Lag.Messages, r.Lag.Behind, r.Rates = 900, ago(12), Rates{Over: 10, Messages: 50} }, Attention,
			"4 partitions, 1 worker, 12 s behind: last sample answered 0.4 s ago", "another machine"},
		"far behind": {func(r *Report) { r.Lag.Messages, r.Lag.Behind = 900, ago(90) }, Problem,
			"4 partitions, 1 worker: the job is 90 s behind (900 messages or more) and answers no messages", "another machine"},
		"unusable": {func(r *Report) { r.Processes[0].Stage.Totals = Totals{Messages: 4, DeadLetters: 202} }, Problem,
			"4 partitions, 1 worker: the job answers 4 of 206 messages, 202 could not be used", "deadletter list"},
		"unusable, and one is silent": {func(r *Report) {
			r.Silent, r.Processes[0].Stage.Totals = []string{"w2"}, Totals{Messages: 4, DeadLetters: 202}
		}, Problem, "4 partitions, 1 worker: the job answers 4 of 206 messages, 202 could not be used", "deadletter list"},
		"unknown lag": {func(r *Report) { r.Lag.Unknown = 4 }, Attention,
			"4 partitions, 1 worker, unknown delay: last sample answered 0.4 s ago", "repeat the command"},
		"old, and none received": {func(r *Report) { r.Lag.Messages, r.Lag.Behind = 1, ago(8) }, Attention,
			"4 partitions, 1 worker, 8.0 s behind: last sample answered 0.4 s ago", "another machine"},
		"no worker": {func(r *Report) { r.Processes = nil; r.Lag.Messages = 1; r.setPhase(PhaseNobody, "", 0, 1, 2, 3) }, Problem,
			"4 partitions, 0 workers: no worker runs; 1 message waits to be answered, and nothing is lost", "eusn-stream run"},
		"none answers": {func(r *Report) { r.Processes, r.Silent = nil, []string{"w1", "w2"} }, Problem,
			"4 partitions, 0 workers: no worker answers, although the job's list names w1, w2", "log of these workers"},
		"one of two": {func(r *Report) { r.Silent = []string{"w2"} }, Attention, "4 partitions, 1 worker, up to date: last sample answered 0.4 s ago", "repeat the command"},
		"starting":   {func(r *Report) { r.setPhase("replaying", "", 1) }, Attention, "4 partitions, 1 worker, 3 of them read: last sample answered 0.4 s ago", "wait"},
		"nobody's":   {func(r *Report) { r.setPhase(PhaseNobody, "", 1) }, Attention, "4 partitions, 1 worker, 3 of them read: last sample answered 0.4 s ago", "lease"},
		"stopped":    {func(r *Report) { r.setPhase("stopped", "data is gone", 1, 3) }, Problem, "4 partitions, 1 worker: 2 partitions (1, 3) are stopped: data is gone", "When a partition does not work"},
		"stopped for a long reason": {func(r *Report) {
			r.setPhase("stopped", strings.Repeat("why ", 100), 1)
			r.Processes[0].Stage.Ready, r.Processes[0].Stage.Unready, r.Processes[0].Stage.Phases = false, []string{"partition 1: stopped"}, map[string]int{"reading": 3, "stopped": 1}
			r.Errors = []LogMessage{{Time: r.Time, Level: "ERROR", Text: "partition stopped: no predictions until this is fixed"}}
		}, Problem, "4 partitions, 1 worker: 1 partition (1) is stopped: " + strings.Repeat("why ", 100)[:132] + "...", "When a partition does not work"},
		"deferred":    {func(r *Report) { r.setPhase("deferred", "no space", 2) }, Problem, "4 partitions, 1 worker: 1 partition (2) is deferred, because the server refuses a request or does not answer: no space", "doctor"},
		"a full disk": {func(r *Report) { r.Partitions.List[2].Why = "publish failed" }, Problem, "4 partitions, 1 worker: 1 partition (2) is not answered, because the server stores no predictions: publish failed", "disk"},
		"two faults, the worse one first": {func(r *Report) { r.Silent = []string{"w2"}; r.setPhase("stopped", "gone", 0) }, Problem,
			"4 partitions, 1 worker: 1 partition (0) is stopped: gone", "When a partition does not work"},
		"a gateway": {func(r *Report) {
			r.Processes = append(r.Processes, Process{Role: RoleGateway, Host: "g", PID: 4, Gateway: &Gateway{HoldingBack: true, Waiting: 2}})
		}, Problem, "4 partitions, 1 worker: gateway on g (process 4) does not acknowledge devices, because the server stores no samples; 2 batches wait in its outbox", "doctor"},
		"a gateway with a full disk": {func(r *Report) {
			r.Processes = append(r.Processes, Process{Role: RoleGateway, Host: "g", PID: 4, Gateway: &Gateway{HoldingBack: true, Unwritable: true}})
		}, Problem, "4 partitions, 1 worker: gateway on g (process 4) does not acknowledge devices, because its outbox cannot be written; 0 batches wait in its outbox", "gateway.outbox"},
		"an outbox that fills": {func(r *Report) {
			r.Processes = append(r.Processes, Process{Role: RoleGateway, Host: "g", PID: 4, Gateway: &Gateway{Waiting: 263_316, Rates: Rates{Over: 10, Samples: 2500}}})
		}, Attention, "4 partitions, 1 worker, samples wait in a gateway: last sample answered 0.4 s ago", "If the outbox grows"},
		"a busy outbox": {func(r *Report) {
			r.Processes = append(r.Processes, Process{Role: RoleGateway, Host: "g", PID: 4, Gateway: &Gateway{Waiting: 2000, Rates: Rates{Over: 10, Samples: 2500}}})
		}, OK, "4 partitions, 1 worker, up to date: last sample answered 0.4 s ago", ""},
		"a gateway that refuses": {func(r *Report) {
			r.Lag.Answered, r.Lag.Arrived = -1, -1
			r.Processes = append(r.Processes, Process{Role: RoleGateway, Host: "g", PID: 4, Gateway: &Gateway{Messages: Counts{"mqtt": 5}, Refused: Counts{"tcp": 2600}}})
		}, Attention, "4 partitions, 1 worker, up to date: no sample has arrived yet", "the gateway's log"},
		"few refused": {func(r *Report) {
			r.Processes = append(r.Processes, Process{Role: RoleGateway, Host: "g", PID: 4, Gateway: &Gateway{Messages: Counts{"mqtt": 5000}, Refused: Counts{"mqtt": 20}}})
		}, OK, "4 partitions, 1 worker, up to date: last sample answered 0.4 s ago", ""},
		"alarms": {func(r *Report) {
			r.Alarms = Alarms{Kept: true, On: 2, Open: 1}
			r.Processes = append(r.Processes, Process{Role: RoleAlarms, Watch: &Watch{Begun: true}})
		}, Attention, "4 partitions, 1 worker, up to date: last sample answered 0.4 s ago", "alarms list"},
		"predictions are not judged": {func(r *Report) { r.Alarms.Kept = true }, Attention, "4 partitions, 1 worker, up to date: last sample answered 0.4 s ago", "alarms run"},
		"an account":                 {func(r *Report) { r.Disk = Disk{Limit: 100e9, Used: 95e9, PerDay: 1e9} }, Attention, "4 partitions, 1 worker, up to date: last sample answered 0.4 s ago", "limit"},
		"dead letters":               {func(r *Report) { r.Processes[0].Stage.Totals = Totals{Messages: 100, DeadLetters: 50} }, Attention, "4 partitions, 1 worker: the job answers 100 of 150 messages, 50 could not be used; last sample answered 0.4 s ago", "deadletter list"},
		"dead letters, and behind": {func(r *Report) {
			r.Lag.Messages, r.Lag.Behind, r.Processes[0].Stage.Totals = 900, ago(12), Totals{Messages: 100, DeadLetters: 50}
		}, Attention, "4 partitions, 1 worker, 12 s behind: last sample answered 0.4 s ago; 50 messages could not be used", "another machine"},
		"few of them": {func(r *Report) { r.Processes[0].Stage.Totals = Totals{Messages: 1e6, DeadLetters: 50} }, OK, "4 partitions, 1 worker, up to date: last sample answered 0.4 s ago; 50 messages could not be used", ""},
		"losses":      {func(r *Report) { r.Processes[0].Stage.Totals.Losses = 1 }, Attention, "4 partitions, 1 worker, up to date: last sample answered 0.4 s ago", "max_age"},
		"an error": {func(r *Report) { r.Errors = []LogMessage{{Time: r.Time.Add(-time.Minute), Level: "ERROR", Text: "x"}} }, Attention,
			"4 partitions, 1 worker, up to date: last sample answered 0.4 s ago", "faults.md"},
		"an old error": {func(r *Report) { r.Errors = []LogMessage{{Time: r.Time.Add(-time.Hour), Level: "ERROR", Text: "x"}} }, OK,
			"4 partitions, 1 worker, up to date: last sample answered 0.4 s ago", ""},
		"not all asked": {func(r *Report) { r.Unknown = []string{"the disk: no"} }, Attention, "4 partitions, 1 worker, up to date: last sample answered 0.4 s ago", "operator"},
	} {
		t.Run(name, func(t *testing.T) {
			r := healthyReport()
			c.hurt(r)
			r.Judge(DefaultBehind)
			if r.Level != c.level || r.Verdict != c.verdict || !strings.Contains(r.First, c.first) || (c.first == "") != (r.First == "") {
				t.Errorf("%s, %q, first %q; want %s, %q, %q", r.Level, r.Verdict, r.First, c.level, c.verdict, c.first)
			}
			first, verdict, n := r.First, r.Verdict, len(r.Findings)
			if r.Judge(DefaultBehind); r.First != first || r.Verdict != verdict || len(r.Findings) != n {
				t.Errorf("judged again: %q, first %q, %d findings", r.Verdict, r.First, len(r.Findings))
			}
		})
	}
}
